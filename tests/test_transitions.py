"""Transitions and windows: one, many at once, at random; always what the episodes themselves say."""

import io
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from cases import CASES, episode, plain, play
from conftest import DATA
from hypothesis import given, settings
from hypothesis import strategies as st

import gym_recording
from gym_recording import (
    DictColumns,
    MemoryDirectory,
    MissingEpisodesError,
    TraceError,
    TraceRecording,
    TraceRecordingReader,
    TupleColumns,
    merge,
)
from gym_recording.format import write_document

RECORDINGS = sorted(path for path in (DATA / "golden").iterdir() if path.is_dir())
STREAMED = {"flush_interval": 0}
FIELDS = ("observations", "actions", "rewards", "next_observations", "terminated", "truncated")


# ---- what is expected, from the episodes alone, step by step


def true_steps(episode):
    """The steps that are transitions."""
    return [t for t in range(len(episode)) if t not in episode.gaps and (t > 0 or not episode.headless)]


def runs(episode):
    """Those steps, in lists of consecutive ones."""
    found = []
    for t in true_steps(episode):
        if found and found[-1][-1] == t - 1:
            found[-1].append(t)
        else:
            found.append([t])
    return found


def whole(episode, t):
    """A transition as a tuple of the values of its fields."""
    seen = t - episode.headless
    flags = [flag if t == len(episode) - 1 else False for flag in (episode.terminated, episode.truncated)]
    return (episode.observations[seen], episode.actions[t], episode.rewards[t], episode.observations[seen + 1], *flags)


def stacks(columns):
    """Whether columns of several episodes are of one dtype and row shape; nested ones, a dict of that."""
    first = columns[0]
    if all(isinstance(column, DictColumns) and set(column.keys()) == set(first.keys()) for column in columns):
        return {key: stacks([column.columns[key] for column in columns]) for key in first.keys()}
    if all(isinstance(column, TupleColumns) and len(column.columns) == len(first.columns) for column in columns):
        return dict(enumerate(stacks([c.columns[i] for c in columns]) for i in range(len(first.columns))))
    arrays = all(isinstance(column, np.ndarray) for column in columns)
    return arrays and len({(column.dtype, column.shape[1:]) for column in columns}) == 1


def check_stacked(part, expected):
    """What stacks is an array that can be written to, what does not is a list."""
    if isinstance(expected, dict):
        items = dict(enumerate(part)) if isinstance(part, tuple) else part
        assert set(items) == set(expected)
        for key, item in items.items():
            check_stacked(item, expected[key])
    else:
        assert isinstance(part, np.ndarray if expected else list)
        if expected:
            assert part.flags.writeable and part.flags.c_contiguous


def bits(value):
    """A value to be compared bit for bit; what order the keys of a dict have is not said."""
    if isinstance(value, dict):
        return "dict", sorted(((plain(key), bits(item)) for key, item in value.items()), key=repr)
    if isinstance(value, (bool, np.bool_)):
        return "bool", bool(value)
    if isinstance(value, (list, tuple)):
        return type(value).__name__, list(map(bits, value))
    return plain(value)


def at(part, *place):
    """The value at a place of something stacked."""
    if isinstance(part, dict):
        return {key: at(item, *place) for key, item in part.items()}
    if isinstance(part, tuple):
        return tuple(at(item, *place) for item in part)
    for index in place:
        part = part[index]
    return part


def same(one, other):
    assert [bits(value) for value in one] == [bits(value) for value in other]


def check(reader, picks=None):
    """The transitions of a reader are what its episodes say, one by one, at once, and in any order."""
    episodes = [one for one in reader if true_steps(one)]
    expected = [whole(one, t) for one in episodes for t in true_steps(one)]
    transitions = reader.transitions
    assert len(transitions) == len(expected)
    everything = transitions[:]
    assert everything._fields == FIELDS
    for number, values in enumerate(expected):
        same([at(part, number) for part in everything], values)
    if expected:
        for field, source in zip(FIELDS, ("observations", "actions", "rewards", "observations")):
            check_stacked(getattr(everything, field), stacks([getattr(one, source) for one in episodes]))
        picks = np.array(range(len(expected)) if picks is None else picks) % len(expected)
        some = transitions[picks[::-1]]
        for row, number in enumerate(picks[::-1]):
            same([at(part, row) for part in some], expected[number])
        for number in picks[:3]:
            same(transitions[number], expected[number])
    return transitions


