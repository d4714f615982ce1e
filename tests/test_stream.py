"""Streamed episodes, write by write: what is on disk after each, after a change of kind, after a failure."""

import io
import json
import os
import shutil
import subprocess
import sys
import textwrap
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from cases import plain
from faults.system import System

import gym_recording
from gym_recording import TraceError, TraceRecording, TraceRecordingReader
from gym_recording.check import check_recording

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(gym_recording.__file__))}
NEVER = 1e9  # seconds


def new(directory, **options):
    return TraceRecording(directory, **{"durability": "none", "flush_interval": NEVER, **options})


def write(recording):
    """Writes what the running episode has so far, as when the interval of flushes has gone, and waits for it."""
    recording.flush_interval = 0
    try:
        recording.flush_if_due(recording.lane)
        recording.save_complete()
    finally:
        recording.flush_interval = NEVER


def header_of(directory, first=0):
    (path,) = Path(directory).glob(f"*.ep{first:09}.json")
    return json.loads(path.read_bytes())


def blobs_in(directory, first=0):
    return sorted(path.name for path in Path(directory).glob(f"*.ep{first:09}*.bin"))


def contents(directory):
    return {path.name: path.read_bytes() for path in Path(directory).iterdir()}


def column(header, *path):
    (found,) = (record for record in header["columns"] if record["path"] == list(path))
    return found


def check(directory, steps, ended_by=None, first=0):
    """What always holds of the files of a streamed episode that has so many steps. Gives its header."""
    header = header_of(directory, first)
    (episode,) = header["episodes"]
    assert episode.get("ended_by") == ended_by
    assert header["first"] == first
    assert sorted(entry["fn"] for entry in header["blobs"]) == blobs_in(directory, first)
    for entry in header["blobs"]:
        data = (Path(directory) / entry["fn"]).read_bytes()
        assert len(data) == entry["size"]
        assert zlib.crc32(data[entry.get("start", 0) :]) == int(entry["crc32"], 16)
    blobs = {entry["fn"]: entry for entry in header["blobs"]}
    assert len({record["npyfile"] for record in header["columns"]}) == len(header["columns"])
    for record in header["columns"]:
        entry = blobs[record["npyfile"]]
        assert (record["npyhdr"], record["npyoff"]) == (0, entry["start"])
        assert record["npyoff"] + record["size"] == entry["size"]
        array = np.load(Path(directory) / record["npyfile"])
        assert list(array.shape) == [0 if ended_by is None else record["shape"][0], *record["shape"][1:]]
    assert check_recording(directory) == []
    read = TraceRecordingReader(directory, verify=True)[first]
    assert (len(read), read.ended_by) == (steps, ended_by)
    return header


# ---- write by write


def test_each_write_appends_rows_and_states_them(tmp_path):
    recording = new(tmp_path)
    recording.add_reset(np.zeros(3, "float32"))
    before = {}
    for steps in range(1, 6):
        recording.add_step(steps, np.full(3, steps, "float32"), steps / 2)
        write(recording)
        header = check(tmp_path, steps)
        assert column(header, "observations")["shape"] == [steps + 1, 3]
        assert column(header, "actions")["shape"] == column(header, "rewards")["shape"] == [steps]
        found = {name: data for name, data in contents(tmp_path).items() if name.endswith(".bin")}
        assert all(found[name].startswith(data) for name, data in before.items())
        before = found
    recording.close()
    check(tmp_path, 5, "close")
    found = {name: data for name, data in contents(tmp_path).items() if name.endswith(".bin")}
    assert found.keys() == before.keys()
    for entry in header["blobs"]:  # the end patches the .npy headers and appends nothing
        assert found[entry["fn"]][entry["start"] :] == before[entry["fn"]][entry["start"] :]


def test_the_blobs_of_a_streamed_episode_are_npy_files_of_a_fixed_header(tmp_path):
    recording = new(tmp_path)
    recording.add_reset(np.zeros((2, 2), "uint8"))
    for steps in range(1, 12):  # the number of rows gets another digit
        recording.add_step(steps, np.full((2, 2), steps, "uint8"), 0.0)
        write(recording)
    offsets = {entry["fn"]: entry["start"] for entry in header_of(tmp_path)["blobs"]}
    recording.close()
    header = header_of(tmp_path)
    assert {entry["fn"]: entry["start"] for entry in header["blobs"]} == offsets
    assert all(offset % 64 == 0 for offset in offsets.values())
    loaded = np.load(tmp_path / column(header, "observations")["npyfile"])
    assert plain(loaded) == plain(np.arange(12, dtype="uint8").repeat(4).reshape(12, 2, 2))


