"""Playing back: what is there, in which order, what is missing, and for how long arrays stay valid."""

import gc
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from cases import plain

import gym_recording
import gym_recording.source
from gym_recording import (
    Episode,
    MissingEpisodesError,
    TraceError,
    TraceRecording,
    TraceRecordingReader,
    scan_recorded_traces,
)
from gym_recording.batch import encode_batch
from gym_recording.format import write_manifest

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


def record(directory, numbers, **options):
    """Records an episode of one step for each number, every one in a batch of its own; closes, and gives the prefix."""
    with TraceRecording(directory, **{"durability": "none", "buffer_batch_size": 1, **options}) as recording:
        for number in numbers:
            add(recording, number)
    return recording.file_prefix


def add(recording, number):
    recording.add_reset(np.full(3, number, "float32"))
    recording.add_step(number, np.full(3, number, "float32"), float(number))


def number_of(episode):
    assert plain(episode.observations) == plain(np.full((2, 3), episode.rewards[0], "float32"))
    assert episode.actions.tolist() == episode.rewards.tolist()
    return int(episode.actions[0])


def numbers_of(directory, **options):
    return [number_of(one) for one in TraceRecordingReader(directory, **options)]


def header(directory, number):
    (path,) = directory.glob(f"*.ep{number:09}.json")
    return path


def blob(directory, number):
    return header(directory, number).with_suffix(".bin")


def manifest(directory):
    (path,) = directory.glob("*.manifest.json")
    return path


# ---- a sequence of episodes


def test_a_reader_is_a_sequence_of_episodes(tmp_path):
    record(tmp_path, range(7))
    reader = TraceRecordingReader(tmp_path)
    assert isinstance(reader, Sequence)
    assert len(reader) == 7
    assert all(isinstance(one, Episode) for one in reader)
    for index in (0, 3, 6, -1, -7, np.int64(2)):
        assert number_of(reader[index]) == range(7)[index]
    for part in (slice(2, 5), slice(None), slice(None, None, -2), slice(-2, None), slice(5, 100), slice(4, 4)):
        assert [number_of(one) for one in reader[part]] == list(range(7))[part]
    for index in (7, -8, 10**30):
        with pytest.raises(IndexError):
            reader[index]
    assert [number_of(one) for one in reversed(reader)] == [6, 5, 4, 3, 2, 1, 0]


def test_len_reads_no_header_and_an_index_only_its_own_and_its_blob(tmp_path):
    record(tmp_path, range(7), buffer_batch_size=2)
    reader = TraceRecordingReader(tmp_path)
    for path in tmp_path.iterdir():
        if ".ep000000002." not in path.name and "manifest" not in path.name:
            path.write_bytes(b"damaged")
    blob(tmp_path, 2).rename(tmp_path / "away")
    assert len(reader) == 7
    with pytest.raises(MissingEpisodesError, match="the blob is missing"):
        reader[2]
    (tmp_path / "away").rename(blob(tmp_path, 2))
    assert [number_of(reader[index]) for index in (3, 2, -4)] == [3, 2, 3]
    assert [number_of(one) for one in reader.select(slice(2, 4))] == [2, 3]
    for index in (0, -1):
        with pytest.raises(TraceError):
            reader[index]


def test_nested_loops_are_independent(tmp_path):
    record(tmp_path, range(20))
    reader = TraceRecordingReader(tmp_path)
    found = [(number_of(one), number_of(other)) for one in reader for other in reader]
    assert found == [(one, other) for one in range(20) for other in range(20)]
    first, second = iter(reader), iter(reader)
    assert [number_of(next(first)), number_of(next(first)), number_of(next(second)), number_of(next(first))] == [
        0,
        1,
        0,
        2,
    ]


def test_a_reader_can_be_used_again_after_close(tmp_path):
    record(tmp_path, range(3))
    with TraceRecordingReader(tmp_path) as reader:
        assert [number_of(one) for one in reader] == [0, 1, 2]
    assert not reader.binfiles
    reader.close()
    assert [number_of(one) for one in reader] == [0, 1, 2]


def test_another_directory_is_looked_at_anew(tmp_path):
    """Also one whose files have the same names, after all of the first was read and known."""
    record(tmp_path / "a", range(3))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    blobs = sorted((tmp_path / "b").glob("*.bin"))
    for blob, number in zip(blobs, (5, 6, 7)):
        data = bytearray(blob.read_bytes())
        position = data.rindex(np.float64(number - 5).tobytes())
        data[position : position + 8] = np.float64(number).tobytes()
        blob.unlink()
        blob.write_bytes(data)
    reader = TraceRecordingReader(tmp_path / "a")
    view = reader.select(slice(1, None))
    assert (reader.summary().returns.tolist(), reader[1].total_reward, len(reader.transitions)) == ([0, 1, 2], 1, 3)
    reader.directory = os.fspath(tmp_path / "b")
    assert [episode.total_reward for episode in reader] == reader.summary().returns.tolist() == [5, 6, 7]
    assert reader.transitions[:].rewards.tolist() == [5, 6, 7]
    assert [episode.total_reward for episode in view] == [6, 7]


