"""Hostile recordings: whatever the bytes, a `TraceError` or what is right, soon, in little memory, and nothing outside.

All recordings of `hostile` are tried in processes of their own (this file, run as a program) that may have 2 GiB and
tell of each what happened; the tests compare.
"""

import contextlib
import io
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import pytest
from hostile import HOSTILE, OUTSIDE, nested, outside, put_recording, set_members, write_all

import gym_recording
from gym_recording import (
    MemoryDirectory,
    PlaybackAgent,
    TraceError,
    TraceRecordingReader,
    cli,
    copy_episodes,
    merge,
)

resource = pytest.importorskip("resource")  # POSIX

SECONDS = 4  # of processor time, for one way of reading one recording: twice what the slowest needs on a busy machine
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


def draw(items):
    if len(items):
        for chosen in (0, -1, [0, len(items) - 1], slice(FEW)):
            items[chosen]
        items.sample(7, 0)


AT_RANDOM = {  # what is read without going from episode to episode, and what is made of the episodes
    "transitions": lambda reader: draw(reader.transitions),
    "windows": lambda reader: draw(reader.windows(3)),
    "padded windows": lambda reader: draw(reader.windows(5, 2, pad=True)),
    "a view": lambda reader: draw(reader.select(min_length=1, min_return=-1e9).transitions),
    "a summary": lambda reader: reader.summary(),
    "a copy": lambda reader: copy_episodes(reader, MemoryDirectory()),
    "an agent": lambda reader: PlaybackAgent(reader).reset(3),
    "a merge": lambda reader: merge([reader.directory], MemoryDirectory()),
}


def at_random(*uses, **options):
    def run(directory):
        reader = TraceRecordingReader(directory, **options)
        for use in uses:
            with contextlib.suppress(TraceError):
                use(reader)
        return {}

    return run


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
    **{name: at_random(use) for name, use in AT_RANDOM.items()},
    "at random, skip": at_random(*AT_RANDOM.values(), on_error="skip"),
    "info": command("info"),
    "info --json": command("info", "--json"),
    "check": command("check"),
    "repair": command("repair"),
    "skip after repair": lambda directory: read_all(directory, on_error="skip", verify=True),
    "repair --force": command("repair", "--force"),
    "repair --force again": command("repair", "--force"),
    "skip after repair --force": lambda directory: read_all(directory, on_error="skip", verify=True),
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
    signal.setitimer(signal.ITIMER_REAL, 10 * SECONDS)
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


def main(parent):
    """Reads names of recordings, a line each, tries these, and prints what happened, a JSON object for each."""
    parent = Path(parent).resolve()
    good, directory = parent / "good", parent / "recording"
    good.mkdir()
    put_recording(good)
    outside(good)
    watch = Watch()
    for trial in TRIALS.values():  # loads all modules
        trial(good)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.addaudithook(watch)
    before = contents(parent / OUTSIDE)
    for line in sys.stdin:
        directory.mkdir()
        outcomes = {}
        try:
            HOSTILE[line.strip()].build(directory)
        except OSError as error:
            outcomes["left out"] = str(error)
        else:
            for key, trial in TRIALS.items():
                outcomes[key] = attempt(trial, directory, watch)
                if "Hangs" in outcomes[key].get("crash", ""):
                    break
            if before != contents(parent / OUTSIDE):
                outcomes["repair --force"]["touched"].append(OUTSIDE)
        shutil.rmtree(directory)
        print(json.dumps(outcomes), flush=True)


# ---- what must have happened


class Process:
    """A process that runs `main`; where one has died, the next takes over."""

    def __init__(self, make_directory):
        self.make_directory = make_directory
        self.running = None

    def outcomes(self, name):
        if self.running is None:
            environment = {**os.environ, "PYTHONPATH": ROOT, "OPENBLAS_NUM_THREADS": "1"}
            command = [sys.executable, "-W", "error", __file__, str(self.make_directory())]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
            self.running = subprocess.Popen(command, env=environment, **pipes)
        self.running.stdin.write(f"{name}\n")
        self.running.stdin.flush()
        line = self.running.stdout.readline()
        if not line:
            self.close()
            pytest.fail("the process died")
        return json.loads(line)

    def close(self):
        if self.running is not None:
            self.running.communicate()
            self.running = None


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    process = Process(lambda: tmp_path_factory.mktemp("hostile"))
    yield process
    process.close()


def runs(numbers):
    return [number for number, _ in itertools.groupby(numbers)]


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_hostile_is_read_and_nothing_beside_it_is_lost(process, name):
    outcomes = process.outcomes(name)
    if "left out" in outcomes:
        pytest.skip(outcomes["left out"])
    for trial, result in outcomes.items():
        assert "crash" not in result, f"{trial}: {result['crash']}"
        assert result["seconds"] < SECONDS, trial
        assert result["touched"] == [], trial
    check_reading(HOSTILE[name], outcomes)
    check_commands(HOSTILE[name], outcomes)


