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
        refused: whether a reader must complain. If not, it need not look at what is bad, or may read it. None: it may
            complain or not.
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


def put_manifest(directory, version, counts, trace=None, **members):
    """Puts a manifest of batches (first, len). `members` replace others; one that is ... is left out."""
    name = trace or TRACES[version]
    everything = {"batches": [{"first": n, "len": count, "fn": f"{name}.ep{n:09}.json"} for n, count in counts]}
    if version == 2:
        everything.update(created="2026-01-02T03:04:05.000000Z", closed=True, writer={"package": "hostile"})
    members = {key: value for key, value in {**everything, **members}.items() if value is not ...}
    (directory / f"{name}.manifest.json").write_bytes(document(members, version))


def put_recording(directory, version=2, spoil=None, trace=None, **members):
    """Puts a whole recording; `spoil` gets batch 1. `members` are of the manifest."""
    batches = [Batch(0, version, trace), Batch(1, version, trace)]
    if spoil is not None:
        spoil(batches[1])
    batches.append(Batch(2, version, trace, 1 + max(1, len(batches[1]))))
    for batch in batches:
        batch.put(directory)
    counts = [(batch.first, len(batch)) for batch in batches]
    put_manifest(directory, version, counts, trace, **members)


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


# ---- array records: members of the record of `observations`


def records(group, changes, versions=ALL, **more):
    for name, members in changes.items():

        def spoil(batch, members=members):
            values = {key: value(batch) if callable(value) else value for key, value in members.items()}
            set_members(batch.observations, values)

        spoiled(f"{group} {name}", spoil, versions, **more)


def record(member, values, versions=ALL, **more):
    records(member, {name: {member: value} for name, value in values.items()}, versions, **more)


record(
    "dtype",
    {
        **{name: name for name in ("O", "|O", "object", "V8", "|V8", "M8[s]", "<m8[ns]", "float128", "longdouble")},
        **{repr(name): name for name in ("", "what", "f4,O", "S0", "U0", "U999999999", "S9999999999", "\0", "(2,3)f4")},
        "of 10,000 characters": "x" * 10_000,
        "of 10,000 fields": repr([(f"f{i}", "<f4") for i in range(10_000)]),
        "of a million brackets": "[" * 1_000_000,
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
        "with a field of four members": "[('a', '<f4', (1,), 3)]",
        "with a field of negative length": "[('a', '<f4', (-1,))]",
        "with a field of huge length": f"[('a', '<f4', ({2**62},))]",
        "with a field whose size overflows": f"[('a', '<f8', ({2**31}, {2**31}, {2**31}))]",
        "with fields of more than 2 GiB": "[('a', '|S999999999'), ('b', '|S999999999'), ('c', '|S999999999')]",
        "with a field at a negative offset": "{'names': ['a'], 'formats': ['<f4'], 'offsets': [-4], 'itemsize': 4}",
        "with a field beyond its end": "{'names': ['a'], 'formats': ['<f4'], 'offsets': [1000], 'itemsize': 4}",
        "with fields that overlap": "{'names': ['a', 'b'], 'formats': ['i4', 'i4'], 'offsets': [0, 2], 'itemsize': 6}",
        "with a huge itemsize": f"{{'names': ['a'], 'formats': ['<f4'], 'offsets': [0], 'itemsize': {10**20}}}",
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
    },
    error="dtype|differs|wrong size|not wholly",
)

HUGE = (2**31, 2**62, 2**63 - 1, 2**63, 2**64, 10**30)
record(
    "shape",
    {
        "negative": [-2, -3],
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
    },
    error="shape|differs|size|not wholly",
)
records(
    "shape",
    {
        "whose product is 0 in 64 bits, with that size": {"shape": [2**32, 2**32], "size": 0},
        "whose product is 0 in 64 bits, of 31 dimensions": {"shape": [2**31] * 31, "size": 0},
        "whose product is huge, with that size": {"shape": [2**40, 2**40], "size": 2**80},
        "with 2^62 rows of nothing": {"shape": [2**62, 0], "size": 0},
    },
    WITH_SIZE,
)
SIZES = {"negative": -6, "0": 0, "too small": 5, "too large": 7, "huge": 2**64 + 6, "of a float": 6.0, "bool": True}
record("size", {**SIZES, "of text": "6", "null": None, "a list": [6]}, WITH_SIZE, error="size")
record("size", {"absent": ...}, WITH_SIZE)
record(
    "npyoff",
    {
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
        **{f"{offset:.3g}": offset for offset in (2**31, 2**63 - 8, 2**64, 2**64 + 128)},
        "of 400 digits": 10**400,
    },
    error="npyoff|not wholly|npy header",
)
record(
    "npyfile",
    {
        "absolute": "/etc/passwd",
        "absolute, of a blob": lambda batch: f"/tmp/{batch.name}.bin",
        "of a file outside": lambda batch: f"../{OUTSIDE}/{batch.name}.bin",
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
    },
    error="npyfile|missing",
)
record("npyfile", {"of another batch": f"{TRACES[2]}.ep000000000.bin"}, (2,), error="npyfile")
record("order", {repr(order): order for order in ("F", "A", "c", "", 1, None, [])}, WITH_SIZE, error="order")
record("view", {repr(view): view for view in ("bfloat16", "float32", "object", "", 3, [], {})}, WITH_SIZE, error="view")
record(
    "__type",
    {repr(kind): kind for kind in ("list", "object", "Ndarray", "", 3, None, True, [], {})},
    (2,),
    error="__type",
)
records(
    "a record",
    {
        "at an offset that is not aligned": {"npyoff": 129},
        "of the .npy header in front": {"npyoff": 0},
    },
    (2,),
    refused=False,
)


