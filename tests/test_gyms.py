"""Every Gym: programs of users, as they were written for each version of gym and gymnasium that is installed.

`.ci/noxfile.py` runs this under all of them. Nothing here needs an interface that some version does not have: `start`,
`move` and `Core` speak the one of the version's time.
"""

import copy
import gc
import importlib
import os
import pickle
import sys
import warnings
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from environments import same, same_rows, version_of

from gym_recording import TraceError, TraceRecordingReader, TraceRecordingWrapper, replay, scan_recorded_traces
from gym_recording.check import check_recording
from gym_recording.cli import main
from gym_recording.test_recording import test_trace_recording as prove

pytestmark = pytest.mark.filterwarnings("ignore")  # old gyms warn of themselves, and of the NumPy that they meet

INSTALLED = [name for name in ("gym", "gymnasium") if find_spec(name)]
UNDERSCORED = (0, 9, 6)  # the first gym whose environments need no underscore before their methods
SILENT_LIMITS = (0, 12, 1)  # the first whose TimeLimit may be told from the info
SEEDED_RESETS = (0, 22)
FLAGS = (0, 26)
GYMNASIUM = (99,)  # newer than any gym


@pytest.fixture(params=INSTALLED)
def gym(request):
    for module in ("spaces", "wrappers"):
        importlib.import_module(f"{request.param}.{module}")
    return sys.modules[request.param]


def era(gym):
    """A version that says what the library can do."""
    return GYMNASIUM if gym.__name__ == "gymnasium" else version_of("gym")


def since(gym, version):
    if era(gym) < version:
        pytest.skip("this gym does not have it yet")


def until(gym, version):
    if era(gym) >= version:
        pytest.skip("this gym has it no more")


# ---- environments and loops of each time


OBSERVATIONS = {  # a space, and how observation n is written into buffers that are used again
    "vector": (lambda s: s.Box(0, 255, **box(3, "float32")), lambda b, n: b.fill(n)),
    "image": (lambda s: s.Box(0, 255, **box((20, 30, 3), "uint8")), lambda b, n: b.fill(n)),
    "dict": (
        # gym 0.7 has no Dict
        lambda s: getattr(s, "Dict", dict)(
            {"image": s.Box(0, 255, **box((8, 8, 3), "uint8")), "at": s.Box(0, 255, **box(1, "int64"))}
        ),
        lambda b, n: (b["image"].fill(n), b["at"].fill(n)),
    ),
    "tuple": (
        lambda s: s.Tuple((s.Box(0, 255, **box(2, "float64")), s.Box(0, 1, **box(1, "int8")))),
        lambda b, n: (b[0].fill(n), b[1].fill(n % 2)),
    ),
}
BUFFERS = {
    "vector": lambda: np.zeros(3, "float32"),
    "image": lambda: np.zeros((20, 30, 3), "uint8"),
    "dict": lambda: {"image": np.zeros((8, 8, 3), "uint8"), "at": np.zeros(1, "int64")},
    "tuple": lambda: (np.zeros(2, "float64"), np.zeros(1, "int8")),
}


def box(shape, dtype):
    """Arguments of a Box: before 0.9.6 it has no dtype."""
    shape = shape if isinstance(shape, tuple) else (shape,)
    old = "gym" in sys.modules and version_of("gym") < UNDERSCORED
    return {"shape": shape} if old else {"shape": shape, "dtype": np.dtype(dtype).type}


class Core:
    """What happens, in no interface: `length` steps, observations in a buffer that is used again."""

    length = 5
    closed = 0
    rendered = ()

    def prepare(self, gym, kind):
        self.observation_space = OBSERVATIONS[kind][0](gym.spaces)
        self.action_space = gym.spaces.Discrete(4)
        self.kind = kind
        self.buffer = BUFFERS[kind]()
        self.seeds = []
        self.random = np.random.RandomState(0)

    def observe(self):
        OBSERVATIONS[self.kind][1](self.buffer, self.at)
        return self.buffer

    def sow(self, seed):
        self.seeds.append(seed)
        self.random = np.random.RandomState(seed)

    def begin(self):
        self.at, self.steps = self.random.randint(100), 0
        return self.observe()

    def go(self, action):
        self.at += 1 + int(action)
        self.steps += 1
        return self.observe(), float(action) / 3, self.steps >= self.length, {"at": self.at}


