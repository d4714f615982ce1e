"""What a vector environment's recording holds is what its sub-environments give alone: for each library and autoreset.

The same file runs under gymnasium 0.26 and later, gym 0.21 and later, and Stable-Baselines3; what is not installed is
skipped. Every sub-environment is played a second time alone, with the same seeds and actions, and all is compared.
"""

import copy
import itertools
import os
import re
import sys
import threading
import warnings
from functools import partial
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
from environments import Convertible, same, same_rows

from gym_recording import (
    ClosedError,
    TraceError,
    TraceRecordingReader,
    TraceRecordingVectorWrapper,
    TraceRecordingWrapper,
)

LANES = 4
MODES = {"next step": "NextStep", "same step": "SameStep", "disabled": "Disabled"}

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")


def version_of(name):
    if find_spec(name) is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(map(int, re.findall(r"\d+", import_module(name).__version__)[:2]))


GYMNASIUM, GYM, SB3 = map(version_of, ("gymnasium", "gym", "stable_baselines3"))
if GYM is not None and GYM < (0, 21):
    GYM = None  # its vector environments are too different


class Flavour:
    """A kind of vector environment: how it is made, when it resets, what it gives back."""

    def __init__(self, library, autoreset, make, **facts):
        self.library, self.autoreset, self.make = library, autoreset, make
        self.old = library == "gym" and GYM < (0, 26)  # four values, no info from reset
        self.four = self.old or library == "stable_baselines3"
        self.seeds_apart = library == "stable_baselines3" or (library == "gym" and GYM < (0, 22))
        self.masks = library == "gymnasium" and GYMNASIUM >= (1, 1) and facts.get("masks", True)
        self.by_column = not self.seeds_apart
        self.keeps_plans = facts.get("keeps_plans", False)
        self.rewards = facts.get("rewards", "float64")  # what it makes of them
        self.spaces = import_module("gymnasium" if library == "stable_baselines3" else library).spaces
        self.env = import_module("gymnasium" if library == "stable_baselines3" else library).Env


def flavours():
    """All that are installed, by name."""
    found = {}
    if GYMNASIUM is not None:
        from gymnasium import vector

        for name, cls, options in (
            ("sync", vector.SyncVectorEnv, {}),
            ("sync, no copies", vector.SyncVectorEnv, {"copy": False}),
            ("async", vector.AsyncVectorEnv, {}),
            ("async, no copies", vector.AsyncVectorEnv, {"copy": False}),
            ("async, no shared memory", vector.AsyncVectorEnv, {"shared_memory": False}),
        ):
            if GYMNASIUM < (1, 1):
                mode = "next step" if GYMNASIUM >= (1, 0) else "same step"
                modes = {mode: {}}
            else:
                modes = {mode: {"autoreset_mode": value} for mode, value in MODES.items()}
            for mode, more in modes.items():
                keeps = options.get("shared_memory") is False and mode == "next step"
                make = partial(cls, **options, **more)
                found[f"gymnasium {name}, {mode}"] = Flavour("gymnasium", mode, make, keeps_plans=keeps)
        if (0, 28) <= GYMNASIUM < (1, 0):
            from gymnasium.experimental import vector as experimental

            make = experimental.SyncVectorEnv
            found["gymnasium experimental sync"] = Flavour("gymnasium", "same step", make, masks=False)
    if GYM is not None:
        from gym import vector

        for name, cls, options in (
            ("sync", vector.SyncVectorEnv, {}),
            ("sync, no copies", vector.SyncVectorEnv, {"copy": False}),
            ("async", vector.AsyncVectorEnv, {}),
            ("async, no shared memory", vector.AsyncVectorEnv, {"shared_memory": False}),
        ):
            make = partial(cls, **options)
            found[f"gym {name}"] = Flavour("gym", "same step", make)
            if (0, 25) <= GYM < (0, 26):
                make = partial(cls, new_step_api=True, **options)
                found[f"gym {name}, new step"] = new = Flavour("gym", "same step", make)
                new.four = False
    if SB3 is not None:
        from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

        found["sb3 dummy"] = Flavour("stable_baselines3", "same step", DummyVecEnv, rewards="float32")
        make = partial(SubprocVecEnv, start_method="fork")
        found["sb3 subproc"] = Flavour("stable_baselines3", "same step", make)
    return found


FLAVOURS = flavours()
if not FLAVOURS:
    pytest.skip("needs gymnasium, gym 0.21 or later, or stable_baselines3", allow_module_level=True)


# ---- the environments

OBSERVATIONS = {
    "box": (lambda s: s.Box(-1e9, 1e9, (3,), np.float32), lambda v: np.array(v[:3], "float32")),
    "scalar box": (lambda s: s.Box(-1e9, 1e9, (), np.float64), lambda v: np.array(v[3] + v[1], "float64")),
    "image": (lambda s: s.Box(0, 255, (50, 60, 3), np.uint8), lambda v: np.full((50, 60, 3), v[3] % 256, "uint8")),
    "discrete": (lambda s: s.Discrete(10**6), lambda v: int(v[3])),
    "dict": (
        lambda s: s.Dict({"a": s.Box(0, 255, (2, 2), np.uint8), "b": s.Discrete(10**6)}),
        lambda v: {"a": np.full((2, 2), v[3] % 256, "uint8"), "b": int(v[3])},
    ),
    "tuple": (
        lambda s: s.Tuple((s.Box(-1e9, 1e9, (2,), np.float32), s.Discrete(10**6))),
        lambda v: (np.array(v[:2], "float32"), int(v[3])),
    ),
    "nested": (  # the keys in the order that Dict gives them
        lambda s: s.Dict({"m": s.MultiBinary(3), "t": s.Tuple((s.Discrete(10**6), s.Box(-1e9, 1e9, (), np.float32)))}),
        lambda v: {
            "m": np.array([v[3] >> k & 1 for k in range(3)], "int8"),
            "t": (int(v[3]), np.array(v[1], "float32")),
        },
    ),
}
ACTIONS = {
    "box": lambda s: s.Discrete(5),
    "scalar box": lambda s: s.Box(-1, 1, (2,), np.float32),
    "image": lambda s: s.Box(-1, 1, (), np.float32),
    "discrete": lambda s: s.MultiDiscrete([3, 4]),
    "dict": lambda s: s.Dict({"x": s.Discrete(5), "y": s.Box(-1, 1, (2,), np.float32)}),
    "tuple": lambda s: s.Tuple((s.Discrete(5), s.Box(-1, 1, (2,), np.float32))),
    "nested": lambda s: s.Discrete(5),
}


