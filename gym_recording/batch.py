"""A batch as bytes: consecutive episodes <-> one header and one blob.

The JSON of the episodes is written twice: first to give every array its rows in a column (one per path, dtype and row
shape), then, when the columns have their offsets, with the array records. Reading takes one episode at a time; in its
members a JSON object is a dict or tuple of columns, a JSON list has one value per step. No file is opened here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii
from typing import Any, Callable, Iterator, NamedTuple, Sequence, Tuple

import numpy as np

from .columns import RowBuffers
from .episode import DictColumns, Episode, TupleColumns
from .errors import TraceError
from .format import (
    DATA_ALIGN,
    ROW_ALIGN,
    crc32,
    document_version,
    member,
    parse_name,
    read_array,
    read_document,
    record_text,
    row_size,
    write_document,
    write_npy_header,
)

Path = Tuple[Any, ...]

_JOIN_BELOW = 1 << 16  # bytes; smaller pieces are copied together, larger ones go to the system as they are
_ARRAYS = (("observations", ("observations",)), ("actions", ("actions",)), ("rewards", ("rewards",)))
_PLAIN_MEMBERS = ("terminated", "truncated", "ended_by", "seed", "started", "lane", "headless", "gaps")
_dumps = json.JSONEncoder(allow_nan=False).encode


# ---- writing


class EncodedBatch(NamedTuple):
    """The bytes of a batch. `blob` is in pieces, to be written one after the other; none if there is no array."""

    header: bytes
    blob: list[Any]


def encode_batch(episodes: Sequence[Mapping[str, Any]], first: int, blob: str) -> EncodedBatch:
    """The header and the blob of a batch.

    Args:
        episodes: dicts as `Lane` makes them.
        first: the number of the first episode in its trace.
        blob: the name that the blob will have.
    """
    layout = _Layout(blob)
    placing = _Text(layout.place, layout.place_loose)
    for episode in episodes:
        placing.members(episode)
    pieces = layout.lay()
    size = crc = 0
    for piece in pieces:
        size += len(piece)
        crc = crc32(piece, crc)
    blobs = [{"fn": blob, "size": size, "crc32": f"{crc:08x}"}] if pieces else []
    columns = ",\n".join([column.text() for column in layout.columns.values()])
    text = _Text(layout.record, layout.loose_record)
    texts = ",\n".join([_episode_text(episode, text.members(episode)) for episode in episodes])
    body = f'"first": {first}, "blobs": {_dumps(blobs)}, "columns": [{columns}],\n"episodes": [\n{texts}\n]'
    return EncodedBatch(write_document(body), pieces)


class _Column:
    """The rows of one path, dtype and row shape of all episodes of the batch; or one loose array, with a single row."""

    def __init__(self, path: Path, dtype: np.dtype[Any], row_shape: tuple[int, ...]) -> None:
        self.path, self.dtype, self.row_shape = path, dtype, row_shape
        self.row_bytes = row_size(dtype, row_shape)
        # An episode starts at the next row whose offset is a multiple of 8: every `stride`-th.
        self.stride = ROW_ALIGN // math.gcd(self.row_bytes, ROW_ALIGN) if self.row_bytes else 1
        self.rows = 0
        self.pieces: list[Any] = []

    def append(self, array: Any) -> int:
        """Takes the rows of an array and gives the number of the first."""
        start = -(-self.rows // self.stride) * self.stride
        if start != self.rows:
            self.pieces.append(bytes((start - self.rows) * self.row_bytes))
        if isinstance(array, RowBuffers):
            self.pieces.extend([_bytes_of(row) for row in array.rows])
        else:
            self.pieces.append(_bytes_of(array))
        self.rows = start + array.shape[0]
        return start

    def lay(self, offset: int, blob: str, shape: tuple[int, ...]) -> list[Any]:
        """What comes next in the blob after `offset` bytes: padding, `.npy` header, rows."""
        self.npyhdr = -(-offset // DATA_ALIGN) * DATA_ALIGN
        head = bytes(self.npyhdr - offset) + write_npy_header(self.dtype, shape)
        self.offset = offset + len(head)
        self.end = self.offset + self.rows * self.row_bytes
        self.record = record_text(self.dtype, self.row_shape, blob)
        return [head, *self.pieces]

    def text(self) -> str:
        """The entry in the header's `columns`."""
        return (
            f'{self.record(self.rows, self.offset)[:-1]}, "npyhdr": {self.npyhdr}, "path": {_dumps(list(self.path))}}}'
        )


