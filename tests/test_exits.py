"""However a program ends, everything that was recorded is read back, and nothing twice."""

import importlib.util
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap

import pytest

import gym_recording
from gym_recording import TraceRecordingReader

# Programs find the package that is tested, installed or not.
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(gym_recording.__file__))}

posix = pytest.mark.skipif(os.name != "posix", reason="needs signals and fork")

START = """
import gc, os, signal, sys, threading
from gym_recording import TraceRecording, TraceRecordingReader

def record(recording, *numbers, reset=True):
    '''An episode whose actions are these numbers.'''
    if reset:
        recording.add_reset(-1.0)
    for number in numbers:
        recording.add_step(number, float(number), 0.5)

directory = sys.argv[1]
"""


def program(code):
    return START + textwrap.dedent(code)


def run(code, directory):
    """Runs a program to its end and gives its return code."""
    command = [sys.executable, "-c", program(code), str(directory)]
    return subprocess.run(command, env=ENVIRONMENT, timeout=60).returncode


def recorded(directory):
    """By trace: the actions of its episodes."""
    reader = TraceRecordingReader(directory, verify=True)
    actions = iter([episode.actions.tolist() for episode in reader])
    return [[next(actions) for _ in range(len(trace))] for trace in reader.traces]


# ---- a program that never closes its recorder

ENDS = {
    "the end of the program": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "a thread that goes on": ("threading.Thread(target=record, args=(recording, 5)).start(); sys.exit(3)", 3),
    "an exception": ("sys.stderr = open(os.devnull, 'w'); raise ValueError", 1),
    "an exception in a function": ("sys.stderr = open(os.devnull, 'w'); (lambda kept: 1 / 0)(recording)", 1),
    "a reference that is deleted": ("del recording; os._exit(4)", 4),
    "a reference cycle": ("recording.itself = [recording]; del recording; gc.collect(); os._exit(4)", 4),
    "a reference cycle at exit": ("recording.itself = [recording]; gc.disable(); del recording", 0),
    "an object that is never collected": ("recording.itself = recording; sys.modules['kept'] = recording", 0),
    "a with block": ("\nwith recording:\n    sys.exit(3)", 3),
    "a close at exit": ("import atexit; atexit.register(recording.close)", 0),
}


@pytest.mark.parametrize("options", [{}, {"flush_interval": 0}], ids=str)
@pytest.mark.parametrize("name", ENDS)
def test_what_was_recorded_is_there_without_a_close(tmp_path, name, options):
    end, code = ENDS[name]
    start = f"recording = TraceRecording(directory, **{options})\nrecord(recording, 0, 1, 2)\nrecord(recording, 3, 4)\n"
    assert run(start + end, tmp_path) == code
    assert recorded(tmp_path) == [[[0, 1, 2], [3, 4]] if "thread" not in name else [[0, 1, 2], [3, 4], [5]]]
    assert [trace.closed for trace in TraceRecordingReader(tmp_path).traces] == [True]


def test_a_recorder_of_a_function_is_written_when_the_function_returns(tmp_path):
    code = """
    def main():
        recording = TraceRecording(directory)
        record(recording, 0, 1)

    main()
    print([episode.actions.tolist() for episode in TraceRecordingReader(directory)])
    os._exit(5 if len(TraceRecordingReader(directory)) == 1 else 6)
    """
    assert run(code, tmp_path) == 5


@pytest.mark.parametrize("library", ["gym", "gymnasium"])
def test_a_wrapper_that_is_neither_closed_nor_kept_is_written(tmp_path, library):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    code = f"""
    import {library} as library
    from gym_recording import TraceRecordingWrapper

    env = TraceRecordingWrapper(library.make("CartPole-v1", disable_env_checker=True), directory)
    env.reset(seed=0)
    env.step(1)
    env = TraceRecordingWrapper(library.make("CartPole-v1", disable_env_checker=True), directory)
    env.reset(seed=0)
    env.step(0)
    env.step(1)
    """
    assert run(code, tmp_path) == 0
    assert sorted(recorded(tmp_path)) == [[[0, 1]], [[1]]]


