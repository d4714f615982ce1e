"""Where the steps of some episodes lie that are transitions, and many of them at once as arrays.

Of each episode a few numbers are kept. Steps are sorted by block (`outline`); of each block, one index
operation a leaf takes its rows from the mapped blob. Whether a leaf is an array is decided for all the episodes: where
dtype, row shape or structure differ between them it is a list of values, whatever is asked for. Nothing is cast.
"""

from __future__ import annotations

import sys
from typing import Any, Iterator, NamedTuple

import numpy as np

from .episode import Episode
from .errors import TraceError
from .format import EPISODE_ARRAYS
from .outline import Block, Form, Parts, Rows, merge
from .source import Source
from .values import Path, array_bytes, own

_LARGE = 1 << 12  # bytes of a row; such rows are copied one by one, straight to their place, smaller ones twice in bulk
_NO_STEPS = Parts.of(True, EPISODE_ARRAYS, (Rows((), np.dtype("float64")),) * 3)  # as episodes without a step have it
_NUMBERS = ("numbers", "starts", "counts", "last", "head", "block", "place")  # of a segment


class Picks(NamedTuple):
    """Some steps of which rows are wanted, in rising order, so that those of one block lie together.

    Attributes:
        order: int64 (n,): which of the steps that were asked for stands where.
        back: int64 (n,): where each of them stands.
        segments, at: int64 (n,): the segments, and the steps of their episodes, in that order.
        runs: block, begin and end in it.
    """

    order: Any
    back: Any
    segments: Any
    at: Any
    runs: list[tuple[int, int, int]]


class _Bulk:
    """Small rows on their way: copied in bulk from every block, then once more, into the order that is wanted."""

    def __init__(self, form: Rows, picks: Picks, wanted: Any, apart: bool) -> None:
        self._picks, self._apart = picks, apart
        self._count, self._width = wanted.shape
        self._wanted = wanted.reshape(-1)
        self._out: Any = np.empty((len(self._wanted), *form.shape), form.dtype)

    def fill(self, column: Any, begin: int, end: int) -> None:
        """Takes the rows of one block."""
        part = slice(begin * self._width, end * self._width)
        # Nothing needs to be clipped, but NumPy fills an array straight only if it need not raise halfway.
        column.take(self._wanted[part], 0, self._out[part], "clip")

    def results(self) -> list[Any]:
        """As `Steps.gather` gives them."""
        back, width = self._picks.back, self._width
        if self._apart:
            return [self._out.take(back * width + number, 0) for number in range(width)]
        return [self._out.reshape(self._count, width, *self._out.shape[1:]).take(back, 0)]


class _OneByOne:
    """Large rows on their way: each is copied straight to its place."""

    def __init__(self, form: Rows, picks: Picks, wanted: Any, apart: bool) -> None:
        self._picks, self._wanted = picks, wanted
        count, width = wanted.shape
        if apart:
            self._parts: list[Any] = [np.empty((count, *form.shape), form.dtype) for _ in range(width)]
            self._results = self._parts
        else:
            self._results = [np.empty((count, width, *form.shape), form.dtype)]
            self._parts = [self._results[0][:, number] for number in range(width)]

    def fill(self, column: Any, begin: int, end: int) -> None:
        """Takes the rows of one block."""
        for place, row in zip(self._picks.order[begin:end].tolist(), self._wanted[begin:end].tolist()):
            for part, number in zip(self._parts, row):
                part[place] = column[number]

    def results(self) -> list[Any]:
        """As `Steps.gather` gives them."""
        return self._results


