"""What only some rows of the running episode have: its infos, by key, and its frames, by size.

Each key has a column of its values, and one of the rows of `observations` that they came with. What cannot be stored is
left out, and a warning says so, once for each kind: neither is worth a step. Nothing here knows of files, JSON or Gym.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Callable

import numpy as np

from .columns import Column
from .errors import TraceError
from .rows import BLOCK_BYTES
from .values import is_picture, key_mark, normalise, normalise_key


class Sparse:
    """Values of the running episode by key: for each key the rows that have one, and the values.

    Attributes:
        columns: by key, the two columns. Rows are added last, so what has no row is half added.
    """

    _level = 6  # of the stack, where the caller of a recorder is

    def __init__(self) -> None:
        self.columns: dict[Any, tuple[Column, Column]] = {}
        self.refused: set[Any] = set()

    def _refuse(self, key: Any, error: TraceError) -> None:
        if key not in self.refused:
            self.refused.add(key)
            warnings.warn(f"not recorded: {error}", stacklevel=self._level)

    def cut(self, rows: int) -> None:
        """Forgets what came with observation `rows` and later ones."""
        for at, column in self.columns.values():
            count = min(len(at), len(column))
            while count and at[count - 1] >= rows:
                count -= 1
            at.cut(count)
            column.cut(count)

    def clear(self) -> None:
        """Starts the next episode."""
        self.columns = {key: entry for key, entry in self.columns.items() if len(entry[0])}  # keys that still come
        for at, column in self.columns.values():
            at.clear()
            column.clear()

    def size(self) -> int:
        """About how many bytes of memory the rows take that are not handed over."""
        return sum(column.size() for entry in self.columns.values() for column in entry)

    def finish(self, finish: Callable[[Column], Any]) -> dict[Any, dict[str, Any]]:
        """`{key: {"rows": int64 (n,), "values": (n, ...)}}`, as `finish` gives them, for the keys that there are."""
        return {
            key: {"rows": finish(at), "values": finish(column)} for key, (at, column) in self.columns.items() if len(at)
        }


class Infos(Sparse):
    """The infos: a key is one of the dicts that `reset` and `step` return."""

    def add(self, row: int, info: Any) -> None:
        """Copies the info that came with observation `row`, but for what cannot be stored."""
        if info is None:
            return
        if not isinstance(info, Mapping):
            self._refuse(None, TraceError(f"cannot store {type(info)}", field="infos", expected="a dict"))
            return
        for key, value in info.items():
            entry = self.columns.get(key)
            if entry is None or key.__class__ is not str:
                try:
                    key, entry = self._entry(normalise_key(key, ("infos",)))
                except TraceError as error:
                    self._refuse((type(key), key), error)
                    continue
            at, column = entry
            try:
                column.add(value)
            except TraceError as error:
                column.cut(len(at))
                self._refuse(key, error)
            else:
                at.add(row)

    def _entry(self, key: Any) -> tuple[Any, tuple[Column, Column]]:
        """A key with its columns, where there is none that is equal and not the same, such as 1 and True."""
        entry = self.columns.get(key)
        if entry is not None and key_mark(key) != key_mark(entry[0].path[1]):
            if len(entry[0]):
                raise TraceError(
                    f"cannot store the key {key!r} beside {entry[0].path[1]!r}: they are equal", field="infos"
                )
            del self.columns[key]  # of an episode before
        return key, self.columns.setdefault(key, (Column(("infos", key, "rows")), Column(("infos", key))))


class Frames(Sparse):
    """The frames: a key is the shape of one, so that neither another size nor a frame that fails unstacks the others.

    Args:
        block_bytes: as `Column` has it.
    """

    _level = 7

    def __init__(self, block_bytes: int = BLOCK_BYTES) -> None:
        super().__init__()
        self._block_bytes = block_bytes

    def add(self, row: int, frame: Any) -> None:
        """Copies the frame of observation `row`. None: there is none; an error says why."""
        if frame is None:
            return
        if isinstance(frame, TraceError):
            self._refuse(frame.problem, frame)
            return
        try:
            frame = normalise(frame, ("frames",))
            if not is_picture(frame):
                kind = f"{frame.dtype}{frame.shape}" if isinstance(frame, np.ndarray) else str(type(frame))
                raise TraceError("no frame", field="frames", expected="uint8 (height, width[, channels])", found=kind)
        except TraceError as error:
            self._refuse(error.problem, error)
            return
        entry = self.columns.get(frame.shape)
        if entry is None:
            new = Column(("frames", "rows")), Column(("frames",), self._block_bytes)
            entry = self.columns.setdefault(frame.shape, new)
        entry[1].add(frame)
        entry[0].add(row)