# ---- of any values


@settings(max_examples=60)
@given(
    names=st.lists(st.sampled_from(sorted(CASES)), min_size=1, max_size=5),
    options=st.sampled_from([{}, {"buffer_batch_size": 1}, {"batch_bytes": 1000}, STREAMED]),
    picks=st.lists(st.integers(0, 10**6), max_size=20),
    mmap=st.booleans(),
)
def test_transitions_are_what_the_episodes_say_whatever_they_hold(tmp_path_factory, names, options, picks, mmap):
    directory = tmp_path_factory.mktemp("r")
    with TraceRecording(directory, durability="none", **options) as recording:
        for name in names:
            play(CASES[name], recording)
    try:
        check(TraceRecordingReader(directory, mmap=mmap), picks)
    finally:
        shutil.rmtree(directory)


def test_transitions_of_every_case_are_what_the_episodes_say(record):
    check(TraceRecordingReader(record(*CASES.values(), batch_bytes=50_000)))


@pytest.mark.parametrize("name", sorted(CASES))
def test_two_episodes_of_one_kind_stack_as_one_does(record, name):
    directory = record(CASES[name], CASES[name])
    check(TraceRecordingReader(directory))
    if "of 31 dimensions" not in name:  # windows have two more, beyond what NumPy 1 can
        check_windows(TraceRecordingReader(directory), 2, 1, True)


@pytest.mark.parametrize("directory", RECORDINGS, ids=lambda path: path.name)
def test_transitions_of_old_recordings_are_what_the_episodes_say(directory):
    reader = TraceRecordingReader(directory)
    transitions = check(reader)
    if len(transitions):
        some = transitions.sample(10, 0)
        assert isinstance(some.terminated, list) and set(some.terminated) <= {False, None}
    check_windows(reader, 3, 2, True)


def test_arrays_of_2016_in_the_order_of_fortran_are_read(tmp_path):
    name = "openaigym.trace.0.77"
    arrays = [np.asfortranarray(np.arange(12.0).reshape(4, 3) + 100 * n) for n in range(2)]
    blob, episodes = io.BytesIO(), []
    for observations in arrays:
        values = {"observations": observations, "actions": np.arange(3) + observations[0, 0], "rewards": np.ones(3)}
        records = {}
        for key, array in values.items():
            records[key] = {"__type": "ndarray", "shape": array.shape, "dtype": array.dtype.name}
            records[key].update(npyfile=f"{name}.ep000000000.bin", npyoff=blob.tell())
            np.save(blob, array)
        episodes.append(records)
    (tmp_path / f"{name}.ep000000000.bin").write_bytes(blob.getvalue())
    (tmp_path / f"{name}.ep000000000.json").write_text(json.dumps({"episodes": episodes}))
    batches = [{"first": 0, "len": 2, "fn": f"{name}.ep000000000.json"}]
    (tmp_path / f"{name}.manifest.json").write_text(json.dumps({"batches": batches}))
    reader = TraceRecordingReader(tmp_path)
    assert reader[0].observations.flags.f_contiguous
    assert check(reader)[:].observations.tolist() == np.concatenate([arrays[0][:-1], arrays[1][:-1]]).tolist()
    check_windows(reader, 2, 1, True)


def test_episodes_may_lie_in_any_order_and_share_rows(tmp_path):
    with TraceRecording(tmp_path, durability="none") as recording:
        for first in (0, 10, 20):
            add(recording, list(range(first, first + 4)))
    (path,) = tmp_path.glob("*.ep000000000.json")
    document = json.loads(path.read_text())
    first, second, third = document["episodes"]
    document["episodes"] = [third, {**first, "rewards": second["rewards"]}, first]
    body = {key: value for key, value in document.items() if key not in ("format", "crc32")}
    path.write_bytes(write_document(json.dumps(body)[1:-1]))
    assert check(TraceRecordingReader(tmp_path))[:].actions.tolist() == [21, 22, 23, 1, 2, 3, 1, 2, 3]


# ---- a sequence