def damage(blob):
    """Damages a blob, as another file of its name: what is mapped stays as it is."""
    data = bytearray(blob.read_bytes())
    data[-1] ^= 0x40
    blob.unlink()
    blob.write_bytes(data)


@pytest.mark.parametrize("known", ["headers", "outlines"])
@pytest.mark.parametrize("again", ["close", "close and refresh", "pickle", "other maps"])
def test_a_blob_is_verified_whenever_it_is_opened(tmp_path, known, again):
    record(tmp_path, range(3))
    reader = TraceRecordingReader(tmp_path, verify=True)
    if known == "outlines":
        assert reader.transitions[:].actions.tolist() == [0, 1, 2] == reader.summary().returns.tolist()
    assert [number_of(episode) for episode in reader] == [0, 1, 2]
    damage(sorted(tmp_path.glob("*.bin"))[1])
    if again == "pickle":
        reader = pickle.loads(pickle.dumps(reader))
    elif again == "other maps":  # they have pushed it out
        reader.binfiles.clear()
        reader._source._columns.clear()
    else:
        reader.close()
        if again == "close and refresh":
            reader.refresh()
    for read in (lambda: reader[1].rewards, lambda: reader.transitions[[1]], lambda: reader[1].actions):
        with pytest.raises(TraceError, match=r"bin: .*crc32: damaged"):
            read()
    assert number_of(reader[0]) == 0 and number_of(reader[2]) == 2


def test_each_map_is_verified_once(tmp_path, monkeypatch):
    record(tmp_path, range(3))
    found = []
    real = gym_recording.source.crc32
    monkeypatch.setattr(gym_recording.source, "crc32", lambda data: found.append(len(data)) or real(data))
    reader = TraceRecordingReader(tmp_path, verify=True)
    for _ in range(3):
        assert [number_of(episode) for episode in reader] == [0, 1, 2]
        assert len(reader.transitions[:].actions) == len(reader.summary()) == 3
        reader.refresh()
    assert len(found) == 3


def test_a_growing_blob_is_verified_as_the_header_says_that_is_read_with_it(tmp_path):
    with TraceRecording(tmp_path, flush_interval=1e-9, durability="none") as recording:
        recording.add_reset(0.0)
        recording.add_step(0, 1.0, 0.0)
        recording.add_step(1, 2.0, 0.0)
        recording.save_complete()  # waits for what is written beside the loop
        reader = TraceRecordingReader(tmp_path, verify=True)
        before = len(reader[0])
        recording.add_step(2, 3.0, 0.0)
        recording.add_step(3, 4.0, 0.0)
        recording.save_complete()
        reader.refresh()
        assert len(reader[0]) == before + 2 and len(reader.transitions) == before + 2
        for blob in tmp_path.glob("*.bin"):
            damage(blob)
        recording.add_step(4, 5.0, 0.0)
        recording.save_complete()
        reader.refresh()
        with pytest.raises(TraceError, match="damaged"):
            reader[0]
        recording.closed = True  # its files are not what it wrote


@pytest.mark.parametrize("options", [{}, {"verify": True}, {"mmap": False}, {"on_error": "skip"}])
def test_all_options_read_the_same(tmp_path, options):
    record(tmp_path, range(5), buffer_batch_size=2)
    assert numbers_of(tmp_path, **options) == [0, 1, 2, 3, 4]
    assert TraceRecordingReader(tmp_path, **options).errors == []


def test_an_unknown_option_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"on_error: unknown \(expected \"raise\" or \"skip\", found 'ignore'\)"):
        TraceRecordingReader(tmp_path, on_error="ignore")


@pytest.mark.parametrize(
    "form", [str, Path, os.fsencode, lambda path: f"{path}{os.sep}"], ids=["str", "Path", "bytes", "slash"]
)
def test_a_directory_may_be_given_in_every_form(tmp_path, form):
    record(tmp_path / "caf\xe9 [1]", [1, 2])
    directory = form(tmp_path / "caf\xe9 [1]")
    assert numbers_of(directory) == [1, 2]
    assert TraceRecordingReader(directory).directory == os.fsdecode(directory)
    assert scan_recorded_traces(directory) == 2


