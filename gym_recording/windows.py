"""Windows: sequences of transitions of one length that never cross an episode, nor a gap in one."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import numpy as np

from .selection import whole_number
from .steps import Steps
from .transitions import Samples


class Window(NamedTuple):
    """L consecutive transitions, or n such windows: then each field has those of all, stacked.

    As in an episode, `actions[t]` was applied to `observations[t]` and led to `observations[t + 1]`. Fields are as in
    `Transition`; where values do not stack, there is a list for each window.

    Attributes:
        observations: shape (n, L + 1, ...).
        actions: shape (n, L, ...).
        rewards: shape (n, L).
        terminated, truncated: shape (n, L): true at the last steps of episodes alone.
        mask: shape (n, L), bool: whether the step is one. Where it is false the episode, or what is recorded without a
            gap, is over: all arrays have zeros there, lists None; the observation after the last step is still real.
    """

    observations: Any
    actions: Any
    rewards: Any
    terminated: Any
    truncated: Any
    mask: Any


class Windows(Samples):
    """The windows of a reader, in order: a sequence of `Window`. After a refresh of the reader it has more.

    Args:
        steps: gives where its steps lie.
        length: L, of a window, in steps.
        stride: steps from the beginning of a window to that of the next.
        pad: whether windows that reach beyond the end are filled up; else they are left out.

    Raises:
        TraceError: `length` or `stride` is no positive int.
    """

    _noun = "window"

    def __init__(self, steps: Callable[[], Steps], length: int, stride: int, pad: bool) -> None:
        super().__init__(steps)
        self._length, self._stride = whole_number(length, 1, "length"), whole_number(stride, 1, "stride")
        self._pad = pad

    def counts(self, steps: Steps) -> Any:
        last = steps.counts - (1 if self._pad else self._length)  # where the last may begin
        return np.maximum(last // self._stride + 1, 0)

    def read(self, chosen: Any) -> Window:
        steps, picks = self.locate(chosen)
        left = (steps.starts[picks.segments] + steps.counts[picks.segments] - picks.at)[:, None]
        within = np.arange(self._length + 1)
        seen = picks.at[:, None] + np.minimum(within, left)  # the observation after the last step is the last row
        at = picks.at[:, None] + np.minimum(within[:-1], left - 1)
        mask = within[:-1] < left
        found = steps.gather(picks, {"observations": seen, "actions": at, "rewards": at}, apart=False)
        read = {member: part for member, (part,) in found.items()}
        flags = steps.flags(picks, at)
        mask = mask.take(picks.back, 0)
        if not mask.all():
            whole = np.concatenate([np.ones((len(mask), 1), "bool"), mask], axis=1)
            _blank(read["observations"], whole)
            for part in (read["actions"], read["rewards"], *flags):
                _blank(part, mask)
        return Window(**read, terminated=flags[0], truncated=flags[1], mask=mask)


def _blank(part: Any, mask: Any) -> None:
    """Zeros, or None, where the mask is false."""
    if isinstance(part, np.ndarray):
        part[~mask] = np.zeros((), part.dtype)
    elif isinstance(part, list):
        for row, column in zip(*(axis.tolist() for axis in np.nonzero(~mask))):
            part[row][column] = None
    else:
        for item in part.values() if isinstance(part, dict) else part:
            _blank(item, mask)
