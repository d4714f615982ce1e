"""A replay says of each episode that it is equal, where it differs, or why neither can be known."""

import sys
import types
from functools import partial

import numpy as np
import pytest
from environments import LIBRARIES, Kind, OldWalk, Walk, class_of, make

import gym_recording
from gym_recording import (
    EpisodeReplay,
    MemoryDirectory,
    MissingEpisodesError,
    TraceError,
    TraceRecording,
    TraceRecordingReader,
    TraceRecordingVectorWrapper,
    TraceRecordingWrapper,
    replay,
)
from gym_recording.difference import Difference
from gym_recording.format import write_document
from gym_recording.wrappers.api import make_arguments, reset, split_step


@pytest.fixture(params=LIBRARIES)
def library(request):
    return pytest.importorskip(request.param)


@pytest.fixture
def gymnasium():
    return pytest.importorskip("gymnasium")


def registered(library, *names):
    """The newest of these environments that the library has."""
    known = getattr(library.envs.registration.registry, "env_specs", library.envs.registration.registry)
    return next(name for name in names if name in known)


def play(env, seeds, steps=20, **arguments):
    """Plays an episode for each of the seeds, with random actions."""
    for seed in seeds:
        reset(env, seed, **arguments)
        for _ in range(steps):
            _, _, terminated, truncated, _ = split_step(env.step(env.action_space.sample()), env)
            if terminated or truncated:
                break
    env.close()


def record(env, seeds=(7, None, None), steps=20, **options):
    directory = MemoryDirectory()
    play(TraceRecordingWrapper(env, directory, **options), seeds, steps)
    return directory


def verdicts(results):
    return [result.verdict for result in results]


# ---- environments of the libraries


ENVIRONMENTS = {
    "CartPole": ("CartPole-v1", "CartPole-v0"),
    "Pendulum": ("Pendulum-v1", "Pendulum-v0"),
    "FrozenLake": ("FrozenLake-v1", "FrozenLake-v0"),
}


@pytest.mark.parametrize("infos", [False, True])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_that_is_seeded_gives_the_same_again(library, name, infos):
    name = registered(library, *ENVIRONMENTS[name])
    directory = record(library.make(name, **make_arguments(library)), (3, None, None, 8, None), infos=infos)
    assert verdicts(replay(directory)) == ["equal"] * 5
    assert replay(directory, name) == replay(directory)
    assert replay(TraceRecordingReader(directory)) == replay(directory)


def test_another_environment_differs_and_it_is_said_where_and_by_how_much(library):
    name = registered(library, *ENVIRONMENTS["CartPole"])
    directory = record(library.make(name, **make_arguments(library)), (3,), steps=1)
    (result,) = replay(directory, registered(library, *ENVIRONMENTS["Pendulum"]))
    assert (result.verdict, result.difference.step, result.difference.field) == ("different", None, "observations")
    assert result.difference.expected.startswith("float32 (4,) [")
    assert result.difference.found.startswith("float32 (3,) [")


# ---- our own


class Noise(Kind):
    """Draws from a generator that no seed reaches."""

    draw = np.random.default_rng()

    def __init__(self):
        spaces = self.library.spaces
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2), {}

    def step(self, action):
        return self.draw.standard_normal(2), 0.0, False, False, {}


class Drifting(Walk):
    """Returns dicts, of which one leaf is another from some step of an episode on."""

    def __init__(self, wrong_from=None, by=1):
        Walk.__init__(self, length=10)
        spaces = self.library.spaces
        self.observation_space = spaces.Dict(
            image=spaces.Box(0, 255, (4, 4), np.uint8), inner=spaces.Dict(walk=self.observation_space)
        )
        self.wrong_from, self.by = wrong_from, by

    def observe(self):
        image = np.full((4, 4), self.state[1], "uint8")
        if self.wrong_from is not None and self.state[1] > self.wrong_from:
            image[2, 3] += self.by
        return {"image": image, "inner": {"walk": self.state.copy()}}

    def reset(self, **arguments):
        _, info = Walk.reset(self, **arguments)
        return self.observe(), info

    def step(self, action):
        _, *rest = Walk.step(self, action)
        return (self.observe(), *rest)


