"""What is known of the episodes of a batch without their rows: lengths, returns, flags, and where the rows lie.

An outline is made once, and keeps a few numbers of each episode. Episodes whose arrays have the same dtypes, row shapes
and blobs make a block: there, each leaf is one array over the blob, and an episode begins at a row of it. All was
checked when the episodes were read (`header`); where an array lies is seen from its address.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import numpy as np

from .episode import DictColumns, Episode, TupleColumns
from .format import EPISODE_ARRAYS
from .header import Header, read_episode
from .values import Path, array_bytes, key_mark

FACTS = ("started", "seed", "ended_by", "terminated", "truncated", "lane")  # of an episode, None where unknown
_KNOWN = {*EPISODE_ARRAYS, *FACTS, "headless"}  # what is all that an outline knows


class Rows(NamedTuple):
    """The form of a leaf whose rows stack."""

    shape: tuple[int, ...]  # first: an old NumPy raises where a dtype is compared with a bool, as `Parts` has it here
    dtype: np.dtype[Any]


class Parts(NamedTuple):
    """The form of a dict or tuple of columns: its keys, or numbers of items, and their forms."""

    is_dict: bool
    keys: tuple[Any, ...]
    forms: tuple[Any, ...]
    marks: tuple[Any, ...]  # of the keys, as `key_mark` gives them: 1 and True are not the same

    @classmethod
    def of(cls, is_dict: bool, keys: tuple[Any, ...], forms: tuple[Any, ...]) -> Parts:
        return cls(is_dict, keys, forms, tuple(map(key_mark, keys)))


Form = Any  # Rows, Parts, or None for what is no array: a list with a value per row


def _is_stacked(form: Form) -> bool:
    return all(map(_is_stacked, form.forms)) if isinstance(form, Parts) else form is not None


def merge(one: Form, other: Form) -> Form:
    """The form of rows of both: None where they do not stack. Nothing is cast."""
    if one == other:
        return one
    if isinstance(one, Parts) and isinstance(other, Parts) and one.is_dict == other.is_dict:
        if dict(zip(one.keys, one.marks)) == dict(zip(other.keys, other.marks)):
            others = dict(zip(other.keys, other.forms))
            return one._replace(forms=tuple(merge(form, others[key]) for key, form in zip(one.keys, one.forms)))
    return None


class Leaf(NamedTuple):
    """The rows that a block has of one leaf, as one array.

    Attributes:
        blob: its name; empty if rows have no bytes; None if the array is no part of one: the block has one episode, and
            these are its rows.
        offset, rows: where in the blob it begins, and how many rows it has.
        dtype, shape: of a row.
    """

    blob: str | None
    offset: int
    rows: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        """How many bytes the blob must have."""
        return self.offset + self.rows * array_bytes(self.dtype, self.shape)

    def array(self, data: Any) -> Any:
        """The array over the bytes of the blob."""
        if self.offset == self.end:
            data = b""
        return np.ndarray((self.rows, *self.shape), self.dtype, data, self.offset if len(data) else 0)


class Block(NamedTuple):
    """Episodes of a batch whose rows lie in the same arrays.

    Attributes:
        form: of their rows.
        leaves: by path.
        first: by path, int64 (n,): the rows in the leaf at which its n episodes begin.
    """

    form: Form
    leaves: dict[Path, Leaf]
    first: dict[Path, Any]


class Outline:
    """The outline of a batch of E episodes.

    Attributes:
        lengths: int64 (E,): T.
        returns: float64 (E,): `Episode.total_reward`.
        facts: by name of `FACTS`, a list of E.
        headless: bool (E,).
        segments: int64 (S, 3): runs of steps that are transitions: episode, first step, how many.
        blocks: of the episodes that have transitions.
        block: int64 (E,): the number of the block of an episode; -1 if it has no transition.
        place: int64 (E,): which of the episodes of its block it is.
        is_final: whether none of its episodes may change any more.
        is_whole: bool (E,): whether `episode` can give the episode: nothing else is known of it.
    """

    def __init__(self, header: Header, get_binfile: Callable[[str], Any]) -> None:
        count = len(header.episodes)
        self.lengths = np.zeros(count, "int64")
        self.returns = np.zeros(count, "float64")
        self.headless = np.zeros(count, "bool")
        self.facts: dict[str, list[Any]] = {name: [] for name in FACTS}
        self.block = np.full(count, -1)
        self.place = np.zeros(count, "int64")
        segments: list[tuple[int, int, int]] = []
        blobs = _Blobs(get_binfile)
        blocks: dict[Any, _Block] = {}
        for number in range(count):
            blobs.begin()
            episode = read_episode(header, number, blobs.get, whole=False)
            self.lengths[number] = len(episode)
            with np.errstate(all="ignore"):  # infinities of both signs have no sum
                self.returns[number] = episode.total_reward
            self.headless[number] = episode.headless
            for name, facts in self.facts.items():
                facts.append(getattr(episode, name))
            runs = _runs(episode)
            if runs:
                segments += [(number, *run) for run in runs]
                self._place(number, episode, blobs, blocks)
        self.segments = np.array(segments, "int64").reshape(-1, 3)
        self.blocks = [block.finish() for block in blocks.values()]
        self.is_final = header.version >= 2 and not header.runs
        whole = [
            _is_stacked(block.form) and all(leaf.blob is not None for leaf in block.leaves.values())
            for block in self.blocks
        ]
        self.is_whole = np.array(
            [
                self.is_final and block >= 0 and whole[block] and _KNOWN.issuperset(members)
                for block, members in zip(self.block.tolist(), header.episodes)
            ],
            "bool",
        )

    def episode(self, number: int, columns: Callable[[dict[Path, Leaf]], dict[Path, Any]]) -> Episode:
        """An episode, without its header: where `is_whole` is true.

        Args:
            number: of it in the batch.
            columns: gives the arrays over the blobs of a block.
        """
        block = self.blocks[self.block.item(number)]
        place, arrays = self.place.item(number), columns(block.leaves)
        steps, headless = self.lengths.item(number), self.headless.item(number)
        counts = {"observations": steps + (not headless), "actions": steps, "rewards": steps}
        rows = {}
        for path, firsts in block.first.items():
            first = firsts.item(place)
            rows[path] = arrays[path][first : first + counts[path[0]]]
        members = {key: _columns(form, (key,), rows) for key, form in zip(block.form.keys, block.form.forms)}
        members.update([(name, facts[number]) for name, facts in self.facts.items()], headless=headless)
        return Episode.checked(members)

    def _place(self, number: int, episode: Episode, blobs: _Blobs, blocks: dict[Any, _Block]) -> None:
        """Puts an episode into its block."""
        arrays: dict[Path, Any] = {}
        form = Parts.of(True, EPISODE_ARRAYS, tuple(_form(getattr(episode, m), (m,), arrays) for m in EPISODE_ARRAYS))
        places = [blobs.place(array) for array in arrays.values()]
        key: Any = form, tuple((blob, part) for blob, part, _ in places)
        if any(blob is None for blob, _, _ in places):
            key = number
        block = blocks.get(key)
        if block is None:
            leaves = {path: (place[0], place[1], arrays[path]) for path, place in zip(arrays, places)}
            block = blocks[key] = _Block(len(blocks), form, leaves)
        self.block[number], self.place[number] = block.number, len(block.firsts)
        block.firsts.append([first for _, _, first in places])
        block.lengths.append([len(array) for array in arrays.values()])


def _columns(form: Form, path: Path, rows: dict[Path, Any]) -> Any:
    """Rows by path in the dicts and tuples of a form."""
    if isinstance(form, Rows):
        return rows[path]
    items = [(key, _columns(part, (*path, key), rows)) for key, part in zip(form.keys, form.forms)]
    return DictColumns(items) if form.is_dict else TupleColumns(tuple(item for _, item in items))


class _Block:
    """A block in the making: of each leaf its path, blob, the part of a row at which rows begin, and an array of it."""

    def __init__(self, number: int, form: Form, leaves: dict[Path, tuple[str | None, int, Any]]) -> None:
        self.number = number
        self.form = form
        self.leaves = leaves
        self.firsts: list[list[int]] = []  # for each episode and leaf, the row of the blob at which it begins
        self.lengths: list[list[int]] = []  # likewise, how many rows it has

    def finish(self) -> Block:
        """The block."""
        begins = np.array(self.firsts, "int64").reshape(len(self.firsts), -1)
        ends = begins + np.array(self.lengths).reshape(begins.shape)
        leaves, first = {}, {}
        for n, (path, (blob, part, array)) in enumerate(self.leaves.items()):
            base = int(begins[:, n].min())
            first[path] = begins[:, n] - base
            dtype, shape = array.dtype, array.shape[1:]
            offset = part + base * array_bytes(dtype, shape)
            leaves[path] = Leaf(blob, offset, int(ends[:, n].max()) - base, dtype, shape)
        return Block(self.form, leaves, first)


class _Blobs:
    """The blobs of a batch, and their addresses. They stay mapped: an address must not get another meaning."""

    def __init__(self, get_binfile: Callable[[str], Any]) -> None:
        self._get = get_binfile
        self._found: dict[str, tuple[Any, int]] = {}
        self._read: dict[str, tuple[Any, int]] = {}

    def begin(self) -> None:
        """Begins an episode: its arrays lie in blobs that it reads, of which a batch may have many more."""
        self._read = {}

    def get(self, fn: str) -> Any:
        data = self._get(fn)
        if fn not in self._found or self._found[fn][0] is not data:
            self._found[fn] = data, _address(np.frombuffer(data, "uint8")) if len(data) else 0
        self._read[fn] = self._found[fn]
        return data

    def place(self, array: Any) -> tuple[str | None, int, int]:
        """The blob of an array, and, in its bytes, the part of a row before the first, and the number of that row."""
        size = array_bytes(array.dtype, array.shape[1:])
        if not size:
            return "", 0, 0
        if array.flags.c_contiguous:
            address = _address(array)
            for blob, (data, start) in self._read.items():
                if start <= address < start + len(data):
                    first, part = divmod(address - start, size)
                    return blob, part, first
        return None, 0, 0


def _address(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _runs(episode: Episode) -> list[tuple[int, int]]:
    """The steps of an episode that are transitions, in runs: first, how many."""
    start, runs = int(episode.headless), []
    for gap in [*sorted(gap for gap in set(episode.gaps) if start <= gap < len(episode)), len(episode)]:
        if gap > start:
            runs.append((start, gap - start))
        start = gap + 1
    return runs


def _form(value: Any, path: Path, arrays: dict[Path, Any]) -> Form:
    """The form of rows; puts their arrays into `arrays`."""
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return Rows(value.shape[1:], value.dtype)
    if isinstance(value, (DictColumns, TupleColumns)):
        is_dict = isinstance(value, DictColumns)
        items = dict(value.items() if isinstance(value, DictColumns) else enumerate(value.columns))
        forms = tuple(_form(item, (*path, key), arrays) for key, item in items.items())
        return Parts.of(is_dict, tuple(items), forms)
    return None