class Underscored:
    """gym 0.7 to 0.9.5."""

    metadata = {"render.modes": ["human", "rgb_array"]}  # noqa: RUF012 (as gym has it)

    def _seed(self, seed=None):
        self.sow(seed)
        return [seed]

    def _reset(self):
        return self.begin()

    def _step(self, action):
        return self.go(action)

    def _render(self, mode="human", close=False):
        self.rendered += ((mode, close),)
        return np.zeros((2, 2, 3), "uint8") if mode == "rgb_array" else None

    def _close(self):
        self.closed += 1

    def _configure(self, **how):
        self.how = how


class Plain:
    """gym 0.9.6 to 0.21."""

    metadata = {"render.modes": ["human", "rgb_array"], "render_modes": ["human", "rgb_array"]}  # noqa: RUF012

    def seed(self, seed=None):
        self.sow(seed)
        return [seed]

    def reset(self):
        return self.begin()

    def step(self, action):
        return self.go(action)

    def render(self, mode="human"):
        self.rendered += ((mode, False),)
        return np.zeros((2, 2, 3), "uint8") if mode == "rgb_array" else None

    def close(self):
        self.closed += 1


class Seeded(Plain):
    """gym 0.22 to 0.25."""

    def reset(self, seed=None, return_info=False, options=None):
        if seed is not None:
            self.sow(seed)
        return (self.begin(), {"an": "info"}) if return_info else self.begin()


class Flagged(Core):
    """gym 0.26, gymnasium."""

    metadata = {"render_modes": ["human", "rgb_array"]}  # noqa: RUF012
    render_mode = "rgb_array"

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.sow(seed)
        return self.begin(), {"an": "info"}

    def step(self, action):
        observation, reward, terminated, info = self.go(action)
        return observation, reward, terminated, False, info

    def render(self):
        return np.zeros((2, 2, 3), "uint8")

    def close(self):
        self.closed += 1


INTERFACES = [(FLAGS, Flagged), (SEEDED_RESETS, Seeded), (UNDERSCORED, Plain), ((0,), Underscored)]
_classes = {}


def environment(gym, kind="vector", interface=None, **attributes):
    interface = interface or next(interface for first, interface in INTERFACES if era(gym) >= first)
    key = gym.__name__, interface
    if key not in _classes:
        name = f"Env_{gym.__name__}_{interface.__name__}"
        _classes[key] = type(name, (interface, Core, gym.Env), {"__module__": __name__})
        globals()[name] = _classes[key]  # so that it can be pickled
    env = _classes[key]()
    env.prepare(gym, kind)
    if SILENT_LIMITS <= era(gym) < (0, 17):  # TimeLimit fails there without a spec
        env.spec = SimpleNamespace(id="Mine-v0", max_episode_steps=None)
    for name, value in attributes.items():
        setattr(env, name, value)
    return env


def cart_pole(gym):
    """CartPole; the checker of gym 0.26 fails under NumPy 2."""
    return gym.make("CartPole-v1", **({"disable_env_checker": True} if FLAGS <= era(gym) < GYMNASIUM else {}))


def start(env, **arguments):
    """Resets; gives a copy of the observation."""
    result = env.reset(**arguments)
    return copy.deepcopy(result[0] if has_info(result) else result)


def has_info(result):
    return isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)


def move(env, action):
    """Steps; gives copies: the observation, the reward, whether it is over."""
    observation, reward, *done, info = copy.deepcopy(env.step(action))
    assert isinstance(info, dict)
    return observation, reward, any(done)


def loop(env, episodes=2, **arguments):
    """Episodes with fixed actions; gives what came back of each: observations, actions, rewards."""
    found = []
    for number in range(episodes):
        observations, actions, rewards, over = [start(env, **arguments)], [], [], False
        while not over:
            actions.append((number + len(actions)) % 2)
            observation, reward, over = move(env, actions[-1])
            observations.append(observation)
            rewards.append(reward)
        found.append((observations, actions, rewards))
    return found


def assert_recorded(directory, expected):
    """All of it is there, by the old way of reading and by the new one, and no rule of the format is broken."""
    scanned = []
    scan_recorded_traces(str(directory), lambda *arrays: scanned.append(arrays))
    assert len(scanned) == len(expected)
    for found, returned in zip(scanned, expected):
        assert all(map(same_rows, found, returned))
    for episode, (observations, _, rewards) in zip(TraceRecordingReader(directory), expected):
        assert (len(episode), len(episode.observations)) == (len(rewards), len(observations))
    assert list(check_recording(directory)) == []