def test_a_recorder_that_is_collected_in_the_midst_of_its_own_commit_still_writes_all(tmp_path):
    """The garbage collector runs in whichever thread allocates, and so in the one that commits."""
    code = """
    gc.disable()
    dropped, through, fsync = threading.Event(), threading.Event(), os.fsync

    def collecting(descriptor):
        if threading.current_thread() is not threading.main_thread():
            dropped.wait(20)
            gc.collect()
            through.set()
        fsync(descriptor)

    os.fsync = collecting
    recording = TraceRecording(directory, buffer_batch_size=1)
    recording.itself = recording
    record(recording, 0)
    record(recording, 1, 2)
    del recording
    dropped.set()
    sys.exit(0 if through.wait(20) else 1)
    """
    assert run(code, tmp_path) == 0
    assert recorded(tmp_path) == [[[0], [1, 2]]]


# ---- Ctrl-C

INTERRUPTED = (-signal.SIGINT, 1)  # the exit code; before Python 3.11 a program of `-c` may end as by any exception


@posix
def test_an_interrupt_between_steps_loses_nothing(tmp_path):
    code = """
    recording = TraceRecording(directory)
    record(recording, 0, 1)
    record(recording, 2)
    os.kill(os.getpid(), signal.SIGINT)
    record(recording, 3)
    """
    assert run("sys.stderr = open(os.devnull, 'w')" + textwrap.dedent(code), tmp_path) in INTERRUPTED
    assert recorded(tmp_path) == [[[0, 1], [2]]]


@posix
@pytest.mark.parametrize("options", [{}, {"flush_interval": 0}, {"buffer_batch_size": 1}], ids=str)
def test_an_interrupt_in_the_midst_of_recording_loses_no_step_that_was_acknowledged(tmp_path, options):
    code = f"""
    sys.stderr = open(os.devnull, 'w')
    recording = TraceRecording(directory, durability="none", **{options})
    recording.add_reset(0.0)
    for number in range(50_000):
        recording.add_step(number, float(number), 0.5)
        if number % 10 == 9:
            recording.add_reset(0.0)
        os.write(1, b"%d\\n" % number)
    """
    command = [sys.executable, "-c", program(code), str(tmp_path)]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE) as child:
        for line in child.stdout:
            if int(line) == 200:
                child.send_signal(signal.SIGINT)
                break
        *_, acknowledged = [200, *map(int, child.stdout.read().split())]
        assert child.wait(60) in INTERRUPTED
    ((*episodes, last),) = recorded(tmp_path)
    steps = [number for episode in (*episodes, last) for number in episode]
    assert steps == list(range(len(steps)))
    assert len(steps) - 1 in (acknowledged, acknowledged + 1)
    assert all(len(episode) == 10 for episode in episodes)


# ---- fork

FORKS = {
    "sys.exit": "sys.exit(0)",
    "the end of the program": "",
    "close": "recording.close(); os._exit(0)",
    "an exception": "sys.stderr = open(os.devnull, 'w'); raise ValueError",
}


@posix
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{}, {"flush_interval": 0}], ids=str)
@pytest.mark.parametrize("name", FORKS)
def test_after_a_fork_parent_and_child_both_record_all_of_their_own_and_nothing_twice(tmp_path, name, options):
    code = f"""
    recording = TraceRecording(directory, **{options})
    record(recording, 0, 1)
    record(recording, 2)
    recording.save_complete()  # so that no thread of a commit is forked
    child = os.fork()
    if child == 0:
        record(recording, 10, reset=False)
        record(recording, 11, 12)
        {FORKS[name]}
    else:
        os.waitpid(child, 0)
        record(recording, 3, reset=False)
        record(recording, 4)
    """
    assert run(code, tmp_path) == 0
    assert recorded(tmp_path) == [[[0, 1], [2, 3], [4]], [[10], [11, 12]]]
    flags = [episode.headless for episode in TraceRecordingReader(tmp_path)]
    assert flags == [False, False, False, True, False]


