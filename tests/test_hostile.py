"""Hostile recordings: whatever the bytes, a `TraceError` or what is right, soon, in little memory, and nothing outside.

All recordings of `hostile` are tried in one process of their own (this file, run as a program) that may have 2 GiB and
tells of each what happened; the tests compare.
"""

import contextlib
import io
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import pytest
from hostile import HOSTILE, OUTSIDE, TRACES, nested, outside, put_recording

import gym_recording
from gym_recording import TraceError, TraceRecordingReader, cli

SECONDS = 2  # of processor time, for one way of reading one recording
MEMORY = 2 << 30
FEW = 1000  # episodes that are read one by one
ROOT = os.path.dirname(os.path.dirname(gym_recording.__file__))

# ---- the process that tries them


class Hangs(BaseException):
    """A way of reading that does not end."""


def number_of(episode):
    """The number of a good episode, None for all others."""
    arrays = episode.observations, episode.actions, episode.rewards
    if [(getattr(a, "dtype", None), getattr(a, "shape", None)) for a in arrays] != GOOD_KINDS:
        return None
    number = int(arrays[1][0])
    good = np.full((2, 3), number % 256, "uint8"), np.array([number]), np.array([number + 0.5])
    return number if all(map(np.array_equal, arrays, good)) else None


GOOD_KINDS = [(np.dtype("uint8"), (2, 3)), (np.dtype("int64"), (1,)), (np.dtype("float64"), (1,))]


def read_all(directory, **options):
    """The numbers of the episodes, each run of one number once, and what was complained of."""
    numbers, errors = [], []
    reader = TraceRecordingReader(directory, **options)
    try:
        numbers += [number for number, _ in itertools.groupby(map(number_of, reader))]
    except TraceError as error:
        errors.append(str(error))
    return {"numbers": numbers, "errors": [*errors, *map(str, reader.errors[:FEW])]}


def read_each(directory):
    """The same, by index."""
    numbers, errors = [], []
    reader = TraceRecordingReader(directory)
    count = len(reader)
    for index in range(count) if count < FEW else [*range(FEW), -2, -1]:
        try:
            numbers.append(number_of(reader[index]))
        except TraceError as error:
            errors.append(str(error))
    return {"numbers": [number for number, _ in itertools.groupby(numbers)], "errors": errors}


def command(*arguments):
    def run(directory):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main([*arguments, str(directory)])
        lines = [stream.getvalue().split("\n") for stream in (out, err)]
        return {"code": code, "out": lines[0][:FEW], "err": lines[1][:FEW], "lines": list(map(len, lines))}

    return run


TRIALS = {  # in this order: the last ones change the recording
    "read": read_all,
    "each": read_each,
    "skip": lambda directory: read_all(directory, on_error="skip"),
    "verify": lambda directory: read_all(directory, on_error="skip", verify=True, mmap=False),
    "info": command("info"),
    "info --json": command("info", "--json"),
    "check": command("check"),
    "repair": command("repair"),
    "skip after repair": lambda directory: read_all(directory, on_error="skip"),
    "repair --force": command("repair", "--force"),
    "repair --force again": command("repair", "--force"),
    "skip after repair --force": lambda directory: read_all(directory, on_error="skip"),
}


class Watch:
    """Sees every file that is opened or changed, and keeps those that are not in `directory`."""

    EVENTS = frozenset("open os.listdir os.scandir os.remove os.rename os.mkdir os.rmdir os.truncate os.chmod".split())
    NEVER = ("subprocess.", "socket.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "pickle.", "os.link")

    def __init__(self):
        self.directory = None
        self.found = []
        program = [os.path.realpath(path) for path in (*sys.path, sys.prefix, sys.base_prefix)]
        self.allowed = ("/proc/sys/kernel/random/boot_id", *(path + os.sep for path in program if path != os.sep))

    def __call__(self, event, arguments):
        if self.directory is None:
            return
        if event.startswith(self.NEVER):
            self.found.append([event, repr(arguments)])
        elif event in self.EVENTS:
            for path in arguments[: 2 if event == "os.rename" else 1]:
                if isinstance(path, int) or path is None:  # a descriptor: its path was seen when it was opened
                    continue
                path = os.path.abspath(os.fsdecode(path))
                inside = path == self.directory or os.path.dirname(path) == self.directory
                follows = event == "open" and os.path.islink(path) and not arguments[2] & os.O_NOFOLLOW
                if (not inside and not path.startswith(self.allowed)) or follows:
                    self.found.append([event, path])


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()} if directory.is_dir() else {}


def attempt(trial, directory, watch):
    """What a way of reading gives, or how it fails; how long it takes; which files it should not have touched."""

    def hangs(*_):
        raise Hangs

    signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, 30 * SECONDS)
    watch.found, watch.directory = [], str(directory)
    start = time.process_time()
    try:
        outcome = trial(directory)
    except (Hangs, Exception):
        outcome = {"crash": traceback.format_exc()[-3000:]}
    finally:
        watch.directory = None
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {**outcome, "seconds": time.process_time() - start, "touched": watch.found}


def main(parent, names):
    """Tries the recordings of these names, or all; prints what happened, a JSON object for each."""
    import resource

    parent = Path(parent).resolve()
    watch = Watch()
    put_recording(parent / "good") if (parent / "good").mkdir() is None else None
    outside(parent / "good")
    for trial in TRIALS.values():  # loads all modules
        trial(parent / "good")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.addaudithook(watch)
    for number, name in enumerate(names or HOSTILE):
        print(json.dumps(name), end="\t", flush=True)
        directory = parent / f"{number}"
        directory.mkdir()
        outcomes = {}
        try:
            HOSTILE[name].build(directory)
        except OSError as error:
            outcomes["left out"] = str(error)
        else:
            before = contents(parent / OUTSIDE)
            outcomes = {key: attempt(trial, directory, watch) for key, trial in TRIALS.items()}
            outcomes["outside"] = before == contents(parent / OUTSIDE)
        shutil.rmtree(directory)
        print(json.dumps(outcomes), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
