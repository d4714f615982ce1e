"""Small real environments, the same ones for gym and for gymnasium, and an exact comparison of what they return.

A kind is a plain class; `make` mixes it with the `Env` of the library that is asked for. Nothing is imported before.
"""

import copy
import re
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import ClassVar

import numpy as np
import pytest


def version_of(name):
    """The version of an installed library as numbers, without importing it."""
    return tuple(map(int, re.findall(r"\d+", version(name))[:3]))


def _missing(name):
    if find_spec(name) is None:
        return f"{name} is not installed"
    return "gym before 0.26: see test_gyms.py" if name == "gym" and version_of(name) < (0, 26) else ""


LIBRARIES = [  # those with the interface of today
    pytest.param(name, marks=pytest.mark.skipif(bool(_missing(name)), reason=_missing(name)))
    for name in ("gym", "gymnasium")
]


def make(library, kind, *args, **kwargs):
    """An environment of that kind and library."""
    return class_of(library.__name__, kind)(*args, **kwargs)


@lru_cache(maxsize=None)
def class_of(library_name, kind):
    """The class of a kind's environments in a library."""
    library = import_module(library_name)
    return type(kind.__name__, (kind, library.Env), {"library": library, "kind": kind})


def _bare(library_name, kind):
    cls = class_of(library_name, kind)
    return cls.__new__(cls)


class Kind:
    """What all kinds have: they can be pickled, and count how often they were closed."""

    closed = 0

    def __reduce__(self):
        return _bare, (self.library.__name__, self.kind), self.__dict__.copy()

    def close(self):
        self.closed += 1


