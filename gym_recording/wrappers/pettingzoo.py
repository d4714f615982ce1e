"""`TraceRecordingParallelWrapper` and `TraceRecordingAECWrapper`: record environments of PettingZoo.

Every agent has a recorder of its own, made when the agent first observes, all in one directory; its name is in the
metadata of its trace. An agent's episode begins with its first observation, and ends when the agent is gone, or with
the next reset. The wrappers know what the two kinds of environment call a step, `Agents` what becomes of it.
"""

from __future__ import annotations

from typing import Any, Callable, Hashable

from ..errors import TraceError
from ..memory import Place
from ..recording import TraceRecording
from .adapter import Adapter, library
from .agents import Agents

__all__ = ["TraceRecordingAECWrapper", "TraceRecordingParallelWrapper"]

_PACKAGE, _INSTALL = "pettingzoo.utils", "pettingzoo"


class _Wrapper(Adapter):
    """What the wrappers share: the agents' recorders, and closing."""

    _package, _install = _PACKAGE, _INSTALL
    _other: tuple[str, str]  # what is for another wrapper, and that
    env: Any

    def __init__(self, env: Any, directory: Place | None = None, **kwargs: Any) -> None:
        if not all(callable(getattr(env, name, None)) for name in ("reset", "step", "observation_space")):
            raise TraceError("no environment to wrap", expected="an environment of PettingZoo", found=repr(env)[:80])
        pettingzoo = library("pettingzoo", _INSTALL)
        kind, wrapper = self._other
        if isinstance(env, getattr(pettingzoo, kind)):
            raise TraceError(f"this is a {kind}; record it with {wrapper}", found=repr(env)[:80])
        super().__init__(env)  # type: ignore[call-arg]  # the library's wrapper comes next
        version = getattr(pettingzoo, "__version__", "?")
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
    _other = ("AECEnv", "TraceRecordingAECWrapper")

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
        agents.surface()
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
        before = set(getattr(self.env, "agents", ()))
        acting: list[Any] = []
        try:
            for agent in actions:
                if agent in agents.begun:
                    acting.append(agent)
                    agents.begin(agent, actions[agent])  # before the environment can overwrite it
        except TraceError:
            agents.take_back(acting)
            raise
        result = self.env.step(actions)
        observations, rewards, terminations, truncations, infos = result
        alive = set(self.env.agents)

        def record(agent: Any) -> None:
            reward, info = rewards.get(agent), infos.get(agent)
            if agent in agents.begun:
                if agent not in actions:
                    agents.begin(agent, None)
                flags = terminations.get(agent), truncations.get(agent)
                agents.finish(agent, observations[agent], reward, *flags, info)
            elif agent in alive or (agent in before and agent in actions):  # some return what the dead would see
                agents.add_reset(agent, observations[agent], reward, info)

        try:
            agents.for_each(observations, record)
        finally:
            agents.for_each(agents.begun - alive, agents.end)
        agents.flush_if_due()
        agents.surface()
        return result


class TraceRecordingAECWrapper(_Wrapper):
    """Records every agent of an `AECEnv` of PettingZoo, and passes everything on unchanged.

    Each agent has its own trace, with `{"agent": name}` in its metadata. Its observations are those of its own turns,
    as it first got them by `last` or `observe`, its reward is what it got until its next turn; the last turn, on which
    a dead agent steps with None, ends its episode and is no step. Where nobody looked before `step`, the wrapper does;
    and where `reset` or `close` comes before the agent's next turn, what it would observe then is its last observation.

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
    _other = ("ParallelEnv", "TraceRecordingParallelWrapper")
    _is_seen = False  # what the agent observes on this turn is recorded
    _is_dead: bool | None = False  # it is the agent's last turn; None: nobody knows, and the turn is not recorded

    def reset(self, seed: Any = None, options: Any = None) -> None:
        """Resets the environment; the next turn of each agent begins an episode.

        Raises:
            ClosedError, TraceError, OSError: as `step`.
        """
        with self._recorders.resetting(seed, options, self._end):
            self._is_seen = False
            self.env.reset(seed=seed, options=options)
        self._recorders.surface()

    def last(self, observe: bool = True) -> Any:
        """What the environment's `last` returns: observation, cumulative reward, flags and info of the agent."""
        result = self.env.last(observe)
        if observe:
            self._see(self._selected(), lambda: result)
        return result

    def observe(self, agent: Any) -> Any:
        """What the environment's `observe` returns: what the agent observes."""
        observation = self.env.observe(agent)
        selected = self._selected()
        if selected is not None and agent == selected:
            self._see(selected, lambda: (observation, *self.env.last(False)[1:]))
        return observation

    def _selected(self) -> Any:
        """The agent whose turn it is; None before a reset, and when all is over."""
        agent = getattr(self.env, "agent_selection", None)
        return agent if agent in getattr(self.env, "agents", ()) else None

    def _see(self, agent: Any, look: Callable[[], Any]) -> None:
        """Records what an agent observes on its turn, if that is not done; `step` raises what fails."""
        agents = self._recorders
        if self._is_seen or agents.closed or agent is None:
            return
        try:
            observation, reward, terminated, truncated, info = look()
            is_dead = bool(terminated or truncated)
        except Exception as error:  # an environment may raise whatever it likes
            agents.abandon(agent)
            self._is_seen, self._is_dead = True, None
            agents.failed = agents.failed or TraceError(
                f"the turn of {agent!r} is not recorded: `last` fails: {error!r}"
            )
            return
        self._is_seen, self._is_dead = True, is_dead

        def record(agent: Any) -> None:
            if agent in agents.acting:
                agents.finish(agent, observation, reward, terminated, truncated, info)
            elif agent not in agents.begun:
                agents.add_reset(agent, observation, reward, info)

        agents.for_each([agent], record)

    def step(self, action: Any) -> None:
        """Steps the environment, records what the agent observed on this turn, and its action.

        Raises:
            ClosedError: it is closed; the environment was not stepped.
            TraceError: a value cannot be stored; the message has its path. If it is the action, the environment was
                not stepped.
            OSError: a recorder could not be made, or a flush was due and failed; nothing recorded is lost.
        """
        agents = self._recorders
        agents.check_open()
        agent = self._selected()
        if agent is None:
            self.env.step(action)
            return
        is_needed = agent in agents.acting or agent not in agents.begun
        self._see(agent, lambda: self.env.last(is_needed))
        is_dead = self._is_dead
        if is_dead is False:
            try:
                agents.begin(agent, action)
            except TraceError:
                agents.take_back([agent])
                raise
        try:
            self.env.step(action)
            if is_dead is False:
                agents.acting.add(agent)
        except BaseException:  # an illegal move, Ctrl-C: it is not known whether the step was made
            agents.abandon(agent)
            raise
        finally:
            self._is_seen = False
        if is_dead:
            agents.for_each([agent], agents.end)
        agents.flush_if_due()
        agents.surface()

    def _end(self, agent: Any) -> None:
        try:
            self._wait_no_more(agent)
        finally:
            self._recorders.end(agent)

    def _wait_no_more(self, agent: Any) -> None:
        if agent in self._recorders.acting:
            try:
                results = [getattr(self.env, name)[agent] for name in _RESULTS]
                observation = self.env.observe(agent)
            except Exception:  # the environment has forgotten the agent: it is not known what its step led to
                return
            self._recorders.finish(agent, observation, *results)


_RESULTS = ("_cumulative_rewards", "terminations", "truncations", "infos")