def number_in(action):
    """A number that depends on every part of an action."""
    if isinstance(action, dict):
        return sum(number_in(value) for value in action.values())
    return sum(map(number_in, action)) if isinstance(action, tuple) else int(np.sum(action) * 1000) % 991


class Fickle:
    """Episodes of 1 to 7 steps that end in both ways; every value depends on all that came before."""

    def __init__(self, kind, flavour, number):
        make, self.observe = OBSERVATIONS[kind]
        self.observation_space, self.action_space = make(flavour.spaces), ACTIONS[kind](flavour.spaces)
        self.flavour, self.number = flavour, number
        self.metadata, self.spec, self.render_mode = {"render_modes": ["rgb_array"]}, None, "rgb_array"
        self.rng = np.random.RandomState(number)
        self.fails = self.episode = 0

    def info(self):
        info = {"at": self.time, "half": self.time / 2, "where": np.array(self.state[:2], "float32")}
        if self.time % 2:
            info["odd"] = f"text {self.time}"
            info["dict"] = {"n": self.time, "text": "x"}
        if self.number == 1:
            info["only one has it"] = True
        return info

    def values(self):
        return [*self.state, self.episode * 1000 + self.time * 10 + self.last % 10]

    def seed(self, seed=None):
        self.rng = np.random.RandomState(seed)
        return [seed]

    def reset(self, *, seed=None, options=None, return_info=False):
        if seed is not None:
            self.seed(seed)
        self.length, self.ending = self.rng.randint(1, 8), self.rng.randint(3)
        if options and "length" in options:
            self.length = options["length"]
        self.episode, self.time, self.last = self.episode + 1, 0, 0
        self.state = [int(n) for n in self.rng.randint(1000, size=3)]
        observation = self.observe(self.values())
        if self.flavour.old:
            return (observation, self.info()) if return_info else observation
        return observation, self.info()

    def step(self, action):
        self.time += 1
        self.last = number_in(action)
        if self.fails == self.last != 0:
            raise RuntimeError("a sub-environment fails")
        self.state = [(3 * n + self.last + 1) % 997 for n in self.state]
        over = self.time >= self.length
        terminated, truncated = over and self.ending != 1, over and self.ending != 0
        if self.flavour.four and terminated:
            truncated = False  # one flag and a word cannot say both
        reward, info = self.state[0] / 8, self.info()
        if not self.flavour.old:
            return self.observe(self.values()), reward, terminated, truncated, info
        if truncated:
            info["TimeLimit.truncated"] = True
        return self.observe(self.values()), reward, over, info

    def render(self):
        return np.full((2 + self.number, 3, 3), self.values()[3] % 251, "uint8")

    def close(self):
        pass


def make_env(kind, flavour, number):
    cls = type("Fickle", (Fickle, flavour.env), {})
    return cls(kind, flavour, number)


def make_sub(kind, flavour, number):
    """As part of a vector environment: gym 0.21 needs help, because it gives no last observation."""
    env = make_env(kind, flavour, number)
    if flavour.library == "gym" and GYM < (0, 22):
        step = env.step

        def step_and_tell(action):
            observation, reward, done, info = step(action)
            return observation, reward, done, {**info, "terminal_observation": observation} if done else info

        env.step = step_and_tell
    return env


# ---- each sub-environment alone


class Alone:
    """Plays one sub-environment, and notes what a recording of it must hold."""

    def __init__(self, env, flavour):
        self.env, self.flavour, self.episodes, self.over = env, flavour, [], False

    def reset(self, seed=None, options=None, with_info=True):
        self.end("reset")
        arguments = {"seed": seed, "options": options}
        if self.flavour.library == "gym" and GYM < (0, 22):
            arguments = {}
            if seed is not None:
                self.env.seed(seed)
        elif self.flavour.old and with_info:
            arguments["return_info"] = True
        result = self.env.reset(**arguments)
        observation, info = result if not self.flavour.old or "return_info" in arguments else (result, {})
        episode = {
            "observations": [observation],
            "actions": [],
            "rewards": [],
            "infos": [info],
            "frames": [self.env.render()],
        }
        self.episodes.append({**episode, "seed": seed, "options": options, "flags": None, "ended_by": None})
        self.over = False

    def step(self, action):
        result = self.env.step(action)
        info = dict(result[-1])
        if self.flavour.old:
            done, truncated = result[2], "TimeLimit.truncated" in info
            flags = done and not truncated, done and truncated
            if GYM >= (0, 24):  # where vector environments take this out
                info.pop("TimeLimit.truncated", None)
        else:
            flags = result[2:4]
        episode, reward = self.episodes[-1], np.dtype(self.flavour.rewards).type(result[1])
        step = {"observations": result[0], "rewards": reward, "actions": action, "infos": info}
        for key, value in {**step, "frames": self.env.render()}.items():
            episode[key].append(value)
        episode["flags"] = flags
        self.over = any(flags)

    def end(self, why):
        if self.episodes and self.episodes[-1]["ended_by"] is None:
            episode = self.episodes[-1]
            terminated, truncated = episode["flags"] or (None, None)
            episode["ended_by"] = "terminated" if terminated else "truncated" if truncated else why


