"""A space as JSON.

It goes by the names of classes and of their attributes, so that it takes the spaces of every version of gym and
gymnasium, and imports neither. Nothing here is fatal: what has no form in JSON is None, with a sentence that says why.
What the JSON means is said in FORMAT.md; `rebuild` reads it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Callable

import numpy as np

from .errors import TraceError
from .values import MAX_DEPTH

LIBRARIES = ("gymnasium", "gym")
DTYPES = {f"{kind}{8 * size}" for kind in ("int", "uint") for size in (1, 2, 4, 8)}
DTYPES |= {"bool", "float16", "float32", "float64"}
_MAX_BOUNDS = 10**6  # numbers that are written one by one: the manifest, which has them, is written again and again


def write_space(space: Any, field: str, lost: list[str], depth: int = 0) -> dict[str, Any] | None:
    """A space as JSON; None for what cannot be, here and inside of it, and why is appended to `lost`.

    Args:
        space: of any version of gym or gymnasium. A subclass of one of their spaces is written as that one, with its
            own name as `class`.
        field: where it is, for `lost`.
        lost: gets a sentence for each space that cannot be written.
        depth: how many spaces it is in.
    """
    known = [cls for cls in type(space).__mro__ if cls.__name__ in _WRITERS and _root(cls) in LIBRARIES]
    if not known or depth >= MAX_DEPTH:
        why = "nested too deeply" if known else f"a {type(space).__qualname__}, no space of gym or gymnasium"
        lost.append(f"{field} is {why}")
        return None

    def inner(space: Any, part: str) -> dict[str, Any] | None:
        return write_space(space, f"{field}.{part}", lost, depth + 1)

    try:
        members = _WRITERS[known[0].__name__](space, inner)
    except Exception as error:  # the attributes of a space may raise whatever they like
        lost.append(f"{field} cannot be written: {str(error)[:300]}")
        return None
    written = {"type": known[0].__name__, **members}
    if type(space) is not known[0]:
        written["class"] = f"{type(space).__module__}:{type(space).__qualname__}"
    return written


def write_spec(spec: Any, field: str, lost: list[str], depth: int = 0) -> dict[str, Any] | None:
    """The space of the values that a spec of dm_env allows, as JSON; None as `write_space`.

    An array is a `Box`, without bounds if the spec has none, a `DiscreteArray` a `Discrete`, a dict a `Dict`, a list or
    tuple a `Tuple`.

    Args:
        spec: of dm_env, or nested ones.
        field: as for `write_space`.
        lost: as for `write_space`.
        depth: how many dicts, lists and tuples it is in.
    """

    def inner(spec: Any, part: str) -> dict[str, Any] | None:
        return write_spec(spec, f"{field}.{part}", lost, depth + 1)

    names = [cls.__name__ for cls in type(spec).__mro__]
    try:
        if depth >= MAX_DEPTH:
            raise TraceError("nested too deeply")
        if isinstance(spec, (Mapping, list, tuple)):
            kind, members = ("Dict" if isinstance(spec, Mapping) else "Tuple"), SimpleNamespace(spaces=spec)
        elif "DiscreteArray" in names:
            kind, members = "Discrete", SimpleNamespace(n=spec.num_values, dtype=spec.dtype)
        elif "Array" in names:
            kind, members = "Box", _box_of(spec, "BoundedArray" in names)
        else:
            raise TraceError(f"a {type(spec).__qualname__}, no spec of dm_env")
        return {"type": kind, **_WRITERS[kind](members, inner)}
    except Exception as error:  # the attributes of a spec may raise whatever they like
        lost.append(f"{field} cannot be written: {str(error)[:300]}")
        return None


def _box_of(spec: Any, is_bounded: bool) -> SimpleNamespace:
    """What a Box with the values of an array spec has."""
    dtype = np.dtype(_dtype_name(spec.dtype))
    if is_bounded:
        limits = spec.minimum, spec.maximum
    elif dtype.kind in "iu":
        limits = np.iinfo(dtype).min, np.iinfo(dtype).max
    else:
        limits = (-np.inf, np.inf) if dtype.kind == "f" else (False, True)
    low, high = (np.full(spec.shape, limit, dtype) for limit in limits)
    return SimpleNamespace(low=low, high=high, dtype=dtype, bounded_below=is_bounded, bounded_above=is_bounded)


def _root(cls: type) -> str:
    return cls.__module__.partition(".")[0]


Inner = Callable[[Any, str], Any]


def _write_box(space: Any, inner: Inner) -> dict[str, Any]:
    low, high = np.asarray(space.low), np.asarray(space.high)
    dtype = getattr(space, "dtype", None)  # gym before 0.10 has none
    dtype = np.result_type(low, high) if dtype is None else np.dtype(dtype)
    members = {"shape": list(low.shape), "dtype": _dtype_name(dtype), "low": _numbers(low), "high": _numbers(high)}
    for side in ("bounded_below", "bounded_above"):  # an infinity of integers: the bound does not show it
        bounded = np.asarray(getattr(space, side, True))
        if dtype.kind in "iu" and not bounded.all():
            members[side] = _numbers(np.broadcast_to(bounded, low.shape))
    return members


def _write_discrete(space: Any, inner: Inner) -> dict[str, Any]:
    members = {"n": _int(space.n), "start": _int(getattr(space, "start", 0))}
    return {**members, **_unusual_dtype(getattr(space, "dtype", None))}


def _write_multi_discrete(space: Any, inner: Inner) -> dict[str, Any]:
    if hasattr(space, "nvec"):
        nvec, start = np.asarray(space.nvec), np.asarray(getattr(space, "start", 0))
    else:  # gym before 0.9.6
        start = np.asarray(space.low)
        nvec = np.asarray(space.high) - start + 1
    members = {"nvec": nvec.tolist(), **({"start": start.tolist()} if start.any() else {})}
    dtype = getattr(space, "dtype", None)  # gym before 0.10 has none
    return {**members, **_unusual_dtype(nvec.dtype if dtype is None else dtype)}


def _write_text(space: Any, inner: Inner) -> dict[str, Any]:
    characters = list(space.character_list)
    if any(len(character) != 1 for character in characters):
        raise TraceError("its character set has elements of several characters")
    return {
        "min_length": _int(space.min_length),
        "max_length": _int(space.max_length),
        "charset": "".join(characters),
    }


def _write_dict(space: Any, inner: Inner) -> dict[str, Any]:
    spaces = dict(space.spaces)
    if not all(isinstance(key, str) for key in spaces):
        raise TraceError("a key of it is no text")
    return {"spaces": {str(key): inner(item, f"spaces.{key}") for key, item in spaces.items()}}


def _write_graph(space: Any, inner: Inner) -> dict[str, Any]:
    nodes = {"node_space": inner(space.node_space, "node_space")}
    return nodes if space.edge_space is None else {**nodes, "edge_space": inner(space.edge_space, "edge_space")}


def _write_sequence(space: Any, inner: Inner) -> dict[str, Any]:
    stack = {"stack": True} if getattr(space, "stack", False) else {}
    return {"space": inner(space.feature_space, "space"), **stack}


def _write_spaces(space: Any, inner: Inner) -> dict[str, Any]:
    return {"spaces": [inner(item, f"spaces[{i}]") for i, item in enumerate(space.spaces)]}


_WRITERS: dict[str, Callable[[Any, Inner], dict[str, Any]]] = {
    "Box": _write_box,
    "Discrete": _write_discrete,
    "MultiDiscrete": _write_multi_discrete,
    "MultiBinary": lambda space, inner: {"n": np.asarray(space.n).tolist()},
    "Text": _write_text,
    "Dict": _write_dict,
    "Tuple": _write_spaces,
    "OneOf": _write_spaces,
    "Graph": _write_graph,
    "Sequence": _write_sequence,
}


def _dtype_name(dtype: Any) -> str:
    name: str = np.dtype(dtype).name
    if name not in DTYPES:
        raise TraceError("dtype has no form in JSON", found=name)
    return name


def _unusual_dtype(dtype: Any) -> dict[str, str]:
    return {} if dtype is None or np.dtype(dtype) == np.int64 else {"dtype": _dtype_name(dtype)}


def _int(value: Any) -> int:
    number = int(value)
    if number != value or number.bit_length() > 64:
        raise TraceError("not an integer of 64 bits", found=repr(value)[:80])
    return number


def _numbers(array: Any) -> Any:
    """One number if all are the same, bit for bit, or there are none; nested lists otherwise."""
    array = np.ascontiguousarray(array)
    if not array.size:
        return 0
    first = array.reshape(-1)[:1]
    if array.tobytes() == first.tobytes() * array.size:
        return _json_number(first[0].item())
    if array.size > _MAX_BOUNDS:
        raise TraceError("too many numbers", expected=f"at most {_MAX_BOUNDS}, or all alike", found=str(array.size))
    lists = array.tolist()
    return lists if array.dtype.kind != "f" or np.isfinite(array).all() else _json_lists(lists)


def _json_lists(value: Any) -> Any:
    return [_json_lists(item) for item in value] if isinstance(value, list) else _json_number(value)


def _json_number(value: Any) -> Any:
    return value if math.isfinite(value) else repr(value)