class _Layout:
    """Where the arrays of a batch lie. What is placed in one order is asked for in the same order."""

    def __init__(self, blob: str) -> None:
        self.blob = blob
        self.columns: dict[Any, _Column] = {}
        self.loose: list[_Column] = []
        self.placed: list[Any] = []  # (column, first row, rows), or (path, array) for an array without a row

    def place(self, array: Any, path: Path) -> str:
        shape = array.shape
        if not shape[0]:
            self.placed.append((path, array))
            return ""
        key = (path, array.dtype, shape[1:])
        column = self.columns.get(key)
        if column is None:
            column = self.columns[key] = _Column(*key)
        self.placed.append((column, column.append(array), shape[0]))
        return ""

    def place_loose(self, array: Any) -> str:
        column = _Column((), array.dtype, array.shape)
        column.pieces, column.rows = [_bytes_of(array)], 1
        self.loose.append(column)
        return ""

    def lay(self) -> list[Any]:
        """The pieces of the blob: the columns, then the loose arrays. From here on `record` answers."""
        self._place_empty()
        pieces: list[Any] = []
        offset = 0
        for column in self.columns.values():
            pieces += column.lay(offset, self.blob, (column.rows, *column.row_shape))
            offset = column.end
        for column in self.loose:
            pieces += column.lay(offset, self.blob, column.row_shape)
            offset = column.end
        self._next = iter(self.placed)
        self._next_loose = iter(self.loose)
        return list(_joined(pieces))

    def _place_empty(self) -> None:
        """Arrays without a row have the dtype of the first column of their path, their own if there is none."""
        by_path: dict[Path, _Column] = {}
        for column in self.columns.values():
            by_path.setdefault(column.path, column)
        for index, placement in enumerate(self.placed):
            if len(placement) == 2:
                path, array = placement
                if path not in by_path:
                    by_path[path] = self.columns[path, array.dtype, ()] = _Column(path, array.dtype, ())
                self.placed[index] = (by_path[path], 0, 0)

    def record(self, array: Any, path: Path) -> str:
        column, start, rows = next(self._next)
        if not rows:
            return record_text(column.dtype, (), self.blob)(0, column.offset)
        return column.record(rows, column.offset + start * column.row_bytes)  # type: ignore[no-any-return]

    def loose_record(self, array: Any) -> str:
        column = next(self._next_loose)
        text = record_text(column.dtype, column.row_shape, self.blob)(-1, column.offset)
        return f'{text[:-1]}, "npyhdr": {column.npyhdr}}}'


def _bytes_of(array: Any) -> Any:
    if array.nbytes < _JOIN_BELOW or not array.flags.c_contiguous:
        return array.tobytes()
    return array.reshape(-1).view(np.uint8).data


def _joined(pieces: list[Any]) -> Iterator[Any]:
    """The same bytes in fewer pieces: runs of small ones become one."""
    small: list[Any] = []
    for piece in pieces:
        if len(piece) < _JOIN_BELOW:
            small.append(piece)
            continue
        if small:
            yield b"".join(small)
            small = []
        yield piece
    if small:
        yield b"".join(small)


