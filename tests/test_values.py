"""The allow-list of dtypes, and the canonical form of values."""

import enum
from collections import OrderedDict, deque
from types import MappingProxyType

import numpy as np
import pytest
from cases import POINT, REFUSED, STRUCTURED, plain
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gym_recording import TraceError
from gym_recording.values import dtype_text, normalise, normalise_key, parse_dtype, path_text, snapshot, storable_dtype

PLAIN = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()

# ---- paths


@pytest.mark.parametrize(
    "path, text",
    [
        (("observations",), "observations"),
        (("observations", "image"), "observations.image"),
        (("observations", "graph", 2, "x"), "observations.graph[2].x"),
        (("observations", None, 2.5, True), "observations[None][2.5][True]"),
        (("actions", ""), "actions."),
    ],
)
def test_a_path_is_written_as_people_write_it(path, text):
    assert path_text(path) == text


# ---- dtypes

DTYPES = {  # as text in a file, and what it is
    **{name: np.dtype(name) for name in PLAIN},
    "|b1": np.dtype(bool),
    "?": np.dtype(bool),
    "<f4": np.dtype("<f4"),
    ">f4": np.dtype(">f4"),
    "=i8": np.dtype("i8"),
    "f8": np.dtype("f8"),
    ">c16": np.dtype(">c16"),
    "|u1": np.dtype("u1"),
    "<U5": np.dtype("<U5"),
    ">U5": np.dtype(">U5"),
    "|S12": np.dtype("S12"),
    "[('x', '<f4'), ('y', '<i8')]": POINT,
    "[('x', '>f4'), ('', '|V3'), ('y', '<i8', (2, 3))]": np.dtype(
        {"names": ["x", "y"], "formats": [">f4", ("<i8", (2, 3))], "offsets": [0, 7], "itemsize": 55}
    ),
    "[('p', [('x', '<f4')], (2,))]": np.dtype([("p", [("x", "<f4")], (2,))]),
    "{'names':['a'], 'formats':['<f4'], 'offsets':[4], 'itemsize':16}": np.dtype(
        {"names": ["a"], "formats": ["<f4"], "offsets": [4], "itemsize": 16}
    ),
    "{'names':['a'], 'formats':[('<f4', (2,))], 'offsets':[0], 'itemsize':8, 'aligned':True}": np.dtype(
        [("a", "<f4", (2,))]
    ),
}


