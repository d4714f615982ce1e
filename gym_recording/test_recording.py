"""Proves an installation: records CartPole, plays it back, compares every value.

People call `test_trace_recording` since 2017; `python -m gym_recording.test_recording` does too. It needs no tool for
tests, and leaves nothing behind.
"""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
from typing import Any

import numpy as np

from . import __version__
from .errors import missing_package
from .playback import scan_recorded_traces
from .spaces import LIBRARIES
from .wrappers import TraceRecordingWrapper
from .wrappers.api import library_version, reset_gives_info, split_reset, split_step

EPISODES = 10


def test_trace_recording() -> None:
    """Records 10 episodes of CartPole with random actions, and reads them back.

    Raises:
        AssertionError: what comes back is not what the environment returned.
    """
    library = _library()
    # Not through `make`, whose wrappers differ from version to version.
    env_class = importlib.import_module(f"{library.__name__}.envs.classic_control").CartPoleEnv
    recorded: list[list[list[Any]]] = []
    played: list[list[Any]] = []
    with tempfile.TemporaryDirectory(prefix="gym_recording.") as directory:
        env = TraceRecordingWrapper(env_class(), directory)
        for _ in range(EPISODES):
            recorded.append(_run_episode(env, reset_gives_info(library, {})))
        env.close()
        # Copied: on Windows, a directory with a mapped file cannot be removed.
        scan_recorded_traces(directory, lambda *episode: played.append([np.array(rows) for rows in episode]))
    if len(played) != len(recorded):
        raise AssertionError(f"recorded {len(recorded)} episodes, played back {len(played)}")
    for number, (expected, found) in enumerate(zip(recorded, played)):
        for name, values, rows in zip(("observations", "actions", "rewards"), expected, found):
            _compare(f"episode {number}: {name}", np.array(values), rows)


def _library() -> Any:
    for name in LIBRARIES:
        if importlib.util.find_spec(name) is not None:
            return importlib.import_module(name)
    raise missing_package("gym", "the test", "gym")


def _run_episode(env: Any, gives_info: bool) -> list[list[Any]]:
    """The observations, actions and rewards of one episode."""
    observation, _ = split_reset(env.reset(), gives_info, env.observation_space)
    observations, actions, rewards = [np.array(observation)], [], []
    ended = False
    while not ended:
        action = env.action_space.sample()
        observation, reward, terminated, truncated, _ = split_step(env.step(action))
        observations.append(np.array(observation))
        actions.append(action)
        rewards.append(reward)
        ended = terminated or truncated
    return [observations, actions, rewards]


def _compare(what: str, expected: Any, found: Any) -> None:
    if (expected.dtype, expected.shape) != (found.dtype, found.shape):
        kinds = f"{expected.dtype}{list(expected.shape)}, played back {found.dtype}{list(found.shape)}"
        raise AssertionError(f"{what}: recorded {kinds}")
    if expected.tobytes() != found.tobytes():
        raise AssertionError(f"{what}: recorded {expected.tolist()}, played back {found.tolist()}")


if __name__ == "__main__":
    test_trace_recording()
    version = library_version(_library())
    print(f"gym_recording {__version__} works with {version}: {EPISODES} episodes of CartPole came back as recorded")