@pytest.mark.parametrize("steps", [1, 2])
def test_an_episode_may_be_short_and_still_be_streamed(tmp_path, steps):
    recording = new(tmp_path)
    recording.add_reset(0.5)
    for step in range(steps):
        recording.add_step(step, 1.5, 0.0)
    write(recording)
    check(tmp_path, steps)
    recording.close()
    check(tmp_path, steps, "close")


def test_an_episode_without_a_step_is_not_streamed(tmp_path):
    recording = new(tmp_path)
    recording.add_reset(0.5)
    write(recording)
    assert list(tmp_path.glob("*.ep*")) == []
    recording.close()
    assert blobs_in(tmp_path) == [f"{recording.file_prefix}.ep000000000.bin"]


def test_an_episode_without_a_first_observation_is_streamed(tmp_path):
    recording = new(tmp_path)
    for step in range(3):
        recording.add_step(step, np.float32(step), 0.0)
        write(recording)
        check(tmp_path, step + 1)
    recording.close()
    (episode,) = TraceRecordingReader(tmp_path)
    assert (episode.headless, episode.observations.tolist()) == (True, [0.0, 1.0, 2.0])


def test_writes_without_new_rows_change_nothing(tmp_path):
    recording = new(tmp_path, infos=True)
    recording.add_reset([np.ones(2)])
    recording.add_step(1, [np.ones(3)], 0.0, info={"a": np.ones(1)})
    write(recording)
    before = contents(tmp_path)
    for _ in range(3):
        write(recording)
        recording.save_complete()
        assert contents(tmp_path) == before
    recording.add_step(1, [np.ones(3)], 0.0)
    write(recording)
    check(tmp_path, 2)
    recording.close()
    check(tmp_path, 2, "close")


def test_streamed_and_ordinary_episodes_are_numbered_as_they_come(tmp_path):
    recording = new(tmp_path)
    for number in range(6):
        recording.add_reset(number)
        recording.add_step(number, number, 0.0)
        if number % 2:
            write(recording)
    recording.close()
    assert [episode.actions.tolist() for episode in TraceRecordingReader(tmp_path)] == [[n] for n in range(6)]
    assert [(batch["first"], batch["len"]) for batch in recording.batches] == [(n, 1) for n in range(6)]
    assert check_recording(tmp_path) == []


def test_rows_of_no_bytes_and_rows_that_are_large_are_streamed(tmp_path):
    recording = new(tmp_path)
    observation = {"none": np.empty((2, 0), "int16"), "large": np.arange(5000.0), "small": np.int8(3)}
    recording.add_reset(observation)
    for step in range(70):  # of 40 KB: more than one block
        recording.add_step(np.empty(0), observation, 0.0)
        if step % 9 == 0:
            write(recording)
            check(tmp_path, step + 1)
    recording.close()
    check(tmp_path, 70, "close")
    (episode,) = TraceRecordingReader(tmp_path)
    assert episode.observations["none"].shape == (71, 2, 0)
    assert plain(episode.observations["large"]) == plain(np.tile(np.arange(5000.0), (71, 1)))
    assert episode.actions.shape == (70, 0)


def test_what_a_reader_holds_of_a_running_episode_stays_as_it_is(tmp_path):
    recording = new(tmp_path)
    recording.add_reset(np.zeros(2))
    held = []
    for step in range(1, 5):
        recording.add_step(step, np.full(2, float(step)), 0.0)
        write(recording)
        held.append(TraceRecordingReader(tmp_path)[0].observations)
    recording.close()
    assert [rows[:, 0].tolist() for rows in held] == [[float(n) for n in range(steps + 1)] for steps in range(1, 5)]


# ---- loose arrays, infos, timestamps, options


