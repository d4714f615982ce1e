"""Hostile recordings: one table of whole directories, each with good batches and something that nobody may believe.

    python tests/hostile.py DIRECTORY

writes all of them, one folder each, and `hostile.json`: for each folder the numbers of the episodes that a reader must
still give when it leaves out what is bad, and whether it must refuse anything. Written from FORMAT.md alone: the
package is not used here, so that readers in any language can be tried on the same folders.

Every good episode number n has one step: `observations` uint8 [[n, n, n], [n, n, n]], `actions` int64 [n] and `rewards`
float64 [n + 0.5]. A recording has the episodes 0, 1 and 2, each in a batch of its own; where a batch is spoiled it is 1.
"""

import json
import os
import re
import socket
import struct
import sys
import zlib
from pathlib import Path
from typing import Callable, NamedTuple, Tuple

import numpy as np

HOSTILE = {}  # the table
VERSIONS = (2, 1, 0)
TRACES = {2: "openaigym.trace.0.12-0123456789ab", 1: "openaigym.trace.0.12", 0: "openaigym.trace.0.12"}
OTHERS = {2: "openaigym.trace.1.12-0123456789ab", 1: "openaigym.trace.1.12", 0: "openaigym.trace.1.12"}
SECRET = "secret"  # a folder beside the recordings, with files that links and names in them try to reach
FORMAT = '{"name": "gym-recording", "version": [2, 0]}'


class Hostile(NamedTuple):
    """One recording.

    Attributes:
        build: makes it in an empty directory. `OSError` if this system or user cannot.
        good: the episodes that must be read, also when what is bad is left out.
        refused: whether a reader must complain; else what is bad is nothing that it looks at, or harmless to read.
        error: what the complaint must match.
    """

    build: Callable[[Path], None]
    good: Tuple[int, ...] = (0, 2)
    refused: bool = True
    error: str = ""


def hostile(name, build, **more):
    """Enters a recording in the table."""
    assert name not in HOSTILE, name
    HOSTILE[name] = Hostile(build, **more)


# ---- how a recording is written


_raw = []


def raw(text):
    """Stands in a document for any JSON text, also such as `json` would not write."""
    _raw.append(text)
    return f"@raw {len(_raw) - 1}@"


def json_text(value):
    return re.sub(r'"@raw ([0-9]+)@"', lambda match: _raw[int(match[1])], json.dumps(value))


def document(members, version=2):
    """The bytes of a manifest or header, with the right seal in version 2."""
    if version < 2:
        return json_text(members).encode()
    return sealed(f'{{"format": {FORMAT}, "crc32": "########", {json_text(members)[1:-1]}}}\n')


def sealed(text):
    """The bytes of a text, in which `########` is the place of the seal."""
    zeros = text.replace("########", "00000000").encode()
    return text.replace("########", f"{zlib.crc32(zeros):08x}", 1).encode()


