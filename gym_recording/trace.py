"""Writing a trace: the commit of its batches, and its manifest.

A commit writes the blob, then the header, whose rename is the commit, then, now and then, the manifest. It happens
beside the loop: a flush first commits the batch before it, so at most one is in flight, and raises its error; then it
makes one store, a new batch that knows the old one, and starts a short thread on the old one. A batch that was handed
over does not change, so a commit that failed or was interrupted is repeated as it was. No queue; no thread must run.
"""

from __future__ import annotations

import itertools
import os
import platform
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from . import __version__, files, lock, process
from .batch import EncodedBatch, encode_batch
from .format import blob_name, header_name, lock_name, manifest_name, trace_name, write_manifest
from .memory import Directory, MemoryDirectory
from .stream import Stream, write_streams

if TYPE_CHECKING:
    from .lane import Lane

HEADER_EPISODES = 100_000  # of one header: about 80 MB of JSON, far from what readers refuse

_counter = itertools.count()


@lru_cache(maxsize=1)
def _utc_second(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def utc_now() -> str:
    """The time as manifests and episodes have it: UTC, ISO 8601, microseconds."""
    second, nanoseconds = divmod(time.time_ns(), 10**9)
    return f"{_utc_second(second)}.{nanoseconds // 1000:06}Z"


class Batch:
    """Episodes that are written together.

    Attributes:
        episodes: the list that people see as `TraceRecording.episodes`; empty again once it is committed.
        steps, size: of the episodes that were added, for the triggers: steps, and about how many bytes.
        parts: what is to be written, in order, once it was handed over and until it is committed: ended episodes as
            bytes, and streamed ones, of each its newest state.
        prev: the batch before it, if that may not be committed yet.
    """

    def __init__(self, prev: Batch | None = None) -> None:
        self.episodes: list[dict[str, Any]] = []
        self.steps = self.size = 0
        self.parts: list[EncodedBatch | Stream] = []
        self.prev = prev
        self.lock = threading.RLock()  # if Ctrl-C should come before it is released, its own thread is not shut out


class _Commit(threading.Thread):
    """Commits a batch beside the loop."""

    def __init__(self, writer: TraceWriter, batch: Batch) -> None:
        super().__init__(daemon=True)
        self.writer = writer
        self.batch = batch

    def run(self) -> None:
        try:
            self.writer.commit(self.batch)
        except Exception:
            return  # the batch keeps what is not written: the next flush commits it again, and raises if that fails


class TraceWriter:
    """All that one recorder writes: its running episodes, its batches, its files.

    Args:
        directory: an existing one, or one in memory: nothing is locked, streamed or left to a thread there.
        sync: whether a commit waits until the medium has it.
        flush_interval: seconds, for whoever must judge later whether this writer is alive; None if there is none.
        library: the environment's, for the manifest.
        members: further members of the manifest.
    """

    def __init__(
        self,
        directory: Directory,
        sync: bool,
        flush_interval: float | None,
        library: str | None,
        members: dict[str, Any],
    ) -> None:
        self.directory = directory
        self.sync = sync and not isinstance(directory, MemoryDirectory)
        self.library = library
        self.members = members
        self.flush_interval = flush_interval
        self.closed = False
        self.lanes: list[Lane] = []
        self.begin()
        self._hold_lock()
        process.register(self)

    def begin(self) -> None:
        """An empty trace of this process."""
        self.name = trace_name(next(_counter), process.token())
        self.created = utc_now()
        self.lock = ""  # its path, while it is held
        self.batch = Batch()
        self.batches: list[dict[str, Any]] = []  # committed, as the manifest lists them
        self.listed = -1  # how many of them the manifest on disk lists; -1 while there is none
        self.streams: list[Stream] = []  # those that have not ended on disk
        self.numbered = 0  # episodes that have their number, which they get when their commit begins
        self.vanished: list[Exception] = []  # errors of episodes that cannot be written any more, not raised yet
        self.alone = threading.RLock()  # held while an episode ends, and while batches are handed over

    def begin_anew(self) -> None:
        """In a forked child: an empty trace, and lanes without a step."""
        self.begin()
        for lane in self.lanes:
            lane.forget()

    def _hold_lock(self) -> None:
        """Holds the lock of this process on the directory, which also shows that files can be put there."""
        if isinstance(self.directory, MemoryDirectory):
            return
        if self.lock:
            lock.renew(self.lock, self, self.flush_interval)
        else:
            path = os.path.join(os.path.realpath(self.directory), lock_name(process.token()))
            lock.acquire(path, self, self.flush_interval)
            self.lock = path

    def flush(self, running: Sequence[Lane] = (), background: bool = False) -> None:
        """Commits every ended episode, and what the `running` ones have so far.

        Args:
            running: lanes whose running episode is streamed from here on, if it has a step.
            background: only sees to it that the commit will happen.

        Raises:
            OSError: a file could not be written, now or by the thread of the flush before. The episodes are kept, and
                the next flush tries again.
            VanishedError: what was written of a streamed episode is gone, and that episode with it; all else is done.
        """
        with self.alone:
            self._flush(running, background)
            self._complain()

    def _complain(self) -> None:
        vanished, self.vanished = self.vanished, []
        if vanished:
            raise vanished[0]

    def _flush(self, running: Sequence[Lane], background: bool) -> None:
        batch = self.batch
        if batch.prev is not None:
            self._hold_lock()
            self.commit(batch.prev)
            batch.prev = None
        for lane in self.lanes:
            lane.settle()
        for lane in running:
            self._stream(lane)
        batch.parts = self._parts(batch.episodes)
        if not batch.parts:
            return
        self._hold_lock()  # a child that was forked does not have it yet; never while a batch is locked
        self.batch = Batch(prev=batch)
        if background and not isinstance(self.directory, MemoryDirectory):
            try:
                _Commit(self, batch).start()
            except RuntimeError:  # no thread can be had, as at shutdown: the next flush or `close` commits
                return
        else:
            self.commit(batch)
            self.batch.prev = None

    def _parts(self, episodes: list[dict[str, Any]]) -> list[EncodedBatch | Stream]:
        """What there is to write, in the order in which episodes ended or began to stream.

        They become bytes here, not beside the loop, where that would have to wait for the interpreter at every turn.
        """
        parts: list[EncodedBatch | Stream] = []
        done, first = 0, self.numbered
        streams = [stream for stream in self.streams if stream.episode is not stream.written]
        ends = [min(stream.after, len(episodes)) if stream.first is None else 0 for stream in streams]
        for end, stream in [*zip(ends, streams), (len(episodes), None)]:
            while done < end:
                some = episodes[done : min(end, done + HEADER_EPISODES)]
                parts.append(encode_batch(some, first, blob_name(self.name, first)))
                done, first = done + len(some), first + len(some)
            if stream is not None:
                parts.append(stream)
                first += stream.first is None
        return parts

    def _stream(self, lane: Lane) -> None:
        """Hands over what the running episode of a lane has so far."""
        if lane.dirty or not lane.steps or isinstance(self.directory, MemoryDirectory):
            return
        if lane.stream is None:
            stream = Stream(self.directory, self.name, after=len(self.batch.episodes))
            self.streams.append(stream)
            lane.stream = stream
        lane.hand_over()

    @property
    def episodes_first(self) -> int:
        """The number that the first episode of `batch` will have."""
        prev = self.batch.prev
        if prev is None:
            return self.numbered
        with prev.lock:
            number = self.numbered
            for part in prev.parts:
                if isinstance(part, Stream):
                    number += part.first is None
                else:
                    number = part.first + part.length
            return number

    def commit(self, batch: Batch) -> None:
        """Writes what a batch still has, and the manifest, if that is due."""
        with batch.lock:
            if self.listed < 0 and batch.parts:
                self._write_manifest(closed=False)  # so that no header is without what the manifest says of the trace
            while batch.parts:
                part = batch.parts[0]
                if isinstance(part, Stream):
                    streams = list(takewhile(lambda part: isinstance(part, Stream), batch.parts))
                    self._write_streams(streams)  # together, which takes the medium less time
                    del batch.parts[: len(streams)]
                else:
                    self._write_episodes(part)
                    del batch.parts[0]
            batch.episodes = []
            unlisted = len(self.batches) - self.listed
            if unlisted and unlisted * 16 >= self.listed:  # so that writing manifests costs linear time in all
                self._write_manifest(closed=False)

    def _write_streams(self, streams: list[Any]) -> None:
        """Writes what streamed episodes have come to."""
        for stream in streams:
            if stream.first is None:
                stream.first = self.numbered
            self.numbered = max(self.numbered, stream.first + 1)
        assert isinstance(self.directory, str)
        self.vanished += write_streams(self.directory, streams, self.sync)
        ended = {stream for stream in streams if stream.ended}
        self._list([(stream.first or 0, 1) for stream in streams if stream.ended and not stream.is_lost])
        self.streams = [stream for stream in self.streams if stream not in ended]

    def _write_episodes(self, encoded: EncodedBatch) -> None:
        """Writes the ended episodes of a batch: blob, then header."""
        self.numbered = encoded.first + encoded.length
        if encoded.blob:
            files.put(self.directory, blob_name(self.name, encoded.first), encoded.blob, self.sync)
        files.put(self.directory, header_name(self.name, encoded.first), [encoded.header], self.sync)
        self._sync_directory()
        self._list([(encoded.first, encoded.length)])

    def _list(self, committed: Sequence[tuple[int, int]]) -> None:
        """Adds committed batches; a commit that was interrupted and is repeated finds them there."""
        known = {entry["first"] for entry in self.batches[-1 - len(self.streams) :]}
        for first, count in committed:
            if first not in known:
                self.batches.append({"first": first, "len": count, "fn": header_name(self.name, first)})

    def _write_manifest(self, closed: bool) -> None:
        """Lists the committed batches. Readers find those that are not listed too; the manifest saves them a look."""
        count = len(self.batches)
        members = {"created": self.created, "closed": closed or None, "writer": _writer(self.library), **self.members}
        batches = sorted(self.batches[:count], key=lambda entry: entry["first"])  # a streamed one may end late
        manifest = write_manifest(batches, members)
        files.put(self.directory, manifest_name(self.name), [manifest], self.sync)
        self._sync_directory()
        self.listed = count

    def _sync_directory(self) -> None:
        if self.sync and isinstance(self.directory, str):
            files.sync_directory(self.directory)

    def close(self) -> None:
        """Ends what runs, commits everything, closes the lanes. A trace of nothing leaves no file.

        Raises:
            OSError: as `flush`. It is not closed then, and may be closed again.
        """
        with self.alone:
            if not self.closed:
                self._close()

    def _close(self) -> None:
        for lane in self.lanes:
            if not lane.closed:
                lane.end("close")
        self._flush((), background=False)
        if self.batches:
            self._write_manifest(closed=True)
        self._let_go()
        self._complain()

    def _let_go(self) -> None:
        for lane in self.lanes:
            lane.close()
        if self.lock:
            lock.release(self.lock, self)
            self.lock = ""
        self.closed = True

    def abandon(self) -> None:
        """Forgets what is not committed, which nobody will try to write again, not at exit either."""
        with self.alone:
            self.batch = Batch()
            self._let_go()


def _writer(library: str | None) -> dict[str, Any]:
    """Who writes: what a reader of a broken recording will want to know."""
    writer = {
        "package": f"gym_recording {__version__}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "library": library,
        "host": platform.node(),
        "boot": lock.boot_id(),
        "pid": os.getpid(),
    }
    return {key: value for key, value in writer.items() if value is not None}
