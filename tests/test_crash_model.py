"""A model of a power cut: whatever the medium may hold then, all that was acknowledged is read back, and nothing wrong.

A recording is made, and what it asks of the system is written down. The model then forgets, at each moment, what nobody
has synced: of the names that came, changed and went since the directory was synced, any subset may have reached the
medium; of what was written to a file since that was synced all, nothing, half, or zeros. Each state is put into a
directory and read. The same model finds losses as soon as one sync is left out, or the order is another one.
"""

import itertools
import os
import random
import signal
from collections import defaultdict
from pathlib import Path

import pytest
from faults.session import PROGRAMS, judge_directory, play, promised, read
from faults.system import System, kill_at

from gym_recording import TraceRecording, TraceRecordingReader
from gym_recording.repair import repair_recording

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="needs POSIX"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

MAX_CHOICES = 128  # at one moment, of names and of contents each: all if there are no more, else a sample


# ---- what happens


class Log:
    """A plan that writes down what is asked of the system, as operations: tuples whose first item says which."""

    def __init__(self, directory):
        self.directory = os.fspath(directory)
        self.operations = []
        self.offsets = {}  # by descriptor
        self.files = {}  # by name: a number for each file, which stays when it is renamed
        self.count = itertools.count()

    def start(self):
        """Begins with the files that are there."""
        for path in Path(self.directory).iterdir():
            self.files[path.name] = file = next(self.count)
            self.add("name", path.name, file)
            self.add("write", file, 0, path.read_bytes())
            self.add("sync", file)
        self.add("sync directory")

    def __call__(self, call):
        name, at = os.path.basename(call.path), call.args[0]
        if call.name == "replace":
            target = os.path.basename(call.args[1])
            self.add("rename", name, target, self.files[name])
            self.files[target] = self.files.pop(name)
        elif call.name == "unlink" and name in self.files:
            del self.files[name]
            self.add("unlink", name)
        result = call.perform()
        if call.name == "open" and call.path != self.directory:
            self.offsets[result] = 0
            if name not in self.files:
                self.files[name] = next(self.count)
                self.add("name", name, self.files[name])
        elif call.name == "lseek":
            self.offsets[at] = result
        elif call.name in ("write", "writev"):
            data = call.args[1] if call.name == "write" else b"".join(call.args[1])
            self.add("write", self.files[name], self.offsets[at], data[:result])
            self.offsets[at] += result
        elif call.name == "fsync":
            self.add(*(("sync directory",) if call.path == self.directory else ("sync", self.files[name])))
        return result

    def add(self, *operation):
        self.operations.append(operation)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A function that records a program of `PROGRAMS` and gives its operations."""
    logs = {}

    def record(name):
        if name not in logs:
            log = Log(tmp_path_factory.mktemp("recorded"))
            with System(log).installed():
                play(log.directory, *PROGRAMS[name], lambda count: log.add("returned", count))
            logs[name] = log.operations
        return logs[name]

    return record


# ---- what may be left of it


class Medium:
    """What has surely reached the medium, and what may have."""

    def __init__(self):
        self.names = {}  # surely: name to file
        self.changes = []  # of names, since the directory was synced
        self.writes = defaultdict(list)  # by file: (offset, bytes)
        self.sure = defaultdict(int)  # by file: how many of its writes are surely there
        self.contents = {}

    def do(self, kind, *operands):
        if kind == "write":
            file, offset, data = operands
            self.writes[file].append((offset, data))
        elif kind == "sync":
            self.sure[operands[0]] = len(self.writes[operands[0]])
        elif kind == "sync directory":
            self.names = self.names_with(self.changes)
            self.changes = []
        else:
            self.changes.append((kind, *operands))

    def states(self):
        """Every state that it may be in: the bytes of each file by name, and whether nothing is forgotten."""
        for choice in choices((True, False), len(self.changes)):
            names = self.names_with(itertools.compress(self.changes, choice))
            names = {name: file for name, file in names.items() if not name.endswith((".tmp", ".lock"))}
            unsure = [file for file in names.values() if self.sure[file] < len(self.writes[file])]
            for kinds in choices(tuple(KINDS), len(unsure)):
                kind_of = dict(zip(unsure, kinds))
                state = {name: self.content(file, kind_of.get(file, "all")) for name, file in names.items()}
                yield state, all(choice) and set(kinds) <= {"all"}

    def names_with(self, changes):
        names = dict(self.names)
        for kind, name, *rest in changes:
            if kind == "name":
                names[name] = rest[0]
            else:
                names.pop(name, None)
                if kind == "rename":
                    names[rest[0]] = rest[1]
        return names

    def content(self, file, kind):
        key = (file, kind, self.sure[file], len(self.writes[file]))
        if key not in self.contents:
            data = bytearray()
            for number, (offset, piece) in enumerate(self.writes[file]):
                piece = piece if number < self.sure[file] else KINDS[kind](piece)
                data += bytes(max(0, offset - len(data)))
                data[offset : offset + len(piece)] = piece
            self.contents[key] = self.contents.setdefault(bytes(data), bytes(data))  # equal ones are one object
        return self.contents[key]


KINDS = {
    "all": lambda piece: piece,
    "nothing": lambda piece: b"",
    "half": lambda piece: piece[: len(piece) // 2],
    "zeros": lambda piece: bytes(len(piece)),
}


def choices(options, count):
    """An option for each of so many, in every way; the first is the same for all, and so is the last."""
    if len(options) ** count <= MAX_CHOICES:
        return itertools.product(options, repeat=count)
    draw = random.Random(count)
    sample = [tuple(draw.choices(options, k=count)) for _ in range(MAX_CHOICES - 2)]
    return [options[:1] * count, options[-1:] * count, *sample]


def all_states(operations, skip=0, limit=10**9):
    """Every different state: its files, how many calls had returned when it may last be found, whether it is clean.

    A clean state is one that the death of the process leaves, when the system lives on and forgets nothing.

    Args:
        operations: of a `Log`.
        skip: at so many of them nothing happens.
        limit: enough different states.
    """
    medium, returned, found = Medium(), 0, {}
    for number, (kind, *operands) in enumerate(operations):
        if kind == "returned":
            returned = operands[0]
        else:
            medium.do(kind, *operands)
        for state, clean in medium.states() if number >= skip - 1 else ():
            key = frozenset((name, id(data)) for name, data in state.items())
            _, _, was_clean = found.get(key, (None, None, False))
            found[key] = state, returned, clean or was_clean
        if len(found) > limit:
            break
    return list(found.values())


def put(directory, state):
    """Makes a directory hold exactly these files."""
    for path in directory.iterdir():
        if path.name not in state:
            path.unlink()
    for name, data in state.items():
        path = directory / name
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)


def repair(directory):
    """Repairs without waiting for the medium."""
    with System().installed():
        assert repair_recording(os.fspath(directory), force=True).failed == []


def faults(directory, program, options, states):
    """What is wrong with the states, one after the other, before and after a repair."""
    for state, returned, clean in states:
        put(directory, state)
        promise = promised(program, options, returned)
        try:
            judge_directory(directory, program, promise, clean)
            repair(directory)
            judge_directory(directory, program, promise, clean)
        except (AssertionError, ValueError) as error:
            yield f"after {returned} calls: {error}"


# ---- what must be true


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_acknowledged_survives_every_power_cut_and_nothing_is_ever_wrong(tmp_path, recorded, name):
    states = all_states(recorded(name))
    print(f"{len(recorded(name))} operations, {len(states)} different states")
    assert len(states) > 10
    assert list(faults(tmp_path, *PROGRAMS[name], states)) == []


def header_first(operations):
    """The same, with each header put before the blobs that it refers to."""
    changed, segment = [], []
    for operation in operations:
        segment.append(operation)
        if operation[0] == "sync directory":
            headers = {
                rest[-1] for kind, *rest in segment if kind == "rename" and ".ep" in rest[1] and "json" in rest[1]
            }
            acknowledged = [kind == "returned" for kind, *_ in segment]
            start = len(segment) - acknowledged[::-1].index(True) if any(acknowledged) else 0
            head, tail = segment[:start], segment[start:]
            of_header = [
                operation[-1 if operation[0] in ("name", "rename") else 1] in headers for operation in tail[:-1]
            ]
            first = itertools.compress(tail, of_header)
            then = itertools.compress(tail, [not flag for flag in of_header])
            changed += [*head, *first, *then, tail[-1]]
            segment = []
    return changed + segment


MUTATIONS = {
    "files are not synced": lambda log: [operation for operation in log if operation[0] != "sync"],
    "the directory is not synced": lambda log: [operation for operation in log if operation[0] != "sync directory"],
    "the header comes before the blob": header_first,
}


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("name", ["saved", "streamed"])
def test_the_model_finds_a_loss_when_a_step_of_the_commit_is_missing(tmp_path, recorded, name, mutation):
    states = all_states(MUTATIONS[mutation](recorded(name)), limit=5000)
    fault = next(faults(tmp_path, *PROGRAMS[name], reversed(states)), None)
    print(f"{len(states)} different states; one: {fault}")
    assert fault is not None


def test_a_directory_that_the_recorder_makes_is_durable_before_anything_is_acknowledged(tmp_path):
    calls = []

    def plan(call):
        calls.append((call.name, call.path))
        return call.perform()

    with System(plan).installed():
        TraceRecording(tmp_path / "new" / "recording")
    made = calls.index(("makedirs", str(tmp_path / "new" / "recording")))
    synced = [path for name, path in calls[made:] if name == "fsync"]
    assert {str(tmp_path), str(tmp_path / "new")} <= set(synced)


def test_a_power_cut_in_the_midst_of_a_repair_loses_nothing(tmp_path):
    """What a reader gets before a repair, it gets from whatever a repair leaves behind; that can be repaired again."""
    program, options = PROGRAMS["streamed"]
    count = 0
    for number in range(60, 200, 10):
        directory, states = tmp_path / f"killed {number}", tmp_path / f"states {number}"
        states.mkdir()
        child = os.fork()
        if child == 0:
            with System(kill_at(number)).installed():
                play(directory, program, options)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        found = read(TraceRecordingReader(directory))
        last = max(found)
        promise = (last, len(found[last].rewards)) if found[last].ended_by is None else (last + 1, 0)
        log = Log(directory)
        log.start()
        begin = len(log.operations)
        with System(log).installed():
            assert repair_recording(os.fspath(directory)).failed == []
        for state, _, _ in all_states(log.operations, skip=begin):
            count += 1
            put(states, state)
            judge_directory(states, program, promise, clean=True)
            repair(states)
            judge_directory(states, program, promise, clean=True)
    print(f"{count} different states")
    assert count > 50
