"""The exception family: one line each, with the file, the field, what was expected and what was found."""

import copy
import pickle

import pytest

from gym_recording import ClosedError, MissingEpisodesError, MissingPackageError, TraceError
from gym_recording.errors import missing_package

FAMILY = [TraceError, MissingEpisodesError, ClosedError, MissingPackageError]


@pytest.mark.parametrize(
    "fields, text",
    [
        ({}, "wrong"),
        ({"file": "f.json"}, "f.json: wrong"),
        ({"field": "a.b"}, "a.b: wrong"),
        ({"file": "f.json", "field": "a.b"}, "f.json: a.b: wrong"),
        ({"expected": "x"}, "wrong (expected x)"),
        ({"found": "y"}, "wrong (found y)"),
        ({"file": "f", "field": "a", "expected": "x", "found": "y"}, "f: a: wrong (expected x, found y)"),
    ],
)
@pytest.mark.parametrize("kind", FAMILY)
def test_an_error_is_one_line_with_all_that_is_known(kind, fields, text):
    assert str(kind("wrong", **fields)) == text


@pytest.mark.parametrize("kind", FAMILY)
def test_every_error_is_a_trace_error_and_a_value_error(kind):
    assert issubclass(kind, TraceError)
    assert issubclass(kind, ValueError)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
@pytest.mark.parametrize("kind", FAMILY)
def test_errors_cross_process_boundaries_with_all_their_fields(kind, duplicate):
    error = kind("wrong", file="f", field="a", expected="x", found="y")
    again = duplicate(error)
    assert type(again) is kind
    assert vars(again) == vars(error)
    assert str(again) == str(error)


def test_a_field_that_is_learnt_later_is_in_the_text():
    error = TraceError("wrong")
    error.file = "f"
    assert str(error) == "f: wrong"


def test_a_missing_package_is_an_import_error_with_the_line_that_installs_it():
    error = missing_package("ml_dtypes", "the dtype bfloat16", "'gym_recording[dtypes]'")
    assert isinstance(error, ImportError)
    assert str(error) == "the dtype bfloat16 needs the package ml_dtypes: pip install 'gym_recording[dtypes]'"
