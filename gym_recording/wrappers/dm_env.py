"""`TraceRecordingDmEnvWrapper`: records a dm_env environment.

A `TimeStep` is taken apart: its observation and reward are those of the step, LAST with a discount of 0 is terminated,
LAST with another is truncated, and all else that it has, the discount above all, stands in the infos.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..environment import describe_specs
from ..errors import TraceError
from ..memory import Place
from ..recording import TraceRecording
from .adapter import Adapter, flush_if_due, library, refuse_arguments

__all__ = ["TraceRecordingDmEnvWrapper"]

_PARTS = ("step_type", "observation", "reward")  # of a TimeStep; what else there is goes to the infos


class TraceRecordingDmEnvWrapper(Adapter):
    """Records every action and `TimeStep` of a `dm_env.Environment`, and passes everything on unchanged.

    An episode goes from one FIRST to the next, or to `close`. The action of a `step` that begins an episode, after LAST
    or before any `reset`, is ignored by the environment, and is no step. What follows LAST and is no FIRST is an
    episode without a first observation. `infos[t]["discount"]` is the discount that came with `observations[t]`; with
    `infos=False` it is not recorded. All other attributes are the environment's.

    Args:
        environment: a `dm_env.Environment`, or what has its methods.
        directory, kwargs: as for `TraceRecordingWrapper`, but that `infos` are recorded if not said otherwise.

    Attributes:
        directory: str, absolute.
        recording: the `TraceRecording`.
        environment: the environment.

    Raises:
        MissingPackageError: dm_env is not installed.
        TraceError, OSError: as `TraceRecordingWrapper`.
    """

    _package, _install, _base = "dm_env", "dm-env", "Environment"

    def __init__(self, environment: Any, directory: Place | None = None, **kwargs: Any) -> None:
        if not all(callable(getattr(environment, name, None)) for name in ("reset", "step", "observation_spec")):
            expected, found = "a dm_env.Environment", repr(environment)[:80]
            raise TraceError("no environment to wrap", expected=expected, found=found)
        refuse_arguments(kwargs)
        self.environment = environment
        about = {
            "infos": True,
            "env": describe_specs(environment),
            "library": f"dm_env {getattr(library('dm_env', 'dm-env'), '__version__', '?')}",
        }
        self.recording = TraceRecording(directory, **{**about, **kwargs})
        self.directory = self.recording.directory
        self._is_over = False

    def reset(self) -> Any:
        """Resets the environment, which begins an episode, returns what the environment returned.

        Raises:
            ClosedError, TraceError, OSError: as `step`.
        """
        failed = self._end()
        timestep = self.environment.reset()
        self._is_over = False
        self._begin(timestep)
        if failed is not None:
            raise failed
        return timestep

    def step(self, action: Any) -> Any:
        """Steps the environment, records the step, returns what the environment returned.

        Raises:
            ClosedError: the recorder is closed; the environment was not stepped.
            TraceError: the action, observation or reward cannot be stored; the message has its path.
            OSError: a flush was due and failed; nothing recorded is lost.
        """
        recording, lane = self.recording, self.recording.lane
        failed: Exception | None = self._end() if self._is_over else None
        try:
            lane.begin(action)  # before the environment can overwrite it
        except TraceError as error:
            lane.take_back()
            if not self._is_over:
                raise
            refused: Exception | None = error  # it is no step, if the environment begins anew
        else:
            refused = None
        timestep = self.environment.step(action)
        self._is_over = bool(timestep.last())
        if timestep.first():
            lane.take_back()
            failed = failed or self._end()  # nobody has reset it
            self._begin(timestep)
        else:
            flags = _flags(timestep.discount) if self._is_over else (False, False)
            lane.finish(timestep.observation, timestep.reward, *flags, _info(timestep))
            flush_if_due(recording)
            failed = refused or failed
        if failed is not None:
            raise failed
        return timestep

    def _end(self) -> Exception | None:
        """Ends what runs; nothing is kept from being reset, or recorded, because writing fails."""
        try:
            self.recording.end_episode()
        except OSError as error:
            return error
        return None

    def _begin(self, timestep: Any) -> None:
        info = _info(timestep)
        if timestep.reward is not None:
            info["reward"] = timestep.reward
        self.recording.add_reset(timestep.observation, info=info)

    def close(self) -> Any:
        """Writes everything and closes the environment.

        Raises:
            OSError: not everything could be written. The environment is closed all the same; the data is kept, and
                closing again tries again.
        """
        try:
            self.recording.close()
        finally:
            self.environment.close()

    def observation_spec(self) -> Any:
        return self.environment.observation_spec()

    def action_spec(self) -> Any:
        return self.environment.action_spec()

    def reward_spec(self) -> Any:
        return self.environment.reward_spec()

    def discount_spec(self) -> Any:
        return self.environment.discount_spec()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "environment" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.environment, name)


def _info(timestep: Any) -> dict[str, Any]:
    """What a TimeStep has beside observation and reward."""
    parts = timestep._asdict()
    return {name: part for name, part in parts.items() if name not in _PARTS and part is not None}


def _flags(discount: Any) -> tuple[bool | None, bool | None]:
    """Terminated and truncated at LAST: whether all discounts are zero. Unknown if there is none."""
    if discount is None:
        return None, None
    terminated = _is_zero(discount)
    return terminated, not terminated


def _is_zero(discount: Any) -> bool:
    if isinstance(discount, dict):
        return all(map(_is_zero, discount.values()))
    if isinstance(discount, (list, tuple)):
        return all(map(_is_zero, discount))
    return not np.any(discount)