def check_reading(case, outcomes):
    """A reader gives what is good, and no more; it complains of what is bad, in one short line."""
    for trial in ("skip", "verify", "skip after repair", "skip after repair --force"):
        numbers = outcomes[trial]["numbers"]
        if not case.refused:
            numbers = [number for number in numbers if number in case.good]
        if trial.startswith("skip after"):  # which may date traces that had no date
            assert sorted(numbers) == sorted(runs(case.good)), trial
        else:
            assert numbers == runs(case.good), trial
    for trial in ("read", "each", "skip", "verify"):
        errors = outcomes[trial]["errors"]
        assert case.refused in (None, bool(errors)) or trial == "each", trial
        assert not errors or any(re.search(case.error, error) for error in errors), trial
        assert all(len(error) < 600 for error in errors), trial


def check_commands(case, outcomes):
    """A command ends with an exit code, and says what is wrong in a line each."""
    for trial in ("info", "info --json", "check", "repair", "repair --force", "repair --force again"):
        result = outcomes[trial]
        assert all(line.startswith("gym-recording: ") for line in result["err"][:-1]), trial
        assert all(line.isprintable() for line in result["out"]), trial
    for trial in ("info", "info --json", "check"):
        assert outcomes[trial]["code"] in (0, 1)
        assert outcomes[trial]["code"] == 1 or not case.refused, trial
    assert min(outcomes["info"]["lines"][1] - 1, FEW) == len(outcomes["skip"]["errors"])
    assert all(outcomes[trial]["code"] in (0, 1, 3) for trial in outcomes if trial.startswith("repair"))


# ---- depth: at every depth something else may be the first to give up

DEEP = {
    "the manifest": lambda value: {"metadata": value},
    "an environment": lambda value: {"env": {"id": value, "observation_space": {"type": value, "n": value}}},
    "batches": lambda value: {"batches": value},
    "a writer": lambda value: {"writer": {"host": value, "boot": value}},
    "creation": lambda value: {"created": value},
    "the header": lambda value: lambda batch: batch.header.update(more=value),
    "blobs": lambda value: lambda batch: batch.header.update(blobs=value),
    "a blob": lambda value: lambda batch: batch.entry.update(fn=value),
    "columns": lambda value: lambda batch: batch.header.update(columns=value),
    "a column": lambda value: lambda batch: batch.header["columns"][0].update(shape=value, path=value),
    "episodes": lambda value: lambda batch: batch.header.update(episodes=value),
    "observations": lambda value: lambda batch: batch.episode.update(observations=value),
    "a shape": lambda value: lambda batch: batch.observations.update(shape=value),
    "a name": lambda value: lambda batch: batch.observations.update(npyfile=value),
    "gaps": lambda value: lambda batch: batch.episode.update(gaps=value),
    "options": lambda value: lambda batch: batch.episode.update(options=value),
    "infos": lambda value: lambda batch: batch.episode.update(infos=value),
    "frames": lambda value: lambda batch: batch.episode.update(frames=value),
    "a running episode": lambda value: lambda batch: set_members(batch.episode, {"ended_by": ..., "more": value}),
}
FRAMES = 30  # of Python, that there may be between the parser and whoever looks at what it gave


def deepest():
    """How deep a list in a document may be; 0 if that is no matter of Python's own limit."""
    depth = 0
    with contextlib.suppress(RecursionError, TraceError):
        while depth < sys.getrecursionlimit():
            json.loads("[" * (depth + 1) + "]" * (depth + 1))
            depth += 1
    return depth


@pytest.mark.parametrize("where", DEEP)
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_what_is_deep_is_refused_or_harmless_at_every_depth(tmp_path, where, brackets):
    opening, closing, inner = ("[", "]", "") if brackets == "[]" else ('{"a":', "}", "1")
    limit = deepest()
    for number, depth in enumerate([31, 33, *range(limit - 3 * FRAMES, limit, 7), limit, limit + 1]):
        directory = tmp_path / f"{number}"
        directory.mkdir()
        change = DEEP[where](nested(depth, opening, closing, inner))
        put_recording(directory, closed=..., **({"spoil": change} if callable(change) else change))
        for trial in ("each", "skip", "info", "info --json", "check", "repair --force"):
            TRIALS[trial](directory)
        good = [0, 2] if callable(change) else [0, 1, 2]
        numbers = read_all(directory, on_error="skip")["numbers"]
        assert [number for number in numbers if number in good] == good


def test_the_table_has_every_name_once_and_is_written_for_other_readers(tmp_path):
    few = {name: HOSTILE[name] for name in itertools.islice(HOSTILE, 0, None, 40)}
    write_all(tmp_path, few)
    table = json.loads((tmp_path / "hostile.json").read_text())
    assert [entry["name"] for entry in table.values()] == list(few)
    for folder, entry in table.items():
        assert set(os.listdir(tmp_path / folder)) != set()
        numbers = read_all(tmp_path / folder, on_error="skip")["numbers"]
        assert [number for number in numbers if number in entry["good"]] == runs(entry["good"])


if __name__ == "__main__":
    main(sys.argv[1])
