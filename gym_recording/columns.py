"""The rows of one leaf of the running episode: copied when added, checked exactly, cut back, finished.

A `Column` is the place of one path. It holds rows of one kind - scalars, arrays, large arrays, a dict or a tuple of
columns, or loose values - which the first value of the episode decides. The check that a value fits is the hot path; a
value that does not fit goes through `change`, which finds another kind for the whole episode or raises.
Nothing here knows of files, JSON, time or Gym.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Callable, Iterator

import numpy as np

from .errors import TraceError
from .values import (
    EXACT_IN_FLOAT64,
    INT64_MAX,
    INT64_MIN,
    MAX_DEPTH,
    Path,
    normalise,
    normalise_key,
    path_text,
    snapshot,
)

LARGE_ROW = (
    8192  # bytes; below, `tobytes` is fastest; from here on, fresh memory costs more than the copy, so buffers recycle
)
POOL_BYTES = 1 << 27  # of idle buffers that a column may keep

_INT64, _FLOAT64 = np.dtype("int64"), np.dtype("float64")
_PYTHON_SCALARS: dict[type, np.dtype[Any]] = {
    bool: np.dtype("bool"),
    int: _INT64,
    float: _FLOAT64,
    complex: np.dtype("complex128"),
}
_getrefcount: Callable[[Any], int] = getattr(sys, "getrefcount", lambda _: 0)  # without it nothing is ever recycled


class Column:
    """All values of one path in the running episode.

    Attributes:
        path: where in the episode, for error messages.
        rows: the rows so far; None before the first value ever.
        add: takes one value and copies it. Raises `TraceError` for one that cannot be stored; a container may then be
            half added, which `cut` mends.
    """

    __slots__ = ("add", "path", "rows")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: Rows | None = None
        self.add: Callable[[Any], None] = self.change

    def __len__(self) -> int:
        return 0 if self.rows is None else len(self.rows)

    def __getitem__(self, index: int) -> Any:
        if self.rows is None:
            raise IndexError(index)
        return self.rows[index]

    def change(self, value: Any) -> None:
        """Takes a value that does not fit as it is: the first of an episode, of another kind, or not canonical."""
        value = normalise(value, self.path)
        rows = self.rows
        if rows is None or not (rows.take(value) if len(rows) else rows.restart(value)):
            if rows is None or not len(rows):
                rows = self._rows_for(value)
            else:
                rows = rows.widened(value) or Loose(self, [rows[i] for i in range(len(rows))])
            rows.take(value)
        self._become(rows)

    def _become(self, rows: Rows) -> None:
        self.rows = rows
        self.add = rows.add

    def _rows_for(self, value: Any) -> Rows:
        kind = value.__class__
        if kind is int:
            return Ints(self, _INT64, {int}) if INT64_MIN <= value <= INT64_MAX else Loose(self, [])
        if kind in _PYTHON_SCALARS:
            return Scalars(self, _PYTHON_SCALARS[kind], {kind})
        if isinstance(value, np.generic):
            return (Ints if value.dtype == _INT64 else Scalars)(self, value.dtype, {kind})
        if isinstance(value, np.ndarray):
            return (Arrays if value.nbytes < LARGE_ROW else LargeArrays)(self, value.dtype, value.shape)
        if isinstance(value, (Mapping, tuple)) and value:
            if len(self.path) > MAX_DEPTH:
                raise TraceError(f"cannot store a value nested deeper than {MAX_DEPTH}", field=path_text(self.path[:4]))
            return Fields(self, value) if isinstance(value, Mapping) else Items(self, value)
        return Loose(self, [])

    def cut(self, count: int) -> None:
        """Forgets the rows from `count` on, and a change of kind that only they brought."""
        if self.rows is None:
            return
        self.add = self.rows.add
        if self.rows.changed and len(self.rows) > count:
            values = [self.rows[i] for i in range(count)]
            self.rows, self.add = None, self.change
            for value in values:
                self.add(value)
        else:
            self.rows.cut(count)

    def finish(self) -> Any:
        """The rows as they are stored: an ndarray (n, ...) or `RowBuffers`, a dict or tuple of such, or a list of n values."""
        return np.empty(0) if self.rows is None or not len(self.rows) else self.rows.finish()

    def clear(self) -> None:
        """Starts the next episode. The kind stays as a guess, which the first value confirms or corrects."""
        if self.rows is None or not self.rows.clear():
            self.rows, self.add = None, self.change
        elif not self.rows.guesses:
            self.add = self.change


class Rows:
    """One kind of rows.

    Attributes:
        changed: whether they came about by a change of kind in mid-episode.
        guesses: whether `add` may take the first value of the next episode without a look at more than `add` checks.
    """

    __slots__ = ("column", "values")
    changed = False
    guesses = True

    def __init__(self, column: Column) -> None:
        self.column = column
        self.values: list[Any] = []

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Any:
        return self.values[index]

    def add(self, value: Any) -> None:
        """Takes any value: the hot path for those that fit, `Column.change` for all others."""
        raise NotImplementedError

    def take(self, value: Any) -> bool:
        """Takes a canonical value if it fits and says whether it did."""
        raise NotImplementedError

    def restart(self, value: Any) -> bool:
        """Takes the first value of an episode if a new choice of rows would choose these."""
        return False

    def widened(self, value: Any) -> Rows | None:
        """Rows of another kind that hold the same values exactly and fit `value` too, or None."""
        return None

    def cut(self, count: int) -> None:
        """Forgets the rows from `count` on."""
        del self.values[count:]

    def finish(self) -> Any:
        """What `Column.finish` says."""
        raise NotImplementedError

    def clear(self) -> bool:
        """Forgets all rows, which `finish` has handed over; says whether the kind is a guess for the next episode."""
        self.values = []
        return not self.changed


class Scalars(Rows):
    """Numbers and booleans of one dtype: immutable, so kept as they are and converted once per episode."""

    __slots__ = ("changed", "dtype", "types")

    def __init__(self, column: Column, dtype: np.dtype[Any], types: set[type]) -> None:
        super().__init__(column)
        self.dtype, self.types, self.changed = dtype, types, False

    def add(self, value: Any) -> None:
        if value.__class__ in self.types:
            self.values.append(value)
        else:
            self.column.change(value)

    def take(self, value: Any) -> bool:
        dtype = _scalar_dtype(value)
        if dtype is None:
            return False
        if dtype == self.dtype:
            self.types = self.types | {value.__class__}
        elif self.dtype == _FLOAT64 and dtype == _INT64 and abs(int(value)) <= EXACT_IN_FLOAT64:
            self.changed = True
        else:
            return False
        self.values.append(value)
        return True

    def finish(self) -> Any:
        return np.array(self.values, dtype=self.dtype)


class Ints(Scalars):
    """int64: a Python int is checked for its range."""

    __slots__ = ()

    def add(self, value: Any) -> None:
        if value.__class__ in self.types and INT64_MIN <= value <= INT64_MAX:
            self.values.append(value)
        else:
            self.column.change(value)

    def take(self, value: Any) -> bool:
        return _is_scalar_of(value, _INT64) and INT64_MIN <= value <= INT64_MAX and super().take(value)

    def widened(self, value: Any) -> Rows | None:
        """Ints and floats mixed are float64, as long as that changes no value."""
        if not _is_scalar_of(value, _FLOAT64) or any(abs(int(v)) > EXACT_IN_FLOAT64 for v in self.values):
            return None
        rows = Scalars(self.column, _FLOAT64, {float})
        rows.values, rows.changed = list(self.values), True
        return rows


class Arrays(Rows):
    """Arrays of one dtype and shape, each kept as the bytes of its elements in C order."""

    __slots__ = ("dtype", "shape")

    def __init__(self, column: Column, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        super().__init__(column)
        self.dtype, self.shape = dtype, shape

    def __getitem__(self, index: int) -> Any:
        return np.ndarray(self.shape, self.dtype, self.values[index])

    def add(self, value: Any) -> None:
        # `==`, not `is`: an unpickled array has a dtype object of its own.
        if value.__class__ is np.ndarray and value.dtype == self.dtype and value.shape == self.shape:
            self.values.append(value.tobytes())
        else:
            self.column.change(value)

    def take(self, value: Any) -> bool:
        fits = isinstance(value, np.ndarray) and value.dtype == self.dtype and value.shape == self.shape
        if fits:
            self.add(value)
        return fits

    def finish(self) -> Any:
        return np.ndarray((len(self.values), *self.shape), self.dtype, b"".join(self.values))


class LargeArrays(Arrays):
    """Arrays of 8 KiB and more, each copied to a buffer of its own that is used again once it is written."""

    __slots__ = ("pool",)

    def __init__(self, column: Column, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        super().__init__(column, dtype, shape)
        self.pool: list[Any] = []

    def __getitem__(self, index: int) -> Any:
        return _read_only(self.values[index])

    def add(self, value: Any) -> None:
        if value.__class__ is np.ndarray and value.dtype == self.dtype and value.shape == self.shape:
            buffer = self.pool.pop() if self.pool else np.empty(self.shape, self.dtype)
            buffer[...] = value
            self.values.append(buffer)
        else:
            self.column.change(value)

    def finish(self) -> Any:
        return RowBuffers(self)


class RowBuffers:
    """The large arrays of an ended episode; stands in `TraceRecording.episodes` where a small column has an ndarray.

    Attributes:
        rows: n buffers, each a C-contiguous array of `shape[1:]`.
        shape, dtype: of the joined array, (n, ...). Indices and slices read; `np.asarray` joins, which copies.
    """

    __slots__ = ("dtype", "pool", "rows", "shape")

    def __init__(self, arrays: LargeArrays) -> None:
        self.rows: list[Any] = arrays.values
        self.pool = arrays.pool
        self.dtype = arrays.dtype
        self.shape = (len(arrays.values), *arrays.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        return np.asarray(self)[index] if isinstance(index, (slice, tuple)) else _read_only(self.rows[index])

    def __iter__(self) -> Iterator[Any]:
        return map(_read_only, self.rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        joined = np.stack(self.rows)
        return joined if dtype is None else joined.astype(dtype, copy=False)

    def recycle(self) -> None:
        """Gives the buffers back to the pool, but for those that somebody still looks at. These rows are gone then."""
        room = POOL_BYTES // self.rows[0].nbytes - len(self.pool)
        rows, self.rows = self.rows, []
        while rows and room > 0:
            buffer = rows.pop()
            if _getrefcount(buffer) == 2:  # the name here and the argument of the call
                self.pool.append(buffer)
                room -= 1


class Fields(Rows):
    """A dict, or any mapping, whose keys are the same at every step: a column for each."""

    __slots__ = ("children", "keys")
    guesses = False  # the order of the keys is the first step's, which `add` does not look at

    def __init__(self, column: Column, value: Mapping[Any, Any]) -> None:
        self.column = column
        self.children: dict[Any, Column] = {}
        for key in value:
            key = normalise_key(key, column.path)
            self.children[key] = Column((*column.path, key))
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

    def clear(self) -> bool:
        for child in self.children.values():
            child.clear()
        return True


class Items(Rows):
    """A tuple whose length is the same at every step: a column for each item."""

    __slots__ = ("children",)

    def __init__(self, column: Column, value: tuple[Any, ...]) -> None:
        self.column = column
        self.children = [Column((*column.path, index)) for index in range(len(value))]

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

    def clear(self) -> bool:
        for child in self.children:
            child.clear()
        return True


class Loose(Rows):
    """Values that cannot be stacked: text, lists, None, ragged arrays, whatever changes in mid-episode. One copy each."""

    __slots__ = ()
    changed = True

    def __init__(self, column: Column, values: list[Any]) -> None:
        super().__init__(column)
        self.values = values

    def add(self, value: Any) -> None:
        self.values.append(snapshot(value, self.column.path))

    def take(self, value: Any) -> bool:
        self.add(value)
        return True

    def finish(self) -> Any:
        return list(self.values)


def _scalar_dtype(value: Any) -> np.dtype[Any] | None:
    """The dtype of a canonical scalar, None for all else."""
    return value.dtype if isinstance(value, np.generic) else _PYTHON_SCALARS.get(value.__class__)


def _is_scalar_of(value: Any, dtype: np.dtype[Any]) -> bool:
    found = _scalar_dtype(value)
    return found is not None and found == dtype  # NumPy holds None to be equal to float64


def _read_only(array: Any) -> Any:
    view = array.view()
    view.flags.writeable = False
    return view
