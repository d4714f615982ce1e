"""`TraceRecordingParallelWrapper` and `TraceRecordingAECWrapper`: record environments of PettingZoo.

Every agent has a recorder of its own, made when the agent first observes, all in one directory; its name is in the
metadata of its trace. An agent's episode begins with its first observation, and ends when the agent is gone, or with
the next reset. The wrappers know what the two kinds of environment call a step, `Agents` what becomes of it.
"""

from __future__ import annotations

import os
from typing import Any, Hashable

from ..errors import TraceError
from ..recording import TraceRecording
from .adapter import Adapter, library
from .agents import Agents

__all__ = ["TraceRecordingAECWrapper", "TraceRecordingParallelWrapper"]

_PACKAGE, _INSTALL = "pettingzoo.utils", "pettingzoo"


class _Wrapper(Adapter):
    """What the wrappers share: the agents' recorders, and closing."""

    _package, _install = _PACKAGE, _INSTALL
    env: Any

    def __init__(self, env: Any, directory: str | os.PathLike[str] | None = None, **kwargs: Any) -> None:
        if not all(callable(getattr(env, name, None)) for name in ("reset", "step", "observation_space")):
            raise TraceError("no environment to wrap", expected="an environment of PettingZoo", found=repr(env)[:80])
        super().__init__(env)  # type: ignore[call-arg]  # the library's wrapper comes next
        version = getattr(library("pettingzoo", _INSTALL), "__version__", "?")
        self._recorders = Agents(env, directory, f"pettingzoo {version}", kwargs)
        self.directory = self._recorders.directory

    @property
    def recordings(self) -> dict[Hashable, TraceRecording]:
        return self._recorders.recordings

    def close(self) -> Any:
        """Writes everything and closes the environment.

        Raises:
            OSError: not everything could be written. The environment is closed all the same; the data is kept, and
                closing again tries again.
        """
        try:
            self._recorders.close(self._wait_no_more)
        finally:
            self.env.close()

    def _wait_no_more(self, agent: Any) -> None:
        """Finishes the agent's step, if that waits for its next turn."""


class TraceRecordingParallelWrapper(_Wrapper):
    """Records every agent of a `ParallelEnv` of PettingZoo, and passes everything on unchanged.

    Each agent has its own trace, with `{"agent": name}` in its metadata. An agent that got no action in a `step`, and
    an observation, has `None` as its action there. A step is recorded when there is an observation that it led to.

    Args:
        env: a `pettingzoo.ParallelEnv`.
        directory, kwargs: as for `TraceRecordingWrapper`.

    Attributes:
        directory: str, absolute.
        recordings: the `TraceRecording`s by agent.

    Raises:
        MissingPackageError: PettingZoo is not installed.
        TraceError, OSError: as `TraceRecordingWrapper`.
    """

    _base = "BaseParallelWrapper"

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        """Resets the environment, which begins an episode of each agent, returns what the environment returned.

        Raises:
            ClosedError, TraceError, OSError: as `step`.
        """
        agents = self._recorders
        with agents.resetting(seed, options, agents.end):
            result = self.env.reset(seed=seed, options=options)
        observations, infos = result if isinstance(result, tuple) else (result, {})  # PettingZoo before 1.23
        agents.for_each(
            observations, lambda agent: agents.add_reset(agent, observations[agent], None, infos.get(agent))
        )
        return result

    def step(self, actions: Any) -> Any:
        """Steps the environment, records the agents' steps, returns what the environment returned.

        Raises:
            ClosedError: it is closed; the environment was not stepped.
            TraceError: a value cannot be stored; the message has its path. The other agents' steps are recorded. If it
                is an action, the environment was not stepped.
            OSError: a flush was due and failed; nothing recorded is lost.
        """
        agents = self._recorders
        agents.check_open()
        running = [agent for agent in agents.recordings if agents.is_running(agent)]
        try:
            for agent in running:
                agents.begin(agent, actions.get(agent))  # before the environment can overwrite it
        except TraceError:
            agents.take_back(running)
            raise
        result = self.env.step(actions)
        observations, rewards, terminations, truncations, infos = result

        def record(agent: Any) -> None:
            reward, info = rewards.get(agent), infos.get(agent)
            if agent in running:
                flags = terminations.get(agent), truncations.get(agent)
                agents.finish(agent, observations[agent], reward, *flags, info)
            else:
                agents.add_reset(agent, observations[agent], reward, info)

        agents.take_back(agent for agent in running if agent not in actions and agent not in observations)
        alive = set(self.env.agents)
        try:
            agents.for_each(observations, record)
        finally:
            agents.for_each([agent for agent in agents.recordings if agent not in alive], agents.end)
        return result