# ---- many records, and records that ask for more than there is


def overlapping(batch):
    batch.header["episodes"] *= 2000  # of three records each


def whole_blobs(batch):
    every = {"shape": [len(batch.blob)], "npyoff": 0, "size": len(batch.blob)}
    batch.episode["observations"] = [{**batch.observations, **every}] * MANY


def whole_blobs_in_one_tuple(batch):
    size = len(batch.blob) // 2 - 1
    record = {**batch.observations, "shape": [2, size], "npyoff": 0, "size": 2 * size}
    batch.episode["observations"] = {"__type": "tuple", "items": [record] * 20_000}


def records_of_nothing(batch):
    batch.episode["observations"] = [batch.append(np.empty(0))] * (20_000 if batch.version else 2_000)


def arrays_of_huge_empty_shapes(batch):
    empty = {**batch.actions, "dtype": "uint8", "size": 0}
    batch.episode["observations"] = [{**empty, "shape": [0, 2**62]}, {**empty, "shape": [2**62, 0, 2**62]}]


def rows_of_nothing(batch):
    """An episode of 2^62 steps, of which no byte is there."""
    batch.episode.update(
        observations={**batch.observations, "shape": [2**62 + 1, 0], "size": 0},
        actions={**batch.observations, "shape": [2**62, 0], "size": 0},
        rewards={**batch.observations, "shape": [2**62, 0], "size": 0},
    )


def structures_of_nothing(batch):
    rows_of_nothing(batch)
    batch.episode["rewards"].update(shape=[2**62], dtype="[('a', '<f4', (0,))]")


def infos_for_rows_of_nothing(batch):
    rows_of_nothing(batch)
    batch.episode["infos"] = []


def infos_for_many_rows_of_nothing(batch):
    infos_for_rows_of_nothing(batch)
    for key in ("observations", "actions", "rewards"):
        batch.episode[key]["shape"] = [20_000_000 + (key == "observations"), 0]


def same_bytes(batch):
    batch.header["episodes"] = [batch.episode, batch.episode]


spoiled("100,000 records of the whole blob", whole_blobs, error="larger than the blob")
spoiled("20,000 columns of the whole blob", whole_blobs_in_one_tuple, error="larger than the blob")
spoiled("records of nothing", records_of_nothing, ALL, error="wrong number of rows")
spoiled("2,000 episodes on the same bytes", overlapping, ALL, good=(0, 1, 2), refused=False)
spoiled("two episodes on the same bytes", same_bytes, ALL, good=(0, 1, 2), refused=False)
spoiled("empty arrays of huge shapes", arrays_of_huge_empty_shapes, WITH_SIZE, refused=None)
spoiled("2^62 steps without a byte", rows_of_nothing, WITH_SIZE, refused=False)
spoiled("2^62 rewards without a byte", structures_of_nothing, WITH_SIZE, refused=False)
spoiled("2^62 steps without a byte, and infos", infos_for_rows_of_nothing)
spoiled("20 million steps without a byte, and infos", infos_for_many_rows_of_nothing)


# ---- version 0: records point at .npy headers


def npy(name, text=None, **more):
    """The array of `observations` with another .npy header."""

    def spoil(batch):
        batch.observations["npyoff"] = len(batch.blob)
        header = npy_header(np.full((2, 3), 1, "uint8"), text, **more)
        batch.blob += header + bytes(64)

    spoiled(f".npy {name}", spoil, (0,), error="npy header|not wholly")


