"""One running episode: its columns, its count, its flags.

A step has two halves, because an environment may overwrite the action it is given: `begin` before it, `finish` after.
The count rises last. What an exception or Ctrl-C left half done is cut back when the lane is used next (`dirty`), so a
step is recorded whole or not at all, and an ended episode is appended exactly once. Knows no file, no clock, no Gym.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Callable, overload

import numpy as np

from .columns import Column
from .errors import ClosedError, TraceError
from .values import normalise_key, path_text, snapshot


class Lane:
    """Records the steps of one environment, one episode after the other.

    Args:
        episodes: gives the list that ended episodes are appended to, as it is at that moment.
        number: `lane` of its episodes, for a vector environment.
        infos: whether to record them.
        clock: gives the timestamps; None: none are recorded.

    Attributes:
        observations, actions, rewards: the columns of the running episode.
        steps: how many whole steps it has, T.
        first: how many observations come before the first step: 1 after a reset, else 0.
        dirty: something was begun and not finished, or the lane is closed.
    """

    def __init__(
        self,
        episodes: Callable[[], list[dict[str, Any]]],
        number: int | None = None,
        *,
        infos: bool = False,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._episodes = episodes
        self._clock = clock
        self.observations = Column(("observations",))
        self.actions = Column(("actions",))
        self.rewards = Column(("rewards",))
        self.number = number
        self.infos = Infos() if infos else None
        self.closed = False
        self.forget()

    def forget(self) -> None:
        """Starts an empty episode; what ran is gone. Steps before the next reset have no first observation."""
        for column in (self.observations, self.actions, self.rewards):
            column.clear()
        if self.infos is not None:
            self.infos.clear()
        self.timestamps: list[float] = []
        self.steps = 0
        self.first = 0
        self.began: dict[str, Any] = {}
        self.terminated: bool | None = None
        self.truncated: bool | None = None
        self.gaps: list[int] = []
        self.lost = False
        self._ended: dict[str, Any] | None = None
        self.dirty = False

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
            self._append()
            return
        count = self.steps
        self.observations.cut(count + self.first)
        self.actions.cut(count)
        self.rewards.cut(count)
        del self.timestamps[count:]
        if self.infos is not None:
            self.infos.cut(count + self.first)
        self.lost = True
        self.dirty = False

    def reset(
        self, observation: Any, seed: Any = None, options: Any = None, info: Any = None, started: str = ""
    ) -> None:
        """The first observation of a new episode, row 0 of `observations`. The last episode must have ended.

        Raises:
            TraceError: the observation cannot be stored; the episode then goes on without it.
        """
        self.dirty = True
        self.began = {"started": started}
        if seed is not None:
            try:
                self.began["seed"] = operator.index(seed)
            except TypeError:
                warnings.warn(f"the seed is not recorded, it is no int: {seed!r}", stacklevel=4)
        if options is not None:
            try:
                self.began["options"] = snapshot(options, ("options",))
            except TraceError as error:
                warnings.warn(f"the options are not recorded: {error}", stacklevel=4)
        self.observations.add(observation)
        if self.infos is not None:
            self.infos.add(0, info)
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

    def finish(
        self,
        observation: Any,
        reward: Any,
        terminated: bool | None,
        truncated: bool | None,
        info: Any = None,
    ) -> None:
        """What the step begun led to.

        Raises:
            TraceError: the observation or reward cannot be stored; the step is not recorded, and a gap is noted.
        """
        self.observations.add(observation)
        self.rewards.add(reward)
        if self._clock is not None:
            self.timestamps.append(self._clock())
        if self.infos is not None:
            self.infos.add(self.steps + self.first, info)
        if self.lost:
            if self.running:
                self.gaps.append(self.steps)
            self.lost = False
        self.terminated = terminated if terminated is None else bool(terminated)
        self.truncated = truncated if truncated is None else bool(truncated)
        self.steps += 1
        self.dirty = False

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
        self.dirty = True
        self._ended = self._episode(reason)
        self._append()
        return True

    def _append(self) -> None:
        episodes = self._episodes()
        if not (episodes and episodes[-1] is self._ended):
            episodes.append(self._ended)  # type: ignore[arg-type]
        self.forget()

    def _episode(self, reason: str) -> dict[str, Any]:
        episode: dict[str, Any] = {
            "observations": self.observations.finish(),
            "actions": self.actions.finish(),
            "rewards": self.rewards.finish(),
        }
        if self.terminated is not None:
            episode["terminated"] = self.terminated
        if self.truncated is not None:
            episode["truncated"] = self.truncated
        episode["ended_by"] = "terminated" if self.terminated else "truncated" if self.truncated else reason
        episode.update(self.began)
        if self.number is not None:
            episode["lane"] = self.number
        if not self.first:
            episode["headless"] = True
        if self.gaps:
            episode["gaps"] = self.gaps
        if self._clock is not None:
            episode["timestamps"] = np.array(self.timestamps, dtype="float64")
        if self.infos is not None:
            episode["infos"] = self.infos.finish()
        return episode


class Infos:
    """The infos of the running episode: a sparse column per key, and the rows at which it has a value."""

    def __init__(self) -> None:
        self.columns: dict[Any, tuple[list[int], Column]] = {}
        self.refused: set[Any] = set()

    def add(self, row: int, info: Any) -> None:
        """Copies the info that came with observation `row`, but for what cannot be stored: one warning per key."""
        if info is None:
            return
        if not isinstance(info, Mapping):
            self._refuse(None, TraceError(f"cannot store {type(info)}", field="infos", expected="a dict"))
            return
        for key, value in info.items():
            entry = self.columns.get(key)
            if entry is None:
                try:
                    key = normalise_key(key, ("infos",))
                except TraceError as error:
                    self._refuse(key, error)
                    continue
                entry = self.columns.setdefault(key, ([], Column(("infos", key))))
            at, column = entry
            try:
                column.add(value)
            except TraceError as error:
                column.cut(len(at))
                self._refuse(key, error)
            else:
                at.append(row)

    def _refuse(self, key: Any, error: TraceError) -> None:
        if key not in self.refused:
            self.refused.add(key)
            warnings.warn(f"not recorded: {error}", stacklevel=6)

    def cut(self, rows: int) -> None:
        """Forgets what came with observation `rows` and later ones."""
        for at, column in self.columns.values():
            while at and at[-1] >= rows:
                at.pop()
            column.cut(len(at))

    def clear(self) -> None:
        """Starts the next episode."""
        for at, column in self.columns.values():
            at.clear()
            column.clear()

    def finish(self) -> dict[Any, dict[str, Any]]:
        """`{key: {"rows": int64 (n,), "values": as Column.finish gives them}}` for the keys that the episode has."""
        return {
            key: {"rows": np.array(at, dtype="int64"), "values": column.finish()}
            for key, (at, column) in self.columns.items()
            if at
        }


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
