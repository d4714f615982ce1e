"""What the recorders for other interfaces than Gym's have in common.

The classes that people import belong to no library, so that importing them imports none. Making an instance makes,
once, a class of the same name that is also of the base class that the library wants. Knows no interface.
"""

from __future__ import annotations

import time
import types
from importlib import import_module
from typing import Any

from ..errors import TraceError, missing_package
from ..recording import TraceRecording

_classes: dict[type, type] = {}


class Adapter:
    """A recorder around an environment that is an instance of `_base` of the package `_package` too."""

    _package: str
    _install: str
    _base: str
    _of_library = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls._made())

    @classmethod
    def _made(cls) -> type[Any]:
        if cls._of_library:
            return cls
        if cls not in _classes:
            names = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
            members = {**names, "_of_library": True}
            base = getattr(library(cls._package, cls._install), cls._base)
            _classes[cls] = types.new_class(cls.__name__, (cls, base), {}, lambda namespace: namespace.update(members))
        return _classes[cls]

    def __reduce_ex__(self, protocol: Any) -> Any:
        plain = next(cls for cls in type(self).__mro__ if "_of_library" not in cls.__dict__)
        return plain.__new__, (plain,), self.__dict__.copy()


def library(package: str, install: str) -> Any:
    """A package that an environment is of.

    Raises:
        MissingPackageError: it is not installed.
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        name = package.partition(".")[0]
        if (error.name or "").partition(".")[0] != name:
            raise
        raise missing_package(name, "recording such an environment", install) from error


def refuse_arguments(kwargs: dict[str, Any]) -> None:
    """Refuses arguments that are not for such a recorder: `lanes` are of several environments, frames are of Gym's.

    Raises:
        TraceError: one is given.
    """
    if kwargs.get("frames"):
        raise TraceError("only environments of gym and gymnasium are rendered; leave it out", field="frames")
    lanes = kwargs.get("lanes")
    if lanes is not None:
        raise TraceError("one environment has one lane; leave it out", field="lanes", found=repr(lanes)[:80])


def flush_if_due(recording: TraceRecording) -> None:
    """Writes what is due after a step.

    Raises:
        OSError: that failed. Nothing recorded is lost.
    """
    lane = recording.lane
    if lane.steps >= lane.watch or time.monotonic() >= recording.deadline:
        recording.flush_if_due(lane)
