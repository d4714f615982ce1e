"""The wrapper: everything that code written for the original relies on, around environments of gym and of gymnasium."""

import copy
import gc
import itertools
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest
from environments import (
    LIBRARIES,
    OldWalk,
    Overwriting,
    Reusing,
    Sampled,
    Scripted,
    Walk,
    make,
    same,
    same_rows,
    version_of,
)

from gym_recording import ClosedError, TraceError, TraceRecordingReader, TraceRecordingWrapper
from gym_recording.check import check_recording

WALKS = [Walk, OldWalk]


@pytest.fixture(params=LIBRARIES)
def library(request):
    return pytest.importorskip(request.param)


def episodes_in(directory):
    return list(TraceRecordingReader(directory))


def files_in(directory):
    return sorted(path.name for path in Path(directory).iterdir())


def cart_pole(library, **arguments):
    """CartPole without the checkers of `make`; that of gym 0.26 fails under NumPy 2."""
    return library.make("CartPole-v1", disable_env_checker=True, **arguments)


def perform(env, script):
    """Calls methods by their first letters: r(eset), s(tep), c(lose). Gives what they returned."""
    calls = {"r": env.reset, "s": lambda: env.step(1), "c": env.close}
    return [calls[letter]() for letter in script]


def summary(directory):
    """Steps, `ended_by` and `headless` of every episode."""
    return [(len(episode), episode.ended_by, episode.headless) for episode in episodes_in(directory)]


def run_python(code, *arguments):
    """What a program prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8", timeout=60).stdout


# ---- names and imports


@pytest.mark.parametrize(
    "line",
    [
        "from gym_recording.wrappers import TraceRecordingWrapper",
        "from gym_recording.wrappers.trace_recording import TraceRecordingWrapper",
        "import gym_recording.wrappers.trace_recording",
        "from gym_recording.recording import TraceRecording, optimize_list_of_ndarrays",
        "from gym_recording.playback import scan_recorded_traces, TraceRecordingReader",
        "from gym_recording import playback, test_recording; test_recording.test_trace_recording",
        "import gym_recording; gym_recording.wrappers.TraceRecordingWrapper",
        "import gym_recording; gym_recording.playback.scan_recorded_traces",
        "from gym_recording import TraceRecordingWrapper, TraceRecording, TraceRecordingReader, scan_recorded_traces",
    ],
)
def test_the_imports_of_2017_work(line):
    exec(line, {})


@pytest.mark.parametrize("module", ["gym_recording", "gym_recording.wrappers", "gym_recording.playback"])
def test_importing_the_package_imports_no_gym(module):
    program = f"import sys, {module}; print({{'gym', 'gymnasium'}} & set(sys.modules))"
    assert run_python(program) == "set()\n"


def test_only_the_library_of_the_environment_is_imported(library, tmp_path):
    program = f"""
