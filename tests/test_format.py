"""Names, sealed documents, array records and `.npy` headers: expected bytes are literals, hostile ones are refused."""

import io
import json
import zlib

import numpy as np
import pytest
from cases import POINT, STRUCTURED, plain

from gym_recording import TraceError
from gym_recording.format import (
    blob_name,
    crc32,
    header_name,
    is_current,
    manifest_name,
    natural_key,
    parse_name,
    read_array,
    read_document,
    read_manifest,
    record_text,
    trace_name,
    write_document,
    write_manifest,
    write_npy_header,
)

TRACE = "openaigym.trace.0.12-0123456789ab"
OLD = "openaigym.trace.0.12"

# ---- names

NAMES = {
    f"{TRACE}.manifest.json": (TRACE, "manifest", 0),
    f"{TRACE}.ep000000007.json": (TRACE, "header", 7),
    f"{TRACE}.ep000000007.bin": (TRACE, "blob", 7),
    f"{TRACE}.ep000000007.3.bin": (TRACE, "blob", 7),
    f"{TRACE}.ep1234567890.json": (TRACE, "header", 1234567890),
    f"{TRACE}.ep999999999999999999.bin": (TRACE, "blob", 999999999999999999),
    f"{OLD}.manifest.json": (OLD, "manifest", 0),
    f"{OLD}.ep000000000.json": (OLD, "header", 0),
    f"{OLD}.ep000000000.bin": (OLD, "blob", 0),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_trace_kind_and_first_episode(name):
    assert parse_name(name) == NAMES[name]
    assert is_current(NAMES[name][0]) == (NAMES[name][0] == TRACE)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            ".",
            "..",
            "/",
            "expected.json",
            "openaigym",
            "openaigym.trace",
            ".lock",
            "openaigym.trace.12-0123456789ab.lock",
        ),
        f"{TRACE}",
        f"{TRACE}.json",
        f"{TRACE}.manifest",
        f"{TRACE}.manifest.json.tmp",
        f".{TRACE}.manifest.json.0123456789ab.tmp",
        f"{TRACE}.manifest.json\n",
        f" {TRACE}.manifest.json",
        f"{TRACE}.manifest.JSON",
        f"{TRACE}.manifest.json\0",
        f"{TRACE}.stats.json",
        f"x{TRACE}.manifest.json",
        f"../{TRACE}.manifest.json",
        f"/tmp/{TRACE}.ep000000000.bin",
        f"a\\{TRACE}.ep000000000.bin",
        f"{TRACE}.ep00000000.json",
        f"{TRACE}.ep.json",
        f"{TRACE}.ep-00000001.json",
        f"{TRACE}.ep+00000001.json",
        f"{TRACE}.ep0000 0001.json",
        f"{TRACE}.ep{'0' * 19}.json",
        f"{TRACE}.ep00000000\u0661.json",
        f"{TRACE}.ep00000000\uff11.json",
        f"{TRACE}.ep000000000.json.bin",
        f"{TRACE}.ep000000000..bin",
        f"{TRACE}.ep000000000.1234567.bin",
        f"{TRACE}.ep000000000.x.bin",
        "openaigym.trace.0.12-0123456789AB.manifest.json",
        "openaigym.trace.0.12-0123456789a.manifest.json",
        "openaigym.trace.0.12-0123456789abc.manifest.json",
        "openaigym.trace.0.-0123456789ab.manifest.json",
        "openaigym.trace..12.manifest.json",
        "openaigym.trace.0.manifest.json",
        "openaigym.trace.0.1.2.manifest.json",
        "openaigym.trace.a.12.manifest.json",
        f"openaigym.trace.{'1' * 21}.12.manifest.json",
        "openaigym_trace_0_12_manifest_json",
    ],
)
def test_any_other_name_is_none_of_ours(name):
    assert parse_name(name) is None


