"""Repair: what a writer that died left behind becomes a recording like any other.

Every committed episode can be read without it. Repair marks the episode that was running (`ended_by: "crash"`), lists
what no manifest lists, and removes temporaries and blobs that no header knows. The files of a writer that may be alive
are not touched. What was changed is read back before it is reported, and a second repair finds nothing to do.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from . import files, lock
from .errors import TraceError
from .format import (
    MAX_JSON_BYTES,
    Name,
    is_current,
    lock_name,
    manifest_name,
    member,
    parse_lock,
    parse_name,
    parse_temporary,
    read_array,
    read_manifest,
    token_of,
    trace_name,
    write_manifest,
    write_npy_header,
)
from .header import Header, mark_crashed
from .index import BatchFile, Trace
from .playback import TraceRecordingReader
from .trace import utc_now

_MAX_NPY_HEADER = 65536  # bytes
_INTERVALS = 10  # of a writer without a new file, before it is held to be dead where its lock does not settle it


@dataclass
class Repaired:
    """What a repair found and did.

    Attributes:
        done: what was changed, one sentence each.
        lost: what cannot be recovered, one sentence each.
        alive: traces that were left alone, because their writer may be alive.
        failed: what could not be repaired, or was wrong when it was read back.
    """

    done: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    alive: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class _Owner:
    """The process that wrote some traces: whether it lives, and its files."""

    def __init__(self, directory: str, token: str, names: list[str]) -> None:
        self.directory = directory
        self.token = token
        self.lock_path = os.path.join(directory, lock_name(token))
        self.owner: dict[str, Any] = {}
        self.names = [name for name in names if token_of((_target(name) or _NO_NAME).trace) == token]

    @contextlib.contextmanager
    def dead(self) -> Iterator[bool]:
        """Whether it is dead; its lock is held while the block runs, so that no other repair is at it.

        It is if its lock is granted, and it ran on this machine in this boot, or its newest file is old by the clock of
        the directory. Whatever else is the case, it may be alive.
        """
        self.taken = taken = lock.take(self.lock_path)
        try:
            if taken.descriptor is None:
                yield False
                return
            self.owner = taken.owner or self._writer()
            is_here = self.owner.get("host") == platform.node() and self.owner.get("boot") == lock.boot_id() is not None
            yield (taken.trusted and is_here) or self._is_old(self.owner.get("flush_interval"))
        finally:
            if taken.made:
                os.unlink(self.lock_path)
            if taken.descriptor is not None and taken.descriptor >= 0:
                os.close(taken.descriptor)

    def has_lock(self) -> bool:
        """Whether a lock is left of it. Not the one that was made to be held while `dead` runs."""
        return not self.taken.made and os.path.lexists(self.lock_path)

    def _writer(self) -> dict[str, Any]:
        """What a manifest says of it, where its lock is gone."""
        for name in self.names:
            target = parse_name(name)
            if target is not None and target.kind == "manifest":
                with contextlib.suppress(TraceError):
                    data = files.read(self.directory, name, MAX_JSON_BYTES)
                    return member(read_manifest(data, name), "writer", dict, name, {})  # type: ignore[no-any-return]
        return {}

    def _is_old(self, interval: Any) -> bool:
        """Whether its newest file is old by the clock of the file system; never, if it did not write at intervals."""
        if type(interval) not in (int, float) or interval <= 0:
            return False
        probe = f".{manifest_name(trace_name(0, self.token))}.{os.urandom(6).hex()}.tmp"
        files.write_at(self.directory, probe, 0, [], sync=False)
        now = os.lstat(os.path.join(self.directory, probe)).st_mtime
        os.unlink(os.path.join(self.directory, probe))
        newest = os.lstat(self.lock_path).st_mtime if self.has_lock() else 0.0
        for path in [os.path.join(self.directory, name) for name in self.names]:
            with contextlib.suppress(FileNotFoundError):
                newest = max(newest, os.lstat(path).st_mtime)
        return now - newest > _INTERVALS * interval  # type: ignore[no-any-return]


_NO_NAME = Name("", "", 0)


def _target(name: str) -> Name | None:
    """The parts of a file's name, or of the name that a temporary was to get."""
    return parse_name(name) or parse_name(parse_temporary(name) or "")


