"""A space of the installed library from JSON, every byte of which is untrusted.

Every number is checked, and what the space will cost is counted, before a constructor is called; what that has made is
compared with what was asked for, because old libraries lack arguments. FORMAT.md says what the JSON means; `spaces`
writes it. Opens no file, evaluates nothing, and imports nothing that a file names.
"""

from __future__ import annotations

import inspect
import math
from collections import OrderedDict
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, Callable

import numpy as np

from .errors import MissingPackageError, TraceError
from .spaces import DTYPES, LIBRARIES
from .values import MAX_DEPTH

MAX_COST = 2**26  # bytes of all bounds of a space; those of a Box for float32 frames of 1920 x 1080 x 3 are 62 million
_SPACE_COST = 20_000  # bytes that any space counts for: making the object and copying it takes 0.1 ms
_CHARACTER_COST = 200  # bytes of a character of a charset: a text, and its places in a set and a dict
_MAX_FIELD = 200  # characters of a path: it is made for each space, and keys may be as long as the file
_TEXTS = ("inf", "-inf", "nan")  # numbers that strict JSON lacks


def installed_library(purpose: str, preferred: str = "gymnasium") -> ModuleType:
    """The library that is installed, gymnasium or gym; the preferred one if both are.

    Raises:
        MissingPackageError: neither is.
    """
    for name in sorted(LIBRARIES, key=lambda name: name != preferred):
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    raise MissingPackageError(f"{purpose} needs gymnasium or gym: pip install gymnasium")


def read_space(value: Any, field: str, file: str) -> Any:
    """The space that untrusted JSON describes, of gymnasium if that is installed, else of gym.

    Args:
        value: as `write_space` gives it.
        field: where it stands, for error messages.
        file: where it stands, for error messages.

    Raises:
        TraceError: it is malformed, or larger than any real space, or the installed library has no such space.
        MissingPackageError: neither library is installed.
    """
    library = installed_library("rebuilding a space")
    try:
        return _Builder(library).space(value, field)
    except TraceError as error:
        error.file = error.file or file
        raise


def _malformed(field: str, expected: str, found: Any) -> TraceError:
    return TraceError("malformed", field=field[:_MAX_FIELD], expected=expected, found=repr(found)[:80])


