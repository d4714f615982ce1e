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
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: no locks, and so no repair of what others may be writing
    fcntl = None  # type: ignore[assignment]

_FLAGS = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

_guard = threading.RLock()
# By path. The garbage collector may release one recorder's lock in the middle of another's `acquire` or `release`, in
# the same thread: holders are added first and taken away first, so that each of them finds a true count.
_holders: dict[str, dict[object, None]] = {}
_descriptors: dict[str, int] = {}


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
        flush_interval: seconds; ten of them without a new file are a sign of death where locks cannot be trusted. None
            or infinite: there is no such sign.

    Raises:
        OSError: the file cannot be written; it names it.
    """
    with _guard:
        holders = _holders.setdefault(path, {})
        holders[holder] = None
        if path not in _descriptors:
            try:
                _descriptors[path] = _open(path, flush_interval)
            except BaseException:
                holders.pop(holder, None)
                raise


def renew(path: str, flush_interval: float | None) -> None:
    """Makes the lock that is held anew if its file is gone, because the directory was removed and is there again."""
    with _guard:
        if path in _descriptors and not os.path.exists(path):
            with contextlib.suppress(OSError):  # the directory is still gone: what cannot be put there will say so
                descriptor, _descriptors[path] = _descriptors[path], _open(path, flush_interval)
                os.close(descriptor)


def _open(path: str, flush_interval: float | None) -> int:
    descriptor = os.open(path, os.O_CREAT | _FLAGS, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no regular file stands in the way of a lock", path)
    try:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks: the age of the files must do
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # a repair may have it for a moment, and find that it may not
        owner: dict[str, Any] = {"host": platform.node(), "boot": boot_id(), "pid": os.getpid()}
        if flush_interval is not None and math.isfinite(flush_interval):
            owner["flush_interval"] = flush_interval
        os.write(descriptor, json.dumps(owner).encode())
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(path)
        with contextlib.suppress(OSError):
            os.close(descriptor)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, path) from error
        raise
    return descriptor


def release(path: str, holder: object) -> None:
    """Lets go of it, if that is not done; when nobody in this process holds it any more, the file goes."""
    with _guard:
        holders = _holders.get(path, {})
        holders.pop(holder, None)
        if not holders and path in _descriptors:
            with contextlib.suppress(OSError):  # the directory is gone: so is the lock
                os.unlink(path)
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


def take(path: str) -> tuple[int | None, bool, dict[str, Any]]:
    """Tries to take the lock of another process.

    Returns:
        A descriptor that holds it until it is closed, -1 if there is no such file, None if somebody else holds it;
        whether that can be trusted, which it cannot where there are no locks; what the file says of its owner.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        return -1, True, {}
    except OSError:  # a symbolic link, or something else that is no lock of ours
        return None, True, {}
    granted = fcntl is not None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None, True, {}
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
            os.close(descriptor)
            return None, True, {}
        granted = False  # the file system has no locks: the age of the files must do
    try:
        owner = json.loads(os.read(descriptor, 4096))
    except (OSError, ValueError, RecursionError):
        owner = {}
    return descriptor, granted, owner if isinstance(owner, dict) else {}