def test_loose_arrays_are_written_once(tmp_path):
    recording = new(tmp_path, infos=True)
    recording.add_reset([np.zeros(100)], options={"start": np.ones(100)})
    sizes = []
    for step in range(1, 6):
        recording.add_step([np.full(100, step)], [np.full(100, step)], "text", info={"a": {"b": [np.ones(step)]}})
        write(recording)
        check(tmp_path, step)
        sizes.append(sum(path.stat().st_size for path in tmp_path.glob("*.bin")))
    growth = np.diff(sizes)
    assert growth.max() <= growth.min() + 256
    assert growth.max() < 3 * (800 + 256)
    recording.close()
    check(tmp_path, 5, "close")
    (episode,) = TraceRecordingReader(tmp_path, verify=True)
    assert plain(episode.observations[3]) == plain([np.full(100, 3)])
    assert plain(episode.options) == plain({"start": np.ones(100)})
    assert plain(episode.infos[4]) == plain({"a": {"b": [np.ones(4)]}})


def test_infos_and_timestamps_are_streamed(tmp_path):
    ways = {"streamed": tmp_path / "streamed", "at once": tmp_path / "at once"}
    for way, directory in ways.items():
        recording = new(directory, infos=True, timestamps=True)
        recording.add_reset(0, info={"first": 1})
        for step in range(1, 9):
            info = {"often": step, "late": np.float32(step)} if step > 4 else {"often": step} if step % 2 else None
            if step == 7:
                info = {"often": "text", 3: (1, 2.5)}  # another kind, in mid-episode
            recording.add_step(step, step, 0.0, info=info)
            if way == "streamed":
                write(recording)
                check(directory, step)
                episode = TraceRecordingReader(directory, verify=True)[0]
                assert episode.timestamps.dtype == np.float64
                assert (len(episode.timestamps), len(episode.infos)) == (step, step + 1)
                assert (np.diff(episode.timestamps) >= 0).all()
                assert list(episode.infos[-1]) == list(info or {})
        recording.close()
    check(ways["streamed"], 8, "close")
    (streamed,), (at_once,) = (TraceRecordingReader(directory, verify=True) for directory in ways.values())
    assert plain(streamed.infos) == plain(at_once.infos)


# ---- kinds that change


