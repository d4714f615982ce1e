"""Many processes in one directory, readers beside writers, and how much memory recording takes."""

import itertools
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from faults.session import PROGRAMS, expected, judge, play, read, scratch
from faults.session import call as session_call
from faults.system import System

import gym_recording.files
import gym_recording.trace
from gym_recording import TraceRecording, TraceRecordingReader
from gym_recording.check import check_recording

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(gym_recording.__file__))}


@pytest.fixture
def directory():
    with scratch() as directory:
        yield Path(directory) / "recording"


def run(code, *arguments):
    """Starts a program that has `TraceRecording` and its arguments in `arguments`."""
    start = "import os, sys, numpy as np\nfrom gym_recording import TraceRecording\narguments = sys.argv[1:]\n"
    command = [sys.executable, "-c", start + code, *map(str, arguments)]
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stdin=subprocess.PIPE)


# ---- writers

WRITER = """
directory, number = arguments[0], int(arguments[1])
sys.stdin.read()  # all begin together
recordings = [TraceRecording(directory, durability="none", buffer_batch_size=3) for _ in range(50)]
for step in range(5):
    for index, recording in enumerate(recordings):
        value = (number * 50 + index) * 10 + step
        recording.add_reset(np.full(3, value, "float32"))
        recording.add_step(value, np.full(3, value + 0.5, "float32"), float(value))
for recording in recordings[::2]:
    recording.close()  # the others end with the process
"""


def test_eight_processes_with_fifty_recorders_each_lose_nothing_and_double_nothing(directory):
    writers = [run(WRITER, directory, number) for number in range(8)]
    for writer in writers:
        writer.stdin.close()
    for writer in writers:
        assert writer.wait(100) == 0
        writer.stdout.close()
    values = []
    reader = TraceRecordingReader(directory, verify=True)
    for episode in reader:
        (value,) = episode.actions
        assert episode.rewards.tolist() == [float(value)]
        assert episode.observations.tolist() == [[value] * 3, [value + 0.5] * 3]
        values.append(int(value))
    assert sorted(values) == [process * 10 + step for process in range(400) for step in range(5)]
    assert len(reader.traces) == 400
    ends = []
    for trace in reader.traces:  # those of one recorder are together and in order
        mine, values = values[: len(trace)], values[len(trace) :]
        assert mine == list(range(mine[0], mine[0] + 5))
        ends.append(trace.closed)
    assert all(ends)