def test_what_is_random_whatever_the_seed_is_different(library):
    result = replay(record(make(library, Noise), (1, 2)), partial(make, library, Noise))
    assert verdicts(result) == ["different", "different"]
    assert [(one.difference.step, one.difference.field) for one in result] == [(0, "observations")] * 2
    assert all(one.difference.by > 0 for one in result)


@pytest.mark.parametrize("step", [0, 4, 9])
def test_a_leaf_of_a_dict_that_differs_from_a_step_on_is_named_with_that_step(library, step):
    directory = record(make(library, Drifting), (1, None))
    results = replay(directory, lambda: make(library, Drifting, step, 3))
    assert verdicts(results) == ["different", "different"]
    difference = results[0].difference
    assert (difference.step, difference.field, difference.by) == (step, "observations.image", 3)
    assert str(results[0]).startswith(f"episode 0: different: at step {step}: observations.image differs by 3 (expec")
    assert verdicts(replay(directory, lambda: make(library, Drifting, step), ignore=["observations.image"])) == [
        "equal",
        "equal",
    ]
    assert verdicts(replay(directory, lambda: make(library, Drifting, 10))) == ["equal", "equal"]


def test_an_environment_that_is_given_is_used_for_all_and_stays_open(library):
    directory = MemoryDirectory()
    for _ in range(2):
        play(TraceRecordingWrapper(make(library, Walk), directory), (5, None))
    env = make(library, Walk)
    assert verdicts(replay(directory, env)) == ["equal"] * 4
    assert env.closed == 0
    made = []

    def factory():
        made.append(make(library, Walk))
        return made[-1]

    assert verdicts(replay(directory, factory)) == ["equal"] * 4
    assert [env.closed for env in made] == [1, 1]


def test_a_reset_gets_the_options_that_it_got(library):
    directory = record(make(library, Walk), (5,))
    with TraceRecordingWrapper(make(library, Walk), directory) as env:
        env.reset(options={"level": 3}, seed=1)
        env.reset(options={"level": (4, 5)})
    env = make(library, Walk)
    assert verdicts(replay(directory, env)) == ["equal"] * 3
    assert env.resets == [{"seed": 5}, {"seed": 1, "options": {"level": 3}}, {"options": {"level": (4, 5)}}]


def test_an_environment_with_the_old_interface_is_seeded_in_its_way(library):
    if not hasattr(library.Wrapper, "seed"):
        pytest.skip("the wrappers of this library do not seed")
    directory = record(make(library, OldWalk), (5, None, 6))
    assert verdicts(replay(directory, lambda: make(library, OldWalk))) == ["equal"] * 3


class Overwriting(Walk):
    """Takes arrays, and overwrites them; says in its infos what it got."""

    def step(self, action):
        kinds = [type(part).__name__ for part in (action, action["a"], action["t"], action["t"][0], action["t"][1])]
        action["a"][...] = 0
        return (*Walk.step(self, int(action["t"][0]))[:4], {"kinds": kinds})


def test_actions_come_in_the_form_in_which_an_environment_takes_them(library):
    directory = MemoryDirectory()
    env = TraceRecordingWrapper(make(library, Overwriting), directory, infos=True)
    env.reset(seed=1)
    for number in range(3):
        env.step({"a": np.ones(3), "t": (np.int64(number), f"{number}")})
    env.close()
    assert verdicts(replay(directory, lambda: make(library, Overwriting))) == ["equal"]
    (episode,) = TraceRecordingReader(directory)
    assert episode.infos[1]["kinds"] == ["dict", "ndarray", "tuple", "int64", "str"]


class Failing(Walk):
    fails = "step"

    def reset(self, **arguments):
        if self.fails == "reset":
            raise RuntimeError("no start")
        return Walk.reset(self, **arguments)

    def step(self, action):
        if self.state[1] == 2:
            raise RuntimeError("no more")
        return Walk.step(self, action)