def add(recording, numbers, terminated=False, truncated=False):
    """An episode whose observations are numbers and whose actions are those that follow."""
    recording.add_reset(np.full(3, numbers[0], "float32"))
    for step, number in enumerate(numbers[1:]):
        last = step == len(numbers) - 2
        flags = {"terminated": terminated and last, "truncated": truncated and last}
        recording.add_step(number, np.full(3, number, "float32"), 0.5, **flags)
    recording.end_episode()


@pytest.fixture
def reader(tmp_path):
    with TraceRecording(tmp_path / "r", durability="none", buffer_batch_size=5) as recording:
        for first, steps in ((0, 3), (10, 0), (20, 1), (30, 5), (40, 2)):
            add(recording, list(range(first, first + steps + 1)), terminated=first != 40, truncated=first == 40)
    return TraceRecordingReader(tmp_path / "r")


ACTIONS = [1, 2, 3, 21, 31, 32, 33, 34, 35, 41, 42]


def test_transitions_are_a_sequence(reader):
    transitions = reader.transitions
    assert isinstance(transitions, Sequence)
    assert transitions[2].terminated is True and transitions[2].truncated is False
    assert len(transitions) == len(ACTIONS)
    for index in (0, 4, -1, -11, np.int64(3), np.array(5)):
        one = transitions[index]
        assert (int(one.actions), one.observations.tolist()) == (ACTIONS[index], [ACTIONS[index] - 1.0] * 3)
        assert one.next_observations.tolist() == [float(ACTIONS[index])] * 3
        assert one.rewards == 0.5
    for part in (slice(2, 5), slice(None, None, -3), slice(20, 30), slice(-4, None)):
        assert transitions[part].actions.tolist() == ACTIONS[part]
    for many in ([3, -1, 3], np.array([9, 0], "uint8"), range(4), [], np.arange(11) % 2 == 0):
        assert (
            transitions[many].actions.tolist() == np.array(ACTIONS)[np.array(many, None if len(many) else int)].tolist()
        )
    assert [int(one.actions) for one in transitions] == ACTIONS
    assert [int(one.actions) for one in reversed(transitions)] == ACTIONS[::-1]
    assert [int(one.actions) for one in transitions.__getitems__([5, 2])] == [ACTIONS[5], ACTIONS[2]]
    assert transitions[:].terminated.tolist() == [number in (3, 21, 35) for number in ACTIONS]
    assert transitions[:].truncated.tolist() == [number == 42 for number in ACTIONS]
    pairs = [(int(one.actions), int(other.actions)) for one in transitions for other in transitions]
    assert pairs == [(one, other) for one in ACTIONS for other in ACTIONS]


@pytest.mark.parametrize("index", [11, -12, [0, 11], [-12], np.array([2**63], "uint64"), 10**30])
def test_a_transition_that_is_not_there_is_an_index_error(reader, index):
    with pytest.raises(IndexError, match="there is no transition"):
        reader.transitions[index]


@pytest.mark.parametrize("index", ["a", [0.5], [[1]], [True], None, 1.5, [10**30], [1, [2, 3]]])
def test_what_is_no_index_is_an_error(reader, index):
    with pytest.raises(TraceError, match=r"transitions: cannot be chosen so \(expected numbers, or 11 bools"):
        reader.transitions[index]


class Tensor:
    """An array as PyTorch has it: `__index__` is there, whatever its shape."""

    def __init__(self, *numbers):
        self.array = np.array(numbers)
        self.ndim = self.array.ndim

    def __array__(self, dtype=None, copy=None):
        return self.array

    def __index__(self):
        return self.array.item()


@pytest.mark.parametrize("numbers", [(4,), (7, 2, 2)])
def test_arrays_of_other_libraries_are_many_indices_even_if_they_have_one(reader, numbers):
    assert reader.transitions[Tensor(*numbers)].actions.tolist() == [ACTIONS[number] for number in numbers]
    assert reader.windows(1)[Tensor(*numbers)].actions.tolist() == [[ACTIONS[number]] for number in numbers]


@pytest.mark.parametrize("n", [-1, 2.5, "x", (2, 3), None, True, 2**70])
def test_so_many_cannot_be_drawn(reader, n):
    with pytest.raises(TraceError, match=r"^n: not a number of steps \(expected (0 or more|at most [0-9]+), found"):
        reader.transitions.sample(n)
    assert len(reader.transitions.sample(np.uint8(3)).rewards) == 3


