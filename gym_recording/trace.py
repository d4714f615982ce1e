"""Writing a trace: the commit of its batches, its manifest, and what a fork changes.

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
import weakref
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from . import __version__, files
from .batch import encode_batch
from .format import blob_name, header_name, manifest_name, trace_name, write_manifest

if TYPE_CHECKING:
    from .lane import Lane

_counter = itertools.count()
_token = ""
_writers: weakref.WeakSet[TraceWriter] = weakref.WeakSet()


def _draw_token() -> None:
    """Names this process: pids repeat (containers, reboots), 48 random bits do not."""
    global _token
    _token = f"{os.getpid()}-{os.urandom(6).hex()}"


def _after_fork_in_child() -> None:
    """What the parent has in its buffers stays the parent's; the child goes on in traces of its own."""
    _draw_token()
    for writer in list(_writers):
        writer.begin()
        for lane in writer.lanes:
            lane.forget()


_draw_token()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


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
        first: the number of its first episode, once a commit has begun.
        prev: the batch before it, if that may not be committed yet.
        done: whether it is committed.
    """

    def __init__(self, prev: Batch | None = None) -> None:
        self.episodes: list[dict[str, Any]] = []
        self.steps = self.size = 0
        self.first: int | None = None
        self.prev = prev
        self.done = False
        self.lock = threading.Lock()


class TraceWriter:
    """All that one recorder writes: its running episodes, its batches, its files.

    Args:
        directory: an existing one.
        sync: whether a commit waits until the medium has it.
        library: the environment's, for the manifest.
        members: further members of the manifest.
    """

    def __init__(self, directory: str, sync: bool, library: str | None, members: dict[str, Any]) -> None:
        self.directory = directory
        self.sync = sync
        self.library = library
        self.members = members
        self.lanes: list[Lane] = []
        self.begin()
        _writers.add(self)

    def begin(self) -> None:
        """An empty trace of this process."""
        self.name = trace_name(next(_counter), _token)
        self.created = utc_now()
        self.batch = Batch()
        self.batches: list[dict[str, Any]] = []  # committed, as the manifest lists them
        self.listed = 0  # how many of them the manifest on disk lists

    @property
    def kept(self) -> int:
        """How many episodes are committed."""
        return self.batches[-1]["first"] + self.batches[-1]["len"] if self.batches else 0

    def flush(self, background: bool = False) -> None:
        """Commits every ended episode, or, in the background, sees to it that it will be.

        Raises:
            OSError: a file could not be written, now or by the thread of the flush before. The episodes are kept, and
                the next flush tries again.
        """
        batch = self.batch
        if batch.prev is not None:
            self.commit(batch.prev)
            batch.prev = None
        if not batch.episodes:
            return
        self.batch = Batch(prev=batch)
        if background:
            try:
                threading.Thread(target=self._commit_in_thread, args=(batch,), daemon=True).start()
            except RuntimeError:  # no thread can be had, as at shutdown: the next flush or `close` commits
                return
        else:
            self.commit(batch)
            self.batch.prev = None

    def _commit_in_thread(self, batch: Batch) -> None:
        try:
            self.commit(batch)
        except OSError:
            return  # the batch is not done; the next flush commits it again and raises if that fails

    def commit(self, batch: Batch) -> None:
        """Writes a batch, if that is not done yet, and the manifest, if that is due."""
        with batch.lock:
            if not batch.done:
                if batch.first is None:
                    batch.first = self.kept
                blob, header = blob_name(self.name, batch.first), header_name(self.name, batch.first)
                encoded = encode_batch(batch.episodes, batch.first, blob)
                if encoded.blob:
                    files.put(self.directory, blob, encoded.blob, self.sync)
                files.put(self.directory, header, [encoded.header], self.sync)
                if self.sync:
                    files.sync_directory(self.directory)
                if self.kept == batch.first:
                    self.batches.append({"first": batch.first, "len": len(batch.episodes), "fn": header})
                batch.done = True
                batch.episodes = []
            unlisted = len(self.batches) - self.listed
            if unlisted and unlisted * 16 >= self.listed:  # so that writing manifests costs linear time in all
                self._write_manifest(closed=False)

    def _write_manifest(self, closed: bool) -> None:
        """Lists the committed batches. Readers find those that are not listed too; the manifest saves them a look."""
        count = len(self.batches)
        members = {"created": self.created, "closed": closed or None, "writer": _writer(self.library), **self.members}
        manifest = write_manifest(self.batches[:count], members)
        files.put(self.directory, manifest_name(self.name), [manifest], self.sync)
        if self.sync:
            files.sync_directory(self.directory)
        self.listed = count

    def close(self) -> None:
        """Ends what runs, commits everything, closes the lanes. A trace of nothing leaves no file.

        Raises:
            OSError: as `flush`. It is not closed then, and may be closed again.
        """
        for lane in self.lanes:
            if not lane.closed:
                lane.end("close")
        self.flush()
        if self.batches:
            self._write_manifest(closed=True)
        for lane in self.lanes:
            lane.close()


def _writer(library: str | None) -> dict[str, Any]:
    """Who writes: what a reader of a broken recording will want to know."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
    except OSError:  # not Linux
        boot = None
    writer = {
        "package": f"gym_recording {__version__}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "library": library,
        "host": platform.node(),
        "boot": boot,
        "pid": os.getpid(),
    }
    return {key: value for key, value in writer.items() if value is not None}
