"""What a reader of any language must print of a recording: one JSON object, made here by the reader of Python.

    python tests/dumping.py [--skip] DIRECTORY

    {"episodes": [{"observations": V, "actions": V, "rewards": V, "terminated": bool or null, "truncated": bool or null,
                   "ended_by": text or null, "seed": "decimal" or null, "options": V or null, "started": text or null,
                   "lane": int or null, "headless": bool, "gaps": [int], "timestamps": V or null,
                   "infos": [V of a dict, for each row of the observations] or null,
                   "frames": V of an array, or of a list of an array or null for each row, or null}],
     "errors": [text]}

V is one of

    {"array": {"dtype": "<f4", "shape": [2, 3], "hex": "…"}}     of a NumPy scalar: shape []; "view" if it has one
    {"dict": [[V, V], …]}   {"tuple": [V, …]}   {"list": [V, …]}     of columns or of single values: the place tells
    {"int": "-12"}   {"float": "000000000000f03f"}   {"text": "…"}   {"bool": true}   {"null": true}

- `dtype` is NumPy's type string, little-endian (`<f4`, `|u1`, `|b1`, `<U5`, `|S5`), or of a structure the text that a
  recording of version 2 has. `hex` has the bytes in C order, little-endian; of a structure, as they are in the blob.
- Text without dimensions loses the NULs at its end, as NumPy's scalars do; one of nothing else keeps one: `<U1`.
- A bool is 00 or, where the blob has any other byte, 01.
- A float is its 8 little-endian bytes.
- Without `--skip` the first problem goes to stderr, the exit code is 1, and nothing else is printed; `errors` is empty.
  With it, a batch that has a problem is left out, and `errors` has a text for each.
"""

import json
import struct
import sys

import numpy as np

from gym_recording import DictColumns, TraceError, TraceRecordingReader, TupleColumns
from gym_recording.values import VIEWS


def dump(directory, skip=False):
    """What must be printed, as an object. Raises `TraceError` where a reader must complain."""
    reader = TraceRecordingReader(directory, on_error="skip" if skip else "raise")
    return {"episodes": [episode(one) for one in reader], "errors": list(map(str, reader.errors))}


def episode(one):
    return {
        "observations": value(one.observations),
        "actions": value(one.actions),
        "rewards": value(one.rewards),
        "terminated": one.terminated,
        "truncated": one.truncated,
        "ended_by": one.ended_by,
        "seed": None if one.seed is None else str(one.seed),
        "options": None if one.options is None else value(one.options),
        "started": one.started,
        "lane": one.lane,
        "headless": one.headless,
        "gaps": list(one.gaps),
        "timestamps": None if one.timestamps is None else value(one.timestamps),
        "infos": None if one.infos is None else list(map(value, one.infos)),
        "frames": None if one.frames is None else value(one.frames),
    }


def value(item):
    if isinstance(item, (np.ndarray, np.generic)):
        return {"array": array(np.asarray(item))}
    if isinstance(item, (dict, DictColumns)):
        return {"dict": [[value(key), value(inner)] for key, inner in item.items()]}
    if isinstance(item, (tuple, TupleColumns)):
        return {"tuple": [value(inner) for inner in (item if isinstance(item, tuple) else item.columns)]}
    if isinstance(item, list):
        return {"list": list(map(value, item))}
    if item is None:
        return {"null": True}
    if isinstance(item, bool):
        return {"bool": item}
    if isinstance(item, int):
        return {"int": str(item)}
    return {"float": struct.pack("<d", item).hex()} if isinstance(item, float) else {"text": item}


def array(item):
    dtype, shape = item.dtype, list(item.shape)
    if dtype.names is not None:
        return {"dtype": repr(dtype.descr), "shape": shape, "hex": item.tobytes().hex()}
    if dtype.kind not in "SU" and dtype.name in VIEWS:
        carrier = np.dtype(VIEWS[dtype.name]).newbyteorder("<")
        return {"dtype": carrier.str, "view": dtype.name, "shape": shape, "hex": item.tobytes().hex()}
    if dtype.kind == "b":
        item = item.view("u1") != 0
    little = item.astype(dtype.newbyteorder("<"))
    data = little.tobytes()
    if dtype.kind in "SU" and not shape:
        width = 4 if dtype.kind == "U" else 1
        count = max(1, -(-len(data.rstrip(b"\0")) // width))
        data = data[: width * count].ljust(width * count, b"\0")
        return {"dtype": f"{'<U' if width == 4 else '|S'}{count}", "shape": [], "hex": data.hex()}
    return {"dtype": little.dtype.str, "shape": shape, "hex": data.hex()}


if __name__ == "__main__":
    try:
        print(json.dumps(dump(sys.argv[-1], "--skip" in sys.argv[1:-1])))
    except TraceError as error:
        sys.exit(str(error))
