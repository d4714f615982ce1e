"""Programs in the manner of what people run, around and below the recorder, with the packages that they run.

Each test is skipped where its package is absent: pygame (`play`), moviepy (RecordVideo), ale-py and opencv
(AtariPreprocessing), stable-baselines3 (training). `.ci/noxfile.py` has cells with them.
"""

import copy
import gc
import multiprocessing
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from environments import LIBRARIES, Walk, make, same, same_rows, version_of

from gym_recording import TraceRecordingReader, TraceRecordingWrapper
from gym_recording.check import check_recording

pytestmark = pytest.mark.filterwarnings("ignore")  # the packages warn of each other


@pytest.fixture(params=LIBRARIES)
def library(request):
    pytest.importorskip(f"{request.param}.wrappers")
    return sys.modules[request.param]


@pytest.fixture
def gymnasium():
    return pytest.importorskip("gymnasium")


def record(directory, env, **options):
    return TraceRecordingWrapper(env, directory, **options)


def around(directory, wrap, make):
    """Environments with a wrapper and a recorder: the recorder above, the recorder below."""
    above = record(directory / "above", wrap(make()), infos=True)
    below = wrap(record(directory / "below", make(), infos=True))
    return above, below


def play_out(env, steps=60, seed=3):
    """What a loop got: lists of observations, actions and rewards per episode, whatever the flags say at the end."""
    env.action_space.seed(seed)
    episodes, observation = [], env.reset(seed=seed)[0]
    episodes.append(([copy.deepcopy(observation)], [], []))
    for _ in range(steps):
        action = env.action_space.sample()
        observation, reward, terminated, truncated, _ = env.step(action)
        for rows, row in zip(episodes[-1], (observation, action, reward)):
            rows.append(copy.deepcopy(row))
        if terminated or truncated:
            episodes.append(([copy.deepcopy(env.reset()[0])], [], []))
    env.close()
    return episodes


def read(directory):
    assert list(check_recording(directory)) == []
    return list(TraceRecordingReader(directory))


def assert_recorded(directory, expected):
    """What was recorded is what the loop got; lazy frames are the arrays that they stand for."""
    episodes = read(directory)
    assert len(episodes) == len(expected)
    for episode, (observations, actions, rewards) in zip(episodes, expected):
        rows = [row if isinstance(row, (dict, tuple)) else np.asarray(row) for row in observations]
        assert same_rows(episode.observations, rows)
        assert same_rows(episode.actions, actions)
        assert same_rows(episode.rewards, rewards)


def cart_pole(library, **arguments):
    return library.make("CartPole-v1", disable_env_checker=True, **arguments)


# ---- wrappers of the libraries


def frame_stack(library):
    late = hasattr(library.wrappers, "FrameStackObservation")
    return library.wrappers.FrameStackObservation if late else library.wrappers.FrameStack


