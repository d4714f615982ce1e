"""Batches of a vector environment by sub-environment: values, flags, infos, frames. Resets are in `autoreset`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import TraceError
from ..values import normalise
from .api import is_tuple, render

# Instead of the frame of a last observation, where the sub-environment is reset before anybody can render it.
GONE = TraceError(
    "no last frames of episodes: the vector environment resets in the step that ends them", field="frames"
)


def rows_of(batch: Any, space: Any, count: int, name: str) -> list[Any]:
    """The values of the sub-environments in a batch.

    Args:
        batch: an array, a dict or tuple of batches, a sequence with one value for each sub-environment.
        space: of one sub-environment; it tells a tuple of batches from a tuple of values. None: values.
        count: how many sub-environments there are.
        name: of the batch, for errors.

    Raises:
        TraceError: there are not so many.
    """
    if isinstance(batch, Mapping):
        spaces = getattr(space, "spaces", None) or {}
        columns = {key: rows_of(item, spaces.get(key), count, f"{name}.{key}") for key, item in batch.items()}
        return [{key: column[number] for key, column in columns.items()} for number in range(count)]
    if is_tuple(space) and isinstance(batch, (tuple, list)) and len(batch) == len(space.spaces):
        items = [rows_of(*pair, count, f"{name}.{index}") for index, pair in enumerate(zip(batch, space.spaces))]
        return list(zip(*items)) if items else [()] * count
    rows = list(batch if isinstance(batch, (np.ndarray, list, tuple)) else normalise(batch, (name,)))
    if len(rows) != count:
        raise TraceError("wrong number of rows", field=name, expected=f"{count}, one a lane", found=str(len(rows)))
    return rows


def flags_of(values: Any, count: int) -> list[Any]:
    """The flags of the sub-environments, as Python's bools where that is what they are."""
    return rows_of(np.asarray(normalise(values, ("step",))).tolist(), None, count, "terminated or truncated")


def frames_of(envs: Any, count: int, recorded: bool) -> list[Any]:
    """A frame of each sub-environment, or an error that says why there is none; None if they are not recorded."""
    if not recorded:
        return [None] * count
    frames = render(envs, {})
    if not isinstance(frames, TraceError):
        try:
            return rows_of(frames, None, count, "frames")
        except TraceError as error:
            frames = error
    return [frames] * count


class LaneInfos:
    """The infos of a step, by sub-environment: given as a list of dicts, or as a dict of arrays with masks."""

    def __init__(self, infos: Any, count: int) -> None:
        self.listed = infos if isinstance(infos, (list, tuple)) else None
        self.columns = _columns(infos, count) if isinstance(infos, Mapping) else []

    def __getitem__(self, number: int) -> Any:
        return _pick(self.columns, number) if self.listed is None else self.listed[number]


def _columns(infos: Mapping[Any, Any], count: int) -> list[tuple[Any, Any, Any, Any]]:
    """Key, mask, columns of a dict, and for all else what gives the value of a sub-environment."""
    masks = {f"_{key}" for key in infos}
    columns: list[tuple[Any, Any, Any, Any]] = []
    for key, value in infos.items():
        if key in masks:
            continue
        mask = infos.get(f"_{key}")
        mask = None if mask is None else np.asarray(mask).tolist()
        if isinstance(value, Mapping):
            columns.append((key, mask, _columns(value, count), None))
        else:
            has_rows = isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) > 0
            columns.append((key, mask, None, value if has_rows and len(value) == count else [value] * count))
    return columns


def _pick(columns: list[tuple[Any, Any, Any, Any]], number: int) -> dict[Any, Any]:
    return {
        key: values[number] if inner is None else _pick(inner, number)
        for key, mask, inner, values in columns
        if mask is None or mask[number]
    }
