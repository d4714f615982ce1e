"""What an environment is made of, as JSON, and the environment from that.

Describing is never fatal: what JSON cannot say is null. Making takes untrusted JSON. It makes only what is registered
under the recorded id by code that the user has imported, and wraps it only in classes of the library itself, which it
finds by name among those that are there: no module that a file names is ever imported.
"""

from __future__ import annotations

import re
import warnings
from contextlib import suppress
from types import ModuleType
from typing import Any, Callable, Iterator

from .errors import TraceError
from .options import json_copy
from .rebuild import installed_library
from .spaces import LIBRARIES, write_space, write_spec

_OURS = __name__.partition(".")[0]
# The wrappers that `make` itself puts around an environment: making it by its id puts them there again.
_OF_MAKE = {"TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "StepAPICompatibility", "EnvCompatibility"}
_MAX_ID = 200  # characters; the libraries match ids by a regular expression
_WRITING = {"RecordVideo"}  # wrappers that write to a path: a file must not say where
_ENTRY_POINT = re.compile(r"(gymnasium\.wrappers\.[a-z_.]{1,80}):([A-Za-z0-9]{1,80})", re.ASCII)


def describe(env: Any) -> dict[str, Any]:
    """What can be said of an environment in JSON: id, arguments, wrappers, spaces.

    What there is not is left out, and what there is and JSON cannot say is None; where that is a space, one warning
    tells which and why. Nothing is fatal.
    """
    description, lost = _describe(env)
    _warn(lost)
    return description


def describe_specs(environment: Any) -> dict[str, Any]:
    """What can be said of a dm_env environment: its class, and spaces of the values that its specs allow."""
    description: dict[str, Any] = {"entry_point": place(type(environment))}
    lost: list[str] = []
    for key, name in (("observation_space", "observation_spec"), ("action_space", "action_spec")):
        try:
            spec = getattr(environment, name)()
        except Exception:  # an environment may raise whatever it likes
            continue
        description[key] = _json(write_spec(spec, key, lost), key)
    _warn(lost)
    return description


def _warn(lost: list[str]) -> None:
    if lost:
        warnings.warn(f"not recorded: {'; '.join(lost)}. What they are can be said in `metadata`.", stacklevel=4)


def _describe(env: Any) -> tuple[dict[str, Any], list[str]]:
    description: dict[str, Any] = {}
    lost: list[str] = []
    for key, read in _READ.items():
        try:
            value = read(env)
        except Exception:  # an environment's attributes may raise whatever they like
            continue
        if value is not None:
            description[key] = _arguments(value, key) if key == "kwargs" else _json(value, key)
    for key in ("observation_space", "action_space"):
        try:
            space = getattr(env, key)
        except Exception:
            continue
        if space is not None:
            description[key] = _json(write_space(space, key, lost), key)
    return description, lost


def _json(value: Any, key: str) -> Any:
    try:
        return json_copy({key: value}, key)[key]
    except TraceError:
        return None


def _arguments(kwargs: Any, key: str) -> Any:
    """Arguments as JSON; a tuple is written as one, because constructors tell it from a list."""

    def mark(value: Any) -> Any:
        if type(value) is tuple:
            return {"__type": "tuple", "items": [mark(item) for item in value]}
        if type(value) is list:
            return [mark(item) for item in value]
        if type(value) is dict and "__type" not in value:
            return {name: mark(item) for name, item in value.items()}
        if isinstance(value, (tuple, list, dict)):
            raise TraceError(f"cannot say {type(value)} in JSON")
        return value

    try:
        return _json(mark(kwargs), key)
    except (TraceError, RecursionError):
        return None


def _read_arguments(kwargs: Any, field: str) -> dict[str, Any]:
    def read(value: Any) -> Any:
        if isinstance(value, list):
            return [read(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "__type" not in value:
            return {name: read(item) for name, item in value.items()}
        if value["__type"] == "tuple" and isinstance(value.get("items"), list):
            return tuple(read(item) for item in value["items"])
        raise TraceError("malformed", field=field, expected="arguments", found=repr(value)[:80])

    if not isinstance(kwargs, dict) or "__type" in kwargs:
        raise TraceError("malformed", field=field, expected="an object", found=repr(kwargs)[:80])
    try:
        return {name: read(value) for name, value in kwargs.items()}
    except RecursionError as error:
        raise TraceError("nested too deeply", field=field) from error


def _kwargs(env: Any) -> Any:
    spec = env.spec
    kwargs = getattr(spec, "kwargs", None)
    return getattr(spec, "_kwargs", None) if kwargs is None else kwargs  # `_kwargs`: gym before 0.22


def _entry_point(env: Any) -> str | None:
    spec = env.spec
    found = getattr(spec, "entry_point", None) or getattr(spec, "_entry_point", None)
    return found if found is None or isinstance(found, str) else place(found)


def _render_fps(env: Any) -> Any:
    return env.metadata.get("render_fps", env.metadata.get("video.frames_per_second"))  # the latter: gym before 0.22


def place(cls: Any) -> str:
    """Where a class or function is, `module:name`."""
    return f"{cls.__module__}:{cls.__qualname__}"


def _wrappers(env: Any) -> list[dict[str, Any]] | None:
    """What is around the environment that `make` gave, from the inside out; None if it was not made by an id."""
    if env.spec is None:
        return None
    known = getattr(env.spec, "additional_wrappers", None)  # gymnasium from 0.28 on
    if known is None:
        layers = [(place(cls), None) for cls in _layers(env)]
    else:
        layers = [(wrapper.entry_point, wrapper.kwargs) for wrapper in known]
    wrappers = []
    for entry_point, kwargs in layers:
        if entry_point.partition(".")[0] != _OURS:  # another recorder is no part of the environment
            kwargs = None if kwargs is None else _arguments(kwargs, "kwargs")
            wrappers.append({"entry_point": entry_point, "kwargs": kwargs})
    return wrappers or None


def _layers(env: Any) -> Iterator[type]:
    """The classes of the wrappers of an environment, from the inside out, without those that `make` has added."""
    found: list[type] = []
    while any(cls.__name__ == "Wrapper" and _library(cls) in LIBRARIES for cls in type(env).__mro__):
        found.append(type(env))
        env = env.env
    added = set(_OF_MAKE)
    for cls in reversed(found):
        if cls.__name__ in added and _library(cls) in LIBRARIES:
            added.discard(cls.__name__)  # another one is the user's
        else:
            yield cls


def _library(cls: type) -> str:
    return cls.__module__.partition(".")[0]


_READ: dict[str, Callable[[Any], Any]] = {
    "id": lambda env: env.spec.id,
    "entry_point": _entry_point,
    "kwargs": _kwargs,
    "max_episode_steps": lambda env: env.spec.max_episode_steps,
    "wrappers": _wrappers,
    "render_fps": _render_fps,
}


# ---- and back


def make_env(env: dict[str, Any], library: Any, file: str, kwargs: dict[str, Any]) -> Any:
    """The environment that a manifest describes: `env.id`, made anew with its arguments, in its wrappers.

    Args:
        env: of a manifest, untrusted.
        library: of the manifest's writer, untrusted; gymnasium or gym, whichever it names, is preferred.
        file: the manifest, for error messages.
        kwargs: arguments of `make`, which go before the recorded ones.

    Raises:
        TraceError: what is recorded does not suffice, or is not registered here, or is malformed.
        MissingPackageError: neither gymnasium nor gym is installed.
    """
    try:
        return _make(env, installed_library("making an environment", str(library).partition(" ")[0]), kwargs)
    except TraceError as error:
        error.file = error.file or file
        raise


def _make(env: dict[str, Any], library: ModuleType, kwargs: dict[str, Any]) -> Any:
    name, limit, recorded = env.get("id"), env.get("max_episode_steps"), env.get("kwargs", {})
    if not isinstance(name, str) or ":" in name or len(name) > _MAX_ID:  # `module:id` would import the module
        why = "the environment was not made by a registered id; make it as its author does"
        raise TraceError(why, field="env.id", found=repr(name)[:80])
    if limit is not None and (type(limit) is not int or limit < 1):
        raise TraceError("malformed", field="env.max_episode_steps", expected="steps", found=repr(limit)[:80])
    if recorded is None and not kwargs:
        raise TraceError("its arguments could not be written; give them to `make_env`", field="env.kwargs")
    recorded = {} if recorded is None else _read_arguments(recorded, "env.kwargs")
    wrappers = list(_checked_wrappers(env.get("wrappers", []), library))
    try:
        registered: Any = library.spec(name)
    except Exception as error:
        where = env.get("entry_point")
        raise TraceError(
            f"{library.__name__} knows no such environment; import the package that registers it, and try again",
            field="env.id",
            found=f"{name[:80]}, which was {where[:80]}" if isinstance(where, str) else name[:80],
        ) from error
    usual = getattr(registered, "kwargs", None) or getattr(registered, "_kwargs", None) or {}
    arguments = {key: value for key, value in recorded.items() if key not in usual or usual[key] != value}
    if limit is not None and limit != registered.max_episode_steps:
        arguments["max_episode_steps"] = limit
    made = None
    try:
        made = library.make(name, **{**arguments, **kwargs})
        for cls, given in wrappers:
            made = cls(made, **given)
    except Exception as error:  # whatever constructors raise
        if made is not None:
            with suppress(Exception):
                made.close()
        raise TraceError(
            f"{library.__name__} cannot make {name[:80]} of it: {str(error)[:300]}", field="env"
        ) from error
    now = _describe(made)[0]
    spaces = [key for key in ("observation_space", "action_space") if env.get(key) is not None]
    changed = [key for key in spaces if now.get(key) != env[key]]
    if changed:
        warnings.warn(f"the environment is not as it was when it was recorded: another {changed}", stacklevel=4)
    return made


def _checked_wrappers(wrappers: Any, library: ModuleType) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The classes of recorded wrappers and their arguments."""
    if not isinstance(wrappers, list):
        raise TraceError("malformed", field="env.wrappers", expected="a list", found=repr(wrappers)[:80])
    for i, wrapper in enumerate(wrappers):
        field = f"env.wrappers[{i}]"
        if not isinstance(wrapper, dict) or not isinstance(wrapper.get("entry_point"), str):
            raise TraceError("malformed", field=field, expected="an entry_point", found=repr(wrapper)[:80])
        entry_point, given = wrapper["entry_point"], wrapper.get("kwargs")
        match = _ENTRY_POINT.fullmatch(entry_point)
        cls = getattr(library.wrappers, match[2], None) if match and library.__name__ == "gymnasium" else None
        usable = isinstance(cls, type) and issubclass(cls, library.Wrapper) and cls.__name__ not in _WRITING
        usable = usable and match is not None and cls.__module__ == match[1]  # another module has another of that name
        if not usable or not isinstance(given, dict):
            raise TraceError(
                "this wrapper is not made anew; make the environment by `env.id`, and wrap it yourself",
                field=field,
                expected="a wrapper of the installed gymnasium, whose arguments are recorded, and that writes no files",
                found=entry_point[:80] + (" without its arguments" if given is None else ""),
            )
        yield cls, _read_arguments(given, f"{field}.kwargs")