def flags(directory):
    return [(len(e), e.terminated, e.truncated, e.ended_by) for e in TraceRecordingReader(directory)]


# ---- record, close, read


def test_an_environment_of_make_is_recorded(gym, tmp_path):
    env = TraceRecordingWrapper(cart_pole(gym), str(tmp_path))
    found = loop(env, 3)
    env.close()
    assert_recorded(tmp_path, found)
    assert [e.ended_by for e in TraceRecordingReader(tmp_path)] == ["terminated"] * 3
    (trace,) = TraceRecordingReader(tmp_path).traces
    assert trace.env["id"] == "CartPole-v1"
    assert trace.env["max_episode_steps"] == 500
    assert trace.env["action_space"]["n"] == 2
    assert trace.env["observation_space"]["shape"] == [4]
    assert trace.writer["library"].startswith(f"{gym.__name__} {'.'.join(map(str, version_of(gym.__name__)))}")


@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_observations_of_every_kind_come_back(gym, tmp_path, kind):
    env = TraceRecordingWrapper(environment(gym, kind), tmp_path)
    found = loop(env, 3)
    env.close()
    assert_recorded(tmp_path, found)
    assert flags(tmp_path) == [(5, True, False, "terminated")] * 3


def test_the_run_is_the_same_with_and_without_the_recorder(gym, tmp_path):
    runs = []
    for wrap in (lambda env: env, lambda env: TraceRecordingWrapper(env, tmp_path, infos=True, timestamps=True)):
        env = wrap(cart_pole(gym))
        arguments = {"seed": 5} if era(gym) >= SEEDED_RESETS else {}
        if era(gym) < FLAGS:
            env.seed(5)
        runs.append(loop(env, 2, **arguments))
        env.close()
    assert same(*runs)
    assert_recorded(tmp_path, runs[1])


def test_seeds_reach_the_environment_and_are_recorded(gym, tmp_path):
    inner = environment(gym)
    env = TraceRecordingWrapper(inner, tmp_path)
    if era(gym) < FLAGS:
        assert env.seed(5) == [5]
        start(env)
        start(env)
    if era(gym) >= SEEDED_RESETS:
        start(env, seed=6)
    start(env)
    env.close()
    expected = [5] * (era(gym) < FLAGS) + [6] * (era(gym) >= SEEDED_RESETS)
    assert inner.seeds == expected
    assert [e.seed for e in TraceRecordingReader(tmp_path) if e.seed is not None] == expected


def test_an_info_of_reset_is_told_from_the_observation(gym, tmp_path):
    since(gym, SEEDED_RESETS)
    env = TraceRecordingWrapper(environment(gym), tmp_path, infos=True)
    result = env.reset(**({} if era(gym) >= FLAGS else {"return_info": True}))
    assert result[1] == {"an": "info"}
    env.close()
    (episode,) = TraceRecordingReader(tmp_path)
    assert episode.observations.shape == (1, 3)
    assert episode.infos == [{"an": "info"}]


@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_a_replay_resets_and_steps_as_the_library_wants_it(gym, tmp_path, kind):
    env = TraceRecordingWrapper(environment(gym, kind), tmp_path, infos=True)
    for number in range(3):
        arguments = {"return_info": True} if SEEDED_RESETS <= era(gym) < FLAGS and number else {}
        if number < 2 and era(gym) >= SEEDED_RESETS:
            arguments["seed"] = 3 + number
        elif number < 2:
            env.seed(3 + number)
        loop(env, 1, **arguments)
    env.close()
    assert [one.verdict for one in replay(tmp_path, lambda: environment(gym, kind))] == ["equal"] * 3


def test_a_reset_without_return_info_returns_the_observation_alone(gym, tmp_path):
    until(gym, FLAGS)
    env = TraceRecordingWrapper(environment(gym, "tuple"), tmp_path, infos=True)
    assert isinstance(env.reset(), tuple)
    env.close()
    (episode,) = TraceRecordingReader(tmp_path)
    assert len(episode.observations[0]) == 2
    assert episode.infos == [{}]


def test_environments_of_the_old_interface_are_recorded_under_the_new_one(gym, tmp_path):
    since(gym, FLAGS)
    env = TraceRecordingWrapper(environment(gym, interface=Plain), tmp_path)
    found = loop(env)
    env.close()
    assert_recorded(tmp_path, found)
    assert flags(tmp_path) == [(5, True, False, "terminated")] * 2