def test_samples_are_drawn_uniformly_and_by_the_seed(reader):
    transitions = reader.transitions
    many = transitions.sample(11_000, 7)
    counts = np.bincount(many.actions, minlength=43)
    assert sorted(np.flatnonzero(counts)) == ACTIONS
    assert 800 < counts[ACTIONS].min() and counts.max() < 1200
    assert transitions.sample(50, 3).actions.tolist() == transitions.sample(50, 3).actions.tolist()
    rng = np.random.default_rng(3)
    assert transitions.sample(50, rng).actions.tolist() == transitions.sample(50, 3).actions.tolist()
    assert transitions.sample(50, rng).actions.tolist() != transitions.sample(50, 3).actions.tolist()
    assert transitions.sample(50).actions.tolist() != transitions.sample(50).actions.tolist()
    assert transitions.sample(0).observations.shape == (0, 3)


def test_what_is_given_is_nobody_elses(reader):
    first = reader.transitions[:]
    for part in first:
        part[...] = 0
    assert reader.transitions[:].actions.tolist() == ACTIONS
    assert reader[0].observations[0, 0] == 0 and reader[0].observations[1, 0] == 1


def test_values_in_lists_are_nobody_elses_either(record):
    directory = record(episode(observations=CASES["observations: lists of arrays"].observations))
    reader = TraceRecordingReader(directory)
    (value, *_) = reader.transitions[0].observations
    value[...] = 7
    assert plain(reader.transitions[0].observations) == plain(reader[0].observations[0])


def test_nothing_recorded_has_no_transitions(tmp_path):
    reader = TraceRecordingReader(tmp_path)
    assert (len(reader.transitions), list(reader.transitions), len(reader.windows(3))) == (0, [], 0)
    assert reader.transitions[[]].observations.shape == (0,)
    assert len(reader.windows(3)[:].mask) == 0
    with pytest.raises(TraceError, match="there is no transition to draw"):
        reader.transitions.sample(1)


# ---- nothing is cast


def test_what_differs_between_episodes_is_a_list_whatever_is_asked_for(record, tmp_path):
    kinds = ("float32 arrays", "float64 arrays")
    values = [np.arange(6, dtype=kind[:7]).reshape(3, 2) for kind in kinds]
    with TraceRecording(tmp_path / "r", durability="none") as recording:
        for rows in values:
            recording.add_reset({"v": rows[0], "n": 1})
            for row in rows[1:]:
                recording.add_step(row[0], {"v": row, "n": 1}, 1.0)
            recording.end_episode()
    reader = TraceRecordingReader(tmp_path / "r")
    check(reader)
    for part in (reader.transitions[:], reader.transitions[[0, 1]]):  # of the first episode alone
        assert [value.dtype for value in part.observations["v"]] == ["float32", "float32", "float64", "float64"][
            : len(part.actions)
        ]
        assert isinstance(part.observations["v"], list) and isinstance(part.actions, list)
        assert part.observations["n"].dtype == "int64" and part.rewards.dtype == "float64"
    view = reader.select([1])
    assert view.transitions[:].observations["v"].dtype == "float64"
    check(view)


def test_episodes_of_other_structure_give_lists(record):
    kinds = ("arrays of float32", "dicts", "tuples", "text", "dicts in dicts", "tuples in tuples", "dicts in tuples")
    for one in kinds:
        for other in kinds:
            check(TraceRecordingReader(record(CASES[f"observations: {one}"], CASES[f"observations: {other}"])))


def test_keys_that_are_equal_and_not_the_same_are_told_apart(tmp_path):
    keys = [1, True, 1.0, 0.0, -0.0, 1]
    with TraceRecording(tmp_path, durability="none") as recording:
        for key in keys:
            recording.add_reset({key: 0.5})
            recording.add_step(0, {key: 1.5}, 0.0)
    reader = TraceRecordingReader(tmp_path)
    for _ in range(2):  # before and after what is known without headers
        assert [[repr(next(iter(row))) for row in one.observations] for one in reader] == [
            [repr(key)] * 2 for key in keys
        ]
        assert [repr(next(iter(row))) for row in reader.transitions[:].observations] == list(map(repr, keys))
    assert reader.select([0, 5]).transitions[:].observations[1].tolist() == [0.5, 0.5]  # 1 and 1


