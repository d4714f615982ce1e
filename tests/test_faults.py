"""Kills, interrupts, full disks, broken disks and forks at every call of the system: nothing acknowledged is lost.

What needs root is in `tests/faults/run`.
"""

import errno
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from faults import events
from faults.session import PROGRAMS, call, judge_directory, play, promised, scratch
from faults.system import Failing, System, kill_at, short_writes

import gym_recording
from gym_recording import TraceRecording, TraceRecordingReader
from gym_recording.check import check_recording
from gym_recording.repair import repair_recording

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="needs POSIX"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
every_program = pytest.mark.parametrize("name", PROGRAMS)

HANGS = 30  # seconds; a child that takes longer hangs, and must not hang the tests
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(gym_recording.__file__))}


@pytest.fixture
def directories():
    """Gives new directories, one after the other."""
    with scratch() as directory:
        yield (Path(directory) / str(number) for number in itertools.count())


def fork(function):
    """Runs a function in a forked process; gives its wait status, and what it wrote to the descriptor that it gets."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            signal.alarm(HANGS)
            os.close(reading)
            function(writing)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, "rb") as pipe:
        written = pipe.read()
    return os.waitpid(child, 0)[1], written


# ---- SIGKILL


@every_program
def test_a_kill_at_any_call_of_the_system_leaves_a_clean_prefix_that_can_be_repaired(directories, name):
    program, options = PROGRAMS[name]
    for number, directory in enumerate(directories):

        def record(pipe, number=number, directory=directory):
            with System(kill_at(number)).installed():
                play(directory, program, options, lambda count: os.write(pipe, b"."))

        status, written = fork(record)
        if directory.exists():
            promise = promised(program, options, len(written))
            judge_directory(directory, program, promise, clean=True)
            repaired = repair(directory)
            assert (repaired.alive, repaired.failed) == ([], [])
            judge_directory(directory, program, promise, clean=True)
            assert all(episode.ended_by is not None for episode in TraceRecordingReader(directory))
            assert check_recording(directory) == []
            assert not [file for file in os.listdir(directory) if file.endswith((".tmp", ".lock"))]
            assert repair(directory).done == []
        if status == 0:
            break
        assert status == signal.SIGKILL
    print(f"killed at {number} calls")
    assert number > 50


def repair(directory):
    with System().installed():
        return repair_recording(os.fspath(directory))


# ---- Ctrl-C


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("options", "calls"), [({}, 30), ({"flush_interval": 0}, 10), ({"buffer_batch_size": 1}, 16)], ids=str
)
def test_an_interrupt_at_any_call_of_the_system_loses_nothing_and_doubles_nothing(directories, options, calls, after):
    def interrupt_at(number):
        def plan(call):
            result = call.perform() if after or call.number != number else None
            if call.number == number:
                os.kill(os.getpid(), signal.SIGINT)  # in a thread that commits, this interrupts the main thread
                result = result if after else call.perform()
            return result

        return plan

    def record(pipe):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with System(interrupt_at(number)).installed() as system:
            program = None
            while program is None:
                try:
                    program = events.Program(TraceRecording(directory, **options))
                except KeyboardInterrupt:
                    pass
            program.run(lambda: program.begun < calls)
        report = {"returned": program.returned, "begun": program.begun, "calls": system.number}
        os.write(pipe, json.dumps(report).encode())

    for number, directory in enumerate(directories):
        status, written = fork(record)
        assert status == 0
        report = json.loads(written)
        program = events.Program(None)
        program.returned, program.begun = report["returned"], report["begun"]
        events.judge(TraceRecordingReader(directory, verify=True), program)
        assert (repair(directory).failed, check_recording(directory)) == ([], [])
        assert not [file for file in os.listdir(directory) if file.endswith((".tmp", ".lock"))]
        if number > report["calls"]:
            break
    print(f"interrupted at {number} calls")
    assert number > 50


def test_interrupts_at_random_moments_lose_nothing_and_double_nothing(directories):
    for options in ({}, {"flush_interval": 0.001}, {"buffer_batch_size": 20}):
        directory = next(directories)
        program = events.Program(TraceRecording(directory, **options))
        events.by_timer(program, 50, random.Random(str(options)))
        events.judge(TraceRecordingReader(directory, verify=True), program)
        assert program.interrupts == 50


# ---- full and broken disks

FAILURES = {
    "the disk is full for one call": (errno.ENOSPC, {}),
    "the disk is full until there is space": (errno.ENOSPC, {"further": 10**9}),
    "an error, three times": (errno.EIO, {"further": 2}),
    "errors until it is repaired": (errno.EIO, {"further": 10**9}),
    "an error of what was done": (errno.EIO, {"after": True}),
}


@pytest.mark.parametrize("failure", FAILURES)
@every_program
def test_a_failure_at_any_call_is_an_error_that_names_the_file_or_is_none_and_loses_nothing(directories, name, failure):
    program, options = PROGRAMS[name]
    code, arguments = FAILURES[failure]
    for number, directory in enumerate(directories):
        failing = Failing(number, code, **arguments)
        with System(failing).installed():
            recording, returned, raised = None, 0, []
            for count, (method, *values) in enumerate(program, 1):
                try:
                    recording = recording or TraceRecording(directory, **options)
                    call(recording, method, *values)
                    returned = count
                except OSError as error:
                    raised.append(count)
                    assert error.errno == code
                    assert within(directory, error.filename), f"{error!r} of {failing.failed} names no file"
                    if recording is None:
                        failing.over = True  # nothing can be recorded before it is
                        recording = TraceRecording(directory, **options)
                        call(recording, method, *values)
            if directory.exists():
                judge_directory(directory, program, promised(program, options, returned, raised), clean=True)
            failing.over = True
            recording.close()
        judge_directory(directory, program, promised(program, options, len(program)), clean=True)
        assert_no_trust_in_what_failed(failing)
        if not any(failed.name == "unlink" for failed in failing.failed):
            assert not [file for file in os.listdir(directory) if file.endswith((".tmp", ".lock"))]
        if not failing.failed:
            break
    print(f"failed at {number} calls")
    assert number > 50


def within(directory, filename):
    return filename is not None and os.path.commonpath([filename, directory.parent]) == str(directory.parent)


def assert_no_trust_in_what_failed(failing):
    """After a sync has failed, nobody knows what the medium has, and a second one may not say so again."""
    for failed in failing.failed:
        if failed.name == "fsync":
            later = [c.name for c in failing.calls if c.number > failed.number and c.path == failed.path]
            assert "replace" not in later or "writev" in later[: later.index("replace")]
            if "fsync" in later and failed.path.endswith((".bin", ".tmp")):
                assert {"open", "writev"} <= set(later[: later.index("fsync")])


@pytest.mark.parametrize("size", [1, 7, 1000])
@every_program
def test_a_system_that_takes_a_few_bytes_at_a_time_gets_them_all(directories, name, size):
    program, options = PROGRAMS[name]
    directory = next(directories)
    with System(short_writes(size)).installed():
        play(directory, program, options)
    judge_directory(directory, program, promised(program, options, len(program)), clean=True)


@every_program
def test_limits_of_the_size_of_files_are_an_error_or_lose_nothing(directories, name):
    largest = largest_file(directories, name)
    limits = sorted({*range(0, largest + 2, 1 + largest // 60), largest - 1, largest, largest + 1})
    failures = sum(fails_at_limit(next(directories), name, limit, largest) for limit in limits)
    print(f"{len(limits)} limits, {failures} of them too small")
    assert failures > 10


def largest_file(directories, name):
    """The size of the largest file that a program makes."""
    program, options = PROGRAMS[name]
    directory = next(directories)
    play(directory, program, {**options, "durability": "none"})
    return max(path.stat().st_size for path in directory.iterdir())


def fails_at_limit(directory, name, limit, largest):
    """Records a program under a limit of the size of files, and goes on without one; gives whether that was felt."""
    resource = pytest.importorskip("resource")
    program, options = PROGRAMS[name]

    def record(pipe):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        recording = None
        for method, *values in program:
            try:
                recording = recording or TraceRecording(directory, **options)
                call(recording, method, *values)
            except OSError as error:
                assert (error.errno, within(directory, error.filename)) == (errno.EFBIG, True)
                os.write(pipe, b".")
                if recording is None:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                    recording = TraceRecording(directory, **options)
                    call(recording, method, *values)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        recording.close()

    with System().installed():
        status, written = fork(record)
        assert status == 0, f"limit {limit}"
        assert written or limit >= largest - 40  # what says when, or in which process, is not always as long
        judge_directory(directory, program, promised(program, options, len(program)), clean=True)
    return bool(written)


# ---- a program that ends

START = """
import os, resource, sys
from gym_recording import TraceRecording

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

