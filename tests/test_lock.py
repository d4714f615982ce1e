"""Locks: there while a recorder of a process is open, held by that process alone, gone with its last or its life."""

import contextlib
import gc
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

import gym_recording
from gym_recording import TraceRecording, lock

fcntl = pytest.importorskip("fcntl")  # POSIX

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(gym_recording.__file__))}


def new(directory, **options):
    return TraceRecording(directory, **{"durability": "none", **options})


def write(recording):
    recording.add_reset(0.0)
    recording.end_episode()
    recording.save_complete()


def locks_in(directory):
    return sorted(path for path in directory.iterdir() if path.name.endswith(".lock"))


def only_lock(directory):
    (path,) = locks_in(directory)
    return path


def is_held(path):
    """Whether somebody holds it: a lock belongs to whoever opened the file, so this process can ask for its own."""
    assert os.path.exists(path)
    descriptor = lock.take(os.fspath(path)).descriptor
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


@contextlib.contextmanager
def process(code, *arguments):
    """A program that has said "ready", and is killed at the end of the block."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    with subprocess.Popen(command, env=ENVIRONMENT, **pipes) as running:
        try:
            assert running.stdout.readline() == "ready\n"
            yield running
        finally:
            running.kill()


# ---- while a recorder is open


def test_a_lock_says_whose_it_is(tmp_path):
    recording = new(tmp_path, flush_interval=7.5)
    path = only_lock(tmp_path)
    assert path.name == f"openaigym.trace.{recording.file_prefix.split('.')[-1]}.lock"
    boot = {"boot": lock.boot_id()}
    owner = {"host": platform.node(), **boot, "pid": os.getpid(), "flush_interval": 7.5}
    assert json.loads(path.read_text()) == owner
    recording.close()


@pytest.mark.parametrize("options, interval", [({}, 30), ({"buffer_batch_size": 3}, None), ({"flush_interval": 0}, 0)])
def test_a_lock_says_how_often_its_holder_writes(tmp_path, options, interval):
    with new(tmp_path, **options):
        assert json.loads(only_lock(tmp_path).read_text()).get("flush_interval") == interval


def test_a_lock_says_the_longest_interval_of_its_holders_as_it_is_now(tmp_path):
    def said():
        return json.loads(only_lock(tmp_path).read_text()).get("flush_interval")

    one, other = new(tmp_path, flush_interval=7), new(tmp_path, flush_interval=5000)
    assert said() == 5000
    other.flush_interval = 3
    write(other)
    assert said() == 7
    one.flush_interval = None
    one.buffer_batch_size = 100
    write(one)
    assert said() is None
    one.flush_interval = 100
    write(one)
    assert said() == 100
    one.close()
    write(other)
    assert said() == 3
    other.close()


def test_a_lock_that_was_removed_and_made_anew_by_others_is_not_held(tmp_path):
    recording = new(tmp_path)
    path = only_lock(tmp_path)
    path.unlink()
    path.write_text("")
    assert not is_held(path)
    write(recording)
    assert is_held(path)
    recording.close()
    assert locks_in(tmp_path) == []


def test_a_recorder_waits_while_the_lock_that_it_needs_is_taken_and_then_has_it(tmp_path):
    """A repair took it between two recorders of a process, and removes it at its end."""
    with new(tmp_path):
        path = only_lock(tmp_path)
    taken = lock.take(str(path))
    assert taken.made
    opened = threading.Thread(target=lambda: holders.append(new(tmp_path)))
    holders = []
    opened.start()
    opened.join(0.1)
    assert opened.is_alive()
    os.unlink(path)
    os.close(taken.descriptor)
    opened.join()
    assert is_held(path)
    holders.pop().close()
    assert locks_in(tmp_path) == []


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_recorders_of_a_process_share_one_lock_until_the_last_is_closed(tmp_path, order):
    recordings = [new(tmp_path) for _ in range(3)]
    path = only_lock(tmp_path)
    for number in order:
        assert is_held(path)
        recordings[number].close()
        recordings[number].close()
    assert locks_in(tmp_path) == []


def test_a_lock_is_made_anew_for_the_next_recorder(tmp_path):
    for _ in range(3):
        with new(tmp_path):
            assert is_held(only_lock(tmp_path))
        assert locks_in(tmp_path) == []


def test_every_directory_has_its_lock_whatever_it_is_called(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    monkeypatch.chdir(tmp_path)
    with new("a"), new(tmp_path / "link"), new(tmp_path / "a" / ".." / "a"), new("b"):
        assert is_held(only_lock(tmp_path / "a"))
        assert is_held(only_lock(tmp_path / "b"))
        monkeypatch.chdir("/")
    assert locks_in(tmp_path / "a") == locks_in(tmp_path / "b") == []


def test_a_recorder_that_is_collected_lets_go_of_its_lock(tmp_path):
    recording, other = new(tmp_path), new(tmp_path)
    recording.add_reset(1)
    recording.cycle = recording
    del recording
    gc.collect()
    assert is_held(only_lock(tmp_path))
    other.close()
    assert locks_in(tmp_path) == []


def test_a_recorder_that_cannot_close_keeps_its_lock(tmp_path):
    recording = new(tmp_path / "gone")
    recording.add_reset(1)
    shutil.rmtree(tmp_path / "gone")
    with pytest.raises(OSError):
        recording.close()
    (tmp_path / "gone").mkdir()
    recording.save_complete()
    assert is_held(only_lock(tmp_path / "gone"))
    recording.close()
    assert locks_in(tmp_path / "gone") == []


def test_a_lock_is_renewed_where_the_directory_was_removed_and_is_there_again(tmp_path):
    recordings = [new(tmp_path / "gone") for _ in range(2)]
    shutil.rmtree(tmp_path / "gone")
    (tmp_path / "gone").mkdir()
    for recording in recordings:
        recording.add_reset(1)
        recording.add_reset(1)
        recording.save_complete()
        assert is_held(only_lock(tmp_path / "gone"))
    for recording in recordings:
        recording.close()
    assert locks_in(tmp_path / "gone") == []


def test_locks_survive_recorders_that_come_and_go_in_many_threads(tmp_path):
    first = new(tmp_path)
    missing = []

    def come_and_go():
        for _ in range(20):
            with new(tmp_path):
                if not is_held(only_lock(tmp_path)):
                    missing.append(1)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missing == []
    assert is_held(only_lock(tmp_path))
    first.close()
    assert locks_in(tmp_path) == []


def test_no_descriptor_is_left_open_and_none_is_closed_that_is_somebody_elses(tmp_path):
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    new(tmp_path).close()
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(5):
        one, other = new(tmp_path / "a"), new(tmp_path / "a")
        shutil.rmtree(tmp_path / "a")
        for recording in (one, other):
            recording.add_reset(1)
            with pytest.raises(OSError):
                recording.close()
        (tmp_path / "a").mkdir()
        with open(os.devnull) as mine:
            one.close()
            other.close()
            assert mine.read() == ""
    assert sorted(os.listdir("/proc/self/fd")) == before


# ---- what is no lock


@pytest.mark.parametrize(
    "make",
    {
        "a link to a file outside": lambda path: path.symlink_to("../outside"),
        "a link to nothing": lambda path: path.symlink_to("../nothing"),
        "a directory": os.mkdir,
        "a FIFO": os.mkfifo,
    }.items(),
    ids=lambda item: item[0],
)
def test_what_is_no_file_at_the_locks_name_is_refused_and_not_written_through(tmp_path, make):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (tmp_path / "here").mkdir()
    with new(tmp_path / "here"):
        path = only_lock(tmp_path / "here")  # the name that this process will take again
    make[1](path)
    with pytest.raises(OSError) as raised, new(tmp_path / "here"):
        pass
    assert raised.value.filename == str(path)
    assert outside.read_text() == "mine"
    assert not (tmp_path / "nothing").exists()
    assert lock.take(str(path)).descriptor is None  # nor does a repair take it for the lock of a dead writer


@pytest.mark.parametrize(
    "content, owner",
    [
        ("", {}),
        ("[]", {}),
        ("3", {}),
        ("{", {}),
        ("\0", {}),
        ("[" * 4096, {}),
        ('{"a":' * 800, {}),
        ('{"host": "h"}', {"host": "h"}),
        ('{"host": "h"}' + " " * 100_000, {"host": "h"}),
        ('{"pid": ' + "9" * 4000 + "}", None),
    ],
)
def test_whatever_a_lock_says_is_read_without_harm(tmp_path, content, owner):
    path = tmp_path / "openaigym.trace.1-0123456789ab.lock"
    path.write_text(content, "latin-1")
    taken = lock.take(str(path))
    os.close(taken.descriptor)
    assert taken.trusted
    assert owner is None or taken.owner == owner


def test_a_lock_that_cannot_be_there_is_told_apart(tmp_path):
    assert lock.take(str(tmp_path / "none" / "none")) == lock.Taken(-1)
    assert list(tmp_path.iterdir()) == []


def test_letting_go_of_what_is_not_held_does_nothing(tmp_path):
    lock.release(str(tmp_path / "none"), object())
    with new(tmp_path):
        lock.release(str(only_lock(tmp_path)), object())
        assert is_held(only_lock(tmp_path))


# ---- other processes

WRITER = """
import os, subprocess, sys
from gym_recording import TraceRecording
recording = TraceRecording(sys.argv[1], durability="none")
recording.add_reset(1)
recording.save_complete()
"""
READY = """
print("ready", flush=True)
sys.stdin.readline()
"""


def test_a_lock_is_held_for_as_long_as_its_process_lives(tmp_path):
    with process(WRITER + READY, tmp_path) as writer:
        path = only_lock(tmp_path)
        assert is_held(path)
        assert json.loads(path.read_text())["pid"] == writer.pid
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        assert not is_held(path)
        assert path.exists()


def test_processes_in_one_directory_have_locks_of_their_own(tmp_path):
    with new(tmp_path), process(WRITER + READY, tmp_path) as writer:
        assert [is_held(path) for path in locks_in(tmp_path)] == [True, True]
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        assert sorted(is_held(path) for path in locks_in(tmp_path)) == [False, True]


def test_programs_that_a_recorder_starts_do_not_keep_its_lock(tmp_path):
    code = """
    program = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    child = subprocess.Popen(program, stdin=subprocess.PIPE, close_fds=False)
    """
    with process(WRITER + textwrap.dedent(code) + READY, tmp_path) as writer:
        path = only_lock(tmp_path)
        assert is_held(path)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        assert not is_held(path)


CHILD = """
pipe = os.pipe()
if os.fork() == 0:
    os.write(pipe[1], b"x")
    DO
    print("ready", flush=True)
    sys.stdin.readline()
    os._exit(0)
