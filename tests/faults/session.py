"""Programs that record the same each time, what they promise at each moment, and whether a directory keeps it.

A program is a list of calls of a recorder. After each call that returned, it is known which episodes, and how many
steps of the running one, are acknowledged: on disk, whatever happens next.
"""

import os
import tempfile

import numpy as np

from gym_recording import TraceRecording, TraceRecordingReader

# Nothing here survives a power cut or must; on a disk that others use, making thousands of files takes minutes.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def scratch():
    """A temporary directory, in memory if that can be had."""
    return tempfile.TemporaryDirectory(prefix="faults.", dir=MEMORY)


class Episode:
    """What an episode must be when it is read."""

    def __init__(self, observation):
        self.observations = [observation]
        self.actions = []
        self.rewards = []


def _frame(number, size=4):
    return {"image": np.full((size, size), number, "uint8"), "at": number}


def _steps(first, count, action, observation):
    return [("step", action(n), observation(n + 1), n / 2) for n in range(first, first + count)]


def _vector(number):
    return np.arange(number, number + 3, dtype="float32")


def _some_texts(number):
    return f"turn {number}" if number % 2 else number


ORDINARY = [
    ("reset", _vector(0)),
    *_steps(0, 3, int, _vector),
    ("reset", _vector(7)),  # T = 0
    ("reset", "begin"),
    *_steps(3, 2, str, _some_texts),  # loose values
    ("save",),
    ("reset", "only text"),  # a batch without a blob
    ("reset", _frame(5)),
    *_steps(5, 2, _vector, _frame),
    ("save",),
    ("reset", _vector(0)),
    *_steps(0, 2, float, _vector),
    ("close",),
]
STREAMED = [
    ("reset", _vector(0)),
    *_steps(2, 2, _some_texts, _vector),  # the second action is loose
    ("reset", _vector(9)),
    ("reset", _frame(5, 100)),  # large rows
    *_steps(6, 1, _vector, lambda n: _frame(n, 100)),
    *_steps(7, 1, lambda n: _vector(n)[:1], lambda n: _frame(n, 100)),  # an array of another shape: a further blob
    ("close",),
]
LONG = [
    ("reset", _vector(0)),
    *_steps(0, 36, int, _vector),
    ("reset", _vector(100)),
    *_steps(100, 3, int, _vector),
    ("save",),
    ("reset", _vector(200)),
    *_steps(200, 20, int, _vector),
    ("close",),
]
PROGRAMS = {  # the calls, and the arguments of the recorder
    "saved": (ORDINARY, {}),
    "a thread for each episode": (ORDINARY, {"buffer_batch_size": 1}),
    "streamed": (STREAMED, {"flush_interval": 0}),
    "streamed where it outgrows a batch": (LONG, {"batch_bytes": 500}),
}


def expected(program):
    """The episodes that a program records, all of them."""
    episodes = []
    for name, *arguments in program:
        if name == "reset":
            episodes.append(Episode(arguments[0]))
        elif name == "step":
            action, observation, reward = arguments
            episodes[-1].actions.append(action)
            episodes[-1].observations.append(observation)
            episodes[-1].rewards.append(reward)
    return episodes


def promised(program, options, returned, failed=()):
    """What is acknowledged: how many ended episodes, and steps of the next one.

    Args:
        returned: the number of the last call that returned, counted from 1.
        failed: the numbers of those that raised.
    """
    if options.get("flush_interval") == 0 and returned and program[returned - 1][0] != "close":
        # Each call writes what there is beside the loop, and first sees to it that the one before has done so.
        episodes = expected(program[: returned - 1])
        return (len(episodes) - 1, len(episodes[-1].actions)) if episodes else (0, 0)
    saves = (n for n in range(1, returned + 1) if program[n - 1][0] in ("save", "close"))
    saved = max([0, *(n for n in saves if n not in failed)])
    episodes = expected(program[:saved])
    return (len(episodes) - (program[saved - 1][0] != "close"), 0) if episodes else (0, 0)


def call(recording, name, *arguments):
    """One call of a program."""
    methods = {
        "reset": recording.add_reset,
        "step": recording.add_step,
        "save": recording.save_complete,
        "close": recording.close,
    }
    methods[name](*arguments)


def play(directory, program, options, returned=lambda count: None):
    """Records a program, and tells how many of its calls have returned."""
    recording = TraceRecording(directory, **options)
    for count, (name, *arguments) in enumerate(program, 1):
        call(recording, name, *arguments)
        returned(count)


def same(found, expected):
    """Whether two values are equal bit for bit, dtypes included; a Python number is what NumPy makes of it."""
    if isinstance(expected, dict):
        return list(found) == list(expected) and all(same(found[key], expected[key]) for key in expected)
    if isinstance(expected, str) or isinstance(found, str):
        return type(found) is type(expected) and found == expected
    found, expected = np.asarray(found), np.asarray(expected)
    alike = found.dtype == expected.dtype and found.shape == expected.shape
    return alike and found.tobytes() == expected.tobytes()


def read(reader):
    """The episodes of a reader by their number in the trace; there is one trace at most."""
    episodes = {}
    for trace in reader.traces:
        for batch in trace.batches:
            for number, episode in enumerate(reader.read_batch(batch), batch.first):
                assert number not in episodes, f"episode {number} is there twice"
                episodes[number] = episode
    return episodes


def judge(found, wanted, promise=(0, 0)):
    """Asserts that every episode is right, whole if it has ended and else a prefix, and that those promised are there.

    Args:
        found: what `read` gives.
        wanted: what `expected` gives.
        promise: what `promised` gives.
    """
    for number, episode in found.items():
        assert number < len(wanted), f"episode {number} was never recorded"
        want, steps = wanted[number], len(episode.rewards)
        assert not episode.headless and not episode.gaps, f"episode {number} lacks something"
        if episode.ended_by in (None, "crash"):
            assert steps <= len(want.actions), f"episode {number} has more steps than were made"
        else:
            assert steps == len(want.actions), f"episode {number} is not whole"
        rows = {"observations": steps + 1, "actions": steps, "rewards": steps}
        for key, count in rows.items():
            column = getattr(episode, key)
            assert len(column) == count, f"{key} of episode {number}: {len(column)} rows"
            for t in range(count):
                assert same(column[t], getattr(want, key)[t]), f"{key}[{t}] of episode {number} is wrong"
    ended, running = promise
    for number in range(ended):
        assert number in found, f"episode {number} was acknowledged and is not there"
        assert len(found[number].rewards) == len(wanted[number].actions), f"steps of episode {number} are not there"
        assert found[number].ended_by is not None, f"the end of episode {number} is not there"
    if running:
        assert ended in found and len(found[ended].rewards) >= running, (
            f"steps of the running episode {ended} are not there"
        )


def judge_directory(directory, program, promise, clean):
    """Judges what a reader finds.

    Args:
        clean: whether nothing may be missing or damaged: all before the last episode is there, and no error.
    """
    with TraceRecordingReader(directory, verify=True, on_error="raise" if clean else "skip") as reader:
        found = read(reader)
    if clean:
        assert sorted(found) == list(range(len(found))), f"episodes {sorted(found)} are no prefix"
    judge(found, expected(program), promise)