def record(directory, number=0):
    recording = TraceRecording(directory)
    recording.add_reset(float(number))
    for step in range(100):
        recording.add_step(number, float(step), 0.5)
    return recording
"""
LOSSES = {
    "the end of the program": "recording = record(sys.argv[1])\nlimit(100)",
    "sys.exit": "recording = record(sys.argv[1])\nlimit(100)\nsys.exit()",
    "a thread": """
import threading
limit(100)
thread = threading.Thread(target=lambda: record(sys.argv[1]))
thread.start()
thread.join()
""",
    "a reference that is deleted": "recording = record(sys.argv[1])\nlimit(100)\ndel recording",
    "a reference cycle": "recording = record(sys.argv[1])\nrecording.itself = recording\nlimit(100)\ndel recording",
    "a child of multiprocessing": """
import multiprocessing

def work():
    global recording
    recording = record(sys.argv[1])
    limit(100)

process = multiprocessing.get_context("fork").Process(target=work)
process.start()
process.join()
sys.exit(process.exitcode)
""",
    "a forked child": """
if os.fork() == 0:
    recording = record(sys.argv[1])
    limit(100)
else:
    sys.exit(os.wait()[1] >> 8)
""",
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_program_whose_last_data_cannot_be_written_does_not_exit_with_0(directories, name):
    directory = next(directories)
    command = [sys.executable, "-c", START + LOSSES[name], str(directory)]
    done = subprocess.run(command, env=ENVIRONMENT, timeout=60, stderr=subprocess.PIPE)
    assert done.returncode not in (0, -signal.SIGKILL)
    assert str(directory).encode() in done.stderr  # the file is named
    assert len(TraceRecordingReader(directory)) == 0


def test_what_could_not_be_written_when_a_recorder_was_collected_is_written_at_exit(directories):
    directory = next(directories)
    code = "recording = record(sys.argv[1])\nlimit(100)\ndel recording\nlimit(resource.RLIM_INFINITY)\nprint('on')"
    done = subprocess.run([sys.executable, "-c", START + code, str(directory)], env=ENVIRONMENT, capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"on\n")
    assert b"File too large" in done.stderr
    assert [len(episode.actions) for episode in TraceRecordingReader(directory, verify=True)] == [100]


# ---- fork, and who lives


@pytest.mark.parametrize("options", [{"buffer_batch_size": 1}, {"flush_interval": 0}], ids=str)
def test_a_fork_at_any_call_of_a_commit_gives_each_process_its_own_episodes_once(directories, options):
    """The commit runs beside the loop; it is held at one of its calls while the loop forks."""

    def record(pipe):
        reached, resume = threading.Event(), threading.Event()
        main = threading.current_thread()

        def plan(call):
            if call.number == number and threading.current_thread() is not main:
                reached.set()
                resume.wait(0.1)  # in vain where the loop itself waits for this commit, and cannot fork
            return call.perform()

        with System(plan).installed() as system:
            recording = TraceRecording(directory, **options)
            for _ in episodes(recording, 0, 1, 2, 3):
                while not reached.is_set() and threading.active_count() > 1:
                    for thread in set(threading.enumerate()) - {main}:
                        thread.join(0.002)
                if reached.is_set() and not resume.is_set():
                    child = os.fork()
                    if child == 0:
                        system.plan = None
                        list(episodes(recording, 10, 11))
                        recording.close()
                        os._exit(0)
                    assert os.waitpid(child, 0)[1] == 0
                    resume.set()
                    os.write(pipe, b"forked ")
            recording.close()
        os.write(pipe, b"%d" % system.number)

    def episodes(recording, *values):
        for value in values:
            yield recording.add_reset(float(value))
            yield recording.add_step(value, 0.0, 0.0)

    forks = 0
    for number, directory in enumerate(directories):
        status, written = fork(record)
        assert status == 0
        *forked, calls = written.split()
        found = sorted(episode.actions.tolist() for episode in TraceRecordingReader(directory, verify=True))
        assert found == [[0], [1], [2], [3], *([[10], [11]] if forked else [])]
        assert check_recording(directory) == []
        assert not [file for file in os.listdir(directory) if file.endswith((".tmp", ".lock"))]
        forks += bool(forked)
        if number > int(calls):
            break
    print(f"forked at {forks} calls")
    assert forks > 50


@pytest.mark.parametrize("options", [{}, {"flush_interval": 0}], ids=str)
def test_a_repair_at_any_call_of_a_living_writer_changes_nothing(directories, options):
    program = PROGRAMS["streamed"][0]

    def record(pipe):
        def plan(call):
            if call.number == number and os.path.isdir(directory):
                before = contents(directory)
                status, report = fork(lambda pipe: os.write(pipe, json.dumps(vars(repair(directory))).encode()))
                assert status == 0
                report = json.loads(report)
                assert (report["done"], report["failed"], contents(directory)) == ([], [], before)
                assert report["alive"] or not [name for name in before if name.endswith((".tmp", ".lock"))]
            return call.perform()

        with System(plan).installed() as system:
            play(directory, program, options)
        os.write(pipe, b"%d" % system.number)

    for number, directory in enumerate(directories):
        status, calls = fork(record)
        assert status == 0
        judge_directory(directory, program, promised(program, options, len(program)), clean=True)
        if number > int(calls):
            break
    print(f"repaired at {number} calls")


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_writer_that_was_killed_is_dead_though_a_child_of_it_lives_on(directories):
    directory = next(directories)
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:
        signal.alarm(HANGS)
        recording = TraceRecording(directory, flush_interval=0)
        recording.add_reset(0.0)
        for value in range(4):
            recording.add_step(value, 0.0, 0.0)
        child = os.fork()
        os.write(writing, b"" if child == 0 else b"%d\n" % child)
        signal.alarm(HANGS)
        signal.pause()
    os.close(writing)
    with open(reading, "rb") as pipe:
        child = int(pipe.readline())
        try:
            assert repair(directory).alive != []
            os.kill(parent, signal.SIGKILL)
            os.waitpid(parent, 0)
            os.kill(child, 0)  # it is there
            repaired = repair(directory)
            assert (repaired.alive, repaired.failed) == ([], [])
        finally:
            os.kill(child, signal.SIGKILL)
    (episode,) = TraceRecordingReader(directory, verify=True)
    assert (episode.ended_by, episode.actions.tolist()[:3]) == ("crash", [0, 1, 2])


POOL = """
import multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor
from gym_recording import TraceRecording

