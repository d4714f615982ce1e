"""The rows of the running episode by path: copied when added, checked exactly, cut back, finished.

A `Column` is the place of one path. Its rows are of one kind - a leaf of `rows`, a dict or tuple of columns, or loose
values - which the first value of an episode decides. A value that does not fit goes through `change`, which finds
another kind for the whole episode or raises. Nothing here knows of files, JSON, time or Gym.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

import numpy as np

from .errors import TraceError
from .rows import BLOCK_BYTES, INT64, LARGE_ROW, PYTHON_SCALARS, Arrays, Ints, LargeArrays, PiecedArray, Rows, Scalars
from .values import INT64_MAX, INT64_MIN, MAX_DEPTH, Path, key_mark, normalise, normalise_key, path_text, snapshot

VALUE_BYTES = 300  # of header and blob, for a value that is not stacked


class Column:
    """All values of one path in the running episode.

    Attributes:
        path: where in the episode, for error messages.
        block_bytes: about how large the blocks of large rows are.
        rows: the rows so far; None before the first value ever.
        add: takes one value and copies it. Raises `TraceError` for one that cannot be stored; a container may then be
            half added, which `cut` mends.
    """

    __slots__ = ("add", "block_bytes", "path", "rows")

    def __init__(self, path: Path, block_bytes: int = BLOCK_BYTES) -> None:
        self.path = path
        self.block_bytes = block_bytes
        self.rows: Rows | None = None
        self.add: Callable[[Any], None] = self.change

    def __len__(self) -> int:
        rows = self.rows
        return 0 if rows is None else len(rows) if rows.stored is None else len(rows.stored) + len(rows)

    def __getitem__(self, index: int) -> Any:
        if self.rows is None:
            raise IndexError(index)
        stored = self.rows.stored
        if stored is None:
            return self.rows[index]
        if index >= len(stored):
            return self.rows[index - len(stored)]
        return self.rows.value_of(stored[index], index)

    def change(self, value: Any) -> None:
        """Takes a value that does not fit as it is: the first of an episode, of another kind, or not canonical."""
        value = normalise(value, self.path)
        rows, count = self.rows, len(self)
        if rows is None or not (rows.take(value) if count else rows.restart(value)):
            if rows is None or not count:
                rows = self._rows_for(value)
            else:
                values = [self[i] for i in range(count)]
                rows = rows.widened(value, values) or Loose(self, values)
            if not rows.take(value):
                raise TraceError(
                    f"cannot store {type(value)}: its keys are not what they are equal to", field=path_text(self.path)
                )
        self._become(rows)

    def _become(self, rows: Rows) -> None:
        self.rows = rows
        self.add = rows.add

    def _rows_for(self, value: Any) -> Rows:
        kind = value.__class__
        if kind is int:
            return Ints(self, INT64, {int}) if INT64_MIN <= value <= INT64_MAX else Loose(self, [])
        if kind in PYTHON_SCALARS:
            return Scalars(self, PYTHON_SCALARS[kind], {kind})
        if isinstance(value, np.generic):
            return (Ints if value.dtype == INT64 else Scalars)(self, value.dtype, {kind})
        if isinstance(value, np.ndarray):
            return (Arrays if value.nbytes < LARGE_ROW else LargeArrays)(self, value.dtype, value.shape)
        if isinstance(value, (Mapping, tuple)) and value:
            if len(self.path) > MAX_DEPTH:
                raise TraceError(f"cannot store a value nested deeper than {MAX_DEPTH}", field=path_text(self.path[:4]))
            if isinstance(value, Mapping):
                return (Fields if all(isinstance(key, str) for key in value) else MarkedFields)(self, value)
            return Items(self, value)
        return Loose(self, [])

    def cut(self, count: int) -> None:
        """Forgets the rows from `count` on, and a change of kind that only they brought."""
        if self.rows is None:
            return
        self.add = self.rows.add if count or self.rows.guesses else self.change
        if self.rows.changed and len(self) > count:
            values = [self[i] for i in range(count)]
            kept = Column(self.path, self.block_bytes)  # and one store, so that an interrupt finds all rows once
            for value in values:
                kept.add(value)
            if kept.rows is not None:
                kept.rows.column = self
            self.rows = kept.rows
            self.add = self.change if kept.rows is None else kept.rows.add
        else:
            self.rows.cut(count if self.rows.stored is None else count - len(self.rows.stored))

    def finish(self) -> Any:
        """The rows as they are stored: an array (n, ...), maybe pieced; a dict or tuple of such; a list of n values."""
        return np.empty(0) if self.rows is None or not len(self.rows) else self.rows.finish()

    def hand_over(self, blob: Callable[[], Any]) -> Any:
        """What `finish` gives, with `StoredRows` for arrays, on which later rows follow; `blob` makes their blobs."""
        return np.empty(0) if self.rows is None or not len(self) else self.rows.hand_over(blob)

    def size(self) -> int:
        """About how many bytes of memory the rows take that are not handed over."""
        return 0 if self.rows is None else self.rows.size()

    def clear(self) -> None:
        """Starts the next episode. The kind stays as a guess, which the first value confirms or corrects."""
        if self.rows is None or not self.rows.clear():
            self.rows, self.add = None, self.change
        elif not self.rows.guesses:
            self.add = self.change


class Fields(Rows):
    """A dict, or any mapping, whose keys are the same at every step: a column for each."""

    __slots__ = ("children", "keys")
    guesses = False  # the order of the keys is the first step's, which `add` does not look at

    def __init__(self, column: Column, value: Mapping[Any, Any]) -> None:
        self.column = column
        self.stored = None  # the children have theirs
        self.children: dict[Any, Column] = {}
        for key in value:
            key = normalise_key(key, column.path)
            self.children[key] = Column((*column.path, key), column.block_bytes)
        self.keys = self.children.keys()

    def __len__(self) -> int:
        return min(map(len, self.children.values()))

    def __getitem__(self, index: int) -> Any:
        return {key: child[index] for key, child in self.children.items()}

    def add(self, value: Any) -> None:
        if isinstance(value, dict) and value.keys() == self.keys:
            for key, child in self.children.items():
                child.add(value[key])
        else:
            self.column.change(value)

    def take(self, value: Any) -> bool:
        if not isinstance(value, Mapping) or set(value) != self.keys:
            return False
        for key, child in self.children.items():
            child.add(value[key])
        return True

    def restart(self, value: Any) -> bool:
        return isinstance(value, Mapping) and list(value) == list(self.keys) and self.take(value)

    def cut(self, count: int) -> None:
        for child in self.children.values():
            child.cut(count)

    def finish(self) -> Any:
        return {key: child.finish() for key, child in self.children.items()}

    def hand_over(self, blob: Callable[[], Any]) -> Any:
        return {key: child.hand_over(blob) for key, child in self.children.items()}

    def size(self) -> int:
        return sum(child.size() for child in self.children.values())

    def clear(self) -> bool:
        for child in self.children.values():
            child.clear()
        return True


class MarkedFields(Fields):
    """A dict with keys that others are equal to: 1, True and 1.0 are not the same keys. Text needs no such look."""

    __slots__ = ()

    def add(self, value: Any) -> None:
        self.column.change(value)

    def take(self, value: Any) -> bool:
        if not isinstance(value, Mapping) or len(value) != len(self.keys):
            return False
        marks = {key_mark(key) for key in self.keys}
        return all(key_mark(normalise_key(key, self.column.path)) in marks for key in value) and super().take(value)


class Items(Rows):
    """A tuple whose length is the same at every step: a column for each item."""

    __slots__ = ("children",)

    def __init__(self, column: Column, value: tuple[Any, ...]) -> None:
        self.column = column
        self.stored = None
        self.children = [Column((*column.path, index), column.block_bytes) for index in range(len(value))]

    def __len__(self) -> int:
        return min(map(len, self.children))

    def __getitem__(self, index: int) -> Any:
        return tuple(child[index] for child in self.children)

    def add(self, value: Any) -> None:
        if isinstance(value, tuple) and len(value) == len(self.children):
            for child, item in zip(self.children, value):
                child.add(item)
        else:
            self.column.change(value)

    def take(self, value: Any) -> bool:
        fits = isinstance(value, tuple) and len(value) == len(self.children)
        if fits:
            self.add(value)
        return fits

    def restart(self, value: Any) -> bool:
        return self.take(value)

    def cut(self, count: int) -> None:
        for child in self.children:
            child.cut(count)

    def finish(self) -> Any:
        return tuple(child.finish() for child in self.children)

    def hand_over(self, blob: Callable[[], Any]) -> Any:
        return tuple(child.hand_over(blob) for child in self.children)

    def size(self) -> int:
        return sum(child.size() for child in self.children)

    def clear(self) -> bool:
        for child in self.children:
            child.clear()
        return True


class Loose(Rows):
    """Values that cannot be stacked, a copy of each: text, lists, None, ragged arrays, what changes in mid-episode."""

    __slots__ = ("handed_over",)
    changed = True

    def __init__(self, column: Column, values: list[Any]) -> None:
        super().__init__(column)
        self.values = values
        self.handed_over = 0

    def __getitem__(self, index: int) -> Any:
        return snapshot(self.values[index], self.column.path)  # whoever looks may write to it

    def add(self, value: Any) -> None:
        self.values.append(snapshot(value, self.column.path, len(self.column.path) - 1))

    def take(self, value: Any) -> bool:
        self.add(value)
        return True

    def finish(self) -> Any:
        return list(self.values)

    def hand_over(self, blob: Callable[[], Any]) -> Any:
        self.handed_over = len(self.values)  # they stay in memory: a header lists them anew each time
        return list(self.values)

    def size(self) -> int:
        return sum(map(size_of, self.values[self.handed_over :]))


def size_of(value: Any) -> int:
    """About how many bytes of disk a value or a finished column takes."""
    if isinstance(value, (np.ndarray, PiecedArray)):
        return int(value.nbytes)
    if isinstance(value, (list, tuple)):
        return VALUE_BYTES + sum(map(size_of, value))
    if isinstance(value, Mapping):
        return VALUE_BYTES + sum(map(size_of, value.values()))
    return len(value) if isinstance(value, str) else 8


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
    return np.asarray(stacked) if isinstance(stacked, (np.ndarray, PiecedArray)) else values