class _Builder:
    """Builds one space of a library, and everything in it, for at most `MAX_COST`."""

    def __init__(self, library: ModuleType) -> None:
        self.name = f"{library.__name__} {getattr(library, '__version__', '')}".strip()
        self.spaces = import_module(f"{library.__name__}.spaces")  # old gyms do not import it by themselves
        self.left = MAX_COST
        self.depth = 0

    def charge(self, cost: int, field: str) -> None:
        self.left -= cost
        if self.left < 0:
            raise TraceError(
                "larger than a space may be", field=field[:_MAX_FIELD], expected=f"at most {MAX_COST} bytes"
            )

    def space(self, value: Any, field: str) -> Any:
        field = field[:_MAX_FIELD]
        if value is None:
            raise TraceError("this space is unknown: its writer could not write it", field=field[:_MAX_FIELD])
        if not isinstance(value, dict):
            raise _malformed(field, "an object", value)
        kind = value.get("type")
        if not isinstance(kind, str) or kind not in _READERS:
            raise _malformed(f"{field}.type", f"one of {', '.join(_READERS)}", kind)
        if self.depth >= MAX_DEPTH:
            raise TraceError("nested too deeply", field=field[:_MAX_FIELD], expected=f"at most {MAX_DEPTH} levels")
        self.charge(_SPACE_COST, field)
        self.depth += 1
        space = _READERS[kind](self, value, field)
        self.depth -= 1
        return space

    def make(self, field: str, kind: str, **arguments: Any) -> Any:
        """The space of these arguments, all of them: also those that the constructor of an old library lacks."""
        cls = getattr(self.spaces, kind, None)
        if cls is None:
            raise self.lacks(field, kind)
        known = list(inspect.signature(cls.__init__).parameters)  # that of a generic class is no help before Python 3.9
        if kind == "MultiDiscrete" and "nvec" not in known:  # gym before 0.9.6: one dimension, the first and the last
            if arguments["nvec"].ndim != 1 or arguments["dtype"] != np.int64:
                raise self.lacks(field, f"{kind} with this shape and dtype")
            pairs = zip(arguments["start"].tolist(), (arguments["start"] + arguments["nvec"] - 1).tolist())
            arguments = {known[1]: list(pairs)}
        try:
            space = cls(**{name: argument for name, argument in arguments.items() if name in known})
        except Exception as error:  # libraries refuse by asserting, and by whatever NumPy raises
            raise TraceError(
                f"{self.name} makes no {kind} of it: {str(error)[:300]}", field=field[:_MAX_FIELD]
            ) from error
        if not hasattr(space, "dtype") and "low" in arguments:
            del arguments["dtype"]  # gym before 0.10: that of the bounds
        for name in ("dtype", "low", "high", "n", "nvec", "start", "stack"):
            if name in arguments and not _alike(getattr(space, name, None), arguments[name]):
                raise self.lacks(field, f"{kind} with this {name}")
        return space

    def lacks(self, field: str, what: str) -> TraceError:
        return TraceError(f"the installed {self.name} has no {what}", field=field[:_MAX_FIELD])

    # ---- checked parts

    def integer(self, value: Any, field: str, least: int = 0) -> int:
        if type(value) is not int or not least <= value < 2**64:
            raise _malformed(field, f"an integer from {least} on", value)
        return value

    def dtype(self, value: dict[str, Any], field: str) -> Any:
        name = value.get("dtype")
        if not isinstance(name, str) or name not in DTYPES:
            raise _malformed(f"{field}.dtype", "the name of a dtype", name)
        return np.dtype(name)

    def integer_dtype(self, value: dict[str, Any], field: str) -> Any:
        dtype = self.dtype({"dtype": "int64", **value}, field)
        if dtype.kind not in "iu":
            raise _malformed(f"{field}.dtype", "an integer dtype", dtype.name)
        return dtype

    def array(self, value: Any, shape: tuple[int, ...], dtype: Any, field: str) -> Any:
        """One number for the whole shape, or nested lists of it."""
        if not isinstance(value, list):
            return np.full(shape, _number(value, dtype, field), dtype)
        level = [value]
        for length in shape:
            if not all(type(item) is list and len(item) == length for item in level):
                raise _malformed(field, f"a number, or nested lists of shape {list(shape)}"[:80], value[:5])
            level = [number for item in level for number in item]
        return np.array([_number(number, dtype, field) for number in level], dtype).reshape(shape)

    def lengths(self, value: Any, each: int, field: str) -> tuple[int, ...]:
        """A shape whose elements take `each` bytes."""
        if not isinstance(value, list) or len(value) > MAX_DEPTH:
            raise _malformed(field, f"a list of at most {MAX_DEPTH} lengths", value)
        shape = tuple(self.integer(length, f"{field}[{i}]") for i, length in enumerate(value))
        self.charge(each * math.prod(length or 1 for length in shape), field)  # the zeros must not hide the others
        return shape

    # ---- one for each type

    def box(self, value: dict[str, Any], field: str) -> Any:
        dtype = self.dtype(value, field)
        each = 2 * (dtype.itemsize + 1)  # two bounds, and whether they are some
        shape = self.lengths(value.get("shape"), each, f"{field}.shape")
        bounds = {side: self.array(value.get(side), shape, dtype, f"{field}.{side}") for side in ("low", "high")}
        space = self.make(field, "Box", **bounds, dtype=dtype)
        for side in ("bounded_below", "bounded_above"):
            if side in value and hasattr(space, side):
                setattr(space, side, self.array(value[side], shape, np.dtype(bool), f"{field}.{side}"))
        return space

    def discrete(self, value: dict[str, Any], field: str) -> Any:
        n, dtype = self.integer(value.get("n"), f"{field}.n"), self.integer_dtype(value, field)
        start = self.integer(value.get("start", 0), f"{field}.start", -(2**63))
        _number(n, dtype, f"{field}.n")
        _number(start, dtype, f"{field}.start")
        return self.make(field, "Discrete", n=n, start=start, dtype=dtype)

    def multi_discrete(self, value: dict[str, Any], field: str) -> Any:
        nvec, dtype = value.get("nvec"), self.integer_dtype(value, field)
        shape: list[int] = []
        inner = nvec
        while isinstance(inner, list) and len(shape) <= MAX_DEPTH:
            shape.append(len(inner))
            inner = inner[0] if inner else None
        if not shape:
            raise _malformed(f"{field}.nvec", "a list", nvec)
        self.lengths(shape, 2 * dtype.itemsize, f"{field}.nvec")
        counts = self.array(nvec, tuple(shape), dtype, f"{field}.nvec")
        start = self.array(value.get("start", 0), tuple(shape), dtype, f"{field}.start")
        return self.make(field, "MultiDiscrete", nvec=counts, start=start, dtype=dtype)

    def multi_binary(self, value: dict[str, Any], field: str) -> Any:
        n = value.get("n")
        if isinstance(n, list):
            self.lengths(n, 1, f"{field}.n")
        else:
            self.charge(self.integer(n, f"{field}.n"), f"{field}.n")
        return self.make(field, "MultiBinary", n=n)

    def text(self, value: dict[str, Any], field: str) -> Any:
        charset = value.get("charset")
        if not isinstance(charset, str):
            raise _malformed(f"{field}.charset", "a text", charset)
        self.charge(_CHARACTER_COST * len(charset), field)
        lengths = {name: self.integer(value.get(name), f"{field}.{name}") for name in ("min_length", "max_length")}
        return self.make(field, "Text", **lengths, charset=charset)

    def mapping(self, value: dict[str, Any], field: str) -> Any:
        spaces = value.get("spaces")
        if not isinstance(spaces, dict):
            raise _malformed(f"{field}.spaces", "an object", spaces)
        # Ordered: a plain dict would be sorted.
        built = OrderedDict(
            (key, self.space(item, f"{field}.spaces.{key[:_MAX_FIELD]}")) for key, item in spaces.items()
        )
        return self.make(field, "Dict", spaces=built)

    def several(self, value: dict[str, Any], field: str) -> Any:
        spaces = value.get("spaces")
        if not isinstance(spaces, list):
            raise _malformed(f"{field}.spaces", "a list", spaces)
        built = tuple(self.space(item, f"{field}.spaces[{i}]") for i, item in enumerate(spaces))
        return self.make(field, value["type"], spaces=built)

    def graph(self, value: dict[str, Any], field: str) -> Any:
        before = self.left
        parts = {"node_space": self.space(value.get("node_space"), f"{field}.node_space"), "edge_space": None}
        if "edge_space" in value:
            parts["edge_space"] = self.space(value["edge_space"], f"{field}.edge_space")
        self.charge(before - self.left, field)  # it makes a copy of each for batches
        return self.make(field, "Graph", **parts)

    def sequence(self, value: dict[str, Any], field: str) -> Any:
        stack = value.get("stack", False)
        if type(stack) is not bool:
            raise _malformed(f"{field}.stack", "true or false", stack)
        before = self.left
        space = self.space(value.get("space"), f"{field}.space")
        if stack:
            self.charge(before - self.left, field)  # as a graph
        return self.make(field, "Sequence", space=space, stack=stack)