WRAPPERS = {
    "time limit": lambda library: lambda env: library.wrappers.TimeLimit(env, max_episode_steps=7),
    "order": lambda library: library.wrappers.OrderEnforcing,
    "statistics": lambda library: library.wrappers.RecordEpisodeStatistics,
    "stack": lambda library: lambda env: frame_stack(library)(env, 3),
    "flatten": lambda library: library.wrappers.FlattenObservation,
    "time": lambda library: library.wrappers.TimeAwareObservation,
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_work_above_and_below(library, tmp_path, name):
    wrap = WRAPPERS[name](library)
    bare = play_out(wrap(cart_pole(library)))
    above, below = around(tmp_path, wrap, lambda: cart_pole(library))
    for env in (above, below):
        for found, expected in zip(play_out(env), bare):
            assert same_rows(list(map(np.asarray, found[0])), list(map(np.asarray, expected[0])))
            assert same(found[1:], expected[1:])
    assert_recorded(tmp_path / "above", bare)
    assert_recorded(tmp_path / "below", play_out(cart_pole(library)) if name != "time limit" else bare)


def test_lazy_frames_that_are_compressed_are_recorded_as_arrays(library, tmp_path):
    if not hasattr(library.wrappers, "FrameStack"):
        pytest.skip("this library stacks arrays")
    pytest.importorskip("lz4")
    env = record(tmp_path, library.wrappers.FrameStack(cart_pole(library), 3, lz4_compress=True))
    expected = play_out(env)
    assert_recorded(tmp_path, expected)


def test_the_checker_of_each_step_passes(library, tmp_path):
    if version_of("numpy") >= (2,) and library.__name__ == "gym":
        pytest.skip("the checker of gym 0.26 fails under NumPy 2")
    if library.__name__ == "gym":
        from gym.wrappers.env_checker import PassiveEnvChecker
    else:
        from gymnasium.wrappers import PassiveEnvChecker

    above, below = around(tmp_path, PassiveEnvChecker, lambda: cart_pole(library))
    assert same(play_out(above), play_out(below))


@pytest.mark.parametrize("above", [True, False])
def test_a_video_is_recorded_beside_it(gymnasium, tmp_path, above):
    for package in ("moviepy", "pygame"):
        pytest.importorskip(package)

    def film(env):
        return gymnasium.wrappers.RecordVideo(env, str(tmp_path / "video"), episode_trigger=lambda number: True)

    env = cart_pole(gymnasium, render_mode="rgb_array")
    env = film(record(tmp_path / "trace", env)) if above else record(tmp_path / "trace", film(env))
    expected = play_out(env)
    assert_recorded(tmp_path / "trace", expected)
    assert [name for name in os.listdir(tmp_path / "video") if name.endswith(".mp4")]


def test_atari_is_recorded_above_and_below_its_preprocessing(gymnasium, tmp_path):
    pytest.importorskip("cv2")
    gymnasium.register_envs(pytest.importorskip("ale_py"))

    def wrap(env):
        return frame_stack(gymnasium)(gymnasium.wrappers.AtariPreprocessing(env, noop_max=3), 4)

    def pong():
        return gymnasium.make("ALE/Pong-v5", frameskip=1)

    bare = play_out(wrap(pong()), 20)
    above, below = around(tmp_path, wrap, pong)
    assert same(play_out(above, 20), bare)
    assert same(play_out(below, 20), bare)
    assert_recorded(tmp_path / "above", bare)
    episodes = read(tmp_path / "below")
    assert episodes[-1].observations.shape[1:] == (210, 160, 3)
    assert len(episodes[-1]) >= 80  # four frames a step
    assert isinstance(episodes[-1].infos[-1]["lives"], (int, np.integer))


def test_the_attributes_of_a_deep_stack_are_found_through_the_recorder(gymnasium, tmp_path):
    if not hasattr(gymnasium.Env, "get_wrapper_attr"):
        pytest.skip("this gymnasium has no get_wrapper_attr")
    inner = cart_pole(gymnasium)
    env = gymnasium.wrappers.TimeLimit(record(tmp_path, inner), 7)
    assert env.unwrapped is inner.unwrapped
    assert env.get_wrapper_attr("gravity") == 9.8
    assert env.get_wrapper_attr("directory") == str(tmp_path)
    assert env.spec.id == "CartPole-v1"
    if hasattr(env, "has_wrapper_attr"):
        assert env.has_wrapper_attr("gravity")
        assert not env.has_wrapper_attr("nothing")


# ---- loops


def test_a_loop_over_a_vector_of_recorders(gymnasium, tmp_path):
    """As CleanRL has it: the recorder among the wrappers of each environment."""

    def make_env(number):
        env = record(tmp_path, cart_pole(gymnasium))
        env = gymnasium.wrappers.RecordEpisodeStatistics(env)
        env.action_space.seed(number)
        return env

    envs = gymnasium.vector.SyncVectorEnv([partial(make_env, number) for number in range(2)])
    observations, _ = envs.reset(seed=1)
    for _ in range(100):
        actions = np.array([envs.single_action_space.sample() for _ in range(envs.num_envs)])
        observations, *_ = envs.step(actions)
    assert observations.shape == (2, 4)
    envs.close()
    episodes = read(tmp_path)
    assert sorted(e.seed for e in episodes if e.seed is not None) == [1, 2]
    assert len({id(e) for e in episodes}) > 4
    assert 190 <= sum(map(len, episodes)) <= 200  # a vector environment may reset in place of a step


def make_recorded_walk(directory, name="gymnasium"):
    """At the top of the module, so that other processes find it."""
    return record(directory, make(__import__(name), Walk, 4))


@pytest.mark.parametrize("shared", [True, False])
def test_recorders_in_the_processes_of_an_async_vector(gymnasium, tmp_path, shared):
    makers = [partial(make_recorded_walk, str(tmp_path))] * 2
    envs = gymnasium.vector.AsyncVectorEnv(makers, shared_memory=shared)
    envs.reset(seed=5)
    for _ in range(6):
        envs.step(np.array([1, 2]))
    envs.close()
    episodes = read(tmp_path)
    assert sorted(e.seed for e in episodes if e.seed is not None) == [5, 6]
    assert {len(e) for e in episodes if e.ended_by == "terminated"} == {4}
    assert {set(e.actions.tolist()).pop() for e in episodes if len(e)} == {1, 2}


def work(directory, library, seed):
    env = make_recorded_walk(directory, library)
    play_out(env, 6, seed)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_workers_that_make_their_own_record_their_own(library, tmp_path, method):
    context = multiprocessing.get_context(method)
    workers = [context.Process(target=work, args=(str(tmp_path), library.__name__, seed)) for seed in (1, 2, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    found = read(tmp_path)
    assert [(len(e), e.ended_by) for e in found] == [(4, "terminated"), (2, "close")] * 3
    for seed in (1, 2, 3):
        expected = play_out(make(library, Walk, 4), 6, seed)
        (first,) = (e for e in found if e.seed == seed)
        assert same_rows(first.observations, expected[0][0])


# ---- a person plays


PLAYING = """
import sys
import {library} as gym
import pygame
from {library}.utils.play import play
from gym_recording import TraceRecordingWrapper

env = gym.make("CartPole-v1", render_mode="rgb_array", disable_env_checker=True)
env = TraceRecordingWrapper(env, sys.argv[1])
steps = 0

def close_the_window(*transition):
    global steps
    steps += 1
    if steps == 30:
        pygame.event.post(pygame.event.Event(pygame.QUIT))

play(env, callback=close_the_window, keys_to_action={{"a": 1}}, noop=0, fps=1000)
print(steps)
"""


def test_a_demonstration_is_kept_when_the_window_is_closed(library, tmp_path):
    """Nothing closes the environment: the program just ends."""
    pytest.importorskip("pygame")
    if library.__name__ == "gym" and version_of("numpy") >= (2,):
        pytest.skip("the pygame window of gym 0.26 needs NumPy 1")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PLAYING.format(library=library.__name__), str(tmp_path)],
        env={**os.environ, "SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"},
        stdout=subprocess.PIPE,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    steps = int(done.stdout.split()[-1])
    episodes = read(tmp_path)
    assert steps >= 30
    assert sum(map(len, episodes)) == steps
    assert {e.ended_by for e in episodes[:-1]} <= {"terminated", "reset"}


# ---- Stable-Baselines3


@pytest.mark.parametrize("algorithm", ["PPO", "DQN"])
def test_training_gives_the_same_weights_with_and_without_the_recorder(gymnasium, tmp_path, algorithm):
    sb3 = pytest.importorskip("stable_baselines3")
    pytest.importorskip("torch").set_num_threads(1)  # many are slow on a machine that does something else too
    settings = {"PPO": {"n_steps": 256, "n_epochs": 4}, "DQN": {"learning_starts": 200, "buffer_size": 3000}}[algorithm]
    weights = []
    for wrap in (lambda env: env, partial(record, tmp_path)):
        env = wrap(gymnasium.make("CartPole-v1"))
        model = getattr(sb3, algorithm)("MlpPolicy", env, seed=2, device="cpu", **settings)
        model.learn(2048)
        weights.append({name: value.numpy().tobytes() for name, value in model.policy.state_dict().items()})
        model.get_env().close()
    assert weights[0] == weights[1]
    episodes = read(tmp_path)
    assert sum(map(len, episodes)) == 2048
    assert {e.ended_by for e in episodes[:-1]} <= {"terminated", "truncated"}


def test_recorders_in_the_processes_of_stable_baselines(gymnasium, tmp_path):
    vectors = pytest.importorskip("stable_baselines3.common.vec_env")
    envs = vectors.SubprocVecEnv([partial(make_recorded_walk, str(tmp_path))] * 2, start_method="forkserver")
    envs.seed(5)
    envs.reset()
    for _ in range(6):
        envs.step(np.array([1, 2]))
    assert envs.get_attr("directory") == [str(tmp_path)] * 2
    envs.close()
    episodes = read(tmp_path)
    assert sorted((len(e), e.seed) for e in episodes if e.seed is not None) == [(4, 5), (4, 6)]
    assert sorted(len(e) for e in episodes if e.seed is None) == [2, 2]
    assert {set(e.actions.tolist()).pop() for e in episodes} == {1, 2}


def test_an_environment_is_collected_with_its_model(gymnasium, tmp_path):
    """Nobody closes it."""
    sb3 = pytest.importorskip("stable_baselines3")
    model = sb3.PPO("MlpPolicy", record(tmp_path, gymnasium.make("CartPole-v1")), n_steps=64, device="cpu")
    model.learn(64)
    del model
    gc.collect()
    assert sum(map(len, read(tmp_path))) == 64
