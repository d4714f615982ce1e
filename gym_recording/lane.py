"""One running episode: its columns, its count, its flags.

A step has two halves, because an environment may overwrite the action it is given: `begin` before it, `finish` after.
The count rises last. What an exception or Ctrl-C left half done is cut back when the lane is used next (`dirty`), so a
step is recorded whole or not at all, and an ended episode is appended exactly once. Knows no file, no clock, no Gym.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple, overload

import numpy as np

from .columns import Column
from .errors import ClosedError, TraceError
from .rows import BLOCK_BYTES
from .sparse import Frames, Infos
from .values import MAX_INT_BITS, path_text, snapshot

if TYPE_CHECKING:
    from .stream import Stream

Flags = Tuple[int, Optional[bool], Optional[bool]]  # after how many steps; terminated; truncated
NO_FLAGS: Flags = (0, None, None)
FIRST_WATCH = 16  # steps of an episode before it is first asked how large it is


class Lane:
    """Records the steps of one environment, one episode after the other.

    Args:
        episodes: gives the list that ended episodes are appended to, as it is at that moment.
        number: `lane` of its episodes, for a vector environment.
        infos, frames: whether to record them.
        clock: gives the timestamps; None: none are recorded.
        block_bytes: as `Column` has it.

    Attributes:
        observations, actions, rewards: the columns of the running episode.
        steps: how many whole steps it has, T.
        first: how many observations come before the first step: 1 after a reset, else 0.
        dirty: something was begun and not finished, or the lane is closed.
        watch: the number of steps at which to look how large the episode has become.
        infos, frames: those of the running episode; None: they are not recorded.
        camera: gives the frame of a reset or step that is passed none.
        handed: how many steps are handed over to `stream`.
        lost: a step was made, or may have been, that is not recorded.
        handing: it is not a step that was begun and not finished, but a handing over.
        stream: where the episode goes, if it is streamed.
    """

    def __init__(
        self,
        episodes: Callable[[], list[dict[str, Any]]],
        number: int | None = None,
        *,
        infos: bool = False,
        frames: bool = False,
        clock: Callable[[], float] | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._episodes = episodes
        self._clock = clock
        self.observations = Column(("observations",), block_bytes)
        self.actions = Column(("actions",), block_bytes)
        self.rewards = Column(("rewards",))
        self.timestamps = Column(("timestamps",))
        self.number = number
        self.infos = Infos() if infos else None
        self.frames = Frames(block_bytes) if frames else None
        self.camera: Callable[[], Any] | None = None
        self._warned = False
        self._has_more = infos or frames or clock is not None
        self.closed = False
        self.forget()

    def forget(self) -> None:
        """Starts an empty episode; what ran is gone. Steps before the next reset have no first observation."""
        for column in (self.observations, self.actions, self.rewards):
            column.clear()
        if self._has_more:
            self.timestamps.clear()
            for sparse in self._sparse():
                sparse.clear()
        self.steps = 0
        self.first = 0
        self.began: dict[str, Any] = {}
        self.flags = [NO_FLAGS, NO_FLAGS]  # of the last two steps, because the very last may be cut back
        self.gaps: list[int] = []
        self.lost = False
        self.watch = FIRST_WATCH
        self.handed = 0
        self.handing = False
        self.stream: Stream | None = None
        self._ended: tuple[dict[str, Any], Stream | None] | None = None
        self._filming = False
        self.dirty = self.closed

    @property
    def running(self) -> bool:
        """Whether there is anything to end."""
        return self.steps + self.first > 0

    def close(self) -> None:
        """Records no more. What runs must have ended."""
        self.dirty = self.closed = True

    def recover(self) -> None:
        """Cuts back what was left half done.

        Raises:
            ClosedError: the lane is closed.
        """
        if self.closed:
            raise ClosedError("the recorder is closed; wrap the environment anew to record more")
        if self._ended is not None:
            self.settle()
            return
        count = self.steps
        self._filming = False
        self.observations.cut(count + self.first)
        self.actions.cut(count)
        self.rewards.cut(count)
        self.timestamps.cut(count)
        for sparse in self._sparse():
            sparse.cut(count + self.first)
        self.lost = self.lost or not self.handing  # the environment may have made a step that nobody knows of
        self.handing = self.dirty = False

    def reset(
        self,
        observation: Any,
        seed: Any = None,
        options: Any = None,
        info: Any = None,
        started: str = "",
        frame: Any = None,
    ) -> None:
        """The first observation of a new episode, row 0 of `observations`. The last episode must have ended.

        Raises:
            TraceError: the observation cannot be stored; the episode then goes on without it.
        """
        self.dirty = True
        self.began = {"started": started}
        if seed is not None:
            try:
                number = operator.index(seed)
                if number.bit_length() > MAX_INT_BITS:
                    raise TypeError
                self.began["seed"] = number
            except TypeError:
                warnings.warn(f"the seed is not recorded, it is no int, or too large a one: {type(seed)}", stacklevel=4)
        if options is not None:
            try:
                self.began["options"] = snapshot(options, ("options",))
            except TraceError as error:
                warnings.warn(f"the options are not recorded: {error}", stacklevel=4)
        self.observations.add(observation)
        if self.infos is not None:
            self.infos.add(0, info)
        if self.frames is not None and not self._add_frame(0, frame):
            return
        self.first = 1
        self.dirty = False

    def begin(self, action: Any) -> None:
        """Copies the action of the next step.

        Raises:
            ClosedError: the recorder is closed.
            TraceError: the action cannot be stored; nothing is recorded.
        """
        if self.dirty:
            self.recover()
        self.dirty = True
        self.actions.add(action)

    def take_back(self) -> None:
        """Forgets that a step was begun, because it was not made."""
        self.actions.cut(self.steps)
        self.dirty = self.closed

    def finish(
        self,
        observation: Any,
        reward: Any,
        terminated: bool | None,
        truncated: bool | None,
        info: Any = None,
        frame: Any = None,
    ) -> None:
        """What the step begun led to.

        Raises:
            TraceError: the observation or reward cannot be stored; the step is not recorded, and a gap is noted.
        """
        if not self.dirty or self.closed:  # ended, closed or forked in the middle of the step, which is nobody's now
            self.lost = True
            return
        self.observations.add(observation)
        self.rewards.add(reward)
        if (self._has_more or self.lost) and not self._finish_more(info, frame):
            return
        if terminated.__class__ is not bool or truncated.__class__ is not bool:
            terminated, truncated = self._flag(terminated), self._flag(truncated)
        steps = self.steps + 1
        self.flags[steps & 1] = (steps, terminated, truncated)
        self.steps = steps
        self.dirty = False

    def _flag(self, value: Any) -> bool | None:
        """A flag as it is recorded: None for what is neither true nor false, which is said once."""
        if value is None or value.__class__ is bool:
            return value
        if isinstance(value, (np.bool_, int, np.integer)) and int(value) in (0, 1):
            return bool(value)
        if isinstance(value, np.ndarray) and value.ndim == 0:
            return self._flag(value[()])
        if not self._warned:
            self._warned = True
            warnings.warn(f"terminated or truncated is not recorded, it is no bool: {value!r:.80}", stacklevel=5)
        return None

    def _finish_more(self, info: Any, frame: Any) -> bool:
        """What most steps of most recordings do not have; as `_add_frame`."""
        if self._clock is not None:
            self.timestamps.add(self._clock())
        if self.infos is not None:
            self.infos.add(self.steps + self.first, info)
        if self.frames is not None and not self._add_frame(self.steps + self.first, frame):
            return False
        if self.lost:
            if self.running:
                self.gaps.append(self.steps)
            self.lost = False
        return True

    def _add_frame(self, row: int, frame: Any) -> bool:
        """Adds the frame of a row; False if what was begun is nobody's now.

        A window that is drawn may answer a key with another reset or step, which has recovered from this one.
        """
        assert self.frames is not None
        if self.camera is not None:
            self._filming = True
            frame = self.camera()
            if not self._filming:
                self.lost = True
                return False
            self._filming = False
        self.frames.add(row, frame)
        return True

    def end(self, reason: str) -> bool:
        """Hands over the running episode and starts an empty one; says whether there was one.

        Args:
            reason: `ended_by` where neither flag of the last step says it.
        """
        if self.dirty:
            self.recover()
        if not self.running:
            self.forget()
            return False
        self.handing = self.dirty = True
        self._ended = (self._episode(reason), self.stream)
        self.settle()
        return True

    def settle(self) -> None:
        """Hands over the episode that has ended, if an interrupt came before that was done."""
        if self._ended is not None:
            episode, stream = self._ended
            if stream is not None:
                stream.episode = episode
            else:
                episodes = self._episodes()
                if not (episodes and episodes[-1] is episode):
                    episodes.append(episode)
            self.forget()

    def hand_over(self) -> None:
        """Hands the rows so far to `stream`."""
        if self.stream is not None:
            self.handing = self.dirty = True
            self.stream.episode = self._episode(None)
            self.handed = self.steps
            self.handing = self.dirty = False

    def size(self) -> int:
        """About how many bytes of memory the running episode takes, without what is handed over."""
        columns = [self.observations, self.actions, self.rewards, self.timestamps, *self._sparse()]
        return sum(column.size() for column in columns)

    def _sparse(self) -> list[Infos | Frames]:
        return [sparse for sparse in (self.infos, self.frames) if sparse is not None]

    def _episode(self, reason: str | None) -> dict[str, Any]:
        """The episode as `batch` wants it; `reason` is None while it runs."""
        stream = self.stream
        finish = Column.finish if stream is None else lambda column: column.hand_over(stream.new_blob)
        episode: dict[str, Any] = {
            "observations": finish(self.observations),
            "actions": finish(self.actions),
            "rewards": finish(self.rewards),
        }
        if reason is not None:
            step, terminated, truncated = self.flags[self.steps & 1]
            if step != self.steps:
                terminated = truncated = None
            if terminated is not None:
                episode["terminated"] = terminated
            if truncated is not None:
                episode["truncated"] = truncated
            episode["ended_by"] = "terminated" if terminated else "truncated" if truncated else reason
        episode.update(self.began)
        if self.number is not None:
            episode["lane"] = self.number
        if not self.first:
            episode["headless"] = True
        if self.gaps:
            gaps = sorted({gap for gap in self.gaps if gap < self.steps})
            episode.update({"gaps": gaps} if gaps else {})
        if self._clock is not None:
            episode["timestamps"] = finish(self.timestamps)
        if self.infos is not None:
            episode["infos"] = self.infos.finish(finish)
        if self.frames is not None:
            episode["frames"] = list(self.frames.finish(finish).values())
        return episode


class LiveRows(Sequence):  # type: ignore[type-arg]  # subscripting the ABC needs Python 3.9
    """The rows of the running episode so far: a read-only sequence that follows it."""

    def __init__(self, lane: Lane, name: str) -> None:
        self._lane = lane
        self._column: Column = getattr(lane, name)
        self._is_observations = name == "observations"

    def __len__(self) -> int:
        return self._lane.steps + (self._lane.first if self._is_observations else 0)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        rows = range(len(self))[index]
        return [self._column[i] for i in rows] if isinstance(rows, range) else self._column[rows]

    def __eq__(self, other: object) -> bool:
        return list(self) == other if isinstance(other, (list, LiveRows)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {path_text(self._column.path)}>"
