"""Recording: when a batch is full, how it is committed, what happens at a fork and at exit.

`TraceRecording` is a shell around a `_Trace`, which holds all that must outlive it: a finalizer on the shell closes the
trace when the shell is garbage-collected or the interpreter exits. A commit writes the blob, then the header, whose
rename is the commit, then the manifest. A batch is fixed before it is written, so a commit that failed or was interrupted
is repeated as it was. How steps are copied is in `lane`, how episodes become bytes in `batch`.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import platform
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from . import __version__, files
from .batch import encode_batch
from .columns import Column, RowBuffers
from .errors import TraceError
from .format import blob_name, header_name, manifest_name, trace_name, write_manifest
from .lane import Lane, LiveRows

logger = logging.getLogger(__name__)

BATCH_BYTES = 5_000_000  # large enough that files are few, small enough that reading one episode reads little
FLUSH_INTERVAL = 30.0  # seconds
_EPISODE_BYTES = 800  # of header, for a small episode; only the trigger uses this estimate
_VALUE_BYTES = 300  # of header and blob, for a value that is not stacked

_WITH_ARRAYS = ("observations", "actions", "rewards", "infos")  # members of an episode that take room

_counter = itertools.count()
_token = ""
_traces: weakref.WeakSet[_Trace] = weakref.WeakSet()


def _draw_token() -> None:
    """Names this process; pids repeat (containers, reboots), 48 random bits do not."""
    global _token
    _token = f"{os.getpid()}-{os.urandom(6).hex()}"


def _after_fork_in_child() -> None:
    """What the parent has in its buffers stays the parent's; the child goes on in traces of its own."""
    _draw_token()
    for trace in list(_traces):
        trace.begin()
        for lane in trace.lanes:
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


class _Batch:
    """Episodes that are written together.

    Attributes:
        episodes: the list that people see as `TraceRecording.episodes`.
        steps, size: of the episodes that were added, for the triggers: steps, and about how many bytes.
        first: the number of its first episode, once a commit has begun.
        prev: the batch before it while that is not committed.
        done: whether it is committed.
    """

    def __init__(self, prev: _Batch | None = None) -> None:
        self.episodes: list[dict[str, Any]] = []
        self.steps = self.size = 0
        self.first: int | None = None
        self.prev = prev
        self.done = False
        self.lock = threading.Lock()


class _Trace:
    """All that one recorder writes: its running episodes, its batches, its files."""

    def __init__(self, directory: str, sync: bool, library: str | None, members: dict[str, Any]) -> None:
        self.directory = directory
        self.sync = sync
        self.library = library
        self.members = members
        self.lanes: list[Lane] = []
        self.begin()
        _traces.add(self)

    def begin(self) -> None:
        """An empty trace of this process."""
        self.name = trace_name(next(_counter), _token)
        self.created = utc_now()
        self.batch = _Batch()
        self.batches: list[dict[str, Any]] = []  # committed, as the manifest lists them
        self.listed = 0  # how many of them the manifest on disk lists

    @property
    def kept(self) -> int:
        """How many episodes are committed."""
        return self.batches[-1]["first"] + self.batches[-1]["len"] if self.batches else 0

    def flush(self) -> None:
        """Commits every ended episode.

        Raises:
            OSError: a file could not be written; the episodes are kept, and the next flush tries again.
        """
        batch = self.batch
        if batch.prev is not None:
            self.commit(batch.prev)
            batch.prev = None
        if batch.episodes:
            self.batch = _Batch(prev=batch)
            self.commit(batch)
            self.batch.prev = None
        unlisted = len(self.batches) - self.listed
        if unlisted and unlisted * 16 >= self.listed:  # so that writing manifests costs linear time in all
            self.write_manifest(closed=False)

    def commit(self, batch: _Batch) -> None:
        """Writes a batch, if that is not done yet."""
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
        for episode in batch.episodes:
            for key in _WITH_ARRAYS:
                _recycle(episode.get(key))

    def write_manifest(self, closed: bool) -> None:
        """Lists the committed batches. Readers find those that are not listed too; the manifest saves them a look."""
        count = len(self.batches)
        members = {"created": self.created, "closed": closed or None, "writer": _writer(self.library), **self.members}
        manifest = write_manifest(self.batches[:count], members)
        files.put(self.directory, manifest_name(self.name), [manifest], self.sync)
        if self.sync:
            files.sync_directory(self.directory)
        self.listed = count

    def close(self) -> None:
        """Ends what runs, commits everything, closes the lanes. A trace of nothing leaves no file."""
        for lane in self.lanes:
            if not lane.closed:
                lane.end("close")
        self.flush()
        if self.batches:
            self.write_manifest(closed=True)
        for lane in self.lanes:
            lane.close()


