"""PettingZoo: a trace for each agent, with what the agent saw, did and got. Needs `pettingzoo`; skipped without."""

import copy
import pickle
import shutil
import threading
import warnings
from time import monotonic

import numpy as np
import pytest
from environments import same

from gym_recording import (
    ClosedError,
    TraceError,
    TraceRecordingAECWrapper,
    TraceRecordingParallelWrapper,
    TraceRecordingReader,
)

pettingzoo = pytest.importorskip("pettingzoo")
conversions = pytest.importorskip("pettingzoo.utils.conversions")
spaces = pytest.importorskip("gymnasium.spaces")


class Herd(pettingzoo.ParallelEnv):
    """Agents that come and die: `lives` says from which step to which each lives; then all is truncated."""

    def __init__(self, lives=None, length=6):
        self.metadata = {"name": "herd_v0"}
        self.render_mode = None
        self.lives = {"a": (0, 6), "b": (0, 3), "c": (0, 5)} if lives is None else lives
        self.possible_agents = list(self.lives)
        self.length = length
        self.agents = []
        self.steps = 0
        self.closed = 0
        at = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.spaces = {agent: (spaces.Dict({"at": at}), spaces.Discrete(5)) for agent in self.lives}

    def observation_space(self, agent):
        return self.spaces[agent][0]

    def action_space(self, agent):
        return self.spaces[agent][1]

    def observe_all(self, agents):
        return {agent: {"at": self.random.random(2, dtype="float32")} for agent in agents}

    def reset(self, seed=None, options=None):
        self.random = np.random.default_rng(seed)
        self.time = 0
        self.agents = [agent for agent, (first, _) in self.lives.items() if first == 0]
        self.options = options
        return self.observe_all(self.agents), {agent: {"hello": agent} for agent in self.agents}

    def step(self, actions):
        self.steps += 1
        self.time += 1
        acting = self.agents
        new = [agent for agent, (first, _) in self.lives.items() if first == self.time]
        observations = self.observe_all([*acting, *new])
        rewards = {agent: self.time + (actions.get(agent) or 0) / 10 for agent in acting}
        rewards.update(dict.fromkeys(new, 0))
        terminations = {agent: self.lives[agent][1] == self.time for agent in observations}
        truncations = dict.fromkeys(observations, self.time >= self.length)
        self.agents = [a for a in observations if not (terminations[a] or truncations[a])]
        return observations, rewards, terminations, truncations, {agent: {"t": self.time} for agent in observations}

    def close(self):
        self.closed += 1


def policy(agent, time):
    return (ord(agent[0]) + 2 * time) % 5


def run_parallel(env, seeds=(1, 2), steps=100):
    """Runs episodes; returns what the environment returned, by agent: a list of episodes."""
    seen = {}
    for seed in seeds:
        observations, infos = env.reset(seed=seed, options={"n": seed})
        running = {}
        for agent in observations:
            running[agent] = {"observations": [observations[agent]], "actions": [], "rewards": [], "flags": None}
        for episode in running.values():
            episode["infos"] = []
        for agent in running:
            running[agent]["infos"].append(infos[agent])
        everything = {agent: [episode] for agent, episode in running.items()}
        for time in range(steps):
            if not env.agents:
                break
            actions = {agent: policy(agent, time) for agent in env.agents}
            observations, rewards, terminations, truncations, infos = env.step(actions)
            for agent in observations:
                if agent not in running:
                    running[agent] = {"observations": [], "actions": [], "rewards": [], "infos": [], "flags": None}
                    everything.setdefault(agent, []).append(running[agent])
                else:
                    running[agent]["actions"].append(actions[agent])
                    running[agent]["rewards"].append(rewards[agent])
                    running[agent]["flags"] = terminations[agent], truncations[agent]
                running[agent]["observations"].append(observations[agent])
                running[agent]["infos"].append(infos[agent])
            for agent in [agent for agent in running if agent not in env.agents]:
                del running[agent]
        for agent, episodes in everything.items():
            seen.setdefault(agent, []).extend(episodes)
    return seen


def by_agent(directory):
    return {
        trace.metadata["agent"]: list(episodes_of(directory, trace)) for trace in TraceRecordingReader(directory).traces
    }


def episodes_of(directory, trace):
    reader = TraceRecordingReader(directory)
    for batch in trace.batches:
        yield from reader.read_batch(batch)


def rows(column):
    return [column[t] for t in range(len(column))]