_READERS: dict[str, Callable[[_Builder, dict[str, Any], str], Any]] = {
    "Box": _Builder.box,
    "Discrete": _Builder.discrete,
    "MultiDiscrete": _Builder.multi_discrete,
    "MultiBinary": _Builder.multi_binary,
    "Text": _Builder.text,
    "Dict": _Builder.mapping,
    "Tuple": _Builder.several,
    "OneOf": _Builder.several,
    "Graph": _Builder.graph,
    "Sequence": _Builder.sequence,
}


@lru_cache(maxsize=None)
def _limits(dtype: Any) -> tuple[Any, Any]:
    """The least and the largest finite number of a dtype, as Python numbers. Kept: NumPy takes 1 us to say it."""
    info: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    convert = float if dtype.kind == "f" else int
    return convert(info.min), convert(info.max)


def _number(value: Any, dtype: Any, field: str) -> Any:
    """A number of JSON that is one of the dtype, as a Python number."""
    kind, given = dtype.kind, type(value)
    if kind == "f" and given in (int, float, str):
        if given is str:
            if value in _TEXTS:
                return float(value)
        elif abs(value) <= _limits(dtype)[1]:
            return float(value)
    elif kind == "b" and (given is bool or (given is int and value in (0, 1))):
        return bool(value)
    elif kind in "iu" and given is int:
        least, largest = _limits(dtype)
        if least <= value <= largest:
            return value
    raise _malformed(field, f"a number of dtype {dtype}", value)


def _alike(found: Any, wanted: Any) -> bool:
    """Whether a space has what was asked for; what it lacks is zero, false, or the dtype of all old libraries."""
    if isinstance(wanted, np.dtype):
        return np.dtype(np.int64 if found is None else found) == wanted
    if isinstance(wanted, np.ndarray):
        found = np.zeros_like(wanted) if found is None else np.asarray(found)
        same_kind = found.dtype == wanted.dtype and found.shape == wanted.shape
        return bool(same_kind and found.tobytes() == wanted.tobytes())
    if isinstance(wanted, list):
        return list(np.atleast_1d(found)) == wanted
    return bool((0 if found is None else found) == wanted)
