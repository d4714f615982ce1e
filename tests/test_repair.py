"""Repair: what a dead writer left becomes a recording like any other, once; a living one is left alone."""

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from conftest import DATA
from v1_reader import read_recording

import gym_recording
from gym_recording import TraceRecording, TraceRecordingReader, cli, lock
from gym_recording.check import Report, check_recording

pytest.importorskip("fcntl")  # without locks nothing is known to be dead

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(gym_recording.__file__))}
TOKEN = "77-0123456789ab"
TRACE = f"openaigym.trace.0.{TOKEN}"

# ---- writers, dead or alive

START = """
import os, sys
import numpy as np
from gym_recording import TraceRecording

def episode(recording, number, steps, end=True):
    '''Observations are full of the number; actions count the steps.'''
    recording.add_reset(np.full(3, number, "float32"), info={"number": number})
    for step in range(steps):
        recording.add_step(step, np.full(3, number, "float32"), number / 2, info={"step": step})
    if end:
        recording.end_episode()

def ready():
    print("ready", flush=True)
    sys.stdin.readline()

directory = sys.argv[1]
"""
RUNNING = """
recorded = {"infos": True, "timestamps": True, "frames": True}
recording = TraceRecording(directory, **recorded, metadata={"who": "me"}, flush_interval=1000)
episode(recording, 0, 2)
episode(recording, 1, 3)
recording.save_complete()
episode(recording, 2, 4, end=False)
recording.flush_interval = 0
for step in (4, 5):
    recording.add_step(step, np.full(3, 2, "float32"), 1.0, frame=np.full((2, 2), step, "uint8"))
recording.flush_interval = 1000
recording.save_complete()
recording.add_step(6, np.full(3, 2, "float32"), 1.0)  # is lost
"""
BATCHES = """
recording = TraceRecording(directory, buffer_batch_size=1)
for number in range(COUNT):
    episode(recording, number, 2)
recording.save_complete()
"""


