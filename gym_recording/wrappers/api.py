"""What differs between Gyms: whose an environment is, what `reset` and `step` return.

Libraries are recognised by the names of modules and never imported before an environment of theirs is there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ..errors import TraceError
from ..spaces import LIBRARIES

_VECTOR_CLASSES = ("VectorEnv", "VecEnv")


def library_of(value: Any) -> ModuleType | None:
    """The library whose `Env` a value is an instance of; None if it is none.

    Raises:
        TraceError: it is a vector environment.
    """
    names = [(cls.__module__.partition(".")[0], cls.__name__) for cls in type(value).__mro__]
    if any(name in _VECTOR_CLASSES for _, name in names):
        raise TraceError(
            "a vector environment is recorded with TraceRecordingVectorWrapper",
            expected="a single environment",
            found=str(type(value)),
        )
    for library in LIBRARIES:
        if (library, "Env") in names:
            return sys.modules[library]
    return None


def library_version(library: ModuleType) -> str:
    """Name and version, `gym 0.26.2`."""
    version = getattr(library, "__version__", None) or getattr(getattr(library, "version", None), "VERSION", "?")
    return f"{library.__name__} {version}"


def reset_gives_info(library: ModuleType, arguments: Mapping[str, Any]) -> bool:
    """Whether `reset` of this library returns (observation, info): gymnasium; gym from 0.26, from 0.22 if asked to."""
    if library.__name__ == "gymnasium":
        return True
    version = tuple(map(int, re.findall(r"\d+", library_version(library))[:2]))
    return version >= (0, 26) or bool(arguments.get("return_info"))


def split_reset(result: Any, gives_info: bool, space: Any) -> tuple[Any, Any]:
    """The observation and the info of what `reset` returned, None for no info.

    Environments of the old interface exist under the new libraries, and observations that are tuples exist too: a pair
    with a dict is an observation if the space says so.
    """
    is_pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping)
    if not (gives_info and is_pair):
        return result, None
    if type(space).__name__ == "Tuple" and space.contains(result) and not space.contains(result[0]):
        return result, None
    return result[0], result[1]


def split_step(result: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Observation, reward, terminated, truncated and info of what `step` returned, of either interface.

    Raises:
        TraceError: it is neither.
    """
    count = len(result) if isinstance(result, (tuple, list)) else -1
    if count == 5:
        return result  # type: ignore[no-any-return]
    if count == 4:
        observation, reward, done, info = result
        truncated = bool(done) and isinstance(info, Mapping) and bool(info.get("TimeLimit.truncated", False))
        return observation, reward, bool(done) and not truncated, truncated, info
    found = str(type(result)) if count < 0 else f"{count}"
    raise TraceError("step returned something else", field="step", expected="4 or 5 values", found=found)