def test_gym_0_25_gives_either_number_of_flags(gym, tmp_path):
    if era(gym)[:2] != (0, 25):
        pytest.skip("gym 0.25 has a switch for that")
    for new in (False, True):
        made = gym.make("CartPole-v1", new_step_api=new)
        directory = tmp_path / str(new)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # the recorder has no part in which it is
            env = TraceRecordingWrapper(made, directory)
        assert env.new_step_api is new
        env.reset()
        assert len(env.step(0)) == (5 if new else 4)
        outer = gym.wrappers.TimeLimit(env, 3, new_step_api=not new)
        outer.reset()
        assert len(outer.step(0)) == (4 if new else 5)
        outer.close()
        assert [(e.terminated, e.truncated) for e in TraceRecordingReader(directory)] == [(False, False)] * 2


def test_the_command_records_and_repeats_itself_with_a_seed(gym, tmp_path):
    command = ["record", "CartPole-v1", "--episodes", "2", "--library", gym.__name__]
    assert main([*command, str(tmp_path / "any")]) == 0
    assert [e.seed for e in TraceRecordingReader(tmp_path / "any")] == [None, None]
    seeded = []
    for name in "ab":
        assert main([*command, str(tmp_path / name), "--seed", "4"]) == 0
        seeded.append([(e.seed, e.observations.tolist()) for e in TraceRecordingReader(tmp_path / name)])
    assert [seed for seed, _ in seeded[0]] == [4, 5]
    assert seeded[0] == seeded[1]


def test_an_installation_is_proved():
    prove()


# ---- time limits


def limited(gym, env, steps):
    return gym.wrappers.TimeLimit(env, max_episode_steps=steps)


def test_a_time_limit_below_is_told_from_an_end(gym, tmp_path):
    env = TraceRecordingWrapper(limited(gym, environment(gym), 3), tmp_path)
    found = loop(env)
    env.close()
    assert_recorded(tmp_path, found)
    # Of the old ones nobody knows whether the environment ended in that step too.
    terminated = None if era(gym) < SILENT_LIMITS else False
    assert flags(tmp_path) == [(3, terminated, True, "truncated")] * 2


def test_an_end_before_the_time_limit_is_an_end(gym, tmp_path):
    env = TraceRecordingWrapper(limited(gym, environment(gym, length=3), 5), tmp_path)
    loop(env)
    env.close()
    assert flags(tmp_path) == [(3, True, False, "terminated")] * 2


def test_an_end_at_the_time_limit_is_at_least_no_mere_truncation(gym, tmp_path):
    env = TraceRecordingWrapper(limited(gym, environment(gym, length=3), 3), tmp_path)
    loop(env, 1)
    env.close()
    if era(gym) < SILENT_LIMITS:
        assert flags(tmp_path) == [(3, None, True, "truncated")]
    else:
        (found,) = flags(tmp_path)
        assert (found[1], found[3]) == (True, "terminated")


def test_a_time_limit_above_is_not_seen(gym, tmp_path):
    env = limited(gym, TraceRecordingWrapper(environment(gym), tmp_path), 3)
    found = loop(env)
    env.close()
    assert_recorded(tmp_path, found)
    assert flags(tmp_path) == [(3, False, False, "reset"), (3, False, False, "close")]


def test_a_limit_of_seconds_leaves_the_flags_open(gym, tmp_path):
    until(gym, SILENT_LIMITS)
    limit = gym.wrappers.TimeLimit(environment(gym), max_episode_seconds=1000)
    env = TraceRecordingWrapper(limit, tmp_path)
    loop(env, 1)
    env.reset()
    limit._episode_started_at -= 2000
    env.step(0)
    env.close()
    assert flags(tmp_path) == [(5, True, False, "terminated"), (1, None, None, "close")]


def test_a_limit_that_resets_within_the_step_leaves_the_flags_open(gym, tmp_path):
    until(gym, SILENT_LIMITS)
    inner = environment(gym)
    inner.metadata = {**inner.metadata, "semantics.autoreset": True}
    env = TraceRecordingWrapper(limited(gym, inner, 2), tmp_path)
    env.reset()
    assert [env.step(0)[2] for _ in range(2)] == [False, True]
    env.close()
    assert flags(tmp_path) == [(2, None, None, "close")]