class Both:
    """A recorded vector environment and its sub-environments alone, which are told to do the same."""

    def __init__(self, directory, flavour, kind="box", **options):
        self.flavour, self.directory = flavour, directory
        self.vector = flavour.make([lambda n=n: make_sub(kind, flavour, n) for n in range(LANES)])
        self.envs = TraceRecordingVectorWrapper(self.vector, directory, infos=True, durability="none", **options)
        self.alone = [Alone(make_env(kind, flavour, n), flavour) for n in range(LANES)]
        space = ACTIONS[kind](flavour.spaces)
        space.seed(7)
        self.actions = space
        self.due = [False] * LANES

    def reset(self, seed=None, options=None, mask=None):
        flavour, with_info = self.flavour, True
        seeds = [seed + n for n in range(LANES)] if isinstance(seed, int) else seed or [None] * LANES
        if flavour.seeds_apart:
            if seed is not None:
                self.envs.seed(seed)
            if flavour.library == "gym":
                options = None
            elif options is not None:
                self.envs.set_options(options)
            self.envs.reset()
        else:
            arguments = {} if options is None and mask is None else {"options": dict(options or {})}
            if mask is not None:
                arguments["options"]["reset_mask"] = np.array(mask)
                options = options or {}
            if flavour.old:
                with_info = arguments["return_info"] = seed is not None
            self.envs.reset(seed=seed, **arguments)
        for number, alone in enumerate(self.alone):
            if mask is None or mask[number]:
                alone.reset(seeds[number], options, with_info)
                if not flavour.keeps_plans:
                    self.due[number] = False

    def step(self):
        flavour = self.flavour
        each = [self.actions.sample() for _ in range(LANES)]
        result = self.envs.step(batch(each) if flavour.by_column else each)
        for number, alone in enumerate(self.alone):
            if self.due[number]:
                alone.reset(with_info=not flavour.old)
                self.due[number] = False
                continue
            alone.step(each[number])
            if alone.over:
                if flavour.autoreset == "same step":
                    alone.reset(with_info=not flavour.old)
                self.due[number] = flavour.autoreset == "next step"
        if flavour.autoreset == "disabled" and any(alone.over for alone in self.alone):
            self.reset(mask=[alone.over for alone in self.alone])
        return result

    def close(self):
        self.envs.close()
        for alone in self.alone:
            alone.end("close")

    def compare(self):
        """Holds the recording against what was played alone."""
        reader = TraceRecordingReader(self.directory)
        found = {number: [] for number in range(LANES)}
        for episode in reader:
            found[episode.lane].append(episode)
        assert len(reader.traces) == 1
        for number, alone in enumerate(self.alone):
            assert len(found[number]) == len(alone.episodes), number
            # Streamed ones may have got their numbers late; `started` has the order.
            for episode, expected in zip(sorted(found[number], key=lambda e: e.started), alone.episodes):
                for name in ("observations", "actions", "rewards"):
                    assert same_rows(getattr(episode, name), expected[name]), (number, name)
                flags = tuple(map(bool, expected["flags"])) if expected["flags"] else (None, None)
                assert (episode.terminated, episode.truncated) == flags
                assert (episode.ended_by, episode.seed) == (expected["ended_by"], expected["seed"])
                assert episode.options == expected["options"]
                assert (episode.headless, episode.gaps) == (False, ())
                if episode.frames is not None:
                    frames = expected["frames"]
                    if self.flavour.autoreset == "same step" and any(flags):
                        frames[-1] = None  # nobody could render it
                    assert len(episode.frames) == len(frames)
                    assert all(a is None if b is None else same(a, b) for a, b in zip(episode.frames, frames))
                assert len(episode.infos) == len(expected["infos"])
                for info, own in zip(episode.infos, expected["infos"]):
                    assert set(info) == set(own)
                    assert all(same_info(info[key], own[key]) for key in own), (info, own)
        return found


