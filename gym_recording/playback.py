"""Playing back: a recording as a sequence of episodes, and views of some of them.

What is read, and kept open, is in `source`, which a reader and its views share; which episodes a view has, in
`selection`.
"""

from __future__ import annotations

import copy
import operator
import os
from collections.abc import Sequence
from typing import Any, Callable, Collection, Iterator, Mapping, overload

from .episode import Episode
from .errors import TraceError
from .format import read_array
from .header import Header, read_episode
from .index import BatchFile, Trace
from .memory import Directory, MemoryDirectory, Place
from .outline import Outline
from .selection import Asked, Selection, named_by
from .source import Source
from .steps import Steps
from .summary import Summary, summarize
from .transitions import Transitions
from .windows import Windows

__all__ = ["Trace", "TraceRecordingReader", "scan_recorded_traces"]


class TraceRecordingReader(Sequence):  # type: ignore[type-arg]  # subscripting the ABC needs Python 3.9
    """The episodes of a recording, in order: a sequence of `Episode`.

    `len` and indices read no more than they must: the directory once, and the header of the batch that is asked for.
    Episodes and their arrays stay valid after `close`, and a closed reader that is used again opens what it needs. A
    reader can be pickled, and used in several processes, and by several threads at once.

    Args:
        directory: the recording, a path or a `MemoryDirectory`. One that does not exist has no episodes.
        on_error: "raise": what is missing or damaged is an error where it is reached; the rest can be read by index.
            "skip": the first look is at everything, what is bad is left out and put in `errors`.
        verify: whether to compare the checksums of blobs when they are opened; those of documents always are.
        mmap: False reads blobs into memory: for places where others truncate files.
    """

    def __init__(
        self,
        directory: Place,
        *,
        on_error: str = "raise",
        verify: bool = False,
        mmap: bool = True,
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise TraceError("unknown", field="on_error", expected='"raise" or "skip"', found=repr(on_error))
        held = directory if isinstance(directory, MemoryDirectory) else os.fsdecode(directory)
        self._source = Source(held, on_error, verify, mmap)
        self._above: TraceRecordingReader | None = None  # what this is a view of
        self._selection: Selection | None = None
        self._derived: dict[str, tuple[int, Any]] = {}  # with the look that it is of

    # ---- what is there

    @property
    def directory(self) -> Directory:
        """As it was given; it can be set."""
        return self._source.directory

    @directory.setter
    def directory(self, directory: Directory) -> None:
        self._source.directory = directory

    @property
    def binfiles(self) -> dict[str, Any]:
        """The open blobs by name."""
        return self._source.binfiles

    @property
    def on_error(self) -> str:
        """As it was given."""
        return self._source.on_error

    @property
    def verify(self) -> bool:
        """As it was given."""
        return self._source.verify

    @property
    def mmap(self) -> bool:
        """As it was given."""
        return self._source.mmap

    @property
    def traces(self) -> list[Trace]:
        """The traces of the whole recording, in order."""
        return self._source.index.traces

    @property
    def errors(self) -> list[TraceError]:
        """With `on_error="skip"`, why what was left out was left out."""
        return self._source.errors

    def refresh(self) -> None:
        """Looks at the directory anew: episodes that a running recorder has committed since show up at their place.

        It is one look for a reader and all its views. A view has what fits then; an episode that still runs may come to
        fit, or outgrow what was asked.
        """
        self._source.refresh()

    def _apart(self) -> TraceRecordingReader:
        """A reader of the same look at the recording, which no `refresh` of this one changes."""
        twin = copy.copy(self)
        self._source.index, twin._chosen()
        twin._source, twin._derived = copy.copy(self._source), dict(self._derived)
        return twin

    def complain(self) -> None:
        """Raises what the look at the directory found to be missing or damaged, if anything.

        Raises:
            TraceError: the first of it.
        """
        for problem in self._source.index.problems():
            raise problem

    # ---- a sequence of episodes

    def _once(self, name: str, derive: Callable[[], Any]) -> Any:
        """What is derived from a look, once."""
        looks = self._source.looks
        found = self._derived.get(name)
        if found is None or found[0] != looks:
            found = self._derived[name] = looks, derive()
        return found[1]

    def _chosen(self) -> Any:
        """The numbers of the episodes of a view, an array; None for all."""
        above, selection = self._above, self._selection
        if selection is None or above is None:
            return None
        return self._once("chosen", lambda: selection.numbers(self._source, above._chosen()))

    def _steps(self) -> Steps:
        steps: Steps = self._once("steps", lambda: Steps(self._source, self._chosen()))
        return steps

    def _outlines(self) -> Iterator[tuple[int, Any, Outline]]:
        return self._source.outlines(self._chosen())

    @property
    def numbers(self) -> Any:
        """The numbers that the episodes have in the whole recording: a range; of a view a read-only array of int64.

        `Trace.numbers` are likewise; all other numbers of episodes are those in the reader or view that was asked:
        `view.numbers[n]` tells where the n-th of the view stands in the recording.
        """
        chosen = self._chosen()
        return range(self._source.index.count) if chosen is None else chosen

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Episode: ...
    @overload
    def __getitem__(self, index: slice) -> list[Episode]: ...
    def __getitem__(self, index: int | slice) -> Episode | list[Episode]:
        if isinstance(index, slice):
            return list(map(self._episode, self.numbers[index]))
        try:
            number = self.numbers[operator.index(index)]
        except IndexError:
            raise IndexError(f"there is no episode {index}: {len(self)} in {self.directory}") from None
        return self._episode(number)

    def __iter__(self) -> Iterator[Episode]:
        chosen = self._chosen()
        if chosen is not None:
            index = self._source.index  # of this look: a refresh meanwhile changes what the numbers mean
            for number in chosen.tolist():
                yield self._source.episode(*index.locate(number))
            return
        for trace in self.traces:
            if trace.error is not None and self.on_error == "raise":
                raise trace.error
            for batch in trace.batches:
                yield from self.read_batch(batch)

    def _episode(self, number: int) -> Episode:
        return self._source.episode(*self._source.index.locate(int(number)))

    def select(
        self,
        episodes: slice | Sequence[int] | None = None,
        *,
        min_length: int | None = None,
        max_length: int | None = None,
        min_return: float | None = None,
        max_return: float | None = None,
        ended_by: str | Collection[str | None] | None = None,
        env: str | None = None,
        trace: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> TraceRecordingReader:
        """A view of the episodes that fit all that is asked; no step of them is read for it.

        It is a reader like this one, in the same order, which can be selected from again. It shares what is open.

        Args:
            episodes: a slice without a negative step, numbers in this reader, each once and in any order, or an array
                of bool, one for each. They are fixed: after a refresh, the view has the same ones, wherever they stand
                then.
            min_length: the fewest steps.
            max_length: the most steps.
            min_return: the least `Episode.total_reward`; NaN never fits.
            max_return: the greatest, likewise.
            ended_by: one of `Episode.ended_by`, or several.
            env: the id of the environment that was recorded.
            trace: the name of the trace.
            metadata: keys and values that the metadata of the trace must have.

        Raises:
            TraceError: an argument is malformed; or what must be known of the episodes is missing or damaged.
            IndexError: there is no such episode.
        """
        asked = Asked(min_length, max_length, min_return, max_return, ended_by, env, trace, metadata).checked()
        view = copy.copy(self)
        named = None if episodes is None else named_by(self._source, self.numbers, episodes)
        view._above, view._derived = self, {}
        view._selection = Selection(named, asked)
        view._chosen()
        return view

    @property
    def transitions(self) -> Transitions:
        """The transitions of its episodes: a sequence of `Transition`, by number, many at once, or at random.

        What is first asked of it, or of `windows`, reads every header once, as `summary` does.
        """
        return Transitions(self._steps)

    def windows(self, length: int, stride: int = 1, pad: bool = False) -> Windows:
        """Sequences of transitions that cross no episode: a sequence of `Window`, used as `transitions` is.

        Args:
            length: steps of a window.
            stride: steps from the beginning of a window to that of the next, in an episode.
            pad: True: windows begin at every `stride`-th step, and those that reach beyond the end are filled up with
                zeros, which `mask` tells. False: they are left out.

        Raises:
            TraceError: `length` or `stride` is no positive int.
        """
        return Windows(self._steps, length, stride, pad)

    def summary(self) -> Summary:
        """Lengths, returns, seeds and what else is known of each episode, as arrays. Reads headers and rewards.

        Raises:
            TraceError: something is missing or damaged.
        """
        return summarize(self.traces, self._outlines())

    # ---- batches

    def read_header(self, batch: BatchFile) -> Header:
        """The header of a batch of `traces`.

        Raises:
            TraceError: it is missing or damaged.
        """
        return self._source.read_header(batch)

    def read_batch(self, batch: BatchFile) -> Iterator[Episode]:
        """The episodes of a batch of `traces`, one after the other.

        Raises:
            TraceError: it is missing or damaged.
        """
        for number in range(batch.count):
            yield self._source.episode(batch, number)

    # ---- the methods of 2016

    def get_recorded_batches(self) -> list[dict[str, Any]]:
        """Every batch of every trace, as manifests list them: `first`, `len` and `fn`. Looks at the directory anew."""
        self.refresh()
        return [
            {"first": batch.first, "len": batch.count, "fn": batch.file}
            for trace in self.traces
            for batch in trace.batches
        ]

    def get_recorded_episodes(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        """The episodes of a batch, as dicts of the attributes of `Episode`: `observations`, `actions`, `rewards`, ...

        Args:
            batch: of `get_recorded_batches`; `fn` is enough.

        Raises:
            TraceError: it is damaged, or no longer there.
        """
        header = self._source.read_file(batch["fn"])
        return [dict(vars(read_episode(header, i, self.get_binfile))) for i in range(len(header.episodes))]

    def get_binfile(self, fn: str) -> Any:
        """The bytes of a blob, as a read-only buffer.

        Raises:
            MissingEpisodesError: it is absent.
            TraceError: it is no regular file with a blob's name.
        """
        return self._source.get_binfile(fn)

    def load_npy(self, o: dict[str, Any]) -> Any:
        """The array that an array record describes."""
        return read_array(o, self.get_binfile, str(self.directory))

    def json_decode(self, o: dict[str, Any]) -> Any:
        """Array records become arrays, other objects stay as they are: an `object_hook` for `json`."""
        return self.load_npy(o) if o.get("__type") == "ndarray" else o

    def close(self) -> None:
        """Lets go of all files. Arrays stay valid for as long as somebody holds them."""
        self._source.close()

    def __enter__(self) -> TraceRecordingReader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"TraceRecordingReader({self.directory!r}){'' if self._selection is None else '.select(...)'}"


def scan_recorded_traces(
    directory: Place,
    episode_cb: Callable[[Any, Any, Any], Any] | None = None,
    max_episodes: int | None = None,
) -> int:
    """Calls `episode_cb(observations, actions, rewards)` for every episode of a recording, in order.

    Args:
        directory: the recording. Where nothing is recorded, nothing is called.
        episode_cb: gets what `Episode` describes: rows (T + 1, ...), (T, ...) and (T,). The arrays stay valid for as
            long as they are held. An exception passes through. None: the episodes are only counted.
        max_episodes: after how many to stop; None: at the end.

    Returns:
        How many episodes there were, `max_episodes` at most.

    Raises:
        TraceError: something is missing or damaged. The episodes before it have been given to the callback.
    """
    with TraceRecordingReader(directory) as reader:
        if episode_cb is None:
            reader.complain()
            return len(reader) if max_episodes is None else min(len(reader), max(max_episodes, 0))
        count = 0
        if max_episodes is None or max_episodes > 0:
            for episode in reader:
                episode_cb(episode.observations, episode.actions, episode.rewards)
                count += 1
                if count == max_episodes:
                    break
        return count