@contextlib.contextmanager
def writer(code, directory, *prefix):
    """A program that has said "ready", and is killed with SIGKILL at the end of the block."""
    command = [*prefix, sys.executable, "-c", START + textwrap.dedent(code) + "\nready()\n", str(directory)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    with subprocess.Popen(command, env=ENVIRONMENT, **pipes) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()
            process.wait()  # before its standard input ends, which would let it go on and close


def kill(process):
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def crash(code, directory):
    with writer(code, directory):
        pass


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    """What a writer left that was killed in its third episode."""
    directory = tmp_path_factory.mktemp("crashed")
    crash(RUNNING, directory)
    return directory


@pytest.fixture
def recording(crashed, tmp_path):
    """A copy of it."""
    return Path(shutil.copytree(crashed, tmp_path / "recording"))


# ---- what there is


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def states(directory):
    """What shows that a file was touched, beside its bytes."""
    return {path.name: (path.lstat().st_mtime_ns, path.lstat().st_ino) for path in directory.iterdir()}


def episodes(directory, **options):
    """(number, steps, ended_by) of each, whose values are right."""
    found = []
    for episode in TraceRecordingReader(directory, verify=True, **options):
        number = int(episode.observations[0, 0])
        assert (np.asarray(episode.observations) == number).all()
        assert episode.actions.tolist() == list(range(len(episode)))
        assert (episode.rewards == number / 2).all()
        found.append((number, len(episode), episode.ended_by))
    return found


def repair(directory, *arguments, code, capsys):
    """Runs the command, which must end with `code`; gives its lines, sorted by their first word."""
    assert cli.main(["repair", *arguments, str(directory)]) == code
    out, err = capsys.readouterr()
    assert (err == "") == (code != 1 or "failed:" in out)
    lines = {"done": [], "alive": [], "lost": [], "failed": []}
    for line in out.splitlines()[:-1]:
        kind, _, text = line.partition(": ")
        lines[kind].append(text)
    changes, losses = map(
        int, re.fullmatch(r"repaired: (\d+) changes?, (\d+) loss(?:es)?", out.splitlines()[-1]).groups()
    )
    assert (changes, losses) == (len(lines["done"]), len(lines["lost"]))
    return lines


@pytest.fixture
def run_repair(capsys):
    return lambda directory, *arguments, code: repair(directory, *arguments, code=code, capsys=capsys)


def nothing(**more):
    return {"done": [], "alive": [], "lost": [], "failed": [], **more}


# ---- a writer that was killed


def test_the_episode_that_ran_is_marked_and_everything_is_listed(recording, run_repair):
    assert episodes(recording) == [(0, 2, "reset"), (1, 3, "reset"), (2, 6, None)]
    lines = run_repair(recording, code=3)
    assert episodes(recording) == [(0, 2, "reset"), (1, 3, "reset"), (2, 6, "crash")]
    assert len(lines["lost"]) == 1
    assert "what it had not written yet is lost" in lines["lost"][0]
    assert (lines["alive"], lines["failed"]) == ([], [])
    (manifest,) = recording.glob("*.manifest.json")
    document = json.loads(manifest.read_bytes())
    assert [(entry["first"], entry["len"]) for entry in document["batches"]] == [(0, 2), (2, 1)]
    assert (document["metadata"], document.get("closed")) == ({"who": "me"}, None)
    assert not any(name.endswith((".lock", ".tmp")) for name in os.listdir(recording))


def test_what_is_repaired_is_right_by_every_rule(recording, run_repair):
    run_repair(recording, code=3)
    report = Report()
    assert check_recording(recording, report) == []
    assert (report.traces, report.batches, report.episodes) == (1, 2, 3)


def test_infos_timestamps_and_frames_of_the_episode_that_ran_are_kept(recording, run_repair):
    run_repair(recording, code=3)
    episode = TraceRecordingReader(recording)[2]
    assert episode.infos == [{"number": 2}, *[{"step": step} for step in range(4)], {}, {}]
    assert len(episode.timestamps) == 6
    assert [None if frame is None else frame.max() for frame in episode.frames] == [None] * 5 + [4, 5]
    assert (episode.terminated, episode.truncated, episode.gaps, episode.headless) == (None, None, (), False)


def test_numpy_loads_the_blobs_of_the_episode_that_ran(recording, run_repair):
    run_repair(recording, code=3)
    header = json.loads(next(recording.glob("*.ep000000002.json")).read_bytes())
    loaded = {tuple(column["path"]): np.load(recording / column["npyfile"]) for column in header["columns"]}
    assert len(loaded) == len(list(recording.glob("*.ep000000002.*.bin")))
    assert loaded["observations",].tolist() == [[2.0] * 3] * 7
    assert loaded["actions",].tolist() == list(range(6))
    assert loaded["rewards",].tolist() == [1.0] * 6
    assert loaded["infos", "step", "rows"].tolist() == [1, 2, 3, 4]


def test_a_reader_of_version_1_reads_everything_afterwards(recording, run_repair):
    run_repair(recording, code=3)
    ((_, found),) = read_recording(recording).items()
    assert [len(episode["rewards"]) for episode in found] == [2, 3, 6]
    assert [episode["observations"][-1].tolist() for episode in found] == [[float(n)] * 3 for n in range(3)]
    assert [episode["actions"].tolist() for episode in found] == [list(range(n)) for n in (2, 3, 6)]


def test_a_second_repair_finds_nothing_to_do(recording, run_repair):
    run_repair(recording, code=3)
    before = contents(recording), states(recording)
    for arguments in ((), ("--force",), ()):
        assert run_repair(recording, *arguments, code=0) == nothing()
        assert (contents(recording), states(recording)) == before


def test_rows_that_no_header_states_do_not_count(recording, run_repair):
    """A writer was killed between the rows of a flush and its header."""
    for path in recording.glob("*.ep000000002.*.bin"):
        with open(path, "ab") as file:
            file.write(b"\xff" * 100)
    run_repair(recording, code=3)
    assert episodes(recording)[2] == (2, 6, "crash")
    header = json.loads(next(recording.glob("*.ep000000002.json")).read_bytes())
    for column in header["columns"]:
        assert list(np.load(recording / column["npyfile"]).shape) == column["shape"]


def test_a_repair_that_was_killed_is_finished_by_the_next(recording, run_repair):
    """It had patched the .npy headers, and not yet put the header of the batch."""
    copy = Path(shutil.copytree(recording, recording.parent / "copy"))
    run_repair(copy, code=3)
    for path in copy.glob("*.ep000000002.*.bin"):
        shutil.copyfile(path, recording / path.name)
    run_repair(recording, code=3)
    assert episodes(recording) == episodes(copy)
    assert check_recording(recording) == []


@pytest.mark.parametrize("count", [1, 20, 40])
def test_batches_that_no_manifest_lists_are_listed(tmp_path, run_repair, count):
    crash(BATCHES.replace("COUNT", str(count)), tmp_path)
    everything = [(number, 2, "reset") for number in range(count)]
    assert episodes(tmp_path) == everything
    run_repair(tmp_path, code=3)
    assert episodes(tmp_path) == everything
    ((_, found),) = read_recording(tmp_path).items()
    assert len(found) == count
    assert check_recording(tmp_path) == []


def test_what_a_writer_that_died_before_its_first_file_had_recorded_is_lost(tmp_path, run_repair):
    crash("recording = TraceRecording(directory)", tmp_path)
    (left,) = os.listdir(tmp_path)
    lines = run_repair(tmp_path, code=3)
    assert lines["done"] == [f"{left}: removed"]
    assert "if anything" in lines["lost"][0]
    assert run_repair(tmp_path, code=0) == nothing()
    assert os.listdir(tmp_path) == []


def test_a_writer_that_died_without_a_manifest_gets_one(recording, run_repair):
    (manifest,) = recording.glob("*.manifest.json")
    manifest.unlink()
    run_repair(recording, code=3)
    assert episodes(recording) == [(0, 2, "reset"), (1, 3, "reset"), (2, 6, "crash")]
    assert check_recording(recording) == []
    ((_, found),) = read_recording(recording).items()
    assert len(found) == 3


def test_traces_of_several_dead_writers_are_all_repaired(tmp_path, run_repair):
    for _ in range(3):
        crash("other = TraceRecording(directory)\nepisode(other, 7, 1)\nother.save_complete()\n" + RUNNING, tmp_path)
    run_repair(tmp_path, code=3)
    found = sorted(episodes(tmp_path))
    assert found == sorted([(7, 1, "reset"), (0, 2, "reset"), (1, 3, "reset"), (2, 6, "crash")] * 3)
    assert check_recording(tmp_path) == []
    assert run_repair(tmp_path, code=0) == nothing()


def test_a_trace_that_was_closed_before_its_writer_died_is_left_as_it_is(tmp_path, run_repair):
    crash("closed = TraceRecording(directory)\nepisode(closed, 7, 1)\nclosed.close()\n" + RUNNING, tmp_path)
    closed = {path.name for path in tmp_path.glob("openaigym.trace.0.*")}
    before = {name: data for name, data in contents(tmp_path).items() if name in closed}
    run_repair(tmp_path, code=3)
    assert {name: data for name, data in contents(tmp_path).items() if name in closed} == before
    assert len(episodes(tmp_path)) == 4


def test_what_is_repaired_can_be_recorded_beside(recording, run_repair):
    run_repair(recording, code=3)
    with TraceRecording(recording) as more:
        more.add_reset(np.full(3, 5, "float32"))
    assert episodes(recording)[-1] == (5, 0, "close")
    assert run_repair(recording, code=0) == nothing()


# ---- leftovers


def test_temporaries_and_blobs_that_no_header_knows_are_removed_and_nothing_else(recording, run_repair):
    trace = next(recording.glob("*.manifest.json")).name[: -len(".manifest.json")]
    token = trace.split(".")[-1]
    removed = [
        f".{trace}.ep000000003.bin.0123456789ab.tmp",
        f".{trace}.manifest.json.0123456789ab.tmp",
        f".openaigym.trace.9.{token}.ep000000000.json.ba9876543210.tmp",
        f"{trace}.ep000000003.bin",
        f"{trace}.ep000000099.7.bin",
        f"{trace}.ep000000002.99.bin",  # of a column that has changed its kind
    ]
    kept = ["notes.txt", ".hidden", ".other.0123456789ab.tmp", f"{trace}.stats.json", f".{trace}.manifest.json.tmp"]
    for name in [*removed, *kept]:
        (recording / name).write_bytes(b"left")
    before = contents(recording)
    lines = run_repair(recording, code=3)
    found = contents(recording)
    lock_name = f"openaigym.trace.{token}.lock"
    assert sorted(before.keys() - found.keys()) == sorted([*removed, lock_name])
    assert all(any(name in line for line in lines["done"]) for name in [*removed, lock_name])
    assert {name: found[name] for name in kept} == dict.fromkeys(kept, b"left")
    assert len(episodes(recording)) == 3


# ---- what cannot be repaired is said


def test_a_batch_that_is_missing_is_said_to_be_lost(tmp_path, run_repair):
    crash(BATCHES.replace("COUNT", "4"), tmp_path)
    next(tmp_path.glob("*.ep000000001.json")).unlink()
    lines = run_repair(tmp_path, code=3)
    assert any("ep000000001.json" in line and "missing" in line for line in lines["lost"])
    assert [number for number, _, _ in episodes(tmp_path, on_error="skip")] == [0, 2, 3]
    assert len(list(tmp_path.glob("*.ep000000001.bin"))) == 1  # the header may be found again
    before = contents(tmp_path)
    lines = run_repair(tmp_path, code=3)
    assert any("ep000000001.json" in line for line in lines["lost"])
    assert (lines["done"], contents(tmp_path)) == ([], before)


@pytest.mark.parametrize("damage", [b"", b"{}", None], ids=["empty", "of another kind", "a bit"])
@pytest.mark.parametrize("end", [".json", ".bin"])
def test_a_damaged_batch_is_said_to_be_lost_and_left_for_who_can_mend_it(tmp_path, run_repair, end, damage):
    crash(BATCHES.replace("COUNT", "4"), tmp_path)
    (path,) = tmp_path.glob(f"*.ep000000001{end}")
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data if damage is None else damage)
    before = contents(tmp_path)
    lines = run_repair(tmp_path, code=3)
    assert any(path.name in line for line in lines["lost"])
    assert [number for number, _, _ in episodes(tmp_path, on_error="skip")] == [0, 2, 3]
    found = contents(tmp_path)
    assert {name: data for name, data in found.items() if ".ep" in name} == {
        name: data for name, data in before.items() if ".ep" in name
    }
    assert run_repair(tmp_path, code=3)["done"] == []


