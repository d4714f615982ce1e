"""`TraceRecordingWrapper`: records one environment, of gym or gymnasium.

How its class becomes a real `Wrapper` of the library that the environment comes from is in `adopted`.
"""

from __future__ import annotations

import os
import time
import types
import warnings
import weakref
from collections.abc import Mapping
from typing import Any

from ..environment import describe
from ..errors import TraceError
from ..memory import Place
from ..recording import TraceRecording
from .adopted import Adopted
from .api import (
    UNDERSCORED,
    era_of,
    frame_arguments,
    library_of,
    library_version,
    refuse_lanes,
    render,
    reset_arguments,
    reset_gives_info,
    resets_itself,
    split_reset,
    split_step,
)

__all__ = ["TraceRecordingWrapper"]


class TraceRecordingWrapper(Adopted):
    """Records every action, observation and reward of an environment, and passes everything on unchanged.

    An episode goes from one `reset` to the next, or to `close`, whatever the flags say. Everything is on disk after
    `close`, which closes the environment too, and also when nobody calls it: at exit, and when the wrapper is
    garbage-collected. All other attributes are the environment's.

    A copy (`copy.deepcopy`, `pickle`) records to the same directory, as a recorder of its own that begins empty.

    Args:
        env: an environment of gym or gymnasium; the wrapper is a `Wrapper` of that library.
        directory: where to; created if need be. None: a new temporary directory, see the attribute. A
            `MemoryDirectory`: to memory.
        kwargs: as for `TraceRecording`: `infos`, `timestamps`, `metadata`, `durability` and so on. With
            `frames=True`, the environment is rendered after every reset and step.

    Attributes:
        directory: str, absolute; or the `MemoryDirectory`.
        recording: the `TraceRecording`.

    Raises:
        TraceError: no single environment of gym or gymnasium, or an argument is wrong.
        OSError: nothing can be written to the directory.
    """

    recording: TraceRecording
    env: Any
    _next_seed: int | None = None
    _frame_arguments: Mapping[str, Any]  # of `render`

    def __init__(self, env: Any, directory: Place | None = None, **kwargs: Any) -> None:
        self._adopt(env)
        refuse_lanes(kwargs)
        self._frame_arguments = frame_arguments(env, self._library) if kwargs.get("frames") else {}
        saver = _argument_saver(self._library)
        if saver is not None:
            path = os.fspath(directory) if isinstance(directory, os.PathLike) else directory
            saver.__init__(self, directory=path, **kwargs)
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
        self._film()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._film()

    def _film(self) -> None:
        """Lets the lane render, where frames are recorded. Not in `step`, because most recordings have none."""
        itself = weakref.ref(self)  # the recorder would keep the wrapper from being collected
        if self.recording.lane.frames is not None:
            self.recording.lane.camera = lambda: _picture(itself())

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
        given = reset_arguments(self.env, args, kwargs)
        space = getattr(self.env, "observation_space", None)
        observation, info = split_reset(result, reset_gives_info(self._library, given), space)
        seed, self._next_seed = given.get("seed", self._next_seed), None
        recording.add_reset(observation, seed=seed, options=given.get("options"), info=info)
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

    _library_of = staticmethod(library_of)

    @staticmethod
    def _no_environment(found: Any) -> TraceError:
        return TraceError("no environment to wrap", expected="a gym.Env or gymnasium.Env", found=repr(found)[:80])

    @staticmethod
    def _bases_of(library: types.ModuleType) -> tuple[type, ...]:
        saver = _argument_saver(library)
        return (library.Wrapper,) if saver is None else (library.Wrapper, saver)

    @classmethod
    def _methods_for(cls, base: type) -> dict[str, Any]:
        methods = {name: method for name, method in _OPTIONAL_METHODS.items() if hasattr(base, name)}
        for name in UNDERSCORED:
            ours = methods.get(name, getattr(TraceRecordingWrapper, name, None))
            if ours is not None and (hasattr(cls, f"_{name}") or hasattr(base, f"_{name}")):
                methods[f"_{name}"] = ours
        return methods

    @classmethod
    def _calls(cls) -> dict[str, Any]:
        names = [name for name in UNDERSCORED if hasattr(cls, f"_{name}")]
        own = [name for name in names if getattr(cls, name, None) is not getattr(TraceRecordingWrapper, name, None)]
        return {name: _calling(f"_{name}") for name in names if name not in own}


def _argument_saver(library: types.ModuleType) -> Any:
    """What makes the arguments part of `env.spec`; None where the library has no such thing."""
    return getattr(getattr(library, "utils", None), "RecordConstructorArgs", None)


def _picture(wrapper: TraceRecordingWrapper | None) -> Any:
    """The frame of what a wrapper is around; an error that says why there is none."""
    if wrapper is None:
        return TraceError("the wrapper is gone, and nothing renders; hold it, not its recorder", field="frames")
    return render(wrapper.env, wrapper._frame_arguments)


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
