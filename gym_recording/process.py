"""The process that records: its token, what a fork changes, and that nothing is left unwritten at its end.

However a process ends, but for a kill, its writers are closed: by `atexit`, and in children of multiprocessing, where
`os._exit` runs no handler of ours before Python 3.13, by multiprocessing. What writers do is in `trace`.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
import weakref
from typing import Any, Protocol

from . import lock
from .errors import TraceError


class Writer(Protocol):
    """What must be closed before the process ends.

    Attributes:
        closed: whether it is.
    """

    closed: bool

    def begin_anew(self) -> None:
        """What it holds is the parent's: begins empty, in the child."""

    def close(self) -> None:
        """Writes everything."""


_token = ""
_writers: weakref.WeakSet[Writer] = weakref.WeakSet()
_unfinished: list[Writer] = []  # which nobody else holds
_after_forks: list[None] = []
_at_exit: list[Any] = []  # what multiprocessing runs at the end of this process


def token() -> str:
    """Names this process: pids repeat (containers, reboots), 48 random bits do not."""
    return _token


def register(writer: Writer) -> None:
    """Sees to it that a writer is closed when the process ends."""
    _writers.add(writer)
    _finish_at_exit()


def finish(writer: Writer) -> None:
    """Closes a writer whose recorder was garbage-collected.

    Raises:
        OSError: as its `close`; it is tried again at exit.
    """
    if getattr(threading.current_thread(), "writer", None) is writer:
        # The collector has called this in the middle of a commit, which must not wait for itself. The thread is no
        # daemon, as that one is, so that the interpreter waits for it.
        threading.Thread(target=finish, args=(writer,), daemon=False).start()
        return
    try:
        writer.close()
    except BaseException:
        _unfinished.append(writer)
        raise


def refuse_handlers(*busy: object) -> None:
    """Refuses a call that a signal handler makes in the midst of a method of `busy`, which would go on after it.

    Raises:
        TraceError: it is such a call.
    """
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__package__") == __package__:
            owner = frame.f_locals.get("self")
            if any(owner is one for one in busy):
                raise TraceError("called in a signal handler while the recorder was at work; call it elsewhere")
        frame = frame.f_back


def _draw_token() -> None:
    global _token
    _token = f"{os.getpid()}-{os.urandom(6).hex()}"


def _after_fork_in_child() -> None:
    """What the parent has in its buffers stays the parent's; the child goes on in traces of its own."""
    _draw_token()
    lock.forget_in_child()
    _at_exit.clear()  # the parent's
    _finish_at_exit()  # where a child of multiprocessing forks by itself
    for writer in [writer for writer in _writers if not writer.closed]:
        writer.begin_anew()


def _finish_at_exit(_: object = None) -> None:
    util = sys.modules.get("multiprocessing.util")
    if util is None:
        return
    if not _after_forks:  # its own forks clear the list below; and arguments come before a child knows that it is one
        _after_forks.append(util.register_after_fork(_finish_at_exit, _finish_at_exit))
    is_child = sys.modules["multiprocessing.process"].parent_process() is not None
    if is_child and not any(finalizer.still_active() for finalizer in _at_exit):
        _at_exit[:] = [util.Finalize(None, _finish_all, exitpriority=0)]


def _finish_all() -> None:
    """At exit: closes every writer. A process that loses data does not end as if all were well."""
    failed = False
    for writer in {*_writers, *_unfinished}:
        try:
            try:
                writer.close()
            except KeyboardInterrupt:  # of somebody who does not want to wait: nothing is lost for that
                writer.close()
        except BaseException as error:
            failed = True
            _report(error)
    if failed:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(1)  # nothing else changes the status that the interpreter has decided on by now


def _report(error: BaseException) -> None:
    """Prints an error as the program prints those that nobody catches; its hook keeps no other writer from closing."""
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException:
        sys.__excepthook__(type(error), error, error.__traceback__)


_draw_token()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_finish_all)
