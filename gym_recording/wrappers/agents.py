"""The recorders of the agents of one environment, all in one directory.

Every agent has one of its own, made when it first observes, with its name in the metadata. What fails for one agent is
kept until it was done for all, and the environment has done what it was asked to; then `surface` raises it. Knows
agents by their names, and nothing of when they act.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Callable, Hashable, Iterator

import numpy as np

from ..environment import describe, place
from ..errors import ClosedError, TraceError
from ..memory import Place
from ..recording import TraceRecording
from .adapter import flush_if_due, refuse_arguments

_NEVER = float("inf")


class Agents:
    """The recorders of the agents of one environment.

    Args:
        env: the environment.
        library: its name and version.
        directory, kwargs: as for `TraceRecording`, but for `lanes`.

    Attributes:
        recordings: `TraceRecording`s by agent.
        begun: agents whose episode has begun, also if its first observation could not be recorded.
        acting: agents whose step the environment has made, and whose results are not there yet.
        deadline: when all recordings are flushed, also those of agents that have died, by `time.monotonic`.
        failed: the first error that nobody was told of.
    """

    def __init__(self, env: Any, directory: Place | None, library: str, kwargs: dict[str, Any]) -> None:
        refuse_arguments(kwargs)
        with TraceRecording(directory, **kwargs) as trial:  # says now what is wrong with the arguments
            self.directory = trial.directory
        self.kwargs = {"library": library, **kwargs}
        self.env = env
        self.recordings: dict[Hashable, TraceRecording] = {}
        self.begun: set[Hashable] = set()
        self.acting: set[Hashable] = set()
        self.began: dict[str, Any] = {}
        self.deadline = _NEVER
        self.failed: Exception | None = None
        self.warned = False
        self.closed = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, deadline=0.0)  # another process may have another clock

    def add_reset(self, agent: Hashable, observation: Any, reward: Any, info: Any) -> None:
        """The first observation of an agent's episode, and what came with it."""
        self.begun.add(agent)
        recording = self._recording(agent)
        if reward is not None and np.any(reward):  # by what the others did, before its first action
            info = {**info, "reward": reward} if isinstance(info, Mapping) else {"reward": reward}
            if not self.warned and not self.kwargs.get("infos"):
                self.warned = True
                warnings.warn(
                    f"a reward that {agent!r} got before its first action is not recorded; it is with infos=True",
                    stacklevel=4,
                )
        recording.add_reset(observation, info=info, **self.began)

    def _recording(self, agent: Hashable) -> TraceRecording:
        """The agent's recorder, made if it is not there."""
        recording = self.recordings.get(agent)
        if recording is None:
            metadata = {**(self.kwargs.get("metadata") or {}), "agent": agent if isinstance(agent, int) else str(agent)}
            recording = TraceRecording(
                self.directory, **{"env": self._describe(agent), **self.kwargs, "metadata": metadata}
            )
            self.recordings[agent] = recording
            self.deadline = min(self.deadline, recording.deadline)
        return recording

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

    def begin(self, agent: Hashable, action: Any) -> None:
        """Copies the action of the agent's next step; where its recorder cannot be made, that is kept as an error.

        Raises:
            TraceError: the action cannot be stored.
        """
        self.begun.add(agent)
        try:
            recording = self._recording(agent)
        except OSError as error:
            self.failed = self.failed or error
        else:
            recording.lane.begin(action)

    def finish(self, agent: Hashable, observation: Any, reward: Any, *flags_and_info: Any) -> None:
        """What the agent's step led to: also `terminated`, `truncated`, and the info."""
        self.acting.discard(agent)  # first: what is interrupted here is not finished again
        recording = self.recordings.get(agent)
        if recording is not None:
            recording.lane.finish(observation, reward, *flags_and_info)
            flush_if_due(recording)

    def take_back(self, agents: Any) -> None:
        """Forgets that steps were begun, because they were not made."""
        for agent in agents:
            if agent in self.recordings:
                self.recordings[agent].lane.take_back()

    def abandon(self, agent: Hashable) -> None:
        """Forgets the step that was begun; the next one says that it may have been made."""
        self.acting.discard(agent)
        recording = self.recordings.get(agent)
        if recording is not None and recording.lane.dirty and not recording.lane.closed:
            recording.lane.recover()

    def for_each(self, agents: Any, act: Callable[[Any], None]) -> None:
        """Does it for all agents, also if it fails for one; `surface` raises the first error."""
        for agent in list(agents):
            try:
                act(agent)
            except (TraceError, OSError) as error:
                self.failed = self.failed or error

    def surface(self) -> None:
        """Raises the first error since it was called last."""
        failed, self.failed = self.failed, None
        if failed is not None:
            raise failed

    def flush_if_due(self) -> None:
        """Writes what all agents have, also those that do not act any more, when that is due."""
        if time.monotonic() >= self.deadline:
            self.deadline = _NEVER
            self.for_each(self.recordings, self._flush)

    def _flush(self, agent: Hashable) -> None:
        recording = self.recordings[agent]
        if recording.deadline < _NEVER:  # else time is no reason
            recording.deadline = 0.0
            try:
                recording.flush_if_due()
            finally:
                self.deadline = min(self.deadline, recording.deadline)
                if recording.lane.dirty:  # what runs is written when this step is finished
                    recording.deadline = 0.0

    def end(self, agent: Hashable) -> None:
        """Ends the agent's episode, if one runs."""
        self.begun.discard(agent)
        self.acting.discard(agent)
        recording = self.recordings.get(agent)
        if recording is not None and recording.lane.running:
            recording.end_episode()

    @contextmanager
    def resetting(self, seed: Any, options: Any, end: Callable[[Any], None]) -> Iterator[None]:
        """Ends all episodes by `end`; the environment is reset even if that fails."""
        self.check_open()
        self.for_each(self.recordings, end)
        self.begun.clear()
        self.acting.clear()
        yield
        self.began = {"seed": seed, "options": options}

    def check_open(self) -> None:
        """Raises `ClosedError` if it is closed."""
        if self.closed:
            raise ClosedError("the recorder is closed; wrap the environment anew to record more")

    def close(self, end: Callable[[Any], None]) -> None:
        """Closes all recorders, after `end` for each, and raises what has failed."""

        def close(agent: Hashable) -> None:
            try:
                end(agent)
            finally:
                self.recordings[agent].close()

        self.closed = True
        self.for_each(self.recordings, close)
        self.surface()