def content(episode):
    return {
        "observations": rows(episode.observations),
        "actions": rows(episode.actions),
        "rewards": rows(episode.rewards),
        "flags": (episode.terminated, episode.truncated) if len(episode.actions) else None,
    }


def assert_recorded(directory, seen):
    found = by_agent(directory)
    assert set(found) == set(seen)
    for agent, episodes in seen.items():
        assert len(found[agent]) == len(episodes)
        for one, expected in zip(found[agent], episodes):
            for key, value in content(one).items():
                assert same(value, expected[key]), (agent, key)
            if "infos" in expected and one.infos is not None:
                assert same(one.infos, expected["infos"])


# ---- parallel

HERDS = {
    "all to the end": {"a": (0, 9), "b": (0, 9)},
    "some die": None,
    "one comes": {"a": (0, 9), "b": (2, 9)},
    "one comes and dies": {"a": (0, 9), "b": (2, 4)},
    "nobody is left": {"a": (0, 2), "b": (0, 2)},
}


@pytest.mark.parametrize("infos", [False, True])
@pytest.mark.parametrize("herd", HERDS)
def test_each_agent_has_the_episodes_it_lived(tmp_path, herd, infos):
    env = TraceRecordingParallelWrapper(Herd(HERDS[herd]), tmp_path, infos=infos)
    seen = run_parallel(env)
    env.close()
    assert same(seen, run_parallel(Herd(HERDS[herd])))  # the run is what it is without a recorder
    assert env.env.closed == 1
    assert_recorded(tmp_path, seen)


def test_an_agent_that_comes_again_has_another_episode(tmp_path):
    class Again(Herd):
        def step(self, actions):
            if self.time == 4:
                self.lives = {"a": (0, 9), "b": (5, 9)}
            return super().step(actions)

    env = TraceRecordingParallelWrapper(Again({"a": (0, 9), "b": (0, 2)}, length=7), tmp_path)
    seen = run_parallel(env, seeds=[1])
    env.close()
    assert [len(episode["actions"]) for episode in seen["b"]] == [2, 2]
    assert_recorded(tmp_path, seen)
    assert [(e.ended_by, e.seed) for e in by_agent(tmp_path)["b"]] == [("terminated", 1), ("truncated", 1)]


def test_the_names_spaces_seeds_and_endings_are_recorded(tmp_path):
    env = TraceRecordingParallelWrapper(Herd(), tmp_path, metadata={"by": "me"})
    run_parallel(env, steps=4)
    env.close()
    reader = TraceRecordingReader(tmp_path)
    assert [trace.metadata for trace in reader.traces] == [{"by": "me", "agent": agent} for agent in "abc"]
    assert all(trace.closed for trace in reader.traces)
    assert reader.traces[0].observation_space == Herd().observation_space("a")
    assert reader.traces[0].action_space == spaces.Discrete(5)
    assert reader.traces[0].writer["library"].startswith("pettingzoo 1.")
    assert reader.traces[0].env["entry_point"].endswith(":Herd")
    found = {agent: [(e.seed, e.options, e.ended_by) for e in es] for agent, es in by_agent(tmp_path).items()}
    assert found["a"] == [(1, {"n": 1}, "reset"), (2, {"n": 2}, "close")]
    assert found["b"] == [(1, {"n": 1}, "terminated"), (2, {"n": 2}, "terminated")]


def test_agents_without_an_action_are_recorded_as_such(tmp_path):
    env = TraceRecordingParallelWrapper(Herd({"a": (0, 9), "b": (0, 9)}), tmp_path)
    env.reset(seed=1)
    env.step({"a": 1})
    env.step({"a": 2, "b": 3})
    env.close()
    found = by_agent(tmp_path)
    assert rows(found["b"][0].actions) == [None, 3]
    assert rows(found["a"][0].actions) == [1, 2]


def test_an_action_that_cannot_be_stored_keeps_the_environment_from_nothing_but_that_step(tmp_path):
    env = TraceRecordingParallelWrapper(Herd({"a": (0, 9), "b": (0, 9)}), tmp_path)
    env.reset(seed=1)
    with pytest.raises(TraceError, match="actions: cannot store"):
        env.step({"a": 1, "b": object()})
    assert env.env.steps == 0
    env.step({"a": 2, "b": 3})
    env.close()
    assert [rows(es[0].actions) + list(es[0].gaps) for es in by_agent(tmp_path).values()] == [[2], [3]]