def repair_recording(directory: str, force: bool = False) -> Repaired:
    """Repairs a recording in place.

    Args:
        directory: the recording.
        force: also repairs the files of writers that may be alive. What those record may be lost.

    Raises:
        OSError: the directory cannot be listed.
    """
    found = Repaired()
    names = files.listing(directory)
    targets = filter(None, map(_target, names))
    tokens = {token_of(target.trace) for target in targets if is_current(target.trace)}
    tokens |= set(filter(None, map(parse_lock, names)))
    shared = TraceRecordingReader(directory, verify=True)
    for token in sorted(tokens):
        owner = _Owner(directory, token, names)
        with owner.dead() as dead:
            reader, traces = shared, _traces_of(shared, token)
            if owner.has_lock() or not all(trace.closed for trace in traces):
                reader = TraceRecordingReader(directory, verify=True)  # looked at now: who lived may have written since
                traces = _traces_of(reader, token)
            if not dead and not force:
                if owner.has_lock() or not all(trace.closed or trace.repaired for trace in traces):
                    found.alive.append(f"the writer {token} may be alive")
                continue
            failures, losses = len(found.failed), len(found.lost)
            for trace in traces:
                try:
                    _Repair(directory, trace, reader, owner.owner, found).run()
                except (OSError, ValueError) as error:  # one trace does not keep others from being repaired
                    found.failed.append(f"{trace.name}: {error}")
            if owner.has_lock() and len(found.lost) == losses:  # left by a recorder that wrote nothing, or nothing more
                found.lost.append(f"the writer {token} died; what it had not written yet, if anything, is lost")
            if len(found.failed) == failures:  # else the next repair must find that it is dead
                _clean(directory, owner, found)
    return found


def _traces_of(reader: TraceRecordingReader, token: str) -> list[Trace]:
    return [trace for trace in reader.traces if token_of(trace.name) == token]


def _clean(directory: str, owner: _Owner, found: Repaired) -> None:
    """Removes the temporaries of a dead writer, and its lock."""
    names = [name for name in owner.names if parse_temporary(name) is not None]
    for name in [*names, *([os.path.basename(owner.lock_path)] if owner.has_lock() else [])]:
        _remove(directory, name, found)


def _remove(directory: str, name: str, found: Repaired, why: str = "") -> None:
    try:
        os.unlink(os.path.join(directory, name))
    except FileNotFoundError:  # the list of names was made before the lock was held
        return
    except OSError as error:
        found.failed.append(f"{name}: cannot be removed: {error.strerror}")
    else:
        found.done.append(f"{name}: removed{why}")