@pytest.mark.parametrize("damage", [b"", b"{}", b"not JSON"])
def test_a_damaged_manifest_hides_nothing_from_a_repair(recording, run_repair, damage):
    (manifest,) = recording.glob("*.manifest.json")
    manifest.write_bytes(damage)
    lines = run_repair(recording, code=3)
    assert any(f"{manifest.name}.damaged" in line for line in lines["lost"])
    assert (recording / f"{manifest.name}.damaged").read_bytes() == damage
    assert episodes(recording) == [(0, 2, "reset"), (1, 3, "reset"), (2, 6, "crash")]
    assert check_recording(recording) == []
    assert [len(found) for found in read_recording(recording).values()] == [3]
    before = contents(recording), states(recording)
    assert run_repair(recording, code=0) == nothing()
    assert (contents(recording), states(recording)) == before


def test_a_manifest_that_cannot_be_opened_is_no_damage(recording, run_repair):
    (manifest,) = recording.glob("*.manifest.json")
    manifest.rename(recording / "elsewhere")
    manifest.symlink_to(recording / "elsewhere")
    lines = run_repair(recording, code=1)
    assert any("cannot be opened" in line for line in lines["failed"])
    assert manifest.is_symlink()
    manifest.unlink()
    (recording / "elsewhere").rename(manifest)
    assert run_repair(recording, code=3)["failed"] == []  # it is still known to be dead
    assert check_recording(recording) == []


