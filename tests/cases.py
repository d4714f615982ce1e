"""The table of cases: what is given to a recorder and what must be read back, used in both directions."""

import enum
import itertools
import struct
from collections import OrderedDict, UserDict, namedtuple
from typing import Any, NamedTuple

import numpy as np

from gym_recording import DictColumns, TupleColumns

# ---- the form of a case


class Values(NamedTuple):
    """What is given for one member of an episode, row by row, and what is read back of all rows.

    `given` is a list, or a function that gives an iterator, which may overwrite what it gave when asked for the next.
    `back` is what is read: an array (stacked), `DictColumns`, `TupleColumns`, or a list with one value per row.
    """

    given: Any
    back: Any

    def rows(self):
        return iter(self.given() if callable(self.given) else self.given)


class Case(NamedTuple):
    observations: Values
    actions: Values
    rewards: Values
    headless: bool = False

    @property
    def steps(self):
        return len(self.rewards.back)


def episode(observations=None, actions=None, rewards=None, headless=False):
    """A case about one member; the others are plain numbers, as many as it needs."""
    if rewards or actions:
        steps = len((rewards or actions).back)
    else:
        steps = len(observations.back) - (not headless)
    return Case(
        observations or _stacked(np.arange(steps + (not headless), dtype="int64")),
        actions or _stacked(np.arange(steps, dtype="int64")),
        rewards or _stacked(np.arange(steps, dtype="float64")),
        headless,
    )


def play(case, recording):
    """Records a case as an episode of its own. What was given may be overwritten as soon as the recorder has it."""
    observations, actions, rewards = case.observations.rows(), case.actions.rows(), case.rewards.rows()
    if not case.headless:
        recording.add_reset(next(observations))
    for action, observation, reward in zip(actions, observations, rewards):
        recording.add_step(action, observation, reward)
    for rows in (observations, actions, rewards):
        assert list(rows) == []
    recording.end_episode()


# ---- comparing, bit for bit


