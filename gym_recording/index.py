"""What one look at a directory shows: the traces, their batches, where each episode is.

It is the union of what manifests list and of the headers that are there. Traces are ordered by creation and name,
batches by their first episode; a hole is a batch with an error. Only what no manifest lists is opened to be counted.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Callable, Iterator

from . import files
from .errors import MissingEpisodesError, TraceError
from .format import (
    MAX_JSON_BYTES,
    header_name,
    is_current,
    manifest_name,
    member,
    natural_key,
    parse_name,
    read_manifest,
)
from .memory import Directory


@dataclass
class BatchFile:
    """A batch as the directory shows it.

    Attributes:
        file: the name of its header.
        first: the number of its first episode in the trace.
        count: how many episodes it has; at least 1 where that cannot be known.
        error: why it cannot be read, if that is known.
    """

    file: str
    first: int
    count: int
    error: TraceError | None = None


@dataclass
class Trace:
    """Everything that one recorder wrote.

    Attributes:
        name: the beginning of all its file names.
        created: UTC, ISO 8601; empty in old recordings, and where no manifest is written yet.
        closed: whether its recorder was closed; False in old recordings, which do not say.
        repaired: when it was repaired after the death of its writer, UTC, ISO 8601; empty if it was not.
        writer: package, versions, host and pid of the writer.
        env: what is known of the environment: id, kwargs, spaces.
        metadata: the user's own.
        batches: in order.
        numbers: the range of the numbers that its episodes have in the reader.
        error: why its manifest cannot be read, or None. Its episodes may be all there.
    """

    name: str
    created: str = ""
    closed: bool = False
    repaired: str = ""
    writer: dict[str, Any] = field(default_factory=dict)
    env: dict[str, Any] = field(default_factory=dict)
    metadata: Any = None
    batches: list[BatchFile] = field(default_factory=list)
    numbers: range = range(0)
    error: TraceError | None = None

    def __len__(self) -> int:
        """How many episodes it has."""
        return sum(batch.count for batch in self.batches)

    @cached_property
    def observation_space(self) -> Any:
        """The observation space, rebuilt in the library that is installed, gymnasium if both are; None if not recorded.

        Raises:
            TraceError: it could not be recorded whole, or is malformed, or the library has no such space.
            MissingPackageError: neither gymnasium nor gym is installed.
        """
        return self._space("observation_space")

    @cached_property
    def action_space(self) -> Any:
        """The action space; as `observation_space`."""
        return self._space("action_space")

    def _space(self, key: str) -> Any:
        from .rebuild import read_space  # whoever only reads episodes does not load it

        return read_space(self.env[key], f"env.{key}", manifest_name(self.name)) if key in self.env else None

    def make_env(self, **kwargs: Any) -> Any:
        """Makes the environment anew, by its registered id, with its recorded arguments and wrappers.

        It is made by the library that it was recorded with, if that is installed. Import what registers it before: no
        module is imported because a file names it. But the arguments are from the file: do this with recordings that
        you trust. Wrappers are those of gymnasium alone, and none that writes files.

        Args:
            kwargs: for `make`; they go before the recorded arguments.

        Raises:
            TraceError: what is recorded does not suffice, or is not registered, or cannot be made.
            MissingPackageError: neither gymnasium nor gym is installed.
        """
        from .environment import make_env

        return make_env(self.env, self.writer.get("library"), manifest_name(self.name), kwargs)

    def __getstate__(self) -> dict[str, Any]:
        """Without the spaces, which need their library: they are rebuilt where they are asked for."""
        names = ("observation_space", "action_space")
        return {key: value for key, value in self.__dict__.items() if key not in names}


class Index:
    """The traces of a directory, in order, as one look at it shows them.

    Args:
        directory: one that does not exist has no traces.
        count: reads the header of a name and gives the number of its episodes. Raises `TraceError`.
    """

    def __init__(self, directory: Directory, count: Callable[[str], int]) -> None:
        self._directory = directory
        self._count = count
        manifests: dict[str, str] = {}
        headers: dict[str, dict[str, int]] = {}
        for file in files.listing(directory):
            name = parse_name(file)
            if name is not None and name.kind != "blob":
                found = headers.setdefault(name.trace, {})
                if name.kind == "header":
                    found[file] = name.first
                else:
                    manifests[name.trace] = file
        self.traces = [self._trace(name, manifests.get(name), found) for name, found in headers.items()]
        self.traces.sort(key=lambda trace: (trace.created, natural_key(trace.name)))
        del self._count  # so that a reader can be pickled

    def _trace(self, name: str, manifest: str | None, found: dict[str, int]) -> Trace:
        trace = Trace(name)
        listed: dict[str, int] = {}
        if manifest is not None:
            try:
                listed = self._read_manifest(trace, manifest)
            except TraceError as error:
                trace.error = error  # the headers say all that it did, but for what is the trace's own
        firsts = {**{file: parse_name(file).first for file in listed}, **found}  # type: ignore[union-attr]
        end = 0
        for file, first in sorted(firsts.items(), key=lambda item: item[1]):
            batch = self._batch(file, first, listed.get(file), file in found)
            previous = trace.batches[-1] if trace.batches else None
            if previous is not None and previous.count == 0:  # its header is damaged: this one tells how many it had
                previous.count = max(1, first - previous.first)
                end = previous.first + previous.count
            if is_current(name) and first != end:
                if first > end:
                    trace.batches.append(_missing(header_name(name, end), end, first - end))
                else:
                    batch.error = TraceError("overlaps the batch before it", file=file, expected=f"first {end}")
            trace.batches.append(batch)
            end = first + batch.count
        if trace.batches and trace.batches[-1].count == 0:
            trace.batches[-1].count = 1
        return trace

    def _read_manifest(self, trace: Trace, file: str) -> dict[str, int]:
        """What a manifest says of its trace, and the headers that it lists, with the number of their episodes."""
        manifest = read_manifest(files.read(self._directory, file, MAX_JSON_BYTES), file)
        listed: dict[str, int] = {}
        for entry in manifest["batches"]:
            name = parse_name(entry["fn"])
            if name is None or name.trace != trace.name or entry["fn"] in listed:
                raise TraceError("not a batch of this trace, or listed twice", file=file, found=entry["fn"])
            listed[entry["fn"]] = entry["len"]
        trace.created = member(manifest, "created", str, file, "")
        trace.closed = member(manifest, "closed", bool, file, False)
        trace.repaired = member(manifest, "repaired", str, file, "")
        trace.writer = member(manifest, "writer", dict, file, {})
        trace.env = member(manifest, "env", dict, file, {})
        trace.metadata = manifest.get("metadata")
        return listed

    def _batch(self, file: str, first: int, count: int | None, is_there: bool) -> BatchFile:
        if not is_there:
            return _missing(file, first, count or 0)
        if count is not None:
            return BatchFile(file, first, count)
        try:
            return BatchFile(file, first, self._count(file))
        except TraceError as error:
            return BatchFile(file, first, 0, error)

    def keep(self, is_good: Callable[[BatchFile], bool]) -> None:
        """Leaves out the batches that are not."""
        for trace in self.traces:
            trace.batches = [batch for batch in trace.batches if is_good(batch)]

    def problems(self) -> list[TraceError]:
        """What this look found to be missing or damaged."""
        errors = [trace.error for trace in self.traces]
        errors += [batch.error for trace in self.traces for batch in trace.batches]
        return [error for error in errors if error is not None]

    def number(self) -> None:
        """Gives the episodes their numbers; `batches`, their first numbers `starts`, and `count` go by them."""
        self.batches = [batch for trace in self.traces for batch in trace.batches]
        self.starts: list[int] = []
        self.count = 0
        for batch in self.batches:
            self.starts.append(self.count)
            self.count = min(self.count + batch.count, sys.maxsize)  # hostile gaps have any length, `len` has a limit
        start = 0
        for trace in self.traces:
            trace.numbers = range(start, min(start + sum(batch.count for batch in trace.batches), sys.maxsize))
            start = trace.numbers.stop

    def locate(self, number: int) -> tuple[BatchFile, int]:
        """The batch of an episode, and its number there."""
        position = bisect_right(self.starts, number) - 1
        return self.batches[position], number - self.starts[position]

    def by_batch(self, numbers: Any) -> Iterator[tuple[int, Any]]:
        """Episodes by the batch in which they are: its position in `batches`, and their numbers there.

        Args:
            numbers: of the episodes, rising, a range or an array; so are those in a batch. A hostile one has no end.
        """
        is_range, at = isinstance(numbers, range), 0
        while at < len(numbers):
            position = bisect_right(self.starts, int(numbers[at])) - 1
            start = self.starts[position]
            after = bisect_left(numbers, start + self.batches[position].count, at)
            part = numbers[at:after]
            yield position, range(part[0] - start, part[-1] - start + 1, part.step) if is_range else part - start
            at = after


def _missing(file: str, first: int, count: int) -> BatchFile:
    error = MissingEpisodesError(
        f"episodes {first}..{first + count - 1} are missing", file=file, expected="this header"
    )
    return BatchFile(file, first, count, error)