@posix
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_recorders_of_processes_that_were_forked_at_one_moment_do_not_collide(directory):
    """The children have the parent's counter and random state."""
    recording = TraceRecording(directory)
    random.seed(0)
    processes = [
        multiprocessing.get_context("fork").Process(target=_record_one, args=(directory, recording, number))
        for number in range(20)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    recording.close()
    assert sorted(episode.actions.tolist() for episode in TraceRecordingReader(directory, verify=True)) == [
        [number] for number in range(40)
    ]


def _record_one(directory, inherited, number):
    for recording, action in ((TraceRecording(directory), number), (inherited, 20 + number)):
        recording.add_reset(0.0)
        recording.add_step(action, 0.0, 0.0)


# ---- a reader beside a writer

KINDS = [
    float,
    lambda n: np.full(2, n, "int16"),
    lambda n: f"turn {n}" if n % 4 == 3 else n,
    lambda n: {"a": n, "b": (n, n)},
]


def long_program(episodes, steps):
    """Episodes of several kinds, some of which change in mid-episode."""
    program = []
    for number in range(episodes):
        kind = KINDS[number % len(KINDS)]
        program.append(("reset", np.full(9, number, "float32")))
        for step in range(steps):
            observation = np.full(9 if number % 3 or step < steps // 2 else 8, number + step, "float32")
            program.append(("step", kind(step), observation, step / 2))
        program += [("save",)] * (number % 2)
    return [*program, ("close",)]


def look(reader, program, before):
    """What a reader sees, which must be right and no less than before: by episode, steps and whether it has ended."""
    found = read(reader)
    judge(found, expected(program))
    assert sorted(found) == list(range(len(found)))
    seen = {number: (len(episode.rewards), episode.ended_by is not None) for number, episode in found.items()}
    for number, state in before.items():
        assert number in seen and seen[number] >= state, (
            f"episode {number} has become less: {state}, {seen.get(number)}"
        )
        assert seen[number] == state or not state[1], f"episode {number} had ended: {state}, {seen[number]}"
    return seen


@posix
@pytest.mark.parametrize(
    "options", [{}, {"flush_interval": 0}, {"batch_bytes": 600}, {"buffer_batch_size": 1}], ids=str
)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_reader_beside_a_writer_sees_what_is_right_and_ever_more(directory, options):
    program = long_program(16, 12)
    child = os.fork()
    if child == 0:
        signal.alarm(100)
        play(directory, program, {**options, "durability": "none"})
        os._exit(0)
    readers = [
        TraceRecordingReader(directory, verify=verify, mmap=mmap) for verify in (True, False) for mmap in (True, False)
    ]
    seen, looks, ended = {}, 0, False
    while not ended:
        ended = os.waitpid(child, os.WNOHANG)[0] == child
        for reader in readers:
            reader.refresh()
            seen = look(reader, program, seen)
        looks += 1
    print(f"{looks} looks")
    assert seen == dict.fromkeys(range(16), (12, True))
    assert check_recording(directory) == []


class Interleaved:
    """`os` for a reader: before its call `number`, a writer in the same process makes some calls of its own."""

    def __init__(self, number, write):
        self.number, self.write, self.calls = number, write, -1

    def __getattr__(self, name):
        function = getattr(os, name)
        if name not in ("open", "listdir", "lstat"):
            return function

        def call(*args, **kwargs):
            self.calls += 1
            if self.calls == self.number:
                with System().installed():
                    self.write()
                gym_recording.files.os = self
            return function(*args, **kwargs)

        return call


@pytest.mark.parametrize("fresh", [False, True], ids=["a reader that is kept", "a new reader"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_writer_that_commits_between_any_two_calls_of_a_reader_does_not_confuse_it(name, fresh):
    program, options = PROGRAMS[name]
    looks = 0
    for position in range(1, len(program)):
        for number in itertools.count():
            looks += 1
            if not look_while_it_commits(program, options, position, number, fresh):
                break
    print(f"{looks} looks")


def look_while_it_commits(program, options, position, number, fresh):
    """Three calls of a program are made before call `number` of a reader; gives whether it made so many."""
    with scratch() as directory:
        with System().installed():
            recording = TraceRecording(directory, **options)
            make(recording, program[:position])
        reader = TraceRecordingReader(directory, verify=True)
        before = look(reader, program, {})
        if fresh:
            reader = TraceRecordingReader(directory)
        system = Interleaved(number, lambda: make(recording, program[position:][:3]))
        try:
            gym_recording.files.os = system
            reader.refresh()
            before = look(reader, program, before)
        finally:
            gym_recording.files.os = os
        reader.refresh()
        look(reader, program, before)
        reached = system.calls >= number
        with System().installed():
            make(recording, program[position + 3 if reached else position :])
            recording.close()
        return reached


def make(recording, calls):
    """Some calls of a program, and all that they begin."""
    for call in calls:
        session_call(recording, *call)
        for thread in set(threading.enumerate()):
            if isinstance(thread, gym_recording.trace._Commit):
                thread.join()


# ---- memory

MEMORY_USE = """
def peak():
    try:
        with open("/proc/self/status") as status:  # of this program alone; `getrusage` begins with its parent's
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    except OSError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)

directory, episodes, steps = arguments[0], int(arguments[1]), int(arguments[2])
recording = TraceRecording(directory, durability="none", batch_bytes=1_000_000)
observation = np.zeros(4, "float32")
for _ in range(episodes):
    recording.add_reset(observation)
    for step in range(steps):
        recording.add_step(step, observation, 1.0)
recording.close()
print(peak())
"""


@pytest.mark.parametrize(
    ("few", "many"),
    [((1, 100_000), (1, 500_000)), ((40_000, 2), (200_000, 2))],
    ids=["the length of an episode", "the number of episodes"],
)
def test_the_memory_that_recording_takes_does_not_grow_with(directory, few, many):
    peaks = []
    for number, (episodes, steps) in enumerate((few, many)):
        with run(MEMORY_USE, directory / str(number), episodes, steps) as program:
            peaks.append(int(program.stdout.read()))
        assert sum(path.stat().st_size for path in (directory / str(number)).iterdir()) > 20 * episodes * (steps + 1)
    print(f"{peaks} KiB")
    assert peaks[1] < peaks[0] + 5000  # KiB; what is recorded takes 12,500 more
