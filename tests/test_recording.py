"""`TraceRecording` alone: what people of 2017 read and set, when it writes, what it leaves behind when it cannot."""

import contextlib
import copy
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from environments import VALUES, same, same_rows

from gym_recording import ClosedError, TraceError, TraceRecording, TraceRecordingReader, optimize_list_of_ndarrays
from gym_recording.trace import HEADER_EPISODES


@pytest.fixture
def clock(monkeypatch):
    """Sets the clock that flushes go by: `clock(seconds)`. Nothing sleeps."""
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    now = [1000.0]
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


def new(directory, **options):
    return TraceRecording(directory, **{"durability": "none", **options})


def episode(recording, steps, first=0):
    """Records an episode whose actions count from `first`; the next one ends it."""
    recording.add_reset(float(first))
    for number in range(first, first + steps):
        recording.add_step(number, number + 1.0, 0.5)


def actions_in(directory):
    return [episode.actions.tolist() for episode in TraceRecordingReader(directory, verify=True)]


def manifest_in(directory):
    (path,) = Path(directory).glob("*.manifest.json")
    return json.loads(path.read_text("ascii"))


def names_in(directory):
    return sorted(os.listdir(directory))


# ---- attributes and methods of 2016


def test_a_recorder_needs_no_environment(tmp_path):
    with TraceRecording(tmp_path) as recording:
        recording.add_reset(np.zeros(2))
        recording.add_step(1, np.ones(2), 0.5)
        recording.end_episode()
        recording.add_reset(np.zeros(2))
    first, second = TraceRecordingReader(tmp_path)
    assert same(first.observations, np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert same(first.actions, np.array([1]))
    assert same(first.rewards, np.array([0.5]))
    assert [e.ended_by for e in (first, second)] == ["reset", "close"]
    assert [e.terminated for e in (first, second)] == [None, None]


def test_the_attributes_are_there_from_the_start(tmp_path):
    recording = new(tmp_path)
    assert recording.directory == str(tmp_path)
    assert recording.closed is False
    assert recording.file_prefix.startswith("openaigym.trace.")
    assert (recording.episode_id, recording.buffered_step_count) == (0, 0)
    assert (recording.episodes, recording.episodes_first, recording.batches) == ([], None, [])
    assert recording.buffer_batch_size is None
    for rows in (recording.actions, recording.observations, recording.rewards):
        assert (len(rows), list(rows), bool(rows)) == (0, [], False)


def test_the_running_episode_can_be_read_live(tmp_path):
    recording = new(tmp_path)
    rewards, observations = recording.rewards, recording.observations
    recording.add_reset(np.zeros(2))
    assert (len(observations), len(rewards)) == (1, 0)
    for number in range(3):
        recording.add_step(number, np.full(2, number), number / 2)
        assert sum(rewards) == sum(range(number + 1)) / 2
    assert rewards == [0.0, 0.5, 1.0]
    assert (rewards[-1], rewards[1:], list(recording.actions)) == (1.0, [0.5, 1.0], [0, 1, 2])
    assert same(observations[-1], np.full(2, 2))
    with pytest.raises(IndexError):
        rewards[3]
    recording.add_reset(np.zeros(2))
    assert (len(observations), list(rewards)) == (1, [])


@pytest.mark.parametrize("shape", [(3,), (100, 100)])
def test_what_is_read_live_cannot_be_changed(tmp_path, shape):
    recording = new(tmp_path)
    recording.add_reset(np.zeros(shape))
    for name in ("append", "__setitem__", "__delitem__", "clear"):
        assert not hasattr(recording.observations, name)
    with pytest.raises(ValueError, match="read-only"):
        recording.observations[0][...] = 1
    for name in ("observations", "actions", "rewards"):
        assert "rows" in repr(getattr(recording, name))


def test_ended_episodes_are_a_list_of_dicts_of_arrays(tmp_path):
    recording = new(tmp_path)
    episode(recording, 3)
    episode(recording, 0)
    assert len(recording.episodes) == recording.episode_id == 1
    (ended,) = recording.episodes
    assert same(np.asarray(ended["observations"]), np.array([0.0, 1.0, 2.0, 3.0]))
    assert same(np.asarray(ended["actions"]), np.array([0, 1, 2]))
    assert same(np.asarray(ended["rewards"]), np.array([0.5] * 3))
    assert (recording.episodes_first, recording.buffered_step_count) == (0, 3)


def test_batches_are_listed_as_the_manifest_lists_them(tmp_path):
    recording = new(tmp_path)
    for count in (2, 1, 3):
        for _ in range(count):
            episode(recording, 1)
        recording.end_episode()
        recording.save_complete()
        assert (recording.episodes, recording.episodes_first, recording.buffered_step_count) == ([], None, 0)
    prefix = recording.file_prefix
    expected = [{"first": f, "len": n, "fn": f"{prefix}.ep{f:09}.json"} for f, n in ((0, 2), (2, 1), (3, 3))]
    assert recording.batches == expected
    recording.close()
    assert recording.batches == manifest_in(tmp_path)["batches"] == expected
    assert recording.closed is True


def test_save_complete_waits_until_all_is_on_disk_and_leaves_the_running_episode_alone(tmp_path):
    recording = new(tmp_path)
    episode(recording, 2)
    episode(recording, 1)
    recording.save_complete()
    assert actions_in(tmp_path) == [[0, 1]]
    assert list(recording.actions) == [0]
    recording.save_complete()
    recording.close()
    assert actions_in(tmp_path) == [[0, 1], [0]]


def test_a_closed_recorder_refuses_more_and_can_still_be_read(tmp_path):
    recording = new(tmp_path)
    episode(recording, 2)
    recording.close()
    recording.close()
    for call in (lambda: recording.add_reset(0.0), lambda: recording.add_step(0, 0.0, 0.0), recording.end_episode):
        with pytest.raises(ClosedError, match="closed"):
            call()
    assert (recording.episode_id, len(recording.batches), recording.closed) == (1, 1, True)
    assert actions_in(tmp_path) == [[0, 1]]


def test_a_block_that_raises_is_recorded_up_to_there(tmp_path):
    with pytest.raises(KeyError), new(tmp_path) as recording:
        episode(recording, 2)
        raise KeyError
    assert actions_in(tmp_path) == [[0, 1]]


def test_nothing_recorded_leaves_no_file(tmp_path):
    with new(tmp_path) as recording:
        recording.save_complete()
        recording.end_episode()
    assert names_in(tmp_path) == []


# ---- throwing the buffer away


@pytest.mark.parametrize(
    "throw_away",
    [
        lambda recording: setattr(recording, "episodes", []),
        lambda recording: recording.episodes.clear(),
        lambda recording: recording.episodes.__delitem__(slice(None)),
    ],
)
def test_a_buffer_that_is_zeroed_by_hand_is_thrown_away(tmp_path, throw_away):
    recording = new(tmp_path)
    episode(recording, 1)
    recording.end_episode()
    recording.save_complete()
    episode(recording, 2, first=10)
    recording.end_episode()
    throw_away(recording)
    recording.episodes_first = None
    recording.buffered_step_count = 0
    assert (recording.buffered_step_count, recording.episodes_first) == (0, None)
    episode(recording, 3, first=20)
    recording.close()
    assert actions_in(tmp_path) == [[0], [20, 21, 22]]
    assert [batch["first"] for batch in recording.batches] == [0, 1]


def test_thrown_away_to_the_last_leaves_no_file(tmp_path):
    recording = new(tmp_path)
    episode(recording, 2)
    recording.end_episode()
    recording.episodes = []
    recording.close()
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(("index", "left"), [(-1, [0, 1]), (0, [1, 2])])
def test_an_episode_can_be_popped(tmp_path, index, left):
    recording = new(tmp_path)
    for first in range(3):
        episode(recording, 1, first)
    recording.end_episode()
    recording.episodes.pop(index)
    recording.close()
    assert actions_in(tmp_path) == [[n] for n in left]


def test_only_the_episodes_that_are_good_can_be_kept(tmp_path):
    recording = new(tmp_path)
    for first in range(6):
        episode(recording, 1, first)
        recording.end_episode()
        recording.episodes = [e for e in recording.episodes if e["actions"][0] % 2]
    recording.close()
    assert actions_in(tmp_path) == [[1], [3], [5]]


def test_zeroing_the_step_count_puts_the_next_flush_off(tmp_path):
    recording = new(tmp_path, buffer_batch_size=4)
    for first in range(5):
        episode(recording, 1, first)
        recording.end_episode()
        if first == 2:
            recording.buffered_step_count = 0
    assert len(recording.episodes) == 5
    recording.close()
    assert actions_in(tmp_path) == [[0], [1], [2], [3], [4]]


# ---- when it writes


def handed_over(recording):
    """Whether an end of an episode handed the buffer over to a commit."""
    recording.end_episode()
    return not recording.episodes


@pytest.mark.parametrize("set_it", [True, False], ids=["attribute", "constructor"])
def test_a_buffer_batch_size_is_the_only_trigger_and_never_overridden(tmp_path, clock, set_it):
    recording = new(tmp_path, **({} if set_it else {"buffer_batch_size": 5}))
    if set_it:
        recording.buffer_batch_size = 5
    large = np.zeros(3_000_000)
    for steps, expected in ((4, False), (1, True), (3, False), (1, False), (9, True)):
        recording.add_reset(large)
        for number in range(steps):
            recording.add_step(number, 0, 0.5)
            clock(1000)
        assert handed_over(recording) == expected
        assert recording.buffer_batch_size == 5
    recording.close()
    assert [batch["len"] for batch in recording.batches] == [2, 3]


def test_other_triggers_count_beside_a_buffer_batch_size_if_they_are_passed_too(tmp_path, clock):
    recording = new(tmp_path / "bytes", buffer_batch_size=5, batch_bytes=10_000)
    recording.add_reset(np.zeros(2000))
    assert handed_over(recording)
    recording = new(tmp_path / "time", buffer_batch_size=5, flush_interval=10)
    episode(recording, 1)
    recording.end_episode()
    clock(11)
    recording.add_reset(0.0)
    assert recording.episodes == []


@pytest.mark.parametrize("option", ["flush_interval", "batch_bytes", "buffer_batch_size"])
@pytest.mark.parametrize("number", [np.float32(3), np.int8(3), np.float64(3), True])
def test_a_number_of_numpy_is_as_good_as_one_of_python(tmp_path, option, number):
    recording = new(tmp_path, **{option: number})
    assert type(getattr(recording, option)) in (int, float)
    setattr(recording, option, number)
    recording.add_reset(0.0)
    recording.close()
    assert len(TraceRecordingReader(tmp_path)) == 1


def test_a_step_in_the_midst_of_which_the_recorder_is_closed_is_refused(tmp_path):
    class Closing:
        def __array__(self, dtype=None, copy=None):
            recording.lane.end("close")
            recording._trace.close()  # as another thread might
            return np.zeros(2)

    recording = new(tmp_path)
    recording.add_reset(np.zeros(2))
    recording.add_step(0, np.zeros(2), 0.0)
    with pytest.raises(ClosedError):
        recording.add_step(1, Closing(), 0.0)
    assert actions_in(tmp_path) == [[0]]


def test_very_many_episodes_that_are_written_together_are_several_batches(tmp_path):
    recording = new(tmp_path, buffer_batch_size=10**9)
    for number in range(HEADER_EPISODES + 2):
        recording.add_reset(number)
    recording.close()
    assert [batch["len"] for batch in recording.batches] == [HEADER_EPISODES, 2]
    reader = TraceRecordingReader(tmp_path, verify=True)
    assert [int(reader[number].observations[0]) for number in (0, 99_999, 100_000, 100_001)] == [
        0,
        99_999,
        100_000,
        100_001,
    ]


def test_about_batch_bytes_are_written_together(tmp_path):
    recording = new(tmp_path, batch_bytes=100_000)
    for _ in range(30):
        recording.add_reset(np.zeros(1000))
        recording.end_episode()
    recording.close()
    sizes = [path.stat().st_size for path in sorted(tmp_path.glob("*.bin"))]
    assert len(sizes) == 3
    assert all(80_000 < size < 120_000 for size in sizes[:-1])


def test_short_episodes_count_with_their_headers(tmp_path):
    recording = new(tmp_path, batch_bytes=50_000)
    for _ in range(300):
        episode(recording, 0)
    recording.close()
    sizes = [path.stat().st_size for path in tmp_path.glob("*.ep*.json")]
    assert 2 <= len(sizes) <= 12


@pytest.mark.parametrize("interval", [None, 7.5])
def test_ended_episodes_are_written_when_the_interval_has_gone(tmp_path, clock, interval):
    recording = new(tmp_path, flush_interval=interval)
    seconds = 30 if interval is None else interval
    for _ in range(2):
        episode(recording, 2)
        recording.end_episode()
        clock(seconds - 1)
        recording.add_reset(0.0)
        recording.add_step(5, 0.0, 0.0)
        assert len(recording.episodes) == 1
        clock(2)
        recording.add_step(6, 0.0, 0.0)
        assert recording.episodes == []
    recording.close()
    assert actions_in(tmp_path) == [[0, 1], [5, 6], [0, 1], [5, 6]]


def test_a_reset_looks_at_the_clock_too(tmp_path, clock):
    recording = new(tmp_path)
    recording.add_reset(0.0)
    clock(31)
    recording.add_reset(0.0)
    assert recording.episodes == []


def test_an_interval_of_nothing_writes_at_every_call(tmp_path):
    recording = new(tmp_path, flush_interval=0)
    for number in range(4):
        episode(recording, 1, number)
        recording.save_complete()
        assert actions_in(tmp_path) == [[n] for n in range(number + 1)]
    recording.close()
    assert actions_in(tmp_path) == [[n] for n in range(4)]


def test_triggers_can_be_changed_while_recording(tmp_path, clock):
    recording = new(tmp_path)
    recording.flush_interval = 100
    recording.add_reset(0.0)
    clock(50)
    recording.add_reset(0.0)
    assert len(recording.episodes) == 1
    recording.batch_bytes = 10
    assert handed_over(recording)
    recording.close()
    assert len(actions_in(tmp_path)) == 2


# ---- episodes that are written while they run


@pytest.mark.parametrize("flush", ["each step", "once"])
@pytest.mark.parametrize("name", VALUES)
def test_an_episode_that_lives_through_flushes_reads_as_one_that_does_not(tmp_path, name, flush):
    value = VALUES[name]
    for directory in ("streamed", "whole"):
        recording = new(tmp_path / directory, infos=True, flush_interval=1e9)
        recording.add_reset(value(0), info={"n": value(0)}, seed=3, options={"a": value(0)})
        for n in range(1, 6):
            recording.add_step(
                value(n), value(n), value(n), terminated=n == 5, info={"n": value(n)} if n % 2 else {"m": n}
            )
            if directory == "streamed" and (flush == "each step" or n == 1):
                recording.flush_interval = 0
                recording.add_step(value(n), value(n), value(n), terminated=False, truncated=False)
                recording.flush_interval = 1e9
            else:
                recording.add_step(value(n), value(n), value(n), terminated=False, truncated=False)
        recording.close()
    (streamed,), (whole,) = (TraceRecordingReader(tmp_path / d, verify=True) for d in ("streamed", "whole"))
    for field in ("observations", "actions", "rewards", "infos", "options", "seed", "terminated", "ended_by", "gaps"):
        assert same(plain(getattr(streamed, field)), plain(getattr(whole, field))), field


def plain(value):
    """Columns of a dict or tuple as a plain dict or tuple; equality is by what is in them."""
    if hasattr(value, "columns"):
        return plain(value.columns)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def test_a_running_episode_can_be_read_as_far_as_it_was_flushed(tmp_path):
    recording = new(tmp_path, flush_interval=0)
    recording.add_reset(0.0)
    for number in range(5):
        recording.add_step(number, number + 1.0, 0.5, terminated=False)
        recording.save_complete()
        (episode,) = TraceRecordingReader(tmp_path, verify=True)
        assert episode.actions.tolist() == list(range(number + 1))
        assert episode.observations.tolist() == [float(n) for n in range(number + 2)]
        assert (episode.ended_by, episode.terminated) == (None, None)
        assert list(recording.actions) == list(range(number + 1))
    recording.close()
    (episode,) = TraceRecordingReader(tmp_path, verify=True)
    assert (episode.ended_by, episode.terminated, len(episode)) == ("close", False, 5)


@pytest.mark.parametrize("row", [100, 10_000])
def test_memory_is_bounded_however_long_an_episode_is(tmp_path, row):
    """At the end 40 MB are recorded."""
    value = np.arange(row, dtype="float64")
    with new(tmp_path, batch_bytes=500_000) as recording:
        recording.add_reset(value)
        tracemalloc.start()
        try:
            for number in range(5_000_000 // row):
                recording.add_step(number, value + number, 0.0)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    (episode,) = TraceRecordingReader(tmp_path)
    assert same(episode.observations[-1], value + number)
    assert len(episode) == 5_000_000 // row
    assert peak < 12_000_000


def test_a_row_that_is_on_disk_can_still_be_read_live(tmp_path):
    recording = new(tmp_path, batch_bytes=1000)
    recording.add_reset(np.zeros(100))
    for number in range(1, 50):
        recording.add_step(number, np.full(100, number), number / 2)
    assert [row[0] for row in recording.observations] == list(range(50))
    assert list(recording.rewards) == [n / 2 for n in range(1, 50)]
    recording.close()


# ---- large rows


def test_what_somebody_holds_of_large_rows_never_changes(tmp_path):
    recording = new(tmp_path)
    held = []
    for number in range(200):
        recording.add_reset(np.full((100, 100), number, "uint8"))
        recording.add_step(np.full(9000, number, "uint8"), np.full((100, 100), number, "uint8"), 0.0)
        if number % 7 == 0:
            held += [(number, recording.observations[0]), (number, recording.actions[0])]
        recording.end_episode()
        if number % 5 == 0:
            held.append((number, recording.episodes[-1]["observations"]))
            recording.save_complete()
    recording.close()
    assert all((np.asarray(rows) == number).all() for number, rows in held)
    assert [int(e.observations[1, 0, 0]) for e in TraceRecordingReader(tmp_path)] == [n % 256 for n in range(200)]


def test_the_memory_of_large_rows_is_used_again(tmp_path):
    frame = np.zeros((500, 500), "uint8")
    with new(tmp_path) as recording:
        tracemalloc.start()
        try:
            for number in range(200):
                recording.add_reset(frame)
                recording.add_step(number, frame, 0.0)
                recording.end_episode()
                if number % 5 == 0:
                    recording.save_complete()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert len(actions_in(tmp_path)) == 200
    assert peak < 15_000_000


# ---- manifests


def test_the_bytes_of_all_manifests_are_linear_in_the_batches(tmp_path, monkeypatch):
    replace, written = os.replace, []

    def counting(source, target):
        if str(target).endswith("manifest.json"):
            written.append(os.path.getsize(source))
        replace(source, target)

    monkeypatch.setattr(os, "replace", counting)
    recording = new(tmp_path)
    for number in range(400):
        episode(recording, 0)
        recording.end_episode()
        recording.save_complete()
        listed = len(manifest_in(tmp_path)["batches"])
        assert listed <= number + 1 <= listed + listed / 16 + 1
    recording.close()
    assert len(written) < 120
    assert sum(written) < 20 * written[-1]
    assert len(manifest_in(tmp_path)["batches"]) == 400


def test_a_manifest_says_who_wrote_it_and_when_and_whether_it_is_closed(tmp_path):
    recording = new(tmp_path, metadata={"name": "mine", "list": [1, None]}, env={"id": "E-v0"}, library="gym 0.26.2")
    episode(recording, 1)
    recording.end_episode()
    recording.save_complete()
    manifest = manifest_in(tmp_path)
    assert "closed" not in manifest
    assert manifest["format"] == {"name": "gym-recording", "version": [2, 0]}
    assert manifest["metadata"] == {"name": "mine", "list": [1, None]}
    assert manifest["env"] == {"id": "E-v0"}
    writer = manifest["writer"]
    assert writer["package"].startswith("gym_recording ")
    assert (writer["numpy"], writer["library"], writer["pid"]) == (np.__version__, "gym 0.26.2", os.getpid())
    assert writer["python"] == ".".join(map(str, sys.version_info[:3]))
    assert abs(time.time() - _seconds(manifest["created"])) < 60
    recording.close()
    assert manifest_in(tmp_path)["closed"] is True


def _seconds(text):
    assert text.endswith("Z")
    return time.mktime(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone


@pytest.mark.parametrize(
    "metadata", [{"a": object()}, {"a": np.zeros(2)}, {"a": float("nan")}, {"a": {1, 2}}, {"a": [{1: 2}]}]
)
@pytest.mark.parametrize("argument", ["metadata", "env"])
def test_metadata_that_is_not_json_is_refused_by_the_constructor(tmp_path, argument, metadata):
    with pytest.raises(TraceError, match=f"^{argument}: cannot be written as JSON"):
        new(tmp_path / "there", **{argument: metadata})
    assert names_in(tmp_path) == []


def test_metadata_is_copied_when_it_is_given(tmp_path):
    metadata = {"list": [1]}
    with new(tmp_path, metadata=metadata) as recording:
        metadata["list"].append(object())
        episode(recording, 1)
    assert manifest_in(tmp_path)["metadata"] == {"list": [1]}


# ---- directories


def test_without_a_directory_a_temporary_one_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    directory = Path(TraceRecording().directory)
    assert directory.parent == tmp_path
    assert directory.name.startswith("openai.gym.")


def test_two_recorders_never_have_the_same_names(tmp_path):
    assert new(tmp_path).file_prefix != new(tmp_path).file_prefix


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_a_directory_that_cannot_be_one_is_an_error_of_the_constructor(tmp_path, path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        new(tmp_path / path)


def test_a_directory_that_cannot_be_written_to_is_an_error_of_the_constructor():
    """In a program of its own, because root may write everywhere."""
    program = """
    import os, sys, tempfile, encodings.idna
    from gym_recording import TraceRecording
    directory = tempfile.mkdtemp(dir=sys.argv[1])
    TraceRecording(os.path.join(directory, "loads everything")).close()
    os.chmod(directory, 0o555)
    if os.geteuid() == 0:
        os.setuid(65534)
    try:
        TraceRecording(directory)
    except PermissionError as error:
        print("refused", directory in str(error))
    """
    directory = tempfile.mkdtemp()  # the test's own temporary directories are for its user only
    try:
        os.chmod(directory, 0o755)
        assert run(program, directory) == "refused True\n"
    finally:
        shutil.rmtree(directory)


def run(program, *arguments):
    """What a program prints."""
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", timeout=60)
    assert done.returncode == 0
    return done.stdout


# ---- the lock


def locks_in(directory):
    return [name for name in names_in(directory) if name.endswith(".lock")]


def test_a_lock_is_there_while_a_recorder_of_this_process_is_open(tmp_path):
    recordings = [new(tmp_path) for _ in range(2)]
    for recording in recordings:
        assert len(locks_in(tmp_path)) == 1
        recording.close()
    assert names_in(tmp_path) == []


# ---- durability


@pytest.mark.parametrize(("durability", "synced"), [("fsync", True), ("none", False)])
def test_durability_says_whether_commits_are_synced(tmp_path, monkeypatch, durability, synced):
    fsync, calls = os.fsync, []
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append(fsync(descriptor)))
    with TraceRecording(tmp_path, durability=durability) as recording:
        episode(recording, 1)
    assert bool(calls) == synced
    assert not synced or len(calls) >= 5  # blob, header, manifest, and the directory after header and manifest
    assert actions_in(tmp_path) == [[0]]


@pytest.mark.parametrize("durability", ["", "FSYNC", None, True])
def test_any_other_durability_is_refused(tmp_path, durability):
    with pytest.raises(TraceError, match=r'durability.*"fsync" or "none"'):
        TraceRecording(tmp_path, durability=durability)


# ---- failing flushes


def test_a_flush_that_fails_names_the_file_and_keeps_everything(tmp_path):
    recording = new(tmp_path / "gone")
    episode(recording, 2)
    episode(recording, 1, first=10)
    shutil.rmtree(recording.directory)
    with contextlib.ExitStack() as others:  # whose descriptors are nobody else's to close
        for _ in range(3):
            with pytest.raises(OSError, match="gone") as raised:
                recording.save_complete()
            assert raised.value.filename.startswith(os.path.join(recording.directory, "openaigym.trace."))
            assert recording.batches == []
            others.enter_context(open(os.devnull))
    recording.add_step(11, 0.0, 0.0)
    recording.end_episode()
    with pytest.raises(OSError, match="gone"):
        recording.close()
    assert recording.closed is False
    episode(recording, 1, first=20)
    os.mkdir(recording.directory)
    recording.save_complete()
    episode(recording, 1, first=30)
    recording.close()
    assert actions_in(recording.directory) == [[0, 1], [10, 11], [20], [30]]
    assert all(name.startswith(recording.file_prefix) for name in names_in(recording.directory))


def test_a_commit_that_failed_beside_the_loop_is_tried_again_by_the_next(tmp_path):
    recording = new(tmp_path / "gone", buffer_batch_size=1)
    shutil.rmtree(recording.directory)
    episode(recording, 1)
    recording.end_episode()
    with pytest.raises(OSError, match="gone"):
        recording.save_complete()
    os.mkdir(recording.directory)
    episode(recording, 1, first=10)
    recording.close()
    assert actions_in(recording.directory) == [[0], [10]]


LIMITED = """
import os, resource, signal, sys
import numpy as np
from gym_recording import TraceRecording, TraceRecordingReader
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file that grows too large is then an error of `write`

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

errors = 0
recording = TraceRecording(sys.argv[1], durability="none", **eval(sys.argv[2]))
for number in range(12):
    limit(20_000 if number % 3 == 1 else resource.RLIM_INFINITY)
    try:
        recording.add_reset(np.full(3000, number))
    except OSError as error:
        errors += 1
        assert "openaigym.trace" in error.filename, error
        recording.add_reset(np.full(3000, number))
    for step in range(3):
        while True:
            try:
                recording.add_step(10 * number + step, np.full(3000, step), 0.5)
                break
            except OSError:
                errors += 1
                if list(recording.actions)[-1:] == [10 * number + step]:
                    break  # recorded; only the flush after it failed
    try:
        recording.end_episode()
    except OSError:
        errors += 1
    try:
        recording.save_complete()
    except OSError as error:
        errors += 1
        assert "openaigym.trace" in error.filename, error
limit(resource.RLIM_INFINITY)
recording.close()
actions, temporary = [], [name for name in os.listdir(sys.argv[1]) if name.startswith(".")]
for episode in TraceRecordingReader(sys.argv[1], verify=True):
    actions += episode.actions.tolist()
    if len(episode):
        assert (episode.observations[1:, 0] == episode.actions % 10).all()
        assert (episode.observations[0] == episode.actions[0] // 10).all()
print(actions == [10 * number + step for number in range(12) for step in range(3)], errors > 3, temporary)
"""


@pytest.mark.parametrize("options", [{"buffer_batch_size": 9}, {"flush_interval": 0}, {"batch_bytes": 50_000}])
def test_nothing_is_missing_or_double_after_the_disk_was_full_for_a_while(tmp_path, options):
    pytest.importorskip("resource")
    assert run(LIMITED, tmp_path, options) == "True True []\n"


# ---- values that cannot be stored


def test_a_refused_step_is_not_recorded_and_the_others_are(tmp_path):
    recording = new(tmp_path)
    episode(recording, 2)
    with pytest.raises(TraceError, match=r"^observations\.deep\[1\]: cannot store <class 'object'>"):
        recording.add_step(7, {"deep": (1, object())}, 0.0)
    recording.add_step(2, 3.0, 0.5)
    recording.close()
    (found,) = TraceRecordingReader(tmp_path)
    assert found.actions.tolist() == [0, 1, 2]
    assert found.observations.tolist() == [0, 1, 2, 3]
    assert found.gaps == (2,)


# ---- copies


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_a_copy_is_a_new_recorder_in_the_same_directory(tmp_path, copied):
    recording = new(tmp_path, infos=True, timestamps=True, metadata={"a": 1}, batch_bytes=777)
    recording.buffer_batch_size = 33
    recording.flush_interval = 44
    episode(recording, 2)
    other = copied(recording)
    assert type(other) is TraceRecording
    assert other.directory == recording.directory
    assert other.file_prefix != recording.file_prefix
    assert (len(other.actions), other.episodes, other.episode_id) == (0, [], 0)
    assert (other.buffer_batch_size, other.batch_bytes, other.flush_interval) == (33, 777, 44)
    episode(other, 1, first=10)
    other.close()
    recording.close()
    reader = TraceRecordingReader(tmp_path)
    assert [e.actions.tolist() for e in reader] == [[0, 1], [10]]
    assert [trace.metadata for trace in reader.traces] == [{"a": 1}, {"a": 1}]
    assert all(e.infos is not None and e.timestamps is not None for e in reader)


class Mine(TraceRecording):
    """A subclass."""


def test_a_copy_of_a_subclass_is_one_of_the_subclass(tmp_path):
    assert type(copy.deepcopy(Mine(tmp_path))) is Mine


# ---- optimize_list_of_ndarrays


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([np.zeros(2), np.ones(2)], np.array([[0.0, 0.0], [1.0, 1.0]])),
        ([np.zeros((2, 3), "uint8")] * 4, np.zeros((4, 2, 3), "uint8")),
        ([np.zeros((100, 100), "uint8")] * 3, np.zeros((3, 100, 100), "uint8")),
        ([np.array(1.5), np.array(2.5)], np.array([1.5, 2.5])),
        ([1, 2], np.array([1, 2])),
        ([1.5, 2], np.array([1.5, 2.0])),
        ([True, False], np.array([True, False])),
        ([np.float32(1)], np.array([1], "float32")),
        ([], np.empty(0)),
        ([np.zeros(0)] * 2, np.zeros((2, 0))),
        ((1, 2), np.array([1, 2])),
    ],
)
def test_lists_of_alike_arrays_and_numbers_become_one_array(values, expected):
    assert same(optimize_list_of_ndarrays(values), expected)


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(3),
        [np.zeros(2), np.zeros(3)],
        [np.zeros(2), np.zeros(2, "float32")],
        ["a", "b"],
        [None],
        [{"a": 1}, {"a": 2}],
        [(1, 2), (3, 4)],
        [[1], [2]],
        [object()],
        [1, "a"],
        [2**70],
    ],
)
def test_all_else_is_left_as_it_is(values):
    assert optimize_list_of_ndarrays(values) is values


def test_rows_of_a_dict_come_back_one_by_one(tmp_path):
    values = [{"a": n, "b": {"c": np.full(2, n)}} for n in range(4)]
    with new(tmp_path) as recording:
        recording.add_reset(values[0])
        for value in values[1:]:
            recording.add_step(value, value, 0.0)
    (found,) = TraceRecordingReader(tmp_path)
    assert same_rows(found.observations, values)
    assert same_rows(found.actions, values[1:])