def test_what_a_damaged_manifest_was_is_kept_each_time(recording, run_repair):
    (manifest,) = recording.glob("*.manifest.json")
    for number, damage in enumerate((b"one", b"two", b"three")):
        manifest.write_bytes(damage)
        run_repair(recording, "--force", code=3)
        kept = recording / f"{manifest.name}.damaged{f'.{number}' if number else ''}"
        assert kept.read_bytes() == damage


def test_batches_that_came_after_a_repair_are_listed_by_the_next(tmp_path, run_repair):
    recording = TraceRecording(tmp_path)
    for number in range(3):
        recording.add_reset(number)
        recording.end_episode()
        recording.save_complete()
        run_repair(tmp_path, "--force", code=3)
        (manifest,) = tmp_path.glob("*.manifest.json")
        assert len(json.loads(manifest.read_bytes())["batches"]) == number + 1
    recording.close()
    assert run_repair(tmp_path, code=0) == nothing()
    assert len(TraceRecordingReader(tmp_path, verify=True)) == 3


def test_a_name_that_cannot_be_removed_does_not_keep_the_rest_from_being_repaired(recording, run_repair):
    trace = next(recording.glob("*.manifest.json")).name.partition(".manifest")[0]
    (recording / f"{trace}.ep000000099.bin").mkdir()
    lines = run_repair(recording, code=1)
    assert any("cannot be removed" in line for line in lines["failed"])
    assert episodes(recording) == [(0, 2, "reset"), (1, 3, "reset"), (2, 6, "crash")]
    (recording / f"{trace}.ep000000099.bin").rmdir()
    assert run_repair(recording, code=3)["failed"] == []
    assert run_repair(recording, code=0) == nothing()
    assert check_recording(recording) == []