@posix
def test_a_child_that_records_nothing_leaves_nothing(tmp_path):
    code = """
    recording = TraceRecording(directory)
    record(recording, 0, 1)
    record(recording, 2)
    for exit in (os._exit, sys.exit):
        child = os.fork()
        if child == 0:
            exit(0)
        os.waitpid(child, 0)
    record(recording, 3, reset=False)
    """
    assert run(code, tmp_path) == 0
    assert recorded(tmp_path) == [[[0, 1], [2, 3]]]


@posix
def test_a_recorder_that_was_closed_before_the_fork_is_closed_in_the_child(tmp_path):
    code = """
    from gym_recording import ClosedError
    recording = TraceRecording(directory)
    record(recording, 0)
    recording.close()
    child = os.fork()
    if child == 0:
        try:
            record(recording, 1, reset=False)
        except ClosedError:
            os._exit(7)
        os._exit(8)
    os._exit(os.waitpid(child, 0)[1] >> 8)
    """
    assert run(code, tmp_path) == 7
    assert recorded(tmp_path) == [[[0]]]


@posix
def test_a_fork_in_the_midst_of_a_step_leaves_that_step_to_the_parent(tmp_path):
    code = """
    recording = TraceRecording(directory)
    record(recording, 0)
    recording.lane.begin(1)  # as the wrapper does before it steps the environment, which forks
    child = os.fork()
    recording.lane.finish(1.0, 0.5, False, False)
    record(recording, 2 if child else 3, reset=False)
    if child:
        os.waitpid(child, 0)
    """
    assert run(code, tmp_path) == 0
    assert recorded(tmp_path) == [[[0, 1, 2]], [[3]]]


@posix
def test_grandchildren_have_traces_of_their_own(tmp_path):
    code = """
    recording = TraceRecording(directory)
    record(recording, 0)
    for number in (1, 2, 3):
        if os.fork():
            os.wait()
            break
        record(recording, number)
    """
    assert run(code, tmp_path) == 0
    assert sorted(recorded(tmp_path)) == [[[0]], [[1]], [[2]], [[3]]]


# ---- multiprocessing

WORKER = """
import multiprocessing, sys
from gym_recording import TraceRecording

def work(directory, number):
    global recording  # so that it is not collected when the function returns
    recording = TraceRecording(directory)
    recording.add_reset(0.0)
    recording.add_step(number, 0.0, 0.0)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    processes = [context.Process(target=work, args=(sys.argv[1], number)) for number in (1, 2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.exit(sum(process.exitcode for process in processes))
"""


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes_of_multiprocessing_write_when_they_end(tmp_path, method):
    (tmp_path / "worker.py").write_text(WORKER, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "worker.py"), str(tmp_path / "recording"), method]
    assert subprocess.run(command, env=ENVIRONMENT, timeout=60).returncode == 0
    assert sorted(recorded(tmp_path / "recording")) == [[[1]], [[2]]]


