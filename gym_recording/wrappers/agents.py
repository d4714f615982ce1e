"""The recorders of the agents of one environment, all in one directory.

Every agent has one of its own, made when it first observes, with its name in the metadata. What fails for one agent is
raised after it was done for all. Knows agents by their names, and nothing of when they act.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Callable, Hashable, Iterator

import numpy as np

from ..environment import describe, place
from ..errors import ClosedError, TraceError
from ..recording import TraceRecording
from .adapter import flush_if_due


class Agents:
    """The recorders of the agents of one environment.

    Args:
        env: the environment.
        library: its name and version.
        directory, kwargs: as for `TraceRecording`.

    Attributes:
        recordings: `TraceRecording`s by agent.
    """

    def __init__(
        self, env: Any, directory: str | os.PathLike[str] | None, library: str, kwargs: dict[str, Any]
    ) -> None:
        with TraceRecording(directory, **kwargs) as trial:  # says now what is wrong with the arguments
            self.directory = trial.directory
        self.kwargs = {"library": library, **kwargs}
        self.env = env
        self.recordings: dict[Hashable, TraceRecording] = {}
        self.began: dict[str, Any] = {}
        self.warned = False
        self.closed = False

    def add_reset(self, agent: Hashable, observation: Any, reward: Any, info: Any) -> None:
        """The first observation of an agent's episode, and what came with it."""
        recording = self.recordings.get(agent)
        if recording is None:
            metadata = {**(self.kwargs.get("metadata") or {}), "agent": agent if isinstance(agent, int) else str(agent)}
            recording = TraceRecording(
                self.directory, **{"env": self._describe(agent), **self.kwargs, "metadata": metadata}
            )
            self.recordings[agent] = recording
        if reward is not None and np.any(reward):  # by what the others did, before its first action
            info = {**info, "reward": reward} if isinstance(info, Mapping) else {"reward": reward}
            if not self.warned and not self.kwargs.get("infos"):
                self.warned = True
                warnings.warn(
                    f"a reward that {agent!r} got before its first action is not recorded; it is with infos=True",
                    stacklevel=4,
                )
        recording.add_reset(observation, info=info, **self.began)

    def _describe(self, agent: Hashable) -> dict[str, Any]:
        about: dict[str, Any] = {"spec": SimpleNamespace(entry_point=place(type(self.env.unwrapped)))}
        for key in ("observation_space", "action_space"):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of environments that have only a dict of spaces
                    about[key] = getattr(self.env, key)(agent)
            except Exception:  # an environment may raise whatever it likes
                about[key] = None
        return describe(SimpleNamespace(**about))

    def is_running(self, agent: Hashable) -> bool:
        """Whether the agent has an episode that has begun."""
        recording = self.recordings.get(agent)
        return recording is not None and recording.lane.running

    def is_acting(self, agent: Hashable) -> bool:
        """Whether its last step was begun and is not finished."""
        return self.is_running(agent) and self.recordings[agent].lane.dirty

    def begin(self, agent: Hashable, action: Any) -> None:
        """Copies the action of the agent's next step."""
        self.recordings[agent].lane.begin(action)

    def finish(self, agent: Hashable, observation: Any, reward: Any, *flags_and_info: Any) -> None:
        """What the agent's step led to: also `terminated`, `truncated`, and the info."""
        recording = self.recordings[agent]
        recording.lane.finish(observation, reward, *flags_and_info)
        flush_if_due(recording)

    def take_back(self, agents: Any) -> None:
        """Forgets that steps were begun, because they were not made."""
        for agent in agents:
            self.recordings[agent].lane.take_back()

    def for_each(self, agents: Any, act: Callable[[Any], None]) -> None:
        """Does it for all agents, also if it fails for one; then raises the first error."""
        failed: Exception | None = None
        for agent in list(agents):
            try:
                act(agent)
            except (TraceError, OSError) as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def end(self, agent: Hashable) -> None:
        """Ends the agent's episode, if one runs."""
        if self.is_running(agent):
            self.recordings[agent].end_episode()

    @contextmanager
    def resetting(self, seed: Any, options: Any, end: Callable[[Any], None]) -> Iterator[None]:
        """Ends all episodes by `end`, and raises what failed after the environment was reset."""
        self.check_open()
        failed = None
        try:
            self.for_each(self.recordings, end)
        except (TraceError, OSError) as error:  # nothing is kept from being reset because recording fails
            failed = error
        yield
        self.began = {"seed": seed, "options": options}
        if failed is not None:
            raise failed

    def check_open(self) -> None:
        """Raises `ClosedError` if it is closed."""
        if self.closed:
            raise ClosedError("the recorder is closed; wrap the environment anew to record more")

    def close(self, end: Callable[[Any], None]) -> None:
        """Closes all recorders, after `end` for each."""

        def close(agent: Hashable) -> None:
            try:
                end(agent)
            finally:
                self.recordings[agent].close()

        self.closed = True
        self.for_each(self.recordings, close)