def test_an_environment_that_fails_differs_where_it_fails(library):
    directory = record(make(library, Walk), (1, 2))
    results = replay(directory, lambda: make(library, Failing))
    expected = Difference(2, "step", "what is recorded", "RuntimeError: no more")
    assert [(one.verdict, one.difference) for one in results] == [("different", expected)] * 2
    env = make(library, Failing)
    env.fails = "reset"
    expected = Difference(None, "reset", "what is recorded", "RuntimeError: no start")
    assert [(one.verdict, one.difference) for one in replay(directory, env)] == [("different", expected)] * 2


def test_an_episode_without_a_step_is_replayed_too_because_its_reset_draws_numbers(library):
    directory = MemoryDirectory()
    env = TraceRecordingWrapper(make(library, Walk), directory)
    env.reset(seed=1)
    for _ in range(3):
        env.reset()
    env.step(1)
    env.close()
    results = replay(directory, lambda: make(library, Walk))
    assert verdicts(results) == ["equal"] * 4


# ---- what cannot be known


def test_what_comes_before_the_first_seed_is_unproven_be_it_equal_or_not(library):
    directory = record(make(library, Walk), (None, None, 3, None))
    results = replay(directory, lambda: make(library, Walk))
    assert verdicts(results) == ["unproven", "unproven", "equal", "equal"]
    assert {one.reason for one in results[:2]} == {"neither its reset nor one before it had a seed"}
    assert str(results[2]) == "episode 2: equal"

    directory = record(make(library, Noise), (None,), steps=1)
    env = make(library, Noise)
    env.draw = types.SimpleNamespace(standard_normal=np.zeros)
    (result,) = replay(directory, env)
    assert result.verdict == "unproven"
    assert result.difference.step == 0
    expected = (
        "episode 0: unproven: neither its reset nor one before it had a seed; at step 0: observations differs by "
    )
    assert str(result).startswith(expected)


def test_a_difference_after_a_reset_without_a_seed_says_what_else_may_be_why(library):
    directory = record(make(library, Drifting), (1, None))
    seeded, unseeded = replay(directory, lambda: make(library, Drifting, 1))
    assert seeded.reason == ""
    assert "left out" in unseeded.reason


def test_an_episode_without_its_beginning_is_unproven_and_what_follows_it_too(library):
    directory = MemoryDirectory()
    env = make(library, Walk)
    env.reset(seed=2)
    env = TraceRecordingWrapper(env, directory)
    env.step(1)
    env.reset()
    env.reset(seed=3)
    env.close()
    results = replay(directory, lambda: make(library, Walk))
    assert verdicts(results) == ["unproven", "unproven", "equal"]
    assert results[0].reason == "its beginning is not recorded"


def test_what_comes_after_a_gap_is_unproven_but_not_a_difference_before_it(library):
    directory = MemoryDirectory()
    env = TraceRecordingWrapper(make(library, Drifting), directory)
    env.reset(seed=2)
    env.step(1)
    env.step(1)
    with pytest.raises(TraceError):
        env.recording.add_step(0, {1, 2}, 0.0)
    env.step(1)
    env.reset()
    env.reset(seed=3)
    env.close()
    assert TraceRecordingReader(directory)[0].gaps == (2,)
    results = replay(directory, lambda: make(library, Drifting))
    assert verdicts(results) == ["unproven", "unproven", "equal"]
    assert results[0].reason == "what happened before step 2 is not recorded"
    assert verdicts(replay(directory, lambda: make(library, Drifting, 1))) == ["different", "unproven", "equal"]
    assert verdicts(replay(directory, lambda: make(library, Drifting, 2))) == ["unproven", "unproven", "equal"]


def test_a_recording_of_2017_has_no_seeds_and_is_unproven(library, tmp_path):
    directory = record(make(library, Walk), (None,))
    with TraceRecordingReader(directory) as reader:
        episode = reader[0]
    old = MemoryDirectory()
    with TraceRecording(old) as recording:
        recording.episodes.append(
            {key: np.array(getattr(episode, key)) for key in ("observations", "actions", "rewards")}
        )
    assert verdicts(replay(old, lambda: make(library, Walk))) == ["unproven"]
    with pytest.raises(TraceError, match=r"by a registered id.*; or say which environment it is: `env=`, `--env`"):
        replay(old)