def test_names_are_made_as_they_are_parsed():
    assert trace_name(0, "12-0123456789ab") == TRACE
    assert manifest_name(TRACE) == f"{TRACE}.manifest.json"
    assert header_name(TRACE, 7) == f"{TRACE}.ep000000007.json"
    assert blob_name(TRACE, 7) == f"{TRACE}.ep000000007.bin"
    assert header_name(TRACE, 12345678901) == f"{TRACE}.ep12345678901.json"


def test_numbers_in_names_are_sorted_as_numbers():
    names = ["openaigym.trace.10.5", "openaigym.trace.2.11", "openaigym.trace.0.9", "openaigym.trace.2.11-0f0f0f0f0f0f"]
    assert sorted(names, key=natural_key) == [names[2], names[1], names[3], names[0]]


# ---- documents

FORMAT = '{"name": "gym-recording", "version": [2, 0]}'


def sealed(text):
    """A document with the checksum in place of `########`."""
    zeros = text.replace("########", "00000000").encode("ascii")
    return text.replace("########", f"{zlib.crc32(zeros):08x}").encode("ascii")


def test_the_checksum_is_that_of_zlib():
    assert crc32(b"123456789") == 0xCBF43926
    assert crc32(b"6789", crc32(b"12345")) == 0xCBF43926


def test_a_document_is_written_and_read_byte_by_byte():
    data = b'{"format": {"name": "gym-recording", "version": [2, 0]}, "crc32": "675f0424", "a": [1, {"b": null}]}\n'
    assert write_document('"a": [1, {"b": null}]') == data
    document = read_document(data, "f")
    assert document == {"format": json.loads(FORMAT), "crc32": "675f0424", "a": [1, {"b": None}]}


def test_a_manifest_is_written_and_read_byte_by_byte():
    data = (
        b'{"format": {"name": "gym-recording", "version": [2, 0]}, "crc32": "b828582f", "created": "now", "batches": '
        b'[{"first": 0, "len": 3, "fn": "openaigym.trace.0.12-0123456789ab.ep000000000.json"}]}\n'
    )
    batches = [{"first": 0, "len": 3, "fn": f"{TRACE}.ep000000000.json"}]
    assert write_manifest(batches, {"created": "now", "closed": None}) == data
    assert read_manifest(data, "f")["batches"] == batches


@pytest.mark.parametrize(
    "body", ['"x": 1', '"crc32x": "00000000"', '"x": "\\"crc32\\": \\"00000000\\""', '"x": {"crc32": "00000000"}']
)
def test_a_seal_is_found_whatever_follows_it(body):
    data = write_document(body)
    assert read_document(data, "f")["crc32"] == data[67:75].decode()


def test_a_document_may_be_written_with_other_spaces():
    text = f'\n{{"format":{FORMAT},"crc32":\t"########" , "a" : 1 }}  '
    assert read_document(sealed(text), "f")["a"] == 1


@pytest.mark.parametrize("minor", [0, 1, 70])
def test_any_minor_version_is_read(minor):
    text = (
        f'{{"format": {{"name": "gym-recording", "version": [2, {minor}], "new": 1}}, "crc32": "########", "new": 2}}'
    )
    assert read_document(sealed(text), "f")["new"] == 2


@pytest.mark.parametrize("position", range(0, 100, 3))
def test_every_changed_byte_is_found(position):
    data = bytearray(write_document('"abc": "0123456789", "more": [1, 2, 3, 4, 5, 6, 7, 8, 9]'))
    data[position] ^= 1
    with pytest.raises(TraceError):
        read_document(bytes(data), f"{TRACE}.ep000000000.json")


