"""Views: which episodes they have, and that they are readers like any other."""

import json
import pickle
import shutil
from collections.abc import Sequence

import numpy as np
import pytest
from conftest import DATA

from gym_recording import PlaybackAgent, TraceError, TraceRecording, TraceRecordingReader
from gym_recording.format import MAX_EPISODES, write_document, write_manifest

NAN = float("nan")


def add(recording, steps, reward, terminated=False):
    recording.add_reset(0)
    for step in range(steps):
        recording.add_step(step, step, reward, terminated=terminated, truncated=False)


def record(directory, episodes, **options):
    """Records an episode for each (steps, reward), every two in a batch of their own."""
    options = {"durability": "none", "buffer_batch_size": 2, **options}
    with TraceRecording(directory, **options) as recording:
        for steps, reward in episodes:
            add(recording, steps, reward)
    return recording


def returns(reader):
    return [episode.total_reward for episode in reader]


def lengths(reader):
    return [len(episode) for episode in reader]


@pytest.fixture
def reader(tmp_path):
    record(tmp_path / "r", [(n, 1.0) for n in range(1, 11)])
    return TraceRecordingReader(tmp_path / "r")


def test_a_view_is_a_reader_of_what_fits(reader):
    view = reader.select(min_length=3, max_length=6)
    assert type(view) is TraceRecordingReader and isinstance(view, Sequence)
    assert len(view) == 4 and lengths(view) == [3, 4, 5, 6]
    assert (len(view[0]), len(view[-1]), len(view[np.int64(1)])) == (3, 6, 4)
    assert [len(episode) for episode in view[1:3]] == [4, 5]
    assert [len(episode) for episode in reversed(view)] == [6, 5, 4, 3]
    assert view.numbers.tolist() == [2, 3, 4, 5] and reader.numbers == range(10)
    assert view.summary().lengths.tolist() == [3, 4, 5, 6]
    assert view.summary().numbers.tolist() == [0, 1, 2, 3]
    assert not view.numbers.flags.writeable and not reader.select([1, 0]).numbers.flags.writeable
    assert not view.select(slice(1, 2)).numbers.flags.writeable
    assert not reader.select(slice(1, None)).numbers.flags.writeable
    assert [(len(one), len(other)) for one in view for other in view][:5] == [(3, 3), (3, 4), (3, 5), (3, 6), (4, 3)]
    for index in (4, -5, 10**30):
        with pytest.raises(IndexError, match="there is no episode"):
            view[index]
    for index in ("a", [1], None, 1.0):
        with pytest.raises(TypeError):
            view[index]
    assert len(reader) == 10
    assert repr(view) == f"TraceRecordingReader({reader.directory!r}).select(...)"


def test_views_are_selected_from_again(reader):
    view = reader.select(min_length=3).select(max_return=8.0).select(slice(1, None, 2))
    assert lengths(view) == [4, 6, 8]
    assert lengths(view.select([-1, 0])) == [4, 8]
    assert lengths(view.select(ended_by="terminated")) == []
    assert lengths(view.select(ended_by="terminated").select(min_length=1)) == []


@pytest.mark.parametrize(
    ("episodes", "expected"),
    [
        (slice(3, 5), [4, 5]),
        (slice(1, None, 4), [2, 6, 10]),
        (slice(-3, 100), [8, 9, 10]),
        (slice(1, 9, 3), [2, 5, 8]),
        ([7, -1, 0], [1, 8, 10]),
        (range(2, 4), [3, 4]),
        (np.array([1], "uint8"), [2]),
        ([], []),
        (slice(5, 5), []),
        (np.arange(10) % 3 == 0, [1, 4, 7, 10]),
    ],
)
def test_episodes_are_chosen_by_number_in_the_order_of_the_recording(reader, episodes, expected):
    assert lengths(reader.select(episodes)) == expected
    assert lengths(reader.select(min_length=1).select(episodes)) == expected


def test_any_array_of_the_summary_chooses(reader):
    summary = reader.summary()
    assert lengths(reader.select(summary.lengths % 2 == 0)) == [2, 4, 6, 8, 10]
    assert lengths(reader.select(summary.seeds == 3)) == []


def test_the_numbers_of_a_summary_are_those_of_the_view_that_was_asked(reader):
    for view in (reader, reader.select(slice(2, None)), reader.select(min_length=4).select(slice(1, None, 2))):
        summary = view.summary()
        (number,) = summary.numbers[summary.lengths == 7]
        assert len(view[int(number)]) == 7
        assert lengths(view.select([number])) == lengths(view.select(summary.lengths == 7)) == [7]
        assert lengths(reader.select([view.numbers[int(number)]])) == [7]


