"""Hostile recordings: one table of whole directories, each with good batches and something that nobody may believe.

    python tests/hostile.py DIRECTORY

writes all of them, one folder each, and `hostile.json`: by folder, which episodes a reader must still give when it
leaves out what is bad, and whether it must refuse anything. Written from FORMAT.md alone: the package is not used here,
so that readers in any language can be tried on the same folders.

The good episode n has one step: `observations` uint8 [[n, n, n], [n, n, n]], `actions` int64 [n], `rewards` float64
[n + 0.5]. A recording has the episodes 0, 1 and 2, each in a batch of its own; a batch that is spoiled is 1.
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

TRACES = {2: "openaigym.trace.0.12-0123456789ab", 1: "openaigym.trace.0.12", 0: "openaigym.trace.0.12"}
OTHERS = {2: "openaigym.trace.1.34-0123456789ab", 1: "openaigym.trace.1.34", 0: "openaigym.trace.1.34"}
ENDS = {"manifest": "manifest.json", "header": "ep000000001.json", "blob": "ep000000001.bin"}
ALL, WITH_SIZE = (2, 1, 0), (2, 1)  # versions
OUTSIDE = "outside"  # a folder beside the recordings: what links and names in them try to reach
FORMAT = '{"name": "gym-recording", "version": [2, 0]}'
MANY = 100_000
SPARSE = (1 << 30) + 1  # one byte more than a document may have


class Hostile(NamedTuple):
    """One recording.

    Attributes:
        build: makes it in an empty directory. Raises `OSError` if this system or user cannot.
        good: the good episodes that must be read when what is bad is left out.
        refused: whether a reader must complain. If not, it need not look at what is bad, or may read it.
        error: what a complaint of a reader must match.
    """

    build: Callable[[Path], None]
    good: Tuple[int, ...] = (0, 2)
    refused: bool = True
    error: str = ""


HOSTILE = {}  # the table


def hostile(name, build, version=2, **more):
    """Enters a recording in the table."""
    name = name if version == 2 else f"{name}, version {version}"
    assert name not in HOSTILE, name
    HOSTILE[name] = Hostile(build, **more)


# ---- what a good recording is

_raw = []


def raw(text):
    """Stands in a document for any JSON text, also such as `json` would not write."""
    _raw.append(text)
    return f"@raw {len(_raw) - 1}@"


def json_text(value):
    return re.sub(r'"@raw ([0-9]+)@"', lambda match: _raw[int(match[1])], json.dumps(value))


def sealed(text):
    """The bytes of a text; the right seal is put where `########` stands."""
    zeros = text.replace("########", "00000000").encode()
    return zeros.replace(b'"crc32": "00000000"', b'"crc32": "%08x"' % zlib.crc32(zeros), 1)


def document(members, version=2):
    """A manifest or header."""
    text = json_text(members)
    return sealed(f'{{"format": {FORMAT}, "crc32": "########", {text[1:]}\n') if version == 2 else text.encode()


def npy_header(array, text=None, magic=b"\x93NUMPY\x01\x00", length="<H"):
    text = text or f"{{'descr': {array.dtype.str!r}, 'fortran_order': False, 'shape': {array.shape}, }}"
    size = -(-(len(magic) + struct.calcsize(length) + len(text) + 1) // 64) * 64 - len(magic) - struct.calcsize(length)
    return magic + struct.pack(length, size) + text.ljust(size - 1).encode() + b"\n"


class Batch:
    """A good batch of one episode, that may be spoiled before it is put.

    Attributes:
        header: the members of the header.
        blob: the bytes of the blob.
        entry: of the blob in the header, in version 2; what is None there becomes right when it is put.
        episode, observations, actions, rewards: parts of `header`.
    """

    def __init__(self, number, version=2, trace=None, first=None):
        self.version = version
        self.first = number if first is None else first
        self.name = f"{trace or TRACES[version]}.ep{self.first:09}"
        self.blob = bytearray()
        arrays = {
            "observations": np.full((2, 3), number, "uint8"),
            "actions": np.array([number], "<i8"),
            "rewards": np.array([number + 0.5], "<f8"),
        }
        self.episode = {key: self.append(array) for key, array in arrays.items()}
        self.observations, self.actions, self.rewards = self.episode.values()
        self.entry = {"fn": f"{self.name}.bin", "size": None, "crc32": None}
        self.header = {"episodes": [self.episode]}
        if version == 2:
            columns = [{**self.episode[key], "npyhdr": at, "path": [key]} for key, at in zip(arrays, (0, 192, 384))]
            self.episode["ended_by"] = "close"
            self.header = {"first": self.first, "blobs": [self.entry], "columns": columns, **self.header}

    def append(self, array):
        """Appends an array to the blob, and gives its record."""
        self.blob += bytes(-len(self.blob) % (8 if self.version == 1 else 64))
        start = len(self.blob)
        if self.version != 1:
            self.blob += npy_header(array)
        record = {"__type": "ndarray", "shape": list(array.shape), "dtype": array.dtype.name}
        record.update(npyfile=f"{self.name}.bin", npyoff=start if self.version == 0 else len(self.blob))
        self.blob += array.tobytes()
        return record if self.version == 0 else {**record, "order": "C", "size": array.nbytes}

    def put(self, directory):
        right = {"size": len(self.blob), "crc32": f"{zlib.crc32(self.blob):08x}"}
        self.entry.update({key: value for key, value in right.items() if self.entry.get(key, 0) is None})
        (directory / f"{self.name}.bin").write_bytes(self.blob)
        (directory / f"{self.name}.json").write_bytes(document(self.header, self.version))

    def __len__(self):
        episodes = self.header.get("episodes")
        return len(episodes) if isinstance(episodes, list) else 1


def put_manifest(directory, version=2, batches=((0, 1), (1, 1), (2, 1)), trace=None, **members):
    """Puts a manifest of batches (first, len); a member that is ... is left out."""
    name = trace or TRACES[version]
    everything = {"batches": [{"first": n, "len": count, "fn": f"{name}.ep{n:09}.json"} for n, count in batches]}
    if version == 2:
        everything.update(created="2026-01-02T03:04:05.000000Z", closed=True, writer={"package": "hostile"})
    members = {key: value for key, value in {**everything, **members}.items() if value is not ...}
    (directory / f"{name}.manifest.json").write_bytes(document(members, version))


def put_recording(directory, version=2, spoil=None, trace=None, **members):
    """Puts a whole recording; `spoil` gets batch 1. `members` are of the manifest."""
    batches = [Batch(0, version, trace), Batch(1, version, trace)]
    if spoil is not None:
        spoil(batches[1])
    batches.append(Batch(2, version, trace, 1 + len(batches[1])))
    for batch in batches:
        batch.put(directory)
    put_manifest(directory, version, [(batch.first, len(batch)) for batch in batches], trace, **members)


def outside(directory):
    """The folder beside `directory`. It has good recordings of the same names, so who reaches it reads something."""
    folder = directory.parent / OUTSIDE
    if not folder.exists():
        folder.mkdir()
        put_recording(folder, 2)
        put_recording(folder, 1)
        (folder / "lock").write_text('{"host": "outside"}')
    return folder


def spoiled(name, spoil, versions=(2,), **more):
    """Enters a recording whose batch 1 is spoiled, for each version."""
    for version in versions:

        def build(directory, version=version):
            outside(directory)
            put_recording(directory, version, spoil)

        hostile(name, build, version, **more)


def set_members(part, members):
    """Changes members of an object; one that is ... is removed."""
    part.update(members)
    for key in [key for key, value in members.items() if value is ...]:
        del part[key]


def nested(depth, opening="[", closing="]", inner=""):
    return raw(opening * depth + inner + closing * depth)


# ---- array records: the members of the record of `observations`


def records(group, changes, versions=ALL, **more):
    for text, members in changes.items():

        def spoil(batch, members=members):
            values = {key: value(batch) if callable(value) else value for key, value in members.items()}
            set_members(batch.observations, values)
            if batch.version == 2 and "path" not in values:
                set_members(batch.header["columns"][0], values)

        spoiled(f"{group} {text}", spoil, versions, **more)


DTYPES = {
    **{name: name for name in ("O", "|O", "object", "V8", "|V8", "M8[s]", "<m8[ns]", "float128", "longdouble", "wat")},
    **{repr(name): name for name in ("f4,O", "S0", "U0", "U999999999", "S9999999999", "\0", "(2,3)f4", "i4 ", "Int8")},
    "of 10,000 characters": "x" * 10_000,
    "of 10,000 fields": repr([(f"f{i}", "<f4") for i in range(10_000)]),
    "of a megabyte": "[" * 1_000_000,
    "that is a number": 3,
    "that is a list": [["x", "<f4"]],
    "null": None,
    "absent": ...,
    "with an object in a field": "[('a', '|O')]",
    "with a date in a field of a field": "[('a', [('b', '<M8[s]')])]",
    "with an unknown field": "[('a', 'what')]",
    "with a field twice": "[('a', '<f4'), ('a', '<f4')]",
    "with a title": "[(('title', 'a'), '<f4')]",
    "without fields": "[]",
    "with a field of a field": "[('a', '<f4', (1,), 3)]",
    "with a field of negative length": "[('a', '<f4', (-1,))]",
    "with a field of huge length": f"[('a', '<f4', ({2**62},))]",
    "with a field whose size overflows": f"[('a', '<f8', ({2**31}, {2**31}, {2**31}))]",
    "with fields of more than 2 GiB": "[('a', '|S999999999'), ('b', '|S999999999'), ('c', '|S999999999')]",
    "with a field at a negative offset": "{'names': ['a'], 'formats': ['<f4'], 'offsets': [-4], 'itemsize': 4}",
    "with a field beyond its end": "{'names': ['a'], 'formats': ['<f4'], 'offsets': [1000], 'itemsize': 4}",
    "with fields that overlap": "{'names': ['a', 'b'], 'formats': ['<f4', '<f4'], 'offsets': [0, 2], 'itemsize': 6}",
    "with a huge itemsize": "{'names': ['a'], 'formats': ['<f4'], 'offsets': [0], 'itemsize': 99999999999999999999}",
    "that is a call": "[('a', __import__('os').abort())]",
    "that is a comprehension": "[x for x in ('a',)]",
    "that is a product": "[('a', '<f4', (9**9**9,))]",
    "that is cut short": "[('a', '<f4'",
    "of 4,000 minus signs": f"[('a', {'-' * 4_000}1)]",
    "of 4,000 additions": f"[('a', {'1+' * 4_000}1)]",
    "of 4,000 lists": "[" * 4_000 + "]" * 4_000,
    "of 90 lists": "[" * 90 + "]" * 90,
    "with an unknown escape": "[('\\d', 'what')]",
    "with a NUL": "[('a\0', '<f4')]",
}
records("dtype", {text: {"dtype": dtype} for text, dtype in DTYPES.items()}, error="dtype|differs|wrong size|not whol")

HUGE = (2**31, 2**62, 2**63 - 1, 2**63, 2**64, 10**30)
SHAPES = {
    "negative": [-2, -3],
    "negative but for its product": [-2, -3, 1],
    "of one negative length": [-1],
    "of bool": [True, 6],
    "of floats": [2.0, 3.0],
    "of text": ["2", "3"],
    "of null": [None],
    "of lists": [[2, 3]],
    "that is a number": 6,
    "that is text": "2, 3",
    "null": None,
    "absent": ...,
    "of 33 dimensions": [1] * 33,
    "of 10,000 dimensions": [1] * 10_000,
    "without dimensions": [],
    **{f"({length}, 3)": [length, 3] for length in HUGE},
    **{f"(2, {length})": [2, length] for length in HUGE},
    "whose product is 0 in 64 bits": [2**32, 2**32],
    "whose product is 6 in 64 bits": [2, 2**63 + 3],
    "that is deep": nested(500),
}
records("shape", {text: {"shape": shape} for text, shape in SHAPES.items()}, error="shape|differs|size|not wholly")
records(
    "shape",
    {
        "whose product is 0 in 64 bits, with that size": {"shape": [2**32, 2**32], "size": 0},
        "whose product is 0 in 64 bits, of many dimensions": {"shape": [2**31] * 31, "size": 0},
        "whose product is huge, with that size": {"shape": [2**40, 2**40], "size": 2**80},
        "with 2^62 rows of nothing": {"shape": [2**62, 0], "size": 0},
    },
    WITH_SIZE,
)
SIZES = {
    **{text: value for text, value in (("negative", -6), ("0", 0), ("too small", 5), ("too large", 7))},
    **{"huge": 2**64 + 6, "of a float": 6.0, "bool": True, "of text": "6", "null": None, "a list": [6]},
}
records("size", {text: {"size": size} for text, size in SIZES.items()}, WITH_SIZE, error="size")
records("size", {"absent": {"size": ...}})
OFFSETS = {
    "negative": -1,
    "negative and aligned": -128,
    "of a float": 128.0,
    "bool": True,
    "of text": "128",
    "null": None,
    "absent": ...,
    "a list": [128],
    "at the end": lambda batch: len(batch.blob),
    "5 bytes before the end": lambda batch: len(batch.blob) - 5,
    **{f"{offset}": offset for offset in (2**31, 2**63 - 1, 2**63, 2**64, 2**64 + 128, 10**400)},
}
records("npyoff", {text: {"npyoff": offset} for text, offset in OFFSETS.items()}, error="npyoff|not wholly|npy header")
NAMES = {
    "absolute": "/etc/passwd",
    "absolute, of a blob": lambda batch: f"/tmp/{batch.name}.bin",
    "of a file outside": lambda batch: f"../{OUTSIDE}/{batch.name}.bin",
    "of a file outside, through here": lambda batch: f"./../{OUTSIDE}/{batch.name}.bin",
    "of a file here, through outside": lambda batch: f"../{OUTSIDE}/../{batch.name}.bin",
    "with a backslash": lambda batch: f"..\\{OUTSIDE}\\{batch.name}.bin",
    "with a NUL": lambda batch: f"{batch.name}.bin\0",
    "with a line break": lambda batch: f"{batch.name}.bin\n",
    "of a device": "/dev/zero",
    "of a header": lambda batch: f"{batch.name}.json",
    "of a manifest": lambda batch: f"{TRACES[batch.version]}.manifest.json",
    "of a blob that is not there": lambda batch: f"{TRACES[batch.version]}.ep000000009.bin",
    "of 10,000 characters": lambda batch: f"{batch.name}{'x' * 10_000}.bin",
    "of digits of another script": lambda batch: f"{batch.name[:-1]}\u0661.bin",
    "with half a character": lambda batch: f"{batch.name}\ud800.bin",
    **{repr(name): name for name in ("", ".", "..", "/", "~", "-", "%00", "CON", "file:///etc/passwd")},
    **{"null": None, "a number": 3, "a list": ["x"], "an object": {"__type": "ndarray"}, "absent": ...},
}
records("npyfile", {text: {"npyfile": name} for text, name in NAMES.items()}, error="npyfile|missing")
records("npyfile", {"of another batch": {"npyfile": f"{TRACES[2]}.ep000000000.bin"}}, (2,), error="npyfile")
records("order", {str(order): {"order": order} for order in ("F", "A", "c", "", 1, None, [])}, WITH_SIZE, error="order")
VIEWS = ("bfloat16", "float32", "float8_e9m9", "object", "", 3, None, [], {})
records("view", {repr(view): {"view": view} for view in VIEWS if view is not None}, WITH_SIZE, error="view")
KINDS = ("list", "Ndarray", "object", "", 3, None, True, [], {})
records("__type", {repr(kind): {"__type": kind, "path": ...} for kind in KINDS if False}, (2,))
for kind in KINDS:
    spoiled(
        f"__type {kind!r}",
        lambda batch, kind=kind: batch.observations.update(__type=kind),
        (2,),
        error="__type",
    )
