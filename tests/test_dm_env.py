"""dm_env: episodes from one FIRST to the next, with every part of every TimeStep. Needs `dm_env`; skipped without."""

import copy
import unittest
from typing import Any, NamedTuple

import numpy as np
import pytest
from environments import same

from gym_recording import ClosedError, TraceError, TraceRecordingDmEnvWrapper, TraceRecordingReader
from gym_recording.spaces import write_spec

dm_env = pytest.importorskip("dm_env")
specs = dm_env.specs

FIRST, MID, LAST = dm_env.StepType.FIRST, dm_env.StepType.MID, dm_env.StepType.LAST


class Scripted(dm_env.Environment):
    """Returns the TimeSteps that it is given, one after the other; keeps the actions that it got."""

    def __init__(self, *script):
        self.script = list(script)
        self.actions = []
        self.closed = 0

    def next(self):
        result = self.script.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result

    def reset(self):
        return self.next()

    def step(self, action):
        self.actions.append(copy.deepcopy(action))
        if isinstance(action, np.ndarray):
            action[...] = -1
        return self.next()

    def observation_spec(self):
        return specs.Array((), np.int64)

    def action_spec(self):
        return specs.DiscreteArray(3)

    def close(self):
        self.closed += 1


first, mid = dm_env.restart, dm_env.transition


def run(directory, script, calls, **options):
    """The episodes of a run: `r` is a reset, a number an action."""
    inner = Scripted(*script)
    env = TraceRecordingDmEnvWrapper(inner, directory, **options)
    for call, expected in zip(calls, script):
        found = env.reset() if call == "r" else env.step(call)
        assert found is expected
    env.close()
    assert inner.closed == 1
    return list(TraceRecordingReader(directory))


def content(episode):
    return (
        [episode.observations[t] for t in range(len(episode.observations))],
        [episode.actions[t] for t in range(len(episode.actions))],
        [episode.rewards[t] for t in range(len(episode.rewards))],
        episode.ended_by,
    )


@pytest.mark.parametrize(
    ("script", "calls", "expected"),
    [
        ([first(0), mid(0.5, 1), dm_env.termination(2.0, 2)], "r12", [([0, 1, 2], [1, 2], [0.5, 2.0], "terminated")]),
        ([first(0), mid(0.5, 1), dm_env.truncation(2.0, 2)], "r12", [([0, 1, 2], [1, 2], [0.5, 2.0], "truncated")]),
        ([first(0), mid(0.5, 1), first(2)], "r1r", [([0, 1], [1], [0.5], "reset"), ([2], [], [], "close")]),
        # LAST, then a step: the action is ignored, and is no step
        (
            [first(0), dm_env.termination(1.0, 1), first(2), mid(3.0, 3)],
            "r121",
            [([0, 1], [1], [1.0], "terminated"), ([2, 3], [1], [3.0], "close")],
        ),
        (
            [first(0), dm_env.termination(1.0, 1), first(2)],
            "r1r",
            [([0, 1], [1], [1.0], "terminated"), ([2], [], [], "close")],
        ),
        # never reset: the first step is one
        ([first(0), mid(1.0, 1)], "12", [([0, 1], [2], [1.0], "close")]),
        # an environment that begins anew by itself, without LAST
        (
            [first(0), mid(1.0, 1), first(2), mid(3.0, 3)],
            "r121",
            [([0, 1], [1], [1.0], "reset"), ([2, 3], [1], [3.0], "close")],
        ),
        # against the rules: after LAST it goes on without a FIRST, which is an episode without a first observation
        (
            [first(0), dm_env.termination(1.0, 1), mid(2.0, 2), mid(3.0, 3), first(4)],
            "r1201",
            [([0, 1], [1], [1.0], "terminated"), ([2, 3], [2, 0], [2.0, 3.0], "reset"), ([4], [], [], "close")],
        ),
        (
            [first(0), dm_env.termination(1.0, 1), dm_env.truncation(2.0, 2), first(3)],
            "r12r",
            [([0, 1], [1], [1.0], "terminated"), ([2], [2], [2.0], "truncated"), ([3], [], [], "close")],
        ),
        # recording begins in mid-episode
        ([mid(1.0, 1), mid(2.0, 2)], "12", [([1, 2], [1, 2], [1.0, 2.0], "close")]),
    ],
)  # fmt: skip
def test_time_steps_become_episodes(tmp_path, script, calls, expected):
    calls = [call if call == "r" else int(call) for call in calls]
    found = [content(episode) for episode in run(tmp_path, script, calls)]
    assert same(found, expected)


@pytest.mark.parametrize(
    ("discount", "flags"),
    [
        (0.0, (True, False)),
        (np.float32(0), (True, False)),
        (1.0, (False, True)),
        (0.25, (False, True)),
        (np.zeros(2), (True, False)),
        (np.array([0.0, 0.5]), (False, True)),
        ({"a": 0.0, "b": [0.0]}, (True, False)),
        ((0.0, {"b": 0.1}), (False, True)),
        (None, (None, None)),
    ],
)
def test_the_discount_of_the_last_step_tells_termination_from_truncation(tmp_path, discount, flags):
    (episode,) = run(tmp_path, [first(0), dm_env.TimeStep(LAST, 1.0, discount, 1)], ["r", 1])
    assert (episode.terminated, episode.truncated) == flags