@pytest.mark.parametrize("make", [lambda path: None, os.mkdir], ids=["missing", "empty"])
def test_a_directory_without_anything_has_no_episodes(tmp_path, make):
    make(tmp_path / "nothing")
    reader = TraceRecordingReader(tmp_path / "nothing")
    assert (len(reader), list(reader), reader.traces, reader.errors, reader.get_recorded_batches()) == (
        0,
        [],
        [],
        [],
        [],
    )
    assert scan_recorded_traces(tmp_path / "nothing", pytest.fail) == 0


def test_a_file_is_no_recording(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        len(TraceRecordingReader(tmp_path / "file"))


def test_other_files_are_ignored(tmp_path):
    prefix = record(tmp_path, [1, 2])
    for name in (
        "expected.json",
        f".{prefix}.manifest.json.0123456789ab.tmp",
        f"{prefix}.notes.txt",
        "openaigym.video.0.mp4",
    ):
        (tmp_path / name).write_bytes(b"\0")
    (tmp_path / "openaigym.trace.9.9.ep000000000.bin").write_bytes(b"a blob without a header: a crash left it")
    (tmp_path / "directory").mkdir()
    assert numbers_of(tmp_path) == [1, 2]


def test_recordings_can_be_moved_and_copied(tmp_path):
    record(tmp_path / "here", [1, 2])
    shutil.copytree(tmp_path / "here", tmp_path / "copy")
    shutil.move(str(tmp_path / "here"), str(tmp_path / "there"))
    assert numbers_of(tmp_path / "copy") == numbers_of(tmp_path / "there") == [1, 2]


def test_a_trace_says_what_its_manifest_says(tmp_path):
    record(tmp_path, [1, 2], metadata={"note": ["caf\xe9"]}, env={"id": "Tiny-v0"}, library="gym 0.26.2")
    (trace,) = TraceRecordingReader(tmp_path).traces
    assert (len(trace), trace.closed, trace.metadata, trace.env) == (2, True, {"note": ["caf\xe9"]}, {"id": "Tiny-v0"})
    assert manifest(tmp_path).name == f"{trace.name}.manifest.json"
    assert trace.writer["package"] == f"gym_recording {gym_recording.__version__}"
    assert (trace.writer["library"], trace.writer["pid"]) == ("gym 0.26.2", os.getpid())
    assert trace.created.endswith("Z")


# ---- order


def write_trace(directory, name, numbers, created=None):
    """A trace of any name, with a batch for every number."""
    batches = []
    for first, number in enumerate(numbers):
        row = np.full((2, 3), number, "float32")
        one = {
            "observations": row,
            "actions": np.array([number]),
            "rewards": np.array([float(number)]),
            "ended_by": "close",
        }
        encoded = encode_batch([one], first, f"{name}.ep{first:09}.bin")
        (directory / f"{name}.ep{first:09}.bin").write_bytes(b"".join(map(bytes, encoded.blob)))
        (directory / f"{name}.ep{first:09}.json").write_bytes(encoded.header)
        batches.append({"first": first, "len": 1, "fn": f"{name}.ep{first:09}.json"})
    (directory / f"{name}.manifest.json").write_bytes(write_manifest(batches, {"created": created}))


A, B, C = (f"-{digits * 12}" for digits in "abc")


@pytest.mark.parametrize(
    "traces",
    [
        [("2.5" + A, "2026-01-01T00:00:00.000000Z"), ("10.5" + A, "2026-01-01T00:00:00.000000Z")],
        [("0.9" + A, "2026-01-01T00:00:00.000000Z"), ("0.10" + A, "2026-01-01T00:00:00.000000Z")],
        [("9.9" + C, "2026-01-01T00:00:00.000000Z"), ("0.1" + A, "2026-01-01T00:00:00.000001Z")],
        [
            ("9.9" + C, "2025-12-31T23:59:59.999999Z"),
            ("0.1" + A, "2026-01-01T00:00:00.000000Z"),
            ("0.0" + B, "2026-02-01T00:00:00Z"),
        ],
        [("9.9" + C, None), ("0.1" + A, "2016-01-01T00:00:00.000000Z")],
        [("0.7" + A, None), ("0.7" + B, None), ("1.7" + A, None), ("1.10" + A, None), ("20.1" + A, None)],
    ],
)
def test_traces_come_by_creation_then_by_name_with_numbers_as_numbers(tmp_path, traces):
    for number, (name, created) in reversed(list(enumerate(traces))):
        write_trace(tmp_path, f"openaigym.trace.{name}", [10 * number, 10 * number + 1], created)
    assert numbers_of(tmp_path) == [10 * number + step for number in range(len(traces)) for step in range(2)]


def test_several_recorders_in_one_directory_come_in_the_order_in_which_they_were_made(tmp_path):
    recorders = [TraceRecording(tmp_path, durability="none", buffer_batch_size=1) for _ in range(12)]
    for number in range(24):
        add(recorders[number % 12], number)
    for recording in reversed(recorders):
        recording.close()
    assert numbers_of(tmp_path) == [number for first in range(12) for number in (first, first + 12)]


def test_batches_come_by_their_first_episode_whatever_the_manifest_says(tmp_path):
    prefix = record(tmp_path, range(12))
    entries = [{"first": n, "len": 1, "fn": f"{prefix}.ep{n:09}.json"} for n in (5, 3, 11, 0)]
    manifest(tmp_path).write_bytes(write_manifest(entries, {}))
    assert numbers_of(tmp_path) == list(range(12))


# ---- the scan


def test_a_scan_gives_every_episode_to_the_callback(tmp_path):
    record(tmp_path, range(3))
    seen = []
    assert scan_recorded_traces(tmp_path, lambda *arrays: seen.append(Episode(*arrays))) == 3
    assert [number_of(one) for one in seen] == [0, 1, 2]
    seen.clear()
    assert scan_recorded_traces(directory=tmp_path, episode_cb=lambda *arrays: seen.append(arrays), max_episodes=2) == 2
    assert len(seen) == 2


@pytest.mark.parametrize("most, count", [(None, 3), (0, 0), (-1, 0), (1, 1), (3, 3), (99, 3)])
def test_a_scan_stops_after_max_episodes(tmp_path, most, count):
    record(tmp_path, range(3))
    seen = []
    assert scan_recorded_traces(tmp_path, lambda *arrays: seen.append(arrays), most) == count
    assert len(seen) == count
    assert scan_recorded_traces(tmp_path, None, most) == count
    assert scan_recorded_traces(tmp_path, max_episodes=most) == count


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


class OnPurpose(Exception):
    pass


@pytest.mark.parametrize("error", [OnPurpose, KeyboardInterrupt, StopIteration, TraceError])
def test_an_exception_in_the_callback_passes_through_and_leaves_nothing_open(tmp_path, error):
    record(tmp_path, range(3))
    gc.collect()
    before = open_descriptors() if os.path.isdir("/proc/self/fd") else None
    raised = error("stop")
    seen = []

    def callback(observations, actions, rewards):
        seen.append(int(actions[0]))
        if len(seen) == 2:
            raise raised

    with pytest.raises(error) as caught:
        scan_recorded_traces(tmp_path, callback)
    assert caught.value is raised
    assert seen == [0, 1]
    del caught
    raised.__traceback__ = None
    gc.collect()
    assert before is None or open_descriptors() == before


def test_a_scan_gives_what_comes_before_what_is_missing(tmp_path):
    record(tmp_path, range(4))
    header(tmp_path, 2).unlink()
    seen = []
    with pytest.raises(MissingEpisodesError):
        scan_recorded_traces(tmp_path, lambda observations, actions, rewards: seen.append(int(actions[0])))
    assert seen == [0, 1]


# ---- what is missing or damaged


def remove_header(directory):
    header(directory, 2).unlink()


def remove_blob(directory):
    blob(directory, 2).unlink()


def remove_header_unlisted(directory):
    manifest(directory).unlink()
    remove_header(directory)


def remove_blob_unlisted(directory):
    manifest(directory).unlink()
    remove_blob(directory)


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 4
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


MISSING = [remove_header, remove_blob, remove_header_unlisted, remove_blob_unlisted]


@pytest.mark.parametrize("damage", MISSING)
def test_missing_episodes_are_an_error_where_they_are_reached_and_nowhere_else(tmp_path, damage):
    record(tmp_path, range(5))
    damage(tmp_path)
    reader = TraceRecordingReader(tmp_path)
    assert len(reader) == 5
    assert [number_of(reader[index]) for index in (0, 1, 3, 4, -1)] == [0, 1, 3, 4, 4]
    for _ in range(2):
        with pytest.raises(MissingEpisodesError, match=r"openaigym\.trace\..*\.ep000000002\.(json|bin): .*missing"):
            reader[2]
    with pytest.raises(MissingEpisodesError):
        reader[1:4]
    reads = iter(reader)
    assert [number_of(next(reads)), number_of(next(reads))] == [0, 1]
    with pytest.raises(MissingEpisodesError):
        next(reads)


@pytest.mark.parametrize("damage", MISSING)
def test_skipping_leaves_out_what_is_missing_and_lists_it(tmp_path, damage):
    record(tmp_path, range(5))
    damage(tmp_path)
    reader = TraceRecordingReader(tmp_path, on_error="skip")
    assert [number_of(one) for one in reader] == [0, 1, 3, 4]
    assert (len(reader), number_of(reader[2])) == (4, 3)
    (error,) = reader.errors
    assert isinstance(error, MissingEpisodesError)
    assert "ep000000002" in error.file


def test_the_episodes_that_are_missing_are_named(tmp_path):
    record(tmp_path, range(6))
    manifest(tmp_path).unlink()
    for number in (1, 2, 3):
        header(tmp_path, number).unlink()
    with pytest.raises(MissingEpisodesError, match=r"episodes 1\.\.3 are missing"):
        TraceRecordingReader(tmp_path)[1]
    assert numbers_of(tmp_path, on_error="skip") == [0, 4, 5]


def test_the_last_episodes_are_missing_if_the_manifest_lists_them(tmp_path):
    record(tmp_path, range(3))
    header(tmp_path, 2).unlink()
    assert len(TraceRecordingReader(tmp_path)) == 3
    with pytest.raises(MissingEpisodesError, match=r"episodes 2\.\.2 are missing"):
        TraceRecordingReader(tmp_path)[-1]


def rewrite_manifest(directory, **changes):
    path = manifest(directory)
    batches = json.loads(path.read_bytes())["batches"]
    batches[2].update(changes)
    path.write_bytes(write_manifest(batches, {}))


DAMAGE = {
    "a header cut short": lambda directory: cut(header(directory, 2)),
    "an empty header": lambda directory: header(directory, 2).write_bytes(b""),
    "a changed header": lambda directory: flip(header(directory, 2), 200),
    "the header of another batch": lambda directory: shutil.copy(header(directory, 1), header(directory, 2)),
    "a blob cut short": lambda directory: cut(blob(directory, 2)),
    "an empty blob": lambda directory: blob(directory, 2).write_bytes(b""),
    "another number of episodes": lambda directory: rewrite_manifest(directory, len=3),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_one_bad_batch_hides_no_other(tmp_path, name):
    record(tmp_path, range(5))
    DAMAGE[name](tmp_path)
    reader = TraceRecordingReader(tmp_path)
    good = [0, 1, 3, 4] if name != "another number of episodes" else [0, 1]
    assert [number_of(reader[index]) for index in good] == good
    with pytest.raises(TraceError, match=r"openaigym\.trace\..*\.ep000000002\.(json|bin): "):
        reader[2]
    skipping = TraceRecordingReader(tmp_path, on_error="skip")
    assert [number_of(one) for one in skipping][: len(good)] == good
    assert any("ep000000002" in error.file for error in skipping.errors)


@pytest.mark.parametrize("name", [name for name in DAMAGE if name != "another number of episodes"])
def test_one_bad_batch_hides_no_other_where_no_manifest_lists_them(tmp_path, name):
    record(tmp_path, range(5))
    DAMAGE[name](tmp_path)
    manifest(tmp_path).unlink()
    reader = TraceRecordingReader(tmp_path)
    assert (len(reader), [number_of(reader[index]) for index in (0, 1, 3, 4)]) == (5, [0, 1, 3, 4])
    with pytest.raises(TraceError):
        reader[2]
    assert numbers_of(tmp_path, on_error="skip") == [0, 1, 3, 4]


@pytest.mark.parametrize(
    "damage", [cut, lambda path: flip(path, 150), lambda path: path.write_bytes(b"{}")], ids="cut flip {}".split()
)
def test_a_damaged_manifest_hides_no_episode(tmp_path, damage):
    record(tmp_path, range(4))
    damage(manifest(tmp_path))
    reader = TraceRecordingReader(tmp_path)
    assert (len(reader), [number_of(reader[index]) for index in range(4)]) == (4, [0, 1, 2, 3])
    with pytest.raises(TraceError, match=r"\.manifest\.json: "):
        list(reader)
    skipping = TraceRecordingReader(tmp_path, on_error="skip")
    assert [number_of(one) for one in skipping] == [0, 1, 2, 3]
    (error,) = skipping.errors
    assert error.file == manifest(tmp_path).name


def test_a_manifest_that_lists_too_much_is_refused(tmp_path):
    record(tmp_path, range(4))
    for count in (2**63, 2**70):
        rewrite_manifest(tmp_path, len=count)
        with pytest.raises(TraceError):
            list(TraceRecordingReader(tmp_path))
        assert numbers_of(tmp_path, on_error="skip")[:2] == [0, 1]


@pytest.mark.parametrize(
    "entries", [["other.ep000000000.json"], ["ep000000000.json"] * 2], ids=["of another trace", "twice"]
)
def test_a_manifest_lists_every_batch_of_its_trace_once(tmp_path, entries):
    prefix = record(tmp_path, range(2))
    names = [
        f"{prefix}.{name}" if name.startswith("ep") else "openaigym.trace.0.1-00ff00ff00ff.ep000000000.json"
        for name in entries
    ]
    manifest(tmp_path).write_bytes(write_manifest([{"first": 0, "len": 1, "fn": name} for name in names], {}))
    with pytest.raises(TraceError, match=r"\.manifest\.json: not a batch of this trace, or listed twice"):
        list(TraceRecordingReader(tmp_path))


def test_batches_that_overlap_are_an_error(tmp_path):
    record(tmp_path, range(4), buffer_batch_size=2)
    record(tmp_path / "other", range(4))
    prefix = manifest(tmp_path).name[: -len(".manifest.json")]
    data = (header(tmp_path / "other", 1).read_bytes(), blob(tmp_path / "other", 1).read_bytes())
    (tmp_path / f"{prefix}.ep000000001.json").write_bytes(data[0])
    (tmp_path / f"{prefix}.ep000000001.bin").write_bytes(data[1])
    with pytest.raises(TraceError, match=r"ep000000001\.json: overlaps the batch before it"):
        list(TraceRecordingReader(tmp_path))
    assert numbers_of(tmp_path, on_error="skip") == [0, 1, 2, 3]


@POSIX
@pytest.mark.parametrize("kind", [".json", ".bin", ".manifest.json"])
@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")], ids=["fifo", "directory", "link"]
)
def test_files_that_are_none_are_an_error_and_never_waited_for(tmp_path, kind, make):
    record(tmp_path, range(3))
    path = manifest(tmp_path) if kind == ".manifest.json" else header(tmp_path, 1).with_suffix(kind)
    path.unlink()
    make(path)
    with pytest.raises(TraceError, match=r"cannot be opened.*expected a regular file"):
        list(TraceRecordingReader(tmp_path))
    good = [0, 1, 2] if kind == ".manifest.json" else [0, 2]
    assert numbers_of(tmp_path, on_error="skip") == good


# ---- checksums


def test_a_flipped_bit_is_found_where_checksums_are_compared(tmp_path):
    record(tmp_path, range(3))
    offset = json.loads(header(tmp_path, 1).read_bytes())["episodes"][0]["rewards"]["npyoff"]
    flip(blob(tmp_path, 1), offset)
    assert TraceRecordingReader(tmp_path)[1].rewards[0] != 1
    reader = TraceRecordingReader(tmp_path, verify=True)
    assert [number_of(reader[0]), number_of(reader[2])] == [0, 2]
    with pytest.raises(
        TraceError, match=r"ep000000001\.bin: crc32: damaged \(expected [0-9a-f]{8}, found [0-9a-f]{8}\)"
    ):
        reader[1]
    skipping = TraceRecordingReader(tmp_path, verify=True, on_error="skip")
    assert [number_of(one) for one in skipping] == [0, 2]
    assert [error.field for error in skipping.errors] == ["crc32"]


@pytest.mark.parametrize("streamed", [False, True])
def test_every_byte_of_a_blob_is_covered_by_its_checksum(tmp_path, streamed):
    record(tmp_path, [1], **({"flush_interval": 0} if streamed else {}))
    for path in tmp_path.glob("*.bin"):
        # A `.npy` header in front of a streamed column is patched at the end: what counts is behind it.
        starts = {entry["fn"]: entry.get("start", 0) for entry in json.loads(header(tmp_path, 0).read_bytes())["blobs"]}
        for position in range(starts[path.name], path.stat().st_size, 17):
            flip(path, position)
            with pytest.raises(TraceError, match="damaged"):
                list(TraceRecordingReader(tmp_path, verify=True))
            flip(path, position)
    assert numbers_of(tmp_path, verify=True) == [1]


# ---- a recorder that is still running


def test_a_reader_sees_what_was_there_when_it_looked_and_more_after_a_refresh(tmp_path):
    recording = TraceRecording(tmp_path, durability="none")
    reader = TraceRecordingReader(tmp_path)
    add(recording, 0)
    recording.end_episode()
    assert len(reader) == 0
    recording.save_complete()
    assert (len(reader), list(reader)) == (0, [])
    reader.refresh()
    first = reader[0]
    assert [number_of(one) for one in reader] == [0]
    for number in (1, 2):
        add(recording, number)
        recording.end_episode()
        recording.save_complete()
    assert len(reader) == 1
    reader.refresh()
    assert [number_of(one) for one in reader] == [0, 1, 2]
    recording.close()
    assert number_of(first) == 0
    assert [batch["first"] for batch in reader.get_recorded_batches()] == [0, 1, 2]


def test_a_running_episode_grows_with_every_refresh_and_what_was_read_of_it_stays(tmp_path):
    recording = TraceRecording(tmp_path, durability="none", flush_interval=0)
    reader = TraceRecordingReader(tmp_path, verify=True)
    recording.add_reset(np.zeros(3))
    seen = []
    for step in range(1, 8):
        recording.add_step(step, np.full(3, float(step)), float(step))
        recording.save_complete()
        reader.refresh()
        seen += reader
    recording.close()
    reader.refresh()
    seen += reader
    rows = np.repeat(np.arange(8.0), 3).reshape(8, 3)
    assert [one.ended_by for one in seen] == [None] * (len(seen) - 1) + ["close"]
    assert [len(one) for one in seen] == sorted(len(one) for one in seen)
    assert (len(seen[0]) < 4, len(seen[-1])) == (True, 7)
    for one in seen:
        assert plain(one.observations) == plain(rows[: len(one) + 1])
        assert one.actions.tolist() == list(range(1, len(one) + 1))


def test_headers_that_no_manifest_lists_are_found(tmp_path):
    prefix = record(tmp_path, range(4))
    manifest(tmp_path).write_bytes(write_manifest([{"first": 0, "len": 1, "fn": f"{prefix}.ep000000000.json"}], {}))
    assert numbers_of(tmp_path) == [0, 1, 2, 3]
    manifest(tmp_path).unlink()
    assert numbers_of(tmp_path) == [0, 1, 2, 3]
    (trace,) = TraceRecordingReader(tmp_path).traces
    assert (trace.created, trace.closed, trace.metadata, len(trace)) == ("", False, None, 4)


# ---- arrays and files


@pytest.mark.parametrize("options", [{}, {"mmap": False}])
def test_arrays_stay_valid_after_close_and_after_the_files_are_gone(tmp_path, options):
    frames = np.arange(3 * 200 * 200, dtype="float64").reshape(3, 200, 200)
    with TraceRecording(tmp_path / "r", durability="none") as recording:
        recording.add_reset({"frame": frames[0]})
        for frame in frames[1:]:
            recording.add_step(0, {"frame": frame}, 0.5)
    with TraceRecordingReader(tmp_path / "r", **options) as reader:
        (one,) = reader
        view = one.observations["frame"][1:, 3]
    shutil.rmtree(tmp_path / "r")
    del reader
    gc.collect()
    assert plain(one.observations["frame"]) == plain(frames)
    assert plain(view) == plain(frames[1:, 3])


def test_an_open_reader_survives_that_files_are_replaced(tmp_path):
    record(tmp_path, range(2))
    reader = TraceRecordingReader(tmp_path)
    one = reader[0]
    shutil.copy(blob(tmp_path, 1), tmp_path / "other")
    os.replace(tmp_path / "other", blob(tmp_path, 0))
    assert number_of(one) == 0


@POSIX
def test_descriptors_are_bounded_however_many_batches_are_held(tmp_path):
    code = """
import resource, sys
import numpy as np
from gym_recording import TraceRecording, TraceRecordingReader
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
with TraceRecording(sys.argv[1], durability="none", buffer_batch_size=1) as recording:
    for number in range(2000):
        recording.add_reset(np.full(3, number))
        recording.add_step(number, np.full(3, number), 0.5)
reader = TraceRecordingReader(sys.argv[1])
held = list(reader)
more = [open(sys.argv[0] if sys.argv[0] != "-c" else sys.executable, "rb") for _ in range(50)]
again = list(TraceRecordingReader(sys.argv[1], on_error="skip"))
assert all((one.observations == number).all() and one.observations.shape == (2, 3) for number, one in enumerate(held))
print(len(held), len(again), len(more))
for file in more:
    file.close()
"""
    root = os.path.dirname(os.path.dirname(os.path.abspath(gym_recording.__file__)))
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "r")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": root},
        encoding="utf-8",
        timeout=60,
    )
    assert done.stdout == "2000 2000 50\n"


