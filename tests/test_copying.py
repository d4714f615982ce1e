"""A copy of chosen episodes equals them bit for bit, and their traces say of it what they said."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import CASES, plain

import gym_recording
from gym_recording import (
    MemoryDirectory,
    MissingEpisodesError,
    TraceError,
    TraceRecording,
    TraceRecordingReader,
    copy_episodes,
)
from gym_recording.check import check_recording
from gym_recording.format import write_manifest
from gym_recording.info import summary
from gym_recording.repair import repair_recording

DATA = Path(__file__).parent / "data"
ABOUT = ("env", "metadata")


def members(episode):
    """All of an episode, but that nobody looks at the dtype of no rows."""
    empty = {} if len(episode) else {"actions": episode.actions.shape, "rewards": episode.rewards.shape}
    return plain({**vars(episode), **empty})


def assert_copied(source, copy, numbers=None):
    assert list(check_recording(copy)) == []
    found, expected = TraceRecordingReader(copy), TraceRecordingReader(source)
    numbers = range(len(expected)) if numbers is None else numbers
    assert list(map(members, found)) == [members(expected[number]) for number in numbers]


@pytest.mark.parametrize("name", CASES)
def test_whatever_can_be_recorded_is_copied(name, record):
    source, copy = record(CASES[name], CASES[name]), MemoryDirectory()
    assert copy_episodes(source, copy) == (2, [])
    assert_copied(source, copy)


def recorded(directory, episodes=5, **options):
    """Episodes with all that an episode may have."""
    options = {"infos": True, "timestamps": True, "frames": True, "durability": "none", **options}
    with TraceRecording(directory, **options) as recording:
        recording.add_step(0, np.zeros(3, "float32"), 1.0)
        for number in range(episodes):
            about = {"seed": number, "options": {"a": (number, "b")}, "info": {"x": 1}}
            recording.add_reset(np.full(3, number, "float32"), frame=np.full((2, 4), number, "uint8"), **about)
            for step in range(number):
                info = {"even": np.float32(step)} if step % 2 else {"text": "odd", 3: None, "nested": {"a": np.ones(2)}}
                over = step == 2
                frame = None if number == 3 and step == 1 else np.full((2, 4 + number // 4 * step), step, "uint8")
                about = {"terminated": over, "truncated": False, "info": info, "frame": frame}
                recording.add_step(step, np.ones(3, "float32"), step / 2, **about)
        if episodes:
            recording.add_step(0, np.zeros(3, "float32"), 0.0)
            with pytest.raises(TraceError):
                recording.add_step(0, {1}, 0.0)
            recording.add_step(0, np.zeros(3, "float32"), 0.0, truncated=True)
    return directory


def test_all_that_is_known_of_an_episode_is_kept():
    source, copy = recorded(MemoryDirectory()), MemoryDirectory()
    assert copy_episodes(source, copy) == (6, [])
    assert_copied(source, copy)
    first, *_, last = TraceRecordingReader(copy)
    assert first.headless
    assert last.gaps == (5,)
    assert last.infos[2] == {"even": 1}


def test_lanes_are_kept(tmp_path):
    with TraceRecording(tmp_path / "a", lanes=3) as recording:
        for lane in (2, 0, 1, 2):
            recording.add_reset(lane, lane=lane)
            recording.add_step(0, lane, 0.0, lane=lane)
    copy_episodes(tmp_path / "a", tmp_path / "b")
    assert_copied(tmp_path / "a", tmp_path / "b")
    assert [episode.lane for episode in TraceRecordingReader(tmp_path / "b")] == [2, 0, 1, 2]


def test_each_trace_with_a_chosen_episode_becomes_a_trace(tmp_path):
    source = MemoryDirectory()
    about = [{"env": {"id": f"E{n}-v0", "kwargs": None}, "metadata": {"n": n}, "library": f"gym {n}"} for n in range(3)]
    for some in about:
        recorded(source, **some)
    reader = TraceRecordingReader(source)
    view = reader.select([0, 2, 3, 13, 14])
    assert copy_episodes(view, tmp_path) == (5, [])
    assert_copied(source, tmp_path, [0, 2, 3, 13, 14])
    traces = TraceRecordingReader(tmp_path).traces
    assert [(trace.env, trace.metadata, trace.writer["library"], len(trace)) for trace in traces] == [
        (about[0]["env"], about[0]["metadata"], "gym 0", 3),
        (about[2]["env"], about[2]["metadata"], "gym 2", 2),
    ]
    assert all(trace.closed for trace in traces)


def test_what_was_not_known_of_a_trace_is_not_known_of_the_copy():
    source, copy = MemoryDirectory(), MemoryDirectory()
    with TraceRecording(source) as recording:
        recording.add_reset(1)
    copy_episodes(source, copy)
    (trace,) = TraceRecordingReader(copy).traces
    assert (trace.env, trace.metadata, "library" in trace.writer) == ({}, None, False)


def test_large_recordings_become_several_batches():
    source, copy = MemoryDirectory(), MemoryDirectory()
    with TraceRecording(source) as recording:
        for number in range(8):
            recording.add_reset(np.full(1_000_000, number, "uint16"))
            recording.add_step(0, np.full(1_000_000, number, "uint16"), 0.0)
    copy_episodes(source, copy)
    assert_copied(source, copy)
    assert len([name for name in copy.files if name.endswith(".bin")]) == 4


def test_an_episode_that_runs_is_left_out_and_named(tmp_path):
    recording = TraceRecording(tmp_path / "a", flush_interval=0, durability="none")
    for number in range(2):
        recording.add_reset(number)
        recording.add_step(0, number, 1.0)
    recording.save_complete()
    assert copy_episodes(tmp_path / "a", tmp_path / "b") == (1, [1])
    recording.close()
    assert_copied(tmp_path / "a", tmp_path / "b", [0])


def test_nothing_chosen_is_nothing_written(tmp_path):
    source = recorded(MemoryDirectory())
    assert copy_episodes(TraceRecordingReader(source).select(min_length=1000), tmp_path) == (0, [])
    assert list(tmp_path.iterdir()) == []
    assert copy_episodes(tmp_path, MemoryDirectory()) == (0, [])


def test_a_destination_that_holds_a_recording_is_refused(tmp_path):
    recorded(tmp_path)
    for source in (tmp_path, recorded(MemoryDirectory())):
        with pytest.raises(TraceError, match="something is recorded here; copy to another directory"):
            copy_episodes(source, tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    copy_episodes(tmp_path, tmp_path / "other")
    assert_copied(tmp_path, tmp_path / "other")


def test_what_is_missing_is_said_before_anything_is_written(tmp_path):
    source = recorded(MemoryDirectory())
    del source.files[sorted(name for name in source.files if name.endswith(".bin"))[-1]]
    with pytest.raises(MissingEpisodesError):
        copy_episodes(source, tmp_path)
    assert list(tmp_path.iterdir()) == []
    with TraceRecordingReader(source, on_error="skip") as reader:
        assert copy_episodes(reader, tmp_path) == (len(reader), [])


OLD = sorted(path for path in (DATA / "golden").rglob("*") if path.is_dir() and list(path.glob("*.manifest.json")))


@pytest.mark.parametrize("directory", OLD, ids=lambda path: path.name)
def test_old_recordings_are_copied_and_nothing_is_said_of_them_that_they_do_not_say(directory, tmp_path):
    copy_episodes(directory, tmp_path)
    assert list(check_recording(tmp_path)) == []
    found, expected = list(TraceRecordingReader(tmp_path)), list(TraceRecordingReader(directory))
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected):
        for name in ("observations", "actions", "rewards") if len(one) else ("observations",):
            assert plain(getattr(one, name)) == plain(as_today(getattr(other, name)))
        assert len(one) == len(other)
        assert one.headless == other.headless
        assert (one.terminated, one.truncated, one.ended_by) == (None, None, None)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert repair_recording(str(tmp_path), force=True).done == []
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    again = MemoryDirectory()
    assert copy_episodes(tmp_path, again) == (len(found), [])
    assert_copied(tmp_path, again)
    with TraceRecordingReader(again) as reader:
        assert summary(reader)["ended_by"] == {"unknown": len(found)}


def test_a_copy_of_an_old_recording_that_was_cut_off_is_repaired_and_no_crash_invented(tmp_path):
    copy_episodes(OLD[0], tmp_path)
    (manifest,) = tmp_path.glob("*.manifest.json")
    manifest.write_bytes(write_manifest([], {}))
    assert repair_recording(str(tmp_path), force=True).failed == []
    with TraceRecordingReader(tmp_path) as reader:
        assert reader.traces[0].repaired
        assert {episode.ended_by for episode in reader} == {None}
    assert list(check_recording(tmp_path)) == []
    assert copy_episodes(tmp_path, MemoryDirectory()) == (len(reader), [])


def flip_a_bit(source):
    blob = next(name for name in source.files if name.endswith(".bin"))
    data = bytearray(source.files[blob])
    data[200] ^= 1
    source.put(blob, bytes(data))


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("used", [False, True])
def test_damage_is_not_copied_and_given_a_good_checksum(verify, used, tmp_path):
    source = recorded(MemoryDirectory())
    reader = TraceRecordingReader(source, verify=verify)
    view = reader.select(slice(2))
    if used:
        list(reader), reader.summary(), len(reader.transitions)
    flip_a_bit(source)
    for given in (source, reader, view):
        with pytest.raises(TraceError, match="crc32: damaged"):
            copy_episodes(given, tmp_path)
    assert list(tmp_path.iterdir()) == []


def as_today(value):
    """Arrays in the byte order of today; a NaN is not JSON any more, but NumPy's."""
    if isinstance(value, np.ndarray):
        return value.astype(value.dtype.newbyteorder("="))
    if isinstance(value, dict):
        return {key: as_today(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(as_today, value))
    return np.float64(value) if type(value) is float and not np.isfinite(value) else value


VERSION_2 = sorted({path.parent for path in (DATA / "version_2").rglob("*.json") if ".ep" in path.name})


@pytest.mark.parametrize("directory", VERSION_2, ids=lambda path: path.name)
def test_recordings_of_version_2_are_copied_but_for_what_has_not_ended(directory, tmp_path):
    with TraceRecordingReader(directory, on_error="skip") as reader:
        ended = [number for number, episode in enumerate(reader) if episode.ended_by is not None]
        copied = copy_episodes(reader, tmp_path)
        assert copied == (len(ended), sorted({*range(len(reader))} - {*ended}))
        assert list(check_recording(tmp_path)) == []
        assert list(map(members, TraceRecordingReader(tmp_path))) == [members(reader[number]) for number in ended]


FULL = """
import resource, sys
from gym_recording import TraceRecordingReader, copy_episodes

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    copy_episodes(sys.argv[1], sys.argv[2])
except OSError as error:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print([trace.closed for trace in TraceRecordingReader(sys.argv[2]).traces])
"""


@pytest.mark.parametrize("limit", [2_000, 5_500_000])
def test_a_copy_that_fails_is_left_as_it_is(tmp_path, limit):
    pytest.importorskip("resource")  # POSIX
    with TraceRecording(tmp_path / "a", durability="none") as recording:
        for _ in range(10):
            recording.add_reset(0)
            recording.add_step(0, np.zeros(1_000_000, "uint8"), 0.0)
        recording.add_reset(0)
        recording.add_step(0, np.zeros(6_000_000, "uint8"), 0.0)
    root = os.path.dirname(os.path.dirname(gym_recording.__file__))
    command = [sys.executable, "-W", "error", "-c", FULL, str(tmp_path / "a"), str(tmp_path / "b"), str(limit)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[False]\n", "")
    reader = TraceRecordingReader(tmp_path / "b")
    assert (len(reader) < 11, [trace.closed for trace in reader.traces]) == (True, [False])
    assert not list((tmp_path / "b").glob("*.lock"))
