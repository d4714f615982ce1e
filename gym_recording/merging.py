"""Merging: the files of several recordings in one directory.

Files are copied byte for byte, in the order in which they were committed: blobs, headers, the manifest. Names never
clash, because a process has random digits in them; those of 2017 have none, and then one gets another number. Whatever
is there already is left out, so a merge that was cut off is finished by the same merge again.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any, Iterator, NamedTuple

from . import files
from .errors import TraceError
from .format import (
    header_name,
    is_current,
    manifest_name,
    number_of,
    parse_name,
    renamed,
    token_of,
    trace_name,
)
from .index import Trace
from .memory import Directory, MemoryDirectory, Place
from .playback import TraceRecordingReader

_PIECE = 1 << 20  # bytes that are compared at once


class Merged(NamedTuple):
    """What a merge did.

    Attributes:
        copied: the names of the traces that are there now and were not, or not wholly.
        present: of those that were there already.
        renamed: the new names by the old ones; of traces of 2017 alone.
    """

    copied: list[str]
    present: list[str]
    renamed: dict[str, str]


class _File(NamedTuple):
    """A file that is to be at `name`: that in a directory, or rewritten bytes."""

    name: str
    kind: str
    source: Directory
    original: str
    data: bytes | None

    def bytes(self) -> Any:
        return files.view(self.source, self.original) if self.data is None else self.data


def merge(sources: Iterable[Place], destination: Place) -> Merged:
    """Copies the traces of several recordings into one directory, which may hold a recording already.

    All is looked at first, checksums included; if anything is wrong, nothing is copied.

    Args:
        sources: directories in which nobody records any more.
        destination: created if need be. Others may record to it meanwhile.

    Raises:
        FileNotFoundError: there is no such source.
        TraceError: nothing is recorded in a source; something there is missing, damaged, or not finished: its recorder
            is still open, or its process died, then `repair` it first; or another file has a name that is needed.
        OSError: a file could not be written. The same merge again goes on there.
    """
    if isinstance(sources, (str, bytes, os.PathLike, MemoryDirectory)):  # the letters of a path are no sources
        raise TraceError("malformed", field="sources", expected="a list of directories", found=repr(sources)[:80])
    directory = _held(destination)
    result = Merged([], [], {})
    planned: dict[str, _File] = {}
    traces: dict[str, set[str]] = {}
    there = _by_trace(directory)
    for source in map(_held, sources):
        for trace, names in _traces(source):
            name, plan = _plan(source, trace, names, directory, there, planned)
            if name != trace.name:
                result.renamed[trace.name] = name
            planned.update((file.name, file) for file in plan)
            traces.setdefault(name, set()).update(file.name for file in plan)
    files.open_directory(destination, sync=True)
    for name, wanted in traces.items():
        missing = [planned[file] for file in sorted(wanted.difference(there.get(name, set())))]
        for kind in ("blob", "header", "manifest"):
            some = [file for file in missing if file.kind == kind]
            for file in some:
                files.put(directory, file.name, [file.bytes()], sync=True)
            if some and isinstance(directory, str):
                files.sync_directory(directory)
        (result.copied if missing else result.present).append(name)
    return result


def _held(place: Place) -> Directory:
    return place if isinstance(place, MemoryDirectory) else os.path.abspath(os.fsdecode(place))


def _by_trace(directory: Directory) -> dict[str, set[str]]:
    """The names in a directory by that of their trace, also of files that are none of ours."""
    found: dict[str, set[str]] = {}
    for name in files.listing(directory):
        *trace, _ = name.split(".", 4)
        found.setdefault(".".join(trace), set()).add(name)
    return found


def _traces(source: Directory) -> Iterator[tuple[Trace, list[str]]]:
    """The traces of a recording, in order, with the names of their files."""
    if isinstance(source, str):
        os.listdir(source)  # an error unless it is a directory: a reader takes any path
    with TraceRecordingReader(source, verify=True) as reader:
        if not reader.traces:
            raise TraceError("nothing is recorded here", file=str(source))
        reader.complain()
        by_trace: dict[str, list[str]] = {}
        listing = set(files.listing(source))
        for file in sorted(listing):
            name = parse_name(file)
            # A blob without a header is of a commit that came to nothing.
            if name is not None and (name.kind != "blob" or header_name(name.trace, name.first) in listing):
                by_trace.setdefault(name.trace, []).append(file)
        for trace in reader.traces:
            if is_current(trace.name) and not (trace.closed or trace.repaired):
                problem = "not finished: close its recorder, or, if that died, run `gym-recording repair`"
                raise TraceError(problem, file=manifest_name(trace.name))
            for batch in trace.batches:
                reader.read_header(batch)
        for trace in reader.traces:
            yield trace, by_trace[trace.name]


def _plan(
    source: Directory,
    trace: Trace,
    names: list[str],
    directory: Directory,
    there: dict[str, set[str]],
    planned: dict[str, _File],
) -> tuple[str, list[_File]]:
    """What a trace is called at the destination, and its files there."""
    first = number_of(trace.name)
    for number in itertools.count(first):
        new = trace.name if number == first else trace_name(number, token_of(trace.name))
        plan = [_file(source, name, trace.name, new) for name in names]
        clash = next((file for file in plan if not _fits(file, directory, there.get(new, set()), planned)), None)
        if clash is None and there.get(new, set()) <= {file.name for file in plan}:
            return new, plan
        if is_current(trace.name):
            where = new if clash is None else clash.name
            raise TraceError("another file of this name is there", file=where, expected="the same bytes")
    raise AssertionError  # the count has no end


def _fits(file: _File, directory: Directory, there: set[str], planned: dict[str, _File]) -> bool:
    """Whether the place of a file is free, or has the same bytes."""
    others = [planned[file.name].bytes()] if file.name in planned else []
    if file.name in there:
        others.append(files.view(directory, file.name))
    return all(_equal(file.bytes(), other) for other in others)


def _equal(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(a[i : i + _PIECE] == b[i : i + _PIECE] for i in range(0, len(a), _PIECE))


def _file(source: Directory, original: str, old: str, new: str) -> _File:
    name = parse_name(original)
    assert name is not None
    data = None
    if new != old and name.kind != "blob":
        data = renamed(files.read(source, original), original, old, new)
    return _File(new + original[len(old) :], name.kind, source, original, data)