def test_the_steps_before_the_last_are_neither(tmp_path):
    (episode,) = run(tmp_path, [first(0), mid(1.0, 1, discount=0.0)], ["r", 1])
    assert (episode.terminated, episode.truncated, episode.ended_by) == (False, False, "close")


def test_every_part_of_a_time_step_comes_back(tmp_path):
    def observation(n):
        return {"pixels": np.full((2, 2), n, "uint8"), "state": (np.float32(n), [n])}

    script = [
        dm_env.TimeStep(FIRST, 9.0, None, observation(0)),  # against the rules, but returned
        dm_env.TimeStep(MID, {"a": np.float32(1)}, np.array([0.5, 1.0]), observation(1)),
        dm_env.TimeStep(LAST, {"a": np.float32(2)}, np.array([0.0, 1.0]), observation(2)),
    ]
    (episode,) = run(tmp_path, copy.deepcopy(script), ["r", 1, 2])
    found, actions, rewards, _ = content(episode)
    assert same([f["pixels"] for f in found], [s.observation["pixels"] for s in script])
    assert same([f["state"][1] for f in found], [s.observation["state"][1] for s in script])
    assert same(rewards, [s.reward for s in script[1:]])
    assert same(episode.infos, [{"reward": 9.0}, {"discount": script[1].discount}, {"discount": script[2].discount}])
    assert same(actions, [1, 2])


def test_further_parts_of_a_time_step_stand_in_the_infos(tmp_path):
    class More(NamedTuple):
        step_type: Any
        reward: Any
        discount: Any
        observation: Any
        extras: Any
        first = dm_env.TimeStep.first
        last = dm_env.TimeStep.last

    script = [More(FIRST, None, None, 0, {"x": 1}), More(MID, 1.0, 1.0, 1, {"x": 2})]
    (episode,) = run(tmp_path, script, ["r", 1])
    assert same(episode.infos, [{"extras": {"x": 1}}, {"extras": {"x": 2}, "discount": 1.0}])


def test_without_infos_the_discount_is_left_out(tmp_path):
    (episode,) = run(tmp_path, [first(0), mid(1.0, 1)], ["r", 1], infos=False)
    assert episode.infos is None


def test_an_action_is_copied_before_the_environment_overwrites_it(tmp_path):
    env = TraceRecordingDmEnvWrapper(Scripted(first(0), mid(1.0, 1)), tmp_path)
    env.reset()
    env.step(np.array([3, 4]))
    env.close()
    assert TraceRecordingReader(tmp_path)[0].actions.tolist() == [[3, 4]]


def test_what_cannot_be_stored_is_an_error_that_says_where(tmp_path):
    inner = Scripted(first(0), mid(1.0, object()), mid(2.0, 2), dm_env.termination(3.0, 3), first(4))
    env = TraceRecordingDmEnvWrapper(inner, tmp_path)
    env.reset()
    with pytest.raises(TraceError, match="actions: cannot store"):
        env.step(object())
    assert inner.actions == []
    with pytest.raises(TraceError, match="observations: cannot store"):
        env.step(1)
    env.step(2)
    env.step(3)
    env.step(object())  # ignored, so it is no action
    env.close()
    episodes = list(TraceRecordingReader(tmp_path))
    assert same(content(episodes[0]), ([0, 2, 3], [2, 3], [2.0, 3.0], "terminated"))
    assert episodes[0].gaps == (0,)
    assert len(episodes) == 2


def test_an_action_after_last_is_refused_only_if_it_is_a_step(tmp_path):
    env = TraceRecordingDmEnvWrapper(Scripted(first(0), dm_env.termination(1.0, 1), mid(2.0, 2), mid(3.0, 3)), tmp_path)
    env.reset()
    env.step(1)
    with pytest.raises(TraceError, match="actions: cannot store"):
        env.step(object())
    env.step(2)
    env.close()
    episodes = list(TraceRecordingReader(tmp_path))
    assert [content(episode)[1] for episode in episodes] == [[1], [2]]
    assert [episode.headless for episode in episodes] == [False, True]


def test_lanes_and_frames_are_refused(tmp_path):
    with pytest.raises(TraceError, match=r"lanes: one environment has one lane; leave it out \(found 2\)"):
        TraceRecordingDmEnvWrapper(Scripted(), tmp_path, lanes=2)
    with pytest.raises(TraceError, match=r"frames: only environments of gym and gymnasium are rendered; leave it out"):
        TraceRecordingDmEnvWrapper(Scripted(), tmp_path, frames=True)
    assert list(tmp_path.iterdir()) == []


