"""Playing back: the traces of a directory, their batches, random access to their episodes.

A reader looks at the directory once (`index`). A header is read when one of its episodes is asked for; a blob is
mapped. What is missing or damaged is an error where it would have been read, or, with `on_error="skip"`, listed.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Callable, Iterator, overload

from . import files
from .episode import Episode
from .errors import MissingEpisodesError, TraceError
from .format import MAX_JSON_BYTES, crc32, parse_name, read_array
from .header import Header, read_episode, read_header
from .index import BatchFile, Index, Trace
from .memory import Directory, MemoryDirectory, Place

LISTINGS = 4  # one, and three more: a listing made while a writer renames may show a batch without the one before it
CACHED_HEADERS = 8  # parsed, per reader, so that nested loops over one recording stay cheap
CACHED_BLOBS = 16  # mapped, per reader; before Python 3.13 each costs a descriptor

__all__ = ["Trace", "TraceRecordingReader", "scan_recorded_traces"]


class TraceRecordingReader(Sequence):  # type: ignore[type-arg]  # subscripting the ABC needs Python 3.9
    """The episodes of a recording, in order: a sequence of `Episode`.

    `len` and indices read no more than they must: the directory once, and the header of the batch that is asked for.
    Episodes and their arrays stay valid after `close`, and a closed reader that is used again opens what it needs. A
    reader can be pickled, and used in several processes.

    Args:
        directory: the recording, a path or a `MemoryDirectory`. One that does not exist has no episodes.
        on_error: "raise": what is missing or damaged is an error where it is reached; the rest can be read by index.
            "skip": the first look is at everything, what is bad is left out and put in `errors`.
        verify: whether to compare the checksums of blobs when they are opened; those of documents always are.
        mmap: False reads blobs into memory: for places where others truncate files.

    Attributes:
        directory: as it was given.
        binfiles: the open blobs by name.
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
        self.directory = directory if isinstance(directory, MemoryDirectory) else os.fsdecode(directory)
        self.on_error = on_error
        self.verify = verify
        self.mmap = mmap
        self.binfiles: OrderedDict[str, Any] = OrderedDict()
        self._headers: OrderedDict[str, Header] = OrderedDict()
        self._index: Index | None = None
        self._errors: list[TraceError] = []

    # ---- what is there

    @property
    def directory(self) -> Directory:
        return self._directory

    @directory.setter
    def directory(self, directory: Directory) -> None:
        self._directory = directory
        self._path: Directory = directory
        if not isinstance(directory, MemoryDirectory):
            self._path = os.path.abspath(directory)  # the working directory may change, and differ elsewhere

    @property
    def traces(self) -> list[Trace]:
        """The traces, in order."""
        return self._look().traces

    @property
    def errors(self) -> list[TraceError]:
        """With `on_error="skip"`, why what was left out was left out."""
        self._look()
        return self._errors

    def refresh(self) -> None:
        """Looks at the directory anew: episodes that a running recorder has committed since show up at their place."""
        self._index = None
        self._headers.clear()  # that of an episode which is still running grows

    def _look(self) -> Index:
        if self._index is None:
            for _ in range(LISTINGS):
                index = Index(self._path, lambda file: len(self._read_header(file).episodes))
                problems = index.problems()
                if not any(isinstance(problem, MissingEpisodesError) for problem in problems):
                    break
            if self.on_error == "skip":
                self._errors = [trace.error for trace in index.traces if trace.error is not None]
                index.keep(self._is_good)
            index.number()
            self._index = index
        return self._index

    def complain(self) -> None:
        """Raises what the look at the directory found to be missing or damaged, if anything.

        Raises:
            TraceError: the first of it.
        """
        for problem in self._look().problems():
            raise problem

    def _is_good(self, batch: BatchFile) -> bool:
        try:
            for _ in self.read_batch(batch):
                pass
        except TraceError as error:
            self._errors.append(error)
            return False
        return True

    # ---- a sequence of episodes

    def __len__(self) -> int:
        return self._look().count

    @overload
    def __getitem__(self, index: int) -> Episode: ...
    @overload
    def __getitem__(self, index: slice) -> list[Episode]: ...
    def __getitem__(self, index: int | slice) -> Episode | list[Episode]:
        try:
            found = range(len(self))[index]
        except IndexError:
            raise IndexError(f"there is no episode {index}: {len(self)} in {self.directory}") from None
        if isinstance(found, range):
            return [self._episode(*self._look().locate(number)) for number in found]
        return self._episode(*self._look().locate(found))

    def __iter__(self) -> Iterator[Episode]:
        for trace in self.traces:
            if trace.error is not None and self.on_error == "raise":
                raise trace.error
            for batch in trace.batches:
                yield from self.read_batch(batch)

    def read_batch(self, batch: BatchFile) -> Iterator[Episode]:
        """The episodes of a batch of `traces`, one after the other.

        Raises:
            TraceError: it is missing or damaged.
        """
        for number in range(batch.count):
            yield self._episode(batch, number)

    def _episode(self, batch: BatchFile, number: int) -> Episode:
        try:
            return read_episode(self.read_header(batch), number, self.get_binfile)
        except MissingEpisodesError:
            if batch.error is not None:
                raise
            # A column of a running episode may have another blob since its header was read: once more.
            self._headers.pop(batch.file, None)
            return read_episode(self.read_header(batch), number, self.get_binfile)

    def read_header(self, batch: BatchFile) -> Header:
        """The header of a batch.

        Raises:
            TraceError: it is missing or damaged.
        """
        header = self._headers.get(batch.file)
        if header is not None:
            self._headers.move_to_end(batch.file)
            return header
        if batch.error is not None:
            raise batch.error
        header = self._read_header(batch.file)
        if len(header.episodes) != batch.count:
            found = str(len(header.episodes))
            raise TraceError(
                "not the episodes that the manifest lists", file=batch.file, expected=f"{batch.count}", found=found
            )
        self._headers[batch.file] = header
        if len(self._headers) > CACHED_HEADERS:
            self._headers.popitem(last=False)
        return header

    def _read_header(self, file: str) -> Header:
        try:
            header = read_header(files.read(self._path, file, MAX_JSON_BYTES), file)
        except FileNotFoundError as error:
            raise MissingEpisodesError("the header is missing, and its episodes with it", file=file) from error
        name = parse_name(file)
        if header.first is not None and name is not None and header.first != name.first:
            raise TraceError("not the batch of this name", file=file, field="first", found=str(header.first))
        for blob, entry in header.blobs.items():
            data = self.get_binfile(blob)
            if len(data) < entry.size:  # perhaps it has grown since it was mapped
                del self.binfiles[blob]
                data = self.get_binfile(blob)
            if len(data) < entry.size:
                raise TraceError("cut short", file=blob, expected=f"{entry.size} bytes", found=f"{len(data)} bytes")
            if self.verify:
                actual = f"{crc32(memoryview(data)[entry.start : entry.size]):08x}"
                if actual != entry.crc32:
                    raise TraceError("damaged", file=blob, field="crc32", expected=entry.crc32, found=actual)
        return header

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
        header = self._read_header(batch["fn"])
        return [dict(vars(read_episode(header, i, self.get_binfile))) for i in range(len(header.episodes))]

    def get_binfile(self, fn: str) -> Any:
        """The bytes of a blob, as a read-only buffer.

        Raises:
            MissingEpisodesError: it is absent.
            TraceError: it is no regular file with a blob's name.
        """
        data = self.binfiles.get(fn)
        if data is None:
            name = parse_name(fn)
            if name is None or name.kind != "blob":
                raise TraceError("not the name of a blob", file=fn[:200])
            try:
                data = files.view(self._path, fn, self.mmap)
            except FileNotFoundError as error:
                raise MissingEpisodesError("the blob is missing, and its episodes with it", file=fn) from error
            self.binfiles[fn] = data
            if len(self.binfiles) > CACHED_BLOBS:
                self.binfiles.popitem(last=False)
        return data

    def load_npy(self, o: dict[str, Any]) -> Any:
        """The array that an array record describes."""
        return read_array(o, self.get_binfile, str(self.directory))

    def json_decode(self, o: dict[str, Any]) -> Any:
        """Array records become arrays, other objects stay as they are: an `object_hook` for `json`."""
        return self.load_npy(o) if o.get("__type") == "ndarray" else o

    def close(self) -> None:
        """Lets go of all files. Arrays stay valid for as long as somebody holds them."""
        self.binfiles.clear()
        self._headers.clear()

    def __enter__(self) -> TraceRecordingReader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "binfiles": OrderedDict(), "_headers": OrderedDict()}

    def __repr__(self) -> str:
        return f"TraceRecordingReader({self.directory!r})"


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
