"""The first difference of two episodes: which step, which field, how far apart."""

import numpy as np
import pytest
from cases import CASES, play

from gym_recording import DictColumns, Episode, MemoryDirectory, TraceRecording, TraceRecordingReader, TupleColumns
from gym_recording.difference import first_difference

NAN = float("nan")


def observed(*rows, **members):
    """An episode whose observations are these rows, as a reader gives it."""
    directory = MemoryDirectory()
    with TraceRecording(directory) as recording:
        recording.add_reset(rows[0])
        for row in rows[1:]:
            recording.add_step(0, row, 0.0)
    (episode,) = TraceRecordingReader(directory)
    return Episode(**{**vars(episode), **members})


def f4(*numbers):
    return np.array(numbers, "float32")


EQUAL = {
    "a NaN": (observed(f4(1, NAN)), observed(f4(1, -NAN))),
    "a NaN that is no array": (observed(NAN), observed(NAN)),
    "a NaN in a list": (observed("a", NAN), observed("a", NAN)),
    "a complex NaN": (observed(complex(NAN, 1)), observed(complex(NAN, 1))),
    "keys in another order": (observed({"a": 1, "b": 2}), observed({"b": 2, "a": 1})),
    "ints that became floats beside floats": (observed(1, 0.5), observed(1.0, 0.5)),
    "empty containers": (observed([], {}, ()), observed([], {}, ())),
    "large ints": (observed(2**70), observed(2**70)),
    "unknown flags": (observed(0, terminated=None), observed(0, terminated=True)),
    "infos on one side": (observed(0, infos=[{}]), observed(0)),
}


@pytest.mark.parametrize("name", EQUAL)
def test_these_are_equal(name):
    assert first_difference(*EQUAL[name]) is None


@pytest.mark.parametrize("name", CASES)
def test_whatever_can_be_recorded_equals_itself_recorded_twice(name):
    directory = MemoryDirectory()
    with TraceRecording(directory) as recording:
        play(CASES[name], recording)
        play(CASES[name], recording)
    assert first_difference(*TraceRecordingReader(directory)) is None


def text(n):
    return np.array(["a", "b" * n])


def structured(x, y):
    return np.array([(x, y)], [("x", "<f4"), ("y", "<i8", (2,))])