@pytest.mark.parametrize("text", DTYPES)
def test_a_dtype_of_a_file_is_what_its_text_says(text):
    dtype = parse_dtype(text)
    assert (dtype, dtype.itemsize, dtype.names) == (DTYPES[text], DTYPES[text].itemsize, DTYPES[text].names)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "O",
            "|O",
            "object",
            "V",
            "V8",
            "|V8",
            "M8",
            "M8[s]",
            "<M8[ns]",
            "m8[s]",
            "datetime64",
            "timedelta64[D]",
        ),
        *(
            "float128",
            "longdouble",
            "g",
            "f16",
            "<f16",
            "<f3",
            "f",
            "d",
            "i",
            "i4,f8",
            "3f4",
            "(2,)f4",
            "f4 ",
            " f4",
            "f4\n",
        ),
        *(
            "S",
            "S0",
            "<U0",
            "U",
            "str",
            "bytes",
            "S1000000000",
            "U1000000000",
            "U999999999",
            "U600000000",
            "S-1",
            "U1.5",
        ),
        *(
            "int",
            "float",
            "INT64",
            "int64\0",
            "\uff46\uff14",
            "f\u0664",
            "bfloat16",
            "float8_e5m2",
            "void",
            "x" * 10_000,
        ),
        *(
            "[]",
            "{}",
            "()",
            "[",
            "[[",
            "]",
            "None",
            "[1]",
            "[None]",
            "[()]",
            "['f4']",
            "[('a',)]",
            "[('a', 'O')]",
            "[('a', 1)]",
        ),
        *(
            "[('a', '<f4', -1)]",
            "[('a', '<f4', (-1,))]",
            "[('a', '<f4', (1.5,))]",
            "[('a', '<f4', ('2',))]",
            "[('a', '<f4', 1)]",
        ),
        *(
            "[('a', '<f4', (2,), 3)]",
            "[('a', '<f4'), ('a', '<f4')]",
            "[(('t', 'a'), '<f4')]",
            "[('a', [])]",
            "[('a', {})]",
        ),
        *("[('', '|V4')]", "[('a', '|V4')]", "[('a', 'M8[s]')]", "[('a', [('b', 'O')])]", "[('a', 'bfloat16')]"),
        "[('a', '<f4', (4611686018427387904,))]",
        "[('a', '<f4', (4611686018427387904, 4611686018427387904))]",
        "[('a', 'S999999999', (999,))]",
        "{'names': ['a'], 'formats': ['<f4'], 'offsets': [-4], 'itemsize': 4}",
        "{'names': ['a'], 'formats': ['<f4'], 'offsets': [0], 'itemsize': 2}",
        "{'names': ['a'], 'formats': ['<f4'], 'offsets': ['0'], 'itemsize': 4}",
        "{'names': ['a', 'b'], 'formats': ['<f4', '<f4'], 'offsets': [0, 2], 'itemsize': 8}",
        "{'names': [1], 'formats': ['<f4'], 'offsets': [0], 'itemsize': 4}",
        "{'names': ['a'], 'formats': ['O'], 'offsets': [0], 'itemsize': 8}",
        "{'names': ['a'], 'formats': ['<f4'], 'offsets': [0]}",
        "[('\ud800', '<f4')]",
        "[__import__('os')]",
        "[1 if 0 else 2]",
        "[9" + "9" * 5000 + "]",
        "[" * 90 + "]" * 90,
        "[" + "-" * 8000 + "1]",
        "[" + "1+" * 4000 + "1j]",
        "[" + "[('a', " * 40 + "'<f4'" + ")]" * 40 + "]",
        "[" + ", ".join(f"('field{i}', '<f4')" for i in range(1000)) + "]",
    ],
)
def test_a_dtype_that_is_not_on_the_list_is_refused(text):
    with pytest.raises(TraceError, match=r"the dtype is not allowed \(expected .*, found "):
        parse_dtype(text)


MANY_DTYPES = hnp.scalar_dtypes() | hnp.unicode_string_dtypes() | hnp.byte_string_dtypes()
MANY_DTYPES = MANY_DTYPES | hnp.nested_dtypes(MANY_DTYPES, max_leaves=6)


@given(dtype=MANY_DTYPES)
def test_what_may_be_stored_has_a_text_that_can_be_read(dtype):
    stored = storable_dtype(dtype)
    if stored is not None:
        assert parse_dtype(dtype_text(stored)) == stored
        assert stored == dtype.newbyteorder("<")


@given(text=st.text() | st.text(alphabet="[](){}'\",:0123456789abfiuSUVO<>|= \\"))
def test_any_text_is_a_dtype_on_the_list_or_refused(text):
    try:
        dtype = parse_dtype(text)
    except TraceError:
        return
    assert storable_dtype(dtype) is not None


@pytest.mark.parametrize("gap", [1, 999_998, 999_999, 1_000_000, 50_000_000, 2_000_000_000])
def test_a_gap_between_fields_may_have_any_size_that_can_be_read(gap):
    dtype = np.dtype({"names": ["a", "b"], "formats": ["u1", "u1"], "offsets": [0, 1 + gap]})
    stored = storable_dtype(dtype)
    assert stored is None or parse_dtype(dtype_text(stored)) == dtype


@pytest.mark.parametrize("count", [1, 100, 300, 400, 500, 10_000])
def test_a_dtype_may_have_as_many_fields_as_can_be_read(count):
    dtype = np.dtype([(f"field{i}", "<f4") for i in range(count)])
    stored = storable_dtype(dtype)
    assert stored is None or parse_dtype(dtype_text(stored)) == dtype


@pytest.mark.parametrize("dtype", [*PLAIN, "<U3", "S3", *STRUCTURED.values()], ids=str)
def test_a_big_endian_dtype_is_stored_as_the_little_endian_one(dtype):
    little = np.dtype(dtype).newbyteorder("<")
    assert storable_dtype(little) == storable_dtype(little.newbyteorder(">")) == little


def test_a_record_dtype_is_stored_as_the_structured_one():
    stored = storable_dtype(np.dtype((np.record, POINT)))
    assert (stored, stored.type) == (POINT, np.void)