def test_after_episodes_that_are_missing_nothing_is_proven_until_the_next_seed(library):
    directory = record(make(library, Walk), (1, None, None, 4, None), buffer_batch_size=0)
    names = sorted(name for name in directory.files if name.endswith("00001.json"))
    del directory.files[names[0]]
    with pytest.raises(MissingEpisodesError):
        replay(directory, lambda: make(library, Walk))
    with TraceRecordingReader(directory, on_error="skip") as reader:
        results = replay(reader, lambda: make(library, Walk))
        assert len(reader.errors) == 1
    assert verdicts(results) == ["equal", "unproven", "equal", "equal"]


def test_an_episode_that_is_still_running_is_compared_as_far_as_it_has_come(library, tmp_path):
    env = TraceRecordingWrapper(make(library, Drifting), tmp_path, flush_interval=0, durability="none")
    env.reset(seed=1)
    for _ in range(4):
        env.step(1)
    env.recording.save_complete()
    (episode,) = TraceRecordingReader(tmp_path)
    assert (len(episode), episode.ended_by) == (4, None)
    assert verdicts(replay(tmp_path, lambda: make(library, Drifting))) == ["equal"]
    assert verdicts(replay(tmp_path, lambda: make(library, Drifting, 3))) == ["different"]
    env.close()


def test_a_view_is_replayed_with_what_came_before_its_episodes(library):
    directory = record(make(library, Walk), (1, None, None, 4, None))
    env = make(library, Walk)
    view = TraceRecordingReader(directory).select([1, 2])
    results = replay(view, env)
    assert [(one.number, one.verdict) for one in results] == [(0, "equal"), (1, "equal")]  # numbers in the view
    assert [view[one.number].seed for one in results] == [None, None]
    assert len(env.resets) == 3
    assert [one.number for one in replay(view.select([1]), env)] == [0]
    assert replay(view.select([]), env) == []


def test_a_view_of_what_is_there_is_replayed_whatever_a_manifest_claims(library, tmp_path):
    play(TraceRecordingWrapper(make(library, Walk), tmp_path), (1, None))
    (path,) = tmp_path.glob("*.manifest.json")
    name = path.name.partition(".manifest")[0]
    batches = [(0, 2), (10**15, 1)]
    entries = ", ".join(f'{{"first": {n}, "len": {c}, "fn": "{name}.ep{n:09}.json"}}' for n, c in batches)
    path.write_bytes(write_document(f'"batches": [{entries}]'))
    reader = TraceRecordingReader(tmp_path)
    assert len(reader) > 10**15
    assert verdicts(replay(reader.select([0, 1]), lambda: make(library, Walk))) == ["equal", "equal"]
    with pytest.raises(MissingEpisodesError):
        replay(reader, lambda: make(library, Walk))


def test_an_environment_that_fails_when_it_is_closed_has_proven_what_it_gave(library):
    class Unclosable(Walk):
        def close(self):
            raise RuntimeError("stuck")

    directory = record(make(library, Walk), (1, None))
    with pytest.warns(UserWarning, match="the environment was not closed: RuntimeError: stuck"):
        assert verdicts(replay(directory, lambda: make(library, Unclosable))) == ["equal", "equal"]


# ---- lanes


def test_lanes_that_draw_from_one_generator_are_not_said_to_differ(gymnasium):
    if not hasattr(gymnasium.vector, "AutoresetMode"):
        pytest.skip("its vector environment of CartPole is of another kind")
    envs = gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="vector_entry_point")
    recorded = TraceRecordingVectorWrapper(envs, directory := MemoryDirectory())
    recorded.reset(seed=1)
    for _ in range(40):
        recorded.step(recorded.action_space.sample())
    recorded.close()
    found = replay(directory)
    assert {one.verdict for one in found} == {"unproven"}
    assert "all lanes were reset with one seed" in str(found[0])