@pytest.mark.parametrize("how", ["missing", "no such many"])
def test_a_manifest_that_lists_more_than_memory_could_hold_is_an_error(tmp_path, how):
    name, count = "openaigym.trace.0.1-0123456789ab", MAX_EPISODES
    record(tmp_path, [(1, 1.0)])
    (manifest,) = tmp_path.glob("*.manifest.json")
    if how == "missing":
        batch = {"first": 0, "len": count, "fn": f"{name}.ep000000000.json"}
        (tmp_path / f"{name}.manifest.json").write_bytes(write_manifest([batch], {"closed": True}))
    else:
        batch = {"first": 0, "len": count, "fn": next(tmp_path.glob("*.ep*.json")).name}
        manifest.write_bytes(write_manifest([batch], {"closed": True}))
    reader = TraceRecordingReader(tmp_path)
    assert len(reader) >= count
    for episodes in (slice(0, None), slice(5, None, 2), slice(None, -1)):
        with pytest.raises(TraceError, match=r"are missing|not the episodes that the manifest lists"):
            reader.select(episodes)
    for read in (reader.summary, lambda: len(reader.transitions), lambda: PlaybackAgent(reader), lambda: reader[:]):
        with pytest.raises(TraceError):
            read()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"episodes": 3}, "episodes: cannot be chosen so"),
        ({"episodes": [0.5]}, "episodes: cannot be chosen so"),
        ({"episodes": [[1]]}, "episodes: cannot be chosen so"),
        ({"episodes": [True, False]}, r"episodes: cannot be chosen so \(expected numbers, or 10 bools"),
        ({"episodes": "all"}, "episodes: cannot be chosen so"),
        ({"episodes": [7, 0, 7]}, r"episodes: cannot be chosen so \(expected each once, found 7 twice"),
        ({"episodes": [9, -1]}, r"episodes: cannot be chosen so \(expected each once, found 9 twice"),
        ({"episodes": slice(None, None, -1)}, "episodes: cannot be chosen so .expected a step from 1 on: a view has"),
        ({"episodes": [10**30]}, "episodes: cannot be chosen so"),
        ({"ended_by": "done"}, "ended_by: unknown .expected terminated, truncated, reset, close, crash, found 'done'"),
        ({"ended_by": ["reset", 1]}, "ended_by: unknown"),
        ({"ended_by": 5}, "ended_by: unknown"),
        ({"ended_by": [np.zeros(2)]}, "ended_by: unknown"),
        ({"episodes": [[0], [1, 2]]}, "episodes: cannot be chosen so"),
        ({"min_length": "5"}, "min_length: malformed .expected a number, found '5'"),
        ({"max_length": np.arange(10)}, "max_length: malformed"),
        ({"min_return": float("nan")}, "min_return: malformed .expected a number, found nan"),
        ({"max_return": 10**400}, "max_return: malformed"),
        ({"env": 5}, "env: malformed .expected a name, found 5"),
        ({"trace": ["x"]}, "trace: malformed"),
        ({"metadata": "agent"}, "metadata: malformed .expected a dict"),
        ({"metadata": {"more": np.arange(3)}}, "metadata: cannot be written as JSON"),
    ],
)
def test_what_cannot_be_asked_is_an_error(reader, arguments, message):
    with pytest.raises(TraceError, match=message):
        reader.select(**arguments)


@pytest.mark.parametrize("episodes", [[10], [-11, 0], [2**63]])
def test_what_is_not_there_cannot_be_chosen(reader, episodes):
    with pytest.raises(IndexError, match="there is no episode"):
        reader.select(episodes)


def test_returns_that_are_no_numbers_never_fit(tmp_path):
    record(tmp_path, [(1, 1.0), (1, NAN), (1, "good"), (1, 3.0), (1, -2.0)])
    reader = TraceRecordingReader(tmp_path)
    assert returns(reader.select(min_return=-10)) == [1.0, 3.0, -2.0]
    assert returns(reader.select(max_return=10)) == [1.0, 3.0, -2.0]
    assert returns(reader.select(min_return=1.0, max_return=1.0)) == [1.0]


def test_episodes_are_chosen_by_what_ended_them(tmp_path):
    with TraceRecording(tmp_path, durability="none") as recording:
        add(recording, 1, 1.0, terminated=True)
        add(recording, 2, 1.0)
        add(recording, 3, 1.0)
    reader = TraceRecordingReader(tmp_path)
    assert lengths(reader.select(ended_by="terminated")) == [1]
    assert lengths(reader.select(ended_by=("terminated", "close"))) == [1, 3]
    assert lengths(reader.select(ended_by="crash")) == []
    old = TraceRecordingReader(DATA / "golden" / "cartpole")
    assert len(old.select(ended_by=[None])) == len(old) > 0