# ---- values


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_that_cannot_be_stored_is_refused_by_its_path(name):
    value, message = REFUSED[name]
    with pytest.raises(TraceError) as caught:
        snapshot(value, ("observations",))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "value", [None, True, False, 0, -5, 2**70, 0.5, 1j, "text", np.float32(0.5), np.uint64(7), np.bool_(True)]
)
def test_canonical_values_stay_what_they_are(value):
    assert plain(normalise(value, ())) == plain(value)


class Kind(enum.IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    "value, canonical",
    [
        (Kind.ONE, 1),
        (np.str_("a"), "a"),
        (np.array(1.5, ">f4"), np.float32(1.5)),
        (np.array(True), np.bool_(True)),
        (np.array([1, 2], ">i4"), np.array([1, 2], "<i4")),
        (np.array([1, 2]).view(np.recarray), np.array([1, 2])),
        (np.bytes_(b"ab"), np.array(b"ab")),
        (MappingProxyType({"b": 1, "a": (2, [3])}), {"b": 1, "a": (2, [3])}),
        (OrderedDict([(np.int64(3), np.array([1.0], ">f8"))]), {3: np.array([1.0], "<f8")}),
    ],
)
def test_a_snapshot_is_in_canonical_form(value, canonical):
    assert plain(snapshot(value, ())) == plain(canonical)


def test_a_snapshot_shares_nothing_with_the_value():
    array, inner = np.zeros(3), [1, {"b": 2}]
    value = {"a": array, "l": inner, "t": (array, inner)}
    copy = snapshot(value, ())
    array[:] = 7
    inner[1]["b"] = 7
    inner.append(7)
    value.clear()
    expected = [1, {"b": 2}]
    assert plain(copy) == plain({"a": np.zeros(3), "l": expected, "t": (np.zeros(3), expected)})


@pytest.mark.parametrize("size", [4096, -4096])
def test_the_largest_ints_are_stored_and_no_larger_ones(size):
    largest = (1 << abs(size)) - 1 if size > 0 else -(1 << -size) + 1
    assert normalise(largest, ()) == largest
    with pytest.raises(TraceError, match=r"a\.b: cannot store an int of so many bits \(expected at most 4096\)"):
        normalise(largest * 2, ("a", "b"))


def test_containers_nest_as_deep_as_said_and_no_deeper():
    def nested(depth):
        return [nested(depth - 1)] if depth else "end"

    assert snapshot(nested(32), ()) == nested(32)
    with pytest.raises(TraceError, match="cannot store a value nested deeper than 32"):
        snapshot(nested(33), ("observations",))


@pytest.mark.parametrize(
    "key, canonical",
    [
        ("a", "a"),
        ("__type", "__type"),
        (np.str_("a"), "a"),
        (None, None),
        (True, True),
        (np.bool_(False), False),
        (3, 3),
        *[(np.int8(-3), -3), (2**70, 2**70), (0.5, 0.5), (np.float32(0.5), 0.5), (Kind.ONE, 1), (-0.0, -0.0)],
    ],
)
def test_keys_of_mappings_are_those_of_json_and_numbers(key, canonical):
    found = normalise_key(key, ())
    assert plain(found) == plain(canonical)


@pytest.mark.parametrize(
    "key", [b"a", (), (1,), float("nan"), float("inf"), 1j, 1 << 5000, frozenset(), object(), np.datetime64("NaT", "s")]
)
def test_other_keys_of_mappings_are_refused(key):
    with pytest.raises(
        TraceError, match=r"observations: cannot store the key .* \(expected str, int, float, bool or None\)"
    ):
        normalise_key(key, ("observations",))


class Broken:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no array today")


def test_an_error_of_a_foreign_conversion_says_which_value_it_was():
    with pytest.raises(TraceError, match=r"observations\.a: cannot store .*Broken.*: no array today"):
        normalise(Broken(), ("observations", "a"))


@pytest.mark.parametrize(
    "value", [deque([1]), range(3), iter([]), memoryview(b"a"), Ellipsis, NotImplemented, np.float32, len]
)
def test_what_only_resembles_a_value_is_refused(value):
    with pytest.raises(TraceError, match="cannot store"):
        normalise(value, ("observations",))
