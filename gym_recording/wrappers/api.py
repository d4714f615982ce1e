"""What differs between Gyms: whose an environment is, what `reset` and `step` return.

What hangs on a library's version stands in `_ERAS`, what shows in a result in `_STEPS`. Libraries are recognised by the
names of modules and never imported before an environment of theirs is there.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any, Callable, NamedTuple

from ..errors import TraceError
from ..spaces import LIBRARIES

_VECTOR_CLASSES = ("VectorEnv", "VecEnv")
TRUNCATED = "TimeLimit.truncated"  # in the info of the old interface: a time limit is why it is done


class Era(NamedTuple):
    """What holds for a library from one version on."""

    since: tuple[int, ...]
    reset_info: bool | None  # whether `reset` returns (observation, info); None: if it is called with return_info=True
    init: Mapping[str, Any]  # further arguments of `Wrapper.__init__`
    frame: Mapping[Any, Mapping[str, Any]]  # by `render_mode`: arguments with which `render` returns one frame


_ANY = object()  # an attribute that means nothing yet
_ERAS = {  # the newest first
    "gymnasium": (Era((0,), True, {}, {"rgb_array": {}}),),
    "gym": (
        Era((0, 26), True, {}, {"rgb_array": {}}),
        Era(
            (0, 25),
            None,
            {"new_step_api": True},  # else it warns; what the steps return is the environment's own
            {"single_rgb_array": {}, None: {"mode": "rgb_array"}},  # "rgb_array" is what "rgb_array_list" is later
        ),
        Era((0,), None, {}, {_ANY: {"mode": "rgb_array"}}),
    ),
}
_AUTORESETS = ("AutoResetWrapper", "Autoreset")  # gym since 0.24, gymnasium to 0.29; gymnasium since 1.0
# Methods that wrappers define with an underscore before the name, as gym up to 0.12.0 has it; `step` calls `_step`.
UNDERSCORED = ("step", "reset", "close", "seed")


def library_of(value: Any) -> ModuleType | None:
    """The library whose `Env` a value is an instance of; None if it is none.

    Raises:
        TraceError: it is a vector environment.
    """
    names = [(cls.__module__.partition(".")[0], cls.__name__) for cls in type(value).__mro__]
    if holds_vector(value):
        raise TraceError(
            "a vector environment is recorded with TraceRecordingVectorWrapper, directly around it",
            expected="a single environment",
            found=str(type(value)),
        )
    for library in LIBRARIES:
        if (library, "Env") in names:
            return sys.modules[library]
    return None


def holds_vector(value: Any) -> bool:
    """Whether it is a vector environment, or one in wrappers for single ones, as before gymnasium 1.0."""
    return any(cls.__name__ in _VECTOR_CLASSES for layer in layers(value) for cls in type(layer).__mro__)


def refuse_lanes(arguments: Mapping[str, Any]) -> None:
    """A wrapper counts its lanes itself.

    Raises:
        TraceError: they are given.
    """
    if "lanes" in arguments:
        raise TraceError("not for a wrapper, which counts its environments itself", field="lanes")


def is_tuple(space: Any) -> bool:
    """Whether a space is a Tuple, or of a subclass."""
    return any(cls.__name__ == "Tuple" for cls in type(space).__mro__)


def library_version(library: ModuleType) -> str:
    """Name and version, `gym 0.26.2`."""
    version = getattr(library, "__version__", None) or getattr(getattr(library, "version", None), "VERSION", "?")
    return f"{library.__name__} {version}"


def version_of(library: ModuleType) -> tuple[int, ...]:
    """The numbers of its version; of 1.0.0rc1 (1, 0, 0, 1)."""
    return _numbers(library_version(library).partition(" ")[2])


@lru_cache(maxsize=None)
def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def era_of(library: ModuleType) -> Era:
    """What holds for the version of a library that is there."""
    version, eras = version_of(library), _ERAS[library.__name__]
    return next((era for era in eras if version >= era.since), eras[-1])


def reset_gives_info(library: ModuleType, arguments: Mapping[str, Any]) -> bool:
    """Whether `reset` of this library returns (observation, info) when it is called with these arguments."""
    always = era_of(library).reset_info
    return bool(arguments.get("return_info")) if always is None else always


def frame_arguments(env: Any, library: ModuleType) -> Mapping[str, Any]:
    """The arguments with which `render` of an environment returns one frame.

    Raises:
        TraceError: it renders otherwise. What returns the frames since the last call would take them from others.
    """
    modes = era_of(library).frame
    mode = getattr(env, "render_mode", None)
    for known in (mode, _ANY):
        if known in modes:
            return modes[known]
    raise TraceError(
        "its frames cannot be recorded; make the environment with another render_mode",
        field="render_mode",
        expected=" or ".join(repr(known) for known in modes),
        found=repr(mode)[:80],
    )


def render(env: Any, arguments: Mapping[str, Any]) -> Any:
    """What `render` returns; an error that says why it is nothing, because a step is worth more than its frame."""
    try:
        frame = env.render(**arguments)
    except Exception as error:  # an environment may raise whatever it likes
        return TraceError("render failed", field="frames", found=f"{type(error).__name__}: {error}"[:200])
    return TraceError("render returned None", field="frames") if frame is None else frame


def reset_arguments(env: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `reset` was given, by name."""
    if not args:
        return kwargs
    try:
        return inspect.signature(env.reset).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # it has no signature, or takes them otherwise
        return kwargs