os.read(pipe[0], 1)
os.kill(os.getpid(), 9)
"""


def test_a_forked_child_that_lives_on_does_not_keep_the_lock_of_its_parent(tmp_path):
    with process(WRITER + CHILD.replace("DO", "pass"), tmp_path) as writer:
        assert writer.wait() == -signal.SIGKILL
        assert not is_held(only_lock(tmp_path))
        writer.stdin.close()


def test_a_forked_child_that_records_on_has_a_lock_of_its_own(tmp_path):
    record = "recording.add_reset(2); recording.save_complete(); recording.add_reset(3); recording.save_complete()"
    with process(WRITER + CHILD.replace("DO", record), tmp_path) as writer:
        assert writer.wait() == -signal.SIGKILL
        held = {json.loads(path.read_text())["pid"]: is_held(path) for path in locks_in(tmp_path)}
        assert len(held) == 2
        assert not held.pop(writer.pid)
        assert list(held.values()) == [True]
        writer.stdin.close()


def test_a_child_that_ends_leaves_the_lock_of_its_parent(tmp_path):
    recording = new(tmp_path)
    recording.add_reset(1)
    for ends in ("os._exit(0)", "recording.close(); os._exit(0)"):
        pid = os.fork()
        if pid == 0:
            try:
                exec(ends)
            finally:
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        assert is_held(only_lock(tmp_path))
    recording.close()
    assert locks_in(tmp_path) == []


def test_without_locks_in_the_system_a_lock_still_says_whose_it_is_and_none_is_trusted(tmp_path):
    code = """
    import sys
    sys.modules["fcntl"] = None
    import os
    from gym_recording import TraceRecording, lock
    recording = TraceRecording(sys.argv[1])
    (name,) = os.listdir(sys.argv[1])
    taken = lock.take(os.path.join(sys.argv[1], name))
    print(taken.descriptor >= 0, taken.trusted, taken.owner["pid"] == os.getpid())
    recording.close()
    print(os.listdir(sys.argv[1]))
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, encoding="utf-8", timeout=60)
    assert done.stdout == "True False True\n[]\n"
