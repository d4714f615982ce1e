"""An episode and its columns, as they are read: what always holds, and what can be done with them."""

import copy
import pickle
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from cases import plain

from gym_recording import DictColumns, Episode, TraceError, TupleColumns

IMAGE = np.arange(12, dtype="uint8").reshape(3, 2, 2)
NUMBER = np.array([0.5, 1.5, 2.5])


def dict_columns():
    return DictColumns(image=IMAGE, inner=DictColumns(n=NUMBER), pair=TupleColumns((NUMBER, ["a", "b", "c"])))


def tuple_columns():
    return TupleColumns((IMAGE, dict_columns(), ["a", None, [1]]))


DICT_STEPS = [{"image": IMAGE[t], "inner": {"n": NUMBER[t]}, "pair": (NUMBER[t], "abc"[t])} for t in range(3)]
TUPLE_STEPS = [(IMAGE[t], DICT_STEPS[t], ["a", None, [1]][t]) for t in range(3)]
BOTH = pytest.mark.parametrize(
    "make, steps", [(dict_columns, DICT_STEPS), (tuple_columns, TUPLE_STEPS)], ids=["dict", "tuple"]
)

# ---- columns


@BOTH
@pytest.mark.parametrize("step", [0, 1, 2, -1, -3, np.int64(1), np.uint8(2)])
def test_a_number_gives_a_step(make, steps, step):
    assert plain(make()[step]) == plain(steps[step])


@BOTH
@pytest.mark.parametrize("step", [3, -4, 10**30])
def test_a_step_that_is_not_there_is_an_index_error(make, steps, step):
    with pytest.raises(IndexError):
        make()[step]


@BOTH
@pytest.mark.parametrize(
    "part", [slice(1, 3), slice(None), slice(None, None, -1), slice(5, 9), slice(-2, None), slice(0, 3, 2)]
)
def test_a_slice_gives_the_same_columns_of_fewer_steps(make, steps, part):
    columns = make()[part]
    assert type(columns) is type(make())
    assert len(columns) == len(steps[part])
    assert plain(list(columns)) == plain(steps[part])


@BOTH
def test_the_length_is_that_of_the_rows_and_iterating_gives_steps(make, steps):
    columns = make()
    assert len(columns) == 3
    assert plain(list(columns)) == plain(steps)
    assert plain(list(reversed(columns))) == plain(steps[::-1])
    assert plain([*zip(columns, columns)]) == plain([*zip(steps, steps)])


@BOTH
@pytest.mark.parametrize("key", [1.0, None, [0], (0, 1)])
def test_what_is_neither_number_nor_slice_nor_key_is_an_error(make, steps, key):
    with pytest.raises((TypeError, KeyError)):
        make()[key]


@BOTH
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_columns_can_be_pickled_and_copied(make, steps, protocol):
    for columns in (pickle.loads(pickle.dumps(make(), protocol)), copy.deepcopy(make()), copy.copy(make())):
        assert type(columns) is type(make())
        assert plain(columns) == plain(make())


@BOTH
def test_columns_show_what_is_in_them(make, steps):
    assert repr(make()).startswith(type(make()).__name__ + "(")
    assert "0.5" in repr(make())


def test_a_key_gives_the_stacked_rows():
    columns = dict_columns()
    assert columns["image"] is IMAGE
    assert columns["inner"]["n"] is NUMBER
    assert columns["pair"].columns[0] is NUMBER
    assert columns.get("image") is IMAGE
    assert columns.get("no") is None
    with pytest.raises(KeyError):
        columns["no"]


def test_dict_columns_are_a_mapping_by_key():
    columns = dict_columns()
    assert isinstance(columns, Mapping)
    assert isinstance(columns, dict)
    assert list(columns.keys()) == ["image", "inner", "pair"]
    assert [key for key, _ in columns.items()] == ["image", "inner", "pair"]
    assert next(iter(columns.values())) is IMAGE
    assert "image" in columns
    assert 0 not in columns
    assert {**columns}.keys() == dict(columns).keys() == columns.keys()


