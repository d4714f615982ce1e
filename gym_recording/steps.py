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
from .outline import Form, Leaf, Parts, Path, Rows, merge, row_bytes
from .source import Source

_LARGE = 1 << 12  # bytes of a row; such rows are copied one by one, straight to their place, smaller ones twice in bulk
_NO_STEPS = Parts(True, EPISODE_ARRAYS, (Rows(np.dtype("float64"), ()),) * 3)  # as episodes without a step have it


class Picks(NamedTuple):
    """Some steps of which rows are wanted, in rising order, so that those of one block lie together.

    Attributes:
        order: int64 (n,): which of the steps that were asked for stands where.
        back: int64 (n,): where each of them stands.
        segments, episodes, at: int64 (n,): the segments, episodes and steps, in that order.
        runs: block, begin and end in it.
    """

    order: Any
    back: Any
    segments: Any
    episodes: Any
    at: Any
    runs: list[tuple[int, int, int]]


class Steps:
    """The steps of E episodes that are transitions.

    Attributes:
        source: what they are read from.
        numbers: int64 (E,): of the episodes in the recording.
        head: int64 (E,): 1 where the first observation is missing, else 0.
        terminated, truncated: bool (E,); object if None is among them.
        segments: int64 (S, 3): runs of transitions: episode, first step, how many.
        form: of their rows.
    """

    def __init__(self, source: Source, numbers: Any) -> None:
        self.source = source
        columns: dict[str, list[Any]] = {key: [] for key in ("numbers", "last", "head", "terminated", "truncated")}
        blocks, segments, firsts, forms = [], [], [], []
        self._leaves: list[dict[Path, Leaf]] = []
        count = 0
        for start, chosen, outline in source.outlines(numbers):
            chosen = np.asarray(chosen, "int64")
            columns["numbers"].append(start + chosen)
            columns["last"].append(outline.lengths[chosen] - 1)
            columns["head"].append(outline.headless[chosen])
            for name in ("terminated", "truncated"):
                columns[name].append(np.array(outline.facts[name], "object")[chosen])
            local = outline.block[chosen]
            forms += [outline.blocks[block].form for block in np.unique(local[local >= 0])]
            blocks.append(np.where(local < 0, -1, local + len(self._leaves)))
            self._leaves += [block.leaves for block in outline.blocks]
            firsts.append({path: first[chosen] for path, first in outline.first.items()})
            renumbered = np.full(len(outline.lengths), -1)
            renumbered[chosen] = np.arange(count, count + len(chosen))
            kept = outline.segments[renumbered[outline.segments[:, 0]] >= 0]
            kept[:, 0] = renumbered[kept[:, 0]]
            segments.append(kept)
            count += len(chosen)
        self.numbers, self._last, self.head = (_join(columns[key], "int64") for key in ("numbers", "last", "head"))
        self.segments = np.concatenate([np.zeros((0, 3), "int64"), *segments])
        self._block = _join(blocks, "int32")
        self.terminated, self.truncated = (self._flags(columns[key]) for key in ("terminated", "truncated"))
        self.form = _merge_all(forms)
        zeros = [np.zeros(len(part), "int64") for part in columns["numbers"]]
        self._first = {
            path: _join([first.get(path, none) for first, none in zip(firsts, zeros)], "int64")
            for path in _stacked_paths(self.form, ())
        }
        if sum(self.segments[:, 2].tolist()) > sys.maxsize:
            raise TraceError("too many transitions to count", expected=f"at most {sys.maxsize}")

    def _flags(self, facts: list[Any]) -> Any:
        flags = _join(facts, "object")
        flags[self._block < 0] = False  # never asked for
        return flags if any(flag is None for flag in flags) else flags.astype("bool")

    def pick(self, order: Any, segments: Any, at: Any) -> Picks:
        """Steps with their blocks.

        Args:
            order: int64 (n,): which of the steps that were asked for stands where.
            segments: int64 (n,): their segments, in that order, which rise.
            at: int64 (n,): the steps, likewise.
        """
        episodes = self.segments[segments, 0]
        blocks = self._block[episodes]
        back = np.empty(len(order), "int64")
        back[order] = np.arange(len(order))
        cuts = [0, *(np.flatnonzero(blocks[1:] != blocks[:-1]) + 1).tolist(), len(blocks)]
        runs = [(int(blocks[begin]), begin, end) for begin, end in zip(cuts[:-1], cuts[1:]) if end]
        return Picks(order, back, segments, episodes, at, runs)

    def flags(self, picks: Picks, at: Any) -> tuple[Any, Any]:
        """`terminated` and `truncated` of steps: bool, as `at`; a list, with None, if not known of every episode.

        Args:
            picks: their episodes.
            at: int64 (n,) or (n, w): steps of each.
        """
        episodes = picks.episodes if at.ndim == 1 else picks.episodes[:, None]
        last = at == self._last[episodes]
        found = []
        for flags in (self.terminated, self.truncated):
            flag = np.where(last, flags[episodes], False).take(picks.back, 0)
            found.append(flag if flag.dtype == bool else flag.tolist())
        return found[0], found[1]

    def gather(self, member: str, picks: Picks, rows: Any) -> Any:
        """Rows of a member, in the order in which the steps were asked for.

        Args:
            member: `observations`, `actions` or `rewards`.
            picks: the episodes.
            rows: int64 (n,) or (n, w): rows of each.

        Returns:
            Arrays that are nobody else's, of shape (n, ...) or (n, w, ...), in dicts and tuples as the values have
            them; a list of n, or of n lists of w, where values do not stack.
        """
        form = self.form.forms[EPISODE_ARRAYS.index(member)]
        return self._part(form, (member,), picks, rows, {})

    def _part(self, form: Form, path: Path, picks: Picks, rows: Any, read: dict[int, Episode]) -> Any:
        if isinstance(form, Parts):
            items = {key: self._part(part, (*path, key), picks, rows, read) for key, part in zip(form.keys, form.forms)}
            return items if form.is_dict else tuple(items.values())
        return self._listed(path, picks, rows, read) if form is None else self._stacked(form, path, picks, rows)

    def _stacked(self, form: Rows, path: Path, picks: Picks, rows: Any) -> Any:
        first = self._first[path][picks.episodes]
        rows = rows + (first if rows.ndim == 1 else first[:, None])
        out: Any = np.empty((*rows.shape, *form.shape), form.dtype)
        if row_bytes(*form) >= _LARGE:
            order = picks.order.tolist()
            for block, begin, end in picks.runs:
                column = self._column(block, path, picks.episodes[begin])
                for place, row in zip(order[begin:end], rows[begin:end]):
                    column.take(row, 0, out[place, ...], "clip")
            return out
        for block, begin, end in picks.runs:
            # Clipping is not needed, but NumPy fills `out` straight only if it need not raise in the middle.
            self._column(block, path, picks.episodes[begin]).take(rows[begin:end], 0, out[begin:end], "clip")
        return out.take(picks.back, 0)

    def _column(self, block: int, path: Path, episode: int) -> Any:
        leaf: Leaf = self._leaves[block][path]
        if leaf.blob is not None:
            return self.source.column(leaf)
        return _at(self._episode(episode), path)  # Fortran's order, in files of 2016

    def _listed(self, path: Path, picks: Picks, rows: Any, read: dict[int, Episode]) -> list[Any]:
        values: list[Any] = [None] * len(rows)
        for place, episode, row in zip(picks.order.tolist(), picks.episodes.tolist(), rows.tolist()):
            if episode not in read:
                read[episode] = self._episode(episode)
            column = _at(read[episode], path)
            values[place] = [_own(column[r]) for r in row] if isinstance(row, list) else _own(column[row])
        return values

    def _episode(self, episode: int) -> Episode:
        return self.source.episode(*self.source.index.locate(int(self.numbers[episode])))


def _join(arrays: list[Any], dtype: str) -> Any:
    return np.concatenate([np.zeros(0, dtype), *arrays]).astype(dtype, copy=False)


def _merge_all(forms: list[Form]) -> Form:
    form = forms[0] if forms else _NO_STEPS
    for other in forms:
        form = merge(form, other)
    return form


def _stacked_paths(form: Form, path: Path) -> Iterator[Path]:
    if isinstance(form, Parts):
        for key, part in zip(form.keys, form.forms):
            yield from _stacked_paths(part, (*path, key))
    elif form is not None:
        yield path


def _at(episode: Episode, path: Path) -> Any:
    """The rows of an episode that lie at a path."""
    rows = getattr(episode, path[0])
    for key in path[1:]:
        rows = rows.columns[key]
    return rows


def _own(value: Any) -> Any:
    """A copy of a value that shares no array with a blob."""
    if isinstance(value, (np.ndarray, np.void)):
        return value.copy()
    if isinstance(value, dict):
        return {key: _own(item) for key, item in value.items()}
    return type(value)(map(_own, value)) if isinstance(value, (list, tuple)) else value
