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
from typing import Any, Iterator

import numpy as np

from . import files, format
from .batch import read_episode, read_header
from .episode import Episode
from .errors import MissingPackageError, TraceError
from .format import DATA_ALIGN, MAX_JSON_BYTES, ROW_ALIGN, is_current, manifest_name, member, parse_name
from .playback import TraceRecordingReader
from .values import Path, path_text, storable_dtype

_UTC = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]{1,6})?Z")
_TIME = "UTC, ISO 8601, as 2026-01-31T12:00:00.000000Z"


@dataclass
class Report:
    """What a check found.

    Attributes:
        problems: every rule that does not hold, and where.
        notes: what is no problem and yet worth knowing: traces that are not closed, leftovers of a crash.
        traces, batches, episodes: how many were looked at.
    """

    notes: list[str] = field(default_factory=list)
    traces: int = 0
    batches: int = 0
    episodes: int = 0
    _problems: dict[str, TraceError] = field(default_factory=dict)

    @property
    def problems(self) -> list[TraceError]:
        return list(self._problems.values())

    def add(self, problem: TraceError) -> None:
        """Adds a problem, once."""
        if isinstance(problem, MissingPackageError):
            raise problem  # what cannot be decoded here may be right
        self._problems.setdefault(str(problem), problem)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Adds the `TraceError` that ends the block, if one does."""
        try:
            yield
        except TraceError as error:
            self.add(error)


def check_recording(directory: str | os.PathLike[str]) -> list[TraceError]:
    """Every problem of a recording.

    Raises:
        OSError: there is no such directory, or it cannot be read.
        MissingPackageError: an optional package is needed.
    """
    return report_on(directory).problems


def report_on(directory: str | os.PathLike[str]) -> Report:
    """The same with notes, and how much was looked at."""
    report = Report()
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
        for trace in sorted(traces, key=format.natural_key):
            report.traces += 1
            headers = traces[trace]["header"]
            if traces[trace]["manifest"]:
                with report.collecting():
                    _check_manifest(report, reader.directory, trace, headers)
            else:
                report.notes.append(f"{manifest_name(trace)}: not there yet, or never written because of a crash")
            for file in headers:
                report.batches += 1
                with report.collecting():
                    _Batch(report, reader, trace, file).check()
            for blob in traces[trace]["blob"]:
                if format.header_name(trace, parse_name(blob).first) not in headers:  # type: ignore[union-attr]
                    report.notes.append(f"{blob}: without a header: being written, or left by a crash")
    return report


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
    created = manifest.get("created")
    if not _is_utc(created):
        found = repr(created)[:80]
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
class _Placed:
    """A column, or a loose array: where it lies, and which spans of it episodes have: begin, end, whose."""

    label: str
    dtype: np.dtype[Any]
    row_shape: tuple[int, ...]
    head: int  # where its .npy header begins
    begin: int
    end: int
    spans: list[tuple[int, int, str]] = field(default_factory=list)

    @property
    def row_bytes(self) -> int:
        return int(self.dtype.itemsize) * math.prod(self.row_shape)

    def holds(self, array: Any, offset: int) -> bool:
        """Whether the rows at `offset` can be some of this column; no rows have no row shape."""
        inside = self.begin <= offset and offset + array.nbytes <= self.end
        fits = not len(array) or (
            array.shape[1:] == self.row_shape and not (offset - self.begin) % (self.row_bytes or 1)
        )
        return bool(array.dtype == self.dtype and inside and fits)


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
        self.columns: dict[tuple[str, Path], list[_Placed]] = {}
        self.placed: dict[str, list[_Placed]] = {blob: [] for blob in self.header.blobs}
        self.whole = True  # no error has left a hole in the picture of the blobs

    def error(self, problem: str, field: str = "", **details: Any) -> TraceError:
        return TraceError(
            problem, file=self.file, field=field, **{word: str(text)[:90] for word, text in details.items()}
        )

    @contextmanager
    def collecting(self, where: str) -> Iterator[None]:
        """Adds the error that ends the block; `where` in the header it is, unless the error says it."""
        with self.report.collecting():
            try:
                yield
            except TraceError as error:
                self.whole = False
                if error.file == self.file and not (error.field or "").startswith(where):
                    error.field = f"{where}.{error.field}" if error.field else where
                raise

    def check(self) -> None:
        header = self.header
        if header.version < 2 and is_current(self.trace):
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
                for path, record, stacked in _records(source) if header.version >= 2 else ():
                    with self.collecting(f"{label}.{path_text(path)}"):
                        (self.place_rows if stacked else self.place_loose)(record, label, path)
                if header.version >= 2:
                    self.check_members(episode)
        for blob, placed in self.placed.items() if self.whole else ():
            for column in placed:
                # An episode starts at the next row whose offset is a multiple of 8.
                skipped = (ROW_ALIGN // math.gcd(ROW_ALIGN, column.row_bytes) - 1) * column.row_bytes
                self.check_gaps(blob, column.spans, column.begin, column.end, skipped)
            spans = [(column.head, column.end, column.label) for column in placed]
            self.check_gaps(blob, spans, 0, header.blobs[blob][0], DATA_ALIGN - 1)

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

    # ---- where arrays lie

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

    def place_loose(self, record: Any, label: str, path: Path = ()) -> _Placed:
        """An array with a `.npy` header of its own."""
        array, offset, blob = self.read(record), record["npyoff"], record["npyfile"]
        head = member(record, "npyhdr", int, self.file)
        if offset % DATA_ALIGN:
            raise self.error("not aligned", "npyoff", expected=f"a multiple of {DATA_ALIGN}", found=offset)
        if not self.streamed and self.buffer(blob)[head:offset] != format.write_npy_header(array.dtype, array.shape):
            raise self.error(
                "not where the .npy header of this array begins, which ends at its data", "npyhdr", found=head
            )
        label = f"{label}.{path_text(path)}" if path else label
        placed = _Placed(label, array.dtype, array.shape[1:], head, offset, offset + array.nbytes)
        self.placed[blob].append(placed)
        return placed

    def place_column(self, record: Any, label: str) -> None:
        column = self.place_loose(record, label)
        path = tuple(member(record, "path", list, self.file))
        if not record["shape"] or any(isinstance(part, (list, dict)) for part in path):
            raise self.error("malformed", expected="rows, and the path of a leaf")
        others = self.columns.setdefault((record["npyfile"], path), [])
        for other in others:
            if (other.dtype, other.row_shape) == (column.dtype, column.row_shape):
                raise self.error(f"of the path, dtype and row shape of {other.label}")
        others.append(column)

    def place_rows(self, record: Any, label: str, path: Path) -> None:
        """Rows of a column."""
        array, offset = self.read(record), record["npyoff"]
        if offset % ROW_ALIGN:
            raise self.error("not aligned", "npyoff", expected=f"a multiple of {ROW_ALIGN}", found=offset)
        for column in self.columns.get((record["npyfile"], path), ()):
            if column.holds(array, offset):
                column.spans += [(offset, offset + array.nbytes, label)] if array.nbytes else []
                return
        found = f"{array.dtype}{list(array.shape)} at {offset}"
        raise self.error("not rows of a column of this path, dtype and row shape", found=found)

    def check_gaps(self, blob: str, spans: list[tuple[int, int, str]], begin: int, end: int, most: int) -> None:
        """Spans must not overlap; between them are zeros, at most so many bytes."""
        at, before = begin, "the beginning"
        for start, stop, label in [*sorted(spans), (end, end, "the end")]:
            if start < at:
                self.report.add(self.error(f"overlaps {before}", label, expected=f"from byte {at} on", found=start))
            elif start - at > most or any(self.buffer(blob)[at:start]):
                field, padding = f"bytes {at} to {start}", f"padding, at most {most} zeros"
                self.report.add(TraceError("belong to nothing", file=blob, field=field, expected=padding))
            at, before = max(at, stop), label

    # ---- whether members agree

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