def test_what_is_known_of_episodes_that_differ_takes_memory_for_each_and_not_for_each_pair(tmp_path):
    def taken(count):
        directory = MemoryDirectory()
        zero = np.zeros(2, "uint8")
        with TraceRecording(directory, batch_bytes=10**9, flush_interval=10**9) as recording:
            for number in range(count):
                rows = {"observations": {f"k{number}": zero}, "actions": zero[:1], "rewards": zero[:1]}
                recording.episodes.append({**rows, "ended_by": "close"})
        reader = TraceRecordingReader(directory)
        list(reader.select([0]))
        tracemalloc.start()
        try:
            assert len(reader.transitions) == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert taken(1600) < 3 * taken(800)


def test_flags_that_are_unknown_anywhere_are_lists_with_none(tmp_path):
    with TraceRecording(tmp_path, durability="none") as recording:
        add(recording, [0, 1, 2], terminated=True)
        recording.add_reset(np.zeros(3, "float32"))
        recording.add_step(1, np.zeros(3, "float32"), 0.5)
    reader = TraceRecordingReader(tmp_path)
    assert reader.transitions[:].terminated == [False, True, None]
    assert reader.transitions[0].terminated is False
    assert reader.select([0]).transitions[:].terminated.tolist() == [False, True]
    assert reader.windows(2, pad=True)[:].terminated == [[False, True], [True, None], [None, None]]


def test_steps_that_are_no_transitions_are_left_out(tmp_path):
    with TraceRecording(tmp_path, durability="none") as recording:
        for number in range(4):
            recording.add_step(number, np.full(3, number, "float32"), 0.5)
            if number == 2:
                with pytest.raises(TraceError):
                    recording.add_step(7, object(), 0.5)
        recording.add_step(4, np.full(3, 4, "float32"), 0.5)
    reader = TraceRecordingReader(tmp_path)
    (one,) = reader
    assert (one.headless, one.gaps, len(one)) == (True, (3,), 5)
    transitions = check(reader)
    assert transitions[:].actions.tolist() == [1, 2, 4]
    assert transitions[:].observations[:, 0].tolist() == [0, 1, 3]
    assert check_windows(reader, 2, 1, False) == 1
    check_windows(reader, 2, 1, True)


# ---- windows


def check_windows(reader, length, stride, pad):
    """The windows of a reader are those of its episodes' runs of transitions."""
    expected = []
    for one in reader:
        for steps in runs(one):
            starts = range(0, len(steps), stride)
            expected += [(one, steps[at : at + length]) for at in starts if pad or at + length <= len(steps)]
    windows = reader.windows(length, stride, pad)
    assert len(windows) == len(expected)
    everything = windows[:]
    for number, (one, steps) in enumerate(expected):
        for row in range(length):
            assert everything.mask[number, row] == (row < len(steps))
            if row < len(steps):
                values = whole(one, steps[row])
                got = [at(part, number, row) for part in everything[:3]]
                got += [at(everything.observations, number, row + 1)]
                got += [at(part, number, row) for part in everything[3:5]]
                same(got, values)
        if number < 3:
            one_window = windows[number]
            same(list(one_window), [at(part, number) for part in everything])
            assert plain(one_window.mask) == plain(everything.mask[number])
    if not everything.mask.all():
        check_blank(everything.observations, np.concatenate([everything.mask[:, :1], everything.mask], 1))
        for part in (everything.actions, everything.rewards, everything.terminated, everything.truncated):
            check_blank(part, everything.mask)
    return len(expected)