HOSTILE_DOCUMENTS = {
    "nothing": (b"", "not valid JSON"),
    "no UTF-8": (b'{"a": "\xff"}', "not valid JSON"),
    "a byte order mark": (b'\xef\xbb\xbf{"a": 1}', "not valid JSON"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "not valid JSON"),
    "cut short": (write_document('"a": [1, 2]')[:-5], "not valid JSON"),
    "two documents": (b"{}{}", "not valid JSON"),
    "a comment": (b"{} // no", "not valid JSON"),
    "a trailing comma": (b'{"a": 1,}', "not valid JSON"),
    "a raw control character": (b'{"a": "\n"}', "not valid JSON"),
    "single quotes": (b"{'a': 1}", "not valid JSON"),
    "a list": (b"[]", r"wrong top level \(expected an object, found list\)"),
    "a number": (b"1", "wrong top level"),
    "null": (b"null", "wrong top level"),
    "a key twice": (b'{"a": 1, "b": 2, "a": 3}', "a: a key stands twice"),
    "a key twice inside": (b'{"x": [{"b": 2, "b": 2}]}', "b: a key stands twice"),
    "a key twice, written differently": (b'{"a": 1, "\\u0061": 3}', "a: a key stands twice"),
    "deep lists": (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nests too deeply|not valid JSON"),
    "deep objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nests too deeply|not valid JSON"),
    "a version to come": (
        sealed('{"format": {"name": "gym-recording", "version": [3, 0]}, "crc32": "########"}'),
        "another version",
    ),
    "version 1 with a format": (
        sealed('{"format": {"name": "gym-recording", "version": [1, 0]}, "crc32": "########"}'),
        "another version",
    ),
    "NaN": (sealed(f'{{"format": {FORMAT}, "crc32": "########", "a": NaN}}'), r"not strict JSON \(found NaN\)"),
    "infinity": (sealed(f'{{"format": {FORMAT}, "crc32": "########", "a": [-Infinity]}}'), "not strict JSON"),
    "no checksum": (f'{{"format": {FORMAT}}}'.encode(), "crc32: no checksum"),
    "a checksum that is a number": (f'{{"format": {FORMAT}, "crc32": 12345678}}'.encode(), "crc32: no checksum"),
    "a checksum of another length": (f'{{"format": {FORMAT}, "crc32": "1234567"}}'.encode(), "crc32: no checksum"),
    "a checksum in capitals": (f'{{"format": {FORMAT}, "crc32": "ABCDEF01"}}'.encode(), "crc32: no checksum"),
    "a checksum elsewhere": (sealed(f'{{"format": {FORMAT}, "a": {{"crc32": "########"}}}}'), "crc32: no checksum"),
    "another checksum": (
        f'{{"format": {FORMAT}, "crc32": "12345678"}}'.encode(),
        r"crc32: damaged \(expected 12345678, found ",
    ),
    **{
        f"format {text}": (sealed(f'{{"format": {text}, "crc32": "########"}}'), "format: not a recording")
        for text in [
            *("null", "2", "[]", "{}", '"gym-recording"', '{"name": "gym-recording"}', '{"version": [2, 0]}'),
            *('{"name": "other", "version": [2, 0]}', '{"name": "gym-recording", "version": 2}'),
            *('{"name": "gym-recording", "version": [2]}', '{"name": "gym-recording", "version": [2, 0, 0]}'),
            *('{"name": "gym-recording", "version": ["2", 0]}', '{"name": "gym-recording", "version": [true, 0]}'),
            *('{"name": "gym-recording", "version": [2.0, 0]}', '{"name": "gym-recording", "version": null}'),
        ]
    },
}


@pytest.mark.parametrize("name", HOSTILE_DOCUMENTS)
def test_a_document_that_is_not_strict_is_refused(name):
    data, message = HOSTILE_DOCUMENTS[name]
    with pytest.raises(TraceError, match=f"^the-file: .*({message})"):
        read_document(data, "the-file")


def test_a_document_of_version_2_has_no_int_beyond_the_limit():
    assert read_document(write_document(f'"a": {2**4096 - 1}'), "f")["a"] == 2**4096 - 1
    for digits in (1300, 5000, 500_000):
        with pytest.raises(TraceError, match=r"^f: "):
            read_document(write_document(f'"a": {"9" * digits}'), "f")