def test_an_observation_that_cannot_be_stored_is_a_gap_for_that_agent_alone(tmp_path):
    class Odd(Herd):
        def observe_all(self, agents):
            observations = super().observe_all(agents)
            return {**observations, "a": object()} if self.time == 1 else observations

    env = TraceRecordingParallelWrapper(Odd({"a": (0, 9), "b": (0, 9)}), tmp_path)
    env.reset(seed=1)
    with pytest.raises(TraceError, match="observations: cannot store"):
        env.step({"a": 1, "b": 2})
    env.step({"a": 3, "b": 4})
    env.close()
    found = by_agent(tmp_path)
    assert (rows(found["a"][0].actions), found["a"][0].gaps) == ([3], (0,))
    assert (rows(found["b"][0].actions), found["b"][0].gaps) == ([2, 4], ())


def test_what_the_dead_would_see_is_no_episode(tmp_path):
    class Ghosts(Herd):
        def step(self, actions):
            results = super().step({agent: action for agent, action in actions.items() if agent in self.agents})
            for result, value in zip(results, ({"at": np.zeros(2, "float32")}, 0.0, True, False, {})):
                result.update({agent: value for agent in self.lives if agent not in result})
            return results

    env = TraceRecordingParallelWrapper(Ghosts({"a": (0, 9), "b": (0, 2)}), tmp_path)
    env.reset(seed=1)
    for time in range(5):
        env.step(dict.fromkeys("ab", time))  # some go on to give actions for all
    env.close()
    found = by_agent(tmp_path)
    assert [(rows(e.actions), e.ended_by) for e in found["b"]] == [([0, 1], "terminated")]
    assert [len(e) for e in found["a"]] == [5]


def test_an_agent_that_only_observes_has_none_as_its_action_and_one_that_does_neither_has_no_step(tmp_path):
    class Quiet(Herd):
        def step(self, actions):
            results = super().step(actions)
            if self.time in (2, 3):
                for result in results:
                    result.pop("b")
                self.agents = ["a", "b"]
            return results

    env = TraceRecordingParallelWrapper(Quiet({"a": (0, 9), "b": (0, 9)}), tmp_path)
    env.reset(seed=1)
    for time in range(5):
        env.step({"a": time, "b": 4} if time == 0 else {"a": time})
    env.close()
    found = by_agent(tmp_path)
    assert [(rows(e.actions), list(e.gaps)) for e in found["b"]] == [([4, None, None], [])]
    assert [(rows(e.actions), list(e.gaps)) for e in found["a"]] == [([0, 1, 2, 3, 4], [])]


def test_an_agent_that_does_nothing_costs_nothing(tmp_path):
    class Quiet(Herd):
        def step(self, actions):
            results = super().step(actions)
            for result in results if self.time > 2 else ():
                result.pop("b")
            self.agents = ["a", "b"]
            return results

    env = TraceRecordingParallelWrapper(Quiet({"a": (0, 9), "b": (0, 9)}), tmp_path)
    env.reset(seed=1)
    env.step({"a": 1, "b": 1})
    env.step({"a": 1, "b": 1})
    calls = []
    lane = env.recordings["b"].lane
    lane.begin = lane.take_back = lane.recover = lambda *_: calls.append(_)
    for _ in range(3):
        env.step({"a": 1})
    assert calls == []
    del lane.begin, lane.take_back, lane.recover
    env.close()


# ---- AEC


def run_aec(env, seeds=(1, 2), steps=10**6, peek=True, act=policy):
    """Runs episodes by turns; returns what `last` gave, by agent, as `run_parallel` does."""
    seen = {}
    for seed in seeds:
        env.reset(seed=seed, options={"n": seed})
        running, times = {}, {}
        for agent in env.agent_iter(steps):
            if peek:
                observation, reward, terminated, truncated, _ = copy.deepcopy(env.last())
                if agent in running:
                    running[agent]["rewards"].append(reward)
                    running[agent]["flags"] = terminated, truncated
                else:
                    running[agent] = {"observations": [], "actions": [], "rewards": [], "flags": None}
                    seen.setdefault(agent, []).append(running[agent])
                running[agent]["observations"].append(observation)
            else:
                terminated, truncated = env.terminations[agent], env.truncations[agent]
            if terminated or truncated:
                env.step(None)
                running.pop(agent, None)
                continue
            action = act(agent, times.get(agent, 0))
            times[agent] = times.get(agent, 0) + 1
            if peek:
                running[agent]["actions"].append(action)
            env.step(action)
    return seen


