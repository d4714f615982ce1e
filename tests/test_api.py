"""What differs between Gyms, as tables: whose an environment is, the results of `reset` and `step`."""

from types import SimpleNamespace

import numpy as np
import pytest
from environments import LIBRARIES, Walk, make

from gym_recording import TraceError
from gym_recording.wrappers.api import (
    join_step,
    layers,
    library_of,
    library_version,
    reset,
    reset_gives_info,
    split_reset,
    split_step,
)


@pytest.fixture(params=LIBRARIES)
def library(request):
    return pytest.importorskip(request.param)


# ---- whose it is


def test_an_environment_is_of_the_library_of_its_base_class(library, tmp_path):
    assert library_of(make(library, Walk)) is library
    assert library_of(library.wrappers.TimeLimit(make(library, Walk), 3)) is library
    assert library_version(library) == f"{library.__name__} {library.__version__}"


@pytest.mark.parametrize("value", [None, 3, "CartPole-v1", object, SimpleNamespace(step=print, reset=print)])
def test_what_is_no_environment_is_of_no_library(value):
    assert library_of(value) is None


@pytest.mark.parametrize("name", ["VectorEnv", "VecEnv"])
def test_vector_environments_are_told_by_the_names_of_their_classes(name):
    with pytest.raises(TraceError, match="vector environment"):
        library_of(type("Mine", (type(name, (), {}),), {})())


@pytest.mark.parametrize(
    ("name", "version", "arguments", "expected"),
    [
        ("gymnasium", "0.26.0", {}, True),
        ("gymnasium", "1.4.0", {}, True),
        ("gym", "0.26.2", {}, True),
        ("gym", "0.26.2", {"seed": 3}, True),
        ("gym", "0.25.2", {}, False),
        ("gym", "0.25.2", {"return_info": True}, True),
        ("gym", "0.25.2", {"return_info": False}, False),
        ("gym", "0.7.4", {}, False),
        ("gym", "1.0.0", {}, True),
    ],
)
def test_reset_gives_an_info_since_gym_0_26_and_before_if_asked_to(name, version, arguments, expected):
    assert reset_gives_info(SimpleNamespace(__name__=name, __version__=version), arguments) is expected


def test_the_version_of_an_old_gym_is_found_in_its_version_module():
    old = SimpleNamespace(__name__="gym", version=SimpleNamespace(VERSION="0.7.4"))
    assert library_version(old) == "gym 0.7.4"
    assert reset_gives_info(old, {}) is False


# ---- reset and step


class Tuple:
    """A space as `split_reset` sees it: its name, and what it contains."""

    def __init__(self, *contents):
        self.contains = contents.__contains__


class Box(Tuple):
    pass


class Refusing(Tuple):
    """Raises for all else, as a Tuple of Boxes may in gym 0.22 to 0.25."""

    def __init__(self, *contents):
        self.contains = contents.index


PAIR = ((1, 2), {"x": 0})


@pytest.mark.parametrize(
    ("result", "gives_info", "space", "expected"),
    [
        ((5, {}), True, None, (5, {})),
        ((5, {"a": 1}), True, Box(5), (5, {"a": 1})),
        (5, False, None, (5, None)),
        (5, True, Box(5), (5, None)),  # the old interface under a new library
        ([5, {}], True, None, ([5, {}], None)),
        ((5, {}, 3), True, None, ((5, {}, 3), None)),
        ((5, 6), True, Tuple((5, 6)), ((5, 6), None)),
        ((5, {}), False, Tuple((5, {})), ((5, {}), None)),
        (PAIR, True, Tuple(PAIR), (PAIR, None)),  # an observation that looks like one with an info
        ((PAIR, {}), True, Tuple(PAIR), (PAIR, {})),
        ((PAIR, {}), True, Refusing(0, PAIR), (PAIR, {})),
        (PAIR, True, Box((1, 2)), PAIR),
        (PAIR, True, None, PAIR),
    ],
)
def test_reset_is_split_into_observation_and_info(result, gives_info, space, expected):
    assert split_reset(result, gives_info, space) == expected


