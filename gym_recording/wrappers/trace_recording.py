"""`TraceRecordingWrapper`: records one environment, of gym or gymnasium.

The class that people import belongs to neither library, so that importing it imports neither. Making an instance makes,
once per library, a class of the same name that is a real `Wrapper` of the library that the environment comes from.
"""

from __future__ import annotations

import os
import time
import types
import warnings
from typing import Any

from ..environment import describe
from ..errors import TraceError
from ..recording import TraceRecording
from .api import (
    UNDERSCORED,
    era_of,
    library_of,
    library_version,
    reset_gives_info,
    resets_itself,
    split_reset,
    split_step,
)

__all__ = ["TraceRecordingWrapper"]

_classes: dict[tuple[type, str], type] = {}


class TraceRecordingWrapper:
    """Records every action, observation and reward of an environment, and passes everything on unchanged.

    An episode goes from one `reset` to the next, or to `close`, whatever the flags say. Everything is on disk after
    `close`, which closes the environment too, and also when nobody calls it: at exit, and when the wrapper is
    garbage-collected. All other attributes are the environment's.

    A copy (`copy.deepcopy`, `pickle`) records to the same directory, as a recorder of its own that begins empty.

    Args:
        env: an environment of gym or gymnasium; the wrapper is a `Wrapper` of that library.
        directory: where to; created if need be. None: a new temporary directory, see the attribute.
        kwargs: as for `TraceRecording`: `infos`, `timestamps`, `metadata`, `durability`, `buffer_batch_size` and so on.

    Attributes:
        directory: str, absolute.
        recording: the `TraceRecording`.

    Raises:
        TraceError: no single environment of gym or gymnasium, or an argument is wrong.
        OSError: nothing can be written to the directory.
    """

    recording: TraceRecording
    env: Any
    _library: types.ModuleType
    _next_seed: int | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if "_library" in cls.__dict__:
            return _new(cls)
        libraries = filter(None, map(library_of, (*args, *kwargs.values())))
        library = next(libraries, None)
        if library is None and cls is TraceRecordingWrapper:
            raise _no_environment(args or None)
        return object.__new__(cls) if library is None else _new(_class_for(cls, library))

    def __init__(self, env: Any, directory: str | os.PathLike[str] | None = None, **kwargs: Any) -> None:
        if not hasattr(self, "_library"):  # a subclass that makes its environment itself
            library = library_of(env)
            if library is None:
                raise _no_environment(env)
            self.__class__ = _class_for(type(self), library)
        saver = _argument_saver(self._library)
        if saver is not None:
            saver.__init__(self, directory=directory if directory is None else os.fspath(directory), **kwargs)
        arguments = era_of(self._library).init
        super().__init__(env, **arguments)  # type: ignore[call-arg]  # the library's Wrapper comes next
        for name in arguments:  # the environment's own holds
            del self.__dict__[name]
        if resets_itself(env):
            warnings.warn(
                "the environment resets itself below the recorder: its episodes are recorded as one, "
                "and not where they end; put the recorder below the wrapper that resets",
                stacklevel=2,
            )
        self.recording = TraceRecording(
            directory, **{"env": describe(env), "library": library_version(self._library), **kwargs}
        )
        self.directory = self.recording.directory

    def step(self, action: Any) -> Any:
        """Steps the environment, records the step, returns what the environment returned.

        Raises:
            ClosedError: the recorder is closed; the environment was not stepped.
            TraceError: the action, observation or reward cannot be stored; the message has its path.
            OSError: a flush was due and failed; nothing recorded is lost.
        """
        recording = self.recording
        lane = recording.lane
        try:
            lane.begin(action)  # before the environment can overwrite it
        except TraceError:
            lane.take_back()
            raise
        result = self.env.step(action)
        lane.finish(*(result if result.__class__ is tuple and len(result) == 5 else split_step(result, self.env)))
        if lane.steps >= lane.watch or time.monotonic() >= recording.deadline:
            recording.flush_if_due(lane)
        return result

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Resets the environment, which begins an episode, returns what the environment returned.

        Raises:
            ClosedError, TraceError, OSError: as `step`.
        """
        recording = self.recording
        failed = None
        try:
            recording.end_episode()
        except OSError as error:  # nothing is kept from being reset, or recorded, because writing fails
            failed = error
        result = self.env.reset(*args, **kwargs)
        space = getattr(self.env, "observation_space", None)
        observation, info = split_reset(result, reset_gives_info(self._library, kwargs), space)
        seed, self._next_seed = kwargs.get("seed", self._next_seed), None
        recording.add_reset(observation, seed=seed, options=kwargs.get("options"), info=info)
        if failed is not None:
            raise failed
        return result

    def close(self) -> Any:
        """Writes everything and closes the environment.

        Raises:
            OSError: not everything could be written. The environment is closed all the same; the data is kept, and
                closing again tries again.
        """
        try:
            if "recording" in self.__dict__:
                self.recording.close()
        finally:
            self.env.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "env" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.env, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        plain = next(cls for cls in type(self).__mro__ if "_library" not in cls.__dict__)
        return _restore, (plain, self._library.__name__), self.__dict__.copy()


def _restore(cls: type[TraceRecordingWrapper], library: str) -> Any:
    return _new(_class_for(cls, __import__(library)))


def _no_environment(found: Any) -> TraceError:
    return TraceError("no environment to wrap", expected="a gym.Env or gymnasium.Env", found=repr(found)[:80])


def _new(made: Any) -> Any:
    return super(TraceRecordingWrapper, made).__new__(
        made
    )  # of the library: old gyms keep account of environments there


def _argument_saver(library: types.ModuleType) -> Any:
    """What makes the arguments part of `env.spec`; None where the library has no such thing."""
    return getattr(getattr(library, "utils", None), "RecordConstructorArgs", None)


def _class_for(cls: type, library: types.ModuleType) -> Any:
    """`cls` as a Wrapper of `library`."""
    key = (cls, library.__name__)
    if key not in _classes:
        saver = _argument_saver(library)
        own = {name: method for name, method in _OPTIONAL_METHODS.items() if hasattr(library.Wrapper, name)}
        members = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
        for name in UNDERSCORED:
            old, ours = f"_{name}", own.get(name, getattr(TraceRecordingWrapper, name, None))
            if hasattr(cls, old) and getattr(cls, name, None) is getattr(TraceRecordingWrapper, name, None):
                members[name] = _calling(old)
            if ours is not None and (hasattr(cls, old) or hasattr(library.Wrapper, old)):
                own[old] = ours
        bases = (cls, type("_Methods", (), own), library.Wrapper, *([] if saver is None else [saver]))
        members["_library"] = library
        _classes[key] = types.new_class(cls.__name__, bases, {}, lambda namespace: namespace.update(members))
    return _classes[key]


def _calling(name: str) -> Any:
    return lambda self, *args, **kwargs: getattr(self, name)(*args, **kwargs)


def _seed(self: Any, seed: Any = None) -> Any:
    """Seeds the environment; the next episode is recorded with that seed."""
    self._next_seed = seed
    return self.env.seed(seed)


def _set_wrapper_attr(self: Any, name: str, value: Any, **kwargs: Any) -> Any:
    """Sets an attribute where it is: here if the recorder itself has it, else below."""
    if name in self.__dict__ or hasattr(type(self), name):
        setattr(self, name, value)
        return True
    return self.env.set_wrapper_attr(name, value, **kwargs)


def _allow(self: Any, *arguments: Any) -> None:
    """Two recorders in one stack are two recordings; gym up to 0.9 refuses two wrappers of a kind."""


# Methods that not every library's Wrapper has; an instance has them where its library does.
_OPTIONAL_METHODS = {
    "seed": _seed,
    "set_wrapper_attr": _set_wrapper_attr,
    "_check_for_duplicate_wrappers": _allow,
    "_warn_double_wrap": _allow,
}
