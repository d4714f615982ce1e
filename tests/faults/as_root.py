"""Faults that take root, or strace: kills at every system call, a full file system, pid namespaces."""

import collections
import contextlib
import errno
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import test_faults
from faults import events
from faults.session import PROGRAMS, call, judge_directory, play, promised, scratch

from gym_recording import TraceRecording, TraceRecordingReader
from gym_recording.check import check_recording
from gym_recording.repair import repair_recording

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
HANGS = 60  # seconds


# ---- every system call


def traced(function, inject="trace=all", log=os.devnull):
    """Runs a function in a forked process under strace, which may inject something; gives its wait status and output.

    System calls are counted from where the function begins, without those of starting an interpreter.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            signal.alarm(HANGS)
            os.close(reading)
            os.kill(os.getpid(), signal.SIGSTOP)
            function(writing)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    os.waitpid(child, os.WUNTRACED)
    command = ["strace", "-f", "-o", log, "-e", "trace=all", "-e", inject, "-p", str(child)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
        line = strace.stderr.readline()
        assert "attached" in line, f"strace cannot attach: {line}"
        os.kill(child, signal.SIGCONT)
        with open(reading, "rb") as pipe:
            written = pipe.read()
        status = os.waitpid(child, 0)[1]
    return status, written


def injections(function, log):
    """Every system call that a function makes, as strace counts them: by name, from 1."""
    function(os.open(os.devnull, os.O_WRONLY))  # what is loaded at the first use is loaded then
    status, _ = traced(function, log=str(log))
    assert status == 0
    counts = collections.Counter(re.findall(r"^\d+ +(\w+)\(", log.read_text(), re.MULTILINE))
    return [(name, number) for name, count in counts.items() for number in range(1, count + 1)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_kill_at_any_system_call_leaves_a_clean_prefix_that_can_be_repaired(name, tmp_path):
    program, options = PROGRAMS[name]
    kills = 0
    with scratch() as scratched:
        directories = (Path(scratched) / str(number) for number in itertools.count())

        def record(pipe):
            play(directory, program, options, lambda count: os.write(pipe, b"."))

        directory = next(directories)
        for call_name, number in injections(record, tmp_path / "log"):
            directory = next(directories)
            status, written = traced(record, f"inject={call_name}:signal=KILL:when={number}")
            assert status in (0, signal.SIGKILL)  # 0: in threads, the calls are not always as many
            kills += status != 0
            if not directory.exists():
                continue
            promise = promised(program, options, len(written))
            judge_directory(directory, program, promise, clean=True)
            repaired = repair_recording(os.fspath(directory))
            assert (repaired.alive, repaired.failed) == ([], [])
            judge_directory(directory, program, promise, clean=True)
            assert check_recording(directory) == []
            assert not [file for file in os.listdir(directory) if file.endswith((".tmp", ".lock"))]
    print(f"killed at {kills} system calls")
    assert kills > 100


def test_an_interrupt_at_any_system_call_loses_nothing_and_doubles_nothing(tmp_path):
    interrupts = 0
    with scratch() as scratched:
        directories = (Path(scratched) / str(number) for number in itertools.count())

        def record(pipe):
            interrupted = []

            def handle(*_):
                interrupted.append(None)
                if len(interrupted) == 1:
                    raise KeyboardInterrupt

            old = signal.signal(signal.SIGINT, handle)
            program = None
            while program is None:
                with contextlib.suppress(KeyboardInterrupt):
                    program = events.Program(TraceRecording(directory, buffer_batch_size=4))
            program.run(lambda: program.begun < 40)
            signal.signal(signal.SIGINT, old)
            report = {"returned": program.returned, "begun": program.begun, "interrupted": len(interrupted)}
            os.write(pipe, json.dumps(report).encode())

        directory = next(directories)
        for call_name, number in injections(record, tmp_path / "log"):
            directory = next(directories)
            status, written = traced(record, f"inject={call_name}:signal=INT:when={number}")
            if not written:  # before it was told what to do then, or after it was told to do as ever
                assert status in (70 << 8, signal.SIGINT)
                continue
            report = json.loads(written)
            program = events.Program(None)
            program.returned, program.begun = report["returned"], report["begun"]
            events.judge(TraceRecordingReader(directory, verify=True), program)
            assert check_recording(directory) == []
            interrupts += report["interrupted"]
    print(f"interrupted at {interrupts} system calls")
    assert interrupts > 100


# ---- every size of files


@pytest.mark.parametrize("name", ["saved", "streamed where it outgrows a batch"])
def test_every_limit_of_the_size_of_files_is_an_error_or_loses_nothing(name):
    with scratch() as scratched:
        directories = (Path(scratched) / str(number) for number in itertools.count())
        largest = test_faults.largest_file(directories, name)
        failures = 0
        for limit in range(largest + 2):
            directory = next(directories)
            failures += test_faults.fails_at_limit(directory, name, limit, largest)
            shutil.rmtree(directory)
    print(f"{largest + 2} limits, {failures} of them too small")
    assert failures > largest - 40


# ---- a file system of 64 KiB


@pytest.fixture
def small():
    """A directory on a file system of 64 KiB."""
    with scratch() as directory:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", directory], check=True)
        try:
            yield Path(directory)
        finally:
            subprocess.run(["umount", "--lazy", directory], check=True)


def fill(directory, free):
    """Leaves about so many bytes of a file system."""
    with open(directory / "ballast", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while os.statvfs(directory).f_bavail * 4096 > free:
            file.write(bytes(4096))


@pytest.mark.parametrize("free", range(0, 65537, 4096))
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_full_file_system_is_an_error_that_names_the_file_or_loses_nothing(small, name, free):
    program, options = PROGRAMS[name]
    fill(small, free)
    directory, recording, failed = small / "recording", None, []
    for count, (method, *values) in enumerate(program, 1):
        try:
            recording = recording or TraceRecording(directory, **options)
            call(recording, method, *values)
        except OSError as error:
            assert error.errno == errno.ENOSPC
            assert os.path.commonpath([error.filename, small]) == str(small)
            failed.append(count)
            if recording is None:
                subprocess.run(["mount", "-o", "remount,size=1m", small], check=True)
                recording = TraceRecording(directory, **options)
                call(recording, method, *values)
    assert failed or free > 4096
    if directory.exists():
        judge_directory(directory, program, promised(program, options, len(program), failed), clean=True)
    subprocess.run(["mount", "-o", "remount,size=1m", small], check=True)
    recording.close()
    judge_directory(directory, program, promised(program, options, len(program)), clean=True)
    assert check_recording(directory) == []


FILLS = """
import sys
import numpy as np
from gym_recording import TraceRecording

