"""Checks a recording against every rule of the format, and collects all that is wrong.

What readers complain of, a reader is asked for. What they need not look at is checked here: blobs, where arrays lie,
what is between them, whether members agree. Nothing is repaired or written here.
"""

from __future__ import annotations

import math
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Iterator, NamedTuple

import numpy as np

from . import files, format
from .episode import Episode
from .errors import MissingPackageError, TraceError
from .format import DATA_ALIGN, MAX_JSON_BYTES, ROW_ALIGN, is_current, manifest_name, member, parse_name
from .header import BlobEntry, read_episode, read_header
from .memory import Directory, Place
from .playback import TraceRecordingReader
from .values import Path, array_bytes, path_text, storable_dtype

_UTC = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z")
_SPARSE = (("infos",), ("frames",))  # members whose values are those of some rows
_TIME = "UTC, ISO 8601, as 2026-01-31T12:00:00.000000Z"


@dataclass
class Report:
    """What a check found.

    Attributes:
        problems: every rule that does not hold, by the text of the error.
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


def check_recording(directory: Place, report: Report | None = None) -> list[TraceError]:
    """Every problem of the recording in `directory`. A `report` that is given is filled.

    Raises:
        OSError: there is no such directory, or it cannot be read.
        MissingPackageError: an optional package is needed.
    """
    report = report or Report()
    with TraceRecordingReader(directory, on_error="skip") as reader:
        for error in reader.errors:
            report.add(error)
        traces: dict[str, dict[str, list[str]]] = {}
        if isinstance(reader.directory, str):
            os.stat(reader.directory)  # a reader takes one that does not exist for empty
        for file in files.listing(reader.directory):
            if (name := parse_name(file)) is not None:
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
                _Batch(report, reader, file).check()
        except TraceError as error:
            report.add(error)
    if not names["manifest"]:
        report.notes.append(f"{manifest_name(trace)}: not there yet, or never written because of a crash")
    for blob in names["blob"]:
        if format.header_name(trace, parse_name(blob).first) not in names["header"]:  # type: ignore[union-attr]
            report.notes.append(f"{blob}: without a header: being written, or left by a crash")


def _check_manifest(report: Report, directory: Directory, trace: str, headers: list[str]) -> None:
    """What a reader does not ask of a manifest."""
    file = manifest_name(trace)
    manifest = format.read_manifest(files.read(directory, file, MAX_JSON_BYTES), file)
    firsts = [parse_name(entry["fn"]).first for entry in manifest["batches"]]  # type: ignore[union-attr]
    for index, (entry, first) in enumerate(zip(manifest["batches"], firsts)):
        if entry.get("first") != first and (is_current(trace) or entry.get("first") is not None):
            report.add(_error(file, "malformed", f"batches[{index}].first", expected=first, found=entry.get("first")))
    if not is_current(trace):
        return
    if firsts != sorted(firsts):
        report.add(_error(file, "not in order", "batches"))
    if not _is_utc(manifest.get("created")):
        report.add(_error(file, "not a time", "created", expected=_TIME, found=repr(manifest.get("created"))))
    if manifest.get("closed") is not True:
        why = "repaired after a crash" if "repaired" in manifest else "still being recorded, or left by a crash"
        report.notes.append(f"{file}: not closed: {why}")
        headers = []
    for header in sorted({*headers} - {entry["fn"] for entry in manifest["batches"]}):
        report.add(_error(file, "closed, and yet a batch is not listed", "batches", expected=header))
    member(manifest, "writer", dict, file)


def _is_utc(text: Any) -> bool:
    try:
        return bool(_UTC.fullmatch(text) and datetime.fromisoformat(text[:19]))
    except (TypeError, ValueError):  # no text; the 31st of February
        return False


def _error(file: str, problem: str, field: str = "", **details: Any) -> TraceError:
    return TraceError(problem, file=file, field=field, **{key: str(text)[:90] for key, text in details.items()})


class _Column(NamedTuple):
    """Where a column lies, and which of its bytes episodes have: begin, end, whose."""

    begin: int
    end: int
    row_bytes: int
    rows: list[tuple[int, int, str]]


class _Batch:
    """The check of one batch."""

    def __init__(self, report: Report, reader: TraceRecordingReader, file: str) -> None:
        self.report = report
        self.buffer = reader.get_binfile
        self.file = file
        self.header = read_header(files.read(reader.directory, file, MAX_JSON_BYTES), file)
        # A streamed episode has a blob for every column. While it runs, their .npy headers are not up to date.
        self.streamed = any(blob != file[: -len("json")] + "bin" for blob in self.header.blobs)
        self.running = self.streamed and not any("ended_by" in episode for episode in self.header.episodes)
        self.columns: dict[tuple[Any, ...], _Column] = {}  # by blob, path, dtype and row shape
        self.rowless: dict[tuple[Any, ...], _Column] = {}  # by blob, path and dtype: no rows have no row shape
        self.placed: dict[str, list[tuple[int, int, str]]] = {blob: [] for blob in self.header.blobs}
        self.whole = True  # no error has left a hole in the picture of the blobs

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
        for blob, entry in header.blobs.items():
            self.buffer(blob)  # or there is nothing to look at
            with self.collecting("blobs"):
                self.check_blob(blob, entry)
        for index, record in enumerate(header.columns):
            with self.collecting(f"columns[{index}]"):
                self.place_column(record, f"columns[{index}]")
        known = len(self.columns) == len(header.columns)
        for index, source in enumerate(header.episodes):
            self.report.episodes += 1
            label = f"episodes[{index}]"
            with self.collecting(label):
                episode = read_episode(header, index, self.buffer)
                for path, record, stacked in _records(source) if current else ():
                    where = f"{label}.{path_text(path)}"
                    with self.collecting(where):
                        if known or not stacked:
                            self.place_rows(record, where, path) if stacked else self.place(record, where)
                if current:
                    self.check_members(episode, label)
        if self.whole:
            for (blob, *_), column in self.columns.items():  # episodes begin at rows whose offset is a multiple of 8
                skipped = (ROW_ALIGN // math.gcd(ROW_ALIGN, column.row_bytes) - 1) * column.row_bytes
                self.check_gaps(blob, column.rows, column.begin, column.end, skipped)
            for blob, entry in header.blobs.items():
                self.check_gaps(blob, self.placed[blob], 0, entry.size, DATA_ALIGN - 1)

    def check_blob(self, blob: str, entry: BlobEntry) -> None:
        if parse_name(blob) != parse_name(self.file)._replace(kind="blob"):  # type: ignore[union-attr]
            raise _error(self.file, "not a blob of this batch", "fn", found=blob)
        data, size = self.buffer(blob), entry.size
        if len(data) < size or (len(data) > size and not self.streamed):
            problem = "cut short" if len(data) < size else "too long"
            raise _error(blob, problem, expected=f"{size} bytes", found=f"{len(data)} bytes")
        if (actual := f"{format.crc32(memoryview(data)[entry.start : size]):08x}") != entry.crc32:
            raise _error(blob, "damaged", "crc32", expected=entry.crc32, found=actual)

    def read(self, record: Any) -> Any:
        """The array of a record of version 2."""
        if not isinstance(record, dict) or record.get("__type") != "ndarray" or "order" not in record:
            raise _error(self.file, "malformed", expected="__type ndarray, order C", found=repr(record))
        member(record, "size", int, self.file)  # version 0 has none
        if member(record, "npyfile", str, self.file) not in self.header.blobs:
            raise _error(self.file, "not a blob of this batch", "npyfile", found=record["npyfile"])
        array = format.read_array(record, self.buffer, self.file)
        if storable_dtype(array.dtype) != array.dtype:
            raise _error(self.file, "not little-endian", "dtype", found=record["dtype"])
        return array

    def place(self, record: Any, label: str) -> Any:
        """An array with a `.npy` header of its own."""
        array, offset, blob = self.read(record), record["npyoff"], record["npyfile"]
        head = member(record, "npyhdr", int, self.file)
        if offset % DATA_ALIGN:
            raise _error(self.file, "not aligned", "npyoff", expected=f"a multiple of {DATA_ALIGN}", found=offset)
        # In front of a streamed column there is room for more rows than it has.
        expected = format.write_npy_header(array.dtype, array.shape, (offset - head) * self.streamed)
        if not self.running and self.buffer(blob)[head:offset] != expected:
            raise _error(self.file, "not the .npy header of this array, ending at its data", "npyhdr", found=head)
        self.placed[blob].append((head, offset + array.nbytes, label))
        return array

    def place_column(self, record: Any, label: str) -> None:
        array, offset = self.place(record, label), record["npyoff"]
        path = tuple(member(record, "path", list, self.file))
        if not array.ndim or any(isinstance(part, (list, dict)) for part in path):
            raise _error(self.file, "malformed", "path", expected="the path of a leaf, and an array of rows")
        key = (record["npyfile"], path, array.dtype, array.shape[1:])
        if key in self.columns:
            raise _error(self.file, "its path, dtype and row shape are those of another", "path")
        self.columns[key] = _Column(offset, offset + array.nbytes, array_bytes(array.dtype, array.shape[1:]), [])
        self.rowless.setdefault(key[:3], self.columns[key])

    def place_rows(self, record: Any, label: str, path: Path) -> None:
        array, offset = self.read(record), record["npyoff"]
        if offset % ROW_ALIGN:
            raise _error(self.file, "not aligned", "npyoff", expected=f"a multiple of {ROW_ALIGN}", found=offset)
        if path[:1] in _SPARSE and path[2:] == ("rows",) and (np.diff(array) <= 0).any():
            raise _error(self.file, "not ascending", found=array.tolist())
        key = (record["npyfile"], path, array.dtype, array.shape[1:])
        column = self.columns.get(key) if len(array) else self.rowless.get(key[:3])
        at, room = (offset - column.begin, column.end - column.begin - array.nbytes) if column else (0, 0)
        if column is None or not 0 <= at <= room * bool(len(array)) or at % (column.row_bytes or 1):
            raise _error(
                self.file, "in no column of its path and kind", found=f"{array.dtype}{array.shape} at {offset}"
            )
        if array.nbytes:
            column.rows.append((offset, offset + array.nbytes, label))

    def check_gaps(self, blob: str, spans: list[tuple[int, int, str]], begin: int, end: int, most: int) -> None:
        """Spans are in order and do not overlap; between them are zeros, at most so many bytes."""
        at, before = begin, "the beginning"
        if self.streamed:  # loose arrays came as they were flushed; what a change in mid-episode left belongs to none
            spans, most = sorted({span[:2]: span for span in spans}.values()), end
        for start, stop, label in [*spans, (end, end, "the end")]:
            if start < at:
                self.report.add(_error(self.file, f"begins before {before} ends", label, expected=at, found=start))
            elif start - at > most or (not self.streamed and any(self.buffer(blob)[at:start])):
                self.report.add(_error(blob, "of no array", f"bytes {at} to {start}", expected=f"at most {most} zeros"))
            at, before = max(at, stop), label

    def check_members(self, episode: Episode, label: str) -> None:
        steps, ended_by, started, gaps = len(episode), episode.ended_by, episode.started, list(episode.gaps)
        flags, times = (episode.terminated, episode.truncated), episode.timestamps
        reasons = ["terminated"] if flags[0] else ["truncated"] if flags[1] else ["reset", "close", "crash"]
        kind = None if times is None else (str(getattr(times, "dtype", type(times))), getattr(times, "shape", None))
        is_open = self.running or not (self.streamed or any(flags))  # it runs; or its source did not say what ended it
        rules = [
            (ended_by in reasons or (is_open and ended_by is None), "ended_by", f"one of {reasons}", ended_by),
            (steps or flags == (None, None), "terminated", "no flags without steps", flags),
            (started is None or _is_utc(started), "started", _TIME, repr(started)),
            (kind in (None, ("float64", (steps,))), "timestamps", f"float64, ({steps},)", kind),
            (gaps == sorted({*gaps}) and max(gaps, default=-1) < steps, "gaps", f"ascending, below {steps}", gaps),
        ]
        for key, expected, found in [rest for holds, *rest in rules if not holds]:
            self.report.add(_error(self.file, "malformed", f"{label}.{key}", expected=expected, found=found))


def _records(source: dict[str, Any]) -> Iterator[tuple[Path, Any, bool]]:
    """The array records of an episode that decodes: path, record, whether it is one of rows."""
    keys = ("observations", "actions", "rewards", "timestamps", "options", "infos", "frames")
    stack: list[tuple[Path, Any, bool]] = [((key,), source[key], key != "options") for key in source if key in keys]
    stack.reverse()
    while stack:  # in the order of the text; no recursion: how deep it is was decided by somebody else
        path, value, stacked = stack.pop()
        items: Any = []
        if path in _SPARSE:
            keyed = [(one.get("key") if path == ("infos",) else index, one) for index, one in enumerate(value)]
            items = [((*path, key, part), one[part], True) for key, one in keyed for part in ("rows", "values")]
        elif isinstance(value, list):
            items = [(path, item, False) for item in value]
        elif isinstance(value, dict) and value.get("__type") == "ndarray":
            yield path, value, stacked
        elif isinstance(value, dict):
            kind = value.get("__type")
            pairs = value.items() if kind is None else enumerate(value["items"]) if kind == "tuple" else value["items"]
            items = [((*path, key), item, stacked) for key, item in pairs]
        stack += items[::-1]