def test_a_manifest_of_a_later_version_stays_as_it_is(recording, run_repair):
    (manifest,) = recording.glob("*.manifest.json")
    manifest.write_bytes(later := b'{"format": {"name": "gym-recording", "version": [3, 0]}, "batches": []}')
    lines = run_repair(recording, code=3)
    assert any(manifest.name in line for line in lines["lost"])
    assert manifest.read_bytes() == later
    assert [path.name for path in recording.glob("*.manifest.json*")] == [manifest.name]


def test_a_damaged_stream_is_said_to_be_lost_and_its_bytes_stay(recording, run_repair):
    blob = next(path for path in recording.glob("*.ep000000002.*.bin") if path.stat().st_size > 150)
    data = bytearray(blob.read_bytes())
    data[-1] ^= 1
    blob.write_bytes(data)
    before = {name: data for name, data in contents(recording).items() if ".ep000000002" in name}
    lines = run_repair(recording, code=3)
    assert any(blob.name in line for line in lines["lost"])
    assert {name: data for name, data in contents(recording).items() if ".ep000000002" in name} == before
    assert episodes(recording, on_error="skip") == [(0, 2, "reset"), (1, 3, "reset")]


# ---- nothing to do


def test_a_recording_that_was_closed_needs_no_repair(tmp_path, run_repair):
    with TraceRecording(tmp_path) as recording:
        recording.add_reset(1)
    before = contents(tmp_path), states(tmp_path)
    for arguments in ((), ("--force",)):
        assert run_repair(tmp_path, *arguments, code=0) == nothing()
    assert (contents(tmp_path), states(tmp_path)) == before


