"""Recording: the interface of a recorder, and when its batches are full.

`TraceRecording` is a shell around a `TraceWriter`, which holds all that must outlive it: a finalizer on the shell
closes the writer when the shell is garbage-collected or the interpreter exits. How steps are copied is in `lane`, how
batches are committed in `trace`.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Mapping
from functools import partial
from typing import Any

from . import files, process
from .columns import optimize_list_of_ndarrays, size_of
from .errors import ClosedError
from .format import EPISODE_ARRAYS
from .lane import FIRST_WATCH, Lane, LiveRows
from .memory import MemoryDirectory, Place
from .options import at_least_one, at_least_zero, json_copy, one_of
from .rows import BLOCK_BYTES, LARGE_ROW
from .trace import Batch, TraceWriter, utc_now

__all__ = ["TraceRecording", "optimize_list_of_ndarrays"]

logger = logging.getLogger(__name__)

BATCH_BYTES = 5_000_000  # large enough that files are few, small enough that reading one episode reads little
FLUSH_INTERVAL = 30.0  # seconds
# An episode that outgrows so many batches is streamed, so many at a time: each time costs several files.
STREAM_BATCHES = 4
LANES_BATCHES = 200  # the running episodes of all lanes together; with batches of 5 MB that is 1 GB of memory
LANES_BLOCKS_BYTES = 1 << 28  # the blocks that the lanes are filling, together
_EPISODE_BYTES = 800  # of header, for a small episode; only the trigger uses this estimate
_WITH_ARRAYS = ("observations", "actions", "rewards", "infos", "frames")  # members of an episode that take room


class TraceRecording:
    """Records episodes to a directory, with or without an environment.

    Everything recorded is on disk after `close`, also when that happens by itself: at the end of a `with` block, when
    the recorder is garbage-collected, when the interpreter exits. After `close`, adding raises `ClosedError`, and all
    attributes can be read.

    Args:
        directory: where to; created if need be; any number of recorders may share it. None: a new temporary directory.
            A `MemoryDirectory`: to memory.
        buffer_batch_size: steps after which a batch is written, at the next end of an episode. A number that the caller
            sets is never overridden, and then is the only trigger but for those that are passed too.
        batch_bytes: bytes, about, after which a batch is written, at the end of an episode; an episode that outgrows
            four times as many is written while it runs. 5 MB if not given.
        flush_interval: seconds after which everything is written, at the next call. 30 if not given.
        durability: "fsync": what is committed survives a power cut. "none": it survives the end of the process only.
        infos: whether to record the info dicts.
        timestamps: whether to record when each step ended.
        frames: whether to record frames, which `add_reset` and `add_step` take: uint8 (height, width[, channels]).
        metadata: the user's own, JSON; it stands in the manifest.
        env: what is known of the environment, JSON; it stands in the manifest.
        library: the environment's library and its version, for the manifest.
        lanes: how many episodes may run at once, one in each lane; an episode then has the number of its lane. None:
            one, without a number.

    Attributes:
        directory: str, absolute; or the `MemoryDirectory`.
        file_prefix: the beginning of all names of this trace.
        closed: whether it is closed.
        lanes: a list of the lanes; `lane` is the first.
        observations, actions, rewards: live, read-only sequences of the running episode's rows: T + 1, T and T; those
            of the first lane.
        episodes: a list of dicts, the ended episodes that no flush has taken yet. Who clears, pops or replaces it has
            thrown those episodes away. Values are arrays (n, ...), dicts or tuples of such, lists for what cannot be
            stacked; of large rows (8 KiB) the arrays may be in pieces, which `np.asarray` joins.
        batches: the committed batches, as the manifest lists them: `first`, `len`, `fn`.
        episode_id: how many episodes have ended.
        buffer_batch_size, batch_bytes, flush_interval: as above, None if not set; may be set at any time.

    Raises:
        OSError: nothing can be written to the directory; it names it.
        TraceError: an argument is not what it must be.
    """

    def __init__(
        self,
        directory: Place | None = None,
        *,
        buffer_batch_size: int | None = None,
        batch_bytes: int | None = None,
        flush_interval: float | None = None,
        durability: str = "fsync",
        infos: bool = False,
        timestamps: bool = False,
        frames: bool = False,
        metadata: Mapping[str, Any] | None = None,
        env: Mapping[str, Any] | None = None,
        library: str | None = None,
        lanes: int | None = None,
    ) -> None:
        one_of(durability, ("fsync", "none"), "durability")
        about: dict[str, Any] = {"metadata": metadata, "env": env, "library": library}
        what = {"infos": infos, "timestamps": timestamps, "frames": frames}
        self._arguments = {"durability": durability, "lanes": lanes, **what, **about}
        at_least_one(lanes, "lanes")
        members = {"env": json_copy(env, "env"), "metadata": json_copy(metadata, "metadata")}
        self.directory = files.open_directory(directory, durability == "fsync")
        self._buffer_batch_size: int | None = at_least_zero(buffer_batch_size, "buffer_batch_size")
        self._flush_interval: float | None = at_least_zero(flush_interval, "flush_interval")
        self._batch_bytes: int | None = at_least_zero(batch_bytes, "batch_bytes")
        self.closed, self.episode_id = False, 0
        self._trace = trace = TraceWriter(self.directory, durability == "fsync", self._interval(), library, members)
        self.lanes = trace.lanes
        clock = time.time if timestamps else None
        block = min(BLOCK_BYTES, max(LARGE_ROW, LANES_BLOCKS_BYTES // (lanes or 1)))
        make = partial(Lane, lambda: trace.batch.episodes, infos=infos, frames=frames, clock=clock, block_bytes=block)
        self.lanes += map(make, [None] if lanes is None else range(lanes))
        self.lane = self.lanes[0]
        self._full = False
        self.observations, self.actions, self.rewards = (LiveRows(self.lane, name) for name in EPISODE_ARRAYS)
        if isinstance(self.directory, MemoryDirectory):
            self.directory.attend(self)
        self.deadline = 0.0
        self._set_deadline()
        self._finalizer = weakref.finalize(self, process.finish, trace)
        self._finalizer.atexit = False  # `trace` sees to that

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
        return self._trace.episodes_first if self._trace.batch.episodes else None

    @episodes_first.setter
    def episodes_first(self, number: int | None) -> None:
        pass  # numbers count the kept episodes, so that the batches of a trace are contiguous

    @property
    def buffered_step_count(self) -> int:
        """Steps since the last flush, those of running episodes included. Setting it moves the next flush."""
        return self._trace.batch.steps + sum(lane.steps for lane in self.lanes)

    @buffered_step_count.setter
    def buffered_step_count(self, steps: int) -> None:
        self._trace.batch.steps = steps - sum(lane.steps for lane in self.lanes)

    @property
    def buffer_batch_size(self) -> int | None:
        return self._buffer_batch_size

    @buffer_batch_size.setter
    def buffer_batch_size(self, steps: int | None) -> None:
        self._buffer_batch_size = at_least_zero(steps, "buffer_batch_size")
        self._set_deadline()

    @property
    def flush_interval(self) -> float | None:
        return self._flush_interval

    @flush_interval.setter
    def flush_interval(self, seconds: float | None) -> None:
        self._flush_interval = at_least_zero(seconds, "flush_interval")
        self._set_deadline()

    @property
    def batch_bytes(self) -> int | None:
        return self._batch_bytes

    @batch_bytes.setter
    def batch_bytes(self, size: int | None) -> None:
        self._batch_bytes = at_least_zero(size, "batch_bytes")

    # ---- recording

    def add_reset(
        self,
        observation: Any,
        *,
        seed: Any = None,
        options: Any = None,
        info: Any = None,
        frame: Any = None,
        lane: int = 0,
    ) -> None:
        """Ends the running episode of a lane, if there is one, and starts the next with its first observation.

        Raises:
            TraceError: the observation cannot be stored. The episode before it is not lost.
            ClosedError: the recorder is closed.
            OSError: a flush was due and failed. The reset is recorded, the data is kept, the next flush tries again.
        """
        self.begin(self.lanes[lane], observation, seed=seed, options=options, info=info, frame=frame)
        if self._full or time.monotonic() >= self.deadline:
            self.flush_if_due()

    def add_step(
        self,
        action: Any,
        observation: Any,
        reward: Any,
        *,
        terminated: bool | None = None,
        truncated: bool | None = None,
        info: Any = None,
        frame: Any = None,
        lane: int = 0,
    ) -> None:
        """Records a step: `action` was applied to the last observation, and led to `observation` and `reward`.

        Everything is copied. A step is recorded whole or not at all.

        Raises:
            TraceError: a value cannot be stored; the message has its path, and the episode goes on without this step.
            ClosedError, OSError: as `add_reset`.
        """
        running = self.lanes[lane]
        running.begin(action)
        running.finish(observation, reward, terminated, truncated, info, frame)
        if running.closed:
            raise ClosedError("the recorder was closed in the middle of this step, which is not recorded")
        if running.steps >= running.watch or time.monotonic() >= self.deadline:
            self.flush_if_due(running)

    def end_episode(self, lane: int = 0) -> None:
        """Ends the running episode of a lane, if there is one.

        Raises:
            ClosedError, OSError: as `add_reset`.
        """
        self.end(self.lanes[lane])
        self.flush_if_full()

    def begin(self, lane: Lane, observation: Any, **given: Any) -> None:
        """Ends what runs in a lane and begins an episode, as `Lane.reset`. `flush_if_due` must be called afterwards.

        Raises:
            TraceError, ClosedError: as `add_reset`.
        """
        if lane.running or lane.dirty or lane.lost:
            self.end(lane)
        if isinstance(self.directory, MemoryDirectory):
            self.directory.warn_elsewhere()
        lane.reset(observation, **given, started=utc_now())

    def end(self, lane: Lane) -> None:
        """Ends what runs in a lane. Whoever records calls `flush_if_full` or `flush_if_due` afterwards.

        Raises:
            ClosedError: as `add_reset`.
        """
        with self._trace.alone:
            streamed = lane.stream is not None
            if lane.end("reset"):
                self.episode_id += 1
                if streamed:
                    self._full = True
                else:
                    self._count(self._trace.batch)

    def _count(self, batch: Batch) -> None:
        """Counts the episode that was added to a batch."""
        if len(batch.episodes) == 1:  # the first; or somebody has thrown the others away
            batch.size = 0
        episode = batch.episodes[-1]
        batch.steps += len(episode["rewards"])
        batch.size += _EPISODE_BYTES + sum([size_of(episode[key]) for key in _WITH_ARRAYS if key in episode])
        limit = self.buffer_batch_size
        if (limit is not None and batch.steps >= limit) or batch.size >= self._max_bytes():
            self._full = True

    def flush_if_full(self) -> None:
        """Writes the ended episodes if there are enough, or if one of them was streamed.

        Raises:
            OSError: as `add_reset`.
        """
        if self._full:
            self._full = False
            self._postpone()
            self._trace.flush(background=True)

    def _max_bytes(self) -> float:
        if self.batch_bytes is not None:
            return self.batch_bytes
        return BATCH_BYTES if self.buffer_batch_size is None else float("inf")

    def flush_if_due(self, *lanes: Lane) -> None:
        """Writes what is due after a step of `lanes`; recorders ask when `deadline` or a `lane.watch` is reached.

        That is everything if `flush_interval` has gone since the last flush; the ended episodes if there are enough;
        and those running episodes that have grown too large.

        Raises:
            OSError: as `add_reset`.
        """
        if time.monotonic() >= self.deadline:
            self._set_deadline()
            self._full = False
            self._trace.flush(running=self.lanes, background=True)
        large = [lane for lane in lanes if lane.steps >= lane.watch and self._is_large(lane)]
        if large:
            self._full = False
            self._trace.flush(running=large, background=True)
        self.flush_if_full()

    def _is_large(self, lane: Lane) -> bool:
        """Whether the running episode of a lane has outgrown its share of memory; says when to look again."""
        limit = self._max_bytes() * min(STREAM_BATCHES, LANES_BATCHES / len(self.lanes))
        steps, size = lane.steps - lane.handed, lane.size()
        room = limit - size if size < limit else limit
        # The next look is when it will be full if it goes on as it did, but not after more than twice the steps.
        lane.watch = lane.steps + max(1, min(FIRST_WATCH + steps, int(min(room, 1e12) * steps / (size + 1))))
        return size >= limit

    def _interval(self) -> float | None:
        """Seconds between flushes, as they are in force; None if time is no reason."""
        if self._flush_interval is None and self._buffer_batch_size is None:
            return FLUSH_INTERVAL
        return self._flush_interval

    def _set_deadline(self) -> None:
        interval = self._trace.flush_interval = self._interval()
        self.deadline = float("inf") if interval is None else time.monotonic() + interval

    def _postpone(self) -> None:
        """Begins a new `flush_interval`, unless something runs: a flush of ended episodes does not write that."""
        if not any(lane.steps for lane in self.lanes):
            self._set_deadline()

    def save_complete(self) -> None:
        """Writes all ended episodes and waits until that is done. Another thread may call it.

        Raises:
            TraceError: a signal handler called it in the midst of another call.
            OSError: a file could not be written; it names the file. The episodes are kept, the next flush tries again.
        """
        process.refuse_handlers(self, self._trace, *self.lanes)
        self._postpone()
        self._trace.flush()

    def close(self) -> None:
        """Ends the running episode, writes everything, and records no more. Closing twice is closing once.

        Raises:
            TraceError: as `save_complete`.
            OSError: as `save_complete`. The recorder is not closed then: free some space and close it again.
        """
        process.refuse_handlers(self, self._trace, *self.lanes)
        self._close()

    def _close(self) -> None:
        with self._trace.alone:
            if not self.closed:
                for lane in self.lanes:
                    if not lane.closed and lane.end("close"):
                        self.episode_id += 1
                self._trace.close()
                self.closed = True
                self._finalizer.detach()
                logger.info("Wrote traces to %s", self.directory)

    def __enter__(self) -> TraceRecording:
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def __reduce__(self) -> Any:
        """A copy, also in another process, is a new recorder in the same directory.

        It has a trace of its own and begins empty, because what was recorded before belongs to the original.
        """
        names = "buffer_batch_size", "batch_bytes", "flush_interval"
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        return partial(type(self), self.directory, **self._arguments, **options), ()