DIFFERENT = {  # the episodes; step, field, by
    "a number": (observed(f4(1, 2), f4(1, 2), f4(1, 2.5)), observed(f4(1, 2), f4(1, 2), f4(1, 2)), 1, "", 0.5),
    "at the reset": (observed(3, 4), observed(5, 4), None, "", 2),
    "the sign of zero": (observed(f4(0.0)), observed(f4(-0.0)), None, "", 0),
    "a NaN and a number": (observed(f4(NAN)), observed(f4(1)), None, "", NAN),
    "an infinity": (observed(f4(1)), observed(f4(np.inf)), None, "", np.inf),
    "a dtype": (observed(f4(1)), observed(f4(1).astype("float64")), None, "", 0),
    "a dtype of NumPy's own scalar": (observed(np.float32(1)), observed(1.0), None, "", 0),
    "a Python int and a float": (observed(1, 2), observed(1.0, 2.0), None, "", 0),
    "a shape": (observed(f4(1, 2), f4(1, 2)), observed(f4(1, 2), f4(1, 2, 3)), 0, "", None),
    "a dtype from a step on": (observed(f4(1), f4(1)), observed(f4(1), f4(1).astype("float64")), 0, "", 0),
    "ints that overflow": (observed(np.int64(-(2**63))), observed(np.int64(2**63 - 1)), None, "", 2.0**64),
    "large ints": (observed(2**70), observed(2**70 + 2**20), None, "", 2.0**20),
    "booleans": (observed(True, True), observed(True, False), 0, "", None),
    "complex numbers": (observed(1 + 1j), observed(1 + 2j), None, "", 1),
    "text": (observed("a", "b"), observed("a", "c"), 0, "", None),
    "arrays of text": (observed(text(1), text(2)), observed(text(1), text(1)), 0, "", None),
    "structures": (observed(structured(1, (1, 2))), observed(structured(1, (1, 3))), None, "", None),
    "None": (observed("a", None), observed("a", "None"), 0, "", None),
    "kinds": (observed((1, 2)), observed([1, 2]), None, "", None),
    "lengths": (observed([1]), observed([1, 2]), None, "", None),
    "one leaf of a dict": (
        observed({"a": {"b": 1}, "c": f4(1)}, {"a": {"b": 1}, "c": f4(1)}, {"a": {"b": 1}, "c": f4(2)}),
        observed({"a": {"b": 1}, "c": f4(1)}, {"a": {"b": 1}, "c": f4(1)}, {"a": {"b": 1}, "c": f4(4)}),
        1,
        ".c",
        2,
    ),
    "an item of a tuple": (observed((1, (2, 3))), observed((1, (2, 7))), None, "[1][1]", 4),
    "a key that is missing": (observed({"a": 1, "b": 2}), observed({"a": 1}), None, ".b", None),
    "a key from a step on": (observed({"a": 1}, {"a": 1}), observed({"a": 1}, {"a": 1, "b": 2}), 0, ".b", None),
    "a value in a list": (observed([1, {"x": 2}]), observed([1, {"x": 5}]), None, "[1].x", 3),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_these_differ_both_ways(name):
    expected, found, step, field, by = DIFFERENT[name]
    for one, other in ((expected, found), (found, expected)):
        difference = first_difference(one, other)
        assert (difference.step, difference.field) == (step, f"observations{field}")
        assert difference.by == pytest.approx(by, nan_ok=True) if by is not None else difference.by is None
        assert difference.expected != difference.found
    assert first_difference(expected, found, {f"observations{field}"}) is None
    assert first_difference(expected, found, {"observations"}) is None


def test_of_two_leaves_that_differ_the_earlier_is_named_and_may_be_ignored():
    expected = observed({"a": 1, "b": 1}, {"a": 2, "b": 2}, {"a": 3, "b": 3})
    found = observed({"a": 1, "b": 1}, {"a": 2, "b": 4}, {"a": 0, "b": 3})
    difference = first_difference(expected, found)
    assert (difference.step, difference.field, difference.by) == (0, "observations.b", 2)
    difference = first_difference(expected, found, {"observations.b"})
    assert (difference.step, difference.field, difference.by) == (1, "observations.a", 3)


def test_the_row_is_found_in_a_column_of_many_blocks():
    rows = np.zeros((100, 1 << 18), "uint8")
    other = rows.copy()
    other[77, 1000:1003] = 1, 9, 2
    expected = Episode(rows, np.zeros(99), np.zeros(99))
    difference = first_difference(expected, Episode(other, np.zeros(99), np.zeros(99)))
    assert (difference.step, difference.by) == (76, 9)
    assert len(str(difference)) < 250


def episode(rewards=(0.0, 0.0), infos=None, **members):
    rewards = np.array(rewards)
    return Episode(np.arange(len(rewards) + 1), np.zeros(len(rewards)), rewards, infos=infos, **members)


def test_rewards_flags_and_infos_belong_to_the_step_that_gave_them():
    difference = first_difference(episode((0.0, 1.0)), episode((0.0, 3.0)))
    assert (difference.step, difference.field, difference.by) == (1, "rewards", 2)
    difference = first_difference(episode(terminated=True), episode(terminated=False))
    assert (difference.step, difference.field, difference.by) == (1, "terminated", None)
    difference = first_difference(episode(truncated=True), episode(truncated=False))
    assert (difference.step, difference.field) == (1, "truncated")
    infos = [{}, {"episode": {"t": 1.0, "l": 4}}, {"x": 1}], [{}, {"episode": {"t": 1.5, "l": 4}}, {"x": 2}]
    difference = first_difference(episode(infos=infos[0]), episode(infos=infos[1]))
    assert (difference.step, difference.field, difference.by) == (0, "infos.episode.t", 0.5)
    difference = first_difference(episode(infos=infos[0]), episode(infos=infos[1]), {"infos.episode.t"})
    assert (difference.step, difference.field, difference.by) == (1, "infos.x", 1)
    assert first_difference(episode(infos=infos[0]), episode(infos=infos[1]), {"infos"}) is None


def test_of_a_step_the_observation_comes_first():
    expected, found = episode((0.0, 1.0)), episode((0.0, 2.0))
    found.observations[2] += 1
    assert first_difference(expected, found).field == "observations"
    found.rewards[0] = 1
    assert first_difference(expected, found).field == "rewards"


def test_a_shorter_one_is_compared_as_far_as_it_goes():
    assert first_difference(episode((0.0, 1.0), terminated=True), episode((0.0,), terminated=False)) is None
    assert first_difference(episode((0.0, 1.0)), episode((2.0,))).step == 0


def test_ints_are_no_difference_from_floats_if_the_rest_may_have_had_one():
    expected = Episode(np.arange(4), np.zeros(3), np.array([1.0, 2.0, 0.5]))
    assert first_difference(expected, Episode(np.arange(3), np.zeros(2), np.array([1, 2]))) is None
    assert first_difference(expected, Episode(np.arange(3), np.zeros(2), np.array([1, 3]))).step == 1
    assert first_difference(expected, Episode(np.arange(4), np.zeros(3), np.array([1, 2, 0]))).step == 0


def test_a_difference_is_one_line_of_text():
    difference = first_difference(*DIFFERENT["a dtype"][:2])
    assert str(difference) == (
        "at the reset: observations differs by 0 (expected float32 (1,) [1.], found float64 (1,) [1.])"
    )
    difference = first_difference(*DIFFERENT["a key that is missing"][:2])
    assert str(difference) == "at the reset: observations.b differs (expected int64 2, found nothing)"
    difference = first_difference(*DIFFERENT["a number"][:2])
    assert str(difference) == "at step 1: observations differs by 0.5 (expected [1. , 2.5], found [1., 2.])"


def test_the_byte_order_of_an_old_file_is_no_difference():
    old = Episode(np.arange(2, dtype=">f4"), np.zeros(1), np.zeros(1, ">f8"))
    new = Episode(np.arange(2, dtype="<f4"), np.zeros(1), np.zeros(1, "<f8"))
    assert first_difference(old, new) is None


def test_columns_and_lists_of_the_same_rows_are_equal():
    old = Episode([{"a": 1}, {"a": 2}], np.zeros(1), np.zeros(1))
    new = Episode(DictColumns(a=np.array([1, 2])), np.zeros(1), np.zeros(1))
    assert first_difference(old, new) is None
    new = Episode(TupleColumns((np.array([1, 2]),)), np.zeros(1), np.zeros(1))
    assert first_difference(old, new).step is None