def test_old_documents_may_have_numbers_that_json_does_not_have():
    document = read_document(b'{"a": [NaN, Infinity, -Infinity]}', "f")
    assert plain(document["a"]) == plain([float("nan"), float("inf"), float("-inf")])


@pytest.mark.parametrize(
    "name, data", [(f"{OLD}.manifest.json", write_document('"batches": []')), (f"{TRACE}.manifest.json", b"{}")]
)
def test_a_document_is_of_the_version_that_its_name_says(name, data):
    with pytest.raises(TraceError, match="not of the version that its name says"):
        read_document(data, name)


@pytest.mark.parametrize(
    "batches, message",
    [
        ("null", r"batches: malformed \(expected list, found None\)"),
        ("{}", "batches: malformed"),
        ("[null]", "batches: malformed"),
        ("[[]]", "batches: malformed"),
        ('[{"first": 0, "len": 1}]', r"fn: malformed \(expected str, found nothing\)"),
        ('[{"first": 0, "len": 1, "fn": null}]', "fn: malformed"),
        ('[{"first": 0, "len": 1, "fn": ["a"]}]', "fn: malformed"),
        ('[{"first": 0, "len": 1, "fn": "../NAME"}]', "batches.fn: not the name of a header"),
        ('[{"first": 0, "len": 1, "fn": "/etc/passwd"}]', "batches.fn: not the name of a header"),
        ('[{"first": 0, "len": 1, "fn": "NAME.bin"}]', "batches.fn: not the name of a header"),
        ('[{"first": 0, "fn": "NAME"}]', "len: malformed"),
        ('[{"first": 0, "len": -1, "fn": "NAME"}]', "len: malformed"),
        ('[{"first": 0, "len": true, "fn": "NAME"}]', "len: malformed"),
        ('[{"first": 0, "len": 1.0, "fn": "NAME"}]', "len: malformed"),
        ('[{"first": 0, "len": "1", "fn": "NAME"}]', "len: malformed"),
        ('[{"first": -1, "len": 1, "fn": "NAME"}]', "first: malformed"),
        ('[{"first": false, "len": 1, "fn": "NAME"}]', "first: malformed"),
        ('[{"first": [], "len": 1, "fn": "NAME"}]', "first: malformed"),
    ],
)
def test_a_malformed_manifest_is_refused(batches, message):
    data = write_document(f'"batches": {batches}'.replace("NAME", f"{TRACE}.ep000000000.json"))
    with pytest.raises(TraceError, match=f"^the-file: {message}"):
        read_manifest(data, "the-file")


def test_an_old_manifest_may_not_know_where_a_batch_begins():
    batches = [{"first": None, "len": 1, "fn": f"{OLD}.ep000000000.json"}]
    assert read_manifest(json.dumps({"batches": batches}).encode(), "f")["batches"] == batches


# ---- .npy headers

NPY_HEADERS = {
    "float32 (3, 4)": ("float32", (3, 4), "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"),
    "int64 (5,)": ("int64", (5,), "{'descr': '<i8', 'fortran_order': False, 'shape': (5,), }"),
    "bool ()": ("bool", (), "{'descr': '|b1', 'fortran_order': False, 'shape': (), }"),
    "uint8 (0, 210, 160, 3)": (
        "uint8",
        (0, 210, 160, 3),
        "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 210, 160, 3), }",
    ),
    "complex128 (1,)": ("complex128", (1,), "{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }"),
    "text (2,)": ("<U5", (2,), "{'descr': '<U5', 'fortran_order': False, 'shape': (2,), }"),
    "bytes (2,)": ("S5", (2,), "{'descr': '|S5', 'fortran_order': False, 'shape': (2,), }"),
    "structured (2,)": (
        POINT,
        (2,),
        "{'descr': [('x', '<f4'), ('y', '<i8')], 'fortran_order': False, 'shape': (2,), }",
    ),
}