# ---- wrappers around and below


def doubled(gym, env):
    """An ObservationWrapper and a RewardWrapper as they were written then."""
    old = "_" if era(gym) < UNDERSCORED else ""
    see = type("See", (gym.ObservationWrapper,), {f"{old}observation": lambda self, value: value * 2})
    gain = type("Gain", (gym.RewardWrapper,), {f"{old}reward": lambda self, value: value + 1})
    return gain(see(env))


def test_the_recorder_sees_what_is_below_it_and_not_what_is_above(gym, tmp_path):
    above = TraceRecordingWrapper(doubled(gym, environment(gym)), tmp_path / "above")
    found = loop(above)
    above.close()
    assert_recorded(tmp_path / "above", found)
    below = doubled(gym, TraceRecordingWrapper(environment(gym), tmp_path / "below"))
    assert same(loop(below), found)
    below.close()
    for raw, (observations, _, rewards) in zip(TraceRecordingReader(tmp_path / "below"), found):
        assert same_rows(raw.observations * 2, observations)
        assert same_rows(raw.rewards + 1, rewards)


def test_two_recorders_in_one_stack_record_each(gym, tmp_path):
    inner = TraceRecordingWrapper(environment(gym), tmp_path / "inner")
    outer = TraceRecordingWrapper(doubled(gym, inner), tmp_path / "outer")
    found = loop(outer)
    outer.close()
    assert_recorded(tmp_path / "outer", found)
    assert flags(tmp_path / "inner") == flags(tmp_path / "outer")
    twice = TraceRecordingWrapper(TraceRecordingWrapper(environment(gym), tmp_path / "a"), tmp_path / "b")
    loop(twice)
    twice.close()
    assert flags(tmp_path / "a") == flags(tmp_path / "b") == [(5, True, False, "terminated")] * 2


@pytest.mark.parametrize("above", [True, False])
def test_the_monitor_records_its_own_beside_it(gym, tmp_path, above):
    if not hasattr(gym.wrappers, "Monitor"):
        pytest.skip("this library has no Monitor")
    monitored = str(tmp_path / "monitor")

    def monitor(env):
        return gym.wrappers.Monitor(env, monitored, video_callable=False)

    env = cart_pole(gym)
    env = monitor(TraceRecordingWrapper(env, tmp_path / "trace")) if above else monitor(env)
    env = env if above else TraceRecordingWrapper(env, tmp_path / "trace")
    found = loop(env, 2)
    env.close()
    del env  # gym up to 0.10 closes the Monitor alone; then the recorder writes when it is collected
    gc.collect()
    assert_recorded(tmp_path / "trace", found)
    assert any(name.endswith(".stats.json") for name in os.listdir(monitored))


def test_the_classes_are_those_of_the_library(gym, tmp_path):
    inner = environment(gym)
    env = TraceRecordingWrapper(inner, tmp_path)
    assert isinstance(env, gym.Wrapper)
    assert env.unwrapped is inner
    assert env.observation_space == inner.observation_space
    assert env.action_space is inner.action_space
    assert "TraceRecordingWrapper" in str(env)


def test_rendering_passes_through(gym, tmp_path):
    env = TraceRecordingWrapper(environment(gym), tmp_path)
    env.reset()
    assert (env.render() if era(gym) >= FLAGS else env.render(mode="rgb_array")).shape == (2, 2, 3)
    if era(gym) < UNDERSCORED:
        env.render(close=True)
        assert env.env.rendered == (("rgb_array", False), ("human", True))
    env.close()
    assert env.env.closed == 1


def test_configure_passes_through(gym, tmp_path):
    until(gym, UNDERSCORED)
    env = TraceRecordingWrapper(environment(gym), tmp_path)
    env.configure(remotes=2)
    assert env.env.how == {"remotes": 2}
    loop(env, 1)
    env.close()
    assert flags(tmp_path) == [(5, True, False, "terminated")]


def autoreset(gym, env):
    wrapper = getattr(gym.wrappers, "AutoResetWrapper", getattr(gym.wrappers, "Autoreset", None))
    if wrapper is None:
        pytest.skip("this library has no wrapper that resets")
    return wrapper(env)


