"""Copying: chosen episodes of a recording, written as a new one by the ordinary writer.

An episode becomes what a recorder would have handed over, column for column, so that it reads as it did. Each trace
with a chosen episode becomes a trace, with what its manifest says of it. What is in the source never changes.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from typing import Any, Iterator, NamedTuple

import numpy as np

from . import files
from .columns import Column, size_of
from .episode import DictColumns, Episode, TupleColumns
from .errors import TraceError
from .format import EPISODE_ARRAYS, EPISODE_MEMBERS, parse_name
from .index import Trace
from .memory import MemoryDirectory, Place
from .playback import TraceRecordingReader
from .recording import BATCH_BYTES, TraceRecording
from .sparse import Frames
from .values import Path, snapshot, storable_dtype


class Copied(NamedTuple):
    """What was copied.

    Attributes:
        episodes: how many.
        running: the numbers, in the source, of those that were left out because they have not ended.
    """

    episodes: int
    running: list[int]


def copy_episodes(source: Place | TraceRecordingReader, destination: Place) -> Copied:
    """Writes the episodes of a recording, or of a view of one (`TraceRecordingReader.select`), as a new recording.

    They equal those of the source bit for bit, whichever version that is of, with all that is known of them and of
    their traces. Only the order is that of the copy. Checksums are compared. Episodes that have not ended are left out.

    Args:
        source: a directory or a reader.
        destination: where nothing is recorded yet. To add to a recording, `merge` the copy into it.

    Raises:
        TraceError: something is recorded at the destination; or something in the source is missing or damaged, and
            nothing is written.
        OSError: a file could not be written. What is there until then is no copy of all, and not closed.
    """
    reader = source if isinstance(source, TraceRecordingReader) else TraceRecordingReader(source)
    reader = reader._apart()
    # The copy gets checksums of its own, so nothing is copied whose own were not compared.
    reader._source.verify, reader._source._outlines = True, {}
    place = destination if isinstance(destination, MemoryDirectory) else os.fsdecode(destination)
    there = [name for name in files.listing(place) if parse_name(name)]
    if there:
        raise TraceError("something is recorded here; copy to another directory, and `merge` that", file=str(place))
    for _ in reader:
        pass  # what is missing or damaged is said before anything is written
    count, running = 0, []
    for trace, chosen in _by_trace(reader):
        library = trace.writer.get("library")
        options: dict[str, Any] = {"env": trace.env or None, "metadata": trace.metadata, "library": library}
        recording = TraceRecording(destination, **options)
        try:
            size = 0
            for number in chosen:
                episode = reader[number]
                if episode.ended_by is None and _runs(reader, trace, number):
                    running.append(int(reader.numbers[number]))
                    continue
                recording.episodes.append(as_recorded(episode))
                recording.episode_id += 1
                count += 1
                size += sum(map(size_of, recording.episodes[-1].values()))
                if size >= BATCH_BYTES:
                    recording.save_complete()
                    size = 0
            recording.close()
        except BaseException:
            recording._trace.abandon()  # else the rest might follow at exit, and pass for a whole copy
            raise
    return Copied(count, running)


def _by_trace(reader: TraceRecordingReader) -> Iterator[tuple[Trace, range]]:
    """The traces that a reader or view has episodes of, and the numbers of these in it."""
    numbers = reader.numbers
    for trace in reader.traces:
        chosen = range(bisect_left(numbers, trace.numbers.start), bisect_left(numbers, trace.numbers.stop))
        if chosen:
            yield trace, chosen


def _runs(reader: TraceRecordingReader, trace: Trace, number: int) -> bool:
    """Whether an episode without `ended_by` runs, or did when its writer died; else nobody knows what ended it."""
    if trace.closed or trace.repaired:
        return False
    batch, _ = reader._source.index.locate(int(reader.numbers[number]))
    return reader.read_header(batch).runs


def as_recorded(episode: Episode) -> dict[str, Any]:
    """An episode as a recorder hands it over."""
    recorded = {key: _column(getattr(episode, key), (key,)) for key in EPISODE_ARRAYS}
    for key in EPISODE_MEMBERS:
        value = getattr(episode, key)
        if not (value is None or (key == "headless" and not value)):
            recorded[key] = list(value) if key == "gaps" else value
    if not recorded["gaps"]:
        del recorded["gaps"]
    if episode.options is not None:
        recorded["options"] = snapshot(episode.options, ("options",))
    if episode.timestamps is not None:
        recorded["timestamps"] = _column(episode.timestamps, ("timestamps",))
    if episode.infos is not None:
        recorded["infos"] = _infos(episode.infos)
    if episode.frames is not None:
        frames = Frames()
        for row, frame in enumerate(episode.frames):
            frames.add(row, frame)
        recorded["frames"] = list(frames.finish(Column.finish).values())
    return recorded


def _infos(infos: list[dict[Any, Any]]) -> dict[Any, dict[str, Any]]:
    """The infos of each row by key."""
    found: dict[Any, dict[int, Any]] = {}
    for row, info in enumerate(infos):
        for key, value in info.items():
            found.setdefault(key, {})[row] = value
    return {
        key: {"rows": np.array(list(values), "int64"), "values": _stacked(list(values.values()), ("infos", key))}
        for key, values in found.items()
    }


def _stacked(values: list[Any], path: Path) -> Any:
    """Values as they stack."""
    if any(map(_has_number, values)):  # one of Python, so they were not stacked: it would become one of NumPy
        return [snapshot(value, path) for value in values]
    column = Column(path)
    for value in values:
        column.add(value)
    return column.finish()


def _has_number(value: Any) -> bool:
    if isinstance(value, (dict, list, tuple)):
        return any(map(_has_number, value.values() if isinstance(value, dict) else value))
    return type(value) in (bool, int, float, complex)


def _column(rows: Any, path: Path) -> Any:
    """Rows as `Column.finish` gives them."""
    if isinstance(rows, np.ndarray):
        dtype = storable_dtype(rows.dtype)
        return rows if dtype == rows.dtype else rows.astype(dtype)  # files of 2017 may have another byte order
    if isinstance(rows, DictColumns):
        return {key: _column(column, (*path, key)) for key, column in rows.items()}
    if isinstance(rows, TupleColumns):
        return tuple(_column(column, (*path, number)) for number, column in enumerate(rows.columns))
    return [snapshot(row, path) for row in rows]
