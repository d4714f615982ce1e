"""Measures what recording costs per step above the bare loop, construction and closing included.

Recorders: "lists" appends copies to lists and saves them with np.save at the end; "memcpy+write" copies the payload
into a staging buffer and writes it (the physical limit); ours with durability="none" and with its defaults.
All run in turn in one process, the first round untimed. The ratio to "lists" is taken round by round, then its median.
Before that each recorder's data of a short run is read back and compared.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from typing import Any, Callable, Iterator

import numpy as np
from workloads import PLAIN, WORKLOADS, Recorded, Ring, RingEnv, Workload, compare, drive

from gym_recording import TraceRecordingReader, TraceRecordingWrapper

STAGE = 4 << 20  # bytes: fits the caches, large enough that the calls cost nothing
CHECKED = 24 << 20  # bytes that the check records: a few batches
# (workload, recorder) -> most, of "lists" ("x") or in microseconds a step ("us")
GOALS: dict[tuple[str, str], tuple[float, str]] = {
    ("float32[4]", "none"): (1.0, "x"),
    ("float32[376]", "none"): (1.0, "x"),
    ("dict", "none"): (1.0, "x"),
    ("frames", "none"): (0.3, "x"),
    ("float32[4]", "default"): (1.0, "x"),
    ("float32[376]", "default"): (1.0, "x"),
    ("frames", "default"): (0.5, "x"),
    ("two-step", "default"): (12.0, "us"),
}


class ListsWrapper:
    """Appends copies to lists and saves them at the end: what people write by hand."""

    def __init__(self, env: Any, directory: str) -> None:
        self.env, self.directory = env, directory
        self.observations: list[Any] = []
        self.actions: list[Any] = []
        self.rewards: list[float] = []
        self.terminated: list[bool] = []
        self.truncated: list[bool] = []
        self.starts: list[int] = []

    def _copy(self, observation: Any) -> Any:
        if isinstance(observation, dict):
            return {key: value.copy() for key, value in observation.items()}
        return observation.copy()

    def reset(self) -> Any:
        """Resets the environment and begins an episode."""
        result = self.env.reset()
        self.starts.append(len(self.observations))
        self.observations.append(self._copy(result[0]))
        return result

    def step(self, action: Any) -> Any:
        """Steps the environment and keeps what went in and came out."""
        result = self.env.step(action)
        observation, reward, terminated, truncated, _ = result
        self.observations.append(self._copy(observation))
        self.actions.append(action.copy() if isinstance(action, np.ndarray) else action)
        self.rewards.append(reward)
        self.terminated.append(terminated)
        self.truncated.append(truncated)
        return result

    def close(self) -> None:
        """Saves everything."""
        self.env.close()
        arrays: dict[str, Any] = {
            name: np.asarray(getattr(self, name)) for name in ("rewards", "terminated", "truncated", "starts")
        }
        arrays["actions"] = np.stack(self.actions)
        if isinstance(self.observations[0], dict):
            for key in self.observations[0]:
                arrays["observations" + key] = np.stack([observation[key] for observation in self.observations])
        else:
            arrays["observations" + PLAIN] = np.stack(self.observations)
        for name, array in arrays.items():
            np.save(os.path.join(self.directory, name + ".npy"), array)


def read_lists(ring: Ring, directory: str) -> Iterator[Recorded]:
    """Reads what a ListsWrapper saved."""

    def load(name: str) -> Any:
        return np.load(os.path.join(directory, name + ".npy"))

    columns = [load("observations" + key) for key in ring.columns]
    actions, rewards, terminated, truncated = map(load, ("actions", "rewards", "terminated", "truncated"))
    bounds = [*load("starts").tolist(), len(columns[0])]
    for number, (first, end) in enumerate(zip(bounds, bounds[1:])):
        a, b = first - number, end - number - 1  # an episode has one observation more than steps
        observations = ring.pack([column[first:end] for column in columns])
        yield Recorded(observations, actions[a:b], rewards[a:b], bool(terminated[b - 1]), bool(truncated[b - 1]))


def bare(ring: Ring, directory: str, reuse: bool = False) -> Any:
    """Runs the loop without a recorder."""
    return drive(RingEnv(ring, reuse), ring)


def lists(ring: Ring, directory: str, reuse: bool = False) -> Any:
    """Records with ListsWrapper."""
    return drive(ListsWrapper(RingEnv(ring, reuse), directory), ring)


def limit(ring: Ring, directory: str, reuse: bool = False) -> None:
    """Copies as many bytes as the payload has out of the ring and writes them; no loop, no environment."""
    sources = [memoryview(column.reshape(-1).view(np.uint8)) for column in ring.columns.values()]
    stage = memoryview(bytearray(STAGE))
    left, source, offset, used = ring.workload.payload, 0, 0, 0
    fd = os.open(os.path.join(directory, "payload"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    while left:
        count = min(left, STAGE - used, len(sources[source]) - offset)
        stage[used : used + count] = sources[source][offset : offset + count]
        left, used, offset = left - count, used + count, offset + count
        if offset == len(sources[source]):
            source, offset = (source + 1) % len(sources), 0
        if used == STAGE or not left:
            assert os.write(fd, stage[:used]) == used
            used = 0
    os.close(fd)


def none(ring: Ring, directory: str, reuse: bool = False) -> Any:
    """Records with ours, without fsync."""
    return drive(TraceRecordingWrapper(RingEnv(ring, reuse), directory, durability="none"), ring)


def default(ring: Ring, directory: str, reuse: bool = False) -> Any:
    """Records with ours as it comes."""
    return drive(TraceRecordingWrapper(RingEnv(ring, reuse), directory), ring)


RECORDERS: dict[str, Callable[..., Any]] = {
    "bare": bare,
    "lists": lists,
    "memcpy+write": limit,
    "none": none,
    "default": default,
}


def check(workload: Workload, parent: str) -> None:
    """Compares what every recorder kept of a short run of an environment that reuses its buffer."""
    steps = min(workload.steps, CHECKED // (workload.observation_bytes + 16))
    length = min(workload.episode_length, max(2, steps * 2 // 5))
    ring = Ring(dataclasses.replace(workload, steps=steps, episode_length=length))
    for name in ("lists", "memcpy+write", "none", "default"):
        with tempfile.TemporaryDirectory(dir=parent) as directory:
            RECORDERS[name](ring, directory, reuse=True)
            if name == "memcpy+write":
                assert os.path.getsize(os.path.join(directory, "payload")) == ring.workload.payload
            elif name == "lists":
                compare(read_lists(ring, directory), ring, name)
            else:
                compare(TraceRecordingReader(directory), ring, name)


def measure(workload: Workload, repeats: int, parent: str) -> dict[str, list[float]]:
    """Gives the seconds of every round of every recorder."""
    ring = Ring(workload)
    seconds: dict[str, list[float]] = {name: [] for name in RECORDERS}
    for turn in range(repeats + 1):
        names = list(RECORDERS)
        first = turn % len(names)  # each begins a round in turn: what ran before leaves its mark on memory and disk
        for name in names[first:] + names[:first]:
            directory = tempfile.mkdtemp(dir=parent)
            try:
                gc.collect()
                # Touched and freed: else whoever needs memory that a virtual machine has meanwhile given back to its
                # host waits for that, up to five times as long as for anything measured here, now and then.
                np.ones(3 * workload.payload, np.uint8)
                start = time.perf_counter()
                kept = RECORDERS[name](ring, directory)  # what it frees afterwards is not counted
                seconds[name].append(time.perf_counter() - start)
                del kept
            finally:
                shutil.rmtree(directory)
            if hasattr(os, "sync"):
                os.sync()  # else the next recorder pays for what this one left to the disk
    return {name: rounds[1:] for name, rounds in seconds.items()}


def spread(values: list[float], digits: int) -> str:
    """Gives median and range as text."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}..{max(values):.{digits}f})"