class Walk(Kind):
    """Terminates after `length` steps. Every observation follows from the one before it and the action: see `after`."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 30}
    frame = np.zeros((2, 2, 3), "uint8")

    def __init__(self, length=3, render_mode=None):
        spaces = self.library.spaces
        self.observation_space = spaces.Box(0, 1000, (3,), np.float32)
        self.action_space = spaces.Discrete(4)
        self.length = length
        self.render_mode = render_mode
        self.state = np.zeros(3, "float32")
        self.steps = 0  # calls of `step`, in all
        self.resets = []  # the arguments of the calls of `reset`

    @staticmethod
    def after(observation, action):
        start, time, path = observation
        return np.array([start, time + 1, (3 * path + action + 1) % 1000], "float32")

    def reset(self, *, seed=None, **arguments):
        self.library.Env.reset(self, seed=None if seed is None else int(seed))
        self.resets.append(arguments if seed is None else {"seed": seed, **arguments})
        self.state = np.array([self.np_random.integers(1000), 0, 0], "float32")
        return self.state.copy(), {"start": int(self.state[0])}

    def step(self, action):
        self.steps += 1
        self.state = self.after(self.state, action)
        return (
            self.state.copy(),
            float(action) / 3,
            bool(self.state[1] >= self.length),
            False,
            {"at": int(self.state[1])},
        )

    def render(self):
        return self.frame


class OldWalk(Walk):
    """The same walk with the interface before gym 0.26: `seed`, four values from `step`, no info from `reset`."""

    def seed(self, seed=None):
        self.library.Env.reset(self, seed=seed)
        return [seed]

    def reset(self):
        return Walk.reset(self)[0]

    def step(self, action):
        observation, reward, terminated, _, info = Walk.step(self, action)
        return observation, reward, terminated, info


class Scripted(Kind):
    """Returns the very objects that it is given, one after the other, then from the start; raises exceptions."""

    def __init__(self, steps=(), resets=((0, {}),), space=None):
        self.scripts = {"reset": list(resets), "step": list(steps)}
        self.calls = {"reset": 0, "step": 0}
        self.observation_space = space
        self.action_space = self.library.spaces.Discrete(4)

    def next(self, method):
        script = self.scripts[method]
        result = script[self.calls[method] % len(script)]
        self.calls[method] += 1
        if isinstance(result, BaseException):
            raise result
        return result

    def reset(self, **arguments):
        return self.next("reset")

    def step(self, action):
        return self.next("step")


class Sampled(Kind):
    """Observations and actions are samples of any spaces; `returned` has copies of all observations."""

    def __init__(self, space, action_space=None):
        space.seed(3)
        self.observation_space = space
        self.action_space = self.library.spaces.Discrete(4) if action_space is None else action_space
        self.returned = []

    def observe(self):
        observation = self.observation_space.sample()
        self.returned.append(copy.deepcopy(observation))
        return observation

    def reset(self, **arguments):
        return self.observe(), {}

    def step(self, action):
        return self.observe(), 1.0, False, False, {}


class Reusing(Kind):
    """Returns the same buffers at each step, with other contents; `shape` says how large."""

    def __init__(self, shape=(4,)):
        self.observation_space = self.action_space = None
        self.observation = {"frame": np.zeros(shape, "uint8"), "count": np.zeros((), "int64")}
        self.reward = np.zeros((), "float32")
        self.info = {"count": self.observation["count"]}

    def reset(self, **arguments):
        self.observation["frame"][...] = 0
        self.observation["count"][...] = 0
        return self.observation, self.info

    def step(self, action):
        self.observation["frame"] += 1
        self.observation["count"] += 1
        self.reward += 1
        return self.observation, self.reward, False, False, self.info


class Overwriting(Kind):
    """Overwrites the action that it is given."""

    def __init__(self):
        self.observation_space = self.action_space = None

    def reset(self, **arguments):
        return 0, {}

    def step(self, action):
        action[...] = -1
        return 0, 0.0, False, False, {}


class Convertible:
    """What only `__array__` makes an array of."""

    def __init__(self, content):
        self.content = content

    def __array__(self, dtype=None, copy=None):
        if isinstance(self.content, BaseException):
            raise self.content
        return np.asarray(self.content)


VALUES = {  # by the number of the step; what comes with step 2 is of another kind in the lower half
    "ints": lambda n: n,
    "arrays": lambda n: np.full(3, n, "float32"),
    "large arrays": lambda n: np.full((100, 100), n, "uint8"),
    "texts": lambda n: f"text {n}",
    "dicts": lambda n: {"a": n, "b": {"c": np.full(2, n), "d": (n / 2, str(n))}},
    "foreign arrays": lambda n: Convertible([n, n + 1]),
    "ints, then a float": lambda n: n + 0.5 if n == 2 else n,
    "ints, then a huge one": lambda n: 2**80 if n == 2 else n,
    "another shape": lambda n: np.full(4 if n == 2 else 3, n),
    "another dtype": lambda n: np.full(3, n, "int8" if n == 2 else "int16"),
    "another large shape": lambda n: np.full(10001 if n == 2 else 10000, n, "uint8"),
    "another key": lambda n: {"a": n, "b": n, **({"c": n} if n == 2 else {})},
    "another kind in a dict": lambda n: {"a": n, "b": (n, "text" if n == 2 else n)},
    "another length of a tuple": lambda n: (n, n, n) if n == 2 else (n, n),
}


def same(found, expected):
    """Whether two values are equal bit for bit, dtypes included; a Python number is what NumPy makes of it."""
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and list(found) == list(expected)
            and all(same(found[k], expected[k]) for k in found)
        )
    if isinstance(expected, (list, tuple)):
        alike = isinstance(found, tuple) == isinstance(expected, tuple) and len(found) == len(expected)
        return alike and all(map(same, found, expected))
    if expected is None or isinstance(expected, str) or (type(expected) is int and abs(expected) >= 2**63):
        return type(found) is type(expected) and found == expected
    if found is None or isinstance(found, (str, dict, list, tuple)):
        return False
    found, expected = np.asarray(found), np.asarray(expected)
    alike = found.dtype == expected.dtype and found.shape == expected.shape
    return alike and found.tobytes() == expected.tobytes()


def same_rows(found, expected):
    """Whether the rows of a column are these values, one by one."""
    return len(found) == len(expected) and all(map(same, found, expected))
