"""What an environment is made of: described in JSON, and made from that; nothing that a file names is imported."""

import json
import re
import sys
import warnings
from collections import OrderedDict
from types import SimpleNamespace

import numpy as np
import pytest
from environments import LIBRARIES, Walk, class_of, make

from gym_recording import TraceError, TraceRecording, TraceRecordingReader, TraceRecordingWrapper
from gym_recording.environment import describe
from gym_recording.index import Trace

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of old gyms under a newer Python
WALK = "GymRecordingWalk-v0"
BOX = {"type": "Box", "shape": [3], "dtype": "float32", "low": 0.0, "high": 1000.0}
DISCRETE = {"type": "Discrete", "n": 4, "start": 0}


@pytest.fixture(params=LIBRARIES)
def library(request):
    """A library in which `Walk` is registered, with a limit of 9 steps."""
    library = pytest.importorskip(request.param)
    if not _has_new_interface(library):
        pytest.skip("the environments of these tests have the interface of gym 0.26 and later")
    if WALK not in getattr(library.envs.registry, "env_specs", library.envs.registry):
        library.envs.register(WALK, entry_point=class_of(library.__name__, Walk), max_episode_steps=9)
    return library


def _has_new_interface(library):
    version = getattr(library, "__version__", "0.0")  # gym before 0.10 does not say
    return tuple(map(int, re.findall(r"\d+", version)[:2])) >= (0, 26)


def new(library, **kwargs):
    return library.make(WALK, disable_env_checker=True, **kwargs)


def recorded(env, directory):
    """The trace of a recorder that was put around an environment."""
    env = TraceRecordingWrapper(env, directory)
    env.reset()
    env.recording.close()
    return TraceRecordingReader(directory).traces[-1]


def stack(env):
    found = []
    while env is not env.unwrapped:
        found.append(type(env).__name__)
        env = env.env
    return [*found, type(env).__name__]


# ---- described


def test_an_environment_is_described(library):
    found = describe(new(library, length=5))
    assert found.pop("entry_point").endswith(":Walk")
    assert found == {
        "id": WALK,
        "kwargs": {"length": 5},
        "max_episode_steps": 9,
        "render_fps": 30,
        "observation_space": BOX,
        "action_space": DISCRETE,
    }


@pytest.mark.parametrize(
    "kwargs",
    [{"a": object()}, {"a": float("nan")}, {1: 2}, {"a": 2**5000}, {"a": {"__type": 1}}, {"a": OrderedDict()}, 3.5j],
)
@pytest.mark.parametrize("attribute", ["kwargs", "_kwargs"])  # the latter in gym before 0.22
def test_arguments_that_json_cannot_say_are_null(attribute, kwargs, tmp_path):
    found = describe(SimpleNamespace(spec=SimpleNamespace(id="Mine-v0", **{attribute: kwargs})))
    assert found == {"id": "Mine-v0", "kwargs": None}
    with TraceRecording(tmp_path, env=found) as recording:
        recording.add_reset(0)
    with pytest.raises(TraceError, match=r"env.kwargs: its arguments could not be written; give them to `make_env`"):
        TraceRecordingReader(tmp_path).traces[0].make_env()


def test_a_space_that_cannot_be_written_is_null_with_one_warning(library, tmp_path):
    class Odd(library.Space):
        pass

    env = make(library, Walk)
    env.observation_space, env.action_space = Odd(), library.spaces.Tuple((Odd(), env.action_space))
    with pytest.warns(UserWarning, match="observation_space is a .*Odd.*action_space.spaces") as caught:
        trace = recorded(env, tmp_path)
    assert [warning.filename for warning in caught] == [__file__]
    tuple_space = {"type": "Tuple", "spaces": [None, DISCRETE]}
    assert trace.env == {"render_fps": 30, "observation_space": None, "action_space": tuple_space}
    with pytest.raises(TraceError, match=r"manifest.json: env.observation_space: this space is unknown"):
        trace.observation_space  # noqa: B018


def test_an_environment_without_anything_is_described_by_nothing():
    assert describe(SimpleNamespace()) == {}
    assert describe(SimpleNamespace(spec=None, observation_space=None, action_space=None)) == {}


class Refusing:
    """An environment whose properties raise until it is reset; there are such."""

    @property
    def spec(self):
        raise NotImplementedError

    observation_space = action_space = spec


@pytest.mark.parametrize("env", [Refusing(), SimpleNamespace(spec=Refusing())])
def test_attributes_that_raise_are_left_out(env):
    assert describe(env) == {}


