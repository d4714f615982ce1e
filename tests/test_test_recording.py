"""`gym_recording.test_recording`: what proves an installation passes, says little, and would notice a difference."""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import gym_recording
from gym_recording import test_recording
from gym_recording.test_recording import _compare

pytestmark = pytest.mark.skipif(not (find_spec("gym") or find_spec("gymnasium")), reason="no environments")


def test_it_passes_prints_nothing_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gym_recording.test_recording.test_trace_recording()  # as code of 2017 calls it
    capsys_out = capsys.readouterr().out
    assert capsys_out == ""
    assert os.listdir(tmp_path) == []


def test_run_as_a_program_it_prints_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "gym_recording.test_recording"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(gym_recording.__file__).parent.parent)},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert f"gym_recording {gym_recording.__version__} works with gym" in line


@pytest.mark.parametrize(
    ("expected", "found", "message"),
    [
        (np.array([1.0, 2.0]), np.array([1.0, 3.0]), r"what: recorded \[1.0, 2.0\], played back \[1.0, 3.0\]"),
        (np.array([0.0]), np.array([-0.0]), r"what: recorded \[0.0\], played back \[-0.0\]"),
        (np.array([1.0]), np.array([1]), r"what: recorded float64\[1\], played back int64\[1\]"),
        (np.zeros((2, 3)), np.zeros((3, 2)), r"what: recorded float64\[2, 3\], played back float64\[3, 2\]"),
    ],
)
def test_a_difference_is_an_assertion_error_that_says_it(expected, found, message):
    with pytest.raises(AssertionError, match=message):
        _compare("what", expected, found)


def test_equal_arrays_are_no_difference_nan_included():
    _compare("what", np.array([np.nan, 1.0]), np.array([np.nan, 1.0]))


def test_pytest_collects_it_once_when_it_is_asked_to():
    names = [name for name in vars(test_recording) if name.startswith("test")]
    assert names == ["test_trace_recording"]