def test_an_empty_directory_needs_no_repair(tmp_path, run_repair):
    (tmp_path / "notes.txt").write_text("mine")
    assert run_repair(tmp_path, code=0) == nothing()
    assert run_repair(tmp_path, "--force", code=0) == nothing()
    assert os.listdir(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize("name", sorted(path.name for path in (DATA / "golden").iterdir() if path.is_dir()))
def test_recordings_of_old_versions_are_left_as_they_are(tmp_path, run_repair, name):
    directory = Path(shutil.copytree(DATA / "golden" / name, tmp_path / name))
    (directory / "openaigym.trace.0.1.ep000000000.bin").write_bytes(b"no header")
    for path in directory.iterdir():
        os.utime(path, (0, 0))
    before = contents(directory), states(directory)
    for arguments in ((), ("--force",)):
        assert run_repair(directory, *arguments, code=0) == nothing()
    assert (contents(directory), states(directory)) == before


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.write_text("x")], ids=["missing", "a file"])
def test_what_is_no_directory_is_an_error(tmp_path, capsys, make):
    path = tmp_path / "recording"
    make(path)
    assert cli.main(["repair", str(path)]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert str(path) in err


def test_a_directory_that_cannot_be_written_to_is_an_error_and_stays_as_it_is(crashed, tmp_path):
    """In a program of its own, because root may write everywhere."""
    code = """
    import os, sys
    from gym_recording import cli
    cli.main(["repair", sys.argv[2]])  # loads everything
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    sys.exit(cli.main(["repair", sys.argv[1]]))
    """
    directory = Path(shutil.copytree(crashed, Path(os.path.realpath("/tmp")) / f"read-only-{os.getpid()}"))
    (directory / "empty").mkdir()
    try:
        before = contents_of_files(directory)
        for path in directory.iterdir():
            path.chmod(0o444)
        directory.chmod(0o555)
        command = [sys.executable, "-c", textwrap.dedent(code), str(directory), str(tmp_path)]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, encoding="utf-8")
        assert contents_of_files(directory) == before
        assert (done.returncode, done.stderr.count("\n")) in ((1, 1), (0, 0))
        assert done.returncode == 1 or "may be alive" in done.stdout
    finally:
        directory.chmod(0o755)
        shutil.rmtree(directory)


def contents_of_files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


# ---- who is alive


def test_the_files_of_a_living_writer_are_left_alone_and_it_goes_on(tmp_path, run_repair):
    code = RUNNING + "ready()\nepisode(recording, 3, 1)\nrecording.close()\n"
    with writer(code, tmp_path) as process:
        before = contents(tmp_path), states(tmp_path)
        lines = run_repair(tmp_path, code=0)
        assert [line.startswith("the writer ") and line.endswith("may be alive") for line in lines["alive"]] == [True]
        assert {**lines, "alive": []} == nothing()
        assert (contents(tmp_path), states(tmp_path)) == before
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
    assert episodes(tmp_path) == [(0, 2, "reset"), (1, 3, "reset"), (2, 7, "reset"), (3, 1, "reset")]
    assert run_repair(tmp_path, code=0) == nothing()


BUSY = """
ready()
number = 0
for _ in range(15):
    with TraceRecording(directory, durability="none", flush_interval=0) as recording:
        for _ in range(3):
            episode(recording, number, 3)
            number += 1
"""


def test_repairs_that_come_again_and_again_never_disturb_a_living_writer(tmp_path, capsys):
    """Recorders open and close, stream and commit, and so does their lock; the writer is alive all the time."""
    with writer(BUSY, tmp_path) as process:
        process.stdin.write("\n")
        process.stdin.flush()
        os.set_blocking(process.stdout.fileno(), False)
        repairs = 0
        while process.stdout.readline() != "ready\n":
            assert cli.main(["repair", str(tmp_path)]) == 0
            repairs += 1
    assert repairs > 1
    out = capsys.readouterr().out
    assert {line.split(": ")[0] for line in out.splitlines()} <= {"repaired", "alive"}, out
    assert [number for number, _, _ in episodes(tmp_path)] == list(range(45))
    assert check_recording(tmp_path) == []