def check_blank(part, mask):
    """Padding is zeros, or None."""
    if isinstance(part, (dict, tuple)):
        for item in part.values() if isinstance(part, dict) else part:
            check_blank(item, mask)
    elif isinstance(part, list):
        assert all(part[row][column] is None for row, column in zip(*np.nonzero(~mask)))
    else:
        assert plain(part[~mask]) == plain(np.zeros_like(part[~mask]))


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("length", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("stride", [1, 2, 7])
def test_windows_never_cross_episodes(reader, length, stride, pad):
    check_windows(reader, length, stride, pad)


def test_windows_are_a_sequence_of_pieces_of_episodes(reader):
    windows = reader.windows(2)
    assert [window.actions.tolist() for window in windows] == [
        [1, 2],
        [2, 3],
        [31, 32],
        [32, 33],
        [33, 34],
        [34, 35],
        [41, 42],
    ]
    one = windows[-1]
    assert one.observations[:, 0].tolist() == [40, 41, 42]
    assert one.mask.tolist() == [True, True] and one.truncated.tolist() == [False, True]
    some = windows.sample(9, 0)
    assert some.observations.shape == (9, 3, 3) and some.actions.shape == (9, 2) and some.mask.all()
    padded = reader.windows(3, stride=3, pad=True)
    assert padded[:].actions.tolist() == [[1, 2, 3], [21, 0, 0], [31, 32, 33], [34, 35, 0], [41, 42, 0]]
    assert padded[3].mask.tolist() == [True, True, False]
    assert padded[3].observations[:, 0].tolist() == [33, 34, 35, 0]
    assert padded[1:3].rewards.tolist() == [[0.5, 0, 0], [0.5, 0.5, 0.5]]
    with pytest.raises(IndexError, match="there is no window 5: 5 are there"):
        padded[5]


@pytest.mark.parametrize(
    ("arguments", "field"), [((0,), "length"), ((2, 0), "stride"), ((1.5,), "length"), ((True,), "length")]
)
def test_windows_have_a_length_and_a_stride(reader, arguments, field):
    with pytest.raises(TraceError, match=f"{field}: not a number of steps .expected 1 or more"):
        reader.windows(*arguments)


@pytest.mark.parametrize(("arguments", "field"), [((2**63,), "length"), ((1, 10**30), "stride")])
def test_windows_that_no_memory_could_hold_are_refused(reader, arguments, field):
    with pytest.raises(TraceError, match=f"{field}: not a number of steps .expected at most"):
        reader.windows(*arguments)
    assert len(reader.windows(2**40)) == 0
    assert reader.windows(1, 2**40)[:].actions.tolist() == [[1], [21], [31], [41]]


def test_large_rows_come_as_small_ones_do(tmp_path):
    frames = np.random.default_rng(0).integers(0, 255, (21, 80, 80), dtype="uint8")
    with TraceRecording(tmp_path, durability="none", buffer_batch_size=3) as recording:
        for start in range(0, 20, 5):
            recording.add_reset(frames[start])
            for step in range(start + 1, start + 6):
                recording.add_step(step, frames[step], 1.0)
    reader = TraceRecordingReader(tmp_path)
    assert len(reader.traces[0].batches) > 1
    check(reader)
    check_windows(reader, 3, 2, True)


# ---- views, refreshes, damage


def test_a_view_has_the_transitions_of_its_episodes(reader):
    view = reader.select(min_length=2)
    assert check(view)[:].actions.tolist() == [1, 2, 3, 31, 32, 33, 34, 35, 41, 42]
    assert check(view.select([-1, 0]))[:].actions.tolist() == [1, 2, 3, 41, 42]
    assert len(check(reader.select([1]))) == 0
    assert [window.actions.tolist() for window in view.select([0]).windows(3)] == [[1, 2, 3]]


def test_transitions_show_more_after_a_refresh(tmp_path):
    recording = TraceRecording(tmp_path, durability="none", flush_interval=0)
    recording.add_reset(np.zeros(3))
    for step in range(5):
        recording.add_step(step, np.full(3, step), 0.5)
    reader = TraceRecordingReader(tmp_path)
    transitions, windows, view = reader.transitions, reader.windows(2), reader.select(min_length=1)
    before = len(transitions)
    assert 0 < before <= 5
    for step in range(5, 9):
        recording.add_step(step, np.full(3, step), 0.5)
    assert transitions[:].actions.tolist() == list(range(before))
    reader.refresh()
    grown = len(transitions)
    assert before < grown and len(windows) == grown - 1 and len(view.transitions) == grown
    recording.close()
    view.refresh()
    assert transitions[:].actions.tolist() == view.transitions[:].actions.tolist() == list(range(9))
    check(reader)


@pytest.mark.parametrize("what", ["episodes", "view", "transitions", "lists"])
def test_a_loop_goes_on_over_what_was_there_when_it_began(tmp_path, what):
    with TraceRecording(tmp_path / "earlier", durability="none") as recording:
        add(recording, [70, 71, 72])
    with TraceRecording(tmp_path / "r", durability="none") as recording:
        for first in range(0, 600, 2):
            add(recording, [first, first + 1])
        if what == "lists":
            recording.add_reset("text")
            recording.add_step(600, "more", 0.5)
    reader = TraceRecordingReader(tmp_path / "r")
    view = reader.select(min_length=1) if what == "view" else reader
    seen = []
    for item in view if what in ("episodes", "view") else reader.transitions:
        seen.append(int(np.ravel(item.actions)[0]))
        if len(seen) == 3:
            merge([tmp_path / "earlier"], tmp_path / "r")
            reader.refresh()
    assert seen == [first + 1 for first in range(0, 600, 2)] + [600] * (what == "lists")
    assert len(view) == len(seen) + 1


def test_a_running_episode_whose_dtype_changes_is_read_after_a_refresh(tmp_path):
    recording = TraceRecording(tmp_path, durability="none", flush_interval=0)
    recording.add_reset(0)
    for step in range(4):
        recording.add_step(step, step, 1)
    reader = TraceRecordingReader(tmp_path)
    before = reader.transitions[:]
    recording.add_step(4, 4, 0.5)  # rewards are float64 now
    recording.add_step(5, 5, 0.5)
    recording.close()
    reader.close()
    # Of the rewards that were int64 there is no blob any more: what was known of them cannot be read.
    with pytest.raises(MissingEpisodesError, match="the blob is missing"):
        reader.transitions[:]
    assert before.rewards.tolist() == [1] * len(before.rewards)
    reader.refresh()
    assert check(reader)[:].rewards.tolist() == [1, 1, 1, 1, 0.5, 0.5]


def test_what_is_missing_is_an_error_or_left_out(tmp_path):
    with TraceRecording(tmp_path, durability="none", buffer_batch_size=1) as recording:
        for number in range(3):
            add(recording, [number, number])
    reader = TraceRecordingReader(tmp_path)
    assert reader.transitions[:].actions.tolist() == [0, 1, 2]
    os.unlink(next(tmp_path.glob("*.ep000000001.bin")))
    reader.close()
    assert reader.transitions[[0, 2]].actions.tolist() == [0, 2]
    with pytest.raises(MissingEpisodesError, match="the blob is missing"):
        reader.transitions[[0, 1]]
    with pytest.raises(MissingEpisodesError, match="the blob is missing"):
        len(TraceRecordingReader(tmp_path).transitions)
    assert check(TraceRecordingReader(tmp_path, on_error="skip"))[:].actions.tolist() == [0, 2]


def test_a_blob_that_was_cut_short_meanwhile_is_an_error(tmp_path):
    with TraceRecording(tmp_path, durability="none") as recording:
        add(recording, list(range(100)))
    for mmap in (True, False):
        reader = TraceRecordingReader(tmp_path, mmap=mmap)
        assert len(reader.transitions) == 99
        reader.close()
        blob = next(tmp_path.glob("*.bin"))
        content = blob.read_bytes()
        blob.write_bytes(content[:-8])
        with pytest.raises(TraceError, match="cut short"):
            reader.transitions[:]
        blob.write_bytes(content)


# ---- other processes


def test_transitions_and_windows_can_be_pickled_and_need_not_look_again(reader, tmp_path):
    pairs = reader.transitions, reader.windows(2), reader.select([0]).transitions
    assert [len(one) for one in pairs] == [11, 7, 3]
    transitions, windows, view = pickle.loads(pickle.dumps(pairs))
    for name in os.listdir(tmp_path / "r"):
        if name.endswith(".json"):
            os.unlink(tmp_path / "r" / name)  # they are not needed any more
    assert transitions[:].actions.tolist() == ACTIONS
    assert windows[-1].actions.tolist() == [41, 42]
    assert view[:].actions.tolist() == [1, 2, 3]


@pytest.mark.parametrize("method", sorted(set(multiprocessing.get_all_start_methods()) - {"forkserver"}))
def test_transitions_are_read_in_other_processes_at_once(reader, method):
    transitions = reader.transitions
    transitions.sample(3)  # so that files are open
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map(transitions.__getitem__, [[0, 5], [10], [3, -2]])
    assert [some.actions.tolist() for some in found] == [[1, 32], [42], [21, 41]]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX")
def test_few_files_are_open_however_many_batches_are_drawn_from(tmp_path):
    code = """
import os, resource, sys
import numpy as np
from gym_recording import TraceRecording, TraceRecordingReader
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
with TraceRecording(sys.argv[1], durability="none", buffer_batch_size=1) as recording:
    for number in range(1000):
        recording.add_reset(np.full(3, number))
        recording.add_step(number, np.full(3, number), 0.5)
reader = TraceRecordingReader(sys.argv[1])
for seed in range(20):
    some = reader.transitions.sample(256, seed)
    assert (some.observations[:, 0] == some.actions).all() and (some.next_observations[:, 2] == some.actions).all()
print(len(reader.transitions), len(os.listdir("/dev/fd")) < 128)
"""
    root = os.path.dirname(os.path.dirname(os.path.abspath(gym_recording.__file__)))
    environment = {**os.environ, "PYTHONPATH": root}
    command = [sys.executable, "-c", code, str(tmp_path / "r")]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, encoding="utf-8", timeout=120
    )
    assert done.stdout == "1000 True\n"