class TraceRecording:
    """Records episodes to a directory, with or without an environment.

    Everything recorded is on disk after `close`, also when that happens by itself: at the end of a `with` block, when the
    recorder is garbage-collected, when the interpreter exits. After `close`, adding raises `ClosedError`, and all
    attributes can be read.

    Args:
        directory: where to; created if need be; any number of recorders may share it. None: a new temporary directory.
        buffer_batch_size: steps after which a batch is written, at the next end of an episode. A number that the caller
            sets is never overridden, and then is the only trigger but for those that are passed too.
        batch_bytes: bytes after which a batch is written, at the next end of an episode. About 5 MB if not given.
        flush_interval: seconds after which ended episodes are written, at the next call. 30 if not given.
        durability: "fsync": what is committed survives a power cut. "none": it survives the end of the process only.
        infos: whether to record the info dicts.
        timestamps: whether to record when each step ended.
        metadata: the user's own, JSON; it stands in the manifest.
        env: what is known of the environment, JSON; it stands in the manifest.
        library: the environment's library and its version, for the manifest.

    Attributes:
        directory: str, absolute.
        file_prefix: the beginning of all names of this trace.
        closed: whether it is closed.
        observations, actions, rewards: live, read-only sequences of the running episode's rows: T + 1, T and T.
        episodes: a list of dicts, the ended episodes that no flush has taken yet. Who clears, pops or replaces it has thrown
            those episodes away. Values are arrays (n, ...), dicts or tuples of such, or lists for what cannot be stacked.
        batches: the committed batches, as the manifest lists them: `first`, `len`, `fn`.
        episode_id: how many episodes have ended.
        buffer_batch_size: as above, None if not set; may be set at any time.

    Raises:
        OSError: nothing can be written to the directory; it names it.
        TraceError: an argument is not what it must be.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        buffer_batch_size: int | None = None,
        batch_bytes: int | None = None,
        flush_interval: float | None = None,
        durability: str = "fsync",
        infos: bool = False,
        timestamps: bool = False,
        metadata: Mapping[str, Any] | None = None,
        env: Mapping[str, Any] | None = None,
        library: str | None = None,
    ) -> None:
        if durability not in ("fsync", "none"):
            raise TraceError("unknown", field="durability", expected='"fsync" or "none"', found=repr(durability))
        self._arguments = {
            key: value for key, value in locals().items() if key not in ("self", "directory", "__class__")
        }
        members = {"env": _json_copy(env, "env"), "metadata": _json_copy(metadata, "metadata")}
        if directory is None:
            directory = tempfile.mkdtemp(prefix="openai.gym.")
        self.directory = os.path.abspath(os.fsdecode(directory))
        files.writable_directory(self.directory)
        self.buffer_batch_size = buffer_batch_size
        self.batch_bytes = batch_bytes
        self.flush_interval = flush_interval
        self.closed = False
        self.episode_id = 0
        self._trace = trace = _Trace(self.directory, durability == "fsync", library, members)
        self.lane = Lane(lambda: trace.batch.episodes, infos=infos, clock=time.time if timestamps else None)
        trace.lanes.append(self.lane)
        self.observations = LiveRows(self.lane, "observations")
        self.actions = LiveRows(self.lane, "actions")
        self.rewards = LiveRows(self.lane, "rewards")
        self.deadline = 0.0
        self._set_deadline()
        self._finalizer = weakref.finalize(self, trace.close)

    # ---- what people of 2017 read and set

    @property
    def file_prefix(self) -> str:
        return self._trace.name

    @property
    def batches(self) -> list[dict[str, Any]]:
        return self._trace.batches

    @property
    def episodes(self) -> list[dict[str, Any]]:
        return self._trace.batch.episodes

    @episodes.setter
    def episodes(self, episodes: list[dict[str, Any]]) -> None:
        self._trace.batch.episodes = episodes

    @property
    def episodes_first(self) -> int | None:
        """The number that the first of `episodes` will have; None if there is none. Setting it changes nothing."""
        trace = self._trace
        uncommitted = len(trace.batch.prev.episodes) if trace.batch.prev and not trace.batch.prev.done else 0
        return trace.kept + uncommitted if trace.batch.episodes else None

    @episodes_first.setter
    def episodes_first(self, number: int | None) -> None:
        pass  # numbers count the kept episodes, so that the batches of a trace are contiguous

    @property
    def buffered_step_count(self) -> int:
        """Steps since the last flush, those of the running episode included. Setting it moves the next flush."""
        return self._trace.batch.steps + self.lane.steps

    @buffered_step_count.setter
    def buffered_step_count(self, steps: int) -> None:
        self._trace.batch.steps = steps - self.lane.steps

    # ---- recording

    def add_reset(self, observation: Any, *, seed: Any = None, options: Any = None, info: Any = None) -> None:
        """Ends the running episode, if there is one, and starts the next with its first observation.

        Raises:
            TraceError: the observation cannot be stored. The episode before it is not lost.
            ClosedError: the recorder is closed.
            OSError: a flush was due and failed; the data is kept, and the next flush tries again.
        """
        self.end_episode()
        self.lane.reset(observation, seed, options, info, utc_now())

    def add_step(
        self,
        action: Any,
        observation: Any,
        reward: Any,
        *,
        terminated: bool | None = None,
        truncated: bool | None = None,
        info: Any = None,
    ) -> None:
        """Records a step: `action` was applied to the last observation, and led to `observation` and `reward`.

        Everything is copied. A step is recorded whole or not at all.

        Raises:
            TraceError: a value cannot be stored; the message has its path, and the episode goes on without this step.
            ClosedError, OSError: as `add_reset`.
        """
        self.lane.begin(action)
        self.lane.finish(observation, reward, terminated, truncated, info)
        if time.monotonic() >= self.deadline:
            self.flush_if_due()

    def end_episode(self) -> None:
        """Ends the running episode, if there is one.

        Raises:
            ClosedError, OSError: as `add_reset`.
        """
        if self.lane.end("reset"):
            self.episode_id += 1
            self._count(self._trace.batch)

    def _count(self, batch: _Batch) -> None:
        """Counts the episode that was added to a batch, and flushes when that is full."""
        if len(batch.episodes) == 1:  # the first; or somebody has thrown the others away
            batch.size = 0
        episode = batch.episodes[-1]
        batch.steps += len(episode["rewards"])
        batch.size += _EPISODE_BYTES + sum([_size(episode[key]) for key in _WITH_ARRAYS if key in episode])
        limit = self.buffer_batch_size
        max_bytes = self.batch_bytes if self.batch_bytes is not None or limit is not None else BATCH_BYTES
        if (limit is not None and batch.steps >= limit) or (max_bytes is not None and batch.size >= max_bytes):
            self.save_complete()

    def flush_if_due(self) -> None:
        """Writes the ended episodes if `flush_interval` has gone since the last flush; recorders ask at every step."""
        if time.monotonic() >= self.deadline:
            self.save_complete()

    def _set_deadline(self) -> None:
        interval = self.flush_interval
        if interval is None:
            interval = FLUSH_INTERVAL if self.buffer_batch_size is None else float("inf")
        self.deadline = time.monotonic() + interval

    def save_complete(self) -> None:
        """Writes all ended episodes now.

        Raises:
            OSError: a file could not be written; it names the file. The episodes are kept, the next flush tries again.
        """
        self._set_deadline()
        self._trace.flush()

    def close(self) -> None:
        """Ends the running episode, writes everything, and records no more. Closing twice is closing once.

        Raises:
            OSError: as `save_complete`. The recorder is not closed then: free some space and close it again.
        """
        if not self.closed:
            self._trace.close()
            self.closed = True
            self._finalizer.detach()
            logger.info("Wrote traces to %s", self.directory)

    def __enter__(self) -> TraceRecording:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        """A copy, also in another process, is a new recorder in the same directory: it has a trace of its own, and begins
        empty, because what was recorded before belongs to the original.
        """
        return _copy_of, (self.directory, self._arguments)


def _copy_of(directory: str, arguments: dict[str, Any]) -> TraceRecording:
    return TraceRecording(directory, **arguments)


def _json_copy(value: Mapping[str, Any] | None, field: str) -> Any:
    """A copy of a JSON object that nobody else can change."""
    if value is None:
        return None
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TraceError(f"cannot be written as JSON: {error}", field=field) from error


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


def _size(value: Any) -> int:
    """About how many bytes a member of an episode takes on disk."""
    if value.__class__ is np.ndarray:
        return int(value.nbytes)
    if isinstance(value, RowBuffers):
        return sum(row.nbytes for row in value.rows)
    if isinstance(value, (list, tuple)):
        return _VALUE_BYTES + sum(map(_size, value))
    if isinstance(value, Mapping):
        return _VALUE_BYTES + sum(map(_size, value.values()))
    return len(value) if isinstance(value, str) else 8


def _recycle(value: Any) -> None:
    """Gives the buffers of a member of an episode back to their pools."""
    if value.__class__ is np.ndarray:
        return
    if isinstance(value, RowBuffers):
        value.recycle()
    elif isinstance(value, tuple):
        for item in value:
            _recycle(item)
    elif isinstance(value, dict):
        for item in value.values():
            _recycle(item)


def optimize_list_of_ndarrays(values: Any) -> Any:
    """One array with a further dimension for a list of equal-shaped arrays or of numbers; all else as it is.

    The rules are those by which an episode is recorded; an empty list becomes an array of shape (0,).
    """
    if isinstance(values, np.ndarray):
        return values
    column = Column(("values",))
    try:
        for value in values:
            column.add(value)
    except TraceError:
        return values
    stacked = column.finish()
    if isinstance(stacked, RowBuffers):
        return np.asarray(stacked)
    return stacked if isinstance(stacked, np.ndarray) else values