def same_info(found, expected):
    """Equal, but for the kind of number, which the vector environment has made its own."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same_info(found[k], expected[k]) for k in found)
    return bool(np.all(found == expected)) and np.asarray(found).dtype == np.asarray(expected).dtype


def batch(values):
    """The values of the sub-environments as one."""
    first = values[0]
    if isinstance(first, dict):
        return {key: batch([value[key] for value in values]) for key in first}
    return tuple(map(batch, zip(*values))) if isinstance(first, tuple) else np.stack(values)


def cases():
    for name, flavour in FLAVOURS.items():
        for kind in OBSERVATIONS:
            if flavour.library == "stable_baselines3" and kind in ("nested", "tuple"):
                continue  # it has no nested spaces, and its buffers of tuples take no plain numbers
            if kind == "scalar box" and flavour.library == "gym" and GYM < (0, 22):
                continue  # its workers cannot write them
            yield pytest.param(flavour, kind, id=f"{name}, {kind}")


@pytest.mark.parametrize(("flavour", "kind"), list(cases()))
def test_a_lane_holds_what_its_sub_environment_gives_alone(flavour, kind, tmp_path):
    both = Both(tmp_path, flavour, kind)
    both.reset(seed=5)
    for _ in range(20):
        both.step()
    both.reset(seed=[9, 8, 7, 6] if not flavour.seeds_apart else 70)  # in mid-episode
    for _ in range(12):
        both.step()
    both.reset(options={"length": 3})
    for _ in range(9):
        both.step()
    if flavour.masks:
        both.reset(seed=[1, 2, 3, 4], mask=[True, False, False, True])
        for _ in range(9):
            both.step()
    both.close()
    found = both.compare()
    lengths = [len(episode) for number in found for episode in found[number]]
    assert {1, 2, 3, 4, 5, 6} <= set(lengths)
    ends = {episode.ended_by for number in found for episode in found[number]}
    assert {"terminated", "truncated", "reset"} <= ends


SOME = [pytest.param(flavour, id=name) for name, flavour in FLAVOURS.items() if "copies" not in name]
RENDERS = GYMNASIUM is not None and GYMNASIUM >= (1, 0)


@pytest.mark.parametrize("options", [{}, {"flush_interval": 0}], ids=["at once", "streamed"])
@pytest.mark.parametrize("flavour", [one for one in SOME if RENDERS and one.id.startswith("gymnasium")])
def test_a_lane_has_the_frames_of_its_sub_environment(flavour, options, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        both = Both(tmp_path, flavour, "discrete", frames=True, **options)
        both.reset(seed=5)
        for _ in range(15):
            both.step()
        if flavour.masks:
            both.reset(seed=[1, 2, 3, 4], mask=[True, False, False, True])
            for _ in range(9):
                both.step()
        both.close()
    found = both.compare()
    assert all(episode.frames is not None for number in found for episode in found[number])
    said = [str(warning.message) for warning in caught if "frame" in str(warning.message)]
    lost = "not recorded: frames: no last frames of episodes: the vector environment resets in the step that ends them"
    assert said == ([lost] * LANES if flavour.autoreset == "same step" else [])


@pytest.mark.parametrize("flavour", [one for one in SOME if not (RENDERS and one.id.startswith("gymnasium"))])
def test_vector_environments_that_give_no_frames_are_refused(flavour, tmp_path):
    with pytest.raises(TraceError, match=r"frames: it gives no frames \(expected gymnasium 1.0 or later"):
        Both(tmp_path, flavour, frames=True)


def test_frames_of_a_vector_environment_that_renders_otherwise_cost_no_step(tmp_path):
    if not RENDERS:
        pytest.skip("needs gymnasium 1.0 or later")
    gives = {"raises": ValueError("lost"), "too few": (np.zeros((2, 2), "uint8"),) * 2, "none": None}
    for name, frames in gives.items():

        def render(self, frames=frames):
            if isinstance(frames, Exception):
                raise frames
            return frames

        with pytest.raises(TraceError, match=r"render_mode: .* found None"):
            record_spoken(tmp_path / "refused", frames=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            steps = [step_of((n, n, n)) for n in range(3)]
            envs = record_spoken(tmp_path / name, *steps, frames=True, render=render, render_mode="rgb_array")
            envs.reset()
            for _ in range(3):
                envs.step([0, 0, 0])
            envs.close()
        assert len([one for one in caught if "not recorded: frames" in str(one.message)]) == 3, name
        for episode in TraceRecordingReader(tmp_path / name):
            assert (len(episode), episode.gaps, episode.frames) == (3, (), [None] * 4)


SYNC = [param for param in SOME if "sync" in param.id.split(",")[0].split() or "dummy" in param.id]


@pytest.mark.parametrize("options", [{"flush_interval": 0}, {"batch_bytes": 0}, {"batch_bytes": 3000}], ids=str)
@pytest.mark.parametrize("flavour", SYNC)
def test_lanes_that_are_written_while_they_run_hold_the_same(flavour, options, tmp_path):
    both = Both(tmp_path, flavour, "dict", **options)
    both.reset(seed=5)
    for _ in range(20):
        both.step()
    both.envs.recording.save_complete()
    both.step()
    both.close()
    both.compare()


@pytest.mark.parametrize("flavour", SOME)
def test_a_step_in_two_halves_is_recorded_too(flavour, tmp_path):
    both = Both(tmp_path, flavour)
    envs = both.envs
    if not hasattr(envs, "step_async"):
        pytest.skip("steps and resets of this library have no halves")
    assert envs.step.__func__ is TraceRecordingVectorWrapper.step
    both.envs = Halves(envs)
    both.reset(seed=5)
    for _ in range(12):
        both.step()
    both.reset()
    both.step()
    both.close()
    both.compare()


class Halves:
    """Makes steps and resets in two halves, where there are two."""

    def __init__(self, envs):
        self.envs = envs

    def __getattr__(self, name):
        return getattr(self.envs, name)

    def step(self, actions):
        self.envs.step_async(actions)
        return self.envs.step_wait()

    def reset(self, **arguments):
        if not hasattr(type(self.envs), "reset_async"):
            return self.envs.reset(**arguments)
        self.envs.reset_async(**arguments)
        return self.envs.reset_wait(**arguments)


@pytest.mark.parametrize("flavour", SYNC)
def test_the_wrapper_is_one_of_the_library_and_passes_everything_on(flavour, tmp_path):
    both = Both(tmp_path, flavour)
    kind = type(both.envs)
    assert (kind.__name__, kind.__module__) == ("TraceRecordingVectorWrapper", "gym_recording.wrappers.vector")
    base = next(cls for cls in kind.__mro__ if cls.__name__ in ("VectorWrapper", "VectorEnvWrapper", "VecEnvWrapper"))
    assert base.__module__.partition(".")[0] == flavour.library
    assert both.envs.unwrapped is both.vector
    assert both.envs.num_envs == LANES
    assert both.envs.directory == str(tmp_path)
    both.reset(seed=1)
    result = both.step()
    assert len(result) == (4 if flavour.four else 5)
    description = both.envs.recording._trace.members["env"]
    assert description["observation_space"]["shape"] == [3]  # of one sub-environment
    both.close()
    with pytest.raises(ClosedError):
        both.step()


@pytest.mark.parametrize("flavour", SYNC)
def test_each_wrapper_names_the_other(flavour, tmp_path):
    vector = flavour.make([partial(make_env, "box", flavour, 0)])
    with pytest.raises(TraceError, match="TraceRecordingVectorWrapper"):
        TraceRecordingWrapper(vector, tmp_path)
    with pytest.raises(TraceError, match="TraceRecordingWrapper"):
        TraceRecordingVectorWrapper(make_env("box", flavour, 0), tmp_path)
    assert list(tmp_path.iterdir()) == []
    vector.close()


@pytest.mark.parametrize("flavour", SYNC)
def test_a_sub_environment_that_raises_cuts_the_episodes_and_nothing_else(flavour, tmp_path):
    both = Both(tmp_path, flavour)
    both.reset(seed=5)
    for _ in range(6):
        both.step()
    while both.due[2]:  # a step that is only a reset fails not
        both.step()
    failing = np.array([1] * LANES)
    both.envs.unwrapped.envs[2].fails = number_in(failing[0])
    with pytest.raises(RuntimeError, match="a sub-environment fails"):
        both.envs.step(failing)
    both.envs.unwrapped.envs[2].fails = 0
    both.envs.step(np.array([2] * LANES))
    before = [alone.episodes[-1] for alone in both.alone]
    both.envs.reset()
    both.envs.close()
    reader = TraceRecordingReader(tmp_path)
    for number, last in enumerate(before):
        episodes = sorted((e for e in reader if e.lane == number), key=lambda e: (e.started is None, e.started or ""))
        whole = [episode for episode in episodes if not episode.headless]
        played = [episode for episode in whole if len(episode.rewards)]
        expected = [episode for episode in both.alone[number].episodes if episode["actions"]]
        # No step that failed is there, and none twice.
        for found, own in zip(played, expected):
            assert same_rows(found.actions, own["actions"])
            assert same_rows(found.observations, own["observations"])
        assert len(played) == len(expected), (number, last)
        for episode in episodes:
            assert not episode.headless or (len(episode) == 1 and episode.actions[0] == 2)


# ---- a vector environment of which every word is known

needs_gymnasium = pytest.mark.skipif(GYMNASIUM is None or GYMNASIUM < (1, 1), reason="needs gymnasium 1.1 or later")


class Spoken:
    """Three lanes; what it returns is what it is told, and observations may be any objects."""

    def __init__(self, *steps, metadata=(), count=3):
        self.num_envs, self.metadata, self.script = count, dict(metadata), list(steps)
        spaces = import_module("gymnasium").spaces
        self.single_observation_space = self.observation_space = None
        self.single_action_space, self.action_space = spaces.Discrete(9), None

    def reset(self, **arguments):
        return (0, 0, 0), {}

    def step(self, actions):
        self.actions = actions
        step = self.script.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step


def record_spoken(directory, *steps, **options):
    """A wrapper around such an environment."""
    from gymnasium.vector import VectorEnv

    options = {"infos": True, "durability": "none", **options}
    members = {name: options.pop(name) for name in ("render", "render_mode") if name in options}
    spoken = type("Spoken", (Spoken, VectorEnv), members)(*steps, metadata=options.pop("metadata", {}))
    return TraceRecordingVectorWrapper(spoken, directory, **options)


def step_of(observations, terminated=(0, 0, 0), infos=None, rewards=(1.0, 2.0, 3.0)):
    flags = [bool(flag) for flag in terminated]
    return observations, list(rewards), flags, [False] * 3, {} if infos is None else infos


def lanes_in(directory):
    """The episodes of each lane, in the order in which they began."""
    found = {}
    for episode in sorted(TraceRecordingReader(directory), key=lambda e: e.started or "~"):
        found.setdefault(episode.lane, []).append(episode)
    return found


@needs_gymnasium
@pytest.mark.parametrize("told", [True, False])
def test_an_environment_that_does_not_say_when_it_resets_shows_it_at_the_first_end(told, tmp_path):
    final = {"final_obs": np.array([None, 1.5, None]), "_final_obs": np.array([False, True, False])} if told else {}
    envs = record_spoken(tmp_path, step_of((1, 1, 1), (0, 1, 0), final), step_of((2, 2, 2)))
    envs.reset()
    envs.step([4, 5, 6])
    envs.step([7, 8, 9])
    envs.close()
    first, second = lanes_in(tmp_path)[1]
    assert (list(first.observations), list(first.actions)) == ([0, 1.5 if told else 1], [5])
    assert first.ended_by == "terminated"
    assert (list(second.observations), list(second.actions)) == (([1, 2], [8]) if told else ([2], []))
    assert [len(episode) for episode in lanes_in(tmp_path)[0]] == [2]


@needs_gymnasium
def test_a_last_observation_that_is_not_given_costs_the_last_step_and_is_said_once(tmp_path):
    envs = record_spoken(
        tmp_path,
        step_of((1, 1, 1)),
        step_of((2, 9, 2), (0, 1, 0)),
        step_of((3, 8, 3), (0, 1, 0)),
        metadata={"autoreset_mode": "SameStep"},
    )
    envs.reset()
    envs.step([1, 1, 1])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        envs.step([2, 2, 2])
        envs.step([3, 3, 3])
    envs.close()
    assert ["terminal_observation" in str(warning.message) for warning in said] == [True]
    episodes = lanes_in(tmp_path)
    assert [list(episode.observations) for episode in episodes[1]] == [[0, 1], [9], [8]]
    assert [list(episode.observations) for episode in episodes[0]] == [[0, 1, 2, 3]]


@needs_gymnasium
def test_infos_without_masks_are_rows_where_they_have_a_row_for_each_and_else_for_all(tmp_path):
    infos = {
        "row": [1, 2, 3],
        "all": 7,
        "text": "abc",
        "deep": {"x": np.array([4, 5, 6]), "_x": np.array([True, False, True])},
        "some": np.array([1.5, 0, 0]),
        "_some": np.array([True, False, False]),
    }
    envs = record_spoken(tmp_path, step_of((1, 1, 1), infos=infos))
    envs.reset()
    envs.step([1, 1, 1])
    envs.close()
    found = [lanes_in(tmp_path)[number][0].infos[1] for number in range(3)]
    common = {"all": 7, "text": "abc"}
    assert found == [
        {"row": 1, **common, "deep": {"x": 4}, "some": 1.5},
        {"row": 2, **common, "deep": {}},
        {"row": 3, **common, "deep": {"x": 6}},
    ]


@needs_gymnasium
def test_a_value_that_cannot_be_stored_costs_its_own_lane_a_step_and_no_other(tmp_path):
    envs = record_spoken(tmp_path, step_of((1, object(), 1)), step_of((2, 2, 2)))
    envs.reset()
    with pytest.raises(TraceError, match="observations: cannot store"):
        envs.step([1, 1, 1])
    envs.step([2, 2, 2])
    envs.close()
    episodes = lanes_in(tmp_path)
    assert [list(episodes[number][0].actions) for number in range(3)] == [[1, 2], [2], [1, 2]]
    assert [episodes[number][0].gaps for number in range(3)] == [(), (0,), ()]


@needs_gymnasium
def test_an_action_that_cannot_be_stored_is_not_stepped_and_nothing_is_recorded(tmp_path):
    envs = record_spoken(tmp_path, step_of((1, 1, 1)))
    envs.reset()
    with pytest.raises(TraceError, match="actions: cannot store"):
        envs.step([1, object(), 1])
    assert not hasattr(envs.unwrapped, "actions")
    with pytest.raises(TraceError, match=r"actions.*expected 3, one a lane, found 2"):
        envs.step([1, 1])
    envs.step(iter([2, 3, 4]))
    assert envs.unwrapped.actions == [2, 3, 4]
    envs.close()
    assert [[list(e.actions), e.gaps] for (e,) in lanes_in(tmp_path).values()] == [[[2], ()], [[3], ()], [[4], ()]]


@needs_gymnasium
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_an_interrupt_between_lanes_leaves_whole_episodes_and_doubles_nothing(mode, tmp_path):
    infos = {"final_obs": [5, 5, 5], "_final_obs": [True, False, True]} if mode == "SameStep" else {}
    interrupting = (1, Convertible(KeyboardInterrupt()), 1)
    envs = record_spoken(
        tmp_path,
        step_of(interrupting, (1, 0, 1), infos),  # lane 0 has recorded it, 1 half, 2 not
        step_of((2, 2, 2)),
        step_of((3, 3, 3)),
        metadata={"autoreset_mode": mode},
    )
    envs.reset()
    with pytest.raises(KeyboardInterrupt):
        envs.step([1, 1, 1])
    envs.step([2, 2, 2])
    envs.step([3, 3, 3])
    envs.close()
    found = {
        number: [(list(e.observations), list(e.actions), e.headless) for e in episodes]
        for number, episodes in lanes_in(tmp_path).items()
    }
    after = {  # lane 0; lane 2
        "NextStep": ([([0, 1], [1], False), ([2, 3], [3], False)], [([0], [], False), ([2, 3], [3], False)]),
        "SameStep": (
            [([0, 5], [1], False), ([1, 2, 3], [2, 3], False)],
            [([0], [], False), ([2, 3], [2, 3], True)],
        ),
        "Disabled": ([([0, 1, 2, 3], [1, 2, 3], False)], [([0], [], False), ([2, 3], [2, 3], True)]),
    }[mode]
    assert found == {0: after[0], 1: [([0], [], False), ([2, 3], [2, 3], True)], 2: after[1]}


@needs_gymnasium
def test_a_recorder_that_is_closed_in_the_middle_of_a_step_has_what_came_before(tmp_path):
    envs = record_spoken(tmp_path, step_of((1, 1, 1)), step_of((2, 2, 2)))
    envs.reset()
    envs.step([1, 1, 1])
    inner_step = envs.unwrapped.step

    def step(actions):
        envs.recording.close()
        return inner_step(actions)

    envs.unwrapped.step = step
    assert envs.step([2, 2, 2])[0] == (2, 2, 2)
    assert [len(episodes[0]) for episodes in lanes_in(tmp_path).values()] == [1, 1, 1]
    with pytest.raises(ClosedError):
        envs.step([3, 3, 3])


@needs_gymnasium
@pytest.mark.parametrize("result", [None, (1, 2, 3), ((1, 1, 1), [0.0] * 3, [False] * 2, [False] * 3, {})], ids=str)
def test_what_no_step_returns_is_an_error_and_the_next_step_is_recorded(result, tmp_path):
    envs = record_spoken(tmp_path, result, step_of((2, 2, 2)))
    envs.reset()
    with pytest.raises(TraceError, match=r"step: not what it returns \(expected 4 or 5 values for 3 lanes, found"):
        envs.step([1, 1, 1])
    envs.step([2, 2, 2])
    envs.close()
    assert [[len(e) for e in episodes] for episodes in lanes_in(tmp_path).values()] == [[0, 1]] * 3


@needs_gymnasium
def test_the_options_of_a_masked_reset_are_recorded_without_the_mask(tmp_path):
    envs = record_spoken(tmp_path, step_of((1, 1, 1)))
    envs.reset()
    envs.step([1, 1, 1])
    envs.reset(options={"reset_mask": np.array([False, True, False]), "a": 1})
    envs.close()
    assert [[e.options for e in episodes] for episodes in lanes_in(tmp_path).values()] == [
        [None],
        [None, {"a": 1}],
        [None],
    ]


@needs_gymnasium
def test_an_episode_is_over_with_the_step_that_ends_it(tmp_path):
    envs = record_spoken(tmp_path, step_of((1, 1, 1), (0, 1, 0)), metadata={"autoreset_mode": "NextStep"})
    envs.reset()
    envs.step([1, 1, 1])
    assert len(envs.recording.episodes) == 1
    assert not envs.recording.lanes[1].running
    envs.close()


@needs_gymnasium
def test_a_copy_is_a_recorder_of_its_own_with_as_many_lanes(tmp_path):
    envs = record_spoken(tmp_path, step_of((1, 1, 1)))
    envs.reset()
    other = copy.deepcopy(envs)
    other.reset()
    for each in (envs, other):
        each.step([1, 2, 3])
        each.close()
    reader = TraceRecordingReader(tmp_path)
    assert len(reader.traces) == 2
    assert sorted((e.lane, list(e.actions)) for e in reader) == [(n, [n + 1]) for n in range(3) for _ in range(2)]


@needs_gymnasium
def test_an_int_seed_of_an_environment_that_is_no_sum_of_others_is_recorded_as_it_was_given(tmp_path):
    envs = record_spoken(tmp_path)
    envs.reset(seed=5, options={"a": 1})
    envs.close()
    assert [(e.seed, e.options) for (e,) in lanes_in(tmp_path).values()] == [(5, {"a": 1})] * 3


@needs_gymnasium
def test_many_lanes_take_no_thread_no_descriptor_and_one_trace(tmp_path):
    from gymnasium.vector import VectorEnv

    count = 600
    never = np.zeros(count, bool)
    step, reset = [  # for every third lane
        (tuple(range(count)), np.ones(count), flags, never, {}) for flags in (np.arange(count) % 3 == 0, never)
    ]
    steps, metadata = [step, reset] * 3, {"autoreset_mode": "NextStep"}
    many = type("Many", (Spoken, VectorEnv), {})(*steps, metadata=metadata, count=count)
    many.reset = lambda: (tuple(range(count)), {})
    threads, descriptors = threading.active_count(), len(os.listdir("/dev/fd"))
    envs = TraceRecordingVectorWrapper(many, tmp_path)
    envs.reset()
    for number in range(6):
        if number == 3:
            envs.recording.deadline = 0  # a flush interval has gone: all that runs is written
        envs.step(np.arange(count))
    assert threading.active_count() <= threads + 1 + 16  # the commit, and those that wait for its files
    envs.recording.save_complete()
    assert threading.active_count() == threads
    assert len(os.listdir("/dev/fd")) <= descriptors + 1  # the lock
    envs.close()
    reader = TraceRecordingReader(tmp_path)
    assert len(reader.traces) == 1
    lengths = {}
    for episode in reader:
        lengths.setdefault(episode.lane, []).append(len(episode))
    assert {lane: sum(found) for lane, found in lengths.items()} == {n: 3 if n % 3 == 0 else 6 for n in range(count)}


# ---- interrupts at every moment


class Truthful:
    """Two lanes whose observations tell the lane, the episode and the time; it knows which action led to which."""

    lengths = ((1, 3, 2, 1), (2, 1, 1, 4))

    def __init__(self, mode):
        self.num_envs, self.metadata, self.mode = 2, {"autoreset_mode": MODES[mode]}, mode
        self.single_action_space = import_module("gymnasium").spaces.Discrete(9)
        self.at, self.due, self.led = [[0, 0], [0, 0]], [False, False], {}

    def tell(self, lane):
        episode, step = self.at[lane]
        return 10000 * lane + 100 * episode + step

    def begin(self, lane):
        self.at[lane] = [self.at[lane][0] + 1, 0]

    def reset(self, seed=None, options=None):
        for lane in range(2):
            if options is None or options["reset_mask"][lane]:
                self.begin(lane)
                self.due[lane] = False
        return tuple(map(self.tell, range(2))), {}

    def step(self, actions):
        flags, final = [False, False], np.array([None, None])
        for lane in range(2):
            if self.due[lane] and self.mode == "next step":
                self.begin(lane)
                self.due[lane] = False
                continue
            self.at[lane][1] += 1
            self.led[self.tell(lane)] = int(actions[lane])
            flags[lane] = self.at[lane][1] >= self.lengths[lane][self.at[lane][0] % 4]
            self.due[lane] = flags[lane]
            if flags[lane] and self.mode == "same step":
                final[lane] = self.tell(lane)
                self.begin(lane)
                self.due[lane] = False
        infos = {"final_obs": final, "_final_obs": np.array([one is not None for one in final])}
        seen = tuple(map(self.tell, range(2)))
        return seen, [0.0, 0.0], flags, [False, False], infos if self.mode == "same step" else {}


def interrupting_at(number):
    """A function for `sys.settrace` that interrupts before the line of that number, of the package's."""
    lines = itertools.count()

    def trace(frame, event, argument):
        if f"gym_recording{os.sep}" not in frame.f_code.co_filename:
            return None
        if event == "line" and next(lines) == number:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    return trace