def test_a_closed_recorder_steps_nothing(tmp_path):
    inner = Scripted(first(0), first(1))
    env = TraceRecordingDmEnvWrapper(inner, tmp_path)
    env.reset()
    env.close()
    with pytest.raises(ClosedError):
        env.step(1)
    with pytest.raises(ClosedError):
        env.reset()
    assert (inner.actions, len(inner.script)) == ([], 1)


def test_a_recorder_is_an_environment_of_the_library(tmp_path):
    inner = Scripted(first(0))
    with TraceRecordingDmEnvWrapper(inner, tmp_path) as env:
        assert isinstance(env, dm_env.Environment)
        assert isinstance(env, TraceRecordingDmEnvWrapper)
        assert env.observation_spec() == inner.observation_spec()
        assert env.action_spec() == inner.action_spec()
        assert env.reward_spec() == inner.reward_spec()
        assert env.discount_spec() == inner.discount_spec()
        assert env.script is inner.script
        with pytest.raises(AttributeError):
            env.nothing  # noqa: B018
        env.reset()
    assert inner.closed == 1
    (trace,) = TraceRecordingReader(tmp_path).traces
    assert trace.writer["library"].startswith("dm_env ")
    assert trace.env == {
        "entry_point": f"{__name__}:Scripted",
        "observation_space": {
            "type": "Box",
            "shape": [],
            "dtype": "int64",
            "low": -(2**63),
            "high": 2**63 - 1,
            "bounded_below": False,
            "bounded_above": False,
        },
        "action_space": {"type": "Discrete", "n": 3, "start": 0, "dtype": "int32"},
    }
    with pytest.raises(TraceError, match="not made by a registered id"):
        trace.make_env()


def test_a_copy_records_for_itself(tmp_path):
    env = TraceRecordingDmEnvWrapper(Scripted(first(0), mid(1.0, 1), mid(2.0, 2)), tmp_path)
    env.reset()
    other = copy.deepcopy(env)
    assert type(other) is type(env)
    env.step(1)
    other.step(2)
    env.close()
    other.close()
    found = [content(episode)[1] for episode in TraceRecordingReader(tmp_path)]
    assert same(found, [[1], [2]])


def test_what_is_no_environment_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"expected a dm_env\.Environment"):
        TraceRecordingDmEnvWrapper(object(), tmp_path)


def test_dm_env_s_own_test_passes_through_the_recorder(tmp_path):
    test_utils = pytest.importorskip("dm_env.test_utils")

    class Count(dm_env.Environment):
        def __init__(self):
            self.time = None

        def reset(self):
            self.time = 0
            return first(np.zeros(2))

        def step(self, action):
            if self.time is None:
                return self.reset()
            self.time += 1
            if self.time == 5:
                self.time = None
                return dm_env.termination(1.0, np.ones(2))
            return mid(0.5, np.full(2, 0.5))

        def observation_spec(self):
            return specs.BoundedArray((2,), np.float64, 0, 1)

        def action_spec(self):
            return specs.DiscreteArray(3)

    class Test(test_utils.EnvironmentTestMixin, unittest.TestCase):
        def make_object_under_test(self):
            return TraceRecordingDmEnvWrapper(Count(), tmp_path)

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Test).run(result)
    assert result.testsRun > 3
    assert (result.errors, result.failures) == ([], [])
    assert len(TraceRecordingReader(tmp_path)) > 10


BOX = {"type": "Box", "shape": [2], "dtype": "float32"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (specs.Array((2,), np.float32), {**BOX, "low": "-inf", "high": "inf"}),
        (specs.BoundedArray((2,), np.float32, -1, [1, 2]), {**BOX, "low": -1.0, "high": [1.0, 2.0]}),
        (specs.BoundedArray((2,), np.uint8, 0, 255), {**BOX, "dtype": "uint8", "low": 0, "high": 255}),
        (specs.Array((2,), bool), {**BOX, "dtype": "bool", "low": False, "high": True}),
        (specs.DiscreteArray(3, np.int64), {"type": "Discrete", "n": 3, "start": 0}),
        (
            {"b": specs.DiscreteArray(3, np.int64), "a": [specs.DiscreteArray(2, np.int64)]},
            {
                "type": "Dict",
                "spaces": {
                    "b": {"type": "Discrete", "n": 3, "start": 0},
                    "a": {"type": "Tuple", "spaces": [{"type": "Discrete", "n": 2, "start": 0}]},
                },
            },
        ),
    ],
)
def test_specs_are_written_as_spaces_of_the_same_values(spec, expected):
    lost = []
    assert write_spec(spec, "spec", lost) == expected
    assert lost == []


@pytest.mark.parametrize("spec", [specs.StringArray(()), 3, {1: specs.DiscreteArray(2)}, np.zeros(2)])
def test_specs_without_such_a_space_are_null_and_why_is_said(spec):
    lost = []
    assert write_spec(spec, "spec", lost) is None
    assert len(lost) == 1
    assert lost[0].startswith("spec cannot be written: ")
