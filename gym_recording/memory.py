"""A directory in memory, which takes the place of a path: recorded to, read and merged like one, and gone with its end.

It holds the very files that a directory would have, so what is read from it is what would be read from there. Which
calls take one is in `files`; nothing is locked, synced or streamed here.
"""

from __future__ import annotations

import os
from typing import Any, Union


class MemoryDirectory:
    """A recording that is written to no disk: give it to recorders and readers in place of a path.

    Episodes are there as soon as they have ended, however long the running one is. Any number of recorders of a process
    may share one. It can be pickled, with all that is in it.

    Attributes:
        files: the bytes of each file by its name.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def __deepcopy__(self, memo: Any) -> MemoryDirectory:
        return self  # a copy of an environment records to the same place, as it does to the same path

    def __repr__(self) -> str:
        return f"<MemoryDirectory of {len(self.files)} files, {sum(map(len, self.files.values()))} bytes>"


Directory = Union[str, MemoryDirectory]  # as it is held
Place = Union[str, "os.PathLike[str]", MemoryDirectory]  # as it is given