@pytest.mark.parametrize("infos", [False, True])
@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP", "DISABLED"])
def test_each_lane_of_a_vector_environment_is_replayed_alone(gymnasium, mode, infos):
    if not hasattr(gymnasium.vector, "AutoresetMode"):
        pytest.skip("gymnasium before 1.1 has one mode")
    directory = MemoryDirectory()
    autoreset = getattr(gymnasium.vector.AutoresetMode, mode)
    options = {"vectorization_mode": "sync", "vector_kwargs": {"autoreset_mode": autoreset}}
    envs = gymnasium.make_vec("CartPole-v1", num_envs=3, **options)
    envs = TraceRecordingVectorWrapper(envs, directory, infos=infos)
    envs.action_space.seed(1)
    envs.reset(seed=5)
    for _ in range(60):
        *_, terminated, truncated, _ = envs.step(envs.action_space.sample())
        if mode == "DISABLED" and (terminated | truncated).any():
            envs.reset(options={"reset_mask": terminated | truncated})
    envs.close()
    results = replay(directory)
    assert set(verdicts(results)) == {"equal"}
    assert [one.lane for one in results] == sorted(one.lane for one in results)
    reader = TraceRecordingReader(directory)
    assert sorted(one.number for one in results) == list(range(len(reader))) and len(reader) > 6
    assert all(reader[one.number].lane == one.lane for one in results)
    assert str(results[-1]) == f"episode {results[-1].number} (lane 2): equal"


# ---- what is refused


def test_what_is_no_environment_is_refused(library):
    directory = record(make(library, Walk), (1,))
    for env in (3, lambda: None):
        with pytest.raises(TraceError, match="env: no environment"):
            replay(directory, env)
    with pytest.raises(TraceError, match=r"Nowhere-v0: .* cannot make it"):
        replay(directory, "Nowhere-v0")
    with pytest.raises(TraceError, match="by a registered id"):
        replay(directory)


def test_arguments_that_could_not_be_written_are_missed(library):
    name = "Tests/Walk-v0"
    entry = class_of(library.__name__, Walk)
    library.register(name, entry_point=entry, disable_env_checker=True)
    try:
        directory = record(library.make(name, length=np.int64(4)), (1,))
        with pytest.raises(TraceError, match="arguments could not be written"):
            replay(directory)
    finally:
        library.envs.registration.registry.pop(name)


def test_no_window_opens(library):
    class Seen(class_of(library.__name__, Walk)):
        modes = []  # noqa: RUF012 (of all instances)

        def __init__(self, render_mode=None):
            super().__init__(render_mode=render_mode)
            self.modes.append(render_mode)

    Seen.metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 30}
    name = "Tests/Seen-v0"
    library.register(name, entry_point=Seen)
    try:
        for mode in ("human", "rgb_array"):
            directory = record(library.make(name, render_mode=mode, disable_env_checker=True), (1,))
            assert verdicts(replay(directory)) == ["equal"]
    finally:
        library.envs.registration.registry.pop(name)
    assert Seen.modes == ["human", None, "rgb_array", "rgb_array"]


def test_nothing_recorded_is_nothing_replayed():
    assert replay(MemoryDirectory()) == []


def test_the_function_is_not_hidden_by_its_module():
    assert gym_recording.replay is sys.modules["gym_recording.replaying"].replay
    assert EpisodeReplay(1, "t", None, "equal") == EpisodeReplay(1, "t", None, "equal")


def test_episodes_of_which_only_some_have_a_lane_are_replayed(gymnasium):
    directory = MemoryDirectory()
    recording = TraceRecording(directory, env={"id": "CartPole-v1"}, library="gymnasium 1.0")
    about = {"actions": np.zeros(1, "int64"), "rewards": np.ones(1), "ended_by": "close"}
    for lane in ({"lane": 0, "seed": 1}, {"seed": 2}):
        recording.episodes.append({"observations": np.zeros((2, 4), "float32"), **about, **lane})
    recording.close()
    assert [(one.lane, one.verdict) for one in replay(directory)] == [(None, "different"), (0, "different")]
