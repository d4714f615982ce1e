"""The format: every key, name pattern and alignment rule. FORMAT.md is the text that this module implements.

What stands here is the same for manifests, headers and blobs: file names, sealed JSON documents, array records and the
`.npy` headers in front of arrays; each `write_x` has its `read_x`. Bytes in, bytes out: no file is opened, no clock and
no pid is known. How the episodes of a batch lie in its blob is in `batch`.
"""

from __future__ import annotations

import json
import re
import warnings
from functools import lru_cache
from io import BytesIO
from typing import Any, Callable, Literal, NamedTuple, Sequence

import numpy as np

from .errors import TraceError
from .values import MAX_INT_BITS, MAX_NDIM, VIEWS, array_bytes, dtype_text, parse_dtype, view_name, viewed_dtype

try:
    from isal.isal_zlib import crc32 as crc32  # the same values, many times faster
except ImportError:
    from zlib import crc32 as crc32

VERSION = (2, 0)
ROW_ALIGN = 8  # every array record; version 1 readers map float64 straight at it
DATA_ALIGN = 64  # every column; NumPy's own alignment of .npy data, a cache line
MAX_EPISODES = 10**9  # of a batch
MAX_JSON_BYTES = 1 << 30  # of a manifest or header

EPISODE_ARRAYS = ("observations", "actions", "rewards")
EPISODE_MEMBERS = ("terminated", "truncated", "ended_by", "seed", "started", "lane", "headless", "gaps")  # plain JSON

FORMAT = json.dumps({"name": "gym-recording", "version": list(VERSION)})

# ---- names


class Name(NamedTuple):
    """The parts of a file name. `token` is `<pid>` in versions 0 and 1, `<pid>-<12 hex>` in version 2."""

    trace: str
    kind: str  # "manifest", "header" or "blob"
    first: int  # number of the batch's first episode; 0 for a manifest


_NAME = re.compile(
    r"(?P<trace>openaigym\.trace\.[0-9]{1,20}\.[0-9]{1,20}(?:-[0-9a-f]{12})?)"
    r"\.(?:manifest\.json|ep(?P<first>[0-9]{9,18})(?:\.(?P<header>json)|(?:\.[0-9]{1,6})?\.bin))",
    re.ASCII,
)
_LOCK = re.compile(r"openaigym\.trace\.(?P<token>[0-9]{1,20}-[0-9a-f]{12})\.lock", re.ASCII)
_TEMPORARY = re.compile(r"\.(?P<name>openaigym\.trace\..{1,200})\.[0-9a-f]{12}\.tmp", re.ASCII)


def trace_name(counter: int, token: str) -> str:
    """`openaigym.trace.<id>.<pid>-<12 hex>`, the beginning of all names of a trace."""
    return f"openaigym.trace.{counter}.{token}"


def lock_name(token: str) -> str:
    """The lock that a process holds while a recorder of its own is open."""
    return f"openaigym.trace.{token}.lock"


def parse_lock(name: str) -> str | None:
    """The token in the name of a lock; None for other files."""
    match = _LOCK.fullmatch(name)
    return match["token"] if match else None


def parse_temporary(name: str) -> str | None:
    """The name that a temporary was to get; None for other files."""
    match = _TEMPORARY.fullmatch(name)
    return match["name"] if match else None


def token_of(trace: str) -> str:
    """The token in the name of a trace."""
    return trace.rpartition(".")[2]


def number_of(trace: str) -> int:
    """The number in the name of a trace."""
    return int(trace.split(".")[2])


def is_current(trace: str) -> bool:
    """Whether the name of a trace is of version 2."""
    return re.search(r"-[0-9a-f]{12}$", trace) is not None


def manifest_name(trace: str) -> str:
    """The manifest of a trace."""
    return f"{trace}.manifest.json"


def header_name(trace: str, first: int) -> str:
    """The header of the batch whose first episode has the number `first`."""
    return f"{trace}.ep{first:09}.json"


def blob_name(trace: str, first: int, column: int | None = None) -> str:
    """The blob of that batch, or, of a streamed one, that of a column."""
    return f"{trace}.ep{first:09}.bin" if column is None else f"{trace}.ep{first:09}.{column}.bin"