class _Text:
    """The JSON of episodes. `rows` gives that of an array of rows and its path, `loose` that of an array that is one value."""

    def __init__(self, rows: Callable[[Any, Path], str], loose: Callable[[Any], str]) -> None:
        self.rows = rows
        self.loose = loose

    def members(self, episode: Mapping[str, Any]) -> list[str]:
        """The members that may hold arrays."""
        members = [f'"{key}": {self.column(episode[key], path)}' for key, path in _ARRAYS]
        if "options" in episode:
            members.append(f'"options": {self.value(episode["options"])}')
        if "timestamps" in episode:
            members.append(f'"timestamps": {self.column(episode["timestamps"], ("timestamps",))}')
        if "infos" in episode:
            infos = [
                f'{{"key": {_plain_text(key)}, "rows": {self.column(info["rows"], ("infos", key, "rows"))}, '
                f'"values": {self.column(info["values"], ("infos", key, "values"))}}}'
                for key, info in episode["infos"].items()
            ]
            members.append(f'"infos": [{", ".join(infos)}]')
        return members

    def column(self, value: Any, path: Path) -> str:
        """What `Column.finish` gave."""
        if isinstance(value, (np.ndarray, RowBuffers)):
            return self.rows(value, path)
        if isinstance(value, tuple):
            return _tuple_text([self.column(item, (*path, index)) for index, item in enumerate(value)])
        if isinstance(value, Mapping):
            return _dict_text([(key, self.column(item, (*path, key))) for key, item in value.items()])
        return "[%s]" % ", ".join([self.value(item) for item in value])

    def value(self, value: Any) -> str:
        """One value in canonical form."""
        if isinstance(value, (np.ndarray, np.generic)):
            return self.loose(np.asarray(value))
        if isinstance(value, list):
            return "[%s]" % ", ".join([self.value(item) for item in value])
        if isinstance(value, tuple):
            return _tuple_text([self.value(item) for item in value])
        if isinstance(value, Mapping):
            return _dict_text([(key, self.value(item)) for key, item in value.items()])
        if value.__class__ is complex or (value.__class__ is float and not math.isfinite(value)):
            return self.loose(np.asarray(value))  # strict JSON has no such numbers
        return _plain_text(value)


def _episode_text(episode: Mapping[str, Any], members: list[str]) -> str:
    plain = [f'"{key}": {_plain_text(episode[key])}' for key in _PLAIN_MEMBERS if key in episode]
    return "{%s}" % ", ".join(members + plain)


def _plain_text(value: Any) -> str:
    """JSON without arrays. The kinds that every episode has come first: an encoder costs more than they do."""
    kind = value.__class__
    if kind is bool:
        return "true" if value else "false"
    if kind is str:
        return encode_basestring_ascii(value)
    return repr(value) if kind is int else _dumps(value)


def _tuple_text(items: list[str]) -> str:
    return '{{"__type": "tuple", "items": [{}]}}'.format(", ".join(items))


def _dict_text(items: list[tuple[Any, str]]) -> str:
    if all(key.__class__ is str and key != "__type" for key, _ in items):
        return "{{{}}}".format(", ".join([f"{_plain_text(key)}: {text}" for key, text in items]))
    return '{{"__type": "dict", "items": [{}]}}'.format(
        ", ".join([f"[{_plain_text(key)}, {text}]" for key, text in items])
    )


# ---- reading


class Header(NamedTuple):
    """A header whose own members are well-formed; its episodes are untrusted until `read_episode` has read them.

    Attributes:
        file: its name.
        version: the major version, 1 also for version 0.
        first: the number of its first episode in its trace; None in versions 0 and 1.
        blobs: `{name: (size, crc32)}`; empty in versions 0 and 1.
        columns, episodes: JSON objects.
    """

    file: str
    version: int
    first: int | None
    blobs: dict[str, tuple[int, str]]
    columns: list[dict[str, Any]]
    episodes: list[dict[str, Any]]


