"""A streamed episode: written while it runs, because it outgrows a batch or lives through a flush.

It is a batch of its own, with a blob for every column and one for all loose arrays. A write appends the new rows to
the blobs, syncs them, then replaces the header, which states the rows so far: of all streams of a commit together, to
wait once for many files. What a blob has beyond its rows does not count and is written anew after a failure. At the end
the `.npy` headers in front are patched, then the last header put.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import files
from .batch import EpisodeText, write_header
from .errors import TraceError
from .format import DATA_ALIGN, blob_name, crc32, header_name, record_text, write_npy_header
from .layout import column_text, joined, loose_text, pieces_of
from .values import Path, array_bytes

HEAD_BYTES = 90  # of a header, in which its checksum is
_MANY_ROWS = 10**18  # the `.npy` header in front has room for this many


class Blob:
    """A file of a stream.

    Attributes:
        directory, name: where it is; no name until something is written.
        offset: where its rows begin, after the `.npy` header of a column; where its checksum begins.
        rows, size, crc: what of it is committed: rows of the column, bytes of the file, checksum from `offset` on.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.name = ""
        self.offset = self.rows = self.size = self.crc = 0

    def read(self, row: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
        """A committed row of the column.

        Raises:
            OSError: the file cannot be read.
        """
        size = array_bytes(dtype, shape)
        return np.ndarray(shape, dtype, files.read_at(self.directory, self.name, self.offset + row * size, size))


class Stream:
    """The files of one streamed episode.

    Attributes:
        first: the number of the episode, which it must have before `begin`.
        episode: the newest state of it, as `Lane` makes it; it replaces the one before, written or not.
        written: the state that is on disk.
        after: how many episodes of the batch in which it began had ended before; those come first.
    """

    def __init__(self, directory: str, trace: str, after: int = 0) -> None:
        self.directory = directory
        self.trace = trace
        self.first: int | None = None
        self.after = after
        self.episode: dict[str, Any] | None = None
        self.written: dict[str, Any] | None = None
        self.made: list[str] = []  # names of blobs that may be there
        self.head = b""  # how the header begins that was committed last, its checksum with it
        self.loose = Blob(directory)
        self.loose_texts: dict[
            int, tuple[Any, str]
        ] = {}  # by id: the value, so that the id stays its own, and its JSON
        self.names = 0  # of blobs, given so far
        self.unsure = False  # whether the header on disk is that one
        self.is_lost = False  # it cannot be written any further

    def new_blob(self) -> Blob:
        """A blob that has no file yet."""
        return Blob(self.directory)

    @property
    def ended(self) -> bool:
        """Whether the state on disk is the last."""
        return self.written is not None and "ended_by" in self.written

    def knows_header(self) -> bool:
        """Whether the header on disk is the one that was committed last: else it may refer to bytes behind `size`."""
        if not self.unsure:
            return True
        name = header_name(self.trace, self.first or 0)
        try:
            return files.read_at(self.directory, name, 0, len(self.head) or 1) == self.head
        except FileNotFoundError:
            return not self.head
        except OSError:
            return False

    def begin(self) -> Write | None:
        """Writes the rows of the newest state, if it is not on disk; what then must be done is in what it gives.

        Raises:
            OSError: a file could not be written; it names the file, and the same can be tried again.
            VanishedError: what was written before is gone, and the episode with it.
            TraceError: its header would be larger than readers take.
        """
        episode = self.episode
        return None if episode is None or episode is self.written else Write(self, episode)


def write_streams(directory: str, streams: Sequence[Stream], sync: bool) -> list[Exception]:
    """Brings the newest states of streams to disk: the rows of all, then the headers of all.

    Returns:
        Errors of streams that cannot be written any more, each given once.

    Raises:
        OSError: a file could not be written; it names the file, and the same can be tried again.
    """
    writes: list[Write] = []
    vanished: list[Exception] = []
    for stream in streams:
        if stream.is_lost:
            stream.written = stream.episode
            continue
        try:
            write = stream.begin()
        except (files.VanishedError, TraceError) as error:
            # Nothing brings that episode back, and it must not keep the others from being written.
            vanished.append(error)
            stream.is_lost = True
            stream.written = stream.episode
        else:
            writes += [write] if write is not None else []
    if not writes:
        return vanished
    if sync:
        files.sync_files([os.path.join(directory, name) for write in writes for name in write.unsynced])
        if any(not blob.size for write in writes for blob in write.states):
            files.sync_directory(directory)  # a header must not be durable before the names in it
    for write in writes:
        write.stream.unsure = True
    files.put_all(directory, [(write.name, [write.header]) for write in writes], sync)
    if sync:
        files.sync_directory(directory)
    for write in writes:
        write.commit()
    return vanished


class Write:
    """One state of an episode on its way to disk: its rows are written, its header is not.

    Attributes:
        stream: whose it is.
        name, header: of the header: its file and its bytes.
        states: what the blobs are once the header is there: rows, size, checksum.
        unsynced: the files that must be synced before.
    """

    def __init__(self, stream: Stream, episode: dict[str, Any]) -> None:
        self.stream = stream
        self.episode = episode
        self.first = stream.first or 0
        self.last = "ended_by" in episode
        self.columns: list[str] = []
        self.rows: list[Any] = []
        self.states: dict[Blob, tuple[int, int, int]] = {}
        self.unsynced: list[str] = []
        self.loose_pieces: list[Any] = []
        if not stream.knows_header():
            stream.loose, stream.loose_texts = Blob(stream.directory), {}
        self.loose_size = stream.loose.size
        self.loose_texts: dict[int, tuple[Any, str]] = {}
        text = EpisodeText(self.append, self.append_loose).episode(episode)
        if self.loose_size:
            blob = stream.loose
            pieces = list(joined(self.loose_pieces))
            self._write(blob, pieces)  # without any, it is but seen to be there
            self.states[blob] = (0, self.loose_size, _crc(pieces, blob.crc))
        blobs = [
            {"fn": blob.name, "size": size, "crc32": f"{crc:08x}", **({"start": blob.offset} if blob.offset else {})}
            for blob, (_, size, crc) in self.states.items()
        ]
        self.name = header_name(stream.trace, self.first)
        self.header = write_header(self.first, blobs, self.columns, [text])

    def commit(self) -> None:
        """The header is on disk."""
        stream = self.stream
        for blob, state in self.states.items():
            blob.rows, blob.size, blob.crc = state
        for rows in self.rows:
            rows.chunks = rows.unwritten()
        stream.loose_texts.update(self.loose_texts)
        stream.unsure = False
        stream.written = self.episode
        stream.head = self.header[:HEAD_BYTES]
        names = {blob.name for blob in self.states}
        unused = [name for name in stream.made if name not in names]
        stream.made = sorted(names)
        for name in unused:  # of a column which has changed its kind, or of a try that failed
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(stream.directory, name))

    def _write(self, blob: Blob, pieces: list[Any], offset: int | None = None) -> None:
        """Writes to a blob: behind what is committed, if no other `offset` is given."""
        name = self._name(blob)
        offset = blob.size if offset is None else offset
        files.write_at(self.stream.directory, name, offset, pieces, sync=False, least=blob.size)
        if pieces and name not in self.unsynced[-1:]:
            self.unsynced.append(name)

    def _name(self, blob: Blob) -> str:
        """The file name of a blob, given at its first use."""
        if not blob.name:
            blob.name = blob_name(self.stream.trace, self.first, self.stream.names)
            self.stream.made.append(blob.name)
            self.stream.names += 1
        return blob.name

    def append(self, rows: Any, path: Path) -> str:
        """Appends what is new of a column to its blob, and gives the record of all its rows."""
        blob = rows.blob
        name = self._name(blob)
        row_shape = rows.shape[1:]
        if not blob.offset:
            blob.offset = len(write_npy_header(rows.dtype, (_MANY_ROWS, *row_shape)))
        pieces = list(joined([piece for _, array in rows.unwritten() for piece in pieces_of(array)]))
        head = write_npy_header(rows.dtype, (len(rows) if self.last else 0, *row_shape), blob.offset)
        if not blob.size:
            self._write(blob, [head, *pieces])
        elif pieces or self.last:
            self._write(blob, pieces)
            if self.last:
                self._write(blob, [head], 0)
        size = blob.offset + len(rows) * array_bytes(rows.dtype, row_shape)
        self.states[blob] = (len(rows), size, _crc(pieces, blob.crc))
        self.rows.append(rows)
        record = record_text(rows.dtype, row_shape, name)(len(rows), blob.offset)
        self.columns.append(column_text(record, 0, path))
        return record

    def append_loose(self, value: Any) -> str:
        """Takes a loose array, if it is new, and gives its record."""
        known = self.stream.loose_texts.get(id(value)) or self.loose_texts.get(id(value))
        if known is not None:
            return known[1]
        array = np.asarray(value)
        npyhdr = -(-self.loose_size // DATA_ALIGN) * DATA_ALIGN
        head = write_npy_header(array.dtype, array.shape)
        self.loose_pieces += [bytes(npyhdr - self.loose_size) + head, *pieces_of(array)]
        offset = npyhdr + len(head)
        self.loose_size = offset + array.nbytes
        text = loose_text(array.dtype, array.shape, self._name(self.stream.loose), offset, npyhdr)
        self.loose_texts[id(value)] = (value, text)
        return text


def _crc(pieces: list[Any], crc: int) -> int:
    for piece in pieces:
        crc = crc32(piece, crc)
    return crc
