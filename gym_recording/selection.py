"""Which episodes a view has: those that were named, and of them those whose summary fits.

Episodes that are named by number are kept by the batch in which they are, so that they stay the same ones when a
refresh shows others before them. What is asked of their summary is asked anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Collection, Iterable, Mapping, NamedTuple

import numpy as np

from .episode import ENDED_BY
from .errors import TraceError
from .options import json_copy
from .source import Source
from .summary import Summary, summarize

MOST = 1 << 40  # of anything asked for: more has no place in memory, and must not overflow an int64
_BOUNDS = ("min_length", "max_length", "min_return", "max_return")


class Asked(NamedTuple):
    """What `TraceRecordingReader.select` was asked for; None for what was not."""

    min_length: int | None
    max_length: int | None
    min_return: float | None
    max_return: float | None
    ended_by: str | Collection[str | None] | None
    env: str | None
    trace: str | None
    metadata: Mapping[str, Any] | None

    def checked(self) -> Asked:
        """The same, whatever happens to what the caller gave.

        Raises:
            TraceError: an argument is malformed.
        """
        for name in _BOUNDS:
            value = getattr(self, name)
            if not (value is None or _is_number(value)):
                raise TraceError("malformed", field=name, expected="a number", found=repr(value)[:80])
        for name in ("env", "trace"):
            value = getattr(self, name)
            if not (value is None or isinstance(value, str)):
                raise TraceError("malformed", field=name, expected="a name", found=repr(value)[:80])
        ended_by: Any = self.ended_by
        if ended_by is not None:
            is_one = isinstance(ended_by, str) or not isinstance(ended_by, Iterable)
            ended_by = (ended_by,) if is_one else tuple(ended_by)
        for reason in ended_by or ():
            if not (reason is None or (isinstance(reason, str) and reason in ENDED_BY)):
                raise TraceError("unknown", field="ended_by", expected=", ".join(ENDED_BY), found=repr(reason)[:80])
        return self._replace(ended_by=ended_by, metadata=json_copy(self.metadata, "metadata"))


@dataclass(frozen=True)
class Selection:
    """Which episodes a view has.

    Attributes:
        named: by the file of a batch, the numbers of the episodes in it, rising. They stay, whatever else changes. None
            if none were named.
        asked: of the others.
    """

    named: dict[str, Any] | None
    asked: Asked

    def numbers(self, source: Source, numbers: Any) -> Any:
        """The numbers of the selected episodes among those with `numbers`, rising; None means all.

        Raises:
            TraceError: what must be known of them is missing or damaged.
        """
        if self.named is not None:
            index = source.index
            there = {batch.file: (start, batch.count) for start, batch in zip(index.starts, index.batches)}
            parts = [there[file][0] + part[part < there[file][1]] for file, part in self.named.items() if file in there]
            numbers = np.sort(np.concatenate([np.zeros(0, "int64"), *parts]))
            numbers.setflags(write=False)  # a view's own
        asked = self.asked
        if all(value is None for value in asked):
            return numbers
        traces = source.index.traces
        summary = summarize(traces, source.outlines(numbers))
        fits = np.array([self._fits(trace) for trace in traces], "bool")[summary.traces]
        with np.errstate(invalid="ignore"):  # NaN, of which old versions of NumPy warn
            for bound, values, compare in self._bounds(summary):
                if bound is not None:
                    fits &= compare(values, bound)
        if asked.ended_by is not None:
            fits &= np.array([reason in asked.ended_by for reason in summary.ended_by], "bool")
        chosen = np.flatnonzero(fits) if numbers is None else numbers[fits]
        chosen.setflags(write=False)
        return chosen

    def _bounds(self, summary: Summary) -> Any:
        return (
            (self.asked.min_length, summary.lengths, np.greater_equal),
            (self.asked.max_length, summary.lengths, np.less_equal),
            (self.asked.min_return, summary.returns, np.greater_equal),  # a NaN is neither
            (self.asked.max_return, summary.returns, np.less_equal),
        )

    def _fits(self, trace: Any) -> bool:
        metadata = trace.metadata if isinstance(trace.metadata, dict) else {}
        asked = self.asked
        return (
            asked.env in (None, trace.env.get("id"))
            and asked.trace in (None, trace.name)
            and all(key in metadata and metadata[key] == value for key, value in (asked.metadata or {}).items())
        )


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, (int, float, np.integer, np.floating)) and not math.isnan(value)
    except OverflowError:  # an int beyond float64
        return False


def named_by(source: Source, numbers: Any, episodes: Any) -> dict[str, Any]:
    """The episodes that a caller names among those with `numbers`, a range or an array.

    Args:
        source: where they are.
        numbers: of the episodes to choose from.
        episodes: a slice, numbers among them, negative ones from the end, or an array of bool with one for each.

    Raises:
        TraceError: it is none of these; or a slice has an episode of a batch that is missing or damaged.
        IndexError: there is no such episode.
    """
    if isinstance(episodes, slice):
        chosen = numbers[episodes]
        if episodes.step is not None and episodes.step < 0:
            expected = "a step from 1 on: a view has the order of the recording"
            raise TraceError("cannot be chosen so", field="episodes", expected=expected, found=repr(episodes)[:80])
    else:
        chosen = np.sort(positions(episodes, len(numbers), "episode"))
        doubles = chosen[1:][chosen[1:] == chosen[:-1]]
        if len(doubles):
            found = f"{doubles[0]} twice"
            raise TraceError("cannot be chosen so", field="episodes", expected="each once", found=found)
        chosen = chosen if isinstance(numbers, range) else numbers[chosen]
    index, named = source.index, {}
    for position, part in index.by_batch(chosen):
        batch = index.batches[position]
        if isinstance(part, range):
            source.read_header(batch)  # only a batch that has so many episodes gets memory for their numbers
        named[batch.file] = np.asarray(part, "int64")
    return named


def positions(wanted: Any, count: int, noun: str) -> Any:
    """Positions among `count` things from what a caller gave, as an array of int64 (n,).

    Args:
        wanted: numbers, negative ones from the end, or an array of bool with one for each.
        count: how many there are.
        noun: what they are, for error messages.

    Raises:
        TraceError: it is none of these.
        IndexError: there is no such thing.
    """
    try:
        array = np.asarray(wanted)
    except ValueError:  # lists of different lengths
        array = np.zeros((), "object")
    if array.dtype == np.int64 and array.ndim == 1 and not (array.view("uint64") >= count).any():
        return array  # what is negative is large there; this alone is what many random samples need
    if array.dtype == bool and array.shape == (count,):
        return np.flatnonzero(array)
    if array.size == 0 and array.ndim == 1:
        return np.zeros(0, "int64")
    if array.dtype.kind not in "iu" or array.ndim != 1:
        expected = f"numbers, or {count} bools"
        raise TraceError("cannot be chosen so", field=f"{noun}s", expected=expected, found=repr(wanted)[:80])
    low, high = array.min(), array.max()
    if low < -count or high >= count:
        raise IndexError(f"there is no {noun} {low if low < -count else high}: {count} are there")
    array = array.astype("int64", copy=False)
    return np.where(array < 0, array + count, array) if low < 0 else array


def whole_number(value: Any, least: int, field: str) -> int:
    """A number that a caller gave, as an int of Python.

    Raises:
        TraceError: it is no int, or less than `least`, or more than there can be.
    """
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or not least <= value <= MOST:
        expected = f"at most {MOST}" if is_whole and value > MOST else f"{least} or more"
        raise TraceError("not a number of steps", field=field, expected=expected, found=repr(value)[:80])
    return int(value)