import sys
from gym_recording import *
import {library.__name__} as library
env = TraceRecordingWrapper(library.make("CartPole-v1", disable_env_checker=True), sys.argv[1])
env.reset(), env.step(0), env.close()
print(sum(map(len, TraceRecordingReader(env.directory))), {{"gym", "gymnasium"}} & set(sys.modules))
"""
    assert run_python(program, tmp_path) == f"1 {{{library.__name__!r}}}\n"


# ---- where to


@pytest.mark.parametrize(
    "given",
    [
        lambda tmp: str(tmp / "there"),
        lambda tmp: tmp / "there",
        lambda tmp: str(tmp / "there") + os.sep,
        lambda tmp: "there",
        lambda tmp: Path("there"),
        lambda tmp: os.path.join("..", tmp.name, "there"),
        lambda tmp: os.fsencode(str(tmp / "there")),
        lambda tmp: str(tmp / "not" / "yet" / "there"),
        lambda tmp: str(tmp / "a name [1] with ünïcode"),
    ],
    ids=["str", "Path", "slash", "relative", "relative Path", "dots", "bytes", "nested", "odd name"],
)
def test_any_directory_is_created_and_written_to(library, tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    env = TraceRecordingWrapper(make(library, Walk), given(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    perform(env, "rsc")
    assert os.path.isabs(env.directory)
    assert os.path.samefile(env.directory, os.path.join(tmp_path, os.fsdecode(given(tmp_path))))
    assert summary(env.directory) == [(1, "close", False)]


def test_the_directory_can_be_a_keyword_as_can_the_environment(library, tmp_path):
    env = TraceRecordingWrapper(directory=tmp_path, env=make(library, Walk))
    perform(env, "rsc")
    assert summary(tmp_path) == [(1, "close", False)]


def test_without_a_directory_a_temporary_one_is_made(library, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first, second = (TraceRecordingWrapper(make(library, Walk), directory) for directory in (None, None))
    assert Path(first.directory).parent == tmp_path
    assert Path(first.directory).name.startswith("openai.gym.")
    assert first.directory != second.directory


def test_recorders_can_share_a_directory(library, tmp_path):
    envs = [TraceRecordingWrapper(make(library, Walk), tmp_path) for _ in range(3)]
    for env in envs:
        env.reset()
    for count, env in enumerate(envs):
        perform(env, "s" * count)
    for env in envs:
        env.close()
    reader = TraceRecordingReader(tmp_path)
    assert [len(trace) for trace in reader.traces] == [1, 1, 1]
    assert sorted(map(len, reader)) == [0, 1, 2]


def test_a_directory_that_is_a_file_is_an_error_of_the_constructor(library, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        TraceRecordingWrapper(make(library, Walk), tmp_path / "file")


# ---- a real wrapper


def test_it_is_a_wrapper_of_the_environments_library(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Walk), tmp_path)
    assert isinstance(env, TraceRecordingWrapper)
    assert isinstance(env, library.Wrapper)
    assert isinstance(env, library.Env)
    assert type(env).__name__ == "TraceRecordingWrapper"
    assert type(env).__module__ == "gym_recording.wrappers.trace_recording"
    assert str(env) == f"<TraceRecordingWrapper{env.env}>"


def test_recorders_of_both_libraries_live_side_by_side(tmp_path):
    gym, gymnasium = map(pytest.importorskip, ("gym", "gymnasium"))
    envs = [TraceRecordingWrapper(make(library, Walk), tmp_path) for library in (gym, gymnasium, gym)]
    assert [isinstance(env, gym.Wrapper) for env in envs] == [True, False, True]
    assert [isinstance(env, gymnasium.Wrapper) for env in envs] == [False, True, False]
    assert all(isinstance(env, TraceRecordingWrapper) for env in envs)
    assert type(envs[0]) is type(envs[2])


def test_what_the_environment_has_the_recorder_has(library, tmp_path):
    inner = make(library, Walk)
    inner.custom = ["anything"]
    env = TraceRecordingWrapper(inner, tmp_path)
    assert env.env is inner
    assert env.unwrapped is inner
    assert env.spec is None
    assert env.custom is inner.custom
    assert env.after(np.zeros(3), 2).tolist() == [0, 1, 3]
    for name in ("observation_space", "action_space", "metadata", "render_mode", "frame"):
        assert getattr(env, name) is getattr(inner, name)
    assert env.render() is Walk.frame
    assert not hasattr(env, "nothing")
    with pytest.raises(AttributeError):
        env._private  # noqa: B018 (as gym's Wrapper has it)


def test_the_attributes_of_the_recorder_are_there(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Walk), tmp_path)
    perform(env, "rss")
    assert env.directory == env.recording.directory == str(tmp_path)
    assert list(env.recording.rewards) == [1 / 3, 1 / 3]
    assert len(env.recording.observations) == 3


def test_the_spec_of_a_registered_environment_shows(library, tmp_path):
    env = TraceRecordingWrapper(cart_pole(library), tmp_path)
    assert env.spec.id == "CartPole-v1"
    assert env.spec.max_episode_steps == 500


def test_seed_passes_through_to_environments_that_have_it(library, tmp_path):
    env = TraceRecordingWrapper(make(library, OldWalk), tmp_path)
    assert env.seed(5) == [5]
    first = env.reset()
    env.seed(5)
    assert same(env.reset(), first)
    assert not hasattr(TraceRecordingWrapper(make(library, Walk), tmp_path), "seed")


def test_wrapper_attributes_are_set_where_they_are(tmp_path):
    gymnasium = pytest.importorskip("gymnasium")
    if version_of("gymnasium") < (1, 1):
        pytest.skip("gymnasium 1.0 sets it on the first wrapper that answers for it, earlier ones have no such method")
    inner = make(gymnasium, Walk)
    env = TraceRecordingWrapper(inner, tmp_path)
    outer = gymnasium.wrappers.TimeLimit(env, 100)
    assert outer.has_wrapper_attr("length")
    assert outer.get_wrapper_attr("length") == 3
    outer.set_wrapper_attr("length", 7)
    assert inner.length == 7
    assert "length" not in vars(env)
    outer.set_wrapper_attr("directory", "moved")
    assert env.directory == "moved"
    assert not hasattr(inner, "directory")
    assert not outer.has_wrapper_attr("nothing")
    with pytest.raises(AttributeError):
        outer.get_wrapper_attr("nothing")
    outer.set_wrapper_attr("brand_new", 1)
    assert outer.get_wrapper_attr("brand_new") == 1


def test_spaces_and_metadata_can_be_set_on_the_recorder(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Walk), tmp_path)
    env.observation_space = space = library.spaces.Discrete(3)
    env.metadata = {"render_modes": []}
    assert env.observation_space is space
    assert env.env.observation_space is not space
    assert env.env.metadata is Walk.metadata


@pytest.mark.filterwarnings("ignore::UserWarning")  # the checker would rather have unwrapped environments
@pytest.mark.parametrize("outer", [lambda env: env, lambda env: sys.modules["gymnasium"].wrappers.TimeLimit(env, 50)])
@pytest.mark.parametrize("of", [cart_pole, lambda library: make(library, Walk)])
def test_the_checker_of_gymnasium_passes(tmp_path, of, outer):
    gymnasium = pytest.importorskip("gymnasium")
    checker = pytest.importorskip("gymnasium.utils.env_checker")
    env = outer(TraceRecordingWrapper(of(gymnasium), tmp_path))
    checker.check_env(env, skip_render_check=True)
    env.close()
    assert len(episodes_in(tmp_path)) > 3


def test_the_spec_makes_an_environment_that_records_to_the_same_directory(tmp_path):
    gymnasium = pytest.importorskip("gymnasium")
    env = TraceRecordingWrapper(gymnasium.make("CartPole-v1"), tmp_path, infos=True)
    if not hasattr(env.spec, "additional_wrappers"):
        pytest.skip("specs of this gymnasium know nothing of wrappers")
    another = gymnasium.make(env.spec)
    assert isinstance(another, TraceRecordingWrapper)
    assert another.directory == str(tmp_path)
    another.reset()
    another.close()
    assert episodes_in(tmp_path)[0].infos == [{}]


# ---- subclasses


class Renamed(TraceRecordingWrapper):
    """A subclass with a signature of its own."""

    def __init__(self, where, env, scale=1):
        super().__init__(env, where, infos=True)
        self.scale = scale

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return (observation, reward * self.scale, *rest)


def test_a_subclass_has_its_own_signature_and_calls_super(library, tmp_path):
    env = Renamed(tmp_path, make(library, Walk), scale=30)
    assert isinstance(env, (Renamed, library.Wrapper))
    assert type(env).__name__ == "Renamed"
    env.reset()
    assert env.step(1)[1] == 10
    env.close()
    (episode,) = episodes_in(tmp_path)
    assert episode.rewards.tolist() == [1 / 3]
    assert "start" in episode.infos[0]


def test_a_subclass_may_make_its_environment_itself(library, tmp_path):
    class Maker(TraceRecordingWrapper):
        def __init__(self, length, directory):
            super().__init__(make(library, Walk, length), directory)

    env = Maker(1, tmp_path)
    assert isinstance(env, library.Wrapper)
    perform(env, "rsc")
    assert summary(tmp_path) == [(1, "terminated", False)]


def test_a_subclass_of_a_subclass_works_for_each_library(library, tmp_path):
    class Twice(Renamed):
        def reset(self, **kwargs):
            super().reset(**kwargs)
            return super().reset(**kwargs)

    env = Twice(tmp_path, env=make(library, Walk))
    perform(env, "rsc")
    assert summary(tmp_path) == [(0, "reset", False), (1, "close", False)]


@pytest.mark.parametrize("arguments", [(), (3,), ("CartPole-v1", "directory"), (None, None)])
def test_without_an_environment_there_is_an_error_that_says_so(arguments):
    with pytest.raises((TraceError, TypeError), match="environment"):
        TraceRecordingWrapper(*arguments)


def test_a_vector_environment_is_refused(library, tmp_path):
    vector = library.vector.SyncVectorEnv([lambda: make(library, Walk)] * 2)
    with pytest.raises(TraceError, match="vector environment"):
        TraceRecordingWrapper(vector, tmp_path)
    assert files_in(tmp_path) == []


def test_recorders_inside_a_vector_environment_record_a_trace_each(library, tmp_path):
    makers = [lambda: TraceRecordingWrapper(make(library, Walk, 100), tmp_path)] * 2
    vector = library.vector.SyncVectorEnv(makers)
    vector.reset(seed=4)
    for _ in range(5):
        vector.step(np.array([1, 2]))
    vector.close()
    assert sorted((e.seed, len(e), set(e.actions.tolist()).pop()) for e in episodes_in(tmp_path)) == [
        (4, 5, 1),
        (5, 5, 2),
    ]


# ---- stacks


def test_two_recorders_in_a_stack_record_each(library, tmp_path):
    inner = TraceRecordingWrapper(make(library, Walk), tmp_path / "inner")
    outer = TraceRecordingWrapper(inner, tmp_path / "outer")
    perform(outer, "rssrsc")
    assert inner.directory != outer.directory
    assert summary(inner.directory) == summary(outer.directory) == [(2, "reset", False), (1, "close", False)]
    for ours, theirs in zip(episodes_in(inner.directory), episodes_in(outer.directory)):
        assert same(ours.observations, theirs.observations)


def test_the_recorder_sees_what_is_below_it_and_not_what_is_above(library, tmp_path):
    wrappers = library.wrappers

    def doubled(env):
        is_late = library.__name__ == "gymnasium" and version_of("gymnasium") >= (1,)
        extra = (env.observation_space,) if is_late else ()
        return wrappers.TransformObservation(env, lambda observation: observation * 2, *extra)

    env = doubled(TraceRecordingWrapper(doubled(make(library, Walk)), tmp_path))
    perform(env, "r")
    above = env.step(1)[0]
    env.close()
    assert above[1] == 4
    assert episodes_in(tmp_path)[0].observations[1].tolist() == (above / 2).tolist()


@pytest.mark.parametrize("above", [True, False])
def test_a_time_limit_is_recorded_only_if_it_is_below(library, tmp_path, above):
    def recorder(env):
        return TraceRecordingWrapper(env, tmp_path)

    def limit(env):
        return library.wrappers.TimeLimit(env, max_episode_steps=2)

    env = limit(recorder(make(library, Walk, 9))) if above else recorder(limit(make(library, Walk, 9)))
    assert perform(env, "rss")[-1][3] is True
    env.close()
    (episode,) = episodes_in(tmp_path)
    assert (episode.terminated, episode.truncated) == (False, not above)
    assert episode.ended_by == ("close" if above else "truncated")


def test_common_wrappers_work_around_it(library, tmp_path):
    env = TraceRecordingWrapper(cart_pole(library), tmp_path, infos=True)
    env = library.wrappers.RecordEpisodeStatistics(env)
    stack = "FrameStackObservation" if hasattr(library.wrappers, "FrameStackObservation") else "FrameStack"
    env = getattr(library.wrappers, stack)(env, 2)
    outer = TraceRecordingWrapper(env, tmp_path / "stacked", infos=True)
    outer.reset(seed=0)
    done = False
    while not done:
        *_, done, _, info = outer.step(1)
    outer.close()
    (below,), (above,) = episodes_in(tmp_path), episodes_in(outer.directory)
    assert below.ended_by == above.ended_by == "terminated"
    assert same(above.observations[:, -1], below.observations)
    assert same(np.asarray(above.infos[-1]["episode"]["r"]), np.asarray(info["episode"]["r"]))


# ---- episodes


@pytest.mark.parametrize("kind", WALKS)
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("rssc", [(2, "close", False)]),
        ("rsssc", [(3, "terminated", False)]),
        ("rsssrsc", [(3, "terminated", False), (1, "close", False)]),
        ("rssrsssc", [(2, "reset", False), (3, "terminated", False)]),  # a reset in mid-episode
        ("rsssssrc", [(5, "terminated", False), (0, "close", False)]),  # steps after done
        ("ssc", [(2, "close", True)]),  # steps before the first reset
        ("srsc", [(1, "reset", True), (1, "close", False)]),
        ("rrsc", [(0, "reset", False), (1, "close", False)]),
        ("rc", [(0, "close", False)]),
        ("rrrc", [(0, "reset", False), (0, "reset", False), (0, "close", False)]),
        ("c", []),
        ("rscc", [(1, "close", False)]),
        ("ccc", []),
    ],
)
def test_an_episode_goes_from_reset_to_reset_or_close(library, tmp_path, kind, script, expected):
    env = TraceRecordingWrapper(make(library, kind), tmp_path)
    results = perform(env, script)
    assert summary(tmp_path) == expected
    assert env.env.closed == script.count("c")
    observations = [r[0] if kind is Walk or len(r) == 4 else r for r in results if r is not None]
    recorded = [row for episode in episodes_in(tmp_path) for row in episode.observations]
    assert same_rows(recorded, observations)


def test_nothing_recorded_leaves_no_file(library, tmp_path):
    TraceRecordingWrapper(make(library, Walk), tmp_path).close()
    assert files_in(tmp_path) == []


def test_a_recorder_that_nobody_closes_writes_when_it_is_collected(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Walk), tmp_path)
    perform(env, "rss")
    env.itself = env
    assert summary(tmp_path) == []
    del env
    gc.collect()
    assert summary(tmp_path) == [(2, "close", False)]


@pytest.mark.parametrize(
    ("flags", "then", "ended_by"),
    [
        ([(False, False)], "r", "reset"),
        ([(False, False)], "c", "close"),
        ([(True, False)], "r", "terminated"),
        ([(True, False)], "c", "terminated"),
        ([(False, True)], "r", "truncated"),
        ([(False, True)], "c", "truncated"),
        ([(True, True)], "r", "terminated"),
        ([(True, False), (False, False)], "r", "reset"),
        ([(False, True), (False, False)], "c", "close"),
        ([(False, False), (np.True_, np.False_)], "r", "terminated"),
        ([(1, 0)], "r", "terminated"),
    ],
)
def test_the_last_step_or_else_what_came_then_ended_the_episode(library, tmp_path, flags, then, ended_by):
    steps = [(0, 0.0, terminated, truncated, {}) for terminated, truncated in flags]
    env = TraceRecordingWrapper(make(library, Scripted, steps), tmp_path)
    perform(env, "r" + "s" * len(flags) + then)
    env.close()
    episode = episodes_in(tmp_path)[0]
    assert episode.ended_by == ended_by
    assert (episode.terminated, episode.truncated) == tuple(map(bool, flags[-1]))


@pytest.mark.parametrize(
    ("done", "info", "terminated", "truncated"),
    [
        (True, {}, True, False),
        (True, {"TimeLimit.truncated": True}, False, True),
        (True, {"TimeLimit.truncated": False}, True, False),
        (False, {"TimeLimit.truncated": True}, False, False),
        (False, {}, False, False),
    ],
)
def test_done_is_told_apart_by_the_time_limit(library, tmp_path, done, info, terminated, truncated):
    env = TraceRecordingWrapper(make(library, Scripted, [(0, 0.0, done, info)]), tmp_path)
    perform(env, "rsc")
    (episode,) = episodes_in(tmp_path)
    assert (episode.terminated, episode.truncated) == (terminated, truncated)


def test_an_episode_without_a_step_has_no_flags(library, tmp_path):
    perform(TraceRecordingWrapper(make(library, Walk), tmp_path), "rc")
    (episode,) = episodes_in(tmp_path)
    assert (episode.terminated, episode.truncated) == (None, None)


# ---- what passes through


@pytest.mark.parametrize(
    ("arguments", "seed", "options"),
    [
        ({}, None, None),
        ({"seed": 3}, 3, None),
        ({"seed": np.int32(3)}, 3, None),
        ({"seed": None}, None, None),
        ({"options": {"a": [1, None, "x"]}}, None, {"a": [1, None, "x"]}),
        ({"seed": 2**40, "options": {"at": np.arange(3, dtype="int8")}}, 2**40, {"at": np.arange(3, dtype="int8")}),
        ({"options": {}}, None, {}),
    ],
)
def test_the_arguments_of_reset_pass_through_and_are_recorded(library, tmp_path, arguments, seed, options):
    env = TraceRecordingWrapper(make(library, Walk), tmp_path)
    env.reset(**arguments)
    assert env.env.resets == [{k: v for k, v in arguments.items() if k != "seed" or v is not None}]
    env.close()
    (episode,) = episodes_in(tmp_path)
    assert episode.seed == seed
    assert same(episode.options, options)


def test_no_seed_is_made_up(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Walk), tmp_path)
    env.reset(seed=3)
    perform(env, "src")
    assert env.env.resets == [{"seed": 3}, {}]
    assert [episode.seed for episode in episodes_in(tmp_path)] == [3, None]


def test_options_that_cannot_be_stored_only_warn(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Walk), tmp_path)
    with pytest.warns(UserWarning, match=r"options\.how"):
        env.reset(options={"how": object()})
    env.close()
    assert summary(tmp_path) == [(0, "close", False)]
    assert episodes_in(tmp_path)[0].options is None


def test_step_and_reset_return_the_very_objects_of_the_environment(library, tmp_path):
    resets = [("first", {"an": "info"}), ("second", {})]
    steps = [("observation", 1, False, True, {}), ("observation", 1.0, True, {})]
    env = TraceRecordingWrapper(make(library, Scripted, steps, resets), tmp_path, infos=True)
    for reset, step in zip(resets, steps):
        assert env.reset() is reset
        assert env.step(0) is step
    env.close()


def test_a_run_is_the_same_with_and_without_the_recorder(library, tmp_path):
    def run(env):
        env.action_space.seed(7)
        for number in range(5):
            yield env.reset(seed=11) if number == 0 else env.reset()
            for _ in range(200):
                result = env.step(env.action_space.sample())
                yield result
                if result[2] or result[3]:
                    break
        env.close()

    bare = list(run(cart_pole(library)))
    recorded = list(run(TraceRecordingWrapper(cart_pole(library), tmp_path, infos=True, timestamps=True)))
    assert len(bare) > 50
    assert same(recorded, bare)
    assert sum(map(len, episodes_in(tmp_path))) == len(bare) - 5


def test_transitions_are_what_was_done_and_seen(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Walk, 50), tmp_path)
    for seed in range(4):
        env.reset(seed=seed)
        for step in range(20):
            env.step((step * seed) % 4)
    env.close()
    for seed, episode in enumerate(TraceRecordingReader(tmp_path)):
        assert episode.actions.tolist() == [(step * seed) % 4 for step in range(20)]
        for t, action in enumerate(episode.actions):
            assert same(episode.observations[t + 1], Walk.after(episode.observations[t], action))
            assert episode.rewards[t] == float(action) / 3


# ---- values


SPACES = {
    "box": lambda s: s.Box(-1, 1, (3,), np.float32),
    "image": lambda s: s.Box(0, 255, (60, 50, 3), np.uint8),
    "scalar box": lambda s: s.Box(0, 1, (), np.float64),
    "discrete": lambda s: s.Discrete(5),
    "multi-discrete": lambda s: s.MultiDiscrete([3, 4]),
    "multi-binary": lambda s: s.MultiBinary(5),
    "text": lambda s: s.Text(9),
    "dict": lambda s: s.Dict({"image": s.Box(0, 255, (8, 8, 3), np.uint8), "at": s.Discrete(3)}),
    "tuple": lambda s: s.Tuple((s.Discrete(3), s.Box(-1, 1, (2,), np.float32))),
    "nested": lambda s: s.Dict({"a": s.Tuple((s.Dict({"b": s.Discrete(2)}), s.Text(4))), "c": s.MultiBinary(3)}),
    "tuple of a thing and a dict": lambda s: s.Tuple((s.Discrete(3), s.Dict({"x": s.Discrete(2)}))),
    "sequence": lambda s: s.Sequence(s.Box(0, 1, (2,), np.float32)),
    "graph": lambda s: s.Graph(s.Box(0, 1, (2,), np.float32), s.Discrete(3)),
}


@pytest.mark.parametrize("name", SPACES)
def test_observations_and_actions_of_any_space_come_back_exactly(library, tmp_path, name):
    space = SPACES[name](library.spaces)
    env = TraceRecordingWrapper(make(library, Sampled, space, copy.deepcopy(space)), tmp_path)
    env.reset()
    actions = [env.action_space.sample() for _ in range(6)]
    for action in actions:
        env.step(action)
    env.close()
    (episode,) = episodes_in(tmp_path)
    assert same_rows(episode.actions, actions)
    assert same_rows(episode.observations, env.returned)


@pytest.mark.parametrize("old", [True, False])
def test_a_tuple_observation_may_end_in_a_dict(library, tmp_path, old):
    spaces = library.spaces
    observation = (1, {"x": 0})
    space = spaces.Tuple((spaces.Discrete(3), spaces.Dict({"x": spaces.Discrete(2)})))
    step = (observation, 0.0, False, {}) if old else (observation, 0.0, False, False, {})
    env = make(library, Scripted, [step], [observation if old else (observation, {"an": "info"})], space)
    env = TraceRecordingWrapper(env, tmp_path, infos=True)
    perform(env, "rsc")
    (episode,) = episodes_in(tmp_path)
    assert same_rows(episode.observations, [observation, observation])
    assert episode.infos[0] == ({} if old else {"an": "info"})


@pytest.mark.parametrize("shape", [(4,), (100, 100)])
def test_buffers_that_the_environment_uses_again_are_copied(library, tmp_path, shape):
    env = TraceRecordingWrapper(make(library, Reusing, shape), tmp_path, infos=True)
    perform(env, "rsssc")
    (episode,) = episodes_in(tmp_path)
    assert episode.observations["count"].tolist() == [0, 1, 2, 3]
    assert episode.observations["frame"].reshape(4, -1)[:, 0].tolist() == [0, 1, 2, 3]
    assert same(episode.rewards, np.array([1, 2, 3], "float32"))
    assert [int(info["count"]) for info in episode.infos] == [0, 1, 2, 3]


def test_an_action_is_copied_before_the_environment_can_overwrite_it(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Overwriting), tmp_path)
    env.reset()
    action = np.zeros(2)
    for number in range(3):
        action[...] = number
        env.step(action)
        assert action.tolist() == [-1, -1]
    env.close()
    assert episodes_in(tmp_path)[0].actions.tolist() == [[0, 0], [1, 1], [2, 2]]


# ---- what cannot be stored, what fails


BAD = object()
GOOD = (1, 2.0, False, False, {})


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        ((BAD, 0.0, False, False, {}), "observations"),
        (({"graph": BAD}, 0.0, False, False, {}), "observations.graph"),
        (((1, [BAD]), 0.0, False, False, {}), r"observations\[1\]\[0\]"),
        ((np.array([BAD]), 0.0, False, False, {}), "observations"),
        ((np.ma.masked_array([1, 2], [0, 1]), 0.0, False, False, {}), "observations"),
        ((1, BAD, False, False, {}), "rewards"),
        ((1, BAD, False, {}), "rewards"),
    ],
)
def test_a_value_that_cannot_be_stored_is_named_and_nothing_else_is_lost(library, tmp_path, bad, path):
    env = TraceRecordingWrapper(make(library, Scripted, [GOOD, GOOD, bad, GOOD]), tmp_path)
    perform(env, "rss")
    with pytest.raises(TraceError, match=f"^{path}: cannot store"):
        env.step(3)
    env.step(0)
    env.close()
    (episode,) = episodes_in(tmp_path)
    assert env.calls == {"reset": 1, "step": 4}
    assert episode.actions.tolist() == [1, 1, 0]
    assert same_rows(episode.observations, [0, 1, 1, 1])
    assert episode.gaps == (2,)


def test_an_action_that_cannot_be_stored_raises_before_the_environment_is_stepped(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Scripted, [GOOD]), tmp_path)
    perform(env, "rs")
    with pytest.raises(TraceError, match=r"^actions\.way: cannot store"):
        env.step({"way": BAD})
    assert env.calls["step"] == 1
    perform(env, "sc")
    assert summary(tmp_path) == [(2, "close", False)]


def test_a_first_observation_that_cannot_be_stored_leaves_a_headless_episode(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Scripted, [GOOD], [(0, {}), (BAD, {})]), tmp_path)
    perform(env, "rs")
    with pytest.raises(TraceError, match=r"^observations: cannot store"):
        env.reset(seed=1)
    perform(env, "ssrsc")
    assert summary(tmp_path) == [(1, "reset", False), (2, "reset", True), (1, "close", False)]
    assert [episode.gaps for episode in episodes_in(tmp_path)] == [(), (), ()]


def test_a_step_result_of_no_known_interface_is_an_error(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Scripted, [(1, 2.0, {}), GOOD]), tmp_path)
    env.reset()
    with pytest.raises(TraceError, match="4 or 5 values"):
        env.step(0)
    perform(env, "sc")
    assert summary(tmp_path) == [(1, "close", False)]


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)])
def test_a_step_that_raises_is_not_half_recorded(library, tmp_path, error):
    env = TraceRecordingWrapper(make(library, Scripted, [GOOD, error, GOOD]), tmp_path, infos=True, timestamps=True)
    perform(env, "rs")
    with pytest.raises(type(error)) as raised:
        env.step(2)
    assert raised.value is error
    assert (len(env.recording.actions), len(env.recording.observations)) == (1, 2)
    perform(env, "sc")
    (episode,) = episodes_in(tmp_path)
    assert episode.actions.tolist() == [1, 1]
    assert episode.gaps == (1,)
    assert len(episode.timestamps) == 2


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_a_reset_that_raises_ends_the_episode_before_it(library, tmp_path, error):
    env = TraceRecordingWrapper(make(library, Scripted, [GOOD], [(0, {}), error]), tmp_path)
    perform(env, "rs")
    with pytest.raises(type(error)):
        env.reset()
    perform(env, "rsc")
    assert summary(tmp_path) == [(1, "reset", False), (1, "close", False)]


def test_a_closed_recorder_raises_before_the_environment_does_anything(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Walk), tmp_path)
    perform(env, "rsc")
    for call in (lambda: env.step(0), env.reset):
        with pytest.raises(ClosedError, match="closed"):
            call()
    assert (env.env.steps, len(env.env.resets)) == (1, 1)
    assert summary(tmp_path) == [(1, "close", False)]


def test_closing_during_a_step_drops_that_step_and_later_ones_raise(library, tmp_path):
    class Closing(Walk):
        """Like an environment in whose step a signal handler closes the recorder."""

        def step(self, action):
            recorder.close()
            return Walk.step(self, action)

    recorder = TraceRecordingWrapper(make(library, Closing), tmp_path)
    perform(recorder, "rs")
    with pytest.raises(ClosedError):
        recorder.step(0)
    assert recorder.env.steps == 1
    assert summary(tmp_path) == [(0, "close", False)]


def test_close_closes_the_environment_even_if_nothing_can_be_written(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Walk), tmp_path / "gone")
    perform(env, "rss")
    shutil.rmtree(env.directory)
    with pytest.raises(OSError, match="gone"):
        env.close()
    assert env.env.closed == 1
    os.mkdir(env.directory)
    env.close()
    assert env.env.closed == 2
    assert summary(env.directory) == [(2, "close", False)]


# ---- infos and timestamps


def test_infos_are_recorded_as_sparse_as_they_are(library, tmp_path):
    infos = [
        {"start": True},
        {},
        {"n": 1, "text": "ü", 5: None, "nested": {"a": np.arange(2), 1: (2.0, [])}},
        {"n": np.int64(2), "late": np.float32(0.5), "__type": "ndarray"},
        {"n": 2.5, "nested": {}},
    ]
    steps = [(0, 0.0, False, False, info) for info in infos[1:]]
    env = TraceRecordingWrapper(make(library, Scripted, steps, [(0, infos[0])]), tmp_path, infos=True)
    perform(env, "rssssrc")
    first, second = episodes_in(tmp_path)
    infos[2]["n"] = 1.0  # ints and floats mixed are floats, where that changes no value
    infos[3]["n"] = 2.0
    assert [sorted(found, key=str) for found in first.infos] == [sorted(info, key=str) for info in infos]
    assert all(same(found[key], info[key]) for found, info in zip(first.infos, infos) for key in info)
    assert second.infos == [{"start": True}]


def test_infos_and_timestamps_are_not_recorded_unless_asked_for(library, tmp_path):
    perform(TraceRecordingWrapper(make(library, Walk), tmp_path), "rsc")
    (episode,) = episodes_in(tmp_path)
    assert (episode.infos, episode.timestamps) == (None, None)


def test_infos_that_cannot_be_stored_are_left_out_with_one_warning_per_key(library, tmp_path):
    def info(n):
        return {"n": n, "thing": BAD, "deep": {"er": {1, 2}}, ("a", "tuple"): 1, "sometimes": BAD if n == 2 else n}

    steps = [(0, 0.0, False, False, info(n)) for n in (1, 2, 3)]
    env = TraceRecordingWrapper(make(library, Scripted, steps, [(0, info(0))]), tmp_path, infos=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        perform(env, "rsssrsssc")
    messages = sorted(str(warning.message) for warning in caught)
    assert len(messages) == 4
    for part, message in zip(
        ["infos.deep.er:", "infos.sometimes:", "infos.thing:", "infos: cannot store the key"], messages
    ):
        assert part in message
    expected = [{"n": 0, "sometimes": 0}, {"n": 1, "sometimes": 1}, {"n": 2}, {"n": 3, "sometimes": 3}]
    assert [episode.infos for episode in episodes_in(tmp_path)] == [expected, expected]


def test_an_info_that_is_no_dict_is_left_out_with_a_warning(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Scripted, [(0, 0.0, False, False, ["odd"])]), tmp_path, infos=True)
    env.reset()
    with pytest.warns(UserWarning, match="infos"):
        env.step(0)
    env.close()
    assert episodes_in(tmp_path)[0].infos == [{}, {}]


# ---- frames


class Shown(Walk):
    """Its frames are what `show` gives of the state."""

    @staticmethod
    def show(state):
        return np.full((6, 8, 3), int(state.sum()) % 256, "uint8")

    def render(self):
        return self.show(self.state)


def test_a_frame_is_rendered_after_every_reset_and_step(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Shown, 3, "rgb_array"), tmp_path, frames=True)
    returned = perform(env, "rsssrc")
    episodes = episodes_in(tmp_path)
    assert [len(episode) for episode in episodes] == [3, 0]
    seen = [[returned[0][0], *[step[0] for step in returned[1:4]]], [returned[4][0]]]
    for episode, states in zip(episodes, seen):
        assert same(episode.frames, np.stack([Shown.show(state) for state in states]))


def test_frames_are_not_rendered_unless_asked_for(library, tmp_path):
    class Unseen(Walk):
        def render(self):
            raise AssertionError

    perform(TraceRecordingWrapper(make(library, Unseen, 3, "rgb_array"), tmp_path), "rsc")
    (episode,) = episodes_in(tmp_path)
    assert episode.frames is None


def test_a_frame_that_is_used_again_is_copied(library, tmp_path):
    class Again(Walk):
        canvas = np.zeros((90, 100, 3), "uint8")

        def render(self):
            self.canvas[...] = self.state[1]
            return self.canvas

    perform(TraceRecordingWrapper(make(library, Again, 9, "rgb_array"), tmp_path, frames=True), "rsssc")
    (episode,) = episodes_in(tmp_path)
    assert episode.frames[:, 0, 0, 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("mode", [None, "human", "ansi", "rgb_array_list", "depth_array"])
def test_an_environment_that_renders_otherwise_is_refused_at_once(library, tmp_path, mode):
    with pytest.raises(TraceError) as caught:
        TraceRecordingWrapper(make(library, Walk, 3, mode), tmp_path / "none", frames=True)
    assert str(caught.value) == (
        "render_mode: its frames cannot be recorded; make the environment with another render_mode "
        f"(expected 'rgb_array', found {mode!r})"
    )
    assert not (tmp_path / "none").exists()
    TraceRecordingWrapper(make(library, Walk, 3, mode), tmp_path).close()


RENDERED = {  # what `render` does when step 2 is rendered, and what the warning says
    "raises": (ValueError("lost\nthe window"), "render failed .*ValueError: lost"),
    "gives none": (None, "render returned None"),
    "gives a list": ([np.zeros((6, 8, 3), "uint8")], "no frame .*list"),
    "gives floats": (np.zeros((6, 8, 3)), r"no frame .*float64\(6, 8, 3\)"),
    "gives text": ("+--+", "no frame .*str"),
}


@pytest.mark.parametrize("options", [{}, {"flush_interval": 0}], ids=["at once", "streamed"])
@pytest.mark.parametrize("what", RENDERED)
def test_a_render_that_fails_costs_its_frame_and_one_warning_but_no_step(library, tmp_path, what, options):
    failure, message = RENDERED[what]

    class Failing(Shown):
        def render(self):
            if self.state[1] % 3 != 2:
                return super().render()
            if isinstance(failure, Exception):
                raise failure
            return failure

    env = TraceRecordingWrapper(make(library, Failing, 99, "rgb_array"), tmp_path, frames=True, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        returned = perform(env, "rssssss")
    env.close()
    assert len(caught) == 1 and re.search(message, str(caught[0].message), re.DOTALL)
    (episode,) = episodes_in(tmp_path)
    assert same(episode.observations, np.stack([result[0] for result in returned]))
    assert (episode.gaps, episode.headless, len(episode.frames)) == ((), False, 7)
    for n, frame in enumerate(episode.frames):
        assert frame is None if n % 3 == 2 else same(frame, Shown.show(episode.observations[n]))


@pytest.mark.parametrize("options", [{}, {"flush_interval": 0}, {"infos": True, "timestamps": True}])
@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize("keys", ["s", "r", "ss", "rs", "sr"])
def test_a_window_that_answers_keys_with_steps_and_resets_leaves_a_right_recording(
    library, tmp_path, at, keys, options
):
    class Answering(Shown):
        rendered = 0

        def render(self):
            self.rendered += 1
            if self.rendered == at + 1:
                perform(self.wrapper, keys)
            return super().render()

    made = make(library, Answering, 99, "rgb_array")
    env = TraceRecordingWrapper(made, tmp_path, frames=True, **options)
    made.wrapper = weakref.proxy(env)
    perform(env, "rssssrsc")
    made.wrapper = None
    assert check_recording(tmp_path) == []
    episodes = episodes_in(tmp_path)
    for episode in episodes:
        for observation, frame in zip(episode.observations, episode.frames):
            assert same(frame, Shown.show(observation))
        for t, action in enumerate(episode.actions):
            if t not in episode.gaps and not (t == 0 and episode.headless):
                before, after = episode.observations[t - episode.headless :][:2]
                assert same(after, Walk.after(before, action))
    assert len(episodes[-1]) == 1


def test_a_window_that_changes_its_size_is_recorded_in_each(library, tmp_path):
    class Resized(Walk):
        def render(self):
            return np.full((6 + int(self.state[1]) // 3, 8, 3), int(self.state[1]), "uint8")

    perform(TraceRecordingWrapper(make(library, Resized, 99, "rgb_array"), tmp_path, frames=True), "rssssc")
    (episode,) = episodes_in(tmp_path)
    assert [(frame.shape[0], frame[0, 0, 0]) for frame in episode.frames] == [(6, 0), (6, 1), (6, 2), (7, 3), (7, 4)]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_records_the_frames_of_its_own_environment(tmp_path, copied):
    library = pytest.importorskip("gymnasium")
    env = TraceRecordingWrapper(make(library, Walk, 50, "rgb_array"), tmp_path, frames=True)
    perform(env, "rs")
    other = copied(env)
    other.unwrapped.frame = np.ones((2, 2, 3), "uint8")
    for one in (env, other):
        perform(one, "rsc")
    frames = [episode.frames for episode in episodes_in(tmp_path) if not episode.headless]
    assert [frame.mean() for frame in frames] == [0, 0, 1]


def test_rendered_frames_of_a_real_environment_are_those_that_others_see(tmp_path):
    pytest.importorskip("pygame")
    library = pytest.importorskip("gymnasium")
    env = TraceRecordingWrapper(cart_pole(library, render_mode="rgb_array"), tmp_path, frames=True)
    seen = []
    for call in (env.reset, *[lambda: env.step(1)] * 5):
        call()
        seen.append(env.render())
    env.close()
    (episode,) = episodes_in(tmp_path)
    assert same(episode.frames, np.stack(seen))
    assert TraceRecordingReader(tmp_path).traces[0].env["render_fps"] == 50


def test_timestamps_say_when_each_step_ended(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Walk), tmp_path, timestamps=True)
    before = time.time()
    perform(env, "rsssrc")
    after = time.time()
    stamps, none = (episode.timestamps for episode in episodes_in(tmp_path))
    assert (stamps.dtype, stamps.shape) == (np.float64, (3,))
    assert (none.dtype, none.shape) == (np.float64, (0,))
    ordered = [before, *stamps, after]
    assert ordered == sorted(ordered)


def test_when_an_episode_started_is_recorded(library, tmp_path):
    perform(TraceRecordingWrapper(make(library, Walk), tmp_path), "rc")
    started = episodes_in(tmp_path)[0].started
    seconds = time.mktime(time.strptime(started[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
    assert started.endswith("Z")
    assert abs(seconds - time.time()) < 60


def test_the_manifest_says_what_the_environment_is(library, tmp_path):
    env = TraceRecordingWrapper(cart_pole(library), tmp_path, metadata={"mine": [1, 2]})
    perform(env, "rc")
    (trace,) = TraceRecordingReader(tmp_path).traces
    assert trace.env["id"] == "CartPole-v1"
    assert trace.env["action_space"] == {"type": "Discrete", "n": 2, "start": 0}
    assert trace.env["observation_space"]["shape"] == [4]
    assert trace.writer["library"] == f"{library.__name__} {library.__version__}"
    assert trace.metadata == {"mine": [1, 2]}


# ---- copies


@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        *(lambda env, p=p: pickle.loads(pickle.dumps(env, p)) for p in range(2, pickle.HIGHEST_PROTOCOL + 1)),
    ],
)
def test_a_copy_goes_on_in_a_trace_of_its_own(library, tmp_path, copied):
    env = Renamed(tmp_path, make(library, Walk, 50), scale=3)
    perform(env, "rs")
    other = copied(env)
    assert type(other) is type(env)
    assert (other.scale, other.directory) == (3, env.directory)
    assert other.env is not env.env
    assert same(perform(other, "s")[0][0], perform(env, "s")[0][0])
    perform(env, "sc")
    perform(other, "rsc")
    reader = TraceRecordingReader(tmp_path)
    found = [[(len(e), e.ended_by, e.headless) for e in itertools.islice(reader, *at)] for at in ((0, 1), (1, 3))]
    assert found == [[(3, "close", False)], [(1, "reset", True), (1, "close", False)]]
    assert [episode.infos is not None for episode in reader] == [True, True, True]
    assert [len(trace) for trace in reader.traces] == [1, 2]


# ---- Stable-Baselines3


@pytest.mark.filterwarnings("ignore")
def test_the_checker_of_stable_baselines_passes(tmp_path):
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    env = TraceRecordingWrapper(cart_pole(pytest.importorskip("gymnasium")), tmp_path)
    checker.check_env(env)
    env.close()
    assert episodes_in(tmp_path)


def test_seeds_and_options_that_are_given_by_position_are_recorded_too(tmp_path):
    gymnasium = pytest.importorskip("gymnasium")

    class Positional(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Discrete(2)

        def reset(self, seed=None, options=None):
            return 0, {}

    env = TraceRecordingWrapper(Positional(), tmp_path)
    env.reset(42, {"level": 3})
    env.reset(7)
    env.close()
    first, second = TraceRecordingReader(tmp_path)
    assert (first.seed, first.options, second.seed, second.options) == (42, {"level": 3}, 7, None)


def test_arguments_in_the_wrong_order_and_those_that_are_not_for_a_wrapper_are_refused(tmp_path):
    gymnasium = pytest.importorskip("gymnasium")
    with pytest.raises(TraceError, match=r"no environment to wrap \(expected a gym.Env.*found 'recordings'"):
        TraceRecordingWrapper("recordings", gymnasium.make("CartPole-v1"))
    with pytest.raises(TraceError, match="lanes: not for a wrapper"):
        TraceRecordingWrapper(gymnasium.make("CartPole-v1"), tmp_path, lanes=2)


def test_a_recorder_whose_wrapper_is_gone_records_without_frames_and_warns_once(library, tmp_path):
    recording = TraceRecordingWrapper(make(library, Shown, 3, "rgb_array"), tmp_path, frames=True).recording
    gc.collect()
    with pytest.warns(UserWarning, match="the wrapper is gone, and nothing renders") as warned:
        recording.add_reset(0)
        recording.add_step(0, 1, 0.5)
    assert len(warned) == 1
    recording.close()
    (episode,) = episodes_in(tmp_path)
    assert (len(episode), episode.frames) == (1, None) or list(episode.frames) == [None, None]