recording = TraceRecording(sys.argv[1], **eval(sys.argv[2]))
for number in range(20):
    recording.add_reset(np.full(500, number))
    for step in range(5):
        recording.add_step(step, np.full(500, step), 0.5)
if sys.argv[3] == "close":
    recording.close()
"""


@pytest.mark.parametrize("close", ["close", "exit"])
@pytest.mark.parametrize(
    "options", [{}, {"buffer_batch_size": 5}, {"flush_interval": 0}, {"durability": "none"}], ids=str
)
def test_a_program_that_does_not_fit_does_not_exit_with_0(small, options, close):
    """20 episodes of 24,000 bytes."""
    directory = small / "recording"
    command = [sys.executable, "-c", FILLS, str(directory), repr(options), close]
    done = subprocess.run(command, env=ENVIRONMENT, timeout=HANGS, capture_output=True, text=True)
    assert done.returncode == 1
    assert re.search(r"OSError: \[Errno 28\] .*recording", done.stderr)
    for number, episode in enumerate(TraceRecordingReader(directory, verify=True)):
        assert (episode.observations[0] == number).all()


# ---- pid namespaces

NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
AS_FIRST = """
import os, signal, sys
from gym_recording import TraceRecording

assert os.getpid() == 1
signal.alarm(60)
recordings = [TraceRecording(sys.argv[1], flush_interval=0) for _ in range(5)]
for recording in recordings:
    for number in range(3):
        recording.add_reset(float(number))
        recording.add_step(int(sys.argv[2]), 0.0, 0.0)
        recording.add_step(int(sys.argv[2]), 1.0, 0.0)
    recording.save_complete()  # what was begun beside the loop is done
print("ready", flush=True)
sys.stdin.readline()
for recording in recordings:
    recording.close()
"""


@contextlib.contextmanager
def first(directory, number):
    """A process that is number 1 of a pid namespace and records, until it is told to close."""
    command = [*NAMESPACE, sys.executable, "-c", AS_FIRST, str(directory), str(number)]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


REPAIR = """
import json, sys
from gym_recording.repair import repair_recording
print(json.dumps(vars(repair_recording(sys.argv[1]))))
"""


def repair(directory, *prefix):
    """What a repair in another process, or pid namespace, reports."""
    command = [*prefix, sys.executable, "-c", REPAIR, str(directory)]
    return json.loads(
        subprocess.run(command, env=ENVIRONMENT, check=True, stdout=subprocess.PIPE, timeout=HANGS).stdout
    )


def test_processes_of_the_same_pid_in_two_namespaces_record_to_one_directory():
    with scratch() as scratched:
        directory = Path(scratched) / "recording"
        with first(directory, 100) as one, first(directory, 200) as other:
            for process in (one, other):
                assert process.communicate("close\n", timeout=HANGS)[0] == ""
                assert process.returncode == 0
        names = [trace.name for trace in TraceRecordingReader(directory).traces]
        assert {re.sub("-.*", "", name) for name in names} == {f"openaigym.trace.{id}.1" for id in range(5)}
        actions = sorted(episode.actions.tolist() for episode in TraceRecordingReader(directory, verify=True))
        assert actions == [[100, 100]] * 15 + [[200, 200]] * 15
        assert check_recording(directory) == []


@pytest.mark.parametrize("prefix", [[], NAMESPACE], ids=["outside", "in a third"])
def test_a_writer_in_another_pid_namespace_is_alive_until_it_is_dead(prefix):
    with scratch() as scratched:
        directory = Path(scratched) / "recording"
        with first(directory, 100) as one, first(directory, 200) as other:
            before = {path.name: path.read_bytes() for path in directory.iterdir()}
            found = repair(directory, *prefix)
            assert (found["done"], found["failed"], len(found["alive"])) == ([], [], 2)
            assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
            one.kill()  # and with it its namespace
            one.wait()
            deadline = time.monotonic() + HANGS
            while len(repair(directory, *prefix)["alive"]) != 1:  # the kernel may still be at it
                assert time.monotonic() < deadline
            assert other.communicate("close\n", timeout=HANGS)[0] == ""
        found = repair(directory, *prefix)
        assert (found["done"], found["alive"], found["failed"]) == ([], [], [])
        ended = [(int(e.actions[0]), e.ended_by) for e in TraceRecordingReader(directory, verify=True)]
        assert sorted(ended) == sorted(
            [(100, "reset")] * 10 + [(100, "crash")] * 5 + [(200, "reset")] * 10 + [(200, "close")] * 5
        )