CHANGES = {  # values before a write and after it
    "int to float": ([1, 2], [0.5]),
    "int to text": ([1, 2], ["text"]),
    "int to a large int": ([1, 2], [2**70]),
    "float to int": ([0.5, 1.5], [3]),
    "float to an int that is no float": ([0.5], [2**53 + 1]),
    "bool to int": ([True], [7]),
    "NumPy to Python": ([np.int64(1), np.int64(2)], [3]),
    "int8 to int16": ([np.int8(1)], [np.int16(1)]),
    "an array of another shape": ([np.zeros(3)], [np.zeros(4)]),
    "an array of another dtype": ([np.zeros(3)], [np.zeros(3, "float32")]),
    "an array to a number": ([np.zeros(3)], [1.0]),
    "a large array to a small one": ([np.zeros(5000)], [np.zeros(2)]),
    "text that is an array": ([np.array("a\0", "<U2")], [np.array("bcd")]),
    "a dict with another key": ([{"a": 1, "b": np.ones(2)}], [{"a": 1, "c": np.ones(2)}]),
    "a dict whose member changes": ([{"a": 1, "b": np.ones(2)}], [{"a": "x", "b": np.ones(2)}]),
    "a dict to a number": ([{"a": {"b": 1.5}}], [3]),
    "a tuple of another length": ([(1, np.float16(2))], [(1,)]),
    "a list to an array": ([[1]], [np.ones(1)]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_kind_that_changes_after_a_write_is_read_as_if_it_had_not_been_written(tmp_path, name):
    before, after = CHANGES[name]
    values = [*before, *after, before[0], *after]
    ways = {"streamed": tmp_path / "streamed", "at once": tmp_path / "at once"}
    for way, directory in ways.items():
        recording = new(directory)
        recording.add_reset(values[0])
        for steps, value in enumerate(values, 1):
            recording.add_step(value, value, 0.0)
            if way == "streamed":
                write(recording)
                check(directory, steps)
                assert plain(list(recording.actions)) == plain(values[:steps])
        recording.close()
    (streamed,), (at_once,) = (TraceRecordingReader(directory, verify=True) for directory in ways.values())
    for key in ("observations", "actions", "rewards"):
        assert plain(getattr(streamed, key)) == plain(getattr(at_once, key))
    check(ways["streamed"], len(values), "close")


@pytest.mark.parametrize("value", [1, True, 0.5, np.int64(1), np.float32(2), np.bool_(True), (1, 2.0), {"a": True}])
def test_a_row_that_is_read_back_from_disk_is_of_the_class_that_was_given(tmp_path, value):
    recording = new(tmp_path)
    recording.add_reset(value)
    for _ in range(2):
        recording.add_step(value, value, 0.0)
        write(recording)
    for row in (*recording.observations, *recording.actions):
        assert repr(row) == repr(value)
        assert type(row) is type(value)
    recording.close()


def test_live_rows_come_from_memory_and_disk_alike(tmp_path):
    recording = new(tmp_path)
    rows = [np.arange(4.0).reshape(2, 2) + step for step in range(20)]
    recording.add_reset(rows[0])
    for step in range(1, 20):
        recording.add_step(step, rows[step], step / 4)
        if step % 3 == 0:
            write(recording)
        assert plain(list(recording.observations)) == plain(rows[: step + 1])
        assert plain(recording.observations[-1]) == plain(rows[step])
        assert plain(recording.observations[1:4]) == plain(rows[1:4][:step])
        assert list(recording.actions) == list(range(1, step + 1))
        assert list(recording.rewards) == [n / 4 for n in range(1, step + 1)]
    recording.close()


# ---- steps that are cut back


@pytest.mark.parametrize("when", ["before a write", "after a write", "between two"])
@pytest.mark.parametrize("refused", ["observation", "reward", "action"])
def test_a_step_that_is_refused_leaves_what_was_handed_over(tmp_path, refused, when):
    recording = new(tmp_path, infos=True)
    recording.add_reset({"a": 0, "b": np.zeros(2)})
    expected = []
    for step in range(6):
        bad = {refused: {"a": 1, "b": object()}} if refused == "observation" else {refused: object()}
        good = {"action": step, "observation": {"a": step, "b": np.full(2, float(step))}, "reward": 0.5}
        if step in (0, 3, 4):
            with pytest.raises(TraceError):
                recording.add_step(**{**good, **bad})
            if when == "between two":
                write(recording)
        recording.add_step(**good, info={"step": step})
        expected.append(step)
        if when == "after a write" or step % 2:
            write(recording)
            check(tmp_path, len(expected))
    recording.close()
    (episode,) = TraceRecordingReader(tmp_path, verify=True)
    assert episode.actions.tolist() == expected
    assert episode.observations["a"].tolist() == [0, *expected]
    assert episode.observations["b"][1:, 0].tolist() == expected
    assert [info.get("step") for info in episode.infos] == [None, *expected]
    assert episode.gaps == (0, 3, 4)
    check(tmp_path, 6, "close")


def test_a_change_of_kind_that_only_a_refused_step_brought_is_taken_back(tmp_path):
    recording = new(tmp_path)
    recording.add_reset(0)
    for step in range(4):
        recording.add_step(step, step, 0.5)
        write(recording)
        with pytest.raises(TraceError):
            recording.add_step("text", 2.5, object())
        assert [repr(row) for row in recording.actions] == [repr(n) for n in range(step + 1)]
    recording.close()
    (episode,) = TraceRecordingReader(tmp_path, verify=True)
    assert plain(episode.actions) == plain(np.arange(4))
    assert plain(episode.observations) == plain(np.array([0, 0, 1, 2, 3]))
    check(tmp_path, 4, "close")


# ---- writes that fail


FAILING = """
import os, resource, signal, sys
import numpy as np
from gym_recording import TraceRecording, TraceRecordingReader
from gym_recording.check import check_recording
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file that grows too large is then an error of `write`

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

def write(recording):
    recording.flush_interval = 0
    recording.flush_if_due(recording.lane)
    recording.save_complete()
    recording.flush_interval = 1e9

VALUES = eval(sys.argv[2])
failed = 0
for size in range(0, 3000, 83):
    directory = os.path.join(sys.argv[1], str(size))
    recording = TraceRecording(directory, durability=sys.argv[3], infos=True, flush_interval=1e9)
    recording.add_reset(VALUES[0])
    stated = 0
    for step, value in enumerate(VALUES):
        recording.add_step(value, value, step / 2, info={"v": value})
        limit(size if step % 3 else resource.RLIM_INFINITY)
        try:
            write(recording)
            stated = step + 1
        except OSError as error:
            recording.flush_interval = 1e9
            failed += 1
            assert error.filename.startswith(os.path.join(directory, "openaigym.trace")), error
        limit(resource.RLIM_INFINITY)
        for options in ({}, {"verify": True}):
            assert [len(episode) for episode in TraceRecordingReader(directory, **options)] == [stated] * (stated > 0)
        assert [str(row) for row in recording.actions] == [str(row) for row in VALUES[: step + 1]]
    if size % 2:
        limit(size)
        try:
            recording.close()
        except OSError:
            failed += 1
        limit(resource.RLIM_INFINITY)
    recording.close()
    (episode,) = TraceRecordingReader(directory, verify=True)
    assert [str(row) for row in episode.actions] == [str(row) for row in VALUES], (size, episode.actions)
    assert [str(info["v"]) for info in episode.infos[1:]] == [str(row) for row in VALUES]
    assert episode.ended_by == "close"
    assert check_recording(directory) == []
    assert not [name for name in os.listdir(directory) if name.startswith(".")]
print(failed > 30)
"""


@pytest.mark.parametrize("durability", ["none", "fsync"])
@pytest.mark.parametrize(
    "values",
    ["[np.full(20, n) for n in range(7)]", "[*range(5), 'text', 2.5]", "[[np.full(9, n)] for n in range(7)]"],
    ids=["rows", "another kind", "loose"],
)
def test_a_write_that_fails_is_repeated_whole_wherever_it_failed(tmp_path, values, durability):
    """At every size that a file may have; the reader sees the last state that was acknowledged."""
    pytest.importorskip("resource")
    assert run(FAILING, tmp_path, values, durability) == "True\n"


def run(program, *arguments):
    """What a program prints."""
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, encoding="utf-8", timeout=120)
    assert done.returncode == 0
    return done.stdout


def test_a_directory_that_is_gone_before_the_first_write_costs_nothing_once_it_is_back(tmp_path):
    directory = tmp_path / "gone"
    recording = new(directory)
    shutil.rmtree(directory)
    recording.add_reset(0)
    for step in range(4):
        recording.add_step(step, step, 0.5)
        with pytest.raises(OSError, match="gone"):
            write(recording)
    directory.mkdir()
    recording.add_step(4, 4, 0.5)
    write(recording)
    check(directory, 5)
    recording.close()
    check(directory, 5, "close")
    assert TraceRecordingReader(directory)[0].actions.tolist() == [0, 1, 2, 3, 4]


def remove_directory(directory):
    shutil.rmtree(directory)
    directory.mkdir()


def each_blob(change):
    def damage(directory):
        for path in directory.glob("*.bin"):
            change(path)

    return damage


def cut(path):
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize(
    "damage",
    {"the directory": remove_directory, "blobs": each_blob(os.unlink), "the ends of blobs": each_blob(cut)}.items(),
    ids=lambda item: item[0],
)
def test_an_episode_whose_rows_somebody_removed_is_said_to_be_lost_and_others_are_recorded(tmp_path, damage):
    directory = tmp_path / "recording"
    recording = new(directory)
    recording.add_reset(0)
    recording.add_step(7, 1, 0.5)
    write(recording)
    damage[1](directory)
    recording.add_step(8, 2, 0.5)
    complaints = []

    def go_on(method, *arguments):
        try:
            method(*arguments)
        except OSError as error:
            complaints.append(error.filename)

    for number in range(3):
        go_on(recording.add_reset, 0)
        go_on(recording.add_step, number, 1, 0.5)
        go_on(recording.save_complete)
    go_on(recording.close)
    recording.close()
    assert complaints != []
    assert all(name.startswith(os.path.join(str(directory), "openaigym.trace.")) for name in complaints)
    reader = TraceRecordingReader(directory, verify=True, on_error="skip")
    assert [episode.actions.tolist() for episode in reader] == [[0], [1], [2]]
    assert reader.errors != []


# ---- memory


def test_rows_that_are_written_are_let_go_of(tmp_path):
    recording = new(tmp_path)
    row = np.zeros(50_000, "uint8")
    recording.add_reset(row)
    sizes = []
    tracemalloc.start()
    try:
        for _ in range(6):
            for _ in range(40):
                recording.add_step(row[:5000], row, 0.0)
            write(recording)
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert recording.lane.observations.rows.stored.chunks == []
    assert max(sizes) < 4_000_000  # of 13 MB
    assert sizes[-1] < sizes[1] + 500_000
    recording.close()
    check(tmp_path, 240, "close")


def test_numpy_reads_a_running_column_from_its_blob_and_the_header_alone(tmp_path):
    """Whoever has no reader: `size` says how many bytes count, and they begin at `start`."""
    recording = new(tmp_path)
    recording.add_reset(np.zeros(2))
    recording.add_step(1, np.ones(2), 0.0)
    write(recording)
    header = header_of(tmp_path)
    record = column(header, "observations")
    (entry,) = (entry for entry in header["blobs"] if entry["fn"] == record["npyfile"])
    data = (tmp_path / entry["fn"]).read_bytes()[: entry["size"]]
    found = np.frombuffer(data, record["dtype"], offset=entry["start"]).reshape(record["shape"])
    assert found.tolist() == [[0, 0], [1, 1]]
    assert np.load(io.BytesIO(data)).shape == (0, 2)
    recording.close()


def test_an_episode_whose_first_flush_was_interrupted_keeps_its_place_among_the_others(tmp_path):
    def interrupt(call):
        raise KeyboardInterrupt

    recording = TraceRecording(tmp_path, buffer_batch_size=1_000_000)
    for number in range(3):
        recording.add_reset(float(number))
        recording.add_step(number, 0.0, 0.0)
    recording.flush_interval = 0
    (lock,) = tmp_path.glob("*.lock")
    lock.unlink()  # so that the flush, when it has begun to stream the third, makes a call of the system
    with System(interrupt).installed(), pytest.raises(KeyboardInterrupt):
        recording.add_step(2, 0.0, 0.0)
    recording.flush_interval = None
    for number in range(3, 6):
        recording.lane.end("reset")  # as an interrupt in `add_reset` leaves it: ended, and not flushed
        recording.add_reset(float(number))
    assert recording.episodes_first == 0
    recording.close()
    found = [episode.observations[0] for episode in TraceRecordingReader(tmp_path, verify=True)]
    assert found == [0, 1, 2, 3, 4, 5]


# ---- a reader beside the writer

GROWING = """
import sys
import numpy as np
from gym_recording import TraceRecording
VALUES = eval(sys.argv[2])
print("ready", flush=True)
with TraceRecording(sys.argv[1], durability="none", flush_interval=0) as recording:
    for number in range(20):
        recording.add_reset(VALUES(0))
        for step in range(12):
            recording.add_step(step, VALUES(step), 0.5)
"""


@pytest.mark.parametrize(
    "values",
    [
        "lambda step: np.full(40, float(step))",
        "lambda step: [np.full(40, float(step))]",
        "lambda step: float(step) if step < 5 else np.full(step, float(step))",
    ],
    ids=["rows", "loose", "another kind"],
)
def test_who_reads_while_it_is_written_sees_an_episode_grow(tmp_path, values):
    value = eval(values)
    command = [sys.executable, "-c", textwrap.dedent(GROWING), str(tmp_path / "recording"), values]
    seen = []
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        while process.poll() is None:
            seen.append([])
            for episode in TraceRecordingReader(tmp_path / "recording", verify=True):
                seen[-1].append(len(episode))
                assert list(episode.actions) == list(range(len(episode)))
                if len(episode):
                    assert np.array_equal(episode.observations[-1], value(len(episode) - 1))
        assert process.returncode == 0
    assert seen == sorted(seen)
    assert all(set(lengths[:-1]) <= {12} for lengths in seen)
    assert [len(episode) for episode in TraceRecordingReader(tmp_path / "recording", verify=True)] == [12] * 20