@POSIX
def test_a_reader_keeps_few_blobs_open_however_many_it_has_read(tmp_path):
    import resource

    record(tmp_path, range(100))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        reader = TraceRecordingReader(tmp_path)
        assert [number_of(one) for one in reader] == list(range(100))
        if sys.version_info < (3, 13):  # later, a map needs no descriptor
            assert 1 <= len(reader.binfiles) <= 32
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    reader.close()
    assert not reader.binfiles


# ---- pickling


def test_a_reader_can_be_pickled_whatever_it_has_open(tmp_path):
    record(tmp_path, range(3))
    header(tmp_path, 1).unlink()
    reader = TraceRecordingReader(tmp_path, on_error="skip", verify=True)
    kept = list(reader)
    again = pickle.loads(pickle.dumps(reader))
    assert [number_of(one) for one in again] == [number_of(one) for one in kept] == [0, 2]
    assert (again.directory, again.on_error, again.verify, again.mmap) == (str(tmp_path), "skip", True, True)
    assert [str(error) for error in again.errors] == [str(error) for error in reader.errors]
    assert repr(again) == f"TraceRecordingReader({str(tmp_path)!r})"


def test_a_reader_can_be_used_in_a_spawned_process(tmp_path):
    record(tmp_path, range(3))
    reader = TraceRecordingReader(tmp_path)
    assert number_of(reader[0]) == 0
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        episodes = pool.map(reader.__getitem__, range(3))
    assert [number_of(one) for one in episodes] == [0, 1, 2]


