"""Measures playing back for learning: random transitions, random episodes, a full scan; warm in the page cache.

Beside TraceRecordingReader: Minari (HDF5, as it is, images not as JPEG), h5py (a dataset per field), and one array per
field by np.load, mapped or in memory. The last is the reference: what fancy indexing of observations, actions, rewards,
next observations, terminated and truncated costs when all are arrays in memory. Episodes are of one length, which the
arrays and h5py are told; the others find it out. Kinds: "sample" is to draw 256 random transitions and to read them,
"episode" to read the observations of a random episode, "scan" to read all observations; its reference is np.memmap of
the same bytes. All run in turn in one process; what each reads is compared, bit for bit. Minari gives episodes, not
transitions: those that a sample needs are read, each once.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import statistics
import tempfile
import time
from functools import partial
from typing import Any, Iterator

import numpy as np
from reading import touch
from workloads import WORKLOADS, Ring, RingEnv, drive

from gym_recording import TraceRecordingReader, TraceRecordingWrapper

EPISODES = {"float32[4]": (5000, 200), "frames": (16, 500)}  # workload -> episodes, their steps
BATCH = 256
FIELDS = ("observations", "actions", "rewards", "terminated", "truncated")


class Ours:
    title = "TraceRecordingReader"

    def __init__(self, folder: str, length: int) -> None:
        self.reader = TraceRecordingReader(os.path.join(folder, "recording"))
        self.transitions = self.reader.transitions

    def sample(self, rng: np.random.Generator) -> Any:
        return tuple(self.transitions.sample(BATCH, rng))

    def episode(self, number: int) -> np.ndarray:
        return self.reader[number].observations

    def scan(self) -> Iterator[np.ndarray]:
        return (episode.observations for episode in self.reader)


class Arrays:
    title = "np.load, in memory"
    mode: Any = None

    def __init__(self, folder: str, length: int) -> None:
        self.length = length
        self.fields = {name: np.load(os.path.join(folder, f"{name}.npy"), mmap_mode=self.mode) for name in FIELDS}

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(len(self.fields["rewards"]), size=BATCH)

    def sample(self, rng: np.random.Generator) -> Any:
        picks, fields = self.draw(rng), self.fields
        rows = picks + picks // self.length  # an episode has one observation more
        observations = fields["observations"]
        parts = [fields[name][picks] for name in FIELDS[1:]]
        return (observations[rows], *parts[:2], observations[rows + 1], *parts[2:])

    def episode(self, number: int) -> np.ndarray:
        rows = self.length + 1
        return self.fields["observations"][number * rows : (number + 1) * rows]

    def scan(self) -> Iterator[np.ndarray]:
        rows = self.length + 1
        return (self.episode(number) for number in range(len(self.fields["observations"]) // rows))


class Mapped(Arrays):
    title = "np.load, mapped"
    mode = "r"


class Memmap(Arrays):
    title = "np.memmap, whole"

    def __init__(self, folder: str, length: int) -> None:
        like = np.load(os.path.join(folder, "observations.npy"), mmap_mode="r")
        self.array = np.memmap(os.path.join(folder, "observations.npy"), like.dtype, "r", like.offset, like.shape)

    def scan(self) -> Iterator[np.ndarray]:
        return iter([self.array])

    sample = episode = None  # type: ignore[assignment]  # as Mapped


class H5py(Arrays):
    title = "h5py"

    def __init__(self, folder: str, length: int) -> None:
        import h5py

        self.length = length
        self.fields = {name: h5py.File(os.path.join(folder, "arrays.h5"), "r")[name] for name in FIELDS}

    def sample(self, rng: np.random.Generator) -> Any:
        picks, back = np.unique(self.draw(rng), return_inverse=True)  # it wants them to rise
        rows, fields = picks + picks // self.length, self.fields
        observations = fields["observations"]
        parts = [fields[name][picks][back] for name in FIELDS[1:]]
        return (observations[rows][back], *parts[:2], observations[rows + 1][back], *parts[2:])


class Minari:
    title = "Minari"

    def __init__(self, folder: str, length: int) -> None:
        import minari

        self.length = length
        self.dataset = minari.load_dataset("benchmark/playing-v0")

    def sample(self, rng: np.random.Generator) -> Any:
        picks = rng.integers(self.dataset.total_steps, size=BATCH)
        episodes = {number: self.dataset[number] for number in np.unique(picks // self.length).tolist()}
        steps = [(episodes[number], step) for number, step in zip(*np.divmod(picks, self.length))]
        return (
            np.stack([episode.observations[step] for episode, step in steps]),
            np.stack([episode.actions[step] for episode, step in steps]),
            np.stack([episode.rewards[step] for episode, step in steps]),
            np.stack([episode.observations[step + 1] for episode, step in steps]),
            np.stack([episode.terminations[step] for episode, step in steps]),
            np.stack([episode.truncations[step] for episode, step in steps]),
        )

    def episode(self, number: int) -> np.ndarray:
        return self.dataset[number].observations

    def scan(self) -> Iterator[np.ndarray]:
        return (episode.observations for episode in self.dataset.iterate_episodes())


def write(folder: str, ring: Ring, length: int, others: bool) -> None:
    """Writes what is read, in every form."""
    drive(TraceRecordingWrapper(RingEnv(ring), os.path.join(folder, "recording"), durability="none"), ring)
    episodes = list(ring.expected())
    flags = {name: np.zeros((len(episodes), length), "bool") for name in ("terminated", "truncated")}
    for number, episode in enumerate(episodes):
        flags["terminated"][number, -1], flags["truncated"][number, -1] = episode.terminated, episode.truncated
    arrays = {name: np.concatenate([getattr(episode, name) for episode in episodes]) for name in FIELDS[:3]}
    arrays.update({name: flag.reshape(-1) for name, flag in flags.items()})
    for name, array in arrays.items():
        np.save(os.path.join(folder, f"{name}.npy"), array)
    if not others:
        return
    import gymnasium
    import h5py
    import minari
    from minari.data_collector import EpisodeBuffer

    with h5py.File(os.path.join(folder, "arrays.h5"), "w") as file:
        for name, array in arrays.items():
            file[name] = array
    dtype = arrays["observations"].dtype
    low, high = (0, 255) if dtype.kind == "u" else (-np.inf, np.inf)
    os.environ["MINARI_DATASETS_PATH"] = os.path.join(folder, "minari")
    minari.create_dataset_from_buffers(
        "benchmark/playing-v0",
        [
            EpisodeBuffer(
                id=number,
                observations=episode.observations,
                actions=episode.actions,
                rewards=list(episode.rewards),
                terminations=list(flags["terminated"][number]),
                truncations=list(flags["truncated"][number]),
            )
            for number, episode in enumerate(episodes)
        ],
        observation_space=gymnasium.spaces.Box(low, high, arrays["observations"].shape[1:], dtype.type),
        action_space=gymnasium.spaces.Discrete(4),
        jpeg_encoding=False,
    )


def measure(name: str, repeats: int, scale: float, parent: str, others: bool) -> dict[str, dict[str, list[float]]]:
    """Records one workload and gives the seconds of every run: kind -> title -> for each round, of a piece.

    Raises:
        AssertionError: A run did not read what was recorded.
    """
    episodes, length = EPISODES[name]
    episodes = max(1, int(episodes * scale))
    ring = Ring(dataclasses.replace(WORKLOADS[name], steps=episodes * length, episode_length=length))
    rng = np.random.default_rng(1)
    seconds: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        write(folder, ring, length, others)
        kinds = [Arrays, Mapped, Memmap, Ours, *([H5py, Minari] if others else [])]
        readers = [kind(folder, length) for kind in kinds]
        total = sum(map(touch, readers[0].scan()))  # type: ignore[arg-type]

        def timed(kind: str, reader: Any, runs: list[Any]) -> list[Any]:
            took, found = [], []
            for run in runs:
                start = time.perf_counter()
                part = run()
                took.append(time.perf_counter() - start)
                found.append(None if kind == "sample" else part)
            # The middle one: what else a machine does must not count.
            seconds.setdefault(kind, {}).setdefault(reader.title, []).append(statistics.median(took))
            return found

        for round_number in range(repeats):
            numbers = rng.integers(episodes, size=1000 if name == "float32[4]" else 50).tolist()
            for reader in readers:
                if reader.sample is not None:
                    few = {"Minari": 2, "h5py": 20}.get(reader.title, 1000 if name == "float32[4]" else 20)
                    drawn = np.random.default_rng(round_number)
                    found = reader.sample(drawn)  # untimed, so that all are measured with their own data in the caches
                    like = readers[0].sample(np.random.default_rng(round_number))
                    assert all(map(np.array_equal, found, like)), f"{name}, sample, {reader.title}"
                    timed("sample", reader, [partial(reader.sample, drawn)] * few)
                    read = timed("episode", reader, [lambda n=n: touch(reader.episode(n)) for n in numbers])  # noqa: B023
                    assert read == [touch(readers[0].episode(n)) for n in numbers], f"{name}, episode, {reader.title}"
                (sums,) = timed("scan", reader, [lambda: sum(map(touch, reader.scan()))])  # noqa: B023
                assert (sums - total) % 2**64 == 0, f"{name}, scan, {reader.title}"
    return seconds


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--workloads", nargs="+", choices=list(EPISODES), default=list(EPISODES), metavar="NAME", help="of these"
    )
    parser.add_argument("--repeats", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the number of episodes")
    parser.add_argument("--alone", action="store_true", help="without Minari and h5py")
    parser.add_argument("--directory", help="where to write, in a folder that is deleted (default: the temporary one)")
    parser.add_argument("--json", metavar="FILE", help="also write the seconds of every round here")
    args = parser.parse_args()
    rows = [["workload", "kind", "read by", "us (min..max)", "time / reference"]]
    results: dict[str, Any] = {"python": platform.python_version(), "numpy": np.__version__}
    for name in args.workloads:
        results[name] = measure(name, args.repeats, args.scale, args.directory, not args.alone)
        for kind, named in results[name].items():
            reference = named[Memmap.title if kind == "scan" else Arrays.title]
            for title, rounds in named.items():
                ratio = statistics.median(rounds) / statistics.median(reference)
                middle, low, high = (f"{f(rounds) * 1e6:.0f}" for f in (statistics.median, min, max))
                rows.append([name, kind, title, f"{middle} ({low}..{high})", f"{ratio:.2f}"])
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