def test_a_wrapper_that_resets_belongs_above_the_recorder(gym, tmp_path):
    env = autoreset(gym, TraceRecordingWrapper(environment(gym), tmp_path / "below"))
    start(env)
    for _ in range(13):
        move(env, 1)
    env.close()
    assert [e.ended_by for e in TraceRecordingReader(tmp_path / "below")] == ["terminated"] * 2 + ["close"]
    with pytest.warns(UserWarning, match="put the recorder below"):
        TraceRecordingWrapper(autoreset(gym, environment(gym)), tmp_path / "above")


# ---- subclasses as they were written in 2017


class Underscores(TraceRecordingWrapper):
    """Methods with underscores, which gym up to 0.12.0 calls."""

    calls = ()

    def _seed(self, seed=None):
        self.calls += ("seed",)
        return super()._seed(seed)

    def _reset(self, **arguments):
        self.calls += ("reset",)
        return super()._reset(**arguments)

    def _step(self, action):
        self.calls += ("step",)
        return super()._step(action)

    def _close(self):
        self.calls += ("close",)
        return super()._close()


def test_a_subclass_with_underscores_is_called_and_records(gym, tmp_path):
    env = Underscores(environment(gym), tmp_path)
    if era(gym) < FLAGS:
        assert env.seed(3) == [3]
    found = loop(env, 1)
    env.close()
    assert_recorded(tmp_path, found)
    assert env.calls == ("seed",) * (era(gym) < FLAGS) + ("reset", *["step"] * 5, "close")
    assert env.env.closed == 1


def test_calling_the_underscored_methods_of_the_recorder_records(gym, tmp_path):
    until(gym, UNDERSCORED)
    env = TraceRecordingWrapper(environment(gym), tmp_path)
    env._reset()
    env._step(1)
    env._close()
    assert flags(tmp_path) == [(1, False, False, "close")]


class Plainly(TraceRecordingWrapper):
    """A subclass that has `seed`, `step` and so on of its own."""

    calls = ()

    def seed(self, seed=None):
        self.calls += ("seed",)
        return self.env.seed(seed)

    def reset(self, **arguments):
        self.calls += ("reset",)
        return super().reset(**arguments)

    def step(self, action):
        self.calls += ("step",)
        return super().step(action)


def test_a_subclass_has_its_own_methods(gym, tmp_path):
    env = Plainly(environment(gym), tmp_path)
    if era(gym) < FLAGS:
        env.seed(3)
    found = loop(env, 1)
    env.close()
    assert_recorded(tmp_path, found)
    assert env.calls == ("seed",) * (era(gym) < FLAGS) + ("reset", *["step"] * 5)


# ---- ends


def test_closing_twice_and_after_a_reset_in_mid_episode(gym, tmp_path):
    env = TraceRecordingWrapper(environment(gym), tmp_path)
    start(env), move(env, 1), start(env), move(env, 2), move(env, 1)
    env.close()
    env.close()
    assert flags(tmp_path) == [(1, False, False, "reset"), (2, False, False, "close")]


def test_a_with_block_closes_it(gym, tmp_path):
    if not hasattr(gym.Env, "__enter__"):
        pytest.skip("environments of this gym are no context managers")
    with TraceRecordingWrapper(environment(gym), tmp_path) as env:
        found = loop(env, 1)
    assert_recorded(tmp_path, found)
    assert env.env.closed == 1


def test_what_nobody_closes_is_written_when_it_is_collected(gym, tmp_path):
    env = TraceRecordingWrapper(environment(gym), tmp_path)
    start(env), move(env, 1)
    del env
    gc.collect()
    assert flags(tmp_path) == [(1, False, False, "close")]


def test_ctrl_c_in_a_step_loses_that_step_alone(gym, tmp_path):
    env = TraceRecordingWrapper(environment(gym), tmp_path)
    start(env), move(env, 1)
    go, env.env.go = env.env.go, lambda action: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        env.step(0)
    env.env.go = go
    move(env, 2)
    env.close()
    (episode,) = TraceRecordingReader(tmp_path)
    assert episode.actions.tolist() == [1, 2]
    assert episode.gaps == (1,)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
def test_a_copy_records_to_the_same_directory_as_a_recorder_of_its_own(gym, tmp_path, copied):
    env = TraceRecordingWrapper(environment(gym), tmp_path)
    start(env), move(env, 1)
    other = copied(env)
    assert type(other) is type(env)
    assert other.env is not env.env
    assert same(move(other, 2), move(env, 2))
    env.close()
    loop(other, 1)
    other.close()
    assert [len(e) for e in TraceRecordingReader(tmp_path)] == [2, 1, 5]
    assert [e.headless for e in TraceRecordingReader(tmp_path)] == [False, True, False]