@lru_cache(maxsize=1024)
def parse_name(name: str) -> Name | None:
    """The parts of a file name, None for files that are none of ours."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    if match["first"] is None:
        return Name(match["trace"], "manifest", 0)
    return Name(match["trace"], "header" if match["header"] else "blob", int(match["first"]))


def natural_key(name: str) -> list[Any]:
    """Sorts names with the numbers in them compared as numbers."""
    return [int(part) if part.isdigit() else part for part in re.split("([0-9]+)", name)]


# ---- sealed JSON documents: manifests and headers

_SEAL = b'"crc32": "00000000"'
_SEAL_AT = re.compile(rb'"crc32"\s*:\s*"([0-9a-f]{8})"')

_INT_DIGITS = len(str(2**MAX_INT_BITS))
_EVERY = 61  # an int of too many digits shows in every so many bytes; nothing else has so many digits in a row there
_MANY_DIGITS = re.compile(rb"[0-9]{%d}" % (_INT_DIGITS // _EVERY))


def write_document(body: str) -> bytes:
    """A version 2 document around `body`, the JSON of its further members. The checksum is of the file's own bytes."""
    text = f'{{"format": {FORMAT}, "crc32": "00000000", {body}}}\n'.encode("ascii")
    at = text.index(_SEAL) + len(_SEAL) - 9
    return b"%b%08x%b" % (text[:at], crc32(text), text[at + 8 :])


def read_document(data: bytes, file: str) -> dict[str, Any]:
    """The members of a manifest or header of any version, whose checksum is right if it has one.

    Raises:
        TraceError: not strict JSON (versions 0 and 1 may have NaN and infinities), not an object, of a later major
            version, a key twice, or another checksum.
    """
    lenient: list[str] = []

    def constant(token: str) -> float:
        lenient.append(token)
        return float(token.replace("Infinity", "inf"))

    parse_int = _short_int if _MANY_DIGITS.search(data[::_EVERY]) else None  # a call for every int, which is slow
    try:
        text = data.decode("utf-8")
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=constant, parse_int=parse_int)
    except TraceError as error:
        error.file = file
        raise
    except RecursionError as error:
        raise TraceError("the JSON nests too deeply", file=file) from error
    except MemoryError as error:
        raise TraceError("too large for the memory", file=file) from error
    except ValueError as error:
        raise TraceError(f"not valid JSON: {error}", file=file) from error
    if not isinstance(document, dict):
        raise TraceError("wrong top level", file=file, expected="an object", found=type(document).__name__)
    version = document_version(document, file)
    name = parse_name(file)
    if name is not None and is_current(name.trace) != (version >= 2):
        raise TraceError("not of the version that its name says", file=file, field="format", found=f"version {version}")
    if version >= 2:
        if lenient:
            raise TraceError("not strict JSON", file=file, found=lenient[0])
        seal = _SEAL_AT.search(data)
        if seal is None or document.get("crc32") != seal[1].decode():
            raise TraceError("no checksum", file=file, field="crc32", expected="8 hex digits")
        actual = b"%08x" % crc32(data[: seal.start(1)] + b"00000000" + data[seal.end(1) :])
        if actual != seal[1]:
            raise TraceError("damaged", file=file, field="crc32", expected=seal[1].decode(), found=actual.decode())
    return document


def _short_int(text: str) -> int:
    number = int(text) if len(text) <= _INT_DIGITS + 1 else None
    if number is None or number.bit_length() > MAX_INT_BITS:
        raise TraceError("an int of too many bits", expected=f"at most {MAX_INT_BITS}")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise TraceError("a key stands twice", field=key[:80])
            seen.add(key)
    return members


def document_version(document: dict[str, Any], file: str) -> int:
    """The major version: 1 for documents without `format` (version 0 tells itself apart by its array records).

    Raises:
        TraceError: `format` is malformed, or of a version that this package does not know.
    """
    if "format" not in document:
        return 1
    field = document["format"]
    version = field.get("version") if isinstance(field, dict) and field.get("name") == "gym-recording" else None
    if not (isinstance(version, list) and len(version) == 2 and all(type(part) is int for part in version)):
        raise TraceError("not a recording", file=file, field="format", expected=FORMAT, found=repr(field)[:80])
    if version[0] != VERSION[0]:
        problem, expected = "of another version; a newer gym_recording may read it", f"{VERSION[0]}.x"
        found = ".".join(map(str, version))
        raise TraceError(problem, file=file, field="format.version", expected=expected, found=found)
    return VERSION[0]