def test_a_recorder_of_the_same_process_is_alive(tmp_path, run_repair):
    with TraceRecording(tmp_path, flush_interval=0) as recording:
        recording.add_reset(np.zeros(3))
        recording.add_step(0, np.zeros(3), 0.0)
        recording.save_complete()
        before = contents(tmp_path)
        assert len(run_repair(tmp_path, code=0)["alive"]) == 1
        assert contents(tmp_path) == before
    assert episodes(tmp_path) == [(0, 1, "close")]


def test_the_dead_are_repaired_beside_the_living(tmp_path, run_repair):
    crash(RUNNING, tmp_path)
    dead = set(contents(tmp_path))
    with writer(RUNNING, tmp_path):
        before = {name: data for name, data in contents(tmp_path).items() if name not in dead}
        lines = run_repair(tmp_path, code=3)
        assert (len(lines["alive"]), len(lines["lost"])) == (1, 1)
        assert {name: data for name, data in contents(tmp_path).items() if name not in dead} == before
        assert {ended_by for _, _, ended_by in episodes(tmp_path)} == {"reset", "crash", None}


def can_unshare():
    command = ["unshare", "--pid", "--fork", "--kill-child", "true"]
    return shutil.which("unshare") is not None and subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="needs root, and unshare")
def test_a_writer_in_another_pid_namespace_is_alive_until_it_dies(tmp_path, run_repair):
    with writer(RUNNING, tmp_path, "unshare", "--pid", "--fork", "--kill-child"):
        assert json.loads(next(tmp_path.glob("*.lock")).read_text())["pid"] == 1
        before = contents(tmp_path), states(tmp_path)
        assert len(run_repair(tmp_path, code=0)["alive"]) == 1
        assert (contents(tmp_path), states(tmp_path)) == before
    wait_until_nobody_holds(next(tmp_path.glob("*.lock")))
    run_repair(tmp_path, code=3)
    assert episodes(tmp_path)[2] == (2, 6, "crash")


def wait_until_nobody_holds(path):
    """`unshare` is dead, the writer in its namespace a moment later: the lock is granted when it is."""
    import fcntl

    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)


