"""What is played back as an environment is what was recorded, in the interface of the library that is installed."""

import copy
import pickle

import numpy as np
import pytest
from cases import plain
from conftest import DATA

from gym_recording import (
    MemoryDirectory,
    PlaybackAgent,
    PlaybackEnv,
    TraceError,
    TraceRecording,
    TraceRecordingReader,
    TraceRecordingWrapper,
    copy_episodes,
    merge,
    replay,
)
from gym_recording.errors import MissingPackageError
from gym_recording.rebuild import installed_library
from gym_recording.wrappers.api import library_of, make_arguments, reset, split_reset, split_step

pytestmark = pytest.mark.filterwarnings("ignore")  # old gyms warn of themselves, and of the NumPy that they meet
try:
    GYM = installed_library("a test")
except MissingPackageError:
    pytest.skip("neither gymnasium nor gym is installed", allow_module_level=True)


def known(*names):
    """The newest of these environments that the library has."""
    for name in names:
        try:
            GYM.spec(name)
        except Exception:  # of this library's own
            continue
        return name
    return pytest.skip(f"this library has none of {names}")


NAMES = {
    "CartPole": ("CartPole-v1", "CartPole-v0"),
    "Pendulum": ("Pendulum-v1", "Pendulum-v0"),
    "MountainCar": ("MountainCar-v0",),
}


def record(name="CartPole", seeds=(3, None, 8), steps=40, directory=None, **options):
    directory = MemoryDirectory() if directory is None else directory
    env = GYM.make(known(*NAMES[name]), **make_arguments(GYM))
    env = TraceRecordingWrapper(env, directory, **options)
    for seed in seeds:
        reset(env, seed)
        play(env, steps)
    env.close()
    return directory


def play(env, steps=10**6):
    """Plays until the end, with random actions."""
    for _ in range(steps):
        _, _, terminated, truncated, _ = split_step(env.step(env.action_space.sample()), env)
        if terminated or truncated:
            return


def first(result):
    return split_reset(result, isinstance(result, tuple), None)[0]


def members(episode, *names):
    names = names or ("observations", "rewards", "infos", "terminated", "truncated", "ended_by")
    return plain({name: getattr(episode, name) for name in names})


@pytest.mark.parametrize("name", NAMES)
def test_a_playback_gives_the_recorded_episodes_whatever_is_done(name):
    directory = record(name, infos=True)
    env = PlaybackEnv(directory)
    assert library_of(env) is GYM
    assert isinstance(env, (PlaybackEnv, GYM.Env)) and type(env).__name__ == "PlaybackEnv"
    assert env.unwrapped is env
    assert env.episode_count == 3
    for episode in TraceRecordingReader(directory):
        assert plain(first(env.reset())) == plain(episode.observations[0].copy())
        assert plain(vars(env.episode)) == plain(vars(episode))
        for step in range(len(episode)):
            observation, reward, terminated, truncated, info = split_step(env.step("anything"), env)
            assert plain(observation) == plain(episode.observations[step + 1].copy())
            assert plain(reward) == plain(episode.rewards[step])
            assert {key: info[key] for key in episode.infos[step + 1]} == episode.infos[step + 1]
            assert (terminated or truncated) == (step + 1 == len(episode))
        if episode.terminated or episode.truncated:
            assert (terminated, truncated) == (episode.terminated, episode.truncated)
        else:
            assert (terminated, truncated) == (False, True)


