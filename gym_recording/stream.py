"""A streamed episode: written while it runs, because it outgrows a batch or lives through a flush.

It is a batch of its own, with a blob for every column and one for all loose arrays. A write appends the new rows to
the blobs, syncs them, then replaces the header, which states the rows so far. What a blob has beyond them does not
count and is written anew after a failure. At the end the `.npy` headers in front are patched, then the last header put.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import numpy as np

from . import files
from .batch import EpisodeText, write_header
from .format import DATA_ALIGN, blob_name, crc32, header_name, record_text, write_npy_header
from .layout import column_text, joined, loose_text, pieces_of
from .values import Path, array_bytes

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
        first: the number of the episode, which it must have before `write`.
        episode: the newest state of it, as `Lane` makes it; it replaces the one before, written or not.
        written: the state that is on disk.
        after: how many episodes of the batch in which it began had ended before; those come first.
    """

    def __init__(self, directory: str, trace: str, sync: bool, after: int = 0) -> None:
        self.directory = directory
        self.trace = trace
        self.first: int | None = None
        self.after = after
        self.sync = sync
        self.episode: dict[str, Any] | None = None
        self.written: dict[str, Any] | None = None
        self.blobs: list[Blob] = []  # those of the header on disk
        self.loose = Blob(directory)
        self.loose_texts: dict[
            int, tuple[Any, str]
        ] = {}  # by id: the value, so that the id stays its own, and its JSON
        self.names = 0  # of blobs, given so far
        self.unsure = False

    def new_blob(self) -> Blob:
        """A blob that has no file yet."""
        return Blob(self.directory)

    @property
    def ended(self) -> bool:
        """Whether the state on disk is the last."""
        return self.written is not None and "ended_by" in self.written

    def write(self) -> None:
        """Brings the newest state to disk, if it is not there.

        Raises:
            OSError: a file could not be written; it names the file, and the same can be tried again.
            VanishedError: what was written before is gone, and the episode with it.
        """
        episode = self.episode
        if episode is not None and episode is not self.written:
            _Write(self, self.first or 0, "ended_by" in episode).run(episode)
            self.written = episode


class _Write:
    """One state of an episode on its way to disk."""

    def __init__(self, stream: Stream, first: int, last: bool) -> None:
        self.stream = stream
        self.first = first
        self.last = last
        self.columns: list[str] = []
        self.texts: list[str] = []
        self.rows: list[Any] = []
        self.states: dict[Blob, tuple[int, int, int]] = {}  # rows, size, crc, once they are committed
        self.loose_pieces: list[Any] = []
        self.loose_size = stream.loose.size
        self.loose_texts: dict[int, tuple[Any, str]] = {}

    def run(self, episode: dict[str, Any]) -> None:
        stream = self.stream
        if stream.unsure:
            stream.loose, stream.loose_texts, self.loose_size = Blob(stream.directory), {}, 0
        text = EpisodeText(self.append, self.append_loose).episode(episode)
        if self.loose_size:
            blob = stream.loose
            pieces = list(joined(self.loose_pieces))
            sync = stream.sync and bool(pieces)  # without any, it is but seen to be there
            files.write_at(stream.directory, self._name(blob), blob.size, pieces, sync, least=blob.size)
            self.states[blob] = (0, self.loose_size, _crc(pieces, blob.crc))
        blobs = [
            {"fn": blob.name, "size": size, "crc32": f"{crc:08x}", **({"start": blob.offset} if blob.offset else {})}
            for blob, (_, size, crc) in self.states.items()
        ]
        if stream.sync and any(not blob.size for blob in self.states):
            files.sync_directory(stream.directory)  # a header must not be durable before the names in it
        header = write_header(self.first, blobs, self.columns, [text])
        stream.unsure = True
        files.put(stream.directory, header_name(stream.trace, self.first), [header], stream.sync)
        if stream.sync:
            files.sync_directory(stream.directory)
        for blob, state in self.states.items():
            blob.rows, blob.size, blob.crc = state
        for rows in self.rows:
            rows.chunks = rows.unwritten()
        stream.loose_texts.update(self.loose_texts)
        stream.unsure = False
        unused = [blob for blob in stream.blobs if blob not in self.states]
        stream.blobs = list(self.states)
        for blob in unused:  # that of a column which has changed its kind
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(stream.directory, blob.name))

    def _name(self, blob: Blob) -> str:
        """The file name of a blob, given at its first use."""
        if not blob.name:
            blob.name = blob_name(self.stream.trace, self.first, self.stream.names)
            self.stream.names += 1
        return blob.name

    def append(self, rows: Any, path: Path) -> str:
        """Appends what is new of a column to its blob, and gives the record of all its rows."""
        blob, stream = rows.blob, self.stream
        name = self._name(blob)
        row_shape = rows.shape[1:]
        if not blob.offset:
            blob.offset = len(write_npy_header(rows.dtype, (_MANY_ROWS, *row_shape)))
        pieces = list(joined([piece for _, array in rows.unwritten() for piece in pieces_of(array)]))
        head = write_npy_header(rows.dtype, (len(rows) if self.last else 0, *row_shape), blob.offset)
        if not blob.size:
            files.write_at(stream.directory, name, 0, [head, *pieces], stream.sync)
        elif pieces or self.last:
            sync = stream.sync and not self.last
            files.write_at(stream.directory, name, blob.size, pieces, sync, least=blob.size)
            if self.last:
                files.write_at(stream.directory, name, 0, [head], stream.sync, least=blob.size)
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