def make_arguments(library: ModuleType) -> dict[str, Any]:
    """Arguments for `make` of the library, after the id, that leave out its checker.

    That of gym uses np.bool8, which NumPy 2 does not have; gym before 0.24 has none.
    """
    name = "disable_env_checker"
    return {name: True} if name in inspect.signature(library.make).parameters else {}


def reset(env: Any, seed: int | None, options: Any = None, wants_info: bool = False) -> Any:
    """Resets an environment in its own way.

    Args:
        env: of any library and version.
        seed: None: none is given.
        options: likewise.
        wants_info: that it returns an info, where it does so only if it is asked to.

    Raises:
        TraceError: it takes no seed.
    """
    arguments = {} if options is None else {"options": options}
    try:
        parameters: Mapping[str, Any] = inspect.signature(env.unwrapped.reset).parameters
    except (TypeError, ValueError):  # of C or Cython: it says itself what it takes
        parameters = {} if hasattr(env.unwrapped, "seed") else {"seed": None}
    if wants_info and "return_info" in parameters:
        arguments["return_info"] = True
    if seed is not None:
        if "seed" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
            arguments["seed"] = seed
        elif hasattr(env.unwrapped, "seed"):
            env.seed(seed)  # before gym 0.22
        else:
            raise TraceError("the environment takes no seed", field="seed")
    return env.reset(**arguments)


def seed_samples(space: Any, seed: int) -> None:
    """Seeds what a space samples from: its own generator; in gym up to 0.10, that of all spaces."""
    (space if hasattr(space, "seed") else sys.modules["gym.spaces"]).seed(seed)


def split_reset(result: Any, gives_info: bool, space: Any) -> tuple[Any, Any]:
    """The observation and the info of what `reset` returned, None for no info.

    Environments of the old interface exist under the new libraries, and observations that are tuples exist too: a pair
    with a dict is an observation if the space says so.
    """
    is_pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping)
    if not (gives_info and is_pair):
        return result, None
    if is_tuple(space) and _contains(space, result) and not _contains(space, result[0]):
        return result, None
    return result[0], result[1]


def _contains(space: Any, value: Any) -> bool:
    """Whether a space contains a value. Those of gym before 0.26 raise for what is nothing like their own."""
    try:
        return bool(space.contains(value))
    except Exception:  # whatever NumPy makes of such a value
        return False


def split_step(result: Any, env: Any = None) -> tuple[Any, Any, Any, Any, Any]:
    """Observation, reward, terminated, truncated and info of what `step` of `env` returned, of either interface.

    Raises:
        TraceError: it is neither.
    """
    count = len(result) if isinstance(result, (tuple, list)) else None
    if count not in _STEPS:
        found = str(type(result)) if count is None else f"{count}"
        raise TraceError("step returned something else", field="step", expected="4 or 5 values", found=found)
    return _STEPS[count](env, *result)


def join_step(library: ModuleType, *values: Any) -> tuple[Any, ...]:
    """What `step` of this library returns, of the five values of today."""
    if era_of(library).reset_info:
        return values
    observation, reward, terminated, truncated, info = values
    return observation, reward, terminated or truncated, {**info, TRUNCATED: True} if truncated else info


def _split_done(env: Any, observation: Any, reward: Any, done: Any, info: Any) -> tuple[Any, Any, Any, Any, Any]:
    """`done` is an end or a time limit: the info says which, or else the limits do; None is what nobody knows."""
    if not done:
        return observation, reward, False, False, info
    if isinstance(info, Mapping) and TRUNCATED in info:
        limited = bool(info[TRUNCATED])
        return observation, reward, not limited, limited, info
    limits = filter(_is_silent_limit, layers(env))
    terminated, truncated = min(map(_flags_of, limits), key=_LIMITS.index, default=_ENDED)
    return observation, reward, terminated, truncated, info


_STEPS: dict[Any, Callable[..., tuple[Any, Any, Any, Any, Any]]] = {  # by the number of values
    5: lambda env, *result: result,
    4: _split_done,
}

# terminated, truncated. A limit that was reached hides whether the environment ended too.
_LIMITS = _TRUNCATED, _UNKNOWN, _ENDED = (None, True), (None, None), (True, False)


def layers(env: Any) -> list[Any]:
    """An environment's wrappers, the outermost first, and the environment."""
    found: list[Any] = []
    while not (env is None or any(env is layer for layer in found)):  # `env` may be anything in an environment
        found.append(env)
        try:  # not by `__dict__`: since Python 3.11, whoever looks there makes the attributes of that object slower
            env = object.__getattribute__(env, "env")
        except Exception:  # of no such attribute, or whatever a property of that name raises
            break
    return found


def resets_itself(env: Any) -> bool:
    """Whether a wrapper resets the environment within `step`."""
    return any(type(layer).__name__ in _AUTORESETS for layer in layers(env))


def _is_silent_limit(layer: Any) -> bool:
    """Whether it is a TimeLimit that says nothing in the info: one of gym up to 0.12.0."""
    mro = type(layer).__mro__
    return hasattr(mro[0], "_past_limit") and any(cls.__module__ == "gym.wrappers.time_limit" for cls in mro)


def _flags_of(limit: Any) -> tuple[bool | None, bool | None]:
    """What a TimeLimit tells of a step that ended an episode."""
    steps, most = limit._elapsed_steps, limit._max_episode_steps
    if most is not None and steps >= most:
        return _TRUNCATED
    # It, or a wrapper, resets within the step (0 steps); or time is over now, and nobody knows if it was at the step.
    return _UNKNOWN if steps == 0 or limit._past_limit() else _ENDED
