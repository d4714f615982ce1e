"""What can be stored: the allow-list of dtypes, and any value brought to its canonical form.

Canonical means: a Python bool, int, float, complex, str or None; a NumPy scalar; a little-endian ndarray of an allowed
dtype; a list, tuple or mapping of such. Nothing is cast: only byte order and container types change.
Used at the door (recording) and for dtypes named in files (reading). Nothing here knows of columns, JSON or files.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Tuple

import numpy as np

from .errors import TraceError, missing_package

Path = Tuple[Any, ...]  # of a value: the member of an episode, keys, numbers of items

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
EXACT_IN_FLOAT64 = 2**53  # every int up to here is a float64 exactly
MAX_INT_BITS = (
    4096  # beyond: refused. Readers in other languages, and Python's own int limit (4,300 digits), stop there
)
MAX_DEPTH = 32  # of containers in one value; the JSON of such a value stays below the readers' depth limit
MAX_NDIM = 32  # of an array in a file: NumPy 1 has no more. A row has one less
MAX_DTYPE_TEXT = 8192  # characters

# Dtypes that NumPy does not have itself, named as in ml_dtypes, and those whose bytes carry them.
VIEWS: dict[str, str] = {
    "bfloat16": "uint16",
    "float8_e3m4": "uint8",
    "float8_e4m3": "uint8",
    "float8_e4m3b11fnuz": "uint8",
    "float8_e4m3fn": "uint8",
    "float8_e4m3fnuz": "uint8",
    "float8_e5m2": "uint8",
    "float8_e5m2fnuz": "uint8",
    "float8_e8m0fnu": "uint8",
}
_PLAIN = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
)
# Long names as `str(dtype)` gives them, and the array-protocol codes with their byte order.
_PLAIN_TEXT = re.compile(
    r"(?:{})|[<>|=]?(?:\?|b1|[iu][1248]|f[248]|c8|c16|(?:S[1-9][0-9]{{0,8}}|U[1-9][0-9]{{0,7}}))".format(
        "|".join(sorted(_PLAIN))
    )
)

_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def path_text(path: Path) -> str:
    """`("observations", "image", 3)` as people write it: `observations.image[3]`."""
    text = ""
    for part in path:
        text += f"[{part!r}]" if not isinstance(part, str) else f".{part}" if text else part
    return text


# ---- dtypes


@lru_cache(maxsize=1024)
def storable_dtype(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The little-endian form of a dtype that may be stored, or None."""
    if dtype.names is None:
        return dtype.newbyteorder("<") if _allowed(dtype) else None
    little: np.dtype[Any] = np.dtype((np.void, dtype.newbyteorder("<")))  # record arrays become structured ones
    try:
        text = dtype_text(little)
        text.encode("latin1")  # the encoding of .npy 1.0
        return little if parse_dtype(text) == little else None
    except ValueError:  # a TraceError is one; overlapping fields have no description
        return None