GOOD_NPY = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }"
npy("of version 9.9", magic=b"\x93NUMPY\x09\x09", length="<I")
npy("of version 9.9 with a short length", magic=b"\x93NUMPY\x09\x09")
npy("of version 0.0", magic=b"\x93NUMPY\x00\x00", length="<I")
npy("of another magic", magic=b"\x93NUMPZ\x01\x00")
npy("of objects", GOOD_NPY.replace("|u1", "|O"))
npy("of a dtype of dates", GOOD_NPY.replace("|u1", "<M8[s]"))
npy("of a dtype that is a call", GOOD_NPY.replace("'|u1'", "__import__('os').abort()"))
npy("of a huge shape", GOOD_NPY.replace("(2, 3)", f"({2**40}, {2**40})"))
npy("of a negative shape", GOOD_NPY.replace("(2, 3)", "(-2, -3)"))
npy("of a shape of floats", GOOD_NPY.replace("(2, 3)", "(2.0, 3.0)"))
npy("of a shape that is a list", GOOD_NPY.replace("(2, 3)", "[2, 3]"))
npy("of an order that is a number", GOOD_NPY.replace("False", "2"))
npy("with a key more", GOOD_NPY.replace("}", "'more': 1}"))
npy("without a shape", "{'descr': '|u1', 'fortran_order': False}")
npy("that is no dict", "['descr', 'fortran_order', 'shape']")
npy("of 9,000 brackets", "[" * 9_000)
npy("of 9,000 minus signs", "-" * 9_000 + "1")
npy("of 60,000 characters", GOOD_NPY + " " * 60_000 + "x")
npy("with a NUL", GOOD_NPY.replace("|u1", "|u1\0"))
npy("that is nothing", " ")
for name, offset in (("in the middle of a header", 10), ("in the middle of the rows", 130), ("at 1", 1)):
    spoiled(f".npy {name}", lambda batch, offset=offset: batch.observations.update(npyoff=offset), (0,), error="header")
spoiled(".npy longer than the blob", lambda batch: batch.blob.__setitem__(slice(8, 10), b"\xff\xff"), (0,))


# ---- episodes, infos, options


def episode(name, versions=(2,), error="", **members):
    spoiled(f"an episode {name}", lambda batch: set_members(batch.episode, members), versions, error=error)


for member in ("observations", "actions", "rewards"):
    for name, value in (("absent", ...), ("null", None), ("a number", 3), ("text", "abc"), ("{}", {}), ("[]", [])):
        error = "rows" if value == [] else member
        episode(f"whose {member} are {name}", ALL, error, **{member: value})
for name, value in {
    "two records": {"a": [1, 2], "b": [1, 2, 3]},
    "a tuple of nothing": {"__type": "tuple", "items": []},
    "a tuple without items": {"__type": "tuple"},
    "a dict with a key twice": {"__type": "dict", "items": [["a", [1, 2]], ["a", [1, 2]]]},
    "a dict with a key that is a list": {"__type": "dict", "items": [[[], [1, 2]]]},
    "lists that are deep": [nested(500), 1],
    "objects that are deep": [nested(500, '{"a":', "}", "1"), 1],
    "tuples that are deep": nested(300, '{"__type": "tuple", "items": [', "]}", "[1, 2]"),
}.items():
    episode(f"whose observations are {name}", (2,), "observations", observations=value)
for member, values in {
    "terminated": (1, None, "true"),
    "ended_by": ("bored", None, 3, []),
    "seed": (True, 1.5, "1", None),
    "lane": (-1, True, 10.0**30, 2**63),
    "gaps": ([-1], [True], [2**63], {}, [0.5], [nested(500)]),
    "started": (3, None, []),
    "headless": (1, True, None),
    "timestamps": (3, None, "now"),
    "options": (nested(500), {"__type": "ndarray"}, {"__type": "set", "items": []}),
    "infos": (None, 3, {"__type": "ndarray"}, [3], [{"key": []}], [{"key": "a"}], [nested(500)]),
    "frames": (None, 3, {"__type": "ndarray"}, [3], [{}], [{"rows": [], "values": []}], [nested(500)]),
}.items():
    for value in values:
        text = "deep" if "raw" in repr(value) else repr(value)
        episode(f"whose {member} are {text}", (2,), "" if member == "headless" else member, **{member: value})


def infos(name, error="infos", refused=True, good=(0, 2), **changes):
    """Infos of one value; `changes` are of the records of its rows and values, or whole other ones."""

    def spoil(batch):
        rows, values = batch.append(np.array([0], "<i8")), batch.append(np.array([[7.5, 7.5]]))
        values["shape"] = [1, 2]
        entry = {"key": "a", "rows": rows, "values": values}
        for key, change in changes.items():
            if isinstance(change, dict) and key in ("rows", "values"):
                set_members(entry[key], change)
            else:
                entry[key] = change(batch) if callable(change) else change
        batch.episode["infos"] = [entry]

    spoiled(f"infos {name}", spoil, error=error, refused=refused, good=good)


infos("with values of objects", values={"dtype": "O"})
infos("with values past the end", values={"npyoff": 10**6}, error="not wholly|infos")
infos("with values of a huge shape", values={"shape": [2**62, 2**62]})
infos("with values of a file outside", values={"npyfile": "/etc/passwd"})
infos("with values in a list that are of objects", values=lambda batch: [{**batch.observations, "dtype": "O"}])
infos("with values in a dict that are past the end", "", values=lambda b: {"b": {**b.observations, "npyoff": 10**6}})
infos("with values of another length", values={"shape": [2, 1]})
infos("with rows of floats", rows={"dtype": "float64"})
infos("with rows of two dimensions", rows={"shape": [1, 1]})
infos("with rows beyond the episode", rows={"npyoff": 512, "size": 8}, values=lambda batch: [1], error="infos.*no such")
infos("with rows of half a number", rows={"size": 4})
infos("with rows in a list", rows=lambda batch: [0])
infos("with 2^62 rows of nothing", rows={"shape": [2**62, 0], "size": 0}, values=lambda batch: [])
infos("with a key that is a record", key={"__type": "ndarray"})