@pytest.mark.parametrize("name", NPY_HEADERS)
def test_a_npy_header_is_that_of_version_1_0_up_to_a_multiple_of_64(name):
    dtype, shape, text = NPY_HEADERS[name]
    size = 64 if len(text) <= 53 else 128 if len(text) <= 117 else 0
    expected = b"\x93NUMPY\x01\x00" + bytes([size - 10, 0]) + text.encode("ascii").ljust(size - 11) + b"\n"
    assert write_npy_header(np.dtype(dtype), shape) == expected


@pytest.mark.parametrize("dtype", ["float16", "uint64", "complex64", "<U3", "S3", *STRUCTURED.values()], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 2), (0, 7), (2,) * 8])
def test_numpy_reads_a_npy_header_as_it_was_meant(dtype, shape):
    dtype = np.dtype(dtype)
    header = write_npy_header(dtype, shape)
    assert len(header) % 64 == 0
    stream = io.BytesIO(header)
    assert np.lib.format.read_magic(stream) == (1, 0)
    assert np.lib.format.read_array_header_1_0(stream) == (shape, False, dtype)
    assert stream.tell() == len(header)
    array = np.load(io.BytesIO(header + bytes(dtype.itemsize * int(np.prod(shape)))))
    assert (array.shape, array.dtype) == (shape, dtype)


# ---- array records

BLOB = f"{TRACE}.ep000000000.bin"
DATA = bytes(range(64))
RECORD = {
    "__type": "ndarray",
    "shape": [2, 3],
    "order": "C",
    "dtype": "int16",
    "npyfile": BLOB,
    "npyoff": 8,
    "size": 12,
}


def read(record, data=DATA):
    return read_array(record, {BLOB: data}.__getitem__, "the-file")


@pytest.mark.parametrize(
    "dtype, row_shape, count, offset, text",
    [
        (
            "float32",
            (4,),
            2,
            64,
            '"shape": [2, 4], "order": "C", "dtype": "float32", "npyfile": "b", "npyoff": 64, "size": 32}',
        ),
        ("int64", (), 3, 0, '"shape": [3], "order": "C", "dtype": "int64", "npyfile": "b", "npyoff": 0, "size": 24}'),
        ("bool", (), 0, 0, '"shape": [0], "order": "C", "dtype": "bool", "npyfile": "b", "npyoff": 0, "size": 0}'),
        (
            "uint8",
            (3, 0),
            5,
            8,
            '"shape": [5, 3, 0], "order": "C", "dtype": "uint8", "npyfile": "b", "npyoff": 8, "size": 0}',
        ),
        (
            "float64",
            (),
            -1,
            8,
            '"shape": [], "order": "C", "dtype": "float64", "npyfile": "b", "npyoff": 8, "size": 8}',
        ),
        (
            "int8",
            (2, 3),
            -1,
            8,
            '"shape": [2, 3], "order": "C", "dtype": "int8", "npyfile": "b", "npyoff": 8, "size": 6}',
        ),
        ("<U2", (), 1, 8, '"shape": [1], "order": "C", "dtype": "<U2", "npyfile": "b", "npyoff": 8, "size": 8}'),
        (
            POINT,
            (),
            1,
            8,
            '"shape": [1], "order": "C", "dtype": "[(\'x\', \'<f4\'), (\'y\', \'<i8\')]", '
            '"npyfile": "b", "npyoff": 8, "size": 12}',
        ),
    ],
)
def test_an_array_record_has_these_members_in_this_order(dtype, row_shape, count, offset, text):
    assert record_text(np.dtype(dtype), row_shape, "b")(count, offset) == '{"__type": "ndarray", ' + text


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, np.array([[0x0908, 0x0B0A, 0x0D0C], [0x0F0E, 0x1110, 0x1312]], "int16")),
        ({"dtype": ">i2"}, np.array([[0x0809, 0x0A0B, 0x0C0D], [0x0E0F, 0x1011, 0x1213]], ">i2")),
        ({"dtype": "<i2", "unknown": 1}, np.array([[0x0908, 0x0B0A, 0x0D0C], [0x0F0E, 0x1110, 0x1312]], "int16")),
        ({"shape": [12], "dtype": "uint8"}, np.arange(8, 20, dtype="uint8")),
        ({"shape": [3], "dtype": "|S4"}, np.array([b"\x08\t\n\x0b", b"\x0c\r\x0e\x0f", b"\x10\x11\x12\x13"])),
        ({"shape": [], "dtype": "uint8", "size": 1}, np.array(8, "uint8")),
        ({"shape": [1], "dtype": "[('x', '<f4'), ('y', '<i8')]"}, np.frombuffer(DATA[8:20], POINT)),
        ({"shape": [0, 5], "size": 0}, np.zeros((0, 5), "int16")),
        ({"shape": [5, 0], "size": 0, "npyoff": 64}, np.zeros((5, 0), "int16")),
        ({"shape": [4], "size": 8, "npyoff": 56}, np.frombuffer(DATA[56:], "int16")),
        ({"shape": [1] * 32, "size": 2}, np.frombuffer(DATA[8:10], "int16").reshape((1,) * 32)),
        ({"npyoff": 3}, np.frombuffer(DATA, "<i2", count=6, offset=3).reshape(2, 3)),
    ],
)
def test_an_array_record_is_read_as_the_bytes_that_it_names(changes, expected):
    array = read({**RECORD, **changes})
    assert plain(array) == plain(expected)
    assert not array.flags.writeable


