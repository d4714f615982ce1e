"""A stand-in for `os` in the modules that write: it numbers the calls by which they do, and a plan acts on each.

A plan is a function of a `Call`: it performs the call, or does not, or does something else. What has no plan, and all
other names of `os`, are as ever. Nothing of the package is replaced, only the system that it calls.
"""

import contextlib
import errno
import os
import signal
import threading
from typing import ClassVar

from gym_recording import files, lock, recording, repair, stream, trace

MODULES = (files, lock, recording, repair, stream, trace)
CALLS = ("open", "write", "writev", "lseek", "fsync", "close", "replace", "unlink", "makedirs")


class Call:
    """One call of a function of `os`, which `perform` makes.

    Attributes:
        number: counted from 0.
        name: of the function.
        args: its arguments.
        path: the file; that of a descriptor, too. Of `replace`, what is renamed.
    """

    def __init__(self, system, number, name, args, kwargs):
        self.system, self.number, self.name, self.args, self.kwargs = system, number, name, args, kwargs
        self.path = system.paths.get(args[0], "") if isinstance(args[0], int) else os.fspath(args[0])

    def perform(self, *args):
        args = args or self.args
        if self.name == "fsync":  # whoever dies here leaves the page cache behind, so the medium need not be waited for
            return os.fstat(args[0]) and None
        if self.name == "close":
            del self.system.paths[args[0]]  # before another thread can have that descriptor
        result = getattr(os, self.name)(*args, **self.kwargs)
        if self.name == "open":
            self.system.paths[result] = self.path
        return result

    def __repr__(self):
        return f"{self.number}: {self.name} {os.path.basename(self.path)}"


class System:
    """`os`, with a plan."""

    def __init__(self, plan=None):
        self.plan = plan
        self.number = 0
        self.paths = {}
        self.lock = threading.RLock()

    def __getattr__(self, name):
        function = getattr(os, name)
        if name not in CALLS:
            return function

        def call(*args, **kwargs):
            if self._reads(name, args):
                return function(*args, **kwargs)
            with self.lock:
                made = Call(self, self.number, name, args, kwargs)
                self.number += 1
            return made.perform() if self.plan is None else self.plan(made)

        return call

    def _reads(self, name, args):
        """Whether a call is of a file that is only read."""
        if name == "open":
            return args[1] & (os.O_WRONLY | os.O_RDWR) == 0 and not os.path.isdir(args[0])
        return isinstance(args[0], int) and args[0] not in self.paths

    @contextlib.contextmanager
    def installed(self):
        """The modules that write call this instead of `os`."""
        try:
            for module in MODULES:
                module.os = self
            yield self
        finally:
            for module in MODULES:
                module.os = os


# ---- plans


def kill_at(number):
    """The process dies before call `number`; a write is half done then."""

    def plan(call):
        if call.number == number:
            half(call)
            os.kill(os.getpid(), signal.SIGKILL)
        return call.perform()

    return plan


def half(call):
    """Does half of a write."""
    if call.name == "writev":
        data = b"".join(call.args[1])
        os.write(call.args[0], data[: len(data) // 2])
    elif call.name == "write":
        os.write(call.args[0], call.args[1][: len(call.args[1]) // 2])


def short_writes(size):
    """A write takes at most `size` bytes."""

    def plan(call):
        if call.name == "writev":
            views, room = [], size
            for view in call.args[1]:
                views.append(memoryview(view)[:room])
                room -= len(views[-1])
            return call.perform(call.args[0], [view for view in views if len(view)])
        return call.perform()

    return plan


class Failing:
    """Calls fail with an `OSError`: the first is call `number`, then `further` ones, or all until `over` is set.

    Attributes:
        failed: the calls that did.
        calls: all calls.
        after: whether a call is made before it fails, as a network may have it.
    """

    # A file system that is full, or broken, fails in these ways.
    NAMES: ClassVar = {
        errno.ENOSPC: ("open", "write", "writev", "fsync", "replace", "close", "makedirs"),
        errno.EIO: ("open", "write", "writev", "lseek", "fsync", "replace", "close", "unlink", "makedirs"),
    }

    def __init__(self, number, code, further=0, after=False):
        self.number, self.code, self.further, self.after = number, code, further, after
        self.failed, self.calls = [], []
        self.over = False

    def __call__(self, call):
        self.calls.append(call)
        wanted = call.number >= self.number and not self.over and len(self.failed) <= self.further
        if not wanted or call.name not in self.NAMES[self.code]:
            return call.perform()
        self.failed.append(call)
        if self.after or call.name == "close":  # Linux lets go of the descriptor, whatever it says
            result = call.perform()
            if call.name == "open":
                os.close(result)
        elif self.code == errno.ENOSPC:
            half(call)
        names = () if isinstance(call.args[0], int) else (call.path,)  # as the system has it
        raise OSError(self.code, os.strerror(self.code), *names)