class TraceRecordingAECWrapper(_Wrapper):
    """Records every agent of an `AECEnv` of PettingZoo, and passes everything on unchanged.

    Each agent has its own trace, with `{"agent": name}` in its metadata. Its observations are those of its own turns,
    as `last` gives them, its reward is what it got until its next turn; the last turn, on which a dead agent steps with
    None, ends its episode and is no step. Where `reset` or `close` comes before the agent's next turn, what it would
    observe then is its last observation.

    Args:
        env: a `pettingzoo.AECEnv`.
        directory, kwargs: as for `TraceRecordingWrapper`.

    Attributes:
        directory: str, absolute.
        recordings: the `TraceRecording`s by agent.

    Raises:
        MissingPackageError: PettingZoo is not installed.
        TraceError, OSError: as `TraceRecordingWrapper`.
    """

    _base = "BaseWrapper"
    _is_seen = False  # what the agent observes on this turn is recorded
    _is_dead = False  # it is the agent's last turn
    _failed: Exception | None = None  # what failed when it was; `step` raises it

    def reset(self, seed: Any = None, options: Any = None) -> None:
        """Resets the environment; the next turn of each agent begins an episode.

        Raises:
            ClosedError, TraceError, OSError: as `step`.
        """
        with self._recorders.resetting(seed, options, self._end):
            self._is_seen, self._failed = False, None
            self.env.reset(seed=seed, options=options)

    def last(self, observe: bool = True) -> Any:
        """What the environment's `last` returns: observation, cumulative reward, flags and info of the agent."""
        result = self.env.last(observe)
        if observe and not self._is_seen and not self._recorders.closed:
            self._see(*result)
        return result

    def _see(self, observation: Any, *results: Any) -> None:
        agents, agent = self._recorders, self.env.agent_selection
        reward, terminated, truncated, info = results
        self._is_seen, self._is_dead = True, bool(terminated or truncated)
        try:
            if agents.is_acting(agent):
                agents.finish(agent, observation, *results)
            elif not agents.is_running(agent):
                agents.add_reset(agent, observation, reward, info)
        except (TraceError, OSError) as error:  # the environment is stepped all the same
            self._failed = error

    def step(self, action: Any) -> None:
        """Steps the environment, records what the agent observed on this turn, and its action.

        Raises:
            ClosedError: it is closed; the environment was not stepped.
            TraceError: a value cannot be stored; the message has its path. If it is the action, the environment was
                not stepped.
            OSError: a flush was due and failed; nothing recorded is lost.
        """
        agents = self._recorders
        agents.check_open()
        agent = getattr(self.env, "agent_selection", None)
        if agent not in getattr(self.env, "agents", ()):  # before a reset, or when all is over
            self.env.step(action)
            return
        if not self._is_seen:
            self._see(*self.env.last())
        is_dead = self._is_dead
        if not is_dead:
            try:
                agents.begin(agent, action)
            except TraceError:
                agents.take_back([agent])
                raise
        self.env.step(action)
        self._is_seen = False
        failed, self._failed = self._failed, None
        if is_dead:
            agents.end(agent)
        if failed is not None:
            raise failed

    def _end(self, agent: Any) -> None:
        try:
            self._wait_no_more(agent)
        finally:
            self._recorders.end(agent)

    def _wait_no_more(self, agent: Any) -> None:
        if self._recorders.is_acting(agent):
            try:
                results = [getattr(self.env, name)[agent] for name in _RESULTS]
                observation = self.env.observe(agent)
            except Exception:  # the environment has forgotten the agent: it is not known what its step led to
                return
            self._recorders.finish(agent, observation, *results)


_RESULTS = ("_cumulative_rewards", "terminations", "truncations", "infos")