def npy_header(descr, shape, magic=b"\x93NUMPY\x01\x00"):
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    text = text.ljust(-len(text) % 64 + len(text) + 53 - 64 * (len(text) % 64 > 53 and 0)) if False else text
    size = -(-(11 + len(text)) // 64) * 64
    return magic + struct.pack("<H", size - 10) + text.ljust(size - 11).encode() + b"\n"


class Batch:
    """A good batch of one episode, which may be spoiled before it is put into a directory.

    Attributes:
        header: the members of the header.
        blob: the bytes of the blob; its `size` and `crc32` in the header become right when it is put, unless they were
            changed.
        episode, observations, actions, rewards: parts of `header`.
    """

    def __init__(self, number, version=2, trace=None):
        self.number, self.version = number, version
        self.name = f"{trace or TRACES[version]}.ep{number:09}"
        self.blob = bytearray()
        arrays = {
            "observations": np.full((2, 3), number, "uint8"),
            "actions": np.array([number], "<i8"),
            "rewards": np.array([number + 0.5], "<f8"),
        }
        self.episode = {key: self.append(array) for key, array in arrays.items()}
        self.observations, self.actions, self.rewards = self.episode.values()
        self.header = {"episodes": [self.episode]}
        if version >= 2:
            columns = [{**self.episode[key], "npyhdr": at, "path": [key]} for key, at in zip(arrays, (0, 192, 384))]
            self.episode["ended_by"] = "close"
            self.entry = {"fn": f"{self.name}.bin", "size": None, "crc32": None}
            self.header = {"first": number, "blobs": [self.entry], "columns": columns, **self.header}

    def append(self, array):
        """Appends an array to the blob and gives its record."""
        if self.version != 1:
            self.blob += bytes(-len(self.blob) % 64)
        start = len(self.blob)
        if self.version != 1:
            self.blob += npy_header(array.dtype.str, array.shape)
        record = {
            "__type": "ndarray",
            "shape": list(array.shape),
            "order": "C",
            "dtype": array.dtype.name,
            "npyfile": f"{self.name}.bin",
            "npyoff": start if self.version == 0 else len(self.blob),
            "size": array.nbytes,
        }
        if self.version == 0:
            del record["order"], record["size"]
        self.blob += array.tobytes()
        if self.version == 1:
            self.blob += bytes(-len(self.blob) % 8)
        return record

    def repeat(self, count):
        """Makes `count` episodes of the one, all on the same bytes."""
        self.header["episodes"] = [self.episode] * count

    def put(self, directory):
        if self.version >= 2:
            entry = {"size": len(self.blob), "crc32": f"{zlib.crc32(self.blob):08x}"}
            self.entry.update({key: value for key, value in entry.items() if self.entry.get(key, 0) is None})
        (directory / f"{self.name}.bin").write_bytes(self.blob)
        (directory / f"{self.name}.json").write_bytes(document(self.header, self.version))


def manifest(version, batches, trace=None):
    """The members of a manifest of `batches`: (first, len)."""
    name = trace or TRACES[version]
    members = {"batches": [{"first": n, "len": count, "fn": f"{name}.ep{n:09}.json"} for n, count in batches]}
    if version >= 2:
        members.update(created="2026-01-02T03:04:05.000000Z", closed=True, writer={"package": "hostile"})
    return members


def put_manifest(directory, version=2, batches=((0, 1), (1, 1), (2, 1)), trace=None, **members):
    name = f"{trace or TRACES[version]}.manifest.json"
    members = {**manifest(version, batches, trace), **members}
    (directory / name).write_bytes(document({k: v for k, v in members.items() if v is not ...}, version))


def put_recording(directory, version=2, spoil=None, trace=None):
    """Puts a whole recording; `spoil` gets batch 1."""
    batches = [Batch(number, version, trace) for number in range(3)]
    if spoil is not None:
        spoil(batches[1])
    for batch in batches:
        batch.put(directory)
    counts = [(batch.number, len(batch.header["episodes"]) if batch.number != 1 else None) for batch in batches]
    episodes = batches[1].header.get("episodes")
    counts[1] = (1, len(episodes) if isinstance(episodes, list) else 1)
    if counts[1][1] == 1:
        put_manifest(directory, version, counts, trace)
    else:  # as if batch 2 came after all of them
        put_manifest(directory, version, counts[:2], trace)
        for path in directory.glob(f"{batches[2].name}.*"):
            path.unlink()
        last = Batch(2, version, trace)
        last.name = f"{trace or TRACES[version]}.ep{1 + counts[1][1]:09}"
        text = json_text(last.header).replace("ep000000002", last.name[-11:])
        last.header = json.loads(text)
        if version >= 2:
            last.header["first"] = 1 + counts[1][1]
            last.entry = last.header["blobs"][0]
        last.put(directory)
        put_manifest(directory, version, [*counts[:2], (1 + counts[1][1], 1)], trace)


def spoiled(name, spoil, versions=(2,), **more):
    """Enters a recording whose batch 1 is spoiled, for each version."""
    for version in versions:

        def build(directory, version=version):
            put_recording(directory, version, spoil)

        hostile(name if version == 2 else f"{name}, version {version}", build, **more)


def changed(record, changes):
    record.update(changes)
    for key in [key for key, value in changes.items() if value is ...]:
        del record[key]


def header_path(directory, version=2, number=1):
    return directory / f"{TRACES[version]}.ep{number:09}.json"


def blob_path(directory, version=2, number=1):
    return directory / f"{TRACES[version]}.ep{number:09}.bin"


def manifest_path(directory, version=2):
    return directory / f"{TRACES[version]}.manifest.json"