class Steps:
    """The steps of some episodes that are transitions, in S segments: runs of consecutive ones.

    Attributes:
        source: what they are read from.
        numbers: int64 (S,): of the episode of a segment, in the recording.
        starts, counts: int64 (S,): the first step of a segment, and how many it has.
        form: of their rows.
    """

    def __init__(self, source: Source, numbers: Any) -> None:
        self.source, self._index = source, source.index
        parts: dict[str, list[Any]] = {name: [] for name in (*_NUMBERS, "terminated", "truncated")}
        forms: list[Form] = []
        self._blocks: list[Block] = []
        for start, chosen, outline in source.outlines(numbers):
            is_chosen = np.zeros(len(outline.lengths), "bool")
            is_chosen[chosen] = True
            segments = outline.segments[is_chosen[outline.segments[:, 0]]]
            episodes, head = segments[:, 0], outline.headless[segments[:, 0]]
            blocks = outline.block[episodes]
            last, places = outline.lengths[episodes] - 1, outline.place[episodes]
            found = (start + episodes, *segments.T[1:], last, head, blocks + len(self._blocks), places)
            for name, part in zip(_NUMBERS, found):
                parts[name].append(part)
            for name in ("terminated", "truncated"):
                parts[name].append(np.array(outline.facts[name], "object")[episodes])
            forms += [outline.blocks[block].form for block in np.unique(blocks)]
            self._blocks += outline.blocks
        joined = [np.concatenate([np.zeros(0, "int64"), *parts[name]]).astype("int64") for name in _NUMBERS]
        self.numbers, self.starts, self.counts, self._last, self._head, self._block, place = joined
        if sum(self.counts.tolist()) > sys.maxsize:
            raise TraceError("too many transitions to count", expected=f"at most {sys.maxsize}")
        flags = [np.concatenate([np.zeros(0, "object"), *parts[name]]) for name in ("terminated", "truncated")]
        self._flags = [flag if any(one is None for one in flag) else flag.astype("bool") for flag in flags]
        self.form = forms[0] if forms else _NO_STEPS
        for form in forms:
            self.form = merge(self.form, form)
        leaves = dict(_leaves(self.form, ()))
        self._listed = [path for path, form in leaves.items() if form is None]
        self._stacked = {path: form for path, form in leaves.items() if form is not None}
        # What makes the number of a step its row in the array of its block; of observations, that of the one before it.
        self._bases = {path: -self._head if path[0] == "observations" else 0 * self._head for path in self._stacked}
        order = self._block.argsort(kind="stable")
        for segments in np.split(order, np.flatnonzero(np.diff(self._block[order])) + 1) if len(order) else ():
            first = self._blocks[self._block[segments[0]]].first
            for path, base in self._bases.items():
                base[segments] += first[path][place[segments]]

    def pick(self, order: Any, segments: Any, at: Any) -> Picks:
        """Steps with their blocks.

        Args:
            order: int64 (n,): which of the steps that were asked for stands where.
            segments: int64 (n,): their segments, in that order, which rise.
            at: int64 (n,): the steps, likewise.
        """
        blocks = self._block[segments]
        back = np.empty(len(order), "int64")
        back[order] = np.arange(len(order))
        cuts = [0, *(np.flatnonzero(blocks[1:] != blocks[:-1]) + 1).tolist(), len(blocks)]
        runs = [(int(blocks[begin]), begin, end) for begin, end in zip(cuts[:-1], cuts[1:]) if end]
        return Picks(order, back, segments, at, runs)

    def flags(self, picks: Picks, at: Any) -> list[Any]:
        """`terminated` and `truncated` of steps: bool, as `at`; a list, with None, if not known of every episode.

        Args:
            picks: their segments.
            at: int64 (n,) or (n, w): steps of each.
        """
        last = self._last[picks.segments]
        rows, *columns = np.nonzero(at == (last if at.ndim == 1 else last[:, None]))  # few
        places = (picks.order[rows], *columns)
        found = []
        for flags in self._flags:
            flag: Any = np.zeros(at.shape, "bool").astype(flags.dtype, copy=False)
            flag[places] = flags[picks.segments[rows]]
            found.append(flag if flag.dtype == bool else flag.tolist())
        return found

    def gather(self, picks: Picks, rows: dict[str, Any], apart: bool) -> dict[str, list[Any]]:
        """Rows of some members, in the order in which the steps were asked for.

        Args:
            picks: their segments.
            rows: for `observations`, `actions` and `rewards`, int64 (n, w): the number of a step, of an observation
                that of the step after it.
            apart: whether the first row of each is wanted in one result, the second in another, and so on.

        Returns:
            Of each member one result, whose arrays have the shape (n, w, ...), or, apart, w results, (n, ...). Arrays
            are nobody else's, in dicts and tuples as the values have them. What does not stack is a list of n lists of
            w, or of n.
        """
        targets = {}
        for path, form in self._stacked.items():
            kind = _Bulk if array_bytes(form.dtype, form.shape) < _LARGE else _OneByOne
            targets[path] = kind(form, picks, rows[path[0]] + self._bases[path][picks.segments][:, None], apart)
        for block, begin, end in picks.runs:
            columns = self._columns(block, picks.segments[begin])
            for path, target in targets.items():
                target.fill(columns[path], begin, end)
        results = {path: target.results() for path, target in targets.items()}
        read: dict[int, Episode] = {}
        for path in self._listed:
            head = self._head[picks.segments][:, None] if path[0] == "observations" else 0
            values = self._values(path, picks, (rows[path[0]] - head).tolist(), read)
            width = rows[path[0]].shape[1]
            results[path] = [[value[number] for value in values] for number in range(width)] if apart else [values]
        return {member: _nest(form, (member,), results) for member, form in zip(self.form.keys, self.form.forms)}

    def _columns(self, block: int, segment: int) -> dict[Path, Any]:
        """The arrays over the blobs of a block."""
        leaves = self._blocks[block].leaves
        columns = self.source.columns(leaves)
        if len(columns) < len(leaves):  # in the order of Fortran, in files of 2016
            read = self._episode(segment)
            columns = {path: columns[path] if path in columns else _at(read, path) for path in leaves}
        return columns

    def _values(self, path: Path, picks: Picks, rows: list[list[int]], read: dict[int, Episode]) -> list[list[Any]]:
        """The values at a path, one by one."""
        values: list[list[Any]] = [[]] * len(rows)
        for place, segment, row in zip(picks.order.tolist(), picks.segments.tolist(), rows):
            if segment not in read:
                read[segment] = self._episode(segment)
            column = _at(read[segment], path)
            values[place] = [own(column[number]) for number in row]
        return values

    def _episode(self, segment: int) -> Episode:
        return self.source.episode(*self._index.locate(int(self.numbers[segment])))


def _leaves(form: Form, path: Path) -> Iterator[tuple[Path, Rows | None]]:
    if isinstance(form, Parts):
        for key, part in zip(form.keys, form.forms):
            yield from _leaves(part, (*path, key))
    else:
        yield path, form


def _nest(form: Form, path: Path, results: dict[Path, list[Any]]) -> list[Any]:
    """Results of leaves in the dicts and tuples of a form."""
    if not isinstance(form, Parts):
        return results[path]
    items = zip(*(_nest(part, (*path, key), results) for key, part in zip(form.keys, form.forms)))
    return [dict(zip(form.keys, item)) if form.is_dict else item for item in items]


def _at(episode: Episode, path: Path) -> Any:
    """The rows of an episode that lie at a path."""
    rows = getattr(episode, path[0])
    for key in path[1:]:
        rows = rows.columns[key]
    return rows