# ---- the methods of 2016


def test_batches_are_listed_as_manifests_list_them(tmp_path):
    prefix = record(tmp_path, range(5), buffer_batch_size=2)
    reader = TraceRecordingReader(tmp_path)
    batches = reader.get_recorded_batches()
    assert batches == [{"first": n, "len": 2 if n < 4 else 1, "fn": f"{prefix}.ep{n:09}.json"} for n in (0, 2, 4)]
    assert reader.get_recorded_batches() == batches
    found = [one for batch in batches for one in reader.get_recorded_episodes(batch)]
    assert [int(one["actions"][0]) for one in found] == [0, 1, 2, 3, 4]
    assert {"observations", "actions", "rewards", "terminated", "ended_by", "started"} <= set(found[0])
    assert len(reader.get_recorded_episodes({"fn": batches[0]["fn"]})) == 2


def test_a_batch_that_is_not_there_is_missing(tmp_path):
    record(tmp_path, range(2))
    reader = TraceRecordingReader(tmp_path)
    (batch, _) = reader.get_recorded_batches()
    header(tmp_path, 0).unlink()
    with pytest.raises(MissingEpisodesError, match="the header is missing"):
        reader.get_recorded_episodes(batch)
    with pytest.raises(MissingEpisodesError, match="the blob is missing"):
        reader.get_binfile("openaigym.trace.0.1.ep000000000.bin")