def member(document: dict[str, Any], key: str, kind: type, file: str, default: Any = None) -> Any:
    """`document[key]`, which must be a `kind` (an int is not a bool); `default` where it is absent, if there is one.

    Raises:
        TraceError: it is of another type, or absent.
    """
    value = document.get(key, default)
    if type(value) is not kind or (type(value) is int and value < 0):
        found = "nothing" if key not in document else repr(value)[:80]
        raise TraceError("malformed", file=file, field=key, expected=kind.__name__, found=found)
    return value


def write_manifest(batches: Sequence[dict[str, Any]], members: dict[str, Any]) -> bytes:
    """A manifest that lists `batches` (`first`, `len`, `fn`) and has further `members`; null ones are left out."""
    body = {**{key: value for key, value in members.items() if value is not None}, "batches": list(batches)}
    return write_document(json.dumps(body, allow_nan=False)[1:-1])


def read_manifest(data: bytes, file: str) -> dict[str, Any]:
    """The members of a manifest; every entry of its `batches` is well-formed and names a header.

    Raises:
        TraceError: it is not so.
    """
    document = read_document(data, file)
    for entry in member(document, "batches", list, file):
        if not isinstance(entry, dict):
            raise TraceError("malformed", file=file, field="batches", expected="objects", found=repr(entry)[:80])
        name = parse_name(member(entry, "fn", str, file))
        if name is None or name.kind != "header":
            raise TraceError("not the name of a header", file=file, field="batches.fn", found=repr(entry["fn"])[:80])
        if member(entry, "len", int, file) > MAX_EPISODES:
            raise TraceError("too many episodes", file=file, field="batches.len", found=str(entry["len"])[:40])
        if entry.get("first") is not None:  # version 1 wrote null after a user threw the buffer away
            member(entry, "first", int, file)
    return document


def renamed(data: bytes, file: str, old: str, new: str) -> bytes:
    """A manifest or header of version 0 or 1 of the trace `old`, as one of the trace `new`.

    Raises:
        TraceError: as `read_document`.
    """
    document = read_document(data, file)
    try:
        if "batches" in document:
            document["batches"] = [{**entry, "fn": new + entry["fn"][len(old) :]} for entry in document["batches"]]
        else:
            document = _renamed_records(document, old, new)
        return json.dumps(document).encode()
    except RecursionError as error:
        raise TraceError("the JSON nests too deeply", file=file) from error


def _renamed_records(value: Any, old: str, new: str) -> Any:
    if isinstance(value, list):
        return [_renamed_records(item, old, new) for item in value]
    if not isinstance(value, dict):
        return value
    members = {key: _renamed_records(item, old, new) for key, item in value.items()}
    if value.get("__type") == "ndarray" and isinstance(value.get("npyfile"), str):
        members["npyfile"] = new + value["npyfile"][len(old) :]
    return members


# ---- array records and .npy headers


def stored_dtype(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], str | None]:
    """The dtype whose bytes are written, and the `view` that makes it what it is, None for NumPy's own dtypes."""
    view = view_name(dtype)
    return (dtype, None) if view is None else (np.dtype(VIEWS[view]), view)


def record_text(dtype: np.dtype[Any], row_shape: tuple[int, ...], blob: str) -> Callable[[int, int], str]:
    """A function that gives the JSON of the array record of `count` rows at `offset`. It only fills in two numbers.

    With `count` -1 the array is not one of rows, and `row_shape` its whole shape.
    """
    carrier, view = stored_dtype(dtype)
    rest = "".join(f", {length}" for length in row_shape)
    row_bytes = array_bytes(dtype, row_shape)
    middle = f'], "order": "C", "dtype": {json.dumps(dtype_text(carrier))}, "npyfile": {json.dumps(blob)}, "npyoff": '
    end = "}" if view is None else f', "view": "{view}"}}'

    def record(count: int, offset: int) -> str:
        shape = rest[2:] if count < 0 else f"{count}{rest}"
        return f'{{"__type": "ndarray", "shape": [{shape}{middle}{offset}, "size": {abs(count) * row_bytes}{end}'

    return record


