"""What the readers of one recording share: the look at its directory, its headers and its blobs.

A reader and its views have one `Source`, so they see the same, and keep few files open together. It looks at the
directory once (`index`), reads a header when one of its episodes is asked for, and maps a blob when its bytes are. What
is missing or damaged is an error where it would have been read, or, with `on_error="skip"`, listed.

Several threads may read at once, and close or refresh: each step with a cache does with whatever it finds there. There
is no lock, because a forked child would keep it locked.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from contextlib import suppress
from typing import Any, Callable, Iterator, TypeVar

from . import files
from .episode import Episode
from .errors import MissingEpisodesError, TraceError
from .format import MAX_JSON_BYTES, crc32, parse_name
from .header import BlobEntry, Header, read_episode, read_header
from .index import BatchFile, Index
from .memory import Directory, MemoryDirectory
from .outline import Leaf, Outline
from .values import Path

LISTINGS = 4  # one, and three more: a listing made while a writer renames may show a batch without the one before it
CACHED_HEADERS = 8  # parsed, so that nested loops over one recording stay cheap
CACHED = 4  # one part in so many of all maps that may be: several readers, and arrays that people hold, have room

_T = TypeVar("_T")


class Source:
    """A directory as readers look at it. The arguments are those of `TraceRecordingReader`.

    Attributes:
        looks: how often it was looked at anew; what was derived from an earlier look is out of date.
        binfiles: the open blobs by name.
    """

    def __init__(self, directory: Directory, on_error: str, verify: bool, mmap: bool) -> None:
        self.on_error = on_error
        self.verify = verify
        self.mmap = mmap
        self.looks = 0
        self._most = files.most_maps() // CACHED  # of each
        self._errors: list[TraceError] = []
        self._index: Index | None = None
        self.directory = directory

    # ---- the directory

    @property
    def directory(self) -> Directory:
        return self._directory

    @directory.setter
    def directory(self, directory: Directory) -> None:
        # Everything new: what was found elsewhere says nothing of files that have the same names here.
        self.binfiles: OrderedDict[str, Any] = OrderedDict()
        self._columns: OrderedDict[int, tuple[dict[Path, Leaf], dict[Path, Any], int]] = OrderedDict()
        self._headers: OrderedDict[str, Header] = OrderedDict()
        self._entries: dict[str, BlobEntry] = {}  # what must be true of the blobs that are open, with `verify`
        self._outlines: dict[str, Outline] = {}
        self.refresh()
        self._directory = directory
        self._path: Directory = directory
        if not isinstance(directory, MemoryDirectory):
            self._path = os.path.abspath(directory)  # the working directory may change, and differ elsewhere

    @property
    def index(self) -> Index:
        """The traces, and where each episode is."""
        index = self._index
        return self._look() if index is None else index

    def _look(self) -> Index:
        for _ in range(LISTINGS):
            index = Index(self._path, lambda file: len(self.read_file(file).episodes))
            problems = index.problems()
            if not any(isinstance(problem, MissingEpisodesError) for problem in problems):
                break
        if self.on_error == "skip":
            self._errors = [trace.error for trace in index.traces if trace.error is not None]
            index.keep(self._is_good)
        index.number()
        self._index = index
        return index

    @property
    def errors(self) -> list[TraceError]:
        """With `on_error="skip"`, why what was left out was left out."""
        self.index  # noqa: B018 (the look finds them)
        return self._errors

    def refresh(self) -> None:
        """Looks at the directory anew when it is next asked for."""
        self._index = None
        self._headers.clear()  # that of an episode which is still running grows
        self._outlines = {file: outline for file, outline in self._outlines.items() if outline.is_final}
        self.looks += 1

    def close(self) -> None:
        """Lets go of all files."""
        self.binfiles.clear()
        self._columns.clear()
        self._headers.clear()

    def _is_good(self, batch: BatchFile) -> bool:
        try:
            for number in range(batch.count):
                self.episode(batch, number)
        except TraceError as error:
            self._errors.append(error)
            return False
        return True

    # ---- headers and episodes

    def read_header(self, batch: BatchFile) -> Header:
        """The header of a batch.

        Raises:
            TraceError: it is missing or damaged.
        """
        header: Header | None = _cached(self._headers, batch.file)
        if header is not None:
            return header
        if batch.error is not None:
            raise batch.error
        header = self.read_file(batch.file)
        if len(header.episodes) != batch.count:
            found = str(len(header.episodes))
            raise TraceError(
                "not the episodes that the manifest lists", file=batch.file, expected=f"{batch.count}", found=found
            )
        self._headers[batch.file] = header
        _limit(self._headers, CACHED_HEADERS)
        return header

    def read_file(self, file: str) -> Header:
        """The header in a file, whose blobs are there.

        Raises:
            TraceError: it or a blob of it is missing or damaged.
        """
        try:
            header = read_header(files.read(self._path, file, MAX_JSON_BYTES), file)
        except FileNotFoundError as error:
            raise MissingEpisodesError("the header is missing, and its episodes with it", file=file) from error
        name = parse_name(file)
        if header.first is not None and name is not None and header.first != name.first:
            raise TraceError("not the batch of this name", file=file, field="first", found=str(header.first))
        for blob, entry in header.blobs.items():
            if self.verify and self._entries.get(blob) != entry:  # else it was compared when it was opened
                self._entries[blob] = entry
                self.binfiles.pop(blob, None)
            self._at_least(blob, entry.size)
        return header

    def episode(self, batch: BatchFile, number: int) -> Episode:
        """An episode of a batch.

        Raises:
            TraceError: it is missing or damaged.
        """
        outline = None if batch.error is not None else self._outlines.get(batch.file)
        if outline is not None and outline.is_whole[number]:
            return outline.episode(number, self.columns)
        return self._retry(batch, lambda header: read_episode(header, number, self.get_binfile))

    def _retry(self, batch: BatchFile, read: Callable[[Header], _T]) -> _T:
        try:
            return read(self.read_header(batch))
        except MissingEpisodesError:
            if batch.error is not None:
                raise
            # A column of a running episode may have another blob since its header was read: once more.
            self._headers.pop(batch.file, None)
            return read(self.read_header(batch))

    def outlines(self, numbers: Any) -> Iterator[tuple[int, Any, Outline]]:
        """What is known of episodes without their rows, batch by batch.

        Args:
            numbers: of the episodes, rising, an array or a range; None for all.

        Yields:
            The number of the first episode of a batch, the numbers of the episodes in it, a range or an array, and
            the outline of all of the batch.

        Raises:
            TraceError: as `episode`; or, if `numbers` is no range, a manifest is damaged.
        """
        index = self.index
        if self.on_error == "raise" and not isinstance(numbers, range):
            for trace in index.traces:
                if trace.error is not None:
                    raise trace.error
        for position, part in index.by_batch(range(index.count) if numbers is None else numbers):
            outline = self._outline(index.batches[position])  # first: it knows whether there are so many
            yield index.starts[position], part, outline

    def _outline(self, batch: BatchFile) -> Outline:
        outline = None if batch.error is not None else self._outlines.get(batch.file)
        if outline is None:
            outline = self._outlines[batch.file] = self._retry(batch, lambda header: Outline(header, self.get_binfile))
        return outline

    # ---- blobs

    def get_binfile(self, fn: str) -> Any:
        """The bytes of a blob, as a read-only buffer. Of what no header was read there is nothing to verify.

        Raises:
            MissingEpisodesError: it is absent.
            TraceError: it is no regular file with a blob's name; or, with `verify`, damaged.
        """
        data = _cached(self.binfiles, fn)
        if data is None:
            name = parse_name(fn)
            if name is None or name.kind != "blob":
                raise TraceError("not the name of a blob", file=fn[:200])
            try:
                data = files.view(self._path, fn, self.mmap)
            except FileNotFoundError as error:
                raise MissingEpisodesError("the blob is missing, and its episodes with it", file=fn) from error
            entry = self._entries.get(fn)
            if entry is not None:
                _compare(data, entry, fn)
            self.binfiles[fn] = data
            _limit(self.binfiles, self._most)
        return data

    def _at_least(self, blob: str, size: int) -> Any:
        """The bytes of a blob, which has `size` at least."""
        data = self.get_binfile(blob)
        if len(data) < size:  # perhaps it has grown since it was mapped
            self.binfiles.pop(blob, None)
            data = self.get_binfile(blob)
        _check_size(data, size, blob)
        return data

    def columns(self, leaves: dict[Path, Leaf]) -> dict[Path, Any]:
        """The rows of the leaves of a block, each as one array over its blob; without those that lie in none.

        Raises:
            TraceError: a blob is missing or cut short.
        """
        found = _cached(self._columns, id(leaves))
        if found is None:
            arrays = {
                path: leaf.array(self._at_least(leaf.blob, leaf.end) if leaf.blob else b"")
                for path, leaf in leaves.items()
                if leaf.blob is not None
            }
            blobs = len({leaf.blob for leaf in leaves.values()})
            # With the leaves, so that no others get their id.
            found = self._columns[id(leaves)] = leaves, arrays, blobs
            mapped = sum(entry[2] for entry in list(self._columns.values()))
            with suppress(KeyError):  # another thread has emptied it
                while mapped > self._most and len(self._columns) > 1:
                    mapped -= self._columns.popitem(last=False)[1][2]
        return found[1]  # type: ignore[no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        empty: dict[str, Any] = {
            "binfiles": OrderedDict(),
            "_columns": OrderedDict(),
            "_headers": OrderedDict(),
        }
        return {**self.__dict__, **empty}


def _check_size(data: Any, size: int, blob: str) -> None:
    if len(data) < size:
        raise TraceError("cut short", file=blob, expected=f"{size} bytes", found=f"{len(data)} bytes")


def _compare(data: Any, entry: BlobEntry, blob: str) -> None:
    """Raises what a header says otherwise of a blob."""
    _check_size(data, entry.size, blob)
    actual = f"{crc32(memoryview(data)[entry.start : entry.size]):08x}"
    if actual != entry.crc32:
        raise TraceError("damaged", file=blob, field="crc32", expected=entry.crc32, found=actual)


def _cached(cache: OrderedDict[Any, Any], key: Any) -> Any:
    """What a cache has, which is the last to leave it now; or None."""
    found = cache.get(key)
    if found is not None:
        try:  # `suppress` would take as long as a read
            cache.move_to_end(key)
        except KeyError:
            return found  # another thread has emptied it
    return found


def _limit(cache: OrderedDict[Any, Any], most: int) -> None:
    with suppress(KeyError):  # another thread has emptied it
        while len(cache) > most:
            cache.popitem(last=False)