def read_header(data: bytes, file: str) -> Header:
    """The header in the bytes of `file`.

    Raises:
        TraceError: it is damaged or malformed.
    """
    document = read_document(data, file)
    episodes = member(document, "episodes", list, file)
    if not all(isinstance(episode, dict) for episode in episodes):
        raise TraceError("malformed", file=file, field="episodes", expected="objects")
    if document_version(document, file) < 2:
        return Header(file, 1, None, {}, [], episodes)
    blobs = {}
    for blob in member(document, "blobs", list, file):
        if not isinstance(blob, dict):
            raise TraceError("malformed", file=file, field="blobs", expected="objects", found=repr(blob)[:80])
        name, fn = parse_name(member(blob, "fn", str, file)), blob["fn"]
        if name is None or name.kind != "blob" or fn in blobs:
            raise TraceError("not the name of a blob", file=file, field="blobs.fn", found=repr(fn)[:80])
        blobs[fn] = (member(blob, "size", int, file), member(blob, "crc32", str, file))
    columns = member(document, "columns", list, file)
    return Header(file, 2, member(document, "first", int, file), blobs, columns, episodes)


def read_episode(header: Header, index: int, buffer: Callable[[str], Any]) -> Episode:
    """An episode of a batch.

    Args:
        header: of the batch.
        index: of the episode in the batch.
        buffer: gives the bytes of the blob of a name, as a read-only buffer.

    Raises:
        TraceError: it is malformed, or reaches beyond its blob.
    """
    source, file = header.episodes[index], header.file
    decoder = _Decoder(header, buffer)
    try:
        arrays = {key: decoder.column(source.get(key)) for key in ("observations", "actions", "rewards")}
        if header.version < 2:
            return Episode(**_old_shapes(arrays))
        members = {key: source[key] for key in _PLAIN_MEMBERS if key in source}
        for key, value in members.items():
            if not _MEMBER_CHECKS[key](value):
                raise TraceError("malformed", field=key, found=repr(value)[:80])
        members["gaps"] = tuple(members.get("gaps", ()))
        if "options" in source:
            members["options"] = decoder.value(source["options"])
        if "timestamps" in source:
            members["timestamps"] = decoder.column(source["timestamps"])
        if "infos" in source:
            members["infos"] = decoder.infos(source["infos"], len(arrays["observations"]))
        return Episode(**arrays, **members)
    except TraceError as error:
        error.file = error.file or file
        error.field = f"episodes[{index}]" + (f".{error.field}" if error.field else "")
        raise
    except RecursionError as error:
        raise TraceError("the JSON nests too deeply", file=file, field=f"episodes[{index}]") from error


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


_MEMBER_CHECKS: dict[str, Callable[[Any], bool]] = {
    "terminated": lambda value: type(value) is bool,
    "truncated": lambda value: type(value) is bool,
    "ended_by": lambda value: value in ("terminated", "truncated", "reset", "close", "crash"),
    "seed": lambda value: type(value) is int,
    "started": lambda value: type(value) is str,
    "lane": _is_count,
    "headless": lambda value: type(value) is bool,
    "gaps": lambda value: type(value) is list and all(map(_is_count, value)),
}


def _old_shapes(arrays: dict[str, Any]) -> dict[str, Any]:
    """Versions 0 and 1: T = 0 was stored with shape (1, 0), and steps before the first reset were not marked."""
    for key in ("actions", "rewards"):
        if isinstance(arrays[key], np.ndarray) and arrays[key].shape == (1, 0):
            arrays[key] = arrays[key].reshape(0)
    steps = len(arrays["rewards"])
    return {**arrays, "headless": 0 < steps == len(arrays["observations"])}


