"""Bytes at a path: put there whole or not at all, mapped, listed.

A file is written under a temporary name that no reader's pattern matches, synced, and renamed. Every write checks what
was written. A recording is untrusted: only regular files with bare names are opened, and no symbolic link is followed.
Nothing here knows what the bytes mean.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
import sys
import tempfile
import threading
import weakref
from collections import deque
from typing import Any, BinaryIO, Iterable, Sequence, Union

if sys.platform != "win32":
    import resource

from .errors import TraceError
from .memory import Directory, MemoryDirectory

# To wait for many small files one after the other takes a medium 22 s for 12,288 of them, 16 at a time 1 s (measured).
SYNC_THREADS = 16
MAX_PIECES = 1024  # for one writev; IOV_MAX of Linux

_SAFE_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_OPEN_FLAGS = os.O_RDONLY | _SAFE_FLAGS | getattr(os, "O_NONBLOCK", 0)
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_maps: weakref.WeakSet[Any] = weakref.WeakSet()

Buffer = Union[bytes, bytearray, memoryview]


def most_maps() -> int:
    """How many files to map; beyond, they are read into memory. Before Python 3.13 each map keeps a descriptor."""
    if sys.platform == "win32" or sys.version_info >= (3, 13):
        return 1 << 14  # Linux lets a process have 65,530 maps
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return min(limit // 2, 1 << 12) if limit >= 0 else 1 << 12  # half: 128 of the 256 that macOS gives


def put(directory: Directory, name: str, pieces: Sequence[Buffer], sync: bool) -> None:
    """Puts a file at `directory/name`, whole or not at all; replaces one that is there.

    Args:
        directory: an existing directory.
        name: a bare name.
        pieces: the bytes, in pieces; they are written as they are, not joined.
        sync: whether to wait until the bytes are on the medium before the name shows. The name itself is durable after
            `sync_directory`.

    Raises:
        OSError: it names the file. Nothing is left behind, but for a temporary that could not be removed.
    """
    if isinstance(directory, MemoryDirectory):
        directory.put(name, b"".join(pieces))
        return
    path = os.path.join(directory, name)
    temporary = _put_temporary(path, pieces, sync)
    _rename([(temporary, path)])


def put_all(directory: str, contents: Sequence[tuple[str, Sequence[Buffer]]], sync: bool) -> None:
    """Puts several files: `put` for each name and its pieces, but all are written first and waited for together.

    Raises:
        OSError: as `put`; some may be in their place.
    """
    if len(contents) == 1:
        put(directory, *contents[0], sync)
        return
    temporaries: list[tuple[str, str]] = []
    try:
        for name, pieces in contents:
            path = os.path.join(directory, name)
            temporaries.append((_put_temporary(path, pieces, False), path))
        if sync:
            sync_files([temporary for temporary, _ in temporaries])
    except BaseException:
        _remove(temporary for temporary, _ in temporaries)
        raise
    _rename(temporaries)


def _put_temporary(path: str, pieces: Sequence[Buffer], sync: bool) -> str:
    """Writes what is to be at `path` beside it, and says where."""
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}.{os.urandom(6).hex()}.tmp")
    try:
        descriptor = os.open(temporary, _CREATE_FLAGS, 0o666)
        try:
            _write_all(descriptor, pieces)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException as error:
        _remove([temporary])
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror or str(error), path) from error
        raise
    return temporary


def _rename(temporaries: Sequence[tuple[str, str]]) -> None:
    """Puts temporaries in their places; those that do not come there are removed."""
    done = 0
    try:
        for temporary, path in temporaries:
            try:
                os.replace(temporary, path)
            except OSError as error:
                raise OSError(error.errno, error.strerror or str(error), path) from error
            done += 1
    except BaseException:
        _remove(temporary for temporary, _ in temporaries[done:])
        raise


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


def sync_files(paths: Sequence[str]) -> None:
    """Waits until the medium has what was written to some files.

    Raises:
        OSError: it names the file. None of the files is to be trusted then.
    """
    left = deque(paths)
    errors: list[BaseException] = []

    def work() -> None:
        while left and not errors:
            try:
                path = left.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                descriptor = os.open(path, os.O_WRONLY | _SAFE_FLAGS)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            except OSError as error:
                errors.append(OSError(error.errno, error.strerror or str(error), path))
            except BaseException as error:  # whatever it is, this file is not synced
                errors.append(error)

    threads: list[threading.Thread] = []
    try:
        for _ in range(SYNC_THREADS if len(paths) > SYNC_THREADS else 0):
            thread = threading.Thread(target=work, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no thread can be had, as at shutdown
                break
            threads.append(thread)
        work()
        for thread in threads:
            thread.join()
    finally:
        left.clear()
    if errors:
        raise errors[0]


def _write_all(descriptor: int, pieces: Sequence[Buffer]) -> None:
    views = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
    first = 0
    while first < len(views):
        if hasattr(os, "writev"):
            written = os.writev(descriptor, views[first : first + MAX_PIECES])
        else:
            written = os.write(descriptor, views[first])
        if written == 0:
            raise OSError(0, "nothing could be written")
        while first < len(views) and written >= len(views[first]):
            written -= len(views[first])
            first += 1
        if written:
            views[first] = views[first][written:]


class VanishedError(OSError):
    """What was written to a file is not there any more: it was removed, replaced or cut."""


def write_at(directory: str, name: str, offset: int, pieces: Sequence[Buffer], sync: bool, least: int = 0) -> None:
    """Writes into a file from `offset` on. What lies behind stays.

    Args:
        directory: an existing directory.
        name: a bare name.
        offset: where to.
        pieces: what; may be empty.
        sync: whether to wait until the medium has it, and what was written to the file before.
        least: bytes that the file has. 0: it is made if it is not there.

    Raises:
        OSError: it names the file. What lies from `offset` on is not to be trusted then.
        VanishedError: the file does not have `least` bytes.
    """
    path = os.path.join(directory, name)
    flags = (_CREATE_FLAGS & ~(os.O_CREAT | os.O_EXCL if least else os.O_EXCL)) | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags, 0o666)
        try:
            if os.fstat(descriptor).st_size < least:
                raise VanishedError(errno.EIO, "shorter than what was written to it", path)
            os.lseek(descriptor, offset, os.SEEK_SET)
            _write_all(descriptor, pieces)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except VanishedError:
        raise
    except OSError as error:
        kind = VanishedError if least and isinstance(error, FileNotFoundError) else OSError
        raise kind(error.errno, error.strerror or str(error), path) from error


def read_at(directory: str, name: str, offset: int, size: int) -> bytes:
    """`size` bytes of a file from `offset` on.

    Raises:
        OSError: it cannot be read, or ends before; it names the file.
    """
    path = os.path.join(directory, name)
    with open(path, "rb", buffering=0) as file:
        file.seek(offset)
        data = file.read(size) or b""
    if len(data) != size:
        raise OSError(errno.EIO, "shorter than what was written to it", path)
    return data


def sync_directory(directory: str) -> None:
    """Makes the names in `directory` durable.

    Raises:
        OSError: it names the directory.
    """
    if os.name == "nt":  # directories cannot be opened there; renames are journalled
        return
    try:
        descriptor = os.open(directory, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OSError(error.errno, error.strerror, directory) from error


def open_directory(directory: Any, sync: bool) -> Directory:
    """Where somebody wants to record to, absolute, made if it is not there; a new temporary one for None.

    Raises:
        TraceError: that is no place.
        OSError: as `make_directory`.
    """
    if isinstance(directory, MemoryDirectory):
        return directory
    if directory is None:
        directory = tempfile.mkdtemp(prefix="openai.gym.")
    elif not isinstance(directory, (str, bytes, os.PathLike)) or not os.fspath(directory):
        raise TraceError("malformed", field="directory", expected="a path", found=repr(directory)[:80])
    path = os.path.abspath(os.fsdecode(directory))
    make_directory(path, sync)
    return path


def make_directory(directory: str, sync: bool) -> None:
    """Creates a directory, with those above it, if it is not there; with `sync` its name is durable.

    Raises:
        OSError: it cannot be made; it names the file in the way.
    """
    made = []
    above = directory
    while not os.path.isdir(above) and os.path.dirname(above) != above:
        above = os.path.dirname(above)
        made.append(above)
    os.makedirs(directory, exist_ok=True)
    for parent in made if sync else ():
        with contextlib.suppress(PermissionError):  # one that may be entered and not read
            sync_directory(parent)


def listing(directory: Directory) -> list[str]:
    """The names in `directory`, sorted; none if it does not exist.

    Raises:
        OSError: it cannot be listed.
    """
    if isinstance(directory, MemoryDirectory):
        return sorted(directory.files)
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []


def _open_regular(directory: str, name: str) -> int:
    if os.path.basename(name) != name or "\0" in name or name in ("", ".", ".."):
        raise TraceError("not a bare file name", file=name[:200])
    try:
        descriptor = os.open(os.path.join(directory, name), _OPEN_FLAGS | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise TraceError(f"cannot be opened: {error.strerror}", file=name, expected="a regular file") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise TraceError("cannot be opened", file=name, expected="a regular file")
    return descriptor


def open_file(directory: str, name: str) -> BinaryIO:
    """A file, to read.

    Raises:
        FileNotFoundError, TraceError: as `read`.
    """
    return open(_open_regular(directory, name), "rb")


def read(directory: Directory, name: str, limit: int | None = None) -> bytes:
    """The bytes of a file.

    Raises:
        FileNotFoundError: there is none.
        TraceError: it is no regular file with a bare name, or has more than `limit` bytes.
    """
    if isinstance(directory, MemoryDirectory):
        found = directory.get(name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return found
    descriptor = _open_regular(directory, name)
    with open(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if limit is not None and size > limit:
            raise TraceError("too large", file=name, expected=f"at most {limit} bytes", found=f"{size}")
        return file.read() if limit is None else file.read(min(limit, size))  # `read` allocates what it is told to


def view(directory: Directory, name: str, use_mmap: bool = True) -> Any:
    """The bytes of a file as a read-only buffer: a map that lives as long as somebody looks at it, or plain bytes.

    Raises:
        FileNotFoundError, TraceError: as `read`.
    """
    if isinstance(directory, MemoryDirectory) or not use_mmap or len(_maps) >= most_maps():
        return read(directory, name)
    descriptor = _open_regular(directory, name)
    try:
        if os.fstat(descriptor).st_size == 0:
            return b""
        options: Any = {"trackfd": False} if sys.version_info >= (3, 13) and os.name == "posix" else {}
        mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ, **options)
        _maps.add(mapped)
        return mapped
    finally:
        os.close(descriptor)


def total_size(directory: str, names: Iterable[str]) -> int:
    """The bytes of the files that exist among `names`."""
    total = 0
    for name in names:
        with contextlib.suppress(OSError):
            total += os.lstat(os.path.join(directory, name)).st_size
    return total