def play_interrupted(directory, mode, number):
    """Steps and resets of which one is interrupted, if there are so many lines; says whether, and what was played."""
    from gymnasium.vector import VectorEnv

    truth = type("Truthful", (Truthful, VectorEnv), {})(mode)
    envs = TraceRecordingVectorWrapper(truth, directory, durability="none")
    envs.reset()
    whole, done = [], False
    for step in range(9):
        before = set(truth.led)
        if step == 2:
            sys.settrace(interrupting_at(number))
        try:
            envs.step([10 * step + 1, 10 * step + 2])
            if step == 3 or (mode == "disabled" and any(truth.due)):
                envs.reset(options={"reset_mask": np.array(truth.due if mode == "disabled" else [True, False])})
            whole += sorted(set(truth.led) - before)
        except KeyboardInterrupt:
            done = True
            if number % 2:
                envs.reset()
            elif mode == "disabled" and any(truth.due):
                envs.reset(options={"reset_mask": np.array(truth.due)})
        if step == 4:
            sys.settrace(None)
    envs.close()
    return done, truth, whole


@needs_gymnasium
@pytest.mark.parametrize("mode", list(MODES))
def test_whatever_moment_an_interrupt_comes_at_every_transition_is_one_that_was_made(mode, tmp_path):
    interrupts = 0
    for number in itertools.count(0, 3):
        directory = tmp_path / str(number)
        done, truth, whole = play_interrupted(directory, mode, number)
        seen = []
        for lane, episodes in lanes_in(directory).items():
            for episode in episodes:
                rows = [int(row) for row in episode.observations]
                assert {row // 100 for row in rows} <= {rows[0] // 100}, (number, rows)  # of one episode
                assert rows[0] // 10000 == lane
                assert episode.headless or rows[0] % 100 == 0, (number, rows)
                assert rows == sorted(set(rows)), (number, rows)
                steps = rows if episode.headless else rows[1:]
                assert [truth.led[row] for row in steps] == list(episode.actions), (number, rows)
                jumps = [n - 1 for n in range(1, len(rows)) if rows[n] != rows[n - 1] + 1]
                assert set(jumps) <= set(episode.gaps), (number, rows)
                seen += steps
        assert len(seen) == len(set(seen)), number
        assert set(whole) <= set(seen), number
        interrupts += done
        if not done:
            break
    assert interrupts > 50


# ---- what gymnasium puts around and beside


@pytest.mark.skipif(GYMNASIUM is None or GYMNASIUM < (1, 1), reason="needs gymnasium 1.1")
@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_statistics_of_an_episode_are_in_the_info_of_its_last_step(tmp_path, mode):
    import gymnasium

    options = {"autoreset_mode": getattr(gymnasium.vector.AutoresetMode, mode)}
    envs = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync", vector_kwargs=options)
    envs = TraceRecordingVectorWrapper(gymnasium.wrappers.vector.RecordEpisodeStatistics(envs), tmp_path, infos=True)
    envs.reset(seed=1)
    for _ in range(100):
        envs.step(np.array([0, 1]))
    envs.close()
    ended = [episode for episode in TraceRecordingReader(tmp_path) if episode.ended_by == "terminated"]
    assert len(ended) > 10
    for episode in ended:
        assert episode.infos[-1]["episode"]["l"] in (len(episode), len(episode) - 1)  # 1.1 forgets a step
        assert "episode" not in episode.infos[0]


@pytest.mark.skipif(GYMNASIUM is None or GYMNASIUM < (1, 0), reason="needs gymnasium 1.0")
@pytest.mark.parametrize("how", ["sync", "async", "vector_entry_point"])
def test_an_environment_of_make_vec_can_be_made_anew(tmp_path, how):
    import gymnasium

    envs = TraceRecordingVectorWrapper(gymnasium.make_vec("CartPole-v1", 2, vectorization_mode=how), tmp_path)
    envs.reset()
    envs.close()
    (trace,) = TraceRecordingReader(tmp_path).traces
    env = trace.make_env()
    assert (env.spec.id, env.spec.max_episode_steps) == ("CartPole-v1", 500)
    assert env.observation_space == trace.observation_space
    env.close()


class Custom:
    """The observations of lane i are 100 * i + t, its episodes have 3 + i steps; how they end is for the tests."""

    def __new__(cls, count=2, resets="same step", gives=True, space=None, metadata=None):
        from gymnasium import spaces, vector

        class Envs(vector.VectorEnv):
            num_envs = count
            single_observation_space = space or spaces.Box(-1e9, 1e9, (1,), np.float32)
            single_action_space = spaces.Discrete(9)
            observation_space = action_space = None
            at = np.zeros(count, int)
            infos = staticmethod(lambda: {})

            def row(self, at):
                rows = np.array([[100.0 * lane + t] for lane, t in enumerate(at)], "float32")
                return rows if space is None else (rows, rows + 0.5)

            def reset(self, *, seed=None, options=None):
                self.over = np.zeros(count, bool)
                self.at = np.zeros(count, int)
                return self.row(self.at), {}

            def step(self, actions):
                was_over, self.at = self.over, np.where(self.over, 0, self.at + 1)
                self.over = self.at == 3 + np.arange(count)
                over, infos = self.over, {**self.infos()}
                if resets == "same step":
                    if over.any() and gives:
                        infos.update(final_obs=np.array([*self.row(self.at), None], object)[:-1], _final_obs=over)
                    self.at, self.over = np.where(over, 0, self.at), np.zeros(count, bool)
                return self.row(self.at), np.where(was_over, 0.0, 1.0), over, np.zeros(count, bool), infos

        envs = Envs()
        envs.metadata = metadata or {}
        return envs


custom = pytest.mark.skipif(GYMNASIUM is None or GYMNASIUM < (1, 0), reason="needs gymnasium 1.0")


def lengths(directory, lane):
    return [len(episode) for episode in TraceRecordingReader(directory, verify=True) if episode.lane == lane]


@custom
def test_when_a_vector_environment_resets_is_seen_or_assumed_with_a_warning(tmp_path):
    envs = TraceRecordingVectorWrapper(Custom(), tmp_path / "seen")
    envs.reset()
    for _ in range(12):
        envs.step(np.zeros(2, int))
    envs.close()
    assert lengths(tmp_path / "seen", 0) == [3, 3, 3, 3, 0]
    envs = TraceRecordingVectorWrapper(Custom(resets="next step"), tmp_path / "assumed")
    envs.reset()
    with pytest.warns(UserWarning, match="taken to do so with the next step.*autoreset_mode"):
        for _ in range(12):
            envs.step(np.zeros(2, int))
    envs.close()
    assert lengths(tmp_path / "assumed", 0) == [3, 3, 3, 0]


@custom
def test_a_wrong_assumption_of_when_it_resets_is_said(tmp_path):
    inner = Custom(gives=False)
    envs = TraceRecordingVectorWrapper(inner, tmp_path)
    envs.reset()
    with pytest.warns(UserWarning, match="next step"):
        for _ in range(3):
            envs.step(np.zeros(2, int))
    inner.infos = lambda: {"final_obs": np.array([[3.0], [103.0]], "float32"), "_final_obs": np.ones(2, bool)}
    with pytest.warns(UserWarning, match="the episodes before, taken otherwise, are wrong"):
        for _ in range(4):
            envs.step(np.zeros(2, int))
    envs.close()


@custom
def test_a_subclass_of_tuple_is_a_tuple(tmp_path):
    from gymnasium import spaces

    class Pair(spaces.Tuple):
        pass

    box = spaces.Box(-1e9, 1e9, (1,), np.float32)
    metadata = {"autoreset_mode": "NextStep"}
    envs = Custom(resets="next step", space=Pair((box, box)), metadata=metadata)
    envs = TraceRecordingVectorWrapper(envs, tmp_path)
    envs.reset()
    envs.step(np.zeros(2, int))
    envs.close()
    for lane, episode in enumerate(TraceRecordingReader(tmp_path)):
        first, second = episode.observations.columns
        assert first.tolist() == [[100 * lane], [100 * lane + 1]]
        assert second.tolist() == [[100 * lane + 0.5], [100 * lane + 1.5]]


@custom
def test_odd_infos_cost_no_step(tmp_path):
    for infos in (False, True):
        envs = Custom(resets="next step", metadata={"autoreset_mode": "NextStep"})
        envs.infos = lambda: {"ragged": [[1, 2], [3]], "text": "abc", "number": 5, "pair": (1, 2)}
        envs = TraceRecordingVectorWrapper(envs, tmp_path / str(infos), infos=infos)
        envs.reset()
        envs.step(np.zeros(2, int))
        envs.close()
        assert lengths(tmp_path / str(infos), 1) == [1]
    (_, episode) = TraceRecordingReader(tmp_path / "True")
    assert episode.infos[1] == {"ragged": [3], "text": "abc", "number": 5, "pair": 2}


@custom
def test_a_lane_whose_values_cannot_be_stored_does_not_keep_the_others_from_being_written(tmp_path):
    envs = Custom(resets="next step", metadata={"autoreset_mode": "NextStep"})
    step = envs.step
    envs.step = lambda actions: (np.array([step(actions)[0][0], object()], object), *step(actions)[1:])
    envs = TraceRecordingVectorWrapper(envs, tmp_path, flush_interval=0, durability="none")
    envs.reset()
    for _ in range(6):
        with pytest.raises(TraceError, match="cannot store"):
            envs.step(np.zeros(2, int))
    assert sum(lengths(tmp_path, 0)) > 2
    envs.close()


@custom
def test_a_closed_recorder_steps_no_vector_environment_even_where_all_are_to_be_reset(tmp_path):
    envs = Custom(1, resets="next step", metadata={"autoreset_mode": "NextStep"})
    recorder = TraceRecordingVectorWrapper(envs, tmp_path)
    recorder.reset()
    for _ in range(3):
        recorder.step(np.zeros(1, int))
    recorder.recording.close()
    with pytest.raises(ClosedError):
        recorder.step(np.zeros(1, int))
    assert envs.at.tolist() == [3]


@custom
def test_lanes_are_not_for_callers_of_the_wrapper(tmp_path):
    with pytest.raises(TraceError, match="lanes: not for a wrapper"):
        TraceRecordingVectorWrapper(Custom(), tmp_path, lanes=1)
    with pytest.raises(TraceError, match=r"no vector environment.*'w'"):
        TraceRecordingVectorWrapper("w", Custom())


@pytest.mark.skipif(GYMNASIUM is None or not (0, 26) <= GYMNASIUM < (1, 0), reason="needs gymnasium before 1.0")
def test_a_vector_environment_in_a_wrapper_for_single_ones_is_refused_by_both_recorders(tmp_path):
    import gymnasium

    from gym_recording import TraceRecordingWrapper

    envs = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2)
    envs = gymnasium.wrappers.RecordEpisodeStatistics(envs)
    for wrapper in (TraceRecordingWrapper, TraceRecordingVectorWrapper):
        with pytest.raises(TraceError, match="directly around"):
            wrapper(envs, tmp_path)