FORK = """
pipe = os.pipe()
if os.fork():
    os.read(pipe[0], 1)
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("records", [True, False])
def test_when_only_a_forked_child_lives_on_the_parent_is_dead_and_the_child_alive(tmp_path, run_repair, records):
    child = "episode(recording, 8, 2)\nrecording.save_complete()\n" if records else ""
    with writer(RUNNING + FORK + child + "os.write(pipe[1], b'x')\n", tmp_path) as process:
        assert process.wait() == -signal.SIGKILL
        names = {name for name in contents(tmp_path) if f".{process.pid}-" not in name}
        before = {name: data for name, data in contents(tmp_path).items() if name in names}
        assert (before != {}) == records
        lines = run_repair(tmp_path, code=3)
        assert len(lines["alive"]) == records
        assert {name: data for name, data in contents(tmp_path).items() if name in names} == before
        found = [(0, 2, "reset"), (1, 3, "reset"), (2, 6, "crash")]
        assert sorted(episodes(tmp_path)) == [*found, *[(8, 2, "reset")] * records]
        process.stdin.close()


def test_a_repair_leaves_what_another_repair_is_at(recording, run_repair):
    (path,) = recording.glob("*.lock")
    descriptor = lock.take(str(path)).descriptor
    before = contents(recording)
    assert len(run_repair(recording, code=0)["alive"]) == 1
    assert contents(recording) == before
    os.close(descriptor)
    run_repair(recording, code=3)


# ---- writers of which little is known

HERE = {"host": platform.node(), "boot": lock.boot_id()}
INTERVAL = 50.0
YOUNG, OLD = 10 * INTERVAL - 100, 10 * INTERVAL + 100  # seconds
OWNERS = {  # what the lock says, how old the newest file is, and whether its writer is held to be dead
    "of this boot": (HERE, 0, True),
    "of this boot, old": (HERE, OLD, True),
    "of another boot": ({**HERE, "boot": "other"}, YOUNG, False),
    "of another boot, old": ({**HERE, "boot": "other"}, OLD, True),
    "of another machine": ({**HERE, "host": "other"}, YOUNG, False),
    "of another machine, old": ({**HERE, "host": "other"}, OLD, True),
    "of a machine without boots": ({"host": platform.node(), "boot": None}, YOUNG, False),
    "of a machine without boots, old": ({"host": platform.node(), "boot": None}, OLD, True),
    "of nobody": ({}, YOUNG, False),
    "of nobody, old": ({}, OLD, True),
    "in the future": ({"host": "other"}, -OLD, False),
    "that never writes": ({"host": "other", "flush_interval": None}, 10**7, False),
    "that writes at each step": ({"host": "other", "flush_interval": 0}, 10**7, False),
    "of an odd interval": ({"host": "other", "flush_interval": "50"}, 10**7, False),
}


def make_old(directory, seconds):
    """All files were written so long ago, by the clock of the directory."""
    probe = directory / "probe"
    probe.write_text("")
    written = probe.stat().st_mtime - seconds
    probe.unlink()
    for path in directory.iterdir():
        os.utime(path, (written, written))


@pytest.mark.parametrize("name", OWNERS)
def test_a_writer_is_dead_by_its_lock_and_boot_or_by_its_age(recording, run_repair, name):
    owner, age, is_dead = OWNERS[name]
    (path,) = recording.glob("*.lock")
    path.write_text(json.dumps({"flush_interval": INTERVAL, **owner}))
    make_old(recording, age)
    before = contents(recording), states(recording)
    lines = run_repair(recording, code=3 if is_dead else 0)
    assert (lines["alive"] == []) == is_dead
    assert ((contents(recording), states(recording)) == before) == (not is_dead)
    assert episodes(recording)[2][2] == ("crash" if is_dead else None)


@pytest.mark.parametrize("name", OWNERS)
def test_what_is_held_to_be_alive_is_repaired_by_force(recording, run_repair, name):
    owner, age, _ = OWNERS[name]
    (path,) = recording.glob("*.lock")
    path.write_text(json.dumps({"flush_interval": INTERVAL, **owner}))
    make_old(recording, age)
    run_repair(recording, "--force", code=3)
    assert episodes(recording)[2] == (2, 6, "crash")
    assert not path.exists()
    assert run_repair(recording, code=0) == nothing()


def test_one_young_file_shows_that_a_writer_elsewhere_lives(recording, run_repair):
    (path,) = recording.glob("*.lock")
    path.write_text(json.dumps({"host": "other", "boot": "other", "flush_interval": INTERVAL}))
    for young in sorted(recording.iterdir()):
        make_old(recording, OLD)
        os.utime(young)
        assert len(run_repair(recording, code=0)["alive"]) == 1, young.name
    make_old(recording, OLD)
    run_repair(recording, code=3)


def test_where_the_lock_is_gone_the_manifest_says_whose_it_was(recording, run_repair):
    """Copied to another place without the lock, on the same machine."""
    (path,) = recording.glob("*.lock")
    path.unlink()
    assert run_repair(recording, code=3)["alive"] == []
    assert episodes(recording)[2] == (2, 6, "crash")


def test_nobody_is_held_to_be_dead_of_whom_neither_lock_nor_manifest_tells(recording, run_repair):
    next(recording.glob("*.lock")).unlink()
    next(recording.glob("*.manifest.json")).unlink()
    make_old(recording, OLD)
    before = contents(recording)
    assert len(run_repair(recording, code=0)["alive"]) == 1
    assert contents(recording) == before
    run_repair(recording, "--force", code=3)
    assert episodes(recording)[2] == (2, 6, "crash")


def test_the_command_is_there_for_programs(crashed, tmp_path):
    directory = shutil.copytree(crashed, tmp_path / "recording")
    command = [sys.executable, "-m", "gym_recording", "repair", str(directory)]
    for code in (3, 0):
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, timeout=60)
        assert (done.returncode, done.stderr) == (code, b"")