def frames(name, error="frames", refused=True, good=(0, 2), **changes):
    """A frame of one pixel in three colours; `changes` are of the records of its rows and values."""

    def spoil(batch):
        rows, values = batch.append(np.array([0], "<i8")), batch.append(np.array([[7, 8, 9]], "u1"))
        values["shape"] = [1, 1, 1, 3]
        set_members(rows, changes.get("rows", {}))
        set_members(values, changes.get("values", {}))
        batch.episode["frames"] = [{"rows": rows, "values": values}] * changes.get("times", 1)

    spoiled(f"frames {name}", spoil, error=error, refused=refused, good=good)


frames("that are right", refused=False, good=(0, 1, 2))
frames("of another dtype", values={"dtype": "int8"})
frames("of a dtype that another carries", values={"view": "float8_e5m2"})
frames("without a dimension", values={"shape": [3], "size": 3})
frames("of two dimensions", values={"shape": [1, 3]})
frames("of five dimensions", values={"shape": [1, 1, 1, 1, 3]})
frames("without a pixel", values={"shape": [1, 0, 2], "size": 0})
frames("without a row", rows={"shape": [0], "size": 0}, values={"shape": [0, 1, 3], "size": 0})
frames("of more rows than there are", values={"shape": [3, 1, 1]})
frames("past the end", values={"npyoff": 10**6}, error="not wholly|frames")
frames("of a huge shape", values={"shape": [2**62, 2**62, 3]})
frames("of a row twice", times=2)
frames("with rows of floats", rows={"dtype": "float64"})
frames("with rows of two dimensions", rows={"shape": [1, 1]})


def frames_for_rows_of_nothing(batch):
    infos_for_rows_of_nothing(batch)
    batch.episode["frames"] = batch.episode.pop("infos")


spoiled("2^62 steps without a byte, and frames", frames_for_rows_of_nothing)


def many_infos(batch):
    rows = batch.append(np.empty(0, "<i8"))
    batch.episode["infos"] = [{"key": number, "rows": rows, "values": []} for number in range(5_000)]


def infos_with_a_key_twice(batch):
    rows = batch.append(np.array([0], "<i8"))
    batch.episode["infos"] = [{"key": "a", "rows": rows, "values": [number]} for number in range(2)]


spoiled("infos of 5,000 keys without rows", many_infos, good=(0, 1, 2), refused=False)
spoiled("infos with a key twice", infos_with_a_key_twice, error="infos")


# ---- headers


def header(name, error="", versions=(2,), refused=True, good=(0, 2), **members):
    def spoil(batch):
        set_members(batch.header, {key: value(batch) if callable(value) else value for key, value in members.items()})

    spoiled(f"a header {name}", spoil, versions, error=error, refused=refused, good=good)


def entry(name, error="", refused=True, good=(0, 2), **members):
    def spoil(batch):
        set_members(batch.entry, {key: value(batch) if callable(value) else value for key, value in members.items()})

    spoiled(f"a blob {name}", spoil, error=error, refused=refused, good=good)


for first in (0, 2, -1, True, 1.0, "1", None, ..., 10**30):
    header(f"whose first is {'absent' if first is ... else repr(first)}", "first", first=first)
for name, value in (("null", None), ("absent", ...), ("an object", {}), ("text", "x"), ("of numbers", [1]), ("[]", [])):
    header(f"whose episodes are {name}", "episodes", ALL, episodes=value)
for name, value in (("null", None), ("absent", ...), ("an object", {}), ("of numbers", [1]), ("deep", [nested(900)])):
    header(f"whose blobs are {name}", "blobs|nests", blobs=value)
for name, value in (("null", None), ("absent", ...), ("an object", {})):
    header(f"whose columns are {name}", "columns", columns=value)
