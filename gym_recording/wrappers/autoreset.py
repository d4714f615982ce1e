"""What differs between vector environments: who resets when, and where the last observation is.

Facts stand in `_FACTS`, by library and version; what a single vector environment says of itself goes before them. How
batches are taken apart is in `lanes`. No library is imported.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from copy import copy
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ..errors import TraceError
from .api import frame_arguments, library_version, version_of

NEXT_STEP, SAME_STEP, DISABLED = "nextstep", "samestep", "disabled"
UNSAID = "unsaid"  # SAME_STEP if an end of an episode shows it, else NEXT_STEP is assumed

FINAL_INFO = "final_info"
# Where the last observation of an episode is, if the observation itself is the next one's. Whichever is there counts.
FINAL_OBSERVATIONS = ("final_obs", "final_observation", "terminal_observation")
STATISTICS = "episode"  # of the episode that has ended; RecordEpisodeStatistics puts it beside `final_info`
FINAL_KEYS = (*FINAL_OBSERVATIONS, FINAL_INFO)
# Classes whose wrappers record: the class of the environments, and what its module calls the wrapper.
WRAPPERS = {"VectorEnv": ("VectorWrapper", "VectorEnvWrapper"), "VecEnv": ("VecEnvWrapper",)}
# Arguments of `make_vec`, which stand in the spec among those of the environment.
_OF_MAKE_VEC = ("num_envs", "vectorization_mode", "vector_kwargs", "wrappers", "max_episode_steps")
# What makes single environments a vector; there an int seed is `seed + i` for sub-environment i.
_LIBRARYS_OWN = ("SyncVectorEnv", "AsyncVectorEnv")


class Facts(NamedTuple):
    """How the vector environments of a library behave.

    Attributes:
        autoreset: when a sub-environment is reset whose episode has ended: with the step that ended it, with the next,
            whose action is ignored, or not at all.
        masks: whether `reset` takes `options["reset_mask"]`.
        adds_truncated: whether it adds `TimeLimit.truncated` to the infos of the environments.
        by_column: whether actions of Dict and Tuple spaces come as a dict or tuple of batches; else one for each.
        by_attribute: whether seeds and options of a reset, and the infos that it gives, are attributes.
        renders: whether `render` gives a frame of each sub-environment.
        keeps_plans: whether a `reset` leaves those resets to come that were due with the next step.
    """

    autoreset: str
    masks: bool = False
    adds_truncated: bool = False
    by_column: bool = True
    by_attribute: bool = False
    renders: bool = False
    keeps_plans: bool = False


# By library, from which version on; the first that fits.
_FACTS: dict[str, list[tuple[tuple[int, ...], Facts]]] = {
    "gymnasium": [
        ((1, 1), Facts(UNSAID, masks=True, renders=True)),
        ((1, 0), Facts(UNSAID, renders=True)),
        ((0,), Facts(SAME_STEP)),
    ],
    "gym": [
        ((0, 26), Facts(SAME_STEP)),
        ((0, 24), Facts(SAME_STEP, adds_truncated=True)),
        ((0, 22), Facts(SAME_STEP)),
        ((0,), Facts(SAME_STEP, by_column=False)),
    ],
    "stable_baselines3": [((2, 2), Facts(SAME_STEP, adds_truncated=True, by_column=False, by_attribute=True))],
}


def vector_library_of(value: Any) -> ModuleType | None:
    """The module with the class of vector environments that a value is an instance of; None if it is none."""
    for cls in type(value).__mro__:
        if cls.__name__ in WRAPPERS and cls.__module__.partition(".")[0] in _FACTS:
            return sys.modules[cls.__module__]
    return None


def facts_of(envs: Any, library: ModuleType) -> Facts:
    """What is to be known of a vector environment of that library.

    Raises:
        TraceError: the library is too old.
    """
    version, eras = version_of(library), _FACTS[library.__name__]
    facts = next((facts for first, facts in eras if version >= first), None)
    if facts is None:
        oldest = ".".join(map(str, eras[-1][0]))
        raise TraceError(
            "too old", field=library.__name__, expected=f"{oldest} or later", found=library_version(library)
        )
    if facts.autoreset == UNSAID:
        mode = (getattr(envs, "metadata", None) or {}).get("autoreset_mode")
        said = str(getattr(mode, "value", mode)).replace("_", "").lower()
        if said not in (NEXT_STEP, SAME_STEP, DISABLED):
            said = NEXT_STEP if _is_of(envs, _LIBRARYS_OWN) else UNSAID  # those of 1.0, which say nothing
        # Tried with 1.0 to 1.4: workers that have no shared memory do not hear of it.
        kept = getattr(base_of(envs), "shared_memory", True) is False
        facts = facts._replace(autoreset=said, keeps_plans=kept)
    return facts


def check_renders(envs: Any, library: ModuleType, facts: Facts) -> None:
    """Whether frames of the sub-environments can be recorded.

    Raises:
        TraceError: they cannot.
    """
    if not facts.renders:
        found = library_version(library)
        raise TraceError("it gives no frames", field="frames", expected="gymnasium 1.0 or later", found=found)
    frame_arguments(envs, library)


def conclude(autoreset: str, infos: list[Any]) -> str:
    """When a vector environment resets that does not say so, from the infos of episodes that end; it warns.

    Args:
        autoreset: what was concluded before.
        infos: of at least one sub-environment.
    """
    found = SAME_STEP if any(final_observation(info) is not None for info in infos) else NEXT_STEP
    says = _SAYS.get((autoreset, found))
    if says is not None:
        warnings.warn(
            f"the vector environment does not say when it resets; {says}. Let its metadata have autoreset_mode, a "
            "gymnasium.vector.AutoresetMode",
            stacklevel=6,
        )
    return found


def warn_of_last_steps() -> bool:
    """Says that last observations are not given; True."""
    warnings.warn(
        "the last steps of episodes are not recorded, because the vector environment does not give the last "
        f"observation: let each sub-environment put it into its info, as {FINAL_OBSERVATIONS[-1]!r}",
        stacklevel=5,
    )
    return True


# Of conclusions, from what to what, those of which somebody should know.
_SAYS = {
    (UNSAID, NEXT_STEP): "as no last observation is in its info, it is taken to do so with the next step",
    (NEXT_STEP, SAME_STEP): "it does so with the last step, and the episodes before, taken otherwise, are wrong",
}


def package_of(library: ModuleType) -> ModuleType:
    """The library that a module belongs to."""
    return sys.modules[library.__name__.partition(".")[0]]


def _is_of(envs: Any, names: tuple[str, ...]) -> bool:
    return any(cls.__name__ in names for cls in type(base_of(envs)).__mro__)


def one_of(envs: Any, observation_space: Any, action_space: Any) -> Any:
    """What `describe` reads, of one sub-environment."""
    first = next(iter(getattr(base_of(envs), "envs", None) or ()), None)
    spec = getattr(first, "spec", None)
    if spec is None and getattr(envs, "spec", None) is not None:
        spec = copy(envs.spec)
        spec.kwargs = {key: value for key, value in (spec.kwargs or {}).items() if key not in _OF_MAKE_VEC}
    metadata = getattr(envs, "metadata", None)
    return SimpleNamespace(spec=spec, metadata=metadata, observation_space=observation_space, action_space=action_space)


def base_of(envs: Any) -> Any:
    """The vector environment below all wrappers."""
    return getattr(envs, "unwrapped", envs)


def final_observation(info: Mapping[str, Any]) -> Any:
    """The last observation of an episode whose sub-environment is reset already; None if it is not given."""
    return next((info[key] for key in FINAL_OBSERVATIONS if info.get(key) is not None), None)


def seeds_of(envs: Any, seed: Any, count: int) -> list[Any]:
    """The seed of each sub-environment, by what `reset` or `seed` was given."""
    if seed is None or isinstance(seed, (int, np.integer)):
        adds = _is_of(envs, _LIBRARYS_OWN)
        return [seed + number if adds and seed is not None else seed for number in range(count)]
    return list(seed)