def _allowed(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype, in either byte order, is on the list; a structured one if all its fields are NumPy's and are."""
    if dtype.names is not None:
        fields = [field[0].base for field in (dtype.fields or {}).values()]
        titles = any(len(field) > 2 for field in (dtype.fields or {}).values())
        return bool(fields) and not titles and all(_allowed(base) and view_name(base) is None for base in fields)
    return bool(dtype.itemsize) if dtype.kind in "SU" else dtype.name in _PLAIN or view_name(dtype) is not None


def view_name(dtype: np.dtype[Any]) -> str | None:
    """The key of `VIEWS` for a dtype of ml_dtypes, None for all others."""
    return dtype.name if dtype.name in VIEWS and dtype.type.__module__.startswith("ml_dtypes") else None


def dtype_text(dtype: np.dtype[Any]) -> str:
    """NumPy's description of a storable dtype: `float32`, `<U5`, `[('x', '<f4'), ('y', '<i8', (2,))]`."""
    if dtype.names is not None:
        return repr(dtype.descr)
    return str(dtype.str if dtype.kind in "SU" else dtype.name)


@lru_cache(maxsize=1024)
def parse_dtype(text: str) -> np.dtype[Any]:
    """The dtype that a file names; only what `storable_dtype` allows, in either byte order.

    Raises:
        TraceError: it is not on the allow-list, or is no dtype at all.
    """
    if len(text) <= MAX_DTYPE_TEXT:
        if _PLAIN_TEXT.fullmatch(text):
            dtype = np.dtype(text)
            return dtype if text[0] in "<>|=" else dtype.newbyteorder("<")
        if text[:1] in ("[", "{"):
            try:
                dtype = _build_dtype(ast.literal_eval(text))
                dtype.descr  # noqa: B018 (fields that overlap have none)
            except (ValueError, TypeError, SyntaxError, KeyError, MemoryError, RecursionError, OverflowError):
                dtype = np.dtype(object)
            if dtype.names and _allowed(dtype):
                return dtype
    raise TraceError(
        "the dtype is not allowed", expected="a number, bool, text or structured dtype", found=repr(text[:80])
    )


def _build_dtype(description: Any) -> Any:
    """A structured dtype from NumPy's description of it: the list of fields, or the dict with offsets."""
    if isinstance(description, str):
        return parse_dtype(description)
    if isinstance(description, tuple):  # (base, shape): a field that is an array
        base, shape = description
        return _build_field(base, shape)
    if isinstance(description, dict):
        formats = [_build_dtype(item) for item in description["formats"]]
        layout = {"names": description["names"], "formats": formats, "offsets": description["offsets"]}
        return np.dtype({**layout, "itemsize": description["itemsize"]})  # type: ignore[call-overload]
    names: list[str] = []
    formats, offsets, offset = [], [], 0
    for name, base, *shape in description:
        if name == "" and re.fullmatch(r"\|?V[0-9]{1,9}", str(base)):  # padding between fields
            offset += int(str(base).lstrip("|")[1:])
            continue
        field = _build_field(base, *shape)
        names.append(name)
        formats.append(field)
        offsets.append(offset)
        offset += field.itemsize
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": offset})


def _build_field(base: Any, shape: Any = ()) -> Any:
    if not isinstance(shape, tuple) or not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError("the shape of a field is a tuple of lengths")
    return np.dtype((_build_dtype(base), shape)) if shape else _build_dtype(base)


def viewed_dtype(view: str) -> np.dtype[Any]:
    """The dtype of ml_dtypes that `view` names.

    Raises:
        MissingPackageError: ml_dtypes is not installed.
    """
    try:
        import ml_dtypes
    except ImportError as error:
        raise missing_package("ml_dtypes", f"the dtype {view}", "'gym_recording[dtypes]'") from error
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, view))
    return dtype


def array_bytes(dtype: np.dtype[Any], shape: Sequence[int]) -> int:
    """Bytes of an array, in Python ints, which do not overflow."""
    size = int(dtype.itemsize)
    for length in shape:
        size *= int(length)
    return size


# ---- values


def normalise(value: Any, path: Path) -> Any:
    """`value` in canonical form: not copied, containers not entered.

    Raises:
        TraceError: it cannot be stored; the message names `path`.
    """
    if value is None or value.__class__ in (bool, float, complex):
        return value
    if isinstance(value, np.generic):
        if isinstance(value, np.str_):
            return _text(str(value), path)
        if isinstance(value, np.bytes_) and value.endswith(b"\0"):
            raise TraceError("cannot store bytes that end with NUL: NumPy would lose it", field=path_text(path))
        if isinstance(value, (np.void, np.bytes_)):
            return _array(np.asarray(value), path)
        if value.dtype.name in _PLAIN or view_name(value.dtype) is not None:
            return value
        raise _unstorable(value, path, f"dtype {value.dtype}")
    if isinstance(value, int):
        if value.bit_length() > MAX_INT_BITS:
            raise TraceError(
                "cannot store an int of so many bits", field=path_text(path), expected=f"at most {MAX_INT_BITS}"
            )
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return _text(str.__str__(value), path)
    if isinstance(value, np.ndarray):
        return _array(value, path)
    if isinstance(value, (list, tuple, Mapping)):
        return value
    if hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        return _array(_foreign_array(value, path), path)
    raise _unstorable(value, path, str(type(value)))


def _text(text: str, path: Path) -> str:
    """Text as it is. JSON cannot tell a surrogate pair in two characters from the one character that it stands for."""
    if not text.isascii() and _SURROGATE_PAIR.search(text):
        raise TraceError("cannot store text with a surrogate pair as two characters", field=path_text(path))
    return text


def _unstorable(value: Any, path: Path, what: str) -> TraceError:
    return TraceError(f"cannot store {what}", field=path_text(path))