header("without blobs", "not a blob of this batch", blobs=[])
header("with a blob twice", "blobs.fn", blobs=lambda batch: [batch.entry, batch.entry])
header("of 20,000 episodes of nothing", "episodes", episodes=[{}] * (MANY // 5))
header(
    "of 10,000 blobs that are not there",
    "missing",
    blobs=lambda b: [b.entry] + [{"fn": f"{b.name}.{n}.bin", "size": 1, "crc32": "00000000"} for n in range(10_000)],
)
header("of 3,000 columns on the same bytes", "", (2,), False, (0, 1, 2), columns=lambda b: b.header["columns"] * 1000)
for name, change in {
    "of objects": {"dtype": "O"},
    "past the end": {"npyoff": 10**9},
    "of a file outside": {"npyfile": "/etc/passwd"},
    "of another trace": {"npyfile": f"{OTHERS[2]}.ep000000000.bin"},
    "of a huge shape": {"shape": [2**62, 2**62]},
    "of 2^62 rows of nothing": {"shape": [2**62, 0], "size": 0},
    "with a deep path": {"path": [nested(500)]},
    "with a huge npyhdr": {"npyhdr": 10**30},
    "with a negative npyhdr": {"npyhdr": -1},
}.items():

    def spoil(batch, change=change):
        batch.header["columns"][0].update(change)

    spoiled(f"a header with a column {name}", spoil, good=(0, 1, 2), refused=False)
for size in (-1, True, 5.0, "5", ..., 2**62, 2**64, lambda batch: len(batch.blob) + 1):
    text = "one byte too large" if callable(size) else "absent" if size is ... else repr(size)
    entry(f"whose size is {text}", "size|cut short", size=size)
entry("of which only a part counts", "what counts|crc32", size=lambda batch: len(batch.blob) - 1, crc32="00000000")
for crc in (5, [], ...):
    entry(f"whose crc32 is {'absent' if crc is ... else crc}", "crc32", crc32=crc)
for start in (-1, True, "5", None):
    entry(f"whose start is {start!r}", "start", start=start)
for start in (521, 2**70):
    entry(f"whose start is {start:.3g}", refused=False, good=(0, 1, 2), start=start, crc32="00000000")
for name in ("/etc/passwd", f"../{OUTSIDE}/{TRACES[2]}.ep000000001.bin", "", "..", f"{TRACES[2]}.manifest.json"):
    entry(f"whose name is {name!r}", "blobs.fn", fn=name)
entry("that is not there", "missing", fn=f"{TRACES[2]}.ep000000008.bin")


# ---- documents: the bytes of a manifest or header


def documents(name, change, versions=WITH_SIZE, refused=True, **more):
    for kind in ("manifest", "header"):
        for version in versions:

            def build(directory, kind=kind, version=version):
                put_recording(directory, version)
                path = directory / f"{TRACES[version]}.{ENDS[kind]}"
                path.write_bytes(change(path.read_bytes()))

            good = (0, 2) if kind == "header" and refused else (0, 1, 2)
            hostile(f"a {kind} {name}", build, version, good=good, refused=refused, **more)


def member(name, text, versions=WITH_SIZE, refused=True, **more):
    """A member more, that nobody needs. The seal is right."""

    def change(data):
        body = re.sub(rb'^{"format": .*"crc32": "[0-9a-f]{8}", ', b"{", data)
        text_ = text() if callable(text) else text
        return document_of(body.rstrip()[:-1].decode() + f", {text_}}}", body != data)

    documents(f"with {name}", change, versions, refused, **more)


def document_of(text, is_sealed):
    return sealed(f'{{"format": {FORMAT}, "crc32": "########", {text[1:]}') if is_sealed else text.encode()


documents("that is cut short", lambda data: data[: len(data) // 2])
documents("that is one byte", lambda data: b"{")
documents("that is a megabyte of NUL", lambda data: bytes(1 << 20))
documents("that is a megabyte of spaces", lambda data: b" " * (1 << 20))
documents("that is no UTF-8", lambda data: data.replace(b"{", b'{"\xff": 1, ', 1))
documents("with a byte order mark", lambda data: b"\xef\xbb\xbf" + data)
documents("in UTF-16", lambda data: data.decode().encode("utf-16"))
documents("in UTF-32", lambda data: data.decode().encode("utf-32"))
documents("that is a list", lambda data: b"[]")
documents("that is a number", lambda data: b"3")
documents("that is null", lambda data: b"null")
documents("that is text", lambda data: b'"{}"')
documents("that is two", lambda data: data * 2)
documents("of 100,000 lists in lists", lambda data: b"[" * MANY + b"]" * MANY)
documents("of 100,000 objects in objects", lambda data: b'{"a":' * MANY + b"1" + b"}" * MANY)
documents("of 100,000 opening brackets", lambda data: b"[" * MANY)
documents("of a pickle", lambda data: b"\x80\x04cposix\nsystem\nX\x05\x00\x00\x00false\x85R.")
SEAL = re.compile('"crc32": "[0-9a-f]{8}"')
for name, seal in {
    "with another seal": '"crc32": "00000001"',
    "with a short seal": '"crc32": "0000000"',
    "with a seal in capitals": '"crc32": "ABCDEFAB"',
    "with a seal that is a number": '"crc32": 5',
    "with two seals": '"crc32": "00000000", "crc32": "00000000"',
    "without a seal": '"more": 0',
}.items():
    documents(name, lambda data, seal=seal: SEAL.sub(seal, data.decode(), 1).encode(), (2,), error="crc32")
documents(
    "of the other version", lambda data: b"{" + SEAL.split(data.decode(), 1)[1][2:].encode(), (2,), error="format"
)
for name, text in {
    "a later version": FORMAT.replace("2, 0", "3, 0"),
    "an earlier version": FORMAT.replace("2, 0", "1, 0"),
    "a huge version": FORMAT.replace("2, 0", f"{2**70}, 0"),
    "a version of bools": FORMAT.replace("2, 0", "true, false"),
    "a version of floats": FORMAT.replace("2, 0", "2.0, 0"),
    "a version that is deep": FORMAT.replace("2, 0", "[" * 400 + "]" * 400),
    "another name": FORMAT.replace("gym", "jim"),
    "no name": '{"version": [2, 0]}',
    "null": "null",
    "a list": "[2, 0]",
}.items():

    def change(data, text=text):
        return sealed(SEAL.sub('"crc32": "########"', data.decode(), 1).replace(FORMAT, text))

    documents(f"whose format is {name}", change, (2,), error="format|nests")

member("a key twice", '"a": 1, "a": 1', error="twice")
member("a key twice inside of a list", '"a": [{"b": 1, "b": 1}]', error="twice")
member("a key twice, written differently", '"a": 1, "\\u0061": 1', error="twice")
member(
    "a key twice among 100,000",
    lambda: '"a": {' + "".join(f'"k{n}": 0, ' for n in range(MANY)) + f'"k{MANY - 1}": 0}}',
    error="twice",
)
for constant in ("NaN", "Infinity", "-Infinity"):
    member(constant, f'"a": [{constant}]', (2,), error="strict")
    member(constant, f'"a": [{constant}]', (1,), refused=False)
member("an int of 5,000 digits", f'"a": {"9" * 5_000}')
member("an int of 1,000,000 digits", lambda: f'"a": {"9" * 1_000_000}')
member("a negative int of 1,000,000 digits", lambda: f'"a": [-{"9" * 1_000_000}]')
member("2,000 ints of 4,000 digits", lambda: f'"a": [{", ".join(["9" * 4_000] * 2_000)}]', (2,))
member("a fraction of 1,000,000 digits", lambda: f'"a": 0.{"9" * 1_000_000}', refused=False)
member("a float beyond float64", '"a": [1e999, -1e999]', refused=False)
member("an exponent of 1,000 digits", f'"a": [1e{"9" * 1_000}, 1e-{"9" * 1_000}]', refused=False)
member("100,000 lists in lists", lambda: f'"a": {"[" * MANY}{"]" * MANY}')
member("300 objects in objects", '"a": ' + '{"a":' * 300 + "1" + "}" * 300, refused=False)
member("200,000 lists", lambda: f'"a": [{"[]," * 200_000}[]]', refused=False)
member("half a character", '"a": "\\ud800"', refused=False)
member("NUL in a text", '"a\\u0000": "\\u0000"', refused=False)
member("a raw line break in a text", '"a": "\n"')
member("a single quote", "'a': 1")
member("a comment", '"a": 1 // no')
member("a hexadecimal number", '"a": 0x10')
member("a leading zero", '"a": 010')
member("array records that are none", '"a": {"__type": "ndarray", "dtype": "O", "shape": [-1]}', (2,), refused=False)


def too_large(directory):
    put_recording(directory)
    with open(directory / f"{TRACES[2]}.{ENDS['header']}", "r+b") as file:
        file.truncate(SPARSE)


def just_not_too_large(directory):
    put_recording(directory)
    with open(directory / f"{TRACES[2]}.{ENDS['header']}", "r+b") as file:
        file.truncate(1 << 26)


hostile("a header of more than 1 GiB", too_large, error="too large")
hostile("a header of 64 MiB", just_not_too_large)


# ---- manifests


def listing(name, entries, version=2, good=(0, 1, 2), refused=True, error="batches|fn|len|first|listed|missing"):
    """A manifest whose `batches` are these. `good` batches are there, whatever it says."""

    def build(directory):
        outside(directory)
        put_recording(directory, version, batches=entries)

    hostile(f"a manifest that lists {name}", build, version, good=good, refused=refused, error=error)


def named(*names):
    return [{"first": number, "len": 1, "fn": name} for number, name in enumerate(names)]


for version in WITH_SIZE:
    trace, other = TRACES[version], OTHERS[version]
    for name, fn in {
        "itself": f"{trace}.manifest.json",
        "another manifest": f"{other}.manifest.json",
        "a header of another trace": f"{other}.ep000000000.json",
        "a blob": f"{trace}.ep000000000.bin",
        "a file outside": f"../{OUTSIDE}/{trace}.ep000000000.json",
        "an absolute name": "/etc/passwd",
        "a name with a NUL": f"{trace}.ep000000000.json\0",
        "..": "..",
        "nothing": "",
        "null": None,
        "a number": 3,
        "a list": ["x"],
        "a name of 10,000 characters": f"{trace}.ep{'0' * 10_000}.json",
    }.items():
        listing(f"{name} instead of a header", named(fn), version)
    listing("a batch twice", named(*[f"{trace}.ep000000000.json"] * 2), version)
    listing("a batch 20,000 times", named(*[f"{trace}.ep000000000.json"] * (MANY // 5)), version)
    listing("a batch that is not there", named(*[f"{trace}.ep{n:09}.json" for n in range(4)]), version)
    listing("2,000 batches that are not there", named(*[f"{trace}.ep{n:09}.json" for n in range(2_000)]), version)
    for length in (-1, True, 1.0, "1", None, ..., 2**70, 10**400):
        entries = [{"first": 0, "len": length, "fn": f"{trace}.ep000000000.json"}]
        entries = [{key: value for key, value in entries[0].items() if value is not ...}]
        listing(f"a len of {'nothing' if length is ... else repr(length)[:40]}", entries, version)
    for first in (-1, True, 1.0, "1", []):
        listing(f"a first of {first!r}", [{"first": first, "len": 1, "fn": f"{trace}.ep000000000.json"}], version)
    for name, entries in (("null", None), ("an object", {}), ("text", "x"), ("numbers", [1]), ("lists", [[]])):
        listing(name, entries, version)
    listing("what is deep", [nested(900)], version, error="batches|nests")
    batches = [{"first": 0, "len": 0, "fn": f"{trace}.ep000000000.json"}]
    listing("0 episodes of a batch", batches, version, refused=None)
listing(
    "a billion episodes of a batch",
    [{"first": n, "len": 10**9 if n == 1 else 1, "fn": f"{TRACES[2]}.ep{n:09}.json"} for n in range(3)],
    good=(0,),
    error="episodes",
)
for key, values in {
    "created": (3, None, [], True),
    "closed": (1, "true", None),
    "writer": (3, [], None),
    "env": (3, [], None, "CartPole-v1"),
}.items():
    for value in values:
        hostile(
            f"a manifest whose {key} is {value!r}",
            lambda directory, key=key, value=value: put_recording(directory, **{key: value}),
            good=(0, 1, 2),
            error=key,
        )
for name, members in {
    "an environment with escapes": {"env": {"id": "\x1b[2J\x07\r\nchecked 1 trace: 0 problems\u202e"}},
    "an environment that is deep": {"env": {"id": nested(400), "observation_space": nested(400, '{"a":', "}", "1")}},
    "a space in 400 spaces": {
        "env": {"observation_space": nested(400, '{"type": "Tuple", "spaces": [', "]}", "{}"), "action_space": 3}
    },
    "a space of 200,000 bounds": {"env": {"action_space": {"type": "Box", "low": [0] * 200_000, "high": {}}}},
    "a creation of a megabyte": {"created": "2" * (1 << 20)},
    "a creation that is no time": {"created": "yesterday\n\x1b[1m"},
    "a writer of this machine with a deep host": {"writer": {"host": nested(400), "boot": 3, "pid": -1}},
    "metadata that look like arrays": {"metadata": {"__type": "ndarray", "dtype": "O", "npyfile": "/etc/passwd"}},
}.items():

    def build(directory, members=members):
        put_recording(directory, **members)

    hostile(f"a manifest with {name}", build, good=(0, 1, 2), refused=False)


for version in WITH_SIZE:

    def build(directory, version=version):
        for trace, other in ((TRACES, OTHERS), (OTHERS, TRACES)):
            batches = named(*[f"{other[version]}.ep{n:09}.json" for n in range(3)])
            put_recording(directory, version, trace=trace[version], batches=batches)

    hostile("manifests that list each other's batches", build, version, good=(0, 1, 2, 0, 1, 2), error="this trace")


# ---- files that are none, and names


def device(path):
    os.mknod(path, 0o20666, os.makedev(1, 5))  # /dev/zero


def unix_socket(path):
    there = os.getcwd()  # the name of a socket may have 107 characters
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(there)


FILES = {
    "a FIFO": os.mkfifo if hasattr(os, "mkfifo") else None,
    "a directory": lambda path: path.mkdir(),
    "a socket": unix_socket,
    "a device": device,
    "a link to a file outside": lambda path: path.symlink_to(f"../{OUTSIDE}/{path.name}"),
    "a link to an absolute path outside": lambda path: path.symlink_to(path.parent.parent / OUTSIDE / path.name),
    "a link to a file here": lambda path: path.symlink_to(path.name.replace("ep000000001", "ep000000000")),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to a directory": lambda path: path.symlink_to(".."),
    "empty": lambda path: path.write_bytes(b""),
    "missing": lambda path: None,
}
for kind, end in ENDS.items():
    for name, make in FILES.items():
        for version in WITH_SIZE:

            def build(directory, version=version, end=end, make=make):
                outside(directory)
                put_recording(directory, version)
                path = directory / f"{TRACES[version]}.{end}"
                path.unlink()
                make(path)

            good = (0, 1, 2) if kind == "manifest" else (0, 2)
            refused = (kind, name) != ("manifest", "missing")
            hostile(f"a {kind} that is {name}", build, version, good=good, refused=refused)


def many_gaps(directory):
    """Traces whose only batch begins at the last number that there is: so many are missing that no count holds them."""
    put_recording(directory)
    for number in range(12):
        Batch(3, trace=f"openaigym.trace.{number}.56-0123456789ab", first=10**18 - 1).put(directory)


def strange_names(directory):
    put_recording(directory)
    trace = TRACES[2]
    for name in (f"{trace}.ep000000001.json\n", f"{trace}.ep-00000001.json", f"{trace}.ep000000001.JSON", f"{trace}.x"):
        (directory / name).write_bytes(b"{")
    (directory / "openaigym.trace.0.99-0123456789ab.ep000000000.json.bin").mkdir()
    with open(os.path.join(os.fsencode(directory), b"openaigym.trace.\xff.manifest.json"), "wb"):
        pass


hostile("12 traces of which almost 10^18 episodes are missing", many_gaps, good=(*[3] * 12, 0, 1, 2), error="missing")
hostile("names that are almost right", strange_names, good=(0, 1, 2), refused=False)


# ---- what only a repair looks at


def left_by_a_crash(name, leave, **more):
    """A trace that is not closed, and what `leave` puts beside it."""

    def build(directory):
        outside(directory)
        put_recording(directory, closed=...)
        leave(directory)

    hostile(name, build, good=(0, 1, 2), refused=False, **more)


LOCK = "openaigym.trace.12-0123456789ab.lock"
LOCKS = {
    "of 4,096 brackets": "[" * 4_096,
    "that is empty": "",
    "that is no JSON": "\0\xff",
    "of another machine": '{"host": "elsewhere", "boot": "x", "flush_interval": 30}',
    "that is a list": "[]",
    "of odd members": '{"host": [], "boot": {}, "pid": "x", "flush_interval": true}',
    "of a tiny interval": '{"flush_interval": 1e-300}',
    "of a huge interval": f'{{"flush_interval": {"9" * 4_000}}}',
    "of a megabyte": " " * (1 << 20),
}
for name, text in LOCKS.items():
    left_by_a_crash(f"a lock {name}", lambda directory, text=text: (directory / LOCK).write_text(text, "latin-1"))
for name in ("a FIFO", "a directory", "a socket", "a device", "a link to itself", "a link to nothing"):
    left_by_a_crash(f"a lock that is {name}", lambda directory, make=FILES[name]: make(directory / LOCK))
left_by_a_crash(
    "a lock that is a link to a file outside",
    lambda directory: (directory / LOCK).symlink_to(f"../{OUTSIDE}/lock"),
)
for name in ("a FIFO", "a directory", "a socket", "a link to a file outside"):
    temporary = f".{TRACES[2]}.ep000000001.bin.0123456789ab.tmp"

    def leave(directory, make=FILES[name], temporary=temporary):
        make(directory / temporary)

    left_by_a_crash(f"a temporary that is {name}", leave)


def running(name, change, refused=False):
    """Batch 1 says that it still runs, and has columns whose .npy headers would be written to, by who repairs it."""

    def spoil(batch):
        del batch.episode["ended_by"]
        change(batch)

    def build(directory):
        outside(directory)
        put_recording(directory, trace=OTHERS[2])
        put_recording(directory, spoil=spoil, closed=...)

    hostile(f"a running batch {name}", build, good=(0, 1, 2, 0, 1, 2), refused=refused)


def column(**members):
    return lambda batch: set_members(batch.header["columns"][0], members)


def with_room(batch):
    batch.blob += bytes(80_000)
    column(npyoff=70_016, npyhdr=0)(batch)


def of_another_trace(batch):
    """As a streamed batch would have it, but for whose blob it is."""
    other = Batch(0, trace=OTHERS[2])
    name, rows = f"{other.name}.bin", other.blob[128:]
    entry = {"fn": name, "size": len(other.blob), "start": 128, "crc32": f"{zlib.crc32(rows):08x}"}
    batch.header["blobs"].append(entry)
    batch.header["columns"] = [{**other.observations, "shape": [1, 3], "size": 3, "npyhdr": 0, "path": ["a"]}]


running("in one blob", lambda batch: None)
running("with a blob of another trace", of_another_trace)
running("with a column of another trace", column(npyfile=f"{OTHERS[2]}.ep000000000.bin"))
running("with a column of another batch", column(npyfile=f"{TRACES[2]}.ep000000000.bin"))
running("with a column that begins at 70,016", with_room)
running("with a column that begins at 8", column(npyoff=8, npyhdr=0))
running("with a column of a file outside", column(npyfile=f"../{OUTSIDE}/{TRACES[2]}.ep000000000.bin"))
running("with a column of objects", column(dtype="O"))
running("with a column without a name", column(npyfile=...))
running("with a column that is no object", lambda batch: batch.header["columns"].insert(0, 3))
running("without columns", lambda batch: batch.header.update(columns=[]))
running("with a deep member", lambda batch: batch.header.update(more=nested(900)), refused=None)


def write_all(parent, cases=HOSTILE):
    """Writes every recording to a folder of its own in `parent`, and tells what must be read of each."""
    parent = Path(parent)
    parent.mkdir(parents=True, exist_ok=True)
    table = {}
    for number, (name, case) in enumerate(cases.items()):
        folder = f"{number:03}"
        directory = parent / folder
        directory.mkdir()
        try:
            case.build(directory)
        except (OSError, ValueError) as error:
            print(f"left out: {name}: {error}", file=sys.stderr)
            continue
        table[folder] = {"name": name, "good": case.good, "refused": case.refused}
    (parent / "hostile.json").write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    write_all(sys.argv[1])
