"""Checks a recording against every rule of the format, and collects all that is wrong.

What a reader would complain of, the reader is asked for: manifests, missing and overlapping batches, episodes that do
not decode. What it need not look at is checked here: sizes and checksums of blobs, where arrays lie, what is between
them, whether members agree. Nothing is repaired or written here.
"""

from __future__ import annotations

import math
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Iterator, Tuple

import numpy as np

from . import files, format
from .batch import read_episode, read_header
from .episode import Episode
from .errors import MissingPackageError, TraceError
from .format import DATA_ALIGN, MAX_JSON_BYTES, ROW_ALIGN, is_current, manifest_name, member, parse_name
from .playback import TraceRecordingReader
from .values import Path, array_bytes, path_text, storable_dtype

Span = Tuple[int, int, str]  # begin, end, whose

_UTC = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]{1,6})?Z")
_TIME = "UTC, ISO 8601, as 2026-01-31T12:00:00.000000Z"


@dataclass
class Report:
    """What a check found.

    Attributes:
        problems: by its text, every rule that does not hold.
        notes: what is no problem and yet worth knowing: traces that are not closed, leftovers of a crash.
        traces, batches, episodes: how many were looked at.
    """

    problems: dict[str, TraceError] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    traces: int = 0
    batches: int = 0
    episodes: int = 0

    def add(self, problem: TraceError) -> None:
        if isinstance(problem, MissingPackageError):
            raise problem  # what cannot be decoded here may be right
        self.problems.setdefault(str(problem), problem)


def check_recording(directory: str | os.PathLike[str], report: Report | None = None) -> list[TraceError]:
    """Every problem of a recording.

    Args:
        directory: the recording.
        report: an empty one, which is filled.

    Raises:
        OSError: there is no such directory, or it cannot be read.
        MissingPackageError: an optional package is needed.
    """
    report = report or Report()
    os.listdir(directory)  # raises; for a reader, a missing directory is one without episodes
    with TraceRecordingReader(directory, on_error="skip") as reader:
        for error in reader.errors:
            report.add(error)
        traces: dict[str, dict[str, list[str]]] = {}
        for file in files.listing(reader.directory):
            name = parse_name(file)
            if name is not None:
                traces.setdefault(name.trace, {"manifest": [], "header": [], "blob": []})[name.kind].append(file)
            elif file.startswith(".") and file.endswith(".tmp"):
                report.notes.append(f"{file}: being written, or left by a crash")
        for trace, names in sorted(traces.items(), key=lambda item: format.natural_key(item[0])):
            _check_trace(report, reader, trace, names)
    return list(report.problems.values())


def _check_trace(report: Report, reader: TraceRecordingReader, trace: str, names: dict[str, list[str]]) -> None:
    report.traces += 1
    report.batches += len(names["header"])
    for file in names["manifest"] + names["header"]:
        try:
            if file == manifest_name(trace):
                _check_manifest(report, reader.directory, trace, names["header"])
            else:
                _Batch(report, reader, trace, file).check()
        except TraceError as error:
            report.add(error)
    if not names["manifest"]:
        report.notes.append(f"{manifest_name(trace)}: not there yet, or never written because of a crash")
    for blob in names["blob"]:
        if format.header_name(trace, parse_name(blob).first) not in names["header"]:  # type: ignore[union-attr]
            report.notes.append(f"{blob}: without a header: being written, or left by a crash")


def _check_manifest(report: Report, directory: str, trace: str, headers: list[str]) -> None:
    """What a reader does not ask of a manifest."""
    file = manifest_name(trace)
    manifest = format.read_manifest(files.read(directory, file, MAX_JSON_BYTES), file)
    for index, entry in enumerate(manifest["batches"]):
        first: int = parse_name(entry["fn"]).first  # type: ignore[union-attr]
        if entry.get("first") not in (first, None):
            where, found = f"batches[{index}].first", str(entry["first"])
            report.add(TraceError("not that of its header", file=file, field=where, expected=str(first), found=found))
    if format.document_version(manifest, file) < 2:
        if is_current(trace):
            report.add(TraceError("absent, and the trace is of version 2", file=file, field="format"))
        return
    if not _is_utc(manifest.get("created")):
        found = repr(manifest.get("created"))[:80]
        report.add(TraceError("not a time", file=file, field="created", expected=_TIME, found=found))
    if manifest.get("closed") is not True:
        report.notes.append(f"{file}: not closed: still being recorded, or left by a crash")
        return
    for header in sorted({*headers} - {entry["fn"] for entry in manifest["batches"]}):
        report.add(TraceError("closed, and yet a batch is not listed", file=file, field="batches", expected=header))


