"""A recorder with many lanes: its rules hold for each, and what runs in one is nothing to the others."""

import copy
import os
import time
from pathlib import Path

import numpy as np
import pytest
from faults.system import System

from gym_recording import ClosedError, TraceError, TraceRecording, TraceRecordingReader, files

NEVER = 1e9


def new(directory, **options):
    return TraceRecording(directory, **{"durability": "none", "lanes": 3, **options})


def lanes_in(directory):
    """The actions of the episodes of each lane."""
    found = {}
    for episode in sorted(TraceRecordingReader(directory, verify=True), key=lambda e: e.started or "~"):
        found.setdefault(episode.lane, []).append(episode.actions.tolist())
    return found


def play(recording, steps=2, lanes=None):
    """An episode in each lane, at once; lane n has the actions 10 n, 10 n + 1 and so on."""
    numbers = range(len(recording.lanes)) if lanes is None else lanes
    for number in numbers:
        recording.add_reset(0.0, lane=number)
    for step in range(steps):
        for number in numbers:
            recording.add_step(10 * number + step, 1.0, 0.5, lane=number)


def expected(steps=2, lanes=3, times=1):
    return {lane: [[10 * lane + step for step in range(steps)]] * times for lane in range(lanes)}


@pytest.mark.parametrize("lanes", [0, -1, 2.0, True, "3"])
def test_a_number_of_lanes_that_is_none_is_refused(tmp_path, lanes):
    with pytest.raises(TraceError, match=r"lanes.*expected a number from 1 on, or None, found"):
        new(tmp_path, lanes=lanes)


def test_episodes_of_a_recorder_with_lanes_have_their_numbers_and_others_none(tmp_path):
    with new(tmp_path / "many") as many, new(tmp_path / "one", lanes=1) as one, new(
        tmp_path / "none", lanes=None
    ) as no:
        for recording in (many, one, no):
            play(recording)
    assert lanes_in(tmp_path / "many") == expected()
    assert lanes_in(tmp_path / "one") == {0: [[0, 1]]}
    assert lanes_in(tmp_path / "none") == {None: [[0, 1]]}
    (trace,) = TraceRecordingReader(tmp_path / "many").traces
    assert trace.closed


def test_an_episode_ends_alone(tmp_path):
    with new(tmp_path) as recording:
        play(recording)
        recording.end_episode(lane=1)
        assert recording.episode_id == 1
        assert [lane.steps for lane in recording.lanes] == [2, 0, 2]
        assert recording.buffered_step_count == 6
        assert list(recording.actions) == [0, 1]  # of the first lane
        recording.add_step(99, 1.0, 0.5, lane=2)
        recording.close()
        assert recording.episode_id == 3
        with pytest.raises(ClosedError):
            recording.add_step(1, 1.0, 0.5, lane=2)
    assert lanes_in(tmp_path) == {0: [[0, 1]], 1: [[10, 11]], 2: [[20, 21, 99]]}


@pytest.mark.parametrize("options", [{"flush_interval": 0}, {"batch_bytes": 0}, {"buffer_batch_size": 1}, {}], ids=str)
def test_every_lane_is_written_by_the_rules_of_one(tmp_path, options):
    with new(tmp_path, **options) as recording:
        for _ in range(4):
            play(recording, steps=3)
    assert lanes_in(tmp_path) == expected(steps=3, times=4)