recordings = []

def work(value):
    if not recordings:
        recordings.append(TraceRecording(sys.argv[1]))
    recordings[0].add_reset(float(value))
    recordings[0].add_step(value, 0.0, 0.0)
    return os.getpid()

if __name__ == "__main__":
    how, method = sys.argv[2:]
    context = multiprocessing.get_context(method)
    if how == "executor":
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            pids = set(pool.map(work, range(20)))
    else:
        pool = context.Pool(2)
        pids = set(pool.map(work, range(20), 1))
        if how == "closed":
            pool.close()
        else:
            pool.terminate()
        pool.join()
    print(len(pids))
"""


@pytest.mark.parametrize(
    ("how", "method"),
    [("closed", "fork"), ("closed", "spawn"), ("closed", "forkserver"), ("executor", "fork"), ("terminated", "fork")],
)
def test_workers_of_a_pool_that_never_close_lose_nothing_unless_they_are_killed(directories, how, method):
    directory = next(directories)
    os.mkdir(directory)
    script = directory / "program.py"
    script.write_text(POOL, encoding="ascii")
    # Python 3.12 warns of what Pool and the executor do themselves: they fork beside their own threads.
    command = [sys.executable, "-W", "ignore", str(script), str(directory), how, method]
    done = subprocess.run(command, env=ENVIRONMENT, timeout=60, stdout=subprocess.PIPE)
    assert done.returncode == 0
    actions = [episode.actions.tolist() for episode in TraceRecordingReader(directory, verify=True)]
    if how == "terminated":  # by SIGTERM: the last `flush_interval` is lost, and that can be told
        assert all(action in [[value] for value in range(20)] for action in actions)
        assert repair(directory).failed == []
    else:
        assert sorted(actions) == [[value] for value in range(20)]


# ---- directories that change


def record_numbers(recording, first, count):
    """An episode that goes on, and the errors that recording it gave."""
    errors = []
    for number in range(first, first + count):
        try:
            recording.add_step(number, float(number), 0.5)
        except OSError as error:
            errors.append(error)
    return errors


@pytest.mark.parametrize("options", [{}, {"flush_interval": 0}, {"buffer_batch_size": 1}], ids=str)
def test_a_directory_that_is_renamed_is_an_error_until_it_is_back_and_nothing_is_lost(directories, options):
    directory = next(directories)
    recording = TraceRecording(directory, **options)
    recording.add_reset(-1.0)
    record_numbers(recording, 0, 5)
    recording.end_episode()
    recording.save_complete()
    directory.rename(f"{directory} moved")
    recording.add_reset(-1.0)
    record_numbers(recording, 5, 5)
    for method in (recording.end_episode, recording.save_complete, recording.close):
        try:
            method()
        except OSError as error:
            assert error.errno == errno.ENOENT
            assert within(directory, error.filename)
        else:
            assert method == recording.end_episode
    assert not directory.exists()
    Path(f"{directory} moved").rename(directory)
    recording.close()
    actions = [episode.actions.tolist() for episode in TraceRecordingReader(directory, verify=True)]
    assert actions == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert check_recording(directory) == []


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("options", [{}, {"flush_interval": 0}, {"buffer_batch_size": 1}], ids=str)
def test_a_directory_that_is_removed_and_made_again_has_what_came_later_and_says_what_is_missing(
    directories, options, verify
):
    directory = next(directories)
    recording = TraceRecording(directory, **options)
    recording.add_reset(-1.0)
    record_numbers(recording, 0, 5)
    recording.end_episode()
    recording.add_reset(-1.0)
    record_numbers(recording, 5, 5)
    recording.save_complete()
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
    directory.mkdir()
    errors = record_numbers(recording, 10, 5)  # the running episode: if it is streamed, its beginning is lost
    for first in (20, 30):
        try:
            recording.add_reset(-1.0)
        except OSError as error:
            errors.append(error)
        errors += record_numbers(recording, first, 5)
    while not recording.closed:
        assert len(errors) < 50
        try:
            recording.close()
        except OSError as error:
            errors.append(error)
    assert all(within(directory, error.filename) for error in errors)
    reader = TraceRecordingReader(directory, verify=verify, on_error="skip")
    actions = [episode.actions.tolist() for episode in reader]
    running = [] if options.get("flush_interval") == 0 else [list(range(5, 15))]
    assert actions == [*running, list(range(20, 25)), list(range(30, 35))]
    assert reader.errors != []
    assert bool(errors) == (not running)


def test_a_directory_that_cannot_be_written_is_an_error_in_the_constructor(directories):
    directory = next(directories)
    directory.mkdir()
    directory.chmod(0o555)

    def record(pipe):
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        for place in (directory, directory / "new"):
            try:
                TraceRecording(place)
            except OSError as error:
                os.write(pipe, f"{error.errno} {within(directory, error.filename)}\n".encode())

    directory.parent.chmod(0o755)
    status, written = fork(record)
    directory.chmod(0o755)
    assert (status, written.decode()) == (0, f"{errno.EACCES} True\n" * 2)
    assert os.listdir(directory) == []