LIMIT = "TimeLimit.truncated"


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ((1, 2.0, False, False, {}), (1, 2.0, False, False, {})),
        ((1, 2.0, True, False, {}), (1, 2.0, True, False, {})),
        ((1, 2.0, False, True, {}), (1, 2.0, False, True, {})),
        ((1, 2.0, True, True, {LIMIT: False}), (1, 2.0, True, True, {LIMIT: False})),
        ((1, 2.0, np.True_, np.False_, None), (1, 2.0, True, False, None)),
        ([1, 2.0, 1, 0, {}], (1, 2.0, True, False, {})),
        ((1, 2.0, False, {}), (1, 2.0, False, False, {})),
        ((1, 2.0, True, {}), (1, 2.0, True, False, {})),
        ((1, 2.0, True, {LIMIT: True}), (1, 2.0, False, True, {LIMIT: True})),
        ((1, 2.0, True, {LIMIT: False}), (1, 2.0, True, False, {LIMIT: False})),
        ((1, 2.0, False, {LIMIT: True}), (1, 2.0, False, False, {LIMIT: True})),
        ((1, 2.0, np.True_, None), (1, 2.0, True, False, None)),
    ],
)
def test_step_is_split_into_five(result, expected):
    assert tuple(split_step(result)) == expected


@pytest.mark.parametrize(
    ("library", "values", "expected"),
    [
        ("gymnasium 1.0", (1, 2.0, True, False, {}), (1, 2.0, True, False, {})),
        ("gym 0.26.2", (1, 2.0, False, True, {"a": 1}), (1, 2.0, False, True, {"a": 1})),
        ("gym 0.25.2", (1, 2.0, False, False, {"a": 1}), (1, 2.0, False, {"a": 1})),
        ("gym 0.21.0", (1, 2.0, True, False, {"a": 1}), (1, 2.0, True, {"a": 1})),
        ("gym 0.7.4", (1, 2.0, False, True, {"a": 1}), (1, 2.0, True, {"a": 1, LIMIT: True})),
    ],
)
def test_five_values_are_joined_to_what_step_of_a_library_returns(library, values, expected):
    name, version = library.split()
    joined = join_step(SimpleNamespace(__name__=name, __version__=version), *values)
    assert joined == expected
    assert tuple(split_step(joined))[:4] == values[:4]


class Resetting:
    """Remembers the arguments of `reset`."""

    unwrapped = property(lambda self: self)

    def reset(self, seed=None, options=None):
        return {"seed": seed, "options": options}


class Asked(Resetting):
    def reset(self, return_info=False, **kwargs):
        return {"return_info": return_info, **kwargs}


class Seeded(Resetting):
    seeds = ()

    def seed(self, seed):
        self.seeds += (seed,)

    def reset(self):
        return {"seeds": self.seeds}


class Fixed(Resetting):
    def reset(self):
        return {}


@pytest.mark.parametrize(
    ("env", "arguments", "expected"),
    [
        (Resetting, (None,), {"seed": None, "options": None}),
        (Resetting, (3, {"a": 1}, True), {"seed": 3, "options": {"a": 1}}),
        (Resetting, (0,), {"seed": 0, "options": None}),
        (Asked, (3, None, True), {"seed": 3, "return_info": True}),
        (Asked, (None, {"a": 1}), {"options": {"a": 1}, "return_info": False}),
        (Seeded, (3, None, True), {"seeds": (3,)}),
        (Seeded, (None,), {"seeds": ()}),
        (Fixed, (None,), {}),
    ],
)
def test_an_environment_is_reset_with_what_it_takes(env, arguments, expected):
    assert reset(env(), *arguments) == expected


@pytest.mark.parametrize(("seed", "expected"), [(None, {}), (3, {"seed": 3})])
def test_an_environment_of_c_whose_reset_has_no_signature_is_reset(seed, expected):
    class Native:
        reset = dict  # takes any keywords, and `inspect` finds no signature
        unwrapped = property(lambda self: self)

    assert reset(Native(), seed, wants_info=True) == expected


def test_an_environment_that_takes_no_seed_is_an_error():
    with pytest.raises(TraceError, match="takes no seed"):
        reset(Fixed(), 3)


@pytest.mark.parametrize("result", [(), (1, 2, 3), (1, 2, 3, 4, 5, 6), None, 3])
def test_any_other_result_of_step_is_an_error(result):
    with pytest.raises(TraceError, match="4 or 5 values"):
        split_step(result)


class Layer:
    def __init__(self, env=None):
        self.env = env


def test_layers_go_down_to_the_environment_and_never_round():
    inner, itself = Layer(), Layer()
    itself.env = itself
    outer = Layer(inner)
    assert layers(outer) == [outer, inner]
    assert layers(Layer(itself))[1:] == [itself]
    assert layers(3) == [3]
    assert layers(None) == []