class _Decoder:
    """JSON values back to arrays and Python values, for one episode."""

    def __init__(self, header: Header, buffer: Callable[[str], Any]) -> None:
        self.header = header
        self.buffer = buffer
        self.asked: dict[str, int] = {}  # bytes of each blob: no more than there are, so no memory beyond them

    def array(self, record: dict[str, Any]) -> Any:
        file = self.header.file
        if self.header.version >= 2 and record.get("npyfile") not in self.header.blobs:
            raise TraceError(
                "not a blob of this batch", file=file, field="npyfile", found=repr(record.get("npyfile"))[:80]
            )
        array = read_array(record, self.buffer, file)
        blob = record["npyfile"]
        self.asked[blob] = self.asked.get(blob, 0) + array.nbytes
        if self.asked[blob] > len(self.buffer(blob)):
            raise TraceError("the arrays of an episode are larger than the blob they lie in", file=file, field="size")
        return array

    def column(self, value: Any) -> Any:
        """A member of an episode: one row per step."""
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, dict):
            raise TraceError("malformed", expected="an array record, object or list", found=repr(value)[:80])
        kind = value.get("__type") if self.header.version >= 2 or value.get("__type") == "ndarray" else None
        if kind == "ndarray":
            array = self.array(value)
            if not array.ndim:
                raise TraceError("an array without rows", field="shape")
            return array
        if kind == "tuple":
            columns: Any = TupleColumns(
                tuple(self.column(item) for item in member(value, "items", list, self.header.file))
            )
            lengths = set(map(len, columns.columns))
        else:
            columns = DictColumns((key, self.column(item)) for key, item in self.items(value, kind))
            lengths = set(map(len, columns.values()))
        if len(lengths) != 1:
            raise TraceError("the columns of a dict or tuple differ in length", found=str(sorted(lengths))[:80])
        return columns

    def value(self, value: Any) -> Any:
        """One value: of one step, or options."""
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, dict):
            return value
        kind = value.get("__type") if self.header.version >= 2 or value.get("__type") == "ndarray" else None
        if kind == "ndarray":
            array = self.array(value)
            is_scalar = not array.ndim and array.dtype.kind not in "SU" and array.dtype.names is None
            return array[()] if is_scalar else array  # NumPy's scalars of text lose trailing NULs
        if kind == "tuple":
            return tuple(self.value(item) for item in member(value, "items", list, self.header.file))
        return {key: self.value(item) for key, item in self.items(value, kind)}

    def items(self, value: dict[str, Any], kind: Any) -> Iterator[tuple[Any, Any]]:
        """The keys and values of an object, or of a dict whose keys JSON objects cannot have."""
        if kind is None:
            yield from value.items()
            return
        if kind != "dict":
            raise TraceError("unknown", field="__type", expected="ndarray, tuple or dict", found=repr(kind)[:80])
        for pair in member(value, "items", list, self.header.file):
            if not isinstance(pair, list) or len(pair) != 2 or isinstance(pair[0], (list, dict)):
                raise TraceError("malformed", field="items", expected="[key, value]", found=repr(pair)[:80])
            yield pair[0], pair[1]

    def infos(self, entries: Any, rows: int) -> list[dict[Any, Any]]:
        """The sparse columns of infos as one dict per row of the observations."""
        infos: list[dict[Any, Any]] = [{} for _ in range(rows)]
        if not isinstance(entries, list):
            raise TraceError("malformed", field="infos", expected="a list", found=repr(entries)[:80])
        for entry in entries:
            if not isinstance(entry, dict) or isinstance(entry.get("key"), (list, dict)):
                raise TraceError("malformed", field="infos", expected="key, rows, values", found=repr(entry)[:80])
            at, values = self.column(entry.get("rows")), self.column(entry.get("values"))
            if not isinstance(at, np.ndarray) or at.dtype != np.int64 or at.ndim != 1 or len(at) != len(values):
                raise TraceError("malformed", field="infos.rows", expected="int64, one per value")
            for row, value in zip(at.tolist(), values):
                if not 0 <= row < rows:
                    raise TraceError("no such row", field="infos.rows", expected=f"0 to {rows - 1}", found=str(row))
                infos[row][entry.get("key")] = value
        return infos