def test_traces_are_chosen_by_what_is_known_of_them(tmp_path):
    record(tmp_path, [(1, 1.0)], env={"id": "A-v0"}, metadata={"agent": "x", "more": [1]})
    last = record(tmp_path, [(2, 1.0)], env={"id": "B-v0"}, metadata={"agent": "y"})
    record(tmp_path, [(3, 1.0)], env={"id": "A-v0"})
    reader = TraceRecordingReader(tmp_path)
    assert lengths(reader.select(env="A-v0")) == [1, 3]
    assert lengths(reader.select(env="A")) == []
    assert lengths(reader.select(metadata={"agent": "x"})) == [1]
    assert lengths(reader.select(metadata={"agent": "x", "more": [1]})) == [1]
    assert lengths(reader.select(metadata={"agent": "x", "more": (1,)})) == [1]  # as it may be recorded
    assert lengths(reader.select(metadata={"agent": "x", "more": []})) == []
    assert lengths(reader.select(metadata={"missing": None})) == []
    assert lengths(reader.select(trace=last.file_prefix)) == [2]
    assert lengths(reader.select(reader.traces[1].numbers)) == [2]
    assert lengths(reader.select(env="A-v0", metadata={"agent": "y"})) == []


def test_what_is_asked_stays_whatever_becomes_of_the_arguments(tmp_path):
    record(tmp_path, [(1, 1.0)], metadata={"agent": "x"})
    metadata = {"agent": "x"}
    view = TraceRecordingReader(tmp_path).select(metadata=metadata, max_return=np.float32("inf"))
    metadata["agent"] = "y"
    view.refresh()
    assert lengths(view) == [1]


def test_selecting_reads_no_more_of_a_recording_than_it_must(tmp_path):
    record(tmp_path, [(1, 1.0)] * 10)
    damaged = next(tmp_path.glob("*.ep000000004.json"))
    damaged.write_text("damaged")
    reader = TraceRecordingReader(tmp_path)
    assert lengths(reader.select([0, 9])) == [1, 1]  # by number, no header but theirs
    assert len(reader.select([0, 9]).select(min_length=1)) == 2
    with pytest.raises(TraceError, match="not valid JSON"):
        reader.select(min_length=1)
    assert len(TraceRecordingReader(tmp_path, on_error="skip").select(min_length=1)) == 8


def test_a_view_can_be_pickled_with_all_that_it_asks(reader, tmp_path):
    view = reader.select(min_length=3).select([0, 1, 2])
    again, whole = pickle.loads(pickle.dumps((view, reader)))
    assert lengths(again) == [3, 4, 5] and len(whole) == 10
    with TraceRecording(tmp_path / "r", durability="none") as recording:
        add(recording, 20, 1.0)
    again.refresh()
    assert lengths(again) == [3, 4, 5] and len(whole) == 11


# ---- a recording that grows


def test_after_a_refresh_a_view_has_what_fits_then(tmp_path):
    first = TraceRecording(tmp_path, durability="none", buffer_batch_size=1)
    second = TraceRecording(tmp_path, durability="none", buffer_batch_size=1)
    add(first, 1, 1.0)
    first.save_complete()
    add(second, 2, 1.0)
    add(second, 3, 1.0)
    second.close()
    reader = TraceRecordingReader(tmp_path)
    count = len(reader)
    long, odd = reader.select(min_length=2), reader.select(reader.summary().lengths % 2 == 1)
    before = lengths(odd)
    add(first, 5, 1.0)
    add(first, 7, 1.0)
    first.close()
    assert (len(reader), lengths(long)) == (count, [2, 3])
    long.refresh()  # one look for all
    assert lengths(reader) == [1, 5, 7, 2, 3]
    assert lengths(long) == [5, 7, 2, 3]
    assert lengths(odd) == before, "those that were chosen by number stay the same ones, though they moved"


def test_named_episodes_that_a_batch_has_no_more_are_left_out(tmp_path):
    record(tmp_path, [(1, 1.0), (1, 2.0), (1, 3.0)], buffer_batch_size=3)
    record(tmp_path, [(1, 4.0)])
    reader = TraceRecordingReader(tmp_path)
    view = reader.select([0, 2])
    assert returns(view) == [1.0, 3.0]
    (path,) = (
        path for path in tmp_path.glob("*.ep000000000.json") if len(json.loads(path.read_text())["episodes"]) == 3
    )
    document = json.loads(path.read_text())
    body = {key: value for key, value in document.items() if key not in ("format", "crc32")}
    path.write_bytes(write_document(json.dumps({**body, "episodes": body["episodes"][:2]})[1:-1]))
    for manifest in tmp_path.glob("*.manifest.json"):
        manifest.unlink()
    reader.refresh()
    assert (len(reader), returns(view)) == (3, [1.0])


def test_named_episodes_that_are_gone_are_left_out(tmp_path, reader):
    view = reader.select([0, 1, 8])
    shutil.rmtree(tmp_path / "r")
    reader.refresh()
    assert (len(view), list(view)) == (0, [])
