"""Fuzzes the readers: whatever the bytes of a recording, it is read or it raises `TraceError`.

    tests/fuzz/run SECONDS

An input is a byte of flags, then files with `SEPARATOR` between them, in the order of `NAMES`. The names are fixed, and
the seals of documents are made right again, for a mutation never finds a checksum. `one_input` needs no fuzzer: the
crashers that were found are replayed by `test_crashers`.
"""

import atexit
import json
import os
import random
import re
import shutil
import sys
import tempfile
import zlib
from pathlib import Path

SEPARATOR = b"\0\xffFILE\xff\0"
TRACES = "openaigym.trace.0.1", "openaigym.trace.0.1-0123456789ab"
NAMES = ("manifest.json", "ep000000000.json", "ep000000000.bin", *[f"ep000000000.{n}.bin" for n in range(16)])
IS_CURRENT, KEEP_SEALS = 1, 2  # flags: names of version 2; seals stay as they are
MAX_BYTES = 1 << 16
DATA = Path(__file__).resolve().parents[1] / "data"
SEAL = re.compile(rb'"crc32"\s*:\s*"([0-9a-f]{8})"')

_directory = tempfile.mkdtemp(prefix="fuzz")
atexit.register(shutil.rmtree, _directory, ignore_errors=True)


def one_input(data):
    """Reads the recording that an input describes, in every way."""
    from gym_recording import TraceError, TraceRecordingReader
    from gym_recording.check import check_recording

    put(data, _directory)
    for options in ({}, {"on_error": "skip", "verify": True}, {"on_error": "skip", "mmap": False}):
        reader = TraceRecordingReader(_directory, **options)
        try:
            for episode in reader:
                touch(episode)
            assert len(reader) >= 0
        except TraceError as error:
            say(error)
        try:
            learn(reader)
        except TraceError as error:
            say(error)
        for error in reader.errors:
            say(error)
        for trace in reader.traces:
            for name in ("observation_space", "action_space"):
                try:
                    getattr(trace, name)
                except TraceError as error:
                    say(error)
    try:
        for error in check_recording(_directory):
            say(error)
    except TraceError as error:
        say(error)


def say(error):
    assert len(str(error)) < 2000, "a complaint is one short line"