def test_keys_that_are_numbers_are_found_in_columns():
    columns = DictColumns({0: NUMBER, 1: IMAGE})
    assert plain(columns[0]) == plain({0: NUMBER[0], 1: IMAGE[0]})
    assert columns.columns[0] is NUMBER
    assert columns.columns[1] is IMAGE
    assert type(columns.columns) is dict
    assert type(dict_columns().columns) is dict


def test_tuple_columns_are_a_sequence_of_tuples():
    columns = tuple_columns()
    assert isinstance(columns, Sequence)
    assert columns.columns[0] is IMAGE
    assert plain(columns.columns[1]) == plain(dict_columns())


@pytest.mark.parametrize("columns", [DictColumns(a=np.zeros((0, 3))), TupleColumns((np.zeros(0),))])
def test_columns_without_rows_have_length_0_and_are_something(columns):
    assert (len(columns), list(columns)) == (0, [])
    with pytest.raises(IndexError):
        columns[0]
    assert bool(columns) == isinstance(columns, dict)  # `if obs:` asks for the keys; a sequence is false without items


# ---- episodes

ROWS = {
    "arrays": np.zeros((3, 2)),
    "lists": ["a", "b", "c"],
    "dicts": DictColumns(a=np.zeros(3)),
    "tuples": TupleColumns((np.zeros(3), ["a", "b", "c"])),
}


@pytest.mark.parametrize("kind", ROWS)
def test_an_episode_of_t_steps_has_t_plus_1_observations(kind):
    rows = ROWS[kind]
    assert len(Episode(rows, rows[:2], np.zeros(2))) == 2
    assert len(Episode(rows, rows, [0.5, None, 1], headless=True)) == 3
    assert len(Episode(rows[:1], np.zeros(0), np.zeros(0))) == 0


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize(
    "observations, actions, rewards, headless, message",
    [
        (3, 3, 2, False, r"actions: wrong number of rows \(expected 2, found 3\)"),
        (3, 1, 2, False, r"actions: wrong number of rows \(expected 2, found 1\)"),
        (2, 2, 2, False, r"observations: wrong number of rows \(expected 3, found 2\)"),
        (3, 2, 2, True, r"observations: wrong number of rows \(expected 2, found 3\)"),
        (0, 0, 0, False, r"observations: wrong number of rows \(expected 1, found 0\)"),
        (1, 1, 0, False, r"actions: wrong number of rows \(expected 0, found 1\)"),
    ],
)
def test_any_other_numbers_of_rows_are_refused(kind, observations, actions, rewards, headless, message):
    rows = ROWS[kind]
    with pytest.raises(TraceError, match=message):
        Episode(rows[:observations], rows[:actions], np.zeros(rewards), headless=headless)


def test_an_episode_without_a_step_is_an_episode():
    one = Episode(np.zeros(1), np.zeros(0), np.zeros(0))
    assert (len(one), bool(one), one.total_reward) == (0, True, 0.0)


@pytest.mark.parametrize(
    "rewards, total",
    [
        (np.array([0.5, 1.5]), 2.0),
        (np.array([1, 2]), 3.0),
        (np.array([100, 100], "int8"), 200.0),
        ([2**60, 1.5], 2.0**60 + 1.5),
    ],
)
def test_the_total_reward_is_the_sum(rewards, total):
    assert Episode(np.zeros(3), np.zeros(2), rewards).total_reward == total
    assert type(Episode(np.zeros(3), np.zeros(2), rewards).total_reward) is float


def test_what_is_not_known_is_none():
    one = Episode(np.zeros(2), np.zeros(1), np.zeros(1))
    unknown = ["terminated", "truncated", "ended_by", "seed", "options", "started", "lane", "timestamps", "infos"]
    assert {getattr(one, name) for name in unknown} == {None}
    assert (one.headless, one.gaps) == (False, ())


def test_an_episode_does_not_change_and_can_be_pickled():
    one = Episode(dict_columns(), TupleColumns((np.zeros(2),)), np.ones(2), seed=3, infos=[{}, {"a": 1}, {}])
    with pytest.raises(AttributeError):
        one.rewards = np.zeros(2)
    again = pickle.loads(pickle.dumps(one))
    assert plain({**vars(again)}) == plain({**vars(one)})
    assert repr(again) == repr(one) == "<Episode of 2 steps, ended by None>"