# ---- PyTorch


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_data_loader_of_pytorch_gives_right_batches(tmp_path, workers, method):
    data = pytest.importorskip("torch.utils.data")
    torch = pytest.importorskip("torch")
    with TraceRecording(tmp_path, durability="none", buffer_batch_size=100) as recording:
        for first in range(0, 1000, 10):
            add(recording, list(range(first, first + 8)), terminated=True)
    transitions = TraceRecordingReader(tmp_path).transitions
    options = {"num_workers": workers, "multiprocessing_context": method if workers else None}
    in_order = data.DataLoader(transitions, batch_size=256, **options)
    shuffled = data.DataLoader(transitions, batch_size=256, shuffle=True, **options)
    draw = data.BatchSampler(data.RandomSampler(transitions), 256, drop_last=False)
    at_once = data.DataLoader(transitions, batch_size=None, sampler=draw, **options)
    for loader in (in_order, shuffled, at_once):
        batches = list(loader)
        assert [len(batch.actions) for batch in batches] == [256, 256, 188]
        assert all(type(part) is torch.Tensor for batch in batches for part in batch)
        actions = torch.cat([batch.actions for batch in batches])
        if loader is in_order:
            assert actions.tolist() == transitions[:].actions.tolist()
        assert sorted(actions.tolist()) == transitions[:].actions.tolist()
        for batch in batches:
            assert batch.observations.dtype == torch.float32 and batch.rewards.dtype == torch.float64
            assert (batch.observations == batch.actions[:, None] - 1).all()
            assert (batch.next_observations == batch.actions[:, None]).all()
            assert (batch.terminated == (batch.actions % 10 == 7)).all() and not batch.truncated.any()
    windows = data.DataLoader(TraceRecordingReader(tmp_path).windows(4, pad=True), batch_size=64, **options)
    batches = list(windows)
    assert sum(len(batch.mask) for batch in batches) == 700
    assert batches[0].observations.shape == (64, 5, 3) and batches[0].mask.dtype == torch.bool


def test_dicts_and_tuples_are_collated_by_pytorch(tmp_path):
    data = pytest.importorskip("torch.utils.data")
    with TraceRecording(tmp_path, durability="none") as recording:
        recording.add_reset({"a": np.zeros(2, "float32"), "b": (0, np.zeros(3))})
        for step in range(4):
            observation = {"a": np.full(2, step, "float32"), "b": (step, np.full(3, step))}
            recording.add_step(step, observation, 0.5, terminated=False, truncated=False)
    (batch,) = data.DataLoader(TraceRecordingReader(tmp_path).transitions, batch_size=4)
    assert batch.next_observations["a"].tolist() == [[step] * 2 for step in range(4)]
    assert batch.next_observations["b"][0].tolist() == [0, 1, 2, 3]
