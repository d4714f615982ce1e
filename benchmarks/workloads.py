"""What the benchmarks record: a gymnasium environment that does nothing, and so costs nothing.

Every observation is a row of a ring that is filled once, so what a right recording holds is known: observation number
g of a run (those of resets count) is row g % R of the ring, step k has action k % R and the reward of its observation.
With `reuse` the environment overwrites one buffer instead, as simulators do: a recorder that keeps references fails.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, Iterator, NamedTuple

import gymnasium
import numpy as np

PLAIN = ""  # the key of an observation that is no Dict


class Recorded(NamedTuple):
    """One episode of T steps as it must come back."""

    observations: Any  # array of T + 1 rows, or a dict of such
    actions: np.ndarray
    rewards: np.ndarray
    terminated: bool
    truncated: bool


@dataclasses.dataclass(frozen=True)
class Workload:
    """What an environment gives and takes, and how long its episodes are."""

    name: str
    observation: dict[str, tuple[str, tuple[int, ...]]]  # key -> dtype, shape
    action: int | None  # length of a float32 Box action, or None for a Discrete one (a Python int)
    episode_length: int
    steps: int
    ring: int  # rows; prime, so that episodes differ

    @property
    def observation_bytes(self) -> int:
        """Bytes of one observation."""
        return sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for dtype, shape in self.observation.values())

    @property
    def payload(self) -> int:
        """Bytes of all observations, actions and rewards."""
        resets = -(-self.steps // self.episode_length)
        return (self.steps + resets) * self.observation_bytes + self.steps * (8 + 4 * (self.action or 2))


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("float32[4]", {PLAIN: ("float32", (4,))}, None, 200, 300_000, 4099),
        Workload("float32[376]", {PLAIN: ("float32", (376,))}, 17, 1000, 50_000, 4099),
        Workload("dict", {"image": ("uint8", (64, 64, 3)), "state": ("float32", (10,))}, None, 500, 20_000, 1009),
        Workload("frames", {PLAIN: ("uint8", (210, 160, 3))}, None, 1000, 4_000, 251),
        Workload("two-step", {PLAIN: ("float32", (4,))}, None, 2, 100_000, 4099),
    )
}


class Ring:
    """The rows that the environment of a workload hands out."""

    def __init__(self, workload: Workload) -> None:
        rng = np.random.RandomState(1)
        count = workload.ring
        self.workload = workload
        self.columns: dict[str, np.ndarray] = {}
        for key, (name, shape) in workload.observation.items():
            dtype = np.dtype(name)
            column = rng.randint(0, 256, (count, *shape)) if dtype.kind == "u" else rng.randn(count, *shape)
            self.columns[key] = column.astype(dtype)
        self.observations: list[Any] = [self.pack(row) for row in zip(*self.columns.values())]
        self.rewards: list[float] = rng.randn(count).tolist()
        if workload.action is None:
            self.actions: list[Any] = rng.randint(0, 4, count).tolist()
        else:
            self.actions = list(rng.randn(count, workload.action).astype(np.float32))

    def pack(self, leaves: Any) -> Any:
        """Gives leaves, in the order of the keys, the structure of an observation."""
        return leaves[0] if PLAIN in self.columns else dict(zip(self.columns, leaves))

    def expected(self) -> Iterator[Recorded]:
        """Yields every episode of a run."""
        count, left, done, row = self.workload.ring, self.workload.steps, 0, 0
        for number in itertools.count():
            length = min(self.workload.episode_length, left)
            if not length:
                return
            rows = np.arange(row, row + length + 1) % count
            actions = [self.actions[k % count] for k in range(done, done + length)]
            full = length == self.workload.episode_length
            yield Recorded(
                self.pack([column[rows] for column in self.columns.values()]),
                np.asarray(actions),
                np.asarray([self.rewards[k] for k in rows[1:]]),
                full and number % 2 == 0,
                full and number % 2 == 1,
            )
            left, done, row = left - length, done + length, row + length + 1


class ReusedBuffer:
    """Stands for the list of observations: every one is written into the same buffer and that is handed out."""

    def __init__(self, observations: list[Any]) -> None:
        self._observations = observations
        first = observations[0]
        self._buffer = {k: v.copy() for k, v in first.items()} if isinstance(first, dict) else first.copy()

    def __getitem__(self, index: int) -> Any:
        row = self._observations[index]
        if isinstance(row, dict):
            for key, value in row.items():
                self._buffer[key][...] = value
        else:
            self._buffer[...] = row
        return self._buffer


def box(dtype: str, shape: tuple[int, ...]) -> gymnasium.spaces.Box:
    """Makes the space of one leaf."""
    low, high = (0, 255) if dtype == "uint8" else (-np.inf, np.inf)
    return gymnasium.spaces.Box(low, high, shape, np.dtype(dtype).type)


class RingEnv(gymnasium.Env):
    """Hands out the rows of a ring; episodes end in turn as terminated and as truncated."""

    def __init__(self, ring: Ring, reuse: bool = False) -> None:
        workload = ring.workload
        spaces = {key: box(dtype, shape) for key, (dtype, shape) in workload.observation.items()}
        self.observation_space = spaces[PLAIN] if PLAIN in spaces else gymnasium.spaces.Dict(spaces)
        discrete = workload.action is None
        self.action_space = gymnasium.spaces.Discrete(4) if discrete else box("float32", (workload.action or 0,))
        self._observations = ReusedBuffer(ring.observations) if reuse else ring.observations
        self._rewards, self._count, self._length = ring.rewards, workload.ring, workload.episode_length
        self._row, self._t, self._odd = -1, 0, True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins the next episode."""
        self._row = row = (self._row + 1) % self._count
        self._t, self._odd = 0, not self._odd
        return self._observations[row], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Hands out the next row."""
        self._row = row = (self._row + 1) % self._count
        self._t = t = self._t + 1
        if t == self._length:
            return self._observations[row], self._rewards[row], not self._odd, self._odd, {}
        return self._observations[row], self._rewards[row], False, False, {}


def drive(env: Any, ring: Ring) -> Any:
    """Runs the steps of the workload, closes the environment and gives it back."""
    actions = itertools.cycle(ring.actions)
    left, length = ring.workload.steps, ring.workload.episode_length
    while left:
        env.reset()
        for action in itertools.islice(actions, min(length, left)):
            env.step(action)
        left -= min(length, left)
    env.close()
    return env


def compare(found: Any, ring: Ring, recorder: str) -> None:
    """Compares episodes that were read back with those of the run, exactly.

    Args:
        found: Iterable of objects with the fields of `Recorded`.
        ring: What was recorded.
        recorder: Its name, for the message.

    Raises:
        AssertionError: They differ.
    """
    for number, (got, want) in enumerate(itertools.zip_longest(found, ring.expected())):
        where = f"{recorder}, {ring.workload.name}, episode {number}"
        assert not (got is None or want is None), f"{where}: one more or one less than recorded"
        pairs = [("actions", got.actions, want.actions), ("rewards", got.rewards, want.rewards)]
        for key in ring.columns:
            plain = key == PLAIN
            pairs.append(
                (f"observations {key}", *(e.observations if plain else e.observations[key] for e in (got, want)))
            )
        for name, a, b in pairs:
            same = a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
            assert same, f"{where}: {name} differ: {a.dtype}{a.shape} instead of {b.dtype}{b.shape}, or other values"
        flags = (got.terminated, got.truncated)
        assert flags == (want.terminated, want.truncated), f"{where}: terminated, truncated are {flags}"
