"""A batch as bytes: consecutive episodes become one header and one blob. `header` is the way back.

The JSON of the episodes is written twice: first to give every array its rows in a column (one per path, dtype and row
shape), then, when the columns have their offsets, with the array records. In an episode's members a JSON object is a
dict or tuple of columns, a JSON list has one value per step. No file is opened here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii
from typing import Any, Callable, Iterable, NamedTuple, Sequence

import numpy as np

from .errors import TraceError
from .format import EPISODE_ARRAYS, EPISODE_MEMBERS, MAX_JSON_BYTES, crc32, write_document
from .layout import Layout
from .rows import PiecedArray, StoredRows
from .values import Path

_ARRAYS = tuple((key, (key,)) for key in EPISODE_ARRAYS)  # with their paths
_LINES = ",\n"
_dumps = json.JSONEncoder(allow_nan=False).encode


class EncodedBatch(NamedTuple):
    """The bytes of a batch. `blob` is in pieces, to be written one after the other; none if there is no array."""

    header: bytes
    blob: list[Any]
    first: int
    length: int


def encode_batch(episodes: Sequence[Mapping[str, Any]], first: int, blob: str) -> EncodedBatch:
    """The header and the blob of a batch.

    Args:
        episodes: dicts as `Lane` makes them.
        first: the number of the first episode in its trace.
        blob: the name that the blob will have.
    """
    layout = Layout(blob)
    placing = EpisodeText(layout.place, layout.place_loose)
    for episode in episodes:
        placing.members(episode)
    pieces = layout.lay()
    size = crc = 0
    for piece in pieces:
        size += len(piece)
        crc = crc32(piece, crc)
    blobs = [{"fn": blob, "size": size, "crc32": f"{crc:08x}"}] if pieces else []
    columns = [column.text() for column in layout.columns.values()]
    text = EpisodeText(layout.record, layout.loose_record)
    return EncodedBatch(write_header(first, blobs, columns, map(text.episode, episodes)), pieces, first, len(episodes))


def write_header(first: int, blobs: list[dict[str, Any]], columns: Iterable[str], episodes: Iterable[str]) -> bytes:
    """A header of JSON texts of its columns and episodes.

    Raises:
        TraceError: it is larger than readers take.
    """
    body = f'"columns": [{_LINES.join(columns)}],\n"episodes": [\n{_LINES.join(episodes)}\n]'
    data = write_document(f'"first": {first}, "blobs": {_dumps(blobs)}, {body}')
    if len(data) > MAX_JSON_BYTES:
        raise TraceError(
            "what cannot be stacked, as text, takes too much JSON; end episodes, or flush, more often",
            expected=f"at most {MAX_JSON_BYTES} bytes for a header",
            found=f"{len(data)}",
        )
    return data


class EpisodeText:
    """The JSON of episodes. `rows` gives that of an array of rows, `loose` that of an array which is one value."""

    def __init__(self, rows: Callable[[Any, Path], str], loose: Callable[[Any], str]) -> None:
        self.rows = rows
        self.loose = loose

    def members(self, episode: Mapping[str, Any]) -> list[str]:
        """The members that may hold arrays."""
        members = [f'"{key}": {self.column(episode[key], path)}' for key, path in _ARRAYS]
        if "options" in episode:
            members.append(f'"options": {self.value(episode["options"])}')
        if "timestamps" in episode:
            members.append(f'"timestamps": {self.column(episode["timestamps"], ("timestamps",))}')
        if "infos" in episode:
            infos = [
                f'{{"key": {_plain_text(key)}, {self.sparse(info, ("infos", key))}}}'
                for key, info in episode["infos"].items()
            ]
            members.append(f'"infos": [{", ".join(infos)}]')
        if "frames" in episode:
            frames = [f"{{{self.sparse(one, ('frames', index))}}}" for index, one in enumerate(episode["frames"])]
            members.append(f'"frames": [{", ".join(frames)}]')
        return members

    def episode(self, episode: Mapping[str, Any]) -> str:
        """The whole episode."""
        plain = [f'"{key}": {_plain_text(episode[key])}' for key in EPISODE_MEMBERS if key in episode]
        return f"{{{', '.join(self.members(episode) + plain)}}}"

    def column(self, value: Any, path: Path) -> str:
        """What `Column.finish` gave."""
        if isinstance(value, (np.ndarray, PiecedArray, StoredRows)):
            return self.rows(value, path)
        if isinstance(value, tuple):
            return _tuple_text([self.column(item, (*path, index)) for index, item in enumerate(value)])
        if isinstance(value, Mapping):
            return _dict_text([(key, self.column(item, (*path, key))) for key, item in value.items()])
        return "[{}]".format(", ".join([self.value(item) for item in value]))

    def sparse(self, entry: Mapping[str, Any], path: Path) -> str:
        """The members of one entry of what `Sparse.finish` gave."""
        return ", ".join([f'"{key}": {self.column(entry[key], (*path, key))}' for key in ("rows", "values")])

    def value(self, value: Any) -> str:
        """One value in canonical form."""
        if isinstance(value, (np.ndarray, np.generic)):
            return self.loose(value)
        if isinstance(value, list):
            return "[{}]".format(", ".join([self.value(item) for item in value]))
        if isinstance(value, tuple):
            return _tuple_text([self.value(item) for item in value])
        if isinstance(value, Mapping):
            return _dict_text([(key, self.value(item)) for key, item in value.items()])
        if value.__class__ is complex or (value.__class__ is float and not math.isfinite(value)):
            return self.loose(value)  # strict JSON has no such numbers
        return _plain_text(value)


def _plain_text(value: Any) -> str:
    """JSON without arrays. The kinds that every episode has come first: an encoder costs more than they do."""
    kind = value.__class__
    if kind is bool:
        return "true" if value else "false"
    if kind is str:
        return encode_basestring_ascii(value)
    return repr(value) if kind is int else _dumps(value)


def _tuple_text(items: list[str]) -> str:
    return '{{"__type": "tuple", "items": [{}]}}'.format(", ".join(items))


def _dict_text(items: list[tuple[Any, str]]) -> str:
    if all(key.__class__ is str and key != "__type" for key, _ in items):
        return "{{{}}}".format(", ".join([f"{_plain_text(key)}: {text}" for key, text in items]))
    return '{{"__type": "dict", "items": [{}]}}'.format(
        ", ".join([f"[{_plain_text(key)}, {text}]" for key, text in items])
    )
