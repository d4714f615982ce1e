"""A directory in memory, which takes the place of a path: recorded to, read and merged like one, and gone with its end.

It holds the very files that a directory would have, so what is read from it is what would be read from there. Which
calls take one is in `files`; nothing is locked, synced or streamed here.
"""

from __future__ import annotations

import os
import warnings
import weakref
from typing import Any, Protocol, Union


class Recorder(Protocol):
    """What records to it."""

    def save_complete(self) -> None:
        """Puts all ended episodes there."""


class MemoryDirectory:
    """A recording that is written to no disk: give it to recorders and readers in place of a path.

    Whoever looks finds every episode that has ended, and none that is running. Any number of recorders of a process may
    share one. It can be pickled, with all that is in it. What another process records to it, as a sub-environment of an
    `AsyncVectorEnv` does, is in the memory of that process alone and gone with it; a warning says so.
    """

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()
        self._home = os.getpid()  # the process that sees what is recorded; 0 after it was said that another does not

    @property
    def files(self) -> dict[str, bytes]:
        """The bytes of each file by its name."""
        for recorder in list(self._recorders):
            recorder.save_complete()
        return self._files

    def put(self, name: str, data: bytes) -> None:
        """Puts a file there, or replaces it."""
        self._files[name] = data

    def get(self, name: str) -> bytes | None:
        """The bytes of a file; None if there is none."""
        return self._files.get(name)

    def attend(self, recorder: Recorder) -> None:
        """Asks a recorder from now on for what has ended, as long as somebody holds it."""
        self._recorders.add(recorder)

    def warn_elsewhere(self) -> None:
        """Warns once if this is a child of the process that holds it."""
        if self._home not in (0, os.getpid()):
            self._home = 0
            text = "recorded to a MemoryDirectory of another process, which sees nothing of it; record to a directory"
            warnings.warn(text, stacklevel=4)

    def __deepcopy__(self, memo: Any) -> MemoryDirectory:
        return self  # a copy of an environment records to the same place, as it does to the same path

    def __reduce__(self) -> Any:
        return _restore, (dict(self.files), self._home)

    def __repr__(self) -> str:
        return f"<MemoryDirectory of {len(self._files)} files, {sum(map(len, self._files.values()))} bytes>"


def _restore(contents: dict[str, bytes], home: int) -> MemoryDirectory:
    directory = MemoryDirectory()
    directory._files.update(contents)
    if home == os.getppid():  # given to a child; else it is read from a file, or a result that came from elsewhere
        directory._home = home
    return directory


Directory = Union[str, MemoryDirectory]  # as it is held
Place = Union[str, "os.PathLike[str]", MemoryDirectory]  # as it is given