def learn(reader):
    """What is asked of a reader to learn from it: statistics, views, copies, some transitions and windows."""
    from gym_recording import MemoryDirectory, TraceError, copy_episodes

    summary = reader.summary()
    assert len(reader.select(summary.lengths > 0, min_length=1)) <= len(reader)
    if len(reader):
        reader.select(slice(0, None, 2)).summary()
        for use in (act, lambda view: copy_episodes(view, MemoryDirectory())):
            try:
                use(reader)
            except TraceError as error:  # and what follows is tried all the same
                say(error)
    for samples in (reader.transitions, reader.windows(3, pad=True)):
        if len(samples):
            look(samples[[0, len(samples) - 1, 0]])
            look(samples[len(samples) // 2])


def act(reader):
    """Plays the first episode back."""
    from gym_recording import PlaybackEnv

    env = PlaybackEnv(reader)
    env.reset()
    for _ in range(min(len(env.episode), 3)):
        env.step(0)
    env.close()


def touch(episode):
    """Looks at every byte that an episode has, and at its first and last rows."""
    for key in ("observations", "actions", "rewards", "timestamps", "options", "infos", "frames"):
        look(getattr(episode, key))
    for rows in (episode.observations, episode.actions, episode.rewards):
        for index in (0, -1) if len(rows) else ():
            look(rows[index])


def look(value):
    if hasattr(value, "columns"):
        look(value.columns)
    elif hasattr(value, "tobytes"):
        value.tobytes()
    elif isinstance(value, dict):
        look(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            look(item)


def put(data, directory):
    """Puts the files of an input into a directory, in place of those that are there."""
    for name in os.listdir(directory):
        os.unlink(os.path.join(directory, name))
    flags = data[0] if data else 0
    for name, content in zip(NAMES, data[1:].split(SEPARATOR)):
        if name.endswith(".json") and not flags & KEEP_SEALS:
            content = sealed(content)
        if content:
            with open(os.path.join(directory, f"{TRACES[flags & IS_CURRENT]}.{name}"), "wb") as file:
                file.write(content)


def sealed(document):
    """A document with the right seal, if it has one."""
    found = SEAL.search(document)
    if found is None:
        return document
    before, after = document[: found.start(1)], document[found.end(1) :]
    return before + b"%08x" % zlib.crc32(before + b"00000000" + after) + after


# ---- where to begin


def seeds():
    """Inputs: the golden recordings of the original, one of version 2, and some that are made now."""
    for directory in [*sorted((DATA / "golden").iterdir()), DATA / "version_2"]:
        yield from inputs_of(directory)
    made = Path(tempfile.mkdtemp())
    try:
        make_recordings(made)
        for directory in sorted(made.iterdir()):
            yield from inputs_of(directory)
    finally:
        shutil.rmtree(made)


def inputs_of(directory):
    """An input for every trace of a recording: its manifest and its first batch."""
    for manifest in sorted(directory.glob("openaigym.*.manifest.json")):
        trace = manifest.name[: -len(".manifest.json")]
        is_current = "-" in trace
        paths = [directory / f"{trace}.{name}" for name in NAMES]
        if not paths[1].exists():
            continue
        files = [path.read_bytes() if path.exists() else b"" for path in paths]
        files = [content.replace(trace.encode(), TRACES[is_current].encode()) for content in files]
        while files[-1] == b"":
            files.pop()
        data = bytes([is_current]) + SEPARATOR.join(files)
        if len(data) <= MAX_BYTES:
            yield data


def make_recordings(directory):
    import numpy as np

    from gym_recording import TraceRecording

    box = {"type": "Box", "shape": [2], "dtype": "float32", "low": [0.0, "-inf"], "high": 1.0}
    spaces = [box, {"type": "Discrete", "n": 3}, {"type": "MultiDiscrete", "nvec": [2, 3]}]
    env = {
        "observation_space": {"type": "Tuple", "spaces": spaces},
        "action_space": {"type": "Graph", "node_space": box},
    }
    for name, flush in {"batch": {}, "streamed": {"flush_interval": 0}}.items():
        options = {"infos": True, "timestamps": True, "frames": True, "durability": "none", "env": env, **flush}
        with TraceRecording(directory / name, **options) as recording:
            for steps in (3, 0):
                observation = {"a": np.zeros((2, 2), "uint8"), "b": (np.float32(1), "text"), 3: [np.ones(2), None]}
                frame = np.zeros((2, 3, 3), "uint8")
                recording.add_reset(observation, seed=1, options={"o": np.ones(1)}, info={"k": 1}, frame=frame)
                for step in range(steps):
                    step_frame = frame[:, : step + 1] if step else None
                    recording.add_step(
                        (step, np.bool_(True)), observation, step / 2, info={"k": step, None: [1]}, frame=step_frame
                    )


# ---- mutations that know JSON

INTERESTING = [
    *(0, 1, -1, 2, 7, 8, 63, 64, 127, 128, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 1.5, True),
    *(None, False, "", [], {}, [0], [-1], [2**62, 0], [0, 2**62], [[]], [1] * 33, {"a": 1}, float("nan"), 1e999),
    *("ndarray", "tuple", "dict", "C", "F", "O", "V8", "<M8[s]", "bool", "uint8", "int64", ">f4", "<U5", "|S3"),
    *("[('a', '<f4')]", "[('a', '|O')]", "{'names': ['a'], 'formats': ['<f4'], 'offsets': [0], 'itemsize': 8}"),
    *("bfloat16", "float8_e5m2", "terminated", "crash", "reset", "\ud800", "\0", "..", "/etc/passwd"),
    *[f"{trace}.{name}" for trace in TRACES for name in NAMES],
    {"__type": "ndarray"},
    {"__type": "tuple", "items": [[1], [2]]},
    {"__type": "dict", "items": [["a", [1]]]},
    [{"key": "a", "rows": [0], "values": [1]}],
]


def mutated(data, seed):
    """An input with a part of one of its documents replaced, removed or repeated; None if it has none."""
    choose = random.Random(seed)
    files = data[1:].split(SEPARATOR)
    number = choose.randrange(min(2, len(files)))
    try:
        document = json.loads(files[number])
        places = list(places_in(document))
        for _ in range(choose.randrange(1, 4)):
            parent, key = choose.choice(places)
            if key not in (parent if isinstance(parent, dict) else range(len(parent))):
                continue  # it was removed
            kind = choose.randrange(5)
            if kind == 0:
                del parent[key]
            elif kind == 1:
                other, at = choose.choice(places)
                parent[key] = json.loads(json.dumps(other[at]))
            elif kind == 2 and isinstance(parent, list):
                parent.insert(key, parent[key])
            elif kind == 3 and type(parent[key]) is int:
                parent[key] += choose.choice([-64, -8, -1, 1, 8, 64])
            else:
                parent[key] = choose.choice(INTERESTING)
        files[number] = json.dumps(document).encode()
    except (ValueError, IndexError, KeyError, TypeError, RecursionError):
        return None
    return data[:1] + SEPARATOR.join(files)


def places_in(value):
    """Every (container, key) of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from places_in(item)


def main():
    import atheris

    with atheris.instrument_imports(include=["gym_recording"]):
        import gym_recording.check  # noqa: F401

    def mutate(data, max_size, seed):
        found = mutated(data, seed) if seed % 2 and len(data) < max_size else None
        return found if found is not None and len(found) <= max_size else atheris.Mutate(data, max_size)

    corpus = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), None)
    if corpus is not None:
        for number, data in enumerate(seeds()):
            (Path(corpus) / f"seed-{number}").write_bytes(data)
    atheris.Setup(sys.argv, one_input, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
