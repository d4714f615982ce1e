"""A header read: what a batch holds, and one episode of it at a time.

Every byte is untrusted. The members of a header are checked when it is read, those of an episode when that is asked
for; an error says where it is. What the JSON of an episode means is said in `batch`, which writes it. Opens no file.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Iterator, NamedTuple

import numpy as np

from .episode import ENDED_BY, DictColumns, Episode, TupleColumns
from .errors import TraceError
from .format import (
    EPISODE_ARRAYS,
    EPISODE_MEMBERS,
    document_version,
    member,
    parse_name,
    read_array,
    read_document,
    write_document,
)
from .values import MAX_DEPTH, is_picture

FREE_ROWS = 10**6  # of an episode with infos or frames, beside those that its arrays have bytes for: each costs memory


class BlobEntry(NamedTuple):
    """What a header says of a blob: how many bytes count, and the checksum of those from `start` on."""

    size: int
    crc32: str
    start: int


class Header(NamedTuple):
    """A header whose own members are well-formed; its episodes are untrusted until `read_episode` has read them.

    Attributes:
        file: its name.
        version: the major version, 1 also for version 0.
        first: the number of its first episode in its trace; None in versions 0 and 1.
        blobs: by name; empty in versions 0 and 1.
        columns, episodes: JSON objects.
    """

    file: str
    version: int
    first: int | None
    blobs: dict[str, BlobEntry]
    columns: list[dict[str, Any]]
    episodes: list[dict[str, Any]]

    @property
    def runs(self) -> bool:
        """Whether its episode runs, or did when its writer died: it is streamed, and nothing has ended it.

        Elsewhere, an episode without `ended_by` is a copy of one of versions 0 and 1, and nobody knows what ended it.
        """
        is_streamed = self.version >= 2 and self.file[: -len("json")] + "bin" not in self.blobs
        return is_streamed and any("ended_by" not in episode for episode in self.episodes)


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
        blobs[fn] = BlobEntry(
            member(blob, "size", int, file), member(blob, "crc32", str, file), member(blob, "start", int, file, 0)
        )
    columns = member(document, "columns", list, file)
    return Header(file, 2, member(document, "first", int, file), blobs, columns, episodes)


def mark_crashed(data: bytes, file: str) -> bytes:
    """The header of a streamed episode that was still running, with `ended_by: "crash"`.

    Raises:
        TraceError: as `read_header`.
    """
    document = read_document(data, file)
    for episode in document["episodes"]:
        episode.setdefault("ended_by", "crash")
    body = {key: value for key, value in document.items() if key not in ("format", "crc32")}
    return write_document(json.dumps(body, allow_nan=False)[1:-1])


def read_episode(header: Header, index: int, buffer: Callable[[str], Any], whole: bool = True) -> Episode:
    """An episode of a batch.

    Args:
        header: of the batch.
        index: of the episode in the batch.
        buffer: gives the bytes of the blob of a name, as a read-only buffer.
        whole: False leaves out what not every step has: options, timestamps, infos.

    Raises:
        TraceError: it is malformed, or reaches beyond its blob.
    """
    source, file = header.episodes[index], header.file
    decoder = _Decoder(header, buffer)
    try:
        arrays = {key: _at(f".{key}", decoder.column, source.get(key), 0) for key in EPISODE_ARRAYS}
        if header.version < 2:
            return Episode(**_old_shapes(arrays))
        members = {key: source[key] for key in EPISODE_MEMBERS if key in source}
        for key, value in members.items():
            if not _MEMBER_CHECKS[key](value):
                raise TraceError("malformed", field=key, found=repr(value)[:80])
        members["gaps"] = tuple(members.get("gaps", ()))
        if not whole:
            return Episode(**arrays, **members)
        if "options" in source:
            members["options"] = _at(".options", decoder.value, source["options"], 0)
        if "timestamps" in source:
            members["timestamps"] = _at(".timestamps", decoder.column, source["timestamps"], 0)
        if "infos" in source:
            members["infos"] = decoder.infos(source["infos"], len(arrays["observations"]))
        if "frames" in source:
            members["frames"] = decoder.frames(source["frames"], len(arrays["observations"]))
        return Episode(**arrays, **members)
    except TraceError as error:
        error.file = error.file or file
        dot = "." if error.field and error.field[0] not in ".[" else ""
        error.field = f"episodes[{index}]{dot}{error.field or ''}"
        raise
    except RecursionError as error:
        raise TraceError("the JSON nests too deeply", file=file, field=f"episodes[{index}]") from error


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63  # what a reader in any language can hold


_MEMBER_CHECKS: dict[str, Callable[[Any], bool]] = {
    "terminated": lambda value: type(value) is bool,
    "truncated": lambda value: type(value) is bool,
    "ended_by": lambda value: value in ENDED_BY,
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
        self.seen: set[tuple[str, int, int]] = set()
        self.asked: dict[str, int] = {}  # bytes of each blob: no more than there are, so no memory beyond them

    def array(self, record: dict[str, Any]) -> Any:
        file = self.header.file
        if self.header.version >= 2 and "size" not in record:  # else it would be taken for one of version 0
            raise TraceError("malformed", file=file, field="size", expected="a length", found="nothing")
        blob: Any = record.get("npyfile")
        if self.header.version >= 2 and not (isinstance(blob, str) and blob in self.header.blobs):
            raise TraceError("not a blob of this batch", file=file, field="npyfile", found=repr(blob)[:80])
        array = read_array(record, self.buffer, file)
        entry = self.header.blobs.get(blob)
        if entry is not None and record["npyoff"] + array.nbytes > entry.size:
            raise TraceError("the array is not wholly in what counts of its blob", file=file, field="npyoff")
        place = (blob, record["npyoff"], array.nbytes)
        if place not in self.seen:  # records of the same bytes count once
            self.seen.add(place)
            self.asked[blob] = self.asked.get(blob, 0) + array.nbytes
        if self.asked.get(blob, 0) > len(self.buffer(blob)):
            raise TraceError("the arrays of an episode are larger than the blob they lie in", file=file, field="size")
        return array

    def kind(self, value: dict[str, Any], depth: int) -> Any:
        """What an object is: its `__type`, "object" if it has none. Old versions have no type but ndarray."""
        kind = value.get("__type", "object")
        if kind != "ndarray" and self.header.version < 2:
            kind = "object"
        elif kind == "object" and "__type" in value:
            raise _unknown_type(kind)
        if kind != "ndarray":
            _check_depth(depth)
        return kind

    def column(self, value: Any, depth: int = 0) -> Any:
        """A member of an episode: one row per step."""
        if isinstance(value, list):
            return [_at(f"[{i}]", self.value, item, depth) for i, item in enumerate(value)]
        if not isinstance(value, dict):
            raise TraceError("malformed", expected="an array record, object or list", found=repr(value)[:80])
        kind = self.kind(value, depth)
        if kind == "ndarray":
            array = self.array(value)
            if not array.ndim:
                raise TraceError("an array without rows", field="shape")
            return array
        if kind == "tuple":
            items = member(value, "items", list, self.header.file)
            columns: Any = TupleColumns(
                tuple(_at(f"[{i}]", self.column, item, depth + 1) for i, item in enumerate(items))
            )
            lengths = set(map(len, columns.columns))
        else:
            columns = DictColumns(
                (k, _at(f".{k}", self.column, item, depth + 1)) for k, item in self.items(value, kind)
            )
            lengths = set(map(len, columns.values()))
        if len(lengths) != 1:
            raise TraceError("the columns of a dict or tuple differ in length", found=str(sorted(lengths))[:80])
        return columns

    def value(self, value: Any, depth: int = 0) -> Any:
        """One value: of one step, or options."""
        if isinstance(value, list):
            _check_depth(depth)
            return [_at(f"[{i}]", self.value, item, depth + 1) for i, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        kind = self.kind(value, depth)
        if kind == "ndarray":
            array = self.array(value)
            is_scalar = not array.ndim and array.dtype.kind not in "SU" and array.dtype.names is None
            return array[()] if is_scalar else array  # NumPy's scalars of text lose trailing NULs
        if kind == "tuple":
            items = member(value, "items", list, self.header.file)
            return tuple(_at(f"[{i}]", self.value, item, depth + 1) for i, item in enumerate(items))
        return {key: _at(f".{key}", self.value, item, depth + 1) for key, item in self.items(value, kind)}

    def items(self, value: dict[str, Any], kind: Any) -> Iterator[tuple[Any, Any]]:
        """The keys and values of an object, or of a dict whose keys JSON objects cannot have."""
        if kind == "object":
            yield from value.items()
            return
        if kind != "dict":
            raise _unknown_type(kind)
        seen = set()
        for pair in member(value, "items", list, self.header.file):
            if not isinstance(pair, list) or len(pair) != 2 or isinstance(pair[0], (list, dict)):
                raise TraceError("malformed", field="items", expected="[key, value]", found=repr(pair)[:80])
            if pair[0] in seen:
                raise TraceError("a key stands twice", field="items", found=repr(pair[0])[:80])
            seen.add(pair[0])
            yield pair[0], pair[1]

    def infos(self, entries: Any, rows: int) -> list[dict[Any, Any]]:
        """The sparse columns of infos as one dict per row of the observations."""
        infos: list[dict[Any, Any]] = [{} for _ in range(self.rows(entries, rows, "infos"))]
        seen = set()
        for entry in entries:
            if not isinstance(entry, dict) or isinstance(entry.get("key"), (list, dict)):
                raise TraceError("malformed", field="infos", expected="key, rows, values", found=repr(entry)[:80])
            if entry.get("key") in seen:
                raise TraceError("a key stands twice", field="infos", found=repr(entry.get("key"))[:80])
            seen.add(entry.get("key"))
            for row, value in zip(*self.sparse(entry, rows, "infos", f".infos.{entry.get('key')}")):
                infos[row][entry.get("key")] = value
        return infos

    def frames(self, entries: Any, rows: int) -> Any:
        """The frames of each size as one array, or as a list of one for each row of the observations, or None."""
        frames: list[Any] = [None] * self.rows(entries, rows, "frames")
        for index, entry in enumerate(entries):
            if not isinstance(entry, dict):
                raise TraceError("malformed", field="frames", expected="rows, values", found=repr(entry)[:80])
            at, values = self.sparse(entry, rows, "frames", f".frames[{index}]")
            if not is_picture(values, 1):
                found = f"{getattr(values, 'dtype', type(values))}{getattr(values, 'shape', '')}"
                expected = "uint8, (n, height, width) or (n, height, width, channels)"
                raise TraceError("malformed", field=f"frames[{index}].values", expected=expected, found=found)
            if len(entries) == 1 and at == list(range(rows)):
                return values
            for row, frame in zip(at, values):
                if frames[row] is not None:
                    raise TraceError("a row stands twice", field=f"frames[{index}].rows", found=str(row))
                frames[row] = frame
        return frames

    def rows(self, entries: Any, rows: int, field: str) -> int:
        """Whether so many rows may have an object each; it gives their number."""
        if not isinstance(entries, list):
            raise TraceError("malformed", field=field, expected="a list", found=repr(entries)[:80])
        most = FREE_ROWS + sum(self.asked.values())
        if rows > most:
            raise TraceError(
                "more rows than its arrays can have", field=field, expected=f"at most {most}", found=f"{rows}"
            )
        return rows

    def sparse(self, entry: dict[str, Any], rows: int, field: str, where: str) -> tuple[list[int], Any]:
        """The rows of the observations that an entry has values for, and these."""
        at = _at(f"{where}.rows", self.column, entry.get("rows"), 1)
        values = _at(f"{where}.values", self.column, entry.get("values"), 1)
        if not isinstance(at, np.ndarray) or at.dtype != np.int64 or at.ndim != 1 or len(at) != len(values):
            raise TraceError("malformed", field=f"{field}.rows", expected="int64, one per value")
        for row in at.tolist():
            if not 0 <= row < rows:
                raise TraceError("no such row", field=f"{field}.rows", expected=f"0 to {rows - 1}", found=str(row))
        return at.tolist(), values


def _unknown_type(kind: Any) -> TraceError:
    return TraceError("unknown", field="__type", expected="ndarray, tuple or dict", found=repr(kind)[:80])


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise TraceError("nested too deeply", expected=f"at most {MAX_DEPTH} levels")


def _at(part: str, read: Callable[[Any, int], Any], value: Any, depth: int) -> Any:
    """Reads a part; an error tells where it is."""
    try:
        return read(value, depth)
    except TraceError as error:
        separator = "." if error.field and error.field[0] not in ".[" else ""
        error.field = f"{part[:80]}{separator}{error.field or ''}"[:200]
        raise