def test_what_a_trace_says_of_its_spaces_is_what_the_environment_has(library, tmp_path):
    trace = recorded(new(library), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert type(trace.observation_space).__name__ == "Box"
    assert trace.observation_space.high.tolist() == [1000.0] * 3
    assert trace.action_space.n == 4


# ---- made


def test_an_environment_is_made_anew_from_its_trace(library, tmp_path):
    trace = recorded(new(library, length=5), tmp_path)
    env = trace.make_env(disable_env_checker=True)
    assert stack(env) == stack(new(library, length=5))
    assert env.unwrapped.length == 5
    assert env.spec.max_episode_steps == 9
    env.reset(seed=3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LIBRARIES)
def test_an_environment_of_any_gym_is_made_anew(name):
    library = pytest.importorskip(name)
    env = library.make("CartPole-v1")
    found = describe(env)
    assert (found["id"], found["kwargs"], found["max_episode_steps"]) == ("CartPole-v1", {}, 500)
    assert "wrappers" not in found
    trace = Trace("openaigym.trace.0.1-0123456789ab", env=found, writer={"library": f"{name} 1.0"})
    made = trace.make_env()
    assert stack(made) == stack(env)
    assert describe(made) == found


def test_another_limit_of_steps_is_kept(library, tmp_path):
    env = recorded(new(library, max_episode_steps=4), tmp_path).make_env(disable_env_checker=True)
    assert stack(env).count("TimeLimit") == 1
    assert env.spec.max_episode_steps == 4


def test_arguments_of_make_env_go_before_the_recorded_ones(library, tmp_path):
    env = recorded(new(library, length=5), tmp_path).make_env(disable_env_checker=True, length=7)
    assert env.unwrapped.length == 7


def test_tuples_among_the_arguments_are_told_from_lists(library, tmp_path):
    arguments = {"length": (1, [2, (3,)], {"a": (), "b": None})}
    trace = recorded(new(library, **arguments), tmp_path)
    assert trace.env["kwargs"]["length"]["__type"] == "tuple"
    assert trace.make_env(disable_env_checker=True).unwrapped.length == arguments["length"]


def test_other_spaces_than_the_recorded_ones_are_said(library, tmp_path):
    trace = recorded(new(library), tmp_path)
    trace.env["action_space"] = {"type": "Discrete", "n": 5, "start": 0}
    with pytest.warns(UserWarning, match="another .'action_space'.") as caught:
        trace.make_env(disable_env_checker=True)
    assert caught[0].filename == __file__


def gymnasium_of_wrappers():
    gymnasium = pytest.importorskip("gymnasium")
    if not hasattr(gymnasium.wrappers, "FlattenObservation") or tuple(
        map(int, re.findall(r"\d+", gymnasium.__version__)[:2])
    ) < (0, 28):
        pytest.skip("this gymnasium does not know how its wrappers were made")
    if WALK not in gymnasium.envs.registry:
        gymnasium.envs.register(WALK, entry_point=class_of("gymnasium", Walk), max_episode_steps=9)
    return gymnasium


def test_wrappers_of_gymnasium_are_made_anew_and_recorders_are_not(tmp_path):
    gymnasium = gymnasium_of_wrappers()
    env = gymnasium.wrappers.FlattenObservation(TraceRecordingWrapper(new(gymnasium), tmp_path / "inner"))
    env = gymnasium.wrappers.TimeAwareObservation(env)
    if hasattr(gymnasium.wrappers, "ReshapeObservation"):
        env = gymnasium.wrappers.ReshapeObservation(env, (2, 2))  # which refuses a list
    trace = recorded(env, tmp_path / "outer")
    names = [wrapper["entry_point"].split(":")[1] for wrapper in trace.env["wrappers"]]
    assert names[:2] == ["FlattenObservation", "TimeAwareObservation"]
    assert names[2:] in ([], ["ReshapeObservation"])
    made = trace.make_env(disable_env_checker=True)
    assert stack(made) == [name for name in stack(env) if name != "TraceRecordingWrapper"]
    assert made.observation_space == env.observation_space
    assert len(list(tmp_path.iterdir())) == 2


def test_a_wrapper_whose_arguments_json_cannot_say_is_not_left_out_in_silence(tmp_path):
    gymnasium = gymnasium_of_wrappers()
    trace = recorded(gymnasium.wrappers.TransformReward(new(gymnasium), lambda reward: reward), tmp_path)
    assert trace.env["wrappers"][0]["kwargs"] is None
    with pytest.raises(TraceError, match=r"env.wrappers\[0\]: this wrapper is not made anew.*TransformReward without"):
        trace.make_env()


def test_an_environment_whose_wrapper_cannot_be_made_is_closed(tmp_path, monkeypatch):
    gymnasium = gymnasium_of_wrappers()
    trace = recorded(gymnasium.wrappers.FlattenObservation(new(gymnasium)), tmp_path)
    trace.env["wrappers"][0]["kwargs"] = {"unknown": 1}
    closed = []
    monkeypatch.setattr(class_of("gymnasium", Walk), "close", lambda env: closed.append(env))
    with pytest.raises(TraceError, match=r"gymnasium cannot make GymRecordingWalk-v0 of it: .*unknown"):
        trace.make_env(disable_env_checker=True)
    assert len(closed) == 1


def test_a_wrapper_of_somebody_else_is_not_left_out_in_silence(library, tmp_path):
    class Mine(library.Wrapper):
        pass

    trace = recorded(Mine(new(library)), tmp_path)
    assert trace.env["wrappers"][0]["entry_point"].endswith("Mine")
    with pytest.raises(TraceError, match=rf"env.wrappers\[0\]: this wrapper is not made anew.*found {__name__}:"):
        trace.make_env()


# ---- untrusted

POISON = "gym_recording_poison"


@pytest.fixture
def poison(tmp_path, monkeypatch):
    """A module that must not be imported."""
    (tmp_path / f"{POISON}.py").write_text("raise SystemExit('imported')\nclass Wrapper: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))


WRAPPER = {"entry_point": "gymnasium.wrappers.common:TimeAwareObservation", "kwargs": {}}


@pytest.mark.parametrize(
    ("env", "where"),
    [
        ({}, "env.id: the environment was not made by a registered id"),
        ({"id": None}, "env.id: "),
        ({"id": 3}, "env.id: "),
        ({"id": ["CartPole-v1"]}, "env.id: "),
        ({"id": f"{POISON}:CartPole-v1"}, "env.id: the environment was not made by a registered id"),
        ({"id": POISON}, "env.id: "),
        ({"id": "x-" * 10**6}, "env.id: the environment was not made by a registered id"),
        ({"id": f"{POISON}/Env-v0", "entry_point": f"{POISON}:Env"}, f"found {POISON}/Env-v0, which was {POISON}:Env"),
        ({"id": WALK, "kwargs": [1]}, "env.kwargs: malformed"),
        ({"id": WALK, "kwargs": {"__type": "tuple", "items": []}}, "env.kwargs: malformed"),
        ({"id": WALK, "kwargs": {"length": {"__type": "tuple", "items": 3}}}, "env.kwargs: malformed"),
        ({"id": WALK, "kwargs": {"length": {"__type": ["tuple"]}}}, "env.kwargs: malformed"),
        ({"id": WALK, "kwargs": {"unknown": 1}}, "env: "),
        ({"id": WALK, "wrappers": 3}, "env.wrappers: malformed"),
        ({"id": WALK, "max_episode_steps": "9"}, "env.max_episode_steps: malformed"),
        ({"id": WALK, "max_episode_steps": True}, "env.max_episode_steps: malformed"),
        ({"id": WALK, "max_episode_steps": -1}, "env.max_episode_steps: malformed"),
        ({"id": WALK, "wrappers": [3]}, "env.wrappers[0]: malformed"),
        ({"id": WALK, "wrappers": [{"entry_point": 3}]}, "env.wrappers[0]: malformed"),
        *(
            ({"id": WALK, "wrappers": [{**WRAPPER, **wrapper}]}, "env.wrappers[0]: this wrapper is not made anew")
            for wrapper in [
                {"entry_point": f"{POISON}:Wrapper"},
                {"entry_point": f"gymnasium.wrappers.{POISON}:Wrapper"},
                {"entry_point": f"gymnasium.wrappers:../{POISON}"},
                {"entry_point": "gymnasium.wrappers.common:deepcopy"},
                {"entry_point": "gymnasium.wrappers.vector.nothing_here:TimeAwareObservation"},
                {"entry_point": "gymnasium.wrappers.common:common"},
                {"entry_point": "gymnasium.wrappers.common:__builtins__"},
                {"entry_point": "gymnasium.wrappers.common:Wrapper.render"},
                {"entry_point": "gymnasium.wrappers.rendering:RecordVideo", "kwargs": {"video_folder": "/tmp/x"}},
                {"entry_point": "builtins:eval"},
                {"entry_point": ""},
                {"kwargs": None},
                {"kwargs": [1]},
            ]
        ),
    ],
)
def test_a_hostile_description_makes_nothing_and_imports_nothing(library, poison, env, where):
    before = set(sys.modules)
    trace = Trace("openaigym.trace.0.1-0123456789ab", env=env, writer={"library": f"{POISON} 1.0"})
    if library.__name__ == "gymnasium" or "gymnasium" not in sys.modules:
        with pytest.raises(TraceError) as caught:
            trace.make_env()
        assert str(caught.value).startswith("openaigym.trace.0.1-0123456789ab.manifest.json: env")
        assert where in str(caught.value)
    assert not {name for name in set(sys.modules) - before if POISON in name}


def test_the_library_of_the_writer_is_preferred(library, tmp_path):
    trace = recorded(new(library), tmp_path)
    assert isinstance(trace.make_env(disable_env_checker=True), library.Env)


def test_reading_episodes_makes_and_rebuilds_nothing(tmp_path):
    env = {"id": "Nothing-v0", "observation_space": {"type": "?"}, "wrappers": 3, "kwargs": None}
    with TraceRecording(tmp_path, env=env) as recording:
        recording.add_reset(np.zeros(2))
    reader = TraceRecordingReader(tmp_path)
    assert len(reader) == 1
    assert reader.traces[0].env == json.loads(json.dumps(env))
