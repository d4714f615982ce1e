"""Where two episodes first differ: the step, the field, and by how much.

Rows are compared bit for bit, dtype and shape included, but that a NaN equals a NaN. Arrays of one kind are compared a
block of rows at a time; all else row by row, so that a value which makes a column one of another kind shows at its own
step. What is unknown on one side is not compared: flags, infos. Nothing here knows where episodes come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Collection, Iterator, Optional, Tuple

import numpy as np

from .episode import DictColumns, Episode, TupleColumns
from .rows import FLOAT64, INT64
from .values import Path, path_text

_BLOCK_BYTES = 1 << 22
_TEXT = 80  # characters of a value in a message
_PLAIN = (type(None), str, int)  # what NumPy would take for something else, or not at all

Found = Optional[Tuple[Path, Any, Any]]  # where in a row two values differ


class _Nothing:
    """In place of a value that is not there."""

    def __repr__(self) -> str:
        return "nothing"


_NO_ARRAYS = (type(None), str, list, tuple, Mapping, _Nothing)


@dataclass(frozen=True)
class Difference:
    """The first place where an episode is not as expected.

    Attributes:
        step: the step that gave it, from 0; None: the reset.
        field: the path of the value, `observations.image`; "step" or "reset" if that call failed.
        expected, found: what the values are, as text, shortened.
        by: the largest distance between two numbers of the value; None where it has no numbers, or another shape.
    """

    step: int | None
    field: str
    expected: str
    found: str
    by: float | None = None

    def __str__(self) -> str:
        where = "at the reset" if self.step is None else f"at step {self.step}"
        by = "" if self.by is None else f" by {self.by:.6g}"
        return f"{where}: {self.field} differs{by} (expected {self.expected}, found {self.found})"


def first_difference(expected: Episode, found: Episode, ignore: Collection[str] = ()) -> Difference | None:
    """The first difference between two episodes, as far as both go; at a step, that of the observation comes first.

    Actions, timestamps, frames, seeds and how the episodes ended are not compared.

    Args:
        expected: as it should be.
        found: as it is; `headless` if the other is.
        ignore: paths, as in `Difference.field`, that are left out, with all below them.
    """
    shift = 1 - expected.headless  # row 0 of the observations came with the reset
    places = [
        (row - shift, order, *where)
        for order, (row, where) in enumerate(_columns(expected, found, ignore))
        if row is not None
    ]
    if not places:
        return None
    step, _, path, one, other = min(places, key=lambda place: place[:2])
    alike = _kind(one) == _kind(other)
    texts = [_text(value) if alike else f"{_kind(value)} {_text(value)}".strip() for value in (one, other)]
    return Difference(None if step < 0 else step, path_text(path), texts[0], texts[1], _distance(one, other))


def _columns(expected: Episode, found: Episode, ignore: Collection[str]) -> Iterator[tuple[int | None, Any]]:
    """For each field the first row that differs, counted as those of the observations, and where in it."""
    shift = 1 - expected.headless
    yield _first(expected.observations, found.observations, ("observations",), ignore)
    row, where = _first(expected.rewards, found.rewards, ("rewards",), ignore)
    yield row if row is None else row + shift, where
    if len(expected) == len(found):
        for name in ("terminated", "truncated"):
            flags = getattr(expected, name), getattr(found, name)
            known = None not in flags and name not in ignore
            yield (len(expected) - 1 + shift, ((name,), *flags)) if known and flags[0] != flags[1] else (None, None)
    if expected.infos is not None and found.infos is not None:
        yield _first(expected.infos, found.infos, ("infos",), ignore)


def _first(a: Any, b: Any, path: Path, ignore: Collection[str]) -> tuple[int | None, Any]:
    """The first row in which two columns differ, and where in that row."""
    if path_text(path) in ignore:
        return None, None
    count = min(len(a), len(b))
    pairs = _columns_of(a, b)
    if pairs is not None:
        firsts = [_first(*pair, (*path, key), ignore) for key, pair in pairs]
        rows = [(row, order) for order, (row, _) in enumerate(firsts) if row is not None]
        return firsts[min(rows)[1]] if rows else (None, None)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if len(b) < len(a) and (a.dtype, b.dtype) == (FLOAT64, INT64):
            b = b.astype(FLOAT64)  # ints, which become floats as soon as one comes
        a, b = _native(a[:count]), _native(b[:count])
        if a.dtype == b.dtype and a.shape == b.shape:
            row = _first_row(a, b)
            return row, None if row is None else (path, a[row], b[row])
    for row in range(count):
        where = _differ(a[row], b[row], path, ignore)
        if where is not None:
            return row, where
    return None, None


def _columns_of(a: Any, b: Any) -> list[tuple[Any, tuple[Any, Any]]] | None:
    """The columns of two dicts or tuples of the same structure, by key."""
    if isinstance(a, DictColumns) and isinstance(b, DictColumns) and a.keys() == b.keys():
        return [(key, (rows, b.columns[key])) for key, rows in a.items()]
    if isinstance(a, TupleColumns) and isinstance(b, TupleColumns) and len(a.columns) == len(b.columns):
        return list(enumerate(zip(a.columns, b.columns)))
    return None


def _first_row(a: Any, b: Any) -> int | None:
    """The first row in which two arrays of the same dtype and shape differ."""
    step = max(1, _BLOCK_BYTES * len(a) // (a.nbytes + 1))
    for start in range(0, len(a), step):
        unequal = _unequal(a[start : start + step], b[start : start + step])
        if unequal.any():
            return start + int(unequal.reshape(len(unequal), -1).any(axis=1).argmax())
    return None


def _unequal(a: Any, b: Any) -> Any:
    """Which elements of two arrays of the same dtype and shape differ in a bit, unless both are NaN."""
    if a.dtype.names is not None:
        fields = [_unequal(a[name], b[name]).reshape(*a.shape, -1).any(axis=-1) for name in a.dtype.names]
        return np.logical_or.reduce(fields)
    if a.dtype.kind == "c":
        return _unequal(a.real, b.real) | _unequal(a.imag, b.imag)
    if a.dtype.kind in "biuSUO":
        return np.asarray(a != b)
    bits = np.dtype(f"u{a.dtype.itemsize}")  # floats, also those of ml_dtypes: -0.0 is not 0.0
    return (a.view(bits) != b.view(bits)) & ~((a != a) & (b != b))


def _differ(a: Any, b: Any, path: Path, ignore: Collection[str]) -> Found:
    """Where two values differ, if they do."""
    if path_text(path) in ignore:
        return None
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        pairs = [(key, a.get(key, _Nothing()), b.get(key, _Nothing())) for key in {**a, **b}]
    elif any(isinstance(a, kind) and isinstance(b, kind) and len(a) == len(b) for kind in (list, tuple)):
        pairs = list(zip(range(len(a)), a, b))
    else:
        return None if _same(a, b) else (path, a, b)
    return next(filter(None, (_differ(one, other, (*path, key), ignore) for key, one, other in pairs)), None)


def _same(a: Any, b: Any) -> bool:
    """Whether two values without parts are the same."""
    if type(a) is type(b) and type(a) in _PLAIN:
        return bool(a == b)
    if isinstance(a, _NO_ARRAYS) or isinstance(b, _NO_ARRAYS):
        return False
    a, b = _native(np.asarray(a)), _native(np.asarray(b))
    return a.dtype == b.dtype and a.shape == b.shape and not _unequal(a, b).any()


def _native(array: Any) -> Any:
    """The same in the byte order of this machine: that of old files is no difference."""
    dtype = array.dtype.newbyteorder("=")
    return array if dtype == array.dtype else array.astype(dtype)


def _kind(value: Any) -> str:
    """The dtype and shape of an array or number; of all else the text says what it is."""
    if isinstance(value, _NO_ARRAYS):
        return ""
    array = np.asarray(value)
    return f"{array.dtype} {array.shape}" if array.ndim else f"{array.dtype}"


def _text(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value)
        text = " ".join(np.array2string(value, threshold=8, edgeitems=3, separator=", ").split())
    else:
        text = repr(value)
    return text if len(text) <= _TEXT else text[: _TEXT - 3] + "..."


def _distance(a: Any, b: Any) -> float | None:
    """The largest distance between numbers at the same place; NaN if one of two is."""
    if isinstance(a, _NO_ARRAYS) or isinstance(b, _NO_ARRAYS):
        return None
    try:
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or not a.size or "b" in (a.dtype.kind, b.dtype.kind):
            return None
        unequal = _unequal(a, b) if a.dtype == b.dtype else np.ones(a.shape, bool)
        exact = {a.dtype.kind, b.dtype.kind} <= set("iuO")  # of ints, which may be large, without overflow
        wide = object if exact else np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
        with np.errstate(all="ignore"):
            return float(np.abs(a[unequal].astype(wide) - b[unequal].astype(wide)).max())
    except (TypeError, ValueError, OverflowError):  # they are no numbers
        return None