def write_npy_header(dtype: np.dtype[Any], shape: tuple[int, ...], size: int = 0) -> bytes:
    """The `.npy` 1.0 header (numpy.lib.format) of a C-ordered array.

    It has `size` bytes if that is given and enough, else the next multiple of 64, so that the data stays aligned.
    """
    carrier, _ = stored_dtype(dtype)
    descr = dtype_text(carrier) if carrier.names is not None else repr(carrier.str)
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {tuple(map(int, shape))}, }}".encode("latin1")
    padding = max(size - (10 + len(text) + 1), -(10 + len(text) + 1) % DATA_ALIGN)
    return b"\x93NUMPY\x01\x00" + (len(text) + padding + 1).to_bytes(2, "little") + text + b" " * padding + b"\n"


def read_array(record: dict[str, Any], buffer: Callable[[str], Any], file: str) -> Any:
    """The array that a record of any version describes: a read-only view of the blob.

    Args:
        record: the JSON object, untrusted.
        buffer: gives the bytes of the blob of a name.
        file: the header, for error messages.

    Raises:
        TraceError: a member is malformed, or the array is not wholly inside the blob.
        MissingPackageError: a dtype of ml_dtypes, which is not installed.
    """
    shape = record.get("shape")
    if not isinstance(shape, list) or len(shape) > MAX_NDIM or not all(type(n) is int and n >= 0 for n in shape):
        raise TraceError("malformed", file=file, field="shape", expected="a list of lengths", found=repr(shape)[:80])
    if record.get("order", "C") != "C":
        raise TraceError("malformed", file=file, field="order", expected="C", found=repr(record["order"])[:80])
    try:
        dtype = parse_dtype(member(record, "dtype", str, file))
    except TraceError as error:
        error.file, error.field = file, "dtype"
        raise
    offset = member(record, "npyoff", int, file)
    blob = member(record, "npyfile", str, file)
    name = parse_name(blob)
    if name is None or name.kind != "blob":
        raise TraceError("not the name of a blob", file=file, field="npyfile", found=repr(blob)[:80])
    data = buffer(blob)
    order: Literal["C", "F"] = "C"
    if "size" not in record:  # version 0: the record points at a .npy header
        offset, order = _skip_npy_header(data, offset, dtype, shape, blob)
    size = array_bytes(dtype, shape)
    if record.get("size", size) != size or type(record.get("size", size)) is not int:
        raise TraceError(
            "wrong size", file=file, field="size", expected=str(size)[:40], found=repr(record["size"])[:40]
        )
    if offset + size > len(data):
        expected, found = f"{offset + size} bytes"[:60], f"{len(data)} bytes"
        raise TraceError("the array is not wholly there", file=blob, expected=expected, found=found)
    try:
        array: Any = np.ndarray(shape, dtype, data, offset, order=order)
    except (ValueError, TypeError, OverflowError) as error:
        raise TraceError(f"no such array: {error}", file=file, field="shape", found=repr(shape)[:80]) from error
    view = record.get("view")
    if view is not None:
        if not isinstance(view, str) or VIEWS.get(view) != dtype.name or dtype != dtype.newbyteorder("<"):
            raise TraceError(
                "malformed", file=file, field="view", expected="a view of its dtype", found=repr(view)[:80]
            )
        array = array.view(viewed_dtype(view))
    return array


def _skip_npy_header(data: Any, offset: int, dtype: Any, shape: list[int], blob: str) -> tuple[int, Literal["C", "F"]]:
    """The offset of the elements behind the `.npy` header at `offset`, and their order."""
    stream = BytesIO(data[offset : offset + 65536 + 16])
    try:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version}")
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of Python 2 on Windows: lengths with an L
            npy_shape, fortran, npy_dtype = reader(stream)
    except Exception as error:  # NumPy raises what its parts raise: ValueError, EOFError, SyntaxError, tokenize's
        raise TraceError(f"not a .npy header: {error}", file=blob, field=f"offset {offset}") from error
    if list(npy_shape) != shape or npy_dtype != dtype:
        found = f"{npy_dtype} {npy_shape}"[:80]
        raise TraceError("the .npy header differs", file=blob, expected=f"{dtype} {tuple(shape)}"[:80], found=found)
    return offset + stream.tell(), "F" if fortran else "C"