@pytest.mark.parametrize(
    "name",
    ["", "x", "../x", "/etc/passwd", "openaigym.trace.0.1.manifest.json", "openaigym.trace.0.1.ep000000000.json"],
)
def test_only_blobs_are_given_as_blobs(tmp_path, name):
    with pytest.raises(TraceError, match="not the name of a blob"):
        TraceRecordingReader(tmp_path).get_binfile(name)


def test_array_records_are_decoded_wherever_they_stand(tmp_path):
    record(tmp_path, [7])
    with TraceRecordingReader(tmp_path) as reader:
        decoded = json.loads(header(tmp_path, 0).read_bytes(), object_hook=reader.json_decode)
        (name,) = reader.binfiles
    assert plain(decoded["episodes"][0]["observations"]) == plain(np.full((2, 3), 7, "float32"))
    assert decoded["blobs"][0]["fn"] == name
    assert reader.json_decode({"a": 1}) == {"a": 1}


# ---- several threads


def meanwhile(act, other):
    """Does `act` again and again, each time with `other` before another line of the reading modules, as threads may.

    Yields what `act` gives.
    """
    modules = tuple(
        os.path.join(os.path.dirname(gym_recording.__file__), f"{name}.py") for name in ("source", "playback")
    )
    left, at = 0, 0

    def trace(frame, event, argument):
        nonlocal left
        if frame.f_code.co_filename not in modules:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                sys.settrace(None)
                other()
                sys.settrace(trace)
        return trace

    before = sys.gettrace()
    while left <= 0:
        at += 1
        left = at
        sys.settrace(trace)
        try:
            result = act()
        finally:
            sys.settrace(before)
        yield result


@pytest.mark.parametrize("what", ["episode", "loop", "transitions", "view"])
@pytest.mark.parametrize("other", ["close", "refresh", "read"])
def test_what_another_thread_does_meanwhile_changes_nothing(tmp_path, what, other):
    with TraceRecording(tmp_path, buffer_batch_size=0, durability="none") as recording:
        for number in range(3):
            recording.add_reset("text" if number == 2 else number)
            recording.add_step(number, number, float(number))
    readers = [TraceRecordingReader(tmp_path)]
    act = {
        "episode": lambda: readers[-1][1].total_reward,
        "loop": lambda: [episode.total_reward for episode in readers[-1]],
        "transitions": lambda: readers[-1].transitions[:].actions.tolist(),
        "view": lambda: [episode.total_reward for episode in readers[-1].select(min_return=1)],
    }[what]
    others = {
        "close": lambda: readers[-1].close(),
        "refresh": lambda: readers[-1].refresh(),
        "read": lambda: list(readers[-1]),
    }
    expected = act()
    for number, result in enumerate(meanwhile(act, others[other])):
        assert result == expected
        if number % 2:  # one that has read all, and one that has not
            readers.append(TraceRecordingReader(tmp_path))
    assert len(readers) > 5
