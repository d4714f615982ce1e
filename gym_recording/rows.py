"""The kinds of rows that a column can have, and the leaves among them: scalars, arrays, large arrays.

Each kind has a hot path, `add`, that copies a value which fits as it is, and hands every other to its column. Small
arrays are kept as bytes and joined once, which is faster than assigning them into a block; large ones go to blocks that
are used again, because fresh memory costs more than the copy. Nothing here knows of files, JSON, time or Gym.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from .values import EXACT_IN_FLOAT64, INT64_MAX, INT64_MIN, array_bytes

if TYPE_CHECKING:
    from .columns import Column

LARGE_ROW = 8192  # bytes
BLOCK_BYTES = 1 << 20
_OBJECT_BYTES = 40  # of a small Python object and its place in a list
POOL_BYTES = 1 << 27  # of blocks that a column keeps for further use

INT64, FLOAT64 = np.dtype("int64"), np.dtype("float64")
PYTHON_SCALARS: dict[type, np.dtype[Any]] = {
    bool: np.dtype("bool"),
    int: INT64,
    float: FLOAT64,
    complex: np.dtype("complex128"),
}
_getrefcount: Callable[[Any], int] = getattr(sys, "getrefcount", lambda _: 0)


def _idle_references() -> int:
    """What `_getrefcount` says in `LargeArrays._free_block` of a block whose rows nobody has."""
    pool = [np.empty(1)]
    for block in pool:
        return _getrefcount(block)
    return 0


_IDLE = _idle_references() or -1  # where nothing counts references, no block is used again


class Rows:
    """One kind of rows.

    Attributes:
        changed: whether they came about by a change of kind in mid-episode.
        guesses: whether `add` may take the first value of the next episode without a look at more than `add` checks.
        stored: the rows of a streamed episode before these, which were handed over; None if there are none.
    """

    __slots__ = ("column", "stored", "values")
    changed = False
    guesses = True

    def __init__(self, column: Column) -> None:
        self.column = column
        self.stored: StoredRows | None = None
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

    def value_of(self, row: Any, number: int) -> Any:
        """The value that row `number` of `stored`, an array, was made of."""
        return row

    def widened(self, value: Any, values: list[Any]) -> Rows | None:
        """Rows of another kind that hold the same `values` exactly and fit `value` too, or None."""
        return None

    def cut(self, count: int) -> None:
        """Forgets the rows from `count` on."""
        del self.values[count:]

    def finish(self) -> Any:
        """What `Column.finish` says, without `stored`."""
        raise NotImplementedError

    def size(self) -> int:
        """About how many bytes of memory the rows take that are not handed over."""
        raise NotImplementedError

    def clear(self) -> bool:
        """Forgets all rows, which `finish` has handed over; says whether the kind is a guess for the next episode."""
        self.values = []
        self.stored = None
        return not self.changed

    def hand_over(self, blob: Callable[[], Any]) -> Any:
        """What `Column.hand_over` says."""
        if len(self):
            rows = copy(self)  # and one store, so that an interrupt finds all rows once
            rows.stored = StoredRows(self.finish(), self.stored, blob)
            rows._drop()
            self.column.rows = rows
            self.column.add = rows.add
            return rows.stored
        return self.stored

    def _drop(self) -> None:
        self.values = []


class Scalars(Rows):
    """Numbers and booleans of one dtype: immutable, so kept as they are and converted once per episode.

    `types` are the classes that `add` takes, `order` is all that there may be, `classes` which of them the rows in
    `stored` had; where it ends, they had the first.
    """

    __slots__ = ("changed", "classes", "dtype", "order", "types")

    def __init__(self, column: Column, dtype: np.dtype[Any], types: set[Any]) -> None:
        super().__init__(column)
        self.dtype, self.types, self.changed = dtype, types, False
        self.order = tuple(types)
        self.classes = b""

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
        elif self.dtype == FLOAT64 and dtype == INT64 and abs(int(value)) <= EXACT_IN_FLOAT64:
            self.changed = True
        else:
            return False
        if value.__class__ not in self.order:
            self.order += (value.__class__,)
        self.values.append(value)
        return True

    def value_of(self, row: Any, number: int) -> Any:
        kind = self.order[self.classes[number] if number < len(self.classes) else 0]
        return kind(row.item() if kind in PYTHON_SCALARS else row[()])

    def clear(self) -> bool:
        self.classes = b""
        return super().clear()

    def _drop(self) -> None:
        if (
            len(self.order) > 1 and self.stored is not None
        ):  # one byte a row tells ints from floats, NumPy's from Python's
            known = self.classes.ljust(len(self.stored) - len(self.values), b"\0")
            self.classes = known + bytes([self.order.index(value.__class__) for value in self.values])
        super()._drop()

    def finish(self) -> Any:
        return np.array(self.values, dtype=self.dtype)

    def size(self) -> int:
        return len(self.values) * _OBJECT_BYTES


class Ints(Scalars):
    """int64: a Python int is checked for its range."""

    __slots__ = ()

    def add(self, value: Any) -> None:
        if value.__class__ in self.types and INT64_MIN <= value <= INT64_MAX:
            self.values.append(value)
        else:
            self.column.change(value)

    def take(self, value: Any) -> bool:
        return _is_scalar_of(value, INT64) and INT64_MIN <= int(value) <= INT64_MAX and super().take(value)

    def widened(self, value: Any, values: list[Any]) -> Rows | None:
        """Ints and floats mixed are float64, as long as that changes no value."""
        if not _is_scalar_of(value, FLOAT64) or any(abs(int(v)) > EXACT_IN_FLOAT64 for v in values):
            return None
        rows = Scalars(self.column, FLOAT64, {float})
        rows.values, rows.changed = values, True
        rows.order = tuple(dict.fromkeys((float, *map(type, values))))
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
        # `is` is only the faster answer: an unpickled array has a dtype object of its own.
        dtype = self.dtype
        if (
            value.__class__ is np.ndarray
            and (value.dtype is dtype or value.dtype == dtype)
            and value.shape == self.shape
        ):
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

    def size(self) -> int:
        return len(self) * (array_bytes(self.dtype, self.shape) + _OBJECT_BYTES)


class LargeArrays(Arrays):
    """Arrays of 8 KiB and more, copied to blocks that are used again when nobody looks at them.

    Rows `start` to `end` are counted from the first row of `blocks[0]`; an episode begins where the last one ended.
    """

    __slots__ = ("blocks", "capacity", "end", "pool", "start")

    def __init__(self, column: Column, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        super().__init__(column, dtype, shape)
        self.blocks: list[Any] = []
        self.capacity = max(1, column.block_bytes // array_bytes(dtype, shape))
        self.start = self.end = 0
        self.pool: list[Any] = []

    def __len__(self) -> int:
        return self.end - self.start

    def __getitem__(self, index: int) -> Any:
        block, row = divmod(self.start + index, self.capacity)
        return _read_only(self.blocks[block][row])

    def add(self, value: Any) -> None:
        if value.__class__ is np.ndarray and value.dtype == self.dtype and value.shape == self.shape:
            block, row = divmod(self.end, self.capacity)
            if block == len(self.blocks):
                self.blocks.append(self._free_block())
            self.blocks[block][row] = value
            self.end += 1
        else:
            self.column.change(value)

    def _free_block(self) -> Any:
        for block in self.pool:
            if _getrefcount(block) == _IDLE:
                return block
        block = np.empty((self.capacity, *self.shape), self.dtype)
        if len(self.pool) * block.nbytes < POOL_BYTES:
            self.pool.append(block)
        return block

    def cut(self, count: int) -> None:
        self.end = min(self.end, self.start + count)

    def finish(self) -> Any:
        pieces = []
        for number, block in enumerate(self.blocks):
            first = number * self.capacity
            rows = block[max(self.start - first, 0) : max(self.end - first, 0)]
            if len(rows):
                pieces.append(_read_only(rows))
        return pieces[0] if len(pieces) == 1 else PiecedArray(pieces)

    def clear(self) -> bool:
        self._drop()
        self.stored = None
        return True

    def _drop(self) -> None:
        number, self.start = divmod(self.end, self.capacity)
        self.blocks = self.blocks[number : number + 1]
        self.end = self.start


class PiecedArray:
    """An array (n, ...) in pieces that nobody has joined: large rows in `TraceRecording.episodes`.

    Attributes:
        pieces: read-only, C-contiguous arrays.
        shape, dtype, nbytes: of the joined array. Indices and slices read; `np.asarray` joins, which copies.
    """

    __slots__ = ("dtype", "nbytes", "pieces", "shape")

    def __init__(self, pieces: list[Any]) -> None:
        self.pieces = pieces
        self.dtype = pieces[0].dtype
        self.shape = (sum(map(len, pieces)), *pieces[0].shape[1:])
        self.nbytes = sum(piece.nbytes for piece in pieces)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, (slice, tuple)):
            return np.asarray(self)[index]
        row = range(len(self))[index]
        for piece in self.pieces:
            if row < len(piece):
                return piece[row]
            row -= len(piece)
        raise IndexError(index)

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.pieces)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        joined = np.concatenate(self.pieces)
        return joined if dtype is None else joined.astype(dtype, copy=False)


class StoredRows:
    """Rows (n, ...) of a streamed episode that were handed over: on disk, or on their way there.

    Attributes:
        dtype, shape: of all rows joined.
        blob: where they go, the same for all rows of a column: `rows` tells how many it has, `read` reads one.
        chunks: arrays with the number of their first row: those that `blob` does not have yet, and some that it has.
    """

    __slots__ = ("blob", "chunks", "dtype", "shape")

    def __init__(self, array: Any, before: StoredRows | None, blob: Callable[[], Any]) -> None:
        start = 0 if before is None else len(before)
        self.blob: Any = blob() if before is None else before.blob
        self.chunks = [*([] if before is None else before.unwritten()), (start, array)]
        self.dtype = array.dtype
        self.shape = (start + len(array), *array.shape[1:])

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, index: int) -> Any:
        """A row, as an array."""
        for start, array in self.chunks:
            if start <= index < start + len(array):
                return array[index - start] if isinstance(array, PiecedArray) else array[index - start, ...]
        return self.blob.read(index, self.dtype, self.shape[1:])

    def unwritten(self) -> list[tuple[int, Any]]:
        """The chunks that `blob` does not have yet."""
        return [chunk for chunk in self.chunks if chunk[0] >= self.blob.rows]


def _scalar_dtype(value: Any) -> np.dtype[Any] | None:
    """The dtype of a canonical scalar, None for all else."""
    return value.dtype if isinstance(value, np.generic) else PYTHON_SCALARS.get(value.__class__)


def _is_scalar_of(value: Any, dtype: np.dtype[Any]) -> bool:
    found = _scalar_dtype(value)
    return found is not None and found == dtype  # NumPy holds None to be equal to float64


def _read_only(array: Any) -> Any:
    view = array.view()
    view.flags.writeable = False
    return view