class _Repair:
    """The repair of one trace."""

    def __init__(
        self, directory: str, trace: Trace, reader: TraceRecordingReader, owner: dict[str, Any], found: Repaired
    ) -> None:
        self.directory = directory
        self.trace = trace
        self.reader = reader
        self.owner = owner
        self.found = found
        self.manifest = manifest_name(trace.name)
        self.blobs: set[str] = set()  # that a header refers to, or may
        self.kept: list[BatchFile] = []

    def run(self) -> None:
        for batch in self.trace.batches:
            self._batch(batch)
        self._remove_blobs()
        self._write_manifest()

    def _batch(self, batch: BatchFile) -> None:
        try:
            header = self.reader.read_header(batch)
        except TraceError as error:
            self.found.lost.append(f"{error}")
            return
        self.blobs |= set(header.blobs)
        self.kept.append(batch)
        if header.runs and not self.trace.closed:
            crashed = mark_crashed(files.read(self.directory, batch.file, MAX_JSON_BYTES), batch.file)
            try:
                heads = [self._npy_header(header, column) for column in header.columns]
            except TraceError as error:
                self.found.failed.append(f"{error}")
                return
            for blob, head in heads:
                files.write_at(self.directory, blob, 0, [head], sync=True)
            files.put(self.directory, batch.file, [crashed], sync=True)
            files.sync_directory(self.directory)
            self.found.done.append(f"{batch.file}: the episode that was running is marked as ended by a crash")
            self._read_back(batch)

    def _npy_header(self, header: Header, column: dict[str, Any]) -> tuple[str, bytes]:
        """The blob of a column of a streamed batch, and what belongs in front of its rows.

        Raises:
            TraceError: it is not such a column; nothing may be written to that blob then.
        """
        if not isinstance(column, dict):
            raise TraceError("malformed", file=header.file, field="columns", expected="objects")
        array = read_array(column, self.reader.get_binfile, header.file)
        blob, offset = column["npyfile"], column["npyoff"]
        entry, name, own = header.blobs.get(blob), parse_name(blob), parse_name(header.file)
        is_own = name is not None and own is not None and (name.trace, name.first) == (own.trace, own.first)
        starts = is_own and entry is not None and entry.start == offset <= _MAX_NPY_HEADER and column.get("npyhdr") == 0
        others = [other for other in header.columns if isinstance(other, dict) and other.get("npyfile") == blob]
        if starts and len(others) == 1:
            head = write_npy_header(array.dtype, array.shape, offset)
            if len(head) == offset:
                return blob, head
        raise TraceError("not a column of a streamed batch, but not ended", file=header.file, found=blob)

    def _remove_blobs(self) -> None:
        """Removes what a crash leaves: blobs behind the last batch, and those that a good header does not name."""
        end = max((batch.first + batch.count for batch in self.trace.batches), default=0)
        good = {batch.first for batch in self.kept}
        for name in self._names("blob"):
            if name not in self.blobs and (_first(name) >= end or _first(name) in good):
                _remove(self.directory, name, self.found, ", it belongs to no batch that was committed")

    def _write_manifest(self) -> None:
        members: dict[str, Any] = {}
        with contextlib.suppress(TraceError, FileNotFoundError):
            members = read_manifest(files.read(self.directory, self.manifest, MAX_JSON_BYTES), self.manifest)
        error = self.trace.error
        if error is None:
            if not self._is_due(members):
                return
        elif isinstance(error.__cause__, OSError):  # it may be as good as ever
            self.found.failed.append(f"{error}")
            return
        elif error.field == "format.version" or not self.trace.batches:  # a newer version knows it
            self.found.lost.append(f"{error}")
            return
        else:
            kept = self._keep_damaged()
            self.found.lost.append(f"{error}; what it alone said is lost, its bytes are kept as {kept}")
            members = {}
        listed = {entry["fn"]: entry["len"] for entry in members.get("batches", [])}  # also what is missing or damaged
        listed.update({batch.file: batch.count for batch in self.kept})
        batches = [{"first": _first(file), "len": count, "fn": file} for file, count in listed.items()]
        batches.sort(key=lambda entry: entry["first"])
        members = {key: value for key, value in members.items() if key not in ("format", "crc32", "batches")}
        writer = {key: self.owner[key] for key in ("host", "boot", "pid") if self.owner.get(key) is not None}
        members = {"created": self._began(), "writer": writer, **members}
        data = write_manifest(batches, {**members, "repaired": utc_now()})
        files.put(self.directory, self.manifest, [data], sync=True)
        files.sync_directory(self.directory)
        read_manifest(files.read(self.directory, self.manifest, MAX_JSON_BYTES), self.manifest)
        count = sum(batch.count for batch in self.kept)
        self.found.done.append(f"{self.manifest}: lists {len(batches)} batches, {count} episodes")
        self.found.lost.append(f"{self.trace.name}: its writer did not close it; what it had not written yet is lost")

    def _is_due(self, members: dict[str, Any]) -> bool:
        """Whether a manifest that can be read, or is absent, must be put anew."""
        if members.get("closed") or not (members or self.trace.batches):
            return False
        listed = {entry["fn"] for entry in members.get("batches", [])}
        return not members.get("repaired") or not listed.issuperset(batch.file for batch in self.kept)

    def _keep_damaged(self) -> str:
        """Copies the damaged manifest to a name that is free, and gives it."""
        data = files.read(self.directory, self.manifest, MAX_JSON_BYTES)
        for number in itertools.count():
            name = f"{self.manifest}.damaged{f'.{number}' if number else ''}"
            if not os.path.lexists(os.path.join(self.directory, name)):
                files.put(self.directory, name, [data], sync=True)
                break
            with contextlib.suppress(TraceError):
                if files.read(self.directory, name, MAX_JSON_BYTES) == data:  # by a repair that was cut off
                    break
        return name

    def _began(self) -> str:
        """When the trace was begun, as far as its episodes tell."""
        if self.kept:
            started = self.reader.read_header(self.kept[0]).episodes[0].get("started")
            if isinstance(started, str):
                return started
        return utc_now()

    def _names(self, kind: str) -> list[str]:
        names = files.listing(self.directory)
        return [name for name in names if (parse_name(name) or _NO_NAME)[:2] == (self.trace.name, kind)]

    def _read_back(self, batch: BatchFile) -> None:
        self.reader.close()
        try:
            for episode in self.reader.read_batch(batch):
                if episode.ended_by is None:
                    raise TraceError("still running", file=batch.file)
        except TraceError as error:
            self.found.failed.append(f"{error}")


def _first(name: str) -> int:
    return (parse_name(name) or _NO_NAME).first
