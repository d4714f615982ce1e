"""An episode as it is read: its arrays, their shapes and what always holds between them.

Arrays are read-only and stay valid for as long as somebody holds them, also after the reader is closed.
Nothing here knows how an episode is stored.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Dict, Iterator

import numpy as np

from .errors import TraceError

ENDED_BY = ("terminated", "truncated", "reset", "close", "crash")
_REAL = (int, float, np.bool_, np.integer, np.floating)


class DictColumns(Dict[Any, Any]):
    """Dict observations or actions of an episode: by key the stacked rows, by number the dict of one step.

    `obs["image"]` is the array (n, ...) of all steps, `obs[t]` the dict of step t, `obs[2:5]` the same for some steps,
    `len(obs)` is n, and iterating gives the dicts. `keys`, `values`, `items` and `in` go by key. A key that is a number
    is found in `columns`.
    """

    @property
    def columns(self) -> dict[Any, Any]:
        """A plain dict of the stacked rows."""
        return dict(self.items())

    def __len__(self) -> int:
        return len(next(iter(self.values())))

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return (self[step] for step in range(len(self)))

    def __reversed__(self) -> Iterator[Any]:
        return (self[step] for step in reversed(range(len(self))))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return DictColumns((key, rows[index]) for key, rows in self.items())
        if hasattr(index, "__index__"):
            step = _step(index, len(self))
            return {key: rows[step] for key, rows in self.items()}
        return super().__getitem__(index)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return type(self), (list(self.items()),)

    def __repr__(self) -> str:
        return f"DictColumns({self.columns!r})"


class TupleColumns(Sequence):  # type: ignore[type-arg]  # subscripting the ABC needs Python 3.9
    """Tuple observations or actions of an episode: `obs[t]` is the tuple of step t.

    Attributes:
        columns: the stacked rows (n, ...) of every item.
    """

    def __init__(self, columns: tuple[Any, ...]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return TupleColumns(tuple(rows[index] for rows in self.columns))
        step = _step(index, len(self))
        return tuple(rows[step] for rows in self.columns)

    def __repr__(self) -> str:
        return f"TupleColumns({self.columns!r})"


def _step(index: Any, count: int) -> int:
    step = operator.index(index)
    if not -count <= step < count:
        raise IndexError(f"step {step} of {count}")
    return step % count


@dataclass(frozen=True, eq=False)
class Episode:
    """One episode of T steps. `actions[t]` was applied to `observations[t]` and led to `observations[t + 1]`.

    Attributes:
        observations: shape (T + 1, ...), (T, ...) if `headless`: an ndarray, `DictColumns` or `TupleColumns`; for what
            cannot be stacked, a list with one value per row.
        actions: shape (T, ...), likewise. Shape (0,) if T = 0.
        rewards: shape (T,). `rewards[t]` came with `observations[t + 1]`.
        terminated, truncated: the flags of the last step; None where unknown (old files, T = 0).
        ended_by: "terminated", "truncated", "reset", "close" or "crash"; None while it runs, or in old files.
        seed, options: what `reset` was given, else None.
        started: when it was reset, UTC, ISO 8601; None where unknown.
        lane: the number of the sub-environment of a vector environment, else None.
        timestamps: shape (T,), float64 seconds since 1970 UTC, when each step ended; None if not recorded.
        infos: one dict per row of `observations`, `infos[t]` came with `observations[t]`; None if not recorded.
        frames: pictures, uint8, one per row of `observations`, (n, height, width[, channels]); if some are missing or
            differ in size, a list with an array or None for each; None if not recorded.
        headless: no first observation is known (recording began in mid-episode): `observations[t]` is what
            `actions[t]` led to, and the first step is no transition.
        gaps: steps t before which something happened that is not recorded, so that `actions[t]` was not applied to
            `observations[t]`: a call of step that failed, or whose observation could not be stored.
    """

    observations: Any
    actions: Any
    rewards: Any
    terminated: bool | None = None
    truncated: bool | None = None
    ended_by: str | None = None
    seed: int | None = None
    options: Any = None
    started: str | None = None
    lane: int | None = None
    timestamps: Any = None
    infos: list[dict[str, Any]] | None = None
    frames: Any = None
    headless: bool = False
    gaps: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        steps = len(self.rewards)
        for name, expected in (("actions", steps), ("observations", steps + (not self.headless))):
            found = len(getattr(self, name))
            if found != expected:
                raise TraceError("wrong number of rows", field=name, expected=str(expected), found=str(found))

    @classmethod
    def checked(cls, members: dict[str, Any]) -> Episode:
        """An episode whose arrays are known to fit: a scan of short ones takes half the time."""
        episode = cls.__new__(cls)
        episode.__dict__.update(_BLANK, **members)
        return episode

    def __len__(self) -> int:
        """T, the number of steps."""
        return len(self.rewards)

    def __bool__(self) -> bool:
        """An episode without a step is an episode."""
        return True

    @property
    def total_reward(self) -> float:
        """The sum of the rewards in float64, the return without discount; NaN if they are not one number per step."""
        rewards = self.rewards
        if isinstance(rewards, np.ndarray):
            is_number = rewards.size == len(rewards) and np.can_cast(rewards.dtype, "float64")
            return float(rewards.sum(dtype="float64")) if is_number else math.nan
        if not isinstance(rewards, list) or not all(isinstance(reward, _REAL) for reward in rewards):
            return math.nan
        try:
            return float(sum(map(float, rewards)))  # ints beyond int64, ints and floats that are not stacked
        except OverflowError:  # an int beyond float64
            return math.nan

    def __repr__(self) -> str:
        return f"<Episode of {len(self)} steps, ended by {self.ended_by}>"


_BLANK = {field.name: None if field.default is MISSING else field.default for field in fields(Episode)}