HUGE = [2**62, 2**62 - 1, 2**63, 2**64, 2**70, 10**30]
HOSTILE_RECORDS = [
    *[
        ({"shape": shape}, "shape: malformed")
        for shape in (None, 6, "6", {}, [-1], [-2, -3], [True, 6], [2.0, 3], ["2", 3], [None], [[2, 3]])
    ],
    ({"shape": [1] * 33}, "shape: malformed"),
    ({"shape": [2] * 10_000}, "shape: malformed"),
    *[({"shape": [n], "size": 2 * n}, "not wholly there") for n in HUGE],
    *[({"shape": [n, n], "size": 2 * n * n}, "not wholly there") for n in HUGE],
    ({"shape": [2**32, 2**32], "size": 0}, "size: wrong size"),  # the product overflows to 0 in 64 bits
    ({"shape": [2**31, 2**31, 2**31, 2**31], "size": 12}, "size: wrong size"),
    *[
        ({"size": size}, "size: (wrong size|malformed)")
        for size in (0, 11, 13, -12, 12.0, "12", None, [12], True, 2**64)
    ],
    *[({"npyoff": offset}, "npyoff: malformed") for offset in (-1, -8, 8.0, "8", None, True, [8])],
    *[({"npyoff": offset}, "not wholly there") for offset in (53, 64, 65, 2**31, 2**63, 2**64 - 8, 2**200)],
    *[({"order": order}, "order: malformed") for order in ("F", "c", "", 1, [], None)],
    *[
        ({"dtype": dtype}, "dtype: ")
        for dtype in (None, 3, ["<f4"], "", "O", "|O", "V8", "M8[s]", "float128", "x" * 10_000, "f4,O", "str")
    ],
    *[({"npyfile": name}, "npyfile: malformed") for name in (None, 1, [BLOB])],
    *[
        ({"npyfile": name}, "npyfile: not the name of a blob")
        for name in (
            "",
            "/etc/passwd",
            f"../{BLOB}",
            f"{TRACE}.manifest.json",
            f"{TRACE}.ep000000000.json",
            BLOB + "\0",
            "." + BLOB,
        )
    ],
    *[({"view": view}, "view: malformed") for view in ("bfloat16", "float32", "float8_e5m2", "", 3, [], {}, True)],
    ({"dtype": "uint16", "view": "float8_e5m2"}, "view: malformed"),
    ({"dtype": "uint8", "shape": [12], "view": "bfloat16"}, "view: malformed"),
    ({"dtype": ">u2", "view": "bfloat16"}, "view: malformed"),
    *[({key: ...}, f"{key}: malformed") for key in ("shape", "dtype", "npyfile", "npyoff")],
]