def _array(array: Any, path: Path) -> Any:
    """A storable array, little-endian, as a base-class ndarray; one without dimensions becomes a scalar."""
    if isinstance(array, np.ma.MaskedArray):
        raise TraceError("cannot store a masked array; fill it first", field=path_text(path))
    dtype = storable_dtype(array.dtype)
    if dtype is None:
        raise _unstorable(array, path, f"an array of dtype {array.dtype}")
    if array.ndim >= MAX_NDIM:
        raise TraceError(
            "too many dimensions", field=path_text(path), expected=f"at most {MAX_NDIM - 1}", found=str(array.ndim)
        )
    array = np.asarray(array)
    if array.dtype.type is np.record:
        array = array.view(np.dtype((np.void, array.dtype)))  # the same bytes
    if array.dtype != dtype:
        array = array.astype(dtype)  # only the byte order differs: values are swapped, not cast
    if array.ndim == 0 and (dtype.name in _PLAIN or view_name(dtype) is not None):
        return array[()]
    return array


def _foreign_array(value: Any, path: Path) -> Any:
    """Tensors of PyTorch, JAX, TensorFlow and whatever else offers `__array__` or DLPack, on whichever device."""
    try:
        for method in ("detach", "cpu"):  # torch: tensors with gradients or on a device do not convert otherwise
            if hasattr(value, method):
                value = getattr(value, method)()
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            name = str(value.dtype).rpartition(".")[2]
            if name in VIEWS:
                carrier = torch.int16 if VIEWS[name] == "uint16" else torch.uint8
                return value.contiguous().view(carrier).numpy().view(viewed_dtype(name))
            return value.resolve_conj().resolve_neg().numpy()
        return np.asarray(value) if hasattr(value, "__array__") else np.from_dlpack(value)
    except TraceError:
        raise
    except Exception as error:  # whatever a foreign conversion raises, the caller learns which value it was
        raise TraceError(f"cannot store {type(value)}: {error}", field=path_text(path)) from error


def normalise_key(key: Any, path: Path) -> Any:
    """A key of a mapping: str, int, float, bool or None.

    Raises:
        TraceError: any other key.
    """
    if isinstance(key, str):
        return _text(str.__str__(key), path)
    if key is None or isinstance(key, (bool, np.bool_)):
        return key if key is None else bool(key)
    if isinstance(key, (int, np.integer)) and int(key).bit_length() <= MAX_INT_BITS:
        return int(key)
    if isinstance(key, (float, np.floating)) and float(key) == key and abs(key) != float("inf"):
        return float(key)
    raise TraceError(
        f"cannot store the key {key!r} of a mapping", field=path_text(path), expected="str, int, float, bool or None"
    )


def key_mark(key: Any) -> Any:
    """What tells keys apart that are equal and not the same: 1, 1.0 and True, 0.0 and -0.0. None for text."""
    return None if isinstance(key, str) else repr(key)


def snapshot(value: Any, path: Path, depth: int = 0) -> Any:
    """A copy of `value` in canonical form that nobody else can change: arrays copied, containers rebuilt.

    Raises:
        TraceError: a part of it cannot be stored (the message has its path), or it nests deeper than `MAX_DEPTH`.
    """
    value = normalise(value, path)
    if isinstance(value, np.ndarray):
        return value.copy()
    if not isinstance(value, (list, tuple, Mapping)):
        return value
    if depth == MAX_DEPTH:
        raise TraceError(f"cannot store a value nested deeper than {MAX_DEPTH}", field=path_text(path[:2]))
    if isinstance(value, Mapping):
        return {normalise_key(k, path): snapshot(v, (*path, k), depth + 1) for k, v in value.items()}
    items = [snapshot(item, (*path, i), depth + 1) for i, item in enumerate(value)]
    return items if isinstance(value, list) else tuple(items)


def own(value: Any) -> Any:
    """A recorded value of one step that the caller may write to."""
    if isinstance(value, (np.ndarray, np.void)):
        return value.copy()
    if isinstance(value, Mapping):
        return {key: own(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(own, value))
    return value


def is_picture(value: Any, rows: int = 0) -> bool:
    """Whether it is what a frame can be: an array (height, width) or (height, width, channels), uint8 and not empty.

    Args:
        value: anything.
        rows: how many dimensions come before.
    """
    return isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim - rows in (2, 3) and value.size > 0
