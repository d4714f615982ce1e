"""Where the arrays of a batch lie in its blob: one column per path, dtype and row shape, then the loose arrays.

Arrays are placed first, which gives them their rows; then the blob is laid, which gives the columns their offsets; then
the same arrays, in the same order, get their array records. Large arrays are passed on as they are, not copied.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .format import DATA_ALIGN, ROW_ALIGN, record_text, write_npy_header
from .rows import PiecedArray
from .values import Path, array_bytes

# Bytes. Smaller pieces are copied together, larger ones go to the system as they are: after each piece the thread that
# commits must wait for the interpreter again, which costs more than such a copy.
_JOIN_BELOW = 1 << 19


class BlobColumn:
    """The rows of one path, dtype and row shape of all episodes of the batch; or one loose array, with a single row."""

    def __init__(self, path: Path, dtype: np.dtype[Any], row_shape: tuple[int, ...]) -> None:
        self.path, self.dtype, self.row_shape = path, dtype, row_shape
        self.row_bytes = array_bytes(dtype, row_shape)
        # An episode starts at the next row whose offset is a multiple of 8: every `stride`-th.
        self.stride = ROW_ALIGN // math.gcd(self.row_bytes, ROW_ALIGN) if self.row_bytes else 1
        self.rows = 0
        self.pieces: list[Any] = []

    def append(self, array: Any) -> int:
        """Takes the rows of an array and gives the number of the first."""
        start = -(-self.rows // self.stride) * self.stride
        if start != self.rows:
            self.pieces.append(bytes((start - self.rows) * self.row_bytes))
        self.pieces += pieces_of(array)
        self.rows = start + array.shape[0]
        return start

    def lay(self, offset: int, blob: str, shape: tuple[int, ...]) -> list[Any]:
        """What comes next in the blob after `offset` bytes: padding, `.npy` header, rows."""
        self.npyhdr = -(-offset // DATA_ALIGN) * DATA_ALIGN
        head = bytes(self.npyhdr - offset) + write_npy_header(self.dtype, shape)
        self.offset = offset + len(head)
        self.end = self.offset + self.rows * self.row_bytes
        self.record = record_text(self.dtype, self.row_shape, blob)
        return [head, *self.pieces]

    def text(self) -> str:
        """The entry in the header's `columns`."""
        return column_text(self.record(self.rows, self.offset), self.npyhdr, self.path)


class Layout:
    """Where the arrays of a batch lie. What is placed in one order is asked for in the same order."""

    def __init__(self, blob: str) -> None:
        self.blob = blob
        self.columns: dict[Any, BlobColumn] = {}
        self.loose: list[BlobColumn] = []
        self.placed: list[Any] = []  # (column, first row, rows), or (path, array) for an array without a row

    def place(self, array: Any, path: Path) -> str:
        shape = array.shape
        if not shape[0]:
            self.placed.append((path, array))
            return ""
        key = (path, array.dtype, shape[1:])
        column = self.columns.get(key)
        if column is None:
            column = self.columns[key] = BlobColumn(*key)
        self.placed.append((column, column.append(array), shape[0]))
        return ""

    def place_loose(self, value: Any) -> str:
        array = np.asarray(value)
        column = BlobColumn((), array.dtype, array.shape)
        column.pieces, column.rows = pieces_of(array), 1
        self.loose.append(column)
        return ""

    def lay(self) -> list[Any]:
        """The pieces of the blob: the columns, then the loose arrays. From here on `record` answers."""
        self._place_empty()
        pieces: list[Any] = []
        offset = 0
        for column in self.columns.values():
            pieces += column.lay(offset, self.blob, (column.rows, *column.row_shape))
            offset = column.end
        for column in self.loose:
            pieces += column.lay(offset, self.blob, column.row_shape)
            offset = column.end
        self._next = iter(self.placed)
        self._next_loose = iter(self.loose)
        return list(joined(pieces))

    def _place_empty(self) -> None:
        """Arrays without a row have the dtype of the first column of their path, their own if there is none."""
        by_path: dict[Path, BlobColumn] = {}
        for column in self.columns.values():
            by_path.setdefault(column.path, column)
        for index, placement in enumerate(self.placed):
            if len(placement) == 2:
                path, array = placement
                if path not in by_path:
                    by_path[path] = self.columns[path, array.dtype, ()] = BlobColumn(path, array.dtype, ())
                self.placed[index] = (by_path[path], 0, 0)

    def record(self, array: Any, path: Path) -> str:
        column, start, rows = next(self._next)
        if not rows:
            return record_text(column.dtype, (), self.blob)(0, column.offset)
        return column.record(rows, column.offset + start * column.row_bytes)  # type: ignore[no-any-return]

    def loose_record(self, value: Any) -> str:
        column = next(self._next_loose)
        return loose_text(column.dtype, column.row_shape, self.blob, column.offset, column.npyhdr)


def column_text(record: str, npyhdr: int, path: Path) -> str:
    """An array record as a header lists it in `columns`."""
    return f'{record[:-1]}, "npyhdr": {npyhdr}, "path": {json.dumps(list(path))}}}'


def loose_text(dtype: np.dtype[Any], shape: tuple[int, ...], blob: str, offset: int, npyhdr: int) -> str:
    """The array record of a loose array."""
    return f'{record_text(dtype, shape, blob)(-1, offset)[:-1]}, "npyhdr": {npyhdr}}}'


def pieces_of(array: Any) -> list[Any]:
    """The bytes of an array, or of one in pieces."""
    return [_bytes_of(piece) for piece in array.pieces] if isinstance(array, PiecedArray) else [_bytes_of(array)]


def _bytes_of(array: Any) -> Any:
    if array.nbytes < _JOIN_BELOW or not array.flags.c_contiguous:
        return array.tobytes()
    return array.reshape(-1).view(np.uint8).data


def joined(pieces: list[Any]) -> Iterator[Any]:
    """The same bytes in fewer pieces: runs of small ones become one."""
    small: list[Any] = []
    for piece in pieces:
        if len(piece) < _JOIN_BELOW:
            small.append(piece)
            continue
        if small:
            yield b"".join(small)
            small = []
        yield piece
    if small:
        yield b"".join(small)