@pytest.mark.parametrize("infos", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_playback_is_an_equal_recording(name, infos):
    source = record(name, (3, None, None), steps=10**6, infos=infos)
    again = MemoryDirectory()
    env = TraceRecordingWrapper(PlaybackEnv(source), again, infos=infos)
    agent = PlaybackAgent(source)
    for _ in range(agent.episode_count):
        agent.reset()
        observation = first(reset(env, agent.episode.seed, agent.episode.options))
        for _ in range(len(agent.episode)):
            observation = split_step(env.step(agent(observation)))[0]
    env.close()
    # In the interface of four values, what is not terminated is said in the infos, and so is recorded with them.
    fields = ["observations", "actions", "rewards", "terminated", "truncated", "ended_by", "seed"]
    if TraceRecordingReader(source)[0].terminated is None:
        fields.remove("terminated")  # unknown: gym up to 0.12.0 does not say it at a time limit
    found, expected = list(TraceRecordingReader(again)), list(TraceRecordingReader(source))
    assert [members(episode, *fields) for episode in found] == [members(episode, *fields) for episode in expected]
    for one, other in zip(found, expected):
        assert (one.infos is None) == (other.infos is None) == (not infos)
        if infos:
            assert [{**row, **info} for row, info in zip(one.infos, other.infos)] == one.infos
    results = replay(again, known(*NAMES[name]), ignore="infos.TimeLimit.truncated")
    assert [one.verdict for one in results] == ["equal"] * 3
    spaces = ("observation_space", "action_space")
    (trace,), (other,) = TraceRecordingReader(again).traces, TraceRecordingReader(source).traces
    assert [trace.env[key] for key in spaces] == [other.env[key] for key in spaces]


def test_after_the_last_episode_comes_the_first():
    directory = record()
    env, agent = PlaybackEnv(directory), PlaybackAgent(directory)
    firsts = [episode.observations[0].tolist() for episode in TraceRecordingReader(directory)]
    for number in range(7):
        assert first(env.reset()).tolist() == firsts[number % 3]
        agent.reset()
        assert agent.episode.started == env.episode.started


def test_a_seed_leads_to_the_episode_that_was_recorded_with_it_or_counts_them():
    directory = record(seeds=(30, None, 80, 30))
    env, agent = PlaybackEnv(directory), PlaybackAgent(directory)
    started = [episode.started for episode in TraceRecordingReader(directory)]
    for seed, number in ((80, 2), (None, 3), (30, 0), (None, 1), (5, 1), (6, 2)):
        reset(env, seed)
        agent.reset(seed)
        assert env.episode.started == started[number]
        assert agent.episode.started == started[number]


def test_a_step_before_the_first_reset_or_after_the_last_step_is_an_error():
    directory = record(steps=1)
    env, agent = PlaybackEnv(directory), PlaybackAgent(directory)
    for begin, go in ((env.reset, lambda: env.step(0)), (agent.reset, agent)):
        with pytest.raises(TraceError, match="step 0: reset comes first"):
            go()
        begin()
        go()
        with pytest.raises(TraceError, match="step 1: the recorded episode ends here; reset goes on to the next"):
            go()
        begin()
        go()


def test_what_nobody_could_play_is_left_out():
    directory = MemoryDirectory()
    with TraceRecording(directory) as recording:
        recording.add_step(0, 1, 2.0)  # no first observation
        recording.add_reset(2)  # no step
        recording.add_reset(3)
        recording.add_step(0, 4, 5.0)
    env = PlaybackEnv(directory)
    assert env.episode_count == 1
    assert env.observation_space is None
    assert first(env.reset()) == 3
    assert first(env.reset()) == 3
    with pytest.raises(TraceError, match="there is no episode to play back"):
        PlaybackEnv(MemoryDirectory())


def test_unknown_flags_end_an_episode_all_the_same():
    directory = MemoryDirectory()
    with TraceRecording(directory) as recording:
        recording.add_reset({"a": np.zeros(2)})
        recording.add_step((1, np.zeros(1)), {"a": np.ones(2)}, 1)
        recording.add_step((1, np.zeros(1)), {"a": np.ones(2)}, 2)
    env, agent = PlaybackEnv(directory), PlaybackAgent(directory)
    env.reset()
    agent.reset()
    assert split_step(env.step(None), env)[2:4] == (False, False)
    assert split_step(env.step(None), env)[2:4] == (False, True)
    assert plain(agent()) == plain((np.int64(1), np.zeros(1)))


def test_what_is_given_may_be_written_to():
    directory = MemoryDirectory()
    with TraceRecording(directory, infos=True) as recording:
        recording.add_reset({"a": (np.zeros(2), [1])}, info={"x": [np.zeros(1)]})
        recording.add_step(np.zeros(2), {"a": (np.zeros(2), [1])}, 1.0)
    for _ in range(2):
        env, agent = PlaybackEnv(directory), PlaybackAgent(directory)
        observation = first(env.reset())
        assert plain(observation) == plain({"a": (np.zeros(2), [1])})
        observation["a"][0][...] = 1
        observation["a"][1].append(2)
        agent.reset()
        action = agent(observation)
        assert action.tolist() == [0, 0]
        action[...] = 1


def test_rows_of_structures_may_be_written_to_too():
    directory = MemoryDirectory()
    row = np.zeros(1, [("a", "i4"), ("b", "f4", (2,))])[0]
    with TraceRecording(directory) as recording:
        recording.add_reset(row)
        recording.add_step(row, row, 1.0)
    env, agent = PlaybackEnv(directory), PlaybackAgent(directory)
    agent.reset()
    for value in (first(env.reset()), agent(), split_step(env.step(0))[0]):
        value["a"] = 5
    assert first(env.reset())["a"] == 0


@pytest.mark.parametrize("select", [False, True])
def test_a_refresh_of_the_reader_changes_no_episode_that_is_played(tmp_path, select):
    earlier, later = tmp_path / "earlier", tmp_path / "later"
    record(seeds=(5, 6), directory=earlier)
    record(seeds=(1, 2), directory=later)
    reader = TraceRecordingReader(later)
    source = reader.select(min_length=1) if select else reader
    env, agent = PlaybackEnv(source), PlaybackAgent(source)
    merge([earlier], later)
    reader.refresh()
    assert [episode.seed for episode in source] == [5, 6, 1, 2]
    for player in (env, pickle.loads(pickle.dumps(env)), agent):
        played = []
        for seed in (2, None, 1):
            player.reset(seed=seed)
            played.append(player.episode.seed)
        assert played == [2, 1, 1]
        assert player.episode_count == 2


def test_an_agent_takes_seeds_that_are_whole_numbers():
    agent = PlaybackAgent(record(seeds=(1, 2)))
    agent.reset(np.int64(2))
    assert agent.episode.seed == 2
    with pytest.raises(TypeError):
        agent.reset(1.5)


def test_spaces_are_those_of_the_recording_and_can_be_set():
    directory = record("Pendulum")
    env = PlaybackEnv(directory)
    (trace,) = TraceRecordingReader(directory).traces
    assert env.observation_space == trace.observation_space
    assert env.action_space == trace.action_space
    assert env.observation_space.contains(first(env.reset()))
    env.observation_space = None
    assert env.observation_space is None


def test_traces_of_one_environment_are_played_back_one_after_the_other_and_others_are_refused():
    directory = record("Pendulum", (1,))
    record("Pendulum", (2,), directory=directory)
    env = PlaybackEnv(TraceRecordingReader(directory))
    assert [first(env.reset()).tolist() for _ in range(2)] == [
        episode.observations[0].tolist() for episode in TraceRecordingReader(directory)
    ]
    record("MountainCar", (1,), directory=directory)
    with pytest.raises(TraceError, match=r"env\.observation_space: not the environment of the trace before it"):
        PlaybackEnv(directory)
    view = TraceRecordingReader(directory).select([1])
    env = PlaybackEnv(view)
    assert env.episode_count == 1
    assert first(env.reset()).tolist() == view[0].observations[0].tolist()
    assert PlaybackEnv(TraceRecordingReader(directory).select([2])).observation_space.shape == (2,)


def test_it_is_copied_and_pickled_where_it_stands():
    env = PlaybackEnv(record(seeds=(1, 2)))
    env.reset()
    split_step(env.step(0))
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert type(twin) is type(env)
        assert plain(split_step(twin.step(0))[0]) == plain(env.episode.observations[2].copy())
        twin.reset()
        assert twin.episode.seed == 2


def test_recorded_frames_are_rendered_and_recorded_again():
    source, again = MemoryDirectory(), MemoryDirectory()
    frames = np.arange(5 * 2 * 3 * 3, dtype="uint8").reshape(5, 2, 3, 3)
    with TraceRecording(source, frames=True, env={"render_fps": 12}) as recording:
        recording.add_reset(0, frame=frames[0])
        for step in range(1, 4):
            recording.add_step(0, step, 0.0, frame=frames[step])
        recording.add_reset(1)
        recording.add_step(0, step, 0.0, frame=frames[4])
    env = PlaybackEnv(source)
    assert env.render() is None
    assert env.metadata["render_fps"] == 12
    env.reset()
    for step in range(1, 4):
        assert (env.render() == frames[step - 1]).all()
        env.step(0)
    env.reset()
    assert env.render() is None
    env = TraceRecordingWrapper(PlaybackEnv(source), again, frames=True)
    with pytest.warns(UserWarning, match="frames: "):
        for episode in TraceRecordingReader(source):
            env.reset()
            for _ in range(len(episode)):
                env.step(0)
    env.close()
    for one, other in zip(TraceRecordingReader(again), TraceRecordingReader(source)):
        assert plain(one.frames) == plain(other.frames)
    assert PlaybackEnv(record()).render() is None


def test_wrappers_of_the_library_take_it():
    env = GYM.Wrapper(PlaybackEnv(record(steps=10)))
    for _ in range(2):
        env.reset()
        play(env)
    env.close()
    env.close()


def test_a_subclass_is_one_of_the_library_too():
    class Louder(PlaybackEnv):
        def step(self, action):
            observation, reward, *rest = PlaybackEnv.step(self, action)
            return (observation, 2 * reward, *rest)

    env = Louder(record())
    env.reset()
    assert split_step(env.step(0), env)[1] == 2 * env.episode.rewards[0]
    assert library_of(env) is GYM


def test_the_checker_of_the_library_finds_nothing():
    checker = pytest.importorskip(f"{GYM.__name__}.utils.env_checker")
    if GYM.__name__ == "gym":
        pytest.skip("the checker of gym fails under NumPy 2, and on its own environments")
    checker.check_env(PlaybackEnv(record("MountainCar", (1, 2, 3, 4))), skip_render_check=True)


def test_an_episode_whose_flags_are_unknown_is_truncated_at_its_last_step():
    """As those of 2017 are, and copies of them."""
    directory = MemoryDirectory()
    for source in (DATA / "golden" / "two_recordings", directory):
        env = PlaybackEnv(source)
        for _ in range(env.episode_count):
            env.reset()
            assert (env.episode.terminated, env.episode.truncated, env.episode.ended_by) == (None, None, None)
            flags = [split_step(env.step(None), env)[2:4] for _ in range(len(env.episode))]
            assert flags == [(False, False)] * (len(flags) - 1) + [(False, True)]
        if source is not directory:
            copy_episodes(source, directory)


def test_which_episodes_can_be_played_is_known_without_their_infos(tmp_path):
    with TraceRecording(tmp_path, infos=True, durability="none") as recording:
        recording.add_reset(0.0, seed=5, info={"a": 1})  # without a step
        for seed in (7, 8):
            recording.add_reset(0.0, seed=seed, info={"a": 1})
            recording.add_step(seed, 1.0, 0.0, info={"a": 2})
    reader = TraceRecordingReader(tmp_path)
    decoded, read = [], reader._source.episode
    reader._source.episode = lambda *place: decoded.append(place) or read(*place)
    agent = PlaybackAgent(reader)
    assert (agent.episode_count, decoded) == (2, [])
    agent.reset(seed=8)
    assert agent() == 8 and len(decoded) == 1