def test_flushes_of_ended_episodes_do_not_put_off_that_of_running_ones(tmp_path, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with new(tmp_path, flush_interval=30, batch_bytes=1) as recording:
        play(recording, lanes=[0, 1])
        for _ in range(4):
            now[0] += 10
            recording.end_episode(lane=1)  # is written at once
            recording.save_complete()
            play(recording, lanes=[1])
        recording.save_complete()
        assert [len(e) for e in TraceRecordingReader(tmp_path) if e.lane == 0] == [2]


def test_a_lane_is_written_when_it_has_outgrown_its_share_of_memory(tmp_path):
    row = np.zeros(1000)
    with new(tmp_path, batch_bytes=1000, lanes=100, flush_interval=NEVER) as recording:  # 2 batches each, of 200
        recording.add_reset(row, lane=7)
        for _ in range(64):
            recording.add_step(0, row, 0.0, lane=7)
        recording.save_complete()
        (episode,) = TraceRecordingReader(tmp_path)
        assert (episode.lane, episode.ended_by) == (7, None)
    assert [len(episode) for episode in TraceRecordingReader(tmp_path)] == [64]


def test_the_blocks_of_many_lanes_are_small_and_those_of_one_are_large(tmp_path):
    row = np.zeros(10_000, "uint8")
    sizes = []
    for lanes in (None, 4096):
        recording = new(tmp_path, lanes=lanes)
        recording.add_reset({"a": (row,)})
        column = recording.lane.observations.rows.children["a"].rows.children[0]
        sizes.append(column.rows.blocks[0].nbytes)
        recording.close()
    assert sizes == [1_040_000, 60_000]


def test_a_copy_has_as_many_lanes(tmp_path):
    with new(tmp_path) as recording, copy.copy(recording) as other:
        play(other)
    assert lanes_in(tmp_path) == expected()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_begins_empty_in_every_lane(tmp_path):
    with new(tmp_path) as recording:
        play(recording)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                assert [lane.steps for lane in recording.lanes] == [0, 0, 0]
                recording.add_reset(5.0, lane=2)
                recording.add_step(77, 1.0, 0.5, lane=2)
                recording.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
    assert lanes_in(tmp_path) == {0: [[0, 1]], 1: [[10, 11]], 2: [[20, 21], [77]]}


# ---- many streams in one commit


def test_the_rows_of_all_lanes_are_on_the_medium_before_any_header_has_its_name(tmp_path):
    calls = []

    def plan(call):
        calls.append((call.name, os.path.basename(call.path)))
        return call.perform()

    system = System(plan)
    with new(tmp_path, durability="fsync", lanes=40, flush_interval=NEVER) as recording:
        play(recording)
        recording.deadline = 0
        with system.installed():
            recording.flush_if_due(recording.lane)
            recording.save_complete()
    written = {name for action, name in calls if action in ("write", "writev") and name.endswith(".bin")}
    synced = [number for number, (action, name) in enumerate(calls) if action == "fsync" and name in written]
    headers = [n for n, (action, name) in enumerate(calls) if action == "replace" and ".ep" in name]
    temporaries = [
        n for n, (action, name) in enumerate(calls) if action == "fsync" and ".ep" in name and ".json" in name
    ]
    assert len(written) == len({calls[number][1] for number in synced}) == 120  # three columns each
    assert len(headers) == len(temporaries) == 40
    assert max(synced) < min(headers)
    assert max(temporaries) < min(headers)
    directory = [n for n, call in enumerate(calls) if call == ("fsync", tmp_path.name)]
    assert any(max(synced) < n < min(headers) for n in directory)
    assert any(max(headers) < n for n in directory)


@pytest.mark.parametrize("name", ["fsync", "write", "writev", "replace", "open"])
def test_a_commit_of_many_lanes_that_fails_is_repeated_and_nothing_is_missing_or_double(tmp_path, name):
    for nth in (0, 5, 50):
        directory, seen = tmp_path / str(nth), []

        def plan(call, nth=nth, seen=seen):
            if call.name == name and (".bin" in call.path or ".ep" in call.path):
                seen.append(call)
                if len(seen) == nth + 1:
                    raise OSError(28, os.strerror(28))
            return call.perform()

        with new(directory, durability="fsync", lanes=40, flush_interval=NEVER) as recording:
            play(recording)
            recording.deadline = 0
            with System(plan).installed():
                recording.flush_if_due(recording.lane)
                try:
                    recording.save_complete()
                except OSError as error:
                    assert str(directory) in str(error.filename)
                recording.save_complete()
            for number in range(40):
                recording.add_step(10 * number + 2, 1.0, 0.5, lane=number)
        assert lanes_in(directory) == expected(steps=3, lanes=40)
        assert [path for path in Path(directory).iterdir() if path.suffix == ".tmp"] == []


def test_a_vanished_stream_is_lost_alone_and_never_listed(tmp_path):
    with new(tmp_path, flush_interval=NEVER) as recording:
        play(recording)
        recording.deadline = 0
        recording.flush_if_due(recording.lane)
        recording.save_complete()
        for path in tmp_path.glob("*.ep000000001.*"):
            path.unlink()
        with pytest.raises(files.VanishedError):
            recording.close()
    assert recording.closed
    assert [entry["first"] for entry in recording.batches] == [0, 2]


@pytest.mark.parametrize("count", [0, 1, 200])
def test_files_are_synced_together_and_the_first_error_names_its_file(tmp_path, count):
    paths = [str(tmp_path / f"{number}") for number in range(count)]
    for path in paths:
        Path(path).write_bytes(b"x")
    calls = []

    def plan(call):
        calls.append((call.name, call.path))
        return call.perform()

    with System(plan).installed():
        files.sync_files(paths)
        assert sorted(path for name, path in calls if name == "fsync") == sorted(paths)
        if count:
            os.unlink(paths[-1])
            with pytest.raises(FileNotFoundError) as raised:
                files.sync_files(paths)
            assert raised.value.filename == paths[-1]
