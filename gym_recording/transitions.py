"""All transitions of a reader as one sequence: one, many at once, or a random sample.

A step that is no transition is not among them: the first of an episode without a first observation, and those before
which something was not recorded.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Sequence
from typing import Any, Callable, Iterable, Iterator, NamedTuple

import numpy as np

from .errors import TraceError
from .selection import positions, whole_number
from .steps import Picks, Steps

_CHUNK = 256  # items that a loop over all of them reads at once
_SEEN = np.arange(2)  # the observations of a transition: before it, and after


class Transition(NamedTuple):
    """A step seen whole, or n of them: then each field has the values of all, stacked.

    Arrays are writable and nobody else's. A Dict is a dict of arrays, a Tuple a tuple of them. What differs in dtype,
    shape or structure between the episodes of the reader, or cannot be stacked, is a list with a value for each.

    Attributes:
        observations: shape (n, ...): what the agent saw.
        actions: shape (n, ...): what it did.
        rewards: shape (n,): what it got for it.
        next_observations: shape (n, ...): what it saw then.
        terminated, truncated: shape (n,): bool, true at the last steps of episodes alone. If they are unknown at the
            end of any episode of the reader, a list, with None there.
    """

    observations: Any
    actions: Any
    rewards: Any
    next_observations: Any
    terminated: Any
    truncated: Any


class Samples(Sequence):  # type: ignore[type-arg]  # subscripting the ABC needs Python 3.9
    """What transitions and windows have in common: a sequence whose items are also read many at once.

    `samples[k]` is one item; `samples[array]`, `samples[list]` and `samples[slice]` are many, stacked.
    """

    _noun = "item"
    _stride = 1  # steps from an item to the next

    def __init__(self, steps: Callable[[], Steps]) -> None:
        self._steps = steps
        self._seen: tuple[Any, Any, Any] = (None, None, None)  # after a refresh there are other steps

    def counts(self, steps: Steps) -> Any:
        """How many items each segment has."""
        raise NotImplementedError

    def read(self, chosen: Any) -> Any:
        """The items with these numbers, int64 (n,), each of which is there; stacked."""
        raise NotImplementedError

    def _look(self) -> tuple[Steps, Any, Any]:
        """The steps; the item at which each segment ends; what makes the number of an item there its first step."""
        steps = self._steps()
        if steps is not self._seen[0]:
            counts = self.counts(steps)
            ends = np.cumsum(counts, dtype="int64")
            self._seen = steps, ends, steps.starts - (ends - counts) * self._stride
        return self._seen

    def locate(self, chosen: Any) -> tuple[Steps, Picks]:
        """The steps, and those of them with which these items begin."""
        steps, ends, shifts = self._look()
        order = chosen.argsort()  # neighbours lie together, and what is sorted is found faster
        chosen = chosen[order]
        segments = ends.searchsorted(chosen, "right")
        at = shifts[segments]
        at += chosen if self._stride == 1 else chosen * self._stride
        return steps, steps.pick(order, segments, at)

    def __len__(self) -> int:
        ends = self._look()[1]
        return int(ends[-1]) if len(ends) else 0

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.read(np.arange(*index.indices(len(self)), dtype="int64"))
        if hasattr(index, "__index__") and not getattr(index, "ndim", 0):  # arrays of PyTorch have `__index__`, too
            try:
                (item,) = self.__getitems__([range(len(self))[operator.index(index)]])
                return item
            except IndexError:
                raise IndexError(f"there is no {self._noun} {index}: {len(self)} are there") from None
        return self.read(positions(index, len(self), self._noun))

    def __getitems__(self, indices: Iterable[int]) -> list[Any]:
        """The items with these numbers, one by one, read at once: for the DataLoader of PyTorch, which stacks them."""
        chosen = positions(list(indices), len(self), self._noun)
        items = self._separable(self.read(chosen))
        return [_row(items, row) for row in range(len(chosen))]

    def _separable(self, items: Any) -> Any:
        return items

    def __iter__(self) -> Iterator[Any]:
        steps, look = self._steps(), copy.copy(self)
        look._steps = lambda: steps  # of this look: a refresh meanwhile changes what the numbers mean
        for start in range(0, len(look), _CHUNK):
            yield from look.__getitems__(range(start, min(start + _CHUNK, len(look))))

    def sample(self, n: int, rng: np.random.Generator | int | None = None) -> Any:
        """`n` of them, stacked, drawn uniformly and independently of each other.

        Args:
            n: how many.
            rng: a generator of NumPy, a seed, or None for one that is seeded by the system.

        Raises:
            TraceError: there is none; or `n` is no int from 0 on.
        """
        n = whole_number(n, 0, "n")
        if not len(self):
            raise TraceError(f"there is no {self._noun} to draw")
        return self.read(np.random.default_rng(rng).integers(len(self), size=n))


class Transitions(Samples):
    """The transitions of a reader, in order: a sequence of `Transition`. After a refresh of the reader it has more.

    Args:
        steps: gives where they lie.
    """

    _noun = "transition"

    def counts(self, steps: Steps) -> Any:
        return steps.counts

    def read(self, chosen: Any) -> Transition:
        steps, picks = self.locate(chosen)
        at = picks.at[:, None]
        read = steps.gather(picks, {"observations": at + _SEEN, "actions": at, "rewards": at}, apart=True)
        observations, next_observations = read["observations"]
        terminated, truncated = steps.flags(picks, picks.at)
        return Transition(
            observations, read["actions"][0], read["rewards"][0], next_observations, terminated, truncated
        )

    def _separable(self, items: Transition) -> Transition:
        """With flags that are bools of Python, as environments give them; PyTorch warns of NumPy's."""
        flags = {name: np.asarray(getattr(items, name)).tolist() for name in ("terminated", "truncated")}
        return items._replace(**flags)


def _row(items: Any, row: int) -> Any:
    """One of many: row by row of what is stacked."""
    if isinstance(items, tuple):
        parts = [_row(item, row) for item in items]
        return type(items)(*parts) if hasattr(items, "_fields") else tuple(parts)
    return {key: _row(item, row) for key, item in items.items()} if isinstance(items, dict) else items[row]