def plain(value):
    """A value as nested tuples of text, bytes and numbers; two are equal if type, dtype, shape and every bit are."""
    if isinstance(value, DictColumns):
        return "DictColumns", [(plain(key), plain(rows)) for key, rows in value.items()]
    if isinstance(value, TupleColumns):
        return "TupleColumns", [plain(rows) for rows in value.columns]
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.names:  # field by field: the bytes between them are nobody's
            fields = [plain(value[name]) for name in value.dtype.names]
            return _kind(value), value.shape, str(value.dtype.descr), value.dtype.itemsize, fields
        return _kind(value), value.shape, value.dtype.name, value.dtype.isnative, value.tobytes()
    if isinstance(value, dict):
        return "dict", [(plain(key), plain(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item) for item in value]
    if isinstance(value, float):
        return "float", struct.pack("<d", value)
    return type(value).__name__, value


def _kind(value):
    return "array" if isinstance(value, np.ndarray) else "scalar"


def members(source):
    """The three members of a case or episode, to be compared."""
    return {name: rows_of(getattr(source, name)) for name in ("observations", "actions", "rewards")}


def rows_of(member):
    """One member, to be compared. An array without rows takes its dtype from elsewhere."""
    rows = member.back if isinstance(member, Values) else member
    return "no rows" if isinstance(rows, np.ndarray) and rows.shape == (0,) else plain(rows)


# ---- small makers


def _stacked(array):
    """An array whose rows are given one after the other."""
    return Values(list(array), array)


def _same(*rows):
    """Rows that cannot be stacked come back as they were given."""
    return Values(list(rows), list(rows))


def _arrays(*rows):
    """Arrays of one dtype and shape, stacked."""
    return Values(list(rows), _stack(rows))


def _stack(rows):
    """As `np.stack`, which drops what lies between fields."""
    array = np.zeros((len(rows), *rows[0].shape), rows[0].dtype)
    for number, row in enumerate(rows):
        array[number] = row
    return array


def _bits(dtype, *patterns):
    """An array of the numbers with these bit patterns."""
    carrier = {2: "uint16", 4: "uint32", 8: "uint64"}[np.dtype(dtype).itemsize]
    return np.array(patterns, carrier).view(dtype)


def _reused(wrap, buffer, *contents):
    """Gives the same buffer every time, wrapped, and overwrites it for the next row, after the last with zeros."""

    def rows():
        for content in contents:
            buffer[...] = content
            yield wrap(buffer)
        buffer[...] = 0

    return rows


def _ramp(shape, dtype, step=1):
    """An array of numbers that are all different as far as the dtype has so many."""
    return (np.arange(int(np.prod(shape))) * step % 251).astype(dtype).reshape(shape)


class Color(enum.IntEnum):
    RED = 1
    BLUE = 2


class Metres(float):
    pass


class Label(str):
    pass


class Image(np.ndarray):
    pass


Graph = namedtuple("Graph", ["nodes", "edges", "edge_links"])  # as gymnasium's GraphInstance

# ---- kinds of values


NAN, INF = float("nan"), float("inf")
NAN_WITH_PAYLOAD = struct.unpack("<d", bytes.fromhex("efbeadde0000f87f"))[0]

EXTREMES = {  # by dtype: small, large and special numbers
    "bool": [False, True],
    **{name: [np.iinfo(name).min, 1, np.iinfo(name).max] for name in ("int8", "int16", "int32", "int64")},
    **{name: [0, 1, np.iinfo(name).max] for name in ("uint8", "uint16", "uint32", "uint64")},
    **{
        name: [NAN, -0.0, INF, -INF, np.finfo(name).max, np.finfo(name).tiny]
        for name in ("float16", "float32", "float64")
    },
    **{name: [complex(NAN, -0.0), complex(-INF, 1.5), -1j] for name in ("complex64", "complex128")},
}
NANS = {  # quiet and signalling ones, of both signs, with payloads
    "float16": _bits("float16", 0x7E01, 0x7D55, 0xFE00, 0xFFFF),
    "float32": _bits("float32", 0x7FC00001, 0x7F800001, 0xFFC12345, 0xFF812345),
    "float64": _bits("float64", 0x7FF8000000000001, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF, 0xFFF4000000000000),
    "complex64": _bits("float32", 0x7F800001, 0xFFC12345, 0x7FC00001, 0xFF812345).view("complex64"),
}
POINT = np.dtype([("x", "<f4"), ("y", "<i8")])
STRUCTURED = {
    "plain": POINT,
    "with one field": np.dtype([("x", "<f4")]),
    "aligned": np.dtype([("flag", "?"), ("value", "<f8"), ("small", "<u2")], align=True),
    "padded": np.dtype({"names": ["a", "b"], "formats": ["<u2", "<f4"], "offsets": [3, 12], "itemsize": 40}),
    "nested": np.dtype([("point", POINT), ("more", [("deep", [("er", "<c8")])])]),
    "with subarrays": np.dtype([("matrix", "<f4", (2, 3)), ("points", POINT, (2,))]),
    "with text": np.dtype([("name", "<U3"), ("code", "S2")]),
    "with odd names": np.dtype([("a b", "<f4"), ("'\"\\", "<f4"), ("\xe9", "<f4"), ("__type", "<f4")]),
    "with many fields": np.dtype([(f"field{i}", "<f4") for i in range(200)]),
    "of odd size": np.dtype([("a", "u1", (5,))]),
}
TEXTS = [
    "",
    "plain",
    "caf\xe9 \u4e2d\u6587",
    "\U0001f600\U0010ffff",
    "nul \0 in it",
    "\ud800 alone",
    "alone \udc00",
    "\udc00\ud800",
]
TEXTS += ['"\\/\b\f\n\r\t\x7f\x85\u2028\ufeff\uffff', "__type"]


def _filled(dtype, shape=(2,)):
    """An array of a structured dtype whose numbers are all different; what lies between the fields is not zero."""
    size = int(np.prod(shape)) * dtype.itemsize
    array = (
        np.frombuffer(bytes(itertools.islice(itertools.cycle(range(1, 120)), size)), "u1")
        .copy()
        .view(dtype)
        .reshape(shape)
    )
    for name in dtype.names:
        if dtype[name].kind == "?":
            array[name] = True
        if dtype[name].kind == "U":
            array[name] = "ab\U0001f600"
    return array


def _swapped(array):
    """The same numbers in big-endian order."""
    return array.astype(array.dtype.newbyteorder(">"))


def _kinds_of_every_dtype():
    for name, numbers in EXTREMES.items():
        yield f"extreme {name} numbers", _stacked(np.array(numbers, name))
        yield f"arrays of extreme {name} numbers", _arrays(np.array([numbers], name), np.array([numbers[::-1]], name))
    for name, numbers in NANS.items():
        yield f"NaNs of {name}", _stacked(numbers)
        yield f"arrays of NaNs of {name}", _arrays(numbers, numbers[::-1])
        yield f"lists of NaNs of {name}", _same([*numbers], [numbers, *numbers])
    for name, dtype in STRUCTURED.items():
        array = _filled(dtype)
        yield f"structured arrays, {name}", _arrays(array, array[::-1])
        yield f"structured scalars, {name}", Values([array[0], array[1]], array)
        yield f"lists of structured arrays, {name}", _same([array], [array, array[:1]])
    for dtype in ("float16", "float32", "float64", "int16", "int64", "uint32", "complex64", "complex128"):
        array = _ramp((2, 3), dtype)
        yield f"big-endian arrays of {dtype}", Values([_swapped(array), array], _stack([array, array]))


def _kinds():
    yield "Python ints", Values([1, -2, 2**62], np.array([1, -2, 2**62], "int64"))
    yield "Python ints at the ends of int64", Values([2**63 - 1, -(2**63)], np.array([2**63 - 1, -(2**63)], "int64"))
    yield "Python ints beyond int64", _same(2**63, -(2**63) - 1, 10**300)
    yield "a Python int beyond int64 in mid-episode", _same(1, 2**64, -3)
    yield "Python floats", Values([0.1, -0.0, 5e-324], np.array([0.1, -0.0, 5e-324], "float64"))
    yield "Python floats that are not finite", Values([NAN, INF, -INF], np.array([NAN, INF, -INF], "float64"))
    yield "Python NaNs with a payload", Values([NAN_WITH_PAYLOAD] * 2, _bits("float64", *[0x7FF80000DEADBEEF] * 2))
    yield "Python bools", Values([True, False, True], np.array([True, False, True], "bool"))
    yield "Python complex numbers", Values([1j, complex(NAN, -0.0)], np.array([1j, complex(NAN, -0.0)], "complex128"))
    yield "subclasses of int", Values([Color.RED, Color.BLUE, 3], np.array([1, 2, 3], "int64"))
    yield "subclasses of float", Values([Metres(1.5), 2.5], np.array([1.5, 2.5], "float64"))
    yield "subclasses of str", Values([Label("a"), "b", np.str_("c")], ["a", "b", "c"])

    # Numbers of several types: stacked only if that changes no value.
    yield "Python ints and np.int64", Values([1, np.int64(2), 3], np.array([1, 2, 3], "int64"))
    yield (
        "np.float64 and Python floats",
        Values([np.float64(0.1), 0.2, np.float64(0.3)], np.array([0.1, 0.2, 0.3], "float64")),
    )
    yield "ints, then floats", Values([1, -2, 0.5], np.array([1, -2, 0.5], "float64"))
    yield "floats, then ints", Values([0.5, 1, -2], np.array([0.5, 1, -2], "float64"))
    yield "ints of NumPy and floats", Values([np.int64(1), np.float64(0.5), 3], np.array([1, 0.5, 3], "float64"))
    yield "floats and ints up to 2**53", Values([2**53, 0.5, -(2**53)], np.array([2**53, 0.5, -(2**53)], "float64"))
    yield "an int above 2**53, then floats", _same(2**53 + 1, 0.5, 1.5)
    yield "floats, then an int above 2**53", _same(0.5, 1, -(2**53) - 1)
    yield "an int beyond int64 and floats", _same(0.5, 2**63, 1.5)
    yield "a bool, then ints", _same(True, 1, 0)
    yield "floats, then a bool", _same(0.5, True, 1.5)
    yield "np.float32 and Python floats", _same(np.float32(0.1), 0.1, np.float32(0.2))
    yield "np.int32 and np.int64", _same(np.int32(1), np.int64(2))
    yield "np.uint64 and Python ints", _same(np.uint64(2**64 - 1), 1)
    yield "a number, then None", _same(1.5, None)
    yield "a number, then text", _same(1, "1")

    yield "0-d arrays", Values([np.array(1.5, "float32"), np.array(-0.0, "float32")], np.array([1.5, -0.0], "float32"))
    yield "0-d big-endian arrays", Values([np.array(1.5, ">f4"), np.array(2.5, ">f4")], np.array([1.5, 2.5], "float32"))
    yield "0-d arrays and numbers", Values([np.array(1, "int64"), 2, np.int64(3)], np.array([1, 2, 3], "int64"))

    # Arrays of every memory layout.
    ramp = _ramp((3, 4), "float32")
    yield "empty arrays", _arrays(np.zeros(0, "float32"), np.zeros(0, "float32"))
    yield "empty arrays (3, 0)", _arrays(np.zeros((3, 0), "uint8"), np.zeros((3, 0), "uint8"))
    yield "empty arrays (0, 3)", _arrays(np.zeros((0, 3), "complex64"), np.zeros((0, 3), "complex64"))
    yield "Fortran-ordered arrays", Values([np.asfortranarray(ramp)] * 2, _stack([ramp, ramp]))
    yield "transposed arrays", _arrays(ramp.T, ramp.T)
    yield "strided arrays", _arrays(ramp[::2, 1::2], ramp[1:, ::3][:, :2])
    yield "arrays of negative strides", _arrays(ramp[::-1, ::-1], ramp[::-1])
    yield "broadcast arrays", _arrays(np.broadcast_to(np.float32(1.5), (3, 4)), ramp)
    yield "unaligned arrays", _arrays(np.frombuffer(b"x" + ramp.tobytes(), "<f4", offset=1), ramp.ravel())
    yield "read-only arrays", _arrays(np.frombuffer(b"abc", "u1"), np.frombuffer(b"def", "u1"))
    yield "subclasses of ndarray", Values([ramp.view(Image), ramp], _stack([ramp, ramp]))
    yield "arrays of 31 dimensions", _arrays(np.full((1,) * 31, 7, "uint8"), np.full((1,) * 31, 8, "uint8"))
    yield "arrays of float32", _arrays(ramp, ramp + 1)
    yield "arrays of float64", _arrays(ramp.astype("float64"), ramp.astype("float64"))
    yield "np.float32 numbers", _stacked(ramp[0])
    yield "np.int32 numbers", _stacked(_ramp((3,), "int32"))
    yield "big-endian arrays", Values([_swapped(ramp), ramp], _stack([ramp, ramp]))
    yield "rows of 5 bytes", _arrays(*_ramp((3, 5), "uint8"))
    yield "rows of 3 bytes", _arrays(*_ramp((4, 3), "int8"))
    yield "rows of 12 bytes", _arrays(*_ramp((3, 3), "float32"))
    yield "small images", _arrays(*_ramp((3, 8, 8, 3), "uint8"))
    yield (
        "arrays with metadata in their dtype",
        Values([np.ones(2, np.dtype("float32", metadata={"unit": "m"}))] * 2, np.ones((2, 2), "float32")),
    )

    # Rows from 8 KiB on are kept in another way, from 64 KiB on they are written in another way.
    for size, shape in (("large", (56, 56, 3)), ("very large", (160, 160, 3))):
        first, second = _ramp((2, *shape), "uint8", 7)
        yield f"{size} images", _arrays(first, second)
    large = _ramp((2, 48, 48), "float32", 3)
    yield "large Fortran-ordered arrays", Values([np.asfortranarray(large[0]), large[1]], large)
    yield "large strided arrays", _arrays(_ramp((96, 96), "float32")[::2, ::2], large[0][:, ::-1])
    yield "large big-endian arrays", Values([_swapped(large[0]), large[1]], large)
    yield "large arrays of NaNs", _arrays(*np.resize(NANS["float64"], (2, 1100)))
    yield "large images of varying size", _same(_ramp((60, 60, 3), "uint8"), _ramp((61, 60, 3), "uint8"))
    yield "large, then small arrays", _same(_ramp((9000,), "uint8"), _ramp((3,), "uint8"))
    yield "large text arrays", _arrays(np.full(3000, "ab\U0001f600"), np.full(3000, "xyz"))

    # Structured dtypes, record arrays, fixed-width text.
    points = np.array([(1.5, 2), (-0.0, -(2**62))], POINT)
    yield "structured 0-d arrays", Values([np.array(points[0]), np.array(points[1])], points)
    yield "structured arrays", _arrays(points, points[::-1])
    yield "big-endian structured arrays", Values([_swapped(points), points], _stack([points, points]))
    yield "big-endian structured scalars", Values([_swapped(points)[0], points[1]], points)
    yield (
        "big-endian padded arrays",
        Values([_swapped(_filled(STRUCTURED["padded"])[["a", "b"]])] * 2, _stack([_filled(STRUCTURED["padded"])] * 2)),
    )
    yield "large structured arrays", _arrays(np.resize(points, 1000), np.resize(points[::-1], 1000))
    yield "record arrays", Values([points.view(np.recarray), points], _stack([points, points]))
    yield "records", Values([points.view(np.recarray)[0], points[1]], points)
    yield "big-endian record arrays", Values([_swapped(points).view(np.recarray)] * 2, _stack([points, points]))
    yield "bytes arrays", _arrays(np.array([b"ab", b"c\0d", b""]), np.array([b"xyz", b"\xff\xfe", b"\0"]))
    yield "text arrays", _arrays(np.array(["ab", "\U0001f600", ""]), np.array(["xy", "\xe9", "\0"], "<U2"))
    yield "big-endian text arrays", Values([np.array(["ab", "c"], ">U2")] * 2, np.array([["ab", "c"]] * 2, "<U2"))
    yield "np.bytes_ of one length", Values([np.bytes_(b"ab"), np.bytes_(b"cd")], np.array([b"ab", b"cd"]))
    yield (
        "np.bytes_ of varying length",
        Values(  # as arrays: NumPy's scalars of text lose NULs at the end
            [np.bytes_(b"ab"), np.bytes_(b"cde")], [np.array(b"ab"), np.array(b"cde")]
        ),
    )
    yield "0-d text arrays", Values([np.array("a\0", "<U2"), np.array("bc")], np.array(["a\0", "bc"], "<U2"))
    yield "0-d text arrays of varying width", _same(np.array("a\0", "<U2"), np.array("bcd"))
    yield "text arrays of varying width", _same(np.array(["ab"]), np.array(["abc"]))

    # What cannot be stacked: one value per step.
    yield "text", _same(*TEXTS)
    yield "None", _same(None, None)
    yield "lists of numbers", _same([1, 2.5], [True, None, "x"], [])
    yield "lists of lists", _same([[1], [[2]]], [[[]]])
    yield "lists of NumPy numbers", _same([np.float32(0.1), np.bool_(True)], [np.uint64(2**64 - 1), np.int8(-1)])
    yield "lists of arrays", _same([ramp, np.zeros(0)], [ramp[0], np.array(["ab"])])
    yield "lists of 0-d arrays", Values([[np.array(1.5, ">f4")]] * 2, [[np.float32(1.5)]] * 2)
    yield "lists of big-endian arrays", Values([[_swapped(ramp)], [_swapped(points)]], [[ramp], [points]])
    yield "lists of Fortran-ordered arrays", Values([[np.asfortranarray(ramp)], [ramp.T]], [[ramp], [ramp.T]])
    yield (
        "lists of numbers that JSON does not have",
        Values(
            [[NAN, INF, 1j], [NAN_WITH_PAYLOAD, -INF, -0.0]],
            [
                [np.float64(NAN), np.float64(INF), np.complex128(1j)],
                [_bits("float64", 0x7FF80000DEADBEEF)[0], np.float64(-INF), -0.0],
            ],
        ),
    )
    yield "lists of ints of any size", _same([2**63, -(10**300)], [2**53 + 1])
    yield "lists of tuples", _same([(1, "a"), ()], [((1,),)])
    yield "lists of dicts", _same([{"a": 1, "b": None}], [{}])
    yield "lists of dicts with a key __type", _same([{"__type": "ndarray", "shape": [1]}], [{"__type": {"__type": 1}}])
    yield (
        "lists of dicts with keys that are no text",
        _same([{0: "a", "0": "b"}, {None: 1, 2.5: 2}], [{True: 1, -(2**70): 2}]),
    )
    yield "lists of mappings", Values([[UserDict({"a": 1})], [OrderedDict(b=2)]], [[{"a": 1}], [{"b": 2}]])
    yield "ragged arrays", _same(np.zeros((2, 3)), np.zeros((1, 3)), np.zeros((0, 3)))
    yield "arrays whose dtype changes", _same(np.zeros(3, "float32"), np.zeros(3, "float64"), np.zeros(3, "float32"))
    yield "arrays whose number of dimensions changes", _same(np.zeros(3), np.zeros((1, 3)))
    yield "an array, then a number", _same(np.zeros(3), 1.5)
    yield "a number, then an array", _same(np.float32(1.5), np.zeros(1, "float32"))
    yield "tuples of varying length", _same((1, 2), (1, 2, 3), ())
    yield "empty tuples", _same((), ())
    yield "empty lists", _same([], [])
    yield "empty dicts", _same({}, {})

    # Dicts and tuples of the same structure at every step: columns.
    image, vector = _ramp((2, 4, 4, 3), "uint8"), np.array([[1.5, -0.0], [NAN, INF]], "float32")
    rows = [{"image": image[i], "vector": vector[i], "n": i} for i in range(2)]
    columns = DictColumns(image=image, vector=vector, n=np.array([0, 1], "int64"))
    yield "dicts", Values(rows, columns)
    yield "dicts whose key order varies", Values([rows[0], dict(reversed(list(rows[1].items())))], columns)
    yield "other mappings", Values([UserDict(rows[0]), OrderedDict(rows[1])], columns)
    yield "dicts, then other mappings", Values([rows[0], UserDict(rows[1])], columns)
    yield "dicts in dicts", Values([{"a": {"b": row}} for row in rows], DictColumns(a=DictColumns(b=columns)))
    yield "tuples", Values([(1, vector[0]), (2, vector[1])], TupleColumns((np.array([1, 2], "int64"), vector)))
    yield "tuples in tuples", Values([((i,), (i, (i,))) for i in (True, False)], _tuples(np.array([True, False])))
    yield "dicts in tuples", Values([(row, True) for row in rows], TupleColumns((columns, np.array([True, True]))))
    yield (
        "tuples in dicts",
        Values([{"t": (row, row)} for row in rows], DictColumns(t=TupleColumns((columns, columns)))),
    )
    yield (
        "dicts of large images",
        Values(
            [{"image": frame, "n": 1} for frame in _ramp((2, 64, 64, 3), "uint8")],
            DictColumns(image=_ramp((2, 64, 64, 3), "uint8"), n=np.array([1, 1], "int64")),
        ),
    )
    yield (
        "dicts with one leaf of text",
        Values([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], DictColumns(a=_ints(1, 2), b=["x", "y"])),
    )
    yield (
        "dicts with one leaf that changes",
        Values([{"a": 1, "b": 1}, {"a": 2, "b": "y"}], DictColumns(a=_ints(1, 2), b=[1, "y"])),
    )
    yield "dicts with an empty dict", Values([{"a": {}, "b": ()}] * 2, DictColumns(a=[{}, {}], b=[(), ()]))
    yield "dicts with lists", Values([{"a": [1]}, {"a": []}], DictColumns(a=[[1], []]))
    yield (
        "dicts with a dict whose keys change",
        Values([{"a": {"x": 1}}, {"a": {"y": 1}}], DictColumns(a=[{"x": 1}, {"y": 1}])),
    )
    yield (
        "dicts with a key __type",
        Values(
            [{"__type": "ndarray", "shape": 1}, {"__type": "tuple", "shape": 2}],
            DictColumns({"__type": ["ndarray", "tuple"], "shape": _ints(1, 2)}),
        ),
    )
    yield (
        "dicts with keys that are ints",
        Values([{0: 1, 1: 2}, {0: 3, 1: 4}], DictColumns({0: _ints(1, 3), 1: _ints(2, 4)})),
    )
    mixed = [1, "1", 2.5, None, -(2**70), False]
    yield (
        "dicts with keys of all types",
        Values([dict.fromkeys(mixed, i) for i in (7, 8)], DictColumns.fromkeys(mixed, _ints(7, 8))),
    )
    yield (
        "dicts with any text as keys",
        Values([dict.fromkeys(TEXTS, i) for i in (7, 8)], DictColumns.fromkeys(TEXTS, _ints(7, 8))),
    )
    yield "dicts with one key, then another", _same({"a": 1}, {"b": 1})
    yield "dicts that get a key", _same({"a": 1}, {"a": 1, "b": vector})
    yield "dicts that lose a key", _same({"a": 1, "b": vector}, {"a": 1})
    yield "dicts with other keys that are no text", _same({0: vector}, {1: vector})
    yield "a dict, then a number", _same({"a": vector}, 1)
    yield "a dict, then a tuple", _same({"a": 1}, (1,))
    nodes, links = _ramp((3, 2), "float32"), _ramp((1, 2), "int64")
    yield (
        "graphs",
        Values(
            [Graph(nodes, None, links), Graph(nodes[:1], None, links)],
            TupleColumns(([nodes, nodes[:1]], [None, None], _stack([links, links]))),
        ),
    )

    # Buffers that are reused, as environments and agents do.
    small, frame = np.zeros((2, 3), "float32"), np.zeros((60, 60, 3), "uint8")
    for name, buffer in (("buffer", small), ("large buffer", frame), ("0-d array", np.zeros((), "float64"))):
        back = _stack([np.full_like(buffer, n) for n in (1, 2, 3)])
        yield f"one {name}, overwritten", Values(_reused(lambda b: b, buffer, 1, 2, 3), back)
        yield f"one {name} in a dict", Values(_reused(lambda b: {"a": b}, buffer, 1, 2, 3), DictColumns(a=back))
        yield f"one {name} in a tuple", Values(_reused(lambda b: (b, b), buffer, 1, 2, 3), TupleColumns((back, back)))
        yield f"one {name} in a list", Values(_reused(lambda b: [b], buffer, 1, 2, 3), [[row] for row in back])
    yield (
        "one view of a buffer",
        Values(_reused(lambda b: b[:, ::2], small, 1, 2), _stack([np.full((2, 2), n, "f4") for n in (1, 2)])),
    )
    yield (
        "one structured scalar",
        Values(_reused(lambda b: b[0], np.zeros(1, POINT), (1, 2), (3, 4)), np.array([(1, 2), (3, 4)], POINT)),
    )
    yield "one list, overwritten", Values(_mutated_list, [[1, [1]], [2, [2]]])
    yield "one dict, overwritten", Values(_mutated_dict, DictColumns(a=_ints(1, 2), b=[[1], [2]]))


def _tuples(column):
    return TupleColumns((TupleColumns((column,)), TupleColumns((column, TupleColumns((column,))))))


def _ints(*values):
    return np.array(values, "int64")


def _mutated_list():
    value = [0, [0]]
    for number in (1, 2):
        value[0] = value[1][0] = number
        yield value
    value.clear()


def _mutated_dict():
    value = {"a": 0, "b": [0]}
    for number in (1, 2):
        value["a"] = value["b"][0] = number
        yield value
    value["b"].clear()
    value.clear()


FEW_KINDS = dict(_kinds())  # one of each, for tests of all pairs
KINDS = {**FEW_KINDS, **dict(_kinds_of_every_dtype())}

# ---- the cases

NO_ROWS = Values([], np.empty(0, "float64"))
SHAPES_OF_EPISODES = {
    "no step": Case(_stacked(np.array([[1.5]])), NO_ROWS, NO_ROWS),
    "no step, observations that cannot be stacked": Case(_same("text"), NO_ROWS, NO_ROWS),
    "no step, a dict": Case(Values([{"a": 1}], DictColumns(a=_ints(1))), NO_ROWS, NO_ROWS),
    "one step": episode(actions=_stacked(np.ones((1, 2), "float32"))),
    "many steps": episode(actions=_stacked(_ramp((300, 3), "float32"))),
    "no first observation": episode(observations=_stacked(_ramp((3, 2), "float32")), headless=True),
    "no first observation, one step": episode(observations=_same("text"), headless=True),
}
OBSERVED = {f"observations: {name}": episode(observations=values) for name, values in KINDS.items()}
CASES = {
    **SHAPES_OF_EPISODES,
    **OBSERVED,
    **{f"actions: {name}": episode(actions=values) for name, values in KINDS.items()},
    **{f"rewards: {name}": episode(rewards=values) for name, values in KINDS.items()},
}

# ---- what is refused


def _nested(depth, wrap):
    value = 1
    for _ in range(depth):
        value = wrap(value)
    return value


def _containing_itself(container):
    if isinstance(container, list):
        container.append(container)
    else:
        container["self"] = container
    return container


REFUSED = {  # an observation, the path and a part of the message
    "an object": (object(), "observations: cannot store <class 'object'>"),
    "an object array": (np.array([None, 1]), "observations: cannot store an array of dtype object"),
    "an array of objects in a dict": ({"a": np.array([{}])}, "observations.a: cannot store an array of dtype object"),
    "an object far inside": (
        {"graph": [0, 1, {"x": object()}]},
        "observations.graph[2].x: cannot store <class 'object'>",
    ),
    "an object in a tuple": ((1, {"a": object()}), "observations[1].a: cannot store <class 'object'>"),
    "an object below a key that is no text": (
        {1: {None: object()}},
        "observations[1][None]: cannot store <class 'object'>",
    ),
    "a masked array": (np.ma.masked_array([1, 2], [True, False]), "observations: cannot store a masked array"),
    "a masked array in a list": ([np.ma.masked_array([1])], "observations[0]: cannot store a masked array"),
    "a datetime": (np.datetime64("2020-01-01"), "observations: cannot store dtype datetime64[D]"),
    "datetimes": (np.zeros(2, "M8[s]"), "observations: cannot store an array of dtype datetime64[s]"),
    "timedeltas": (np.zeros(2, "m8[s]"), "observations: cannot store an array of dtype timedelta64[s]"),
    "raw bytes of NumPy": (np.zeros(2, "V4"), "observations: cannot store an array of dtype"),
    "an object in a structured array": (np.zeros(1, [("a", "O")]), "observations: cannot store an array of dtype"),
    "a datetime in a structured array": (
        np.zeros(1, [("a", [("b", "M8[s]")])]),
        "observations: cannot store an array of dtype",
    ),
    "overlapping fields": (
        np.zeros(1, np.dtype({"names": ["a", "b"], "formats": ["<i4", "<i2"], "offsets": [0, 2]})),
        "observations: cannot store an array of dtype",
    ),
    "field names that a .npy header cannot have": (
        np.zeros(1, [("\u4e2d", "<i4")]),
        "observations: cannot store an array of dtype",
    ),
    "a dtype whose name is too long": (
        np.zeros(1, [(f"field{i}", "<i4") for i in range(6000)]),
        "observations: cannot store an array of dtype",
    ),
    "too many dimensions": (np.zeros((1,) * 32), "observations: too many dimensions"),
    "too many dimensions in a list": ([np.zeros((1,) * 32)], "observations[0]: too many dimensions"),
    "bytes": (b"abc", "observations: cannot store <class 'bytes'>"),
    "a bytearray": ({"a": bytearray(3)}, "observations.a: cannot store <class 'bytearray'>"),
    "a set": ({1, 2}, "observations: cannot store <class 'set'>"),
    "a frozenset in a list": ([frozenset()], "observations[0]: cannot store <class 'frozenset'>"),
    "a generator": ((i for i in ()), "observations: cannot store <class 'generator'>"),
    "a class": (int, "observations: cannot store <class 'type'>"),
    "an int of too many bits": (1 << 5000, "observations: cannot store an int of so many bits"),
    "an int of too many bits in a list": ([1, -(1 << 5000)], "observations[1]: cannot store an int of so many bits"),
    "a key that is a tuple": ({(1, 2): 3}, "observations: cannot store the key (1, 2) of a mapping"),
    "a key that is bytes": ([{b"a": 3}], "observations[0]: cannot store the key b'a' of a mapping"),
    "a key that is NaN": ({"a": {NAN: 3}}, "observations.a: cannot store the key nan of a mapping"),
    "a key that is infinite": ([{INF: 3}], "observations[0]: cannot store the key inf of a mapping"),
    "text with a surrogate pair": ("\ud83d\ude00", "observations: cannot store text"),
    "a key with a surrogate pair": ([{"\ud83d\ude00": 1}], "observations[0]: cannot store"),
    "lists nested too deeply": (_nested(40, lambda value: [value]), "cannot store a value nested deeper than"),
    "lists nested far too deeply": (_nested(3000, lambda value: [value]), "cannot store a value nested deeper than"),
    "tuples nested too deeply": (_nested(40, lambda value: (value,)), "cannot store a value nested deeper than"),
    "tuples nested far too deeply": (
        _nested(3000, lambda value: (value,)),
        "cannot store a value nested deeper than",
    ),
    "dicts nested too deeply": (_nested(40, lambda value: {"a": value}), "cannot store a value nested deeper than"),
    "dicts nested far too deeply": (
        _nested(3000, lambda value: {"a": value}),
        "cannot store a value nested deeper than",
    ),
    "a list that contains itself": (_containing_itself([1]), "cannot store a value nested deeper than"),
    "a dict that contains itself": (_containing_itself({"a": 1}), "cannot store a value nested deeper than"),
}
if np.dtype("longdouble").itemsize > 8:
    REFUSED["a long double"] = (np.longdouble(1), "observations: cannot store dtype ")
    REFUSED["long doubles"] = ({"a": np.zeros(2, "longdouble")}, "observations.a: cannot store an array of dtype ")
    REFUSED["complex long doubles"] = ([np.zeros(2, "clongdouble")], "observations[0]: cannot store an array of dtype ")
