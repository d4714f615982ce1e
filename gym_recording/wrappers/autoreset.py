"""What differs between vector environments: who resets when, where the last observation is, how rows are batched.

Facts stand in `_FACTS`, by library and version; what a single vector environment says of itself goes before them. A
batch is taken apart into the rows of the sub-environments, infos into one dict for each. No library is imported.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ..errors import TraceError
from ..values import normalise
from .api import library_version

NEXT_STEP, SAME_STEP, DISABLED = "nextstep", "samestep", "disabled"
UNSAID = "unsaid"  # NEXT_STEP, unless the first end of an episode shows that it is SAME_STEP

TRUNCATED = "TimeLimit.truncated"
FINAL_INFO = "final_info"
# Where the last observation of an episode is, if the observation itself is the next one's. Whichever is there counts.
FINAL_OBSERVATIONS = ("final_obs", "final_observation", "terminal_observation")
FINAL_KEYS = (*FINAL_OBSERVATIONS, FINAL_INFO)
# Classes whose wrappers record: the class of the environments, and what its module calls the wrapper.
WRAPPERS = {"VectorEnv": ("VectorWrapper", "VectorEnvWrapper"), "VecEnv": ("VecEnvWrapper",)}
_ADDS_TO_SEEDS = ("SyncVectorEnv", "AsyncVectorEnv")  # an int seed is `seed + i` for sub-environment i


class Facts(NamedTuple):
    """How the vector environments of a library behave.

    Attributes:
        autoreset: when a sub-environment is reset whose episode has ended: with the step that ended it, with the next,
            whose action is ignored, or not at all.
        masks: whether `reset` takes `options["reset_mask"]`.
        adds_truncated: whether it adds `TimeLimit.truncated` to the infos of the environments.
        by_column: whether actions of Dict and Tuple spaces come as a dict or tuple of batches; else one for each.
        by_attribute: whether seeds and options of a reset, and the infos that it gives, are attributes.
        keeps_plans: whether a `reset` leaves those resets to come that were due with the next step.
    """

    autoreset: str
    masks: bool = False
    adds_truncated: bool = False
    by_column: bool = True
    by_attribute: bool = False
    keeps_plans: bool = False


# By library, from which version on; the first that fits.
_FACTS: dict[str, list[tuple[tuple[int, int], Facts]]] = {
    "gymnasium": [((1, 1), Facts(UNSAID, masks=True)), ((1, 0), Facts(UNSAID)), ((0, 0), Facts(SAME_STEP))],
    "gym": [
        ((0, 26), Facts(SAME_STEP)),
        ((0, 24), Facts(SAME_STEP, adds_truncated=True)),
        ((0, 22), Facts(SAME_STEP)),
        ((0, 0), Facts(SAME_STEP, by_column=False)),
    ],
    "stable_baselines3": [((0, 0), Facts(SAME_STEP, adds_truncated=True, by_column=False, by_attribute=True))],
}


def vector_library_of(value: Any) -> ModuleType | None:
    """The module with the class of vector environments that a value is an instance of; None if it is none."""
    for cls in type(value).__mro__:
        if cls.__name__ in WRAPPERS and cls.__module__.partition(".")[0] in _FACTS:
            return sys.modules[cls.__module__]
    return None


def facts_of(envs: Any, library: ModuleType) -> Facts:
    """What is to be known of a vector environment of that library."""
    version = tuple(map(int, re.findall(r"\d+", library_version(library))[-3:]))[:2]
    facts = next(facts for first, facts in _FACTS[library.__name__] if version >= first)
    if facts.autoreset == UNSAID:
        mode = (getattr(envs, "metadata", None) or {}).get("autoreset_mode")
        said = str(getattr(mode, "value", mode)).replace("_", "").lower()
        facts = facts._replace(autoreset=said if said in (NEXT_STEP, SAME_STEP, DISABLED) else UNSAID)
        # Tried with 1.0 to 1.4: workers that have no shared memory do not hear of it.
        kept = getattr(base_of(envs), "shared_memory", True) is False
        facts = facts._replace(keeps_plans=kept, autoreset=NEXT_STEP if version < (1, 1) else facts.autoreset)
    return facts


def package_of(library: ModuleType) -> ModuleType:
    """The library that a module belongs to."""
    return sys.modules[library.__name__.partition(".")[0]]


def one_of(envs: Any, observation_space: Any, action_space: Any) -> Any:
    """What `describe` reads, of one sub-environment."""
    spec = getattr(envs, "spec", None)
    if spec is None:
        first = next(iter(getattr(base_of(envs), "envs", None) or ()), None)
        spec = getattr(first, "spec", None)
    return SimpleNamespace(spec=spec, observation_space=observation_space, action_space=action_space)


def base_of(envs: Any) -> Any:
    """The vector environment below all wrappers."""
    return getattr(envs, "unwrapped", envs)


def final_observation(info: Mapping[str, Any]) -> Any:
    """The last observation of an episode whose sub-environment is reset already; None if it is not given."""
    return next((info[key] for key in FINAL_OBSERVATIONS if info.get(key) is not None), None)


def seeds_of(envs: Any, seed: Any, count: int) -> list[Any]:
    """The seed of each sub-environment, by what `reset` or `seed` was given."""
    if seed is None or isinstance(seed, (int, np.integer)):
        adds = any(cls.__name__ in _ADDS_TO_SEEDS for cls in type(base_of(envs)).__mro__)
        return [seed + number if adds and seed is not None else seed for number in range(count)]
    return list(seed)


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
    if type(space).__name__ == "Tuple" and isinstance(batch, (tuple, list)) and len(batch) == len(space.spaces):
        items = [rows_of(*pair, count, f"{name}.{index}") for index, pair in enumerate(zip(batch, space.spaces))]
        return list(zip(*items)) if items else [()] * count
    rows = list(batch if isinstance(batch, (np.ndarray, list, tuple)) else normalise(batch, (name,)))
    if len(rows) != count:
        raise TraceError("wrong number of rows", field=name, expected=f"{count}, one a lane", found=str(len(rows)))
    return rows


def flags_of(values: Any, count: int) -> list[Any]:
    """The flags of the sub-environments, as Python's bools where that is what they are."""
    return rows_of(np.asarray(normalise(values, ("step",))).tolist(), None, count, "terminated or truncated")


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
            has_rows = hasattr(value, "__getitem__") and not isinstance(value, (str, bytes)) and np.ndim(value) > 0
            columns.append((key, mask, None, value if has_rows and len(value) == count else [value] * count))
    return columns


def _pick(columns: list[tuple[Any, Any, Any, Any]], number: int) -> dict[Any, Any]:
    return {
        key: values[number] if inner is None else _pick(inner, number)
        for key, mask, inner, values in columns
        if mask is None or mask[number]
    }