def test_a_vector_environment_is_told_to_use_another_wrapper(gym, tmp_path):
    if find_spec(f"{gym.__name__}.vector") is None:
        pytest.skip("this gym has no vector environments")
    importlib.import_module(f"{gym.__name__}.vector")
    envs = gym.vector.SyncVectorEnv([lambda: environment(gym)] * 2)
    with pytest.raises(TraceError, match="vector environment"):
        TraceRecordingWrapper(envs, tmp_path)
    envs.close()


def test_an_environment_without_spaces_is_recorded(gym, tmp_path):
    inner = environment(gym)
    inner.observation_space = inner.action_space = None
    env = TraceRecordingWrapper(inner, tmp_path)
    found = loop(env, 1)
    env.close()
    assert_recorded(tmp_path, found)


# ---- frames


class Filmed:
    """What each interface above has, with frames that tell the time."""

    render_mode = None

    def shown(self):
        return np.full((4, 6, 3), self.steps, "uint8")


class FilmedUnderscored(Filmed, Underscored):
    def _render(self, mode="human", close=False):
        return self.shown() if mode == "rgb_array" else None


class FilmedPlain(Filmed, Plain):
    def render(self, mode="human"):
        return self.shown() if mode == "rgb_array" else None


class FilmedSeeded(Filmed, Seeded):
    render = FilmedPlain.render


class FilmedSingle(Filmed, Seeded):
    """gym 0.25 with a render_mode."""

    render_mode = "single_rgb_array"

    def render(self):
        return self.shown()


class FilmedFlagged(Filmed, Flagged):
    render_mode = "rgb_array"

    def render(self):
        return self.shown()


FILMED = {Underscored: FilmedUnderscored, Plain: FilmedPlain, Seeded: FilmedSeeded, Flagged: FilmedFlagged}


def assert_filmed(directory, lengths):
    episodes = list(TraceRecordingReader(directory))
    assert [len(episode) for episode in episodes] == lengths
    for episode in episodes:
        assert same(episode.frames[:, 0, 0, 0], np.arange(len(episode) + 1, dtype="uint8"))
    assert check_recording(directory) == []


def test_frames_are_recorded_by_the_interface_of_the_time(gym, tmp_path):
    interface = next(interface for first, interface in INTERFACES if era(gym) >= first)
    env = TraceRecordingWrapper(environment(gym, interface=FILMED[interface]), tmp_path, frames=True)
    loop(env, 2)
    env.close()
    assert_filmed(tmp_path, [5, 5])


def test_frames_of_gym_0_25_may_have_a_mode_of_their_own(gym, tmp_path):
    since(gym, (0, 25))
    until(gym, (0, 26))
    env = TraceRecordingWrapper(environment(gym, interface=FilmedSingle), tmp_path, frames=True)
    loop(env, 2)
    env.close()
    assert_filmed(tmp_path, [5, 5])
    with pytest.raises(TraceError, match="expected 'single_rgb_array' or None, found 'rgb_array'"):
        TraceRecordingWrapper(environment(gym, interface=FilmedFlagged), tmp_path, frames=True)


def test_a_mode_that_meant_nothing_is_not_looked_at(gym, tmp_path):
    until(gym, (0, 25))
    interface = next(interface for first, interface in INTERFACES if era(gym) >= first)
    inner = environment(gym, interface=FILMED[interface], render_mode="human")
    env = TraceRecordingWrapper(inner, tmp_path, frames=True)
    loop(env, 1)
    env.close()
    assert_filmed(tmp_path, [5])


def test_frames_of_a_real_environment_are_recorded(gym, tmp_path):
    since(gym, (0, 22))  # pyglet, before, needs a screen
    pytest.importorskip("pygame")
    mode = {"render_mode": "rgb_array"} if era(gym) >= FLAGS else {}
    checker = {"disable_env_checker": True} if FLAGS <= era(gym) < GYMNASIUM else {}
    env = TraceRecordingWrapper(gym.make("CartPole-v1", **mode, **checker), tmp_path, frames=True)
    found = loop(env, 1)
    env.close()
    (episode,) = TraceRecordingReader(tmp_path)
    assert episode.frames.shape == (len(found[0][1]) + 1, 400, 600, 3)
    assert (episode.frames[0] != episode.frames[-1]).any()
