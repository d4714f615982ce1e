"""Measures reading, warm in the page cache: scans that touch every observation byte, and random episodes.

References are the same observations in one .npy file read by np.load(mmap_mode="r"), and in one raw file read by
np.memmap: as a whole (the physical limit) and by slices of an episode. Kinds: "scan" opens and reads all; "open" reads
random episodes of what is open already; "opening" opens anew for every one. All run in turn in one process, each once
untimed before it is timed. The sum of all words that a run read is compared with what was recorded.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import random
import statistics
import tempfile
import time
from typing import Any, Callable

import numpy as np
from workloads import WORKLOADS, Ring, RingEnv, drive

from gym_recording import TraceRecordingReader, TraceRecordingWrapper, scan_recorded_traces

EPISODES = {"float32[4]": (1000, 200), "frames": (4, 500)}  # workload -> episodes, their steps
PICKS = 200  # random episodes of a run, each opened by itself in "opening"
WORD = np.dtype("<u8")

Run = Callable[[], int]


def touch(observations: np.ndarray) -> int:
    """Sums all bytes, as words: reads each, at the speed of the memory."""
    return int(observations.reshape(-1).view(WORD).sum(dtype=WORD))


def cases(
    directory: str, npy: str, raw: str, like: np.ndarray, rows: int, picks: list[int]
) -> dict[str, dict[str, Run]]:
    """Gives the runs: kind -> name -> function that returns the sum of what it read.

    Args:
        directory: Recording of ours.
        npy: The same observations as one array in a .npy file.
        raw: The same as raw bytes.
        like: That array; only its dtype and shape are used.
        rows: Observations of an episode.
        picks: Random numbers of episodes.
    """
    dtype, shape = like.dtype, like.shape
    episodes = shape[0] // rows

    def load() -> np.ndarray:
        return np.load(npy, mmap_mode="r")

    def memmap() -> np.ndarray:
        return np.memmap(raw, dtype, "r", shape=shape)

    def piece(array: np.ndarray, number: int) -> int:
        return touch(array[number * rows : (number + 1) * rows])

    def sliced(opened: Callable[[], np.ndarray]) -> int:
        array = opened()
        return sum(piece(array, number) for number in range(episodes))

    def scan() -> int:
        sums: list[int] = []
        scan_recorded_traces(directory, lambda observations, actions, rewards: sums.append(touch(observations)))
        return sum(sums)

    array, reader = load(), TraceRecordingReader(directory)
    return {
        "scan": {
            "np.memmap, whole": lambda: touch(memmap()),
            "np.memmap": lambda: sliced(memmap),
            "np.load": lambda: sliced(load),
            "scan_recorded_traces": scan,
            "for episode in reader": lambda: sum(touch(e.observations) for e in TraceRecordingReader(directory)),
        },
        "open": {
            "np.load": lambda: sum(piece(array, number) for number in picks),
            "reader[i]": lambda: sum(touch(reader[number].observations) for number in picks),
        },
        "opening": {
            "np.load": lambda: sum(piece(load(), number) for number in picks),
            "reader[i]": lambda: sum(touch(TraceRecordingReader(directory)[number].observations) for number in picks),
        },
    }


def measure(name: str, repeats: int, scale: float, parent: str) -> dict[str, Any]:
    """Records one workload and gives the seconds of every run.

    Raises:
        AssertionError: A run did not read what was recorded.
    """
    episodes, length = EPISODES[name]
    episodes = max(1, int(episodes * scale))
    ring = Ring(dataclasses.replace(WORKLOADS[name], steps=episodes * length, episode_length=length))
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        directory, npy, raw = (
            os.path.join(folder, file) for file in ("recording", "observations.npy", "observations.raw")
        )
        drive(TraceRecordingWrapper(RingEnv(ring), directory, durability="none"), ring)
        whole = np.concatenate([episode.observations for episode in ring.expected()])
        np.save(npy, whole)
        whole.tofile(raw)
        picks = [random.Random(1).randrange(episodes) for _ in range(PICKS)]
        wanted = {
            number: touch(whole[number * (length + 1) : (number + 1) * (length + 1)]) for number in range(episodes)
        }
        runs = cases(directory, npy, raw, whole, length + 1, picks)
        seconds: dict[str, dict[str, list[float]]] = {
            kind: {title: [] for title in named} for kind, named in runs.items()
        }
        for _ in range(repeats):
            for kind, named in runs.items():
                want = sum(wanted[number] for number in (range(episodes) if kind == "scan" else picks))
                for title, run in named.items():
                    run()  # so that all are measured with their own data in the caches
                    start = time.perf_counter()
                    total = run()
                    seconds[kind][title].append(time.perf_counter() - start)
                    assert (total - want) % 2**64 == 0, f"{name}, {kind}, {title}: other bytes than recorded"
    return {"episodes": episodes, "bytes": whole.nbytes, "seconds": seconds}


def table(name: str, result: dict[str, Any]) -> list[list[str]]:
    """Gives the rows of one workload."""
    rows = []
    for kind, named in result["seconds"].items():
        count = result["episodes"] if kind == "scan" else PICKS
        size = result["bytes"] / result["episodes"] * count
        reference = named["np.load"]
        for title, rounds in named.items():
            middle = statistics.median(rounds)
            ratio = statistics.median(a / b for a, b in zip(rounds, reference))
            micros = f"{middle / count * 1e6:.1f}"
            low, high = (f"{edge(rounds) / count * 1e6:.1f}" for edge in (min, max))
            rows.append([name, kind, title, f"{micros} ({low}..{high})", f"{size / middle / 1e9:.2f}", f"{ratio:.2f}"])
    return rows


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--workloads",
        nargs="+",
        choices=list(EPISODES),
        default=list(EPISODES),
        metavar="NAME",
        help="some of: " + " ".join(EPISODES),
    )
    parser.add_argument("--repeats", type=int, default=5, help="timed rounds (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the number of episodes")
    parser.add_argument(
        "--directory", help="where to write, in a folder that is deleted (default: the temporary folder)"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the seconds of every round here")
    args = parser.parse_args()
    rows = [["workload", "kind", "read by", "us/episode (min..max)", "GB/s", "time / np.load"]]
    results: dict[str, Any] = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.platform(),
    }
    for name in args.workloads:
        results[name] = measure(name, args.repeats, args.scale, args.directory)
        rows += table(name, results[name])
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
