"""What a vector environment's recording holds is what its sub-environments give alone: for each library and autoreset.

The same file runs under gymnasium 0.26 and later, gym 0.21 and later, and Stable-Baselines3; what is not installed is
skipped. Every sub-environment is played a second time alone, with the same seeds and actions, and all is compared.
"""

import re
import warnings
from functools import partial
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
from environments import same_rows

from gym_recording import (
    TraceRecordingReader,
    TraceRecordingVectorWrapper,
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
            if (0, 24) <= GYM < (0, 26):
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
        self.metadata, self.spec, self.render_mode = {"render_modes": []}, None, None
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
        episode = {"observations": [observation], "actions": [], "rewards": [], "infos": [info]}
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
        for key, value in zip(("observations", "rewards", "actions", "infos"), (result[0], reward, action, info)):
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