def table(workload: Workload, seconds: dict[str, list[float]]) -> list[list[str]]:
    """Gives the rows of one workload."""
    rows = []
    over = {
        name: [
            (t - (0 if name in ("bare", "memcpy+write") else b)) / workload.steps * 1e6
            for t, b in zip(ts, seconds["bare"])
        ]
        for name, ts in seconds.items()
    }
    for name, micros in over.items():
        ratios = [a / b for a, b in zip(micros, over["lists"])]
        most, unit = GOALS.get((workload.name, name), (0.0, ""))
        reached = statistics.median(ratios if unit == "x" else micros) <= most
        goal = f"<= {most:g} {unit}" if unit else ""
        verdict = ("met" if reached else "MISSED") if unit else ""
        ratio = "" if name in ("bare", "lists") else spread(ratios, 2)
        rows.append([workload.name, str(workload.steps), name, spread(micros, 2), ratio, goal, verdict])
    return rows


def main() -> None:
    """Checks, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--workloads",
        nargs="+",
        choices=list(WORKLOADS),
        default=list(WORKLOADS),
        metavar="NAME",
        help="some of: " + " ".join(WORKLOADS),
    )
    parser.add_argument("--repeats", type=int, default=5, help="timed rounds (default: 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the number of steps")
    parser.add_argument(
        "--directory", help="where to write, in folders that are deleted (default: the temporary folder)"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the seconds of every round here")
    args = parser.parse_args()
    rows = [["workload", "steps", "recorder", "us/step above bare (min..max)", "ratio to lists", "goal", ""]]
    results: dict[str, Any] = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.platform(),
    }
    for name in args.workloads:
        steps = max(1, int(WORKLOADS[name].steps * args.scale))
        workload = dataclasses.replace(WORKLOADS[name], steps=steps)
        check(workload, args.directory)
        seconds = measure(workload, args.repeats, args.directory)
        results[name] = {"steps": steps, "payload": workload.payload, "seconds": seconds}
        rows += table(workload, seconds)
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