def _is_utc(text: Any) -> bool:
    match = _UTC.fullmatch(text) if isinstance(text, str) else None
    try:
        return match is not None and bool(datetime.fromisoformat(match[1]))
    except ValueError:  # the 31st of February
        return False


@dataclass
class _Column:
    """Where a column lies, and which of its bytes episodes have."""

    label: str
    dtype: np.dtype[Any]
    row_shape: tuple[int, ...]
    row_bytes: int
    begin: int
    end: int
    rows: list[Span] = field(default_factory=list)


class _Batch:
    """The check of one batch."""

    def __init__(self, report: Report, reader: TraceRecordingReader, trace: str, file: str) -> None:
        self.report = report
        self.buffer = reader.get_binfile
        self.trace = trace
        self.file = file
        self.header = read_header(files.read(reader.directory, file, MAX_JSON_BYTES), file)
        # A streamed episode has a blob for every column; it may be longer than stated, its .npy header late.
        self.streamed = any(blob != file[: -len("json")] + "bin" for blob in self.header.blobs)
        self.columns: dict[tuple[str, Path], list[_Column]] = {}
        self.placed: dict[str, list[Span]] = {blob: [] for blob in self.header.blobs}
        self.whole = True  # no error has left a hole in the picture of the blobs

    def error(self, problem: str, field: str = "", **details: Any) -> TraceError:
        texts = {word: str(detail)[:90] for word, detail in details.items()}
        return TraceError(problem, file=self.file, field=field, **texts)

    @contextmanager
    def collecting(self, where: str) -> Iterator[None]:
        """Adds the error that ends the block; `where` in the header it is, unless the error says it."""
        try:
            yield
        except TraceError as error:
            self.whole = False
            if error.file == self.file and not (error.field or "").startswith(where):
                error.field = f"{where}.{error.field}" if error.field else where
            self.report.add(error)

    def check(self) -> None:
        header, current = self.header, self.header.version >= 2
        if is_current(self.trace) and not current:
            self.report.add(self.error("absent, and the trace is of version 2", "format"))
        for blob, (size, crc) in header.blobs.items():
            with self.collecting("blobs"):
                self.check_blob(blob, size, crc)
        for index, record in enumerate(header.columns):
            with self.collecting(f"columns[{index}]"):
                self.place_column(record, f"columns[{index}]")
        for index, source in enumerate(header.episodes):
            self.report.episodes += 1
            label = f"episodes[{index}]"
            with self.collecting(label):
                episode = read_episode(header, index, self.buffer)
                for path, record, stacked in _records(source) if current else ():
                    where = f"{label}.{path_text(path)}"
                    with self.collecting(where):
                        self.place_rows(record, label, path) if stacked else self.place(record, where)
                if current:
                    self.check_members(episode)
        if self.whole:
            for (blob, _), columns in self.columns.items():
                for column in columns:  # an episode starts at the next row whose offset is a multiple of 8
                    skipped = (ROW_ALIGN // math.gcd(ROW_ALIGN, column.row_bytes) - 1) * column.row_bytes
                    self.check_gaps(blob, column.rows, column.begin, column.end, skipped)
            for blob, (size, _) in header.blobs.items():
                self.check_gaps(blob, self.placed[blob], 0, size, DATA_ALIGN - 1)

    def check_blob(self, blob: str, size: int, crc: str) -> None:
        if parse_name(blob) != parse_name(self.file)._replace(kind="blob"):  # type: ignore[union-attr]
            raise self.error("not a blob of this batch", "fn", found=blob)
        data = self.buffer(blob)
        if len(data) < size or (len(data) > size and not self.streamed):
            problem = "cut short" if len(data) < size else "too long"
            raise TraceError(problem, file=blob, expected=f"{size} bytes", found=f"{len(data)} bytes")
        actual = f"{format.crc32(memoryview(data)[:size]):08x}"
        if actual != crc:
            raise TraceError("damaged", file=blob, field="crc32", expected=crc, found=actual)

    def read(self, record: Any) -> Any:
        """The array of a record of version 2."""
        if not isinstance(record, dict) or record.get("__type") != "ndarray":
            raise self.error("malformed", "__type", expected="ndarray", found=repr(record))
        for key, kind in (("order", str), ("size", int)):  # version 0 has neither
            member(record, key, kind, self.file)
        if member(record, "npyfile", str, self.file) not in self.header.blobs:
            raise self.error("not a blob of this batch", "npyfile", found=record["npyfile"])
        array = format.read_array(record, self.buffer, self.file)
        if storable_dtype(array.dtype) != array.dtype:
            raise self.error("not little-endian", "dtype", found=record["dtype"])
        return array

    def place(self, record: Any, label: str) -> Any:
        """An array with a `.npy` header of its own."""
        array, offset, blob = self.read(record), record["npyoff"], record["npyfile"]
        head = member(record, "npyhdr", int, self.file)
        if offset % DATA_ALIGN:
            raise self.error("not aligned", "npyoff", expected=f"a multiple of {DATA_ALIGN}", found=offset)
        if not self.streamed and self.buffer(blob)[head:offset] != format.write_npy_header(array.dtype, array.shape):
            raise self.error("not the .npy header of this array, ending at its data", "npyhdr", found=head)
        self.placed[blob].append((head, offset + array.nbytes, label))
        return array

    def place_column(self, record: Any, label: str) -> None:
        array, offset = self.place(record, label), record["npyoff"]
        path = tuple(member(record, "path", list, self.file))
        if not array.ndim or any(isinstance(part, (list, dict)) for part in path):
            raise self.error("malformed", "path", expected="the path of a leaf, and an array of rows")
        columns = self.columns.setdefault((record["npyfile"], path), [])
        for other in columns:
            if (other.dtype, other.row_shape) == (array.dtype, array.shape[1:]):
                raise self.error("path, dtype and row shape are those of", found=other.label)
        row_bytes = array_bytes(array.dtype, array.shape[1:])
        columns.append(_Column(label, array.dtype, array.shape[1:], row_bytes, offset, offset + array.nbytes))

    def place_rows(self, record: Any, label: str, path: Path) -> None:
        array, offset = self.read(record), record["npyoff"]
        if offset % ROW_ALIGN:
            raise self.error("not aligned", "npyoff", expected=f"a multiple of {ROW_ALIGN}", found=offset)
        for column in self.columns.get((record["npyfile"], path), ()):
            inside = column.begin <= offset and offset + array.nbytes <= column.end
            fits = array.shape[1:] == column.row_shape and not (offset - column.begin) % (column.row_bytes or 1)
            if array.dtype == column.dtype and inside and (fits or not len(array)):  # no rows have no row shape
                column.rows += [(offset, offset + array.nbytes, label)] if array.nbytes else []
                return
        found = f"{array.dtype}{list(array.shape)} at {offset}"
        raise self.error("not rows of a column of its path, dtype and row shape", found=found)

    def check_gaps(self, blob: str, spans: list[Span], begin: int, end: int, most: int) -> None:
        """Spans must not overlap; between them are zeros, at most so many bytes."""
        at, before = begin, "the beginning"
        for start, stop, label in [*sorted(spans), (end, end, "the end")]:
            if start < at:
                self.report.add(self.error(f"overlaps {before}", label, expected=f"from byte {at} on", found=start))
            elif start - at > most or any(self.buffer(blob)[at:start]):
                field, padding = f"bytes {at} to {start}", f"padding, at most {most} zeros"
                self.report.add(TraceError("belong to nothing", file=blob, field=field, expected=padding))
            at, before = max(at, stop), label

    def check_members(self, episode: Episode) -> None:
        steps = len(episode)
        flag = "terminated" if episode.terminated else "truncated" if episode.truncated else None
        others = ("reset", "close", "crash", *([None] if self.streamed else []))
        if episode.ended_by not in ((flag,) if flag else others):
            expected = flag or "reset, close or crash: neither flag is true"
            raise self.error("not what the flags say", "ended_by", expected=expected, found=episode.ended_by)
        if episode.started is not None and not _is_utc(episode.started):
            raise self.error("not a time", "started", expected=_TIME, found=repr(episode.started))
        times = episode.timestamps
        if times is not None and (getattr(times, "dtype", None), np.shape(times)) != (np.dtype("float64"), (steps,)):
            raise self.error("malformed", "timestamps", expected=f"float64[{steps}]")
        if any(gap >= steps for gap in episode.gaps) or sorted({*episode.gaps}) != [*episode.gaps]:
            raise self.error("not steps in rising order", "gaps", expected=f"below {steps}", found=list(episode.gaps))


def _records(source: dict[str, Any]) -> Iterator[tuple[Path, Any, bool]]:
    """The array records of an episode that decodes: path, record, whether it is one of rows."""
    keys = ("observations", "actions", "rewards", "timestamps")
    stack: list[tuple[Path, Any, bool]] = [((key,), source.get(key), True) for key in keys]
    stack.append((("options",), source.get("options"), False))
    for info in source.get("infos", ()):
        stack += [(("infos", info.get("key"), part), info[part], True) for part in ("rows", "values")]
    while stack:  # no recursion: how deep it is was decided by somebody else
        path, value, stacked = stack.pop()
        if isinstance(value, list):
            stack += [(path, item, False) for item in value]
        elif isinstance(value, dict):
            kind = value.get("__type")
            if kind == "ndarray":
                yield path, value, stacked
                continue
            items = value.items() if kind is None else enumerate(value["items"]) if kind == "tuple" else value["items"]
            stack += [((*path, key), item, stacked) for key, item in items]