SENDER = """
import multiprocessing, sys
from gym_recording import TraceRecording

def work(recording, number):
    recording.add_reset(0.0)
    recording.add_step(number, 0.0, 0.0)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    recording = TraceRecording(sys.argv[1])
    work(recording, 1)
    process = context.Process(target=work, args=(recording, 2))
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_a_recorder_that_is_sent_to_a_process_writes_when_that_ends(tmp_path, method):
    (tmp_path / "sender.py").write_text(SENDER, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "sender.py"), str(tmp_path / "recording"), method]
    assert subprocess.run(command, env=ENVIRONMENT, timeout=60).returncode == 0
    assert sorted(recorded(tmp_path / "recording")) == [[[1]], [[2]]]


def test_a_recorder_of_the_parent_is_used_on_in_a_process(tmp_path):
    code = """
    import multiprocessing
    context = multiprocessing.get_context("fork" if os.name == "posix" else "spawn")
    recording = TraceRecording(directory)
    record(recording, 0)
    process = context.Process(target=record, args=(recording, 1, 2))
    process.start()
    process.join()
    record(recording, 3, reset=False)
    """
    if os.name != "posix":
        pytest.skip("the program has no file to be imported from")
    assert run(code, tmp_path) == 0
    assert recorded(tmp_path) == [[[0, 3]], [[1, 2]]]


# ---- several at once


def test_another_thread_may_save_and_the_end_of_the_program_meets_a_thread_that_records(tmp_path):
    code = """
    recording = TraceRecording(directory, buffer_batch_size=3, durability="none")
    done = []

    def save():
        while not done:
            recording.save_complete()

    saver = threading.Thread(target=save)
    saver.start()
    for number in range(300):
        record(recording, *range(5 * number, 5 * number + 5))
    done.append(True)
    saver.join()

    def go_on():
        number = 1500
        while True:
            record(recording, *range(number, number + 5))
            number += 5

    sys.stderr = open(os.devnull, "w")
    threading.Thread(target=go_on, daemon=True).start()
    """
    assert run(code, tmp_path) == 0
    ((*episodes, last),) = recorded(tmp_path)
    assert episodes == [list(range(number, number + 5)) for number in range(0, 5 * len(episodes), 5)]
    assert len(episodes) >= 299
    assert last == list(range(5 * len(episodes), 5 * len(episodes) + len(last)))
    assert [trace.closed for trace in TraceRecordingReader(tmp_path).traces] == [True]


@posix
def test_a_signal_handler_that_returns_may_not_save_in_the_midst_of_recording(tmp_path):
    code = """
    refused = saved = number = 0
    recording = TraceRecording(directory, buffer_batch_size=3, durability="none")

    def handle(*_):
        global refused, saved
        try:
            recording.save_complete()
            saved += 1
        except ValueError as error:
            assert "signal handler" in str(error)
            refused += 1

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0003)
    while refused < 20 or saved < 20:
        record(recording, *range(number, number + 5))
        number += 5
    signal.setitimer(signal.ITIMER_REAL, 0)
    recording.close()
    ((*episodes,),) = [[episode.actions.tolist() for episode in TraceRecordingReader(directory, verify=True)]]
    assert episodes == [list(range(first, first + 5)) for first in range(0, number, 5)]
    """
    assert run(code, tmp_path) == 0


@posix
@pytest.mark.parametrize("hook", ["sys.exit(0)", "raise ValueError"])
def test_a_hook_for_errors_does_not_turn_a_loss_into_success_or_keep_others_from_being_written(tmp_path, hook):
    code = f"""
    import resource

    def hook(*_):
        {hook}

    sys.excepthook = hook
    sys.stderr = open(os.devnull, "w")
    small = [TraceRecording(directory) for _ in range(3)]
    record(small[0], 1)
    record(small[1], *range(5000))
    record(small[2], 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
    """
    assert run(code, tmp_path) == 1
    assert sorted(recorded(tmp_path)) == [[], [[1]], [[2]]]


@posix
def test_a_child_of_multiprocessing_that_forks_by_itself_leaves_what_both_recorded(tmp_path):
    code = """
    import multiprocessing

    def work():
        recording = TraceRecording(directory)
        child = os.fork()
        record(recording, 1 if child else 2)
        if child:
            assert os.waitpid(child, 0)[1] == 0
        globals()["kept"] = recording

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    sys.exit(process.exitcode)
    """
    assert run(code, tmp_path) == 0
    assert sorted(recorded(tmp_path)) == [[[1]], [[2]]]
