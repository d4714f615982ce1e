"""Alive or dead: the lock that a process holds on a directory while a recorder of its own is open there.

The system lets go of a lock when the process dies, whatever it dies of, also in another pid namespace. The file says
which machine and boot it belongs to, because on a network file system a lock may be granted though its holder lives
elsewhere. Nothing here knows of traces; `repair` and `trace` do.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import platform
import stat
import threading
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Callable

try:
    import fcntl
except ImportError:  # Windows: no locks, and so no repair of what others may be writing
    fcntl = None  # type: ignore[assignment]

_FLAGS = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

_guard = threading.RLock()
# By path. The garbage collector may release one recorder's lock in the middle of another's `acquire` or `release`, in
# the same thread: holders are added first and taken away first, so that each of them finds a true count.
_holders: dict[str, dict[object, float | None]] = {}  # each with its flush interval
_descriptors: dict[str, int] = {}
_said: dict[str, bytes] = {}  # what the file says


@lru_cache(maxsize=1)
def boot_id() -> str | None:
    """What tells one boot of a machine from the next; None where the system does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return None


def acquire(path: str, holder: object, flush_interval: float | None) -> None:
    """Holds the lock of this process at `path`. Who holds it already goes on holding it.

    Args:
        holder: whoever holds it, for `release`.
        path: of the lock file; made if it is not there.
        flush_interval: seconds; ten of them without a new file are a sign of death where locks cannot be trusted, the
            longest of all holders. None or infinite: there is no such sign.

    Raises:
        OSError: the file cannot be written; it names it.
    """
    with _guard:
        holders = _holders.setdefault(path, {})
        holders[holder] = flush_interval
        try:
            if path not in _descriptors:
                _descriptors[path] = _open(path)
            _say(path)
        except BaseException as error:
            release(path, holder)
            if isinstance(error, OSError):
                raise OSError(error.errno, error.strerror, path) from error
            raise


def renew(path: str, holder: object, flush_interval: float | None) -> None:
    """Holds it on: makes it anew if its file is gone, because the directory was removed and is there again.

    Args:
        path: as for `acquire`.
        holder: as for `acquire`.
        flush_interval: as for `acquire`.
    """
    with _guard:
        _holders[path][holder] = flush_interval
        with contextlib.suppress(OSError):  # the directory is still gone: what cannot be put there will say so
            if not _is_at(path, _descriptors[path]):
                descriptor, _descriptors[path] = _descriptors[path], _open(path)
                _said.pop(path, None)
                os.close(descriptor)
            _say(path)


def _is_at(path: str, descriptor: int) -> bool:
    """Whether the file at `path` is the one that is open: others may have removed it, and made another."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _is_same(descriptor: int, other: int) -> bool:
    """Whether both are of one file; not if the first is closed."""
    status = os.fstat(other)
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), status)
    return False


def _open(path: str) -> int:
    """Makes the lock and takes it. Who finds it granted while it is at `path` is the only one that has it."""
    while True:
        descriptor = os.open(path, os.O_CREAT | _FLAGS, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "no regular file stands in the way of a lock", path)
            # A copy, and no error if one is closed: the garbage collector may close a recorder at any line.
            own = next((other for other in list(_descriptors.values()) if _is_same(other, descriptor)), None)
            if own is None:
                if fcntl is not None:
                    with contextlib.suppress(OSError):  # a file system without locks: the age of the files must do
                        fcntl.flock(descriptor, fcntl.LOCK_EX)  # a repair may have it, and is through soon
                if _is_at(path, descriptor):
                    return descriptor
            else:  # the directory has been renamed, or has several names; waiting would be for ever
                with contextlib.suppress(OSError):
                    held = os.dup(own)  # which holds it until both are closed
                    break
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    os.close(descriptor)
    return held


def _say(path: str) -> None:
    """Writes whose it is, if the file does not say so."""
    owner: dict[str, Any] = {"host": platform.node(), "boot": boot_id(), "pid": os.getpid()}
    intervals = list(_holders[path].values())  # a copy: the garbage collector may close a recorder at any line
    interval = max(math.inf if interval is None else interval for interval in intervals)
    if math.isfinite(interval):
        owner["flush_interval"] = interval
    said = _said.get(path, b"")
    text = json.dumps(owner).encode().ljust(len(said))
    if text != said:
        os.lseek(_descriptors[path], 0, os.SEEK_SET)
        _said[path] = text[: os.write(_descriptors[path], text)].ljust(len(text))


def release(path: str, holder: object) -> None:
    """Lets go of it, if that is not done; when nobody in this process holds it any more, the file goes."""
    with _guard:
        holders = _holders.get(path, {})
        holders.pop(holder, None)
        if not holders and path in _descriptors:
            with contextlib.suppress(OSError):  # the directory is gone: so is the lock
                os.unlink(path)
            _said.pop(path, None)
            descriptor = _descriptors.pop(path, None)
            if descriptor is not None:
                with contextlib.suppress(OSError):
                    os.close(descriptor)


def forget_in_child() -> None:
    """After a fork: the child holds nothing. It closes the descriptors, or its life would keep the parent's locks."""
    global _guard
    _guard = threading.RLock()
    for descriptor in _descriptors.values():
        os.close(descriptor)
    _descriptors.clear()
    _holders.clear()
    _said.clear()


@dataclass
class Taken:
    """What a try to take the lock of another process came to.

    Attributes:
        descriptor: holds it until it is closed; -1 if there is no such file and none can be made, None if somebody else
            holds it.
        trusted: whether that settles it, which it does not where there are no locks.
        owner: what the file says of its owner.
        made: the file was not there before, or does not say whose it is: its maker does not hold it yet, or died there.
            Whoever took it removes it.
    """

    descriptor: int | None
    trusted: bool = True
    owner: dict[str, Any] = field(default_factory=dict)
    made: bool = False


def take(path: str) -> Taken:
    """Tries to take the lock of another process. While it is held, that process opens no recorder there."""
    while True:
        made = False
        try:
            try:
                descriptor = os.open(path, _FLAGS)
            except FileNotFoundError:
                descriptor = os.open(path, os.O_CREAT | os.O_EXCL | _FLAGS, 0o666)
                made = True
        except FileExistsError:
            continue
        except OSError:  # a symbolic link, or something else that is no lock of ours; or nothing can be made here
            return Taken(None if os.path.lexists(path) else -1)
        taken = _taken(descriptor, made)
        if taken.descriptor is None or _is_at(path, descriptor):
            return taken
        os.close(descriptor)


def _taken(descriptor: int, made: bool) -> Taken:
    trusted = fcntl is not None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return Taken(None)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
            os.close(descriptor)
            return Taken(None)
        trusted = False  # the file system has no locks: the age of the files must do
    owner = _read_owner(descriptor)
    return Taken(descriptor, trusted, owner, made or not owner)


def _read_owner(descriptor: int) -> dict[str, Any]:
    """What a lock says, as far as it is what a writer may have said; nothing if that is no JSON."""
    try:
        found = json.loads(os.read(descriptor, 4096))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: found[key] for key, is_good in _OWNER.items() if key in found and is_good(found[key])}


_OWNER: dict[str, Callable[[Any], bool]] = {
    "host": lambda value: type(value) is str,
    "boot": lambda value: value is None or type(value) is str,
    "pid": lambda value: type(value) is int and 0 < value < 1 << 63,
    "flush_interval": lambda value: type(value) in (int, float) and 0 <= value < math.inf,
}