@pytest.mark.parametrize("number", range(len(HOSTILE_RECORDS)))
def test_a_hostile_array_record_is_refused(number):
    changes, message = HOSTILE_RECORDS[number]
    record = {key: value for key, value in {**RECORD, **changes}.items() if value is not ...}
    with pytest.raises(TraceError, match=message) as caught:
        read(record)
    assert len(str(caught.value)) < 400
    assert "the-file" in str(caught.value) or BLOB in str(caught.value)


@pytest.mark.parametrize("shape", [[0, 2**62], [2**62, 0], [0, 2**63], [0, 2**64], [0] * 32, [0, 2**40, 2**40, 2**40]])
@pytest.mark.parametrize("dtype", ["uint8", "complex128"])
def test_an_empty_array_of_any_shape_is_read_or_refused(shape, dtype):
    try:
        array = read({**RECORD, "shape": shape, "size": 0, "dtype": dtype})
    except TraceError:
        return
    assert list(array.shape) == shape


@pytest.mark.parametrize("data", [b"", b"abc", np.zeros(0), memoryview(b"")])
def test_an_array_of_an_empty_blob_is_refused(data):
    with pytest.raises(TraceError, match=r"not wholly there \(expected 20 bytes, found [03] bytes\)"):
        read(RECORD, data)


NPY = (
    b"\x93NUMPY\x01\x00\x76\x00"
    + b"{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }".ljust(117)
    + b"\n"
    + DATA[:12]
)
VERSION_0 = {"shape": [2, 3], "dtype": "int16", "npyfile": BLOB, "npyoff": 0}


def test_a_record_of_version_0_points_at_a_npy_header():
    assert plain(read(VERSION_0, NPY)) == plain(np.frombuffer(DATA[:12], "int16").reshape(2, 3))


@pytest.mark.parametrize(
    "changes, data, message",
    [
        ({}, b"", "not a .npy header"),
        ({}, NPY[:9], "not a .npy header"),
        ({}, NPY[:100], "not a .npy header"),
        ({}, NPY[:-1], "not wholly there"),
        ({}, b"x" + NPY, "not a .npy header"),
        ({}, NPY.replace(b"\x01\x00\x76", b"\x09\x00\x76"), "not a .npy header|differs"),
        ({}, NPY.replace(b"descr", b"descR"), "not a .npy header"),
        ({}, NPY.replace(b"'<i2'", b"'<i4'"), "the .npy header differs"),
        ({}, NPY.replace(b"'<i2'", b"'|O' "), "the .npy header differs"),
        ({}, NPY.replace(b"(2, 3)", b"(3, 2)"), "the .npy header differs"),
        ({}, NPY.replace(b"(2, 3)", b"(-2, )"), "the .npy header differs|not a .npy header"),
        ({}, NPY.replace(b"False", b"0    "), "not a .npy header"),
        ({}, NPY.replace(b"{'descr'", b"[[[[[[[["), "not a .npy header"),
        ({"npyoff": 2**64}, NPY, "not a .npy header"),
        ({"npyoff": 1}, NPY, "not a .npy header"),
        ({"shape": [3, 2]}, NPY, "the .npy header differs"),
        ({"dtype": ">i2"}, NPY, "the .npy header differs"),
    ],
)
def test_a_hostile_npy_header_of_version_0_is_refused(changes, data, message):
    with pytest.raises(TraceError, match=message):
        read({**VERSION_0, **changes}, data)
