"""Replay: the recorded actions in the environment anew, and whether it gives what it gave.

The episodes of a trace, or of a lane of it, go in order into one environment, which is reset as it was: what a reset
without a seed gives hangs on the episodes before it. Each is recorded again, to memory, by the recorder that recorded
it, so that dtypes are decided alike, and then compared. Nothing is proven where the environment's state was not known.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Collection, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Iterator

from .batch import encode_batch
from .difference import Difference, first_difference
from .episode import Episode
from .errors import TraceError
from .format import blob_name, header_name, trace_name
from .header import read_episode, read_header
from .index import Trace
from .memory import MemoryDirectory, Place
from .playback import TraceRecordingReader
from .rebuild import installed_library
from .values import own
from .wrappers import TraceRecordingWrapper
from .wrappers.api import library_of, make_arguments, reset

_NAME = trace_name(0, "0-000000000000")  # of a trace that nobody sees
_NEVER = 1 << 62  # steps: a batch is never full


@dataclass(frozen=True)
class EpisodeReplay:
    """What the replay of an episode showed.

    Attributes:
        number: of the episode, in the reader or view that was given.
        trace: the name of its trace.
        lane: as in `Episode`.
        verdict: "equal": bit for bit, as far as it is recorded. "different". "unproven": it may have been equal or not,
            which says nothing, for the `reason`.
        reason: why nothing is proven; of a different one, what else may be why. Else empty.
        difference: the first, if there was one.
    """

    number: int
    trace: str
    lane: int | None
    verdict: str
    reason: str = ""
    difference: Difference | None = None

    def __str__(self) -> str:
        lane = "" if self.lane is None else f" (lane {self.lane})"
        parts = [str(part) for part in (self.difference, self.reason) if part]
        why = "; ".join(reversed(parts) if self.verdict == "unproven" else parts)
        return f"episode {self.number}{lane}: {self.verdict}" + (f": {why}" if why else "")


def replay(
    source: Place | TraceRecordingReader, env: Any = None, *, ignore: Collection[str] = ()
) -> list[EpisodeReplay]:
    """Plays the recorded actions in the environment again and compares what it returns: bit for bit, a NaN as a NaN.

    Compared are observations, rewards, the flags of the last step, and infos if they were recorded, each as far as the
    recording goes. An int is given to the environment as NumPy's int64. One replayed episode is in memory at a time.

    Args:
        source: the recording, or a view of one; what came before its episodes is played too, and not compared.
        env: None: it is made as `Trace.make_env` does. Else its registered id, or a function without arguments that
            makes it, once for each trace and lane; or an environment, which is used for all and is not closed.
        ignore: paths that are not compared, with all below them: `infos.episode.t`.

    Returns:
        One for each episode, by trace and lane.

    Raises:
        TraceError: the environment cannot be made, or something in the recording is missing or damaged.
        MissingPackageError: neither gymnasium nor gym is installed.
    """
    return list(replays(source, env, ignore=ignore))


def replays(
    source: Place | TraceRecordingReader, env: Any = None, *, ignore: Collection[str] = ()
) -> Iterator[EpisodeReplay]:
    """What `replay` returns, one by one."""
    ignore = {ignore} if isinstance(ignore, str) else set(ignore)
    view = source if isinstance(source, TraceRecordingReader) else TraceRecordingReader(source)
    numbers, reader = view.numbers, view
    while reader._above is not None:  # an episode hangs on those before it, which a view may lack
        reader = reader._above
    reader = reader._apart()  # of which there is one look until the last is replayed
    for trace in reader.traces:
        # Of a trace that claims 10^18 episodes no more is touched than what comes up to the first that is missing.
        last = bisect_left(numbers, trace.numbers.stop)
        wanted = numbers[bisect_left(numbers, trace.numbers.start) : last]
        if not len(wanted):
            continue
        wanted = wanted if isinstance(wanted, range) else set(wanted.tolist())
        for chain, is_shared in _chains(reader, trace.numbers[: int(numbers[last - 1]) + 1 - trace.numbers.start]):
            ends = (place + 1 for place in reversed(range(len(chain))) if chain[place] in wanted)
            chain = chain[: next(ends, 0)]
            if not chain:
                continue
            made = _make(env, trace)
            with nullcontext() if made is env else _closing(made):
                replayer = _Replayer(made, reader[chain[0]].infos is not None, is_shared, ignore)
                for one in replayer.run(reader, trace, chain):
                    if one.number in wanted:
                        yield replace(one, number=bisect_left(numbers, one.number))


def _chains(reader: TraceRecordingReader, numbers: range) -> Iterator[tuple[Sequence[int], bool]]:
    """The numbers of the episodes of each lane, of those with `numbers`, and whether all lanes had one seed."""
    if reader[numbers[0]].lane is None:
        yield numbers, False
        return
    lanes: dict[Any, list[int]] = {}
    seeds: dict[Any, set[Any]] = {}
    for start, chosen, outline in reader._source.outlines(numbers):
        for number in chosen:
            lane = outline.facts["lane"][number]
            lanes.setdefault(lane, []).append(start + number)
            seeds.setdefault(lane, set()).add(outline.facts["seed"][number])
    is_shared = len(lanes) > 1 and bool(set.intersection(*seeds.values()) - {None})
    yield from ((lanes[lane], is_shared) for lane in sorted(lanes, key=lambda lane: (lane is not None, lane)))


@contextmanager
def _closing(env: Any) -> Iterator[None]:
    """Closes it at the end. If it fails at that, what it gave is proven all the same."""
    try:
        yield
    finally:
        try:
            env.close()
        except Exception as error:
            warnings.warn(f"the environment was not closed: {type(error).__name__}: {error}", stacklevel=4)


def _make(env: Any, trace: Trace) -> Any:
    """The environment for a trace."""
    if env is not None and not isinstance(env, str):
        made = env() if callable(env) and library_of(env) is None else env
    else:
        library = installed_library("a replay", str(trace.writer.get("library")).partition(" ")[0])
        arguments, recorded = make_arguments(library), trace.env.get("kwargs", {})
        if env is None and recorded is None:
            arguments = {}  # with any, `make_env` would take it that those which could not be written are given
        elif env is None and isinstance(recorded, dict) and recorded.get("render_mode") == "human":
            arguments["render_mode"] = None  # nobody wants to see it again
        try:
            made = trace.make_env(**arguments) if env is None else library.make(env, **arguments)
        except TraceError as error:
            error.problem += "; or say which environment it is: `env=`, `--env`"
            raise
        except Exception as error:  # whatever constructors raise, and the libraries where an id has two colons
            text = " ".join(str(error).split()) or type(error).__name__
            raise TraceError(f"{library.__name__} cannot make it: {text}", field=env) from error
    if library_of(made) is None:
        raise TraceError("no environment", field="env", expected="one of gym or gymnasium", found=repr(made)[:80])
    return made


class _Replayer:
    """One environment, and what is known of its state.

    Attributes:
        known: whether a seed, and all that came after it, decides the state of its random numbers.
        shared: whether other lanes, which are not replayed with it, may have drawn from the same generator.
    """

    def __init__(self, env: Any, infos: bool, shared: bool, ignore: Collection[str]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is no news: it was said when the episodes were recorded
            self.env: Any = TraceRecordingWrapper(env, MemoryDirectory(), infos=infos, buffer_batch_size=_NEVER)
        self.ignore = ignore
        self.shared = shared
        self.known = False

    def run(self, reader: TraceRecordingReader, trace: Trace, numbers: Sequence[int]) -> Iterator[EpisodeReplay]:
        """Replays episodes that follow each other in one environment."""
        holes = _holes(trace)
        before = trace.numbers.start - 1
        for number in numbers:
            if any(before < hole <= number for hole in holes):
                self.known = False  # nobody knows what was drawn in those that are missing
            before = number
            episode = reader[number]
            difference, reason = self.replay(episode)
            if difference and self.shared and not reason:
                reason = "all lanes were reset with one seed, and may have drawn from one generator"
            verdict = "different" if difference else "equal"
            if reason:
                verdict = "unproven"
            elif difference and episode.seed is None:
                reason = "its reset had no seed, so it is equal only if no episode since the last seed is left out"
            yield EpisodeReplay(number, trace.name, episode.lane, verdict, reason, difference)

    def replay(self, episode: Episode) -> tuple[Difference | None, str]:
        """The first difference, and why nothing is proven, if that is so."""
        if episode.headless:
            self.known = False
            return None, "its beginning is not recorded"
        self.known = self.known or episode.seed is not None
        steps = episode.gaps[0] if episode.gaps else len(episode)
        found, failure = self.play(episode, steps)
        difference = None if found is None else first_difference(episode, found, self.ignore)
        difference = difference or failure
        if not self.known:
            return difference, "neither its reset nor one before it had a seed"
        if not episode.gaps:
            return difference, ""
        self.known = False
        return difference, "" if difference else f"what happened before step {steps} is not recorded"

    def play(self, episode: Episode, steps: int) -> tuple[Episode | None, Difference | None]:
        """The episode that the environment gives now, and where it failed, if it did."""
        recording, failure, step = self.env.recording, None, -1
        try:
            reset(self.env, episode.seed, episode.options, wants_info=bool(episode.infos and episode.infos[0]))
            for step in range(steps):
                self.env.step(own(episode.actions[step]))
        except Exception as error:  # whatever environments raise
            what = "reset" if step < 0 else "step"
            text = f"{type(error).__name__}: {error}"[:200]
            failure = Difference(None if step < 0 else step, what, "what is recorded", text)
        recording.end_episode()
        episodes, recording.episodes = recording.episodes, []
        return (_read(episodes[0]) if episodes else None), failure


def _holes(trace: Trace) -> list[int]:
    """The numbers of the episodes before which some are missing."""
    holes, number, end = [], trace.numbers.start, 0
    for batch in trace.batches:
        if batch.first != end:
            holes.append(number)
        number, end = number + batch.count, batch.first + batch.count
    return holes


def _read(episode: dict[str, Any]) -> Episode:
    """An ended episode of a recorder as a reader gives it."""
    encoded = encode_batch([episode], 0, blob_name(_NAME, 0))
    blob = memoryview(b"".join(encoded.blob)).toreadonly()
    return read_episode(read_header(encoded.header, header_name(_NAME, 0)), 0, lambda name: blob)