def aec(lives=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return conversions.parallel_to_aec(Herd(lives))


@pytest.mark.parametrize("peek", [True, False])
def test_each_agent_has_its_turns(tmp_path, peek):
    seen = run_aec(aec())
    env = TraceRecordingAECWrapper(aec(), tmp_path)
    found = run_aec(env, peek=peek)
    env.close()
    assert not peek or same(found, seen)
    assert_recorded(tmp_path, seen)


@pytest.mark.parametrize("steps", [100, 4])
@pytest.mark.parametrize("herd", ["all to the end", "some die", "nobody is left"])
def test_a_parallel_environment_and_its_conversion_give_the_same_episodes(tmp_path, herd, steps):
    agents = len(Herd(HERDS[herd]).possible_agents)
    parallel = TraceRecordingParallelWrapper(Herd(HERDS[herd]), tmp_path / "parallel")
    run_parallel(parallel, steps=steps)
    parallel.close()
    turns = TraceRecordingAECWrapper(aec(HERDS[herd]), tmp_path / "aec")
    # Whole rounds: all act in the first three, then one has died and takes its last turn.
    limit = 10**6 if steps == 100 else sum(1 for _ in turns_of(herd, steps))
    run_aec(turns, steps=limit)
    turns.close()
    one, other = by_agent(tmp_path / "parallel"), by_agent(tmp_path / "aec")
    assert set(one) == set(other)
    assert len(one) == agents
    for agent in one:
        assert same([content(e) for e in other[agent]], [content(e) for e in one[agent]])


def turns_of(herd, rounds):
    """The turns of that many rounds of a converted herd."""
    env = aec(HERDS[herd])
    env.reset(seed=1)
    time = 0
    for agent in env.agent_iter():
        if env.unwrapped.time == rounds and not (env.terminations[agent] or env.truncations[agent]):
            return
        yield agent
        dead = env.terminations[agent] or env.truncations[agent]
        env.step(None if dead else policy(agent, time))


def classic(name):
    return pytest.importorskip(f"pettingzoo.classic.{name}").env()


class Random:
    """A policy that follows the action mask, if there is one."""

    def __init__(self, env):
        self.env, self.random = env, np.random.default_rng(4)

    def __call__(self, agent, observation):
        if isinstance(observation, dict) and "action_mask" in observation:
            return int(self.random.choice(np.flatnonzero(observation["action_mask"])))
        return int(self.random.integers(self.env.action_space(agent).n))


@pytest.mark.parametrize("name", ["tictactoe_v3", "rps_v2"])
def test_games_are_recorded_turn_by_turn(tmp_path, name):
    env = TraceRecordingAECWrapper(classic(name), tmp_path)
    policy, seen = Random(env), {}
    for seed in range(3):
        env.reset(seed=seed)
        running = {}
        for agent in env.agent_iter(60):
            observation, reward, terminated, truncated, _ = copy.deepcopy(env.last())
            first = {"observations": [], "actions": [], "rewards": [], "flags": None}
            episode = running.setdefault(agent, first)
            if episode is first:
                seen.setdefault(agent, []).append(first)
            else:
                episode["rewards"].append(reward)
                episode["flags"] = terminated, truncated
            episode["observations"].append(observation)
            if terminated or truncated:
                env.step(None)
            else:
                episode["actions"].append(policy(agent, observation))
                env.step(episode["actions"][-1])
        assert not env.agents or name == "rps_v2"
    env.close()
    found = by_agent(tmp_path)
    for agent, episodes in seen.items():
        for one, expected in zip(found[agent], episodes):
            cut = len(expected["rewards"])  # a game that was left: its last step is finished by `reset`
            assert same(content(one)["rewards"][:cut], expected["rewards"])
            assert same(content(one)["actions"], expected["actions"])
            assert same(content(one)["observations"][: cut + 1], expected["observations"])
        assert len(found[agent]) == len(episodes)


def test_the_turn_that_never_came_ends_with_what_the_agent_would_see(tmp_path):
    env = TraceRecordingAECWrapper(aec(), tmp_path)
    env.reset(seed=1)
    for time in range(5):  # a, b, c, a, b: the first round is over
        env.step(policy(env.agent_selection, time // 3))
    env.close()
    expected = run_parallel(Herd(), seeds=[1], steps=1)
    found = by_agent(tmp_path)
    assert {agent: len(episodes[0].actions) for agent, episodes in found.items()} == {"a": 2, "b": 2, "c": 1}
    assert found["a"][0].rewards[0] == expected["a"][0]["rewards"][0]
    assert found["c"][0].ended_by == "close"


def test_what_the_agent_does_to_its_observation_is_not_recorded(tmp_path):
    env = TraceRecordingAECWrapper(aec(), tmp_path)
    expected = run_aec(aec(), seeds=[1])
    env.reset(seed=1)
    for agent in env.agent_iter():
        observation, _, terminated, truncated, _ = env.last()
        observation["at"][...] = -1
        env.step(None if terminated or truncated else policy(agent, env.unwrapped.time))
    env.close()
    assert same(rows(by_agent(tmp_path)["a"][0].observations), expected["a"][0]["observations"])


def test_an_observation_that_cannot_be_stored_forbids_no_turn(tmp_path):
    class Odd(Herd):
        def observe_all(self, agents):
            observations = super().observe_all(agents)
            return {**observations, "a": object()} if self.time == 1 else observations

    env = TraceRecordingAECWrapper(conversions.parallel_to_aec(Odd({"a": (0, 9), "b": (0, 9)})), tmp_path)
    env.reset(seed=1)
    env.step(1)
    env.step(2)
    env.last()  # does not raise: the environment would not
    with pytest.raises(TraceError, match="observations: cannot store"):
        env.step(3)
    assert env.agent_selection == "b"
    env.step(4)
    env.close()
    found = by_agent(tmp_path)
    assert (rows(found["a"][0].actions), found["a"][0].gaps) == ([3], (0,))
    assert (rows(found["b"][0].actions), found["b"][0].gaps) == ([2, 4], ())


def test_a_reward_before_the_first_action_is_in_the_infos_or_said_to_be_lost(tmp_path):
    def play(directory, **options):
        inner = aec({"a": (0, 9), "b": (0, 9)})
        env = TraceRecordingAECWrapper(inner, directory, **options)
        env.reset(seed=1)
        env.step(1)
        inner.unwrapped_rewards = inner.env._cumulative_rewards
        inner.env._cumulative_rewards["b"] = 7
        env.step(2)
        env.close()

    with pytest.warns(UserWarning, match="a reward that 'b' got before its first action is not recorded"):
        play(tmp_path / "without")
    play(tmp_path / "with", infos=True)
    assert by_agent(tmp_path / "with")["b"][0].infos[0]["reward"] == 7


class Turns(pettingzoo.AECEnv):
    """Two agents in turn. What is observed is `10 * time`, 1 more for b; or noise, if there is a seed.

    `fails` is raised by the next step: before it is made, or after.
    """

    def __init__(self):
        super().__init__()
        self.metadata = {"name": "turns_v0"}
        self.render_mode = None
        self.possible_agents = ["a", "b"]
        self.fails = None
        self.fails_late = False

    def observation_space(self, agent):
        return spaces.Discrete(1000)

    action_space = observation_space

    def observe(self, agent):
        return 10 * self.time + (agent == "b") if self.random is None else int(self.random.integers(1000))

    def reset(self, seed=None, options=None):
        self.random = None if seed is None else np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.time = 0
        self.agent_selection = "a"
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}

    def step(self, action):
        error, self.fails = self.fails, None
        if error is not None and not self.fails_late:
            raise error
        self.time += 1
        self.agent_selection = "b" if self.agent_selection == "a" else "a"
        if error is not None:
            raise error


def play_turns(env, actions, look=lambda env: env.last()):
    """Plays; says what `look` saw."""
    seen = []
    for action in actions:
        seen.append(look(env))
        env.step(action)
    return seen


def row_lists(directory):
    """By agent, of each episode: observations, actions, gaps."""
    return {
        agent: [(rows(e.observations), rows(e.actions), list(e.gaps)) for e in episodes]
        for agent, episodes in by_agent(directory).items()
    }


@pytest.mark.parametrize("end", ["reset", "close"])
@pytest.mark.parametrize("error", [ValueError("illegal move"), KeyboardInterrupt()])
def test_a_step_that_failed_is_no_transition(tmp_path, error, end):
    env = TraceRecordingAECWrapper(Turns(), tmp_path)
    env.reset()
    play_turns(env, range(4))
    env.last()
    env.env.fails = error
    with pytest.raises(type(error)):
        env.step(4)
    getattr(env, end)()
    env.close()
    assert row_lists(tmp_path) == {"a": [([0, 20, 40], [0, 2], [])], "b": [([11, 31, 41], [1, 3], [])]}


def test_a_step_that_failed_can_be_made_again_and_is_a_gap(tmp_path):
    env = TraceRecordingAECWrapper(Turns(), tmp_path)
    env.reset()
    env.env.fails = ValueError("illegal move")
    with pytest.raises(ValueError, match="illegal move"):
        env.step(9)
    play_turns(env, range(4))
    env.close()
    assert row_lists(tmp_path) == {"a": [([0, 20, 40], [0, 2], [0])], "b": [([11, 31, 41], [1, 3], [])]}


def test_a_step_that_failed_when_the_turn_had_passed_keeps_nobody_from_playing(tmp_path):
    env = TraceRecordingAECWrapper(Turns(), tmp_path)
    env.reset()
    env.last()
    env.env.fails, env.env.fails_late = ValueError("late"), True
    with pytest.raises(ValueError, match="late"):
        env.step(9)
    assert play_turns(env, range(4), lambda env: env.last()[0]) == [11, 20, 31, 40]
    env.close()
    assert row_lists(tmp_path) == {"a": [([0, 40, 50], [1, 3], [0])], "b": [([11, 31, 51], [0, 2], [])]}


LOOKS = {
    "last": lambda env: env.last()[0],
    "observe": lambda env: env.observe(env.agent_selection),
    "observe, then last": lambda env: (env.observe(env.agent_selection), env.last()[0])[0],
    "last of a wrapper around it": lambda env: pettingzoo.utils.BaseWrapper(env).last()[0],
    "all": lambda env: [env.observe(agent) for agent in env.agents][env.agents.index(env.agent_selection)],
}


@pytest.mark.parametrize("look", LOOKS)
def test_what_is_recorded_is_what_the_agent_saw_first_and_the_run_is_the_same(tmp_path, look):
    alone = Turns()
    alone.reset(seed=3)
    expected = play_turns(alone, range(6), LOOKS[look])
    env = TraceRecordingAECWrapper(Turns(), tmp_path)
    env.reset(seed=3)
    assert play_turns(env, range(6), LOOKS[look]) == expected
    assert env.env.random.integers(10**6) == alone.random.integers(10**6)
    env.close()
    found = row_lists(tmp_path)
    assert found["a"][0][0][:3] == expected[::2]
    assert found["b"][0][0][:3] == expected[1::2]


def test_a_turn_that_cannot_be_looked_at_is_made_and_not_recorded(tmp_path):
    env = TraceRecordingAECWrapper(Turns(), tmp_path)
    env.reset()
    play_turns(env, range(2))
    del env.env._cumulative_rewards["a"]
    assert env.observe("a") == 20
    with pytest.raises(TraceError, match="the turn of 'a' is not recorded: `last` fails: KeyError"):
        env.step(2)
    env.step(3)
    env.env._cumulative_rewards["a"] = 0
    play_turns(env, range(4, 6))
    env.close()
    assert row_lists(tmp_path) == {"a": [([0, 60], [4], [0])], "b": [([11, 31, 51, 61], [1, 3, 5], [])]}


def test_an_interrupt_while_the_recorder_looks_is_no_transition(tmp_path):
    class Slow(Turns):
        def last(self, observe=True):
            error, self.interrupt = getattr(self, "interrupt", None), None
            if error is not None:
                raise error
            return super().last(observe)

    env = TraceRecordingAECWrapper(Slow(), tmp_path)
    env.reset()
    play_turns(env, range(2))
    for look in (lambda: env.observe("a"), lambda: env.step(9)):
        env.env.interrupt = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            look()
    play_turns(env, range(2, 4))
    env.close()
    assert row_lists(tmp_path) == {"a": [([0, 20, 40], [0, 2], [])], "b": [([11, 31, 41], [1, 3], [])]}


def test_a_recorder_that_cannot_be_made_keeps_no_agent_from_playing(tmp_path):
    for new, first, actions in ((Turns, 3, [0, 1]), (Herd, {"a": 3, "b": 3, "c": 3}, [{"a": 4, "b": 4, "c": 4}])):
        directory = tmp_path / new.__name__
        wrapper = TraceRecordingAECWrapper if new is Turns else TraceRecordingParallelWrapper
        env = wrapper(new(), directory)
        shutil.rmtree(directory)
        directory.write_text("in the way")
        if new is Turns:
            env.reset()
            for _ in range(2):
                with pytest.raises(FileExistsError):
                    env.step(first)
        else:
            with pytest.raises(FileExistsError):
                env.reset()
            with pytest.raises(FileExistsError):
                env.step(first)
        assert env.unwrapped.time == (2 if new is Turns else 1)
        directory.unlink()
        directory.mkdir()
        for action in actions:
            env.step(action)
        env.close()
        found = by_agent(directory)
        assert all(e.headless for episodes in found.values() for e in episodes)
        assert [rows(found[agent][0].actions) for agent in "ab"] == ([[0], [1]] if new is Turns else [[4], [4]])


def test_an_episode_whose_first_observation_is_not_recorded_begins_with_no_later_one(tmp_path):
    class Odd(Herd):
        def observe_all(self, agents):
            observations = super().observe_all(agents)
            return {**observations, "a": object()} if self.time == 0 else observations

    env = TraceRecordingParallelWrapper(Odd({"a": (0, 9), "b": (0, 9)}), tmp_path)
    with pytest.raises(TraceError, match="observations: cannot store"):
        env.reset(seed=1)
    env.step({"a": 1, "b": 2})
    env.step({"a": 3, "b": 4})
    env.close()
    found = by_agent(tmp_path)
    assert (found["a"][0].headless, rows(found["a"][0].actions)) == (True, [1, 3])
    assert (found["b"][0].headless, rows(found["b"][0].actions)) == (False, [2, 4])


# ---- both


BOTH = [(TraceRecordingParallelWrapper, Herd), (TraceRecordingAECWrapper, aec)]


@pytest.mark.parametrize(("wrapper", "new"), BOTH)
def test_a_recorder_is_a_wrapper_of_the_library(tmp_path, wrapper, new):
    env = wrapper(new(), tmp_path / "new")
    assert isinstance(env, (pettingzoo.ParallelEnv, pettingzoo.AECEnv))
    assert isinstance(env, wrapper)
    assert type(env).__name__ == wrapper.__name__
    assert env.possible_agents == ["a", "b", "c"]
    assert isinstance(env.unwrapped, Herd)
    assert env.action_space("a") == spaces.Discrete(5)
    env.close()
    assert list((tmp_path / "new").glob("*.json")) == []


@pytest.mark.parametrize(("wrapper", "new"), BOTH)
def test_a_closed_recorder_steps_nothing(tmp_path, wrapper, new):
    env = wrapper(new(), tmp_path)
    env.reset(seed=1)
    env.close()
    with pytest.raises(ClosedError):
        env.step({"a": 1} if new is Herd else 1)
    with pytest.raises(ClosedError):
        env.reset()
    assert env.unwrapped.steps == 0
    env.close()


@pytest.mark.parametrize(("wrapper", "new"), BOTH)
def test_a_copy_records_for_itself(tmp_path, wrapper, new):
    env = wrapper(new(), tmp_path)
    run = run_parallel if new is Herd else run_aec
    run(env, seeds=[1])
    other = copy.deepcopy(env)
    assert type(other) is type(env)
    run(other, seeds=[2])
    other.close()
    env.close()
    seeds = [[e.seed for e in episodes_of(tmp_path, t)] for t in TraceRecordingReader(tmp_path).traces]
    assert sorted(map(str, seeds)) == sorted(map(str, [[1]] * 3 + [[2]] * 3))
    assert pickle.loads(pickle.dumps(wrapper)) is wrapper


@pytest.mark.parametrize(("wrapper", "new"), BOTH)
def test_a_copy_in_mid_episode_has_no_first_observation(tmp_path, wrapper, new):
    env = wrapper(new({"a": (0, 9), "b": (0, 9)}), tmp_path)
    env.reset(seed=1)
    actions = [{"a": 0, "b": 1}, {"a": 2, "b": 3}, {"a": 4, "b": 4}] if new is Herd else range(6)
    for action in actions[: len(actions) // 3]:
        env.step(action)
    other = copy.deepcopy(env)
    env.close()
    for action in actions[len(actions) // 3 :]:
        other.step(action)
    other.close()
    traces = [(trace, list(episodes_of(tmp_path, trace))) for trace in TraceRecordingReader(tmp_path).traces]
    found = [(t.metadata["agent"], e.headless, rows(e.actions)) for t, episodes in traces for e in episodes]
    last = {"a": 4, "b": 4 if new is Herd else 5}
    assert sorted(found) == [
        ("a", False, [0]),
        ("a", True, [2, last["a"]]),
        ("b", False, [1]),
        ("b", True, [3, last["b"]]),
    ]


@pytest.mark.parametrize("wrapper", [TraceRecordingParallelWrapper, TraceRecordingAECWrapper])
def test_what_is_no_environment_is_refused(tmp_path, wrapper):
    with pytest.raises(TraceError, match="expected an environment of PettingZoo"):
        wrapper(object(), tmp_path)


@pytest.mark.parametrize("wrapper", [TraceRecordingParallelWrapper, TraceRecordingAECWrapper])
def test_the_wrapper_for_the_other_kind_of_environment_is_named(tmp_path, wrapper):
    env, kind, other = (
        (aec(), "AECEnv", "TraceRecordingAECWrapper")
        if wrapper is TraceRecordingParallelWrapper
        else (Herd(), "ParallelEnv", "TraceRecordingParallelWrapper")
    )
    with pytest.raises(TraceError, match=f"this is a {kind}; record it with {other}"):
        wrapper(env, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("wrapper", "new"), BOTH)
def test_lanes_and_frames_are_refused(tmp_path, wrapper, new):
    with pytest.raises(TraceError, match=r"lanes: one environment has one lane; leave it out \(found 2\)"):
        wrapper(new(), tmp_path, lanes=2)
    with pytest.raises(TraceError, match=r"frames: only environments of gym and gymnasium are rendered; leave it out"):
        wrapper(new(), tmp_path, frames=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize(("wrapper", "new"), BOTH)
def test_what_agents_have_is_written_when_it_is_due_also_if_they_do_not_act_any_more(tmp_path, wrapper, new, ended):
    lives = {"a": (0, 99), "b": (0, 2 if ended else 99)}
    env = wrapper(new(lives), tmp_path, flush_interval=3600)
    env.unwrapped.length = 99
    env.reset(seed=1)

    def step():
        if new is Herd:
            env.step(dict.fromkeys(env.agents, 1))
        else:
            for _ in env.agents:
                env.step(None if env.terminations[env.agent_selection] else 1)

    for _ in range(5):
        step()
    assert by_agent(tmp_path) == {}
    before = set(threading.enumerate())
    env._recorders.deadline = 0  # an hour later
    step()
    step()  # in AEC, what runs is written when a step is finished
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert set(by_agent(tmp_path)) == {"a", "b"}
    assert 3000 < env._recorders.deadline - monotonic() <= 3600
    env.close()


def test_wrong_options_are_refused_at_once(tmp_path):
    with pytest.raises(TraceError, match="metadata: malformed"):
        TraceRecordingParallelWrapper(Herd(), tmp_path, metadata=3)
    with pytest.raises(TypeError):
        TraceRecordingAECWrapper(aec(), tmp_path, unknown=3)


def test_without_a_directory_one_is_made():
    env = TraceRecordingParallelWrapper(Herd())
    seen = run_parallel(env, seeds=[1])
    env.close()
    assert_recorded(env.directory, seen)


def test_pettingzoo_s_own_test_passes_through_the_recorder(tmp_path):
    test = pytest.importorskip("pettingzoo.test")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of what Herd itself does
        env = TraceRecordingParallelWrapper(Herd({"a": (0, 9), "b": (0, 9)}), tmp_path / "parallel")
        test.parallel_api_test(env, num_cycles=20)
        env.close()
        env = TraceRecordingAECWrapper(classic("tictactoe_v3"), tmp_path / "aec")
        test.api_test(env, num_cycles=50)
        env.close()
    assert all(len(episodes) for episodes in by_agent(tmp_path / "aec").values())


def test_a_game_of_pettingzoo_and_its_parallel_conversion_give_the_same_episodes(tmp_path):
    def act(agent, time):
        return (int(agent[-1]) + 1) * (time + 1) * (time + 3) % 3

    rps = pytest.importorskip("pettingzoo.classic.rps_v2")
    turns = TraceRecordingAECWrapper(rps.env(max_cycles=6), tmp_path / "aec")
    run_aec(turns, act=act)
    turns.close()
    parallel = TraceRecordingParallelWrapper(rps.parallel_env(max_cycles=6), tmp_path / "parallel")
    for seed in (1, 2):
        parallel.reset(seed=seed, options={"n": seed})
        time = 0
        while parallel.agents:
            parallel.step({agent: act(agent, time) for agent in parallel.agents})
            time += 1
    parallel.close()
    one, other = by_agent(tmp_path / "aec"), by_agent(tmp_path / "parallel")
    assert sorted(one) == sorted(other) == ["player_0", "player_1"]
    for agent in one:
        assert [len(episode) for episode in one[agent]] == [6, 6]
        assert same([content(e) for e in one[agent]], [content(e) for e in other[agent]])
