"""A batch as bytes: expected ones are literals, hostile ones are refused by file and field."""

import json

import numpy as np
import pytest
from cases import plain
from conftest import DATA

from gym_recording import DictColumns, TraceError, TraceRecordingReader, TupleColumns
from gym_recording.batch import encode_batch
from gym_recording.format import write_document, write_manifest
from gym_recording.header import read_episode, read_header

TRACE = "openaigym.trace.0.7-00ff00ff00ff"
BLOB = f"{TRACE}.ep000000003.bin"
FILE = f"{TRACE}.ep000000003.json"

# ---- bytes

EPISODE = {
    "observations": np.array([[1, 2, 3], [4, 5, 6]], "uint8"),
    "actions": ["left"],
    "rewards": np.array([-0.5], "float64"),
    "ended_by": "reset",
}
EMPTY = {
    "observations": np.array([[7, 8, 9]], "uint8"),
    "actions": np.empty(0),
    "rewards": np.empty(0),
    "ended_by": "close",
}
ARRAY = (
    '{"__type": "ndarray", "shape": [%s], "order": "C", "dtype": "%s", "npyfile": "'
    + BLOB
    + '", "npyoff": %d, "size": %d%s}'
)
HEADER = (
    '{"format": {"name": "gym-recording", "version": [2, 0]}, "crc32": "25f0854b", "first": 3, '
    '"blobs": [{"fn": "openaigym.trace.0.7-00ff00ff00ff.ep000000003.bin", "size": 512, "crc32": "db5d9398"}], '
    '"columns": ['
    + ARRAY % ("9, 3", "uint8", 128, 27, ', "npyhdr": 0, "path": ["observations"]')
    + ",\n"
    + ARRAY % ("1", "float64", 320, 8, ', "npyhdr": 192, "path": ["rewards"]')
    + ",\n"
    + ARRAY % ("0", "float64", 512, 0, ', "npyhdr": 384, "path": ["actions"]')
    + '],\n"episodes": [\n{"observations": '
    + ARRAY % ("2, 3", "uint8", 128, 6, "")
    + ', "actions": ["left"], "rewards": '
    + ARRAY % ("1", "float64", 320, 8, "")
    + ', "ended_by": "reset"},\n{"observations": '
    + ARRAY % ("1, 3", "uint8", 152, 3, "")
    + ', "actions": '
    + ARRAY % ("0", "float64", 512, 0, "")
    + ', "rewards": '
    + ARRAY % ("0", "float64", 320, 0, "")
    + ', "ended_by": "close"}\n]}\n'
).encode("ascii")
BYTES = (
    b"\x93NUMPY\x01\x00v\x00{'descr': '|u1', 'fortran_order': False, 'shape': (9, 3), }".ljust(127)
    + (b"\n\1\2\3\4\5\6" + bytes(18) + b"\7\10\11").ljust(65, b"\0")  # the second episode begins at row 8
    + b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }".ljust(127)
    + b"\n\0\0\0\0\0\0\xe0\xbf".ljust(65, b"\0")
    + b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }".ljust(127)
    + b"\n"
)


def test_a_batch_is_written_byte_by_byte():
    encoded = encode_batch([EPISODE, EMPTY], 3, BLOB)
    assert encoded.header == HEADER
    assert b"".join(map(bytes, encoded.blob)) == BYTES


def test_a_batch_is_read_from_these_bytes():
    header = read_header(HEADER, FILE)
    assert (header.version, header.first, list(header.blobs)) == (2, 3, [BLOB])
    one, empty = (read_episode(header, index, {BLOB: BYTES}.__getitem__) for index in range(2))
    found = [one.observations, one.actions, one.rewards, one.ended_by]
    assert plain(found) == plain(list(EPISODE.values()))
    assert plain([empty.observations, empty.actions, empty.rewards, empty.ended_by]) == plain(list(EMPTY.values()))


def rich_episodes():
    """Everything that an episode can have, but for `lane` and `crash`, which one recorder alone does not write."""
    lives = {"rows": np.array([0, 2], "int64"), "values": np.array([3, 2], "int64")}
    return [
        {
            "observations": {
                "image": np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], "uint8"),
                "text": ["a", "\xe9", None],
            },
            "actions": (np.array([1, 0], "int64"),),
            "rewards": np.array([0.5, -1.0]),
            "terminated": True,
            "truncated": False,
            "ended_by": "terminated",
            "started": "2026-01-02T03:04:05.000000Z",
            "seed": 7,
            "options": {1: "one", "__type": float("inf")},
            "timestamps": np.array([1767323045.25, 1767323045.5]),
            "infos": {"lives": lives, None: {"rows": np.array([1], "int64"), "values": [("x", 1)]}},
        },
        {
            "observations": {"image": np.array([[9, 9, 9]], "uint8"), "text": [[np.array([True, False])]]},
            "actions": np.empty(0),
            "rewards": np.empty(0),
            "ended_by": "close",
            "timestamps": np.empty(0),
            "infos": {},
        },
        {
            "observations": np.array([[1.5, -0.0]], "float32"),
            "actions": [2**70],
            "rewards": np.array([1], "int64"),
            "headless": True,
            "gaps": [0],
            "lane": 3,
            "ended_by": "crash",
        },
    ]


RICH_TRACE = "openaigym.trace.3.77-00ff00ff00ff"
VERSION_2 = (
    DATA / "version_2"
)  # a recording of this version that every later one must read, and this one write, to the byte


def rich_files():
    blob = f"{RICH_TRACE}.ep000000000.bin"
    encoded = encode_batch(rich_episodes(), 0, blob)
    batches = [{"first": 0, "len": 3, "fn": f"{RICH_TRACE}.ep000000000.json"}]
    members = {"created": "2026-01-02T03:04:04.000000Z", "closed": True, "metadata": {"note": "\xe9"}, "env": None}
    return {
        blob: b"".join(map(bytes, encoded.blob)),
        f"{RICH_TRACE}.ep000000000.json": encoded.header,
        f"{RICH_TRACE}.manifest.json": write_manifest(batches, members),
    }


def test_a_recording_of_today_is_written_to_the_byte_as_it_was_when_this_version_was_made():
    assert rich_files() == {path.name: path.read_bytes() for path in VERSION_2.iterdir()}


def test_a_recording_of_the_day_this_version_was_made_is_read():
    one, empty, headless = TraceRecordingReader(VERSION_2, verify=True)
    image = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], "uint8")
    assert plain(one.observations) == plain(DictColumns(image=image, text=["a", "\xe9", None]))
    assert plain(one.actions) == plain(TupleColumns((np.array([1, 0], "int64"),)))
    assert plain(one.rewards) == plain(np.array([0.5, -1.0]))
    assert (one.terminated, one.truncated, one.ended_by, one.seed) == (True, False, "terminated", 7)
    assert (one.started, one.lane, one.headless, one.gaps) == ("2026-01-02T03:04:05.000000Z", None, False, ())
    assert plain(one.options) == plain({1: "one", "__type": np.float64("inf")})
    assert plain(one.timestamps) == plain(np.array([1767323045.25, 1767323045.5]))
    assert plain(one.infos) == plain([{"lives": np.int64(3)}, {None: ("x", 1)}, {"lives": np.int64(2)}])
    text = [[np.array([True, False])]]
    assert plain(empty.observations) == plain(DictColumns(image=np.array([[9, 9, 9]], "uint8"), text=text))
    assert (empty.infos, empty.terminated, empty.ended_by, len(empty.timestamps)) == ([{}], None, "close", 0)
    assert plain([headless.observations, headless.actions, headless.rewards]) == plain(
        [np.array([[1.5, -0.0]], "float32"), [2**70], np.array([1], "int64")]
    )
    assert (headless.headless, headless.gaps, headless.lane, headless.ended_by) == (True, (0,), 3, "crash")


# ---- hostile headers


def header_of(**members):
    """A header of version 2 with these members; `None` leaves one out."""
    body = {"first": 3, "blobs": [], "columns": [], "episodes": [], **members}
    return write_document(json.dumps({key: value for key, value in body.items() if value is not ...})[1:-1])


BLOBS = [{"fn": BLOB, "size": len(BYTES), "crc32": "db5d9398"}]


def blob(**changes):
    return [{key: value for key, value in {**BLOBS[0], **changes}.items() if value is not ...}]


@pytest.mark.parametrize(
    "members, message",
    [
        *[({"first": first}, "first: malformed") for first in (..., None, -1, True, 1.0, "3", [])],
        *[({"episodes": episodes}, "episodes: malformed") for episodes in (..., None, {}, "x", [None], [[]], [{}, 1])],
        *[({"columns": columns}, "columns: malformed") for columns in (..., None, {}, 3)],
        *[({"blobs": blobs}, "blobs: malformed") for blobs in (..., None, {}, BLOB, [None], [BLOB], [[]])],
        *[({"blobs": blob(fn=fn)}, "fn: malformed") for fn in (..., None, 3, [BLOB])],
        *[
            ({"blobs": blob(fn=fn)}, "blobs.fn: not the name of a blob")
            for fn in ("", "x.bin", "../" + BLOB, FILE, "/etc/passwd")
        ],
        *[({"blobs": blob(size=size)}, "size: malformed") for size in (..., None, -1, True, 5.0, "5")],
        *[({"blobs": blob(crc32=crc)}, "crc32: malformed") for crc in (..., None, 5, [])],
        *[({"blobs": blob(start=start)}, "start: malformed") for start in (None, -1, True, 5.0, "5")],
        ({"blobs": BLOBS * 2}, "blobs.fn: not the name of a blob"),
    ],
)
def test_a_malformed_header_is_refused(members, message):
    with pytest.raises(TraceError, match=f"^{FILE}: {message}"):
        read_header(header_of(**members), FILE)


# ---- hostile episodes


def record(**changes):
    """An array record of three rows of two bytes."""
    array = {
        "__type": "ndarray",
        "shape": [3, 2],
        "order": "C",
        "dtype": "uint8",
        "npyfile": BLOB,
        "npyoff": 128,
        "size": 6,
    }
    return {key: value for key, value in {**array, **changes}.items() if value is not ...}


def read(blobs=BLOBS, data=BYTES, **members):
    """An episode of two steps, read."""
    source = {"observations": [1, 2, 3], "actions": [1, 2], "rewards": [0.5, 0.5], "ended_by": "close", **members}
    source = {key: value for key, value in source.items() if value is not ...}
    return read_episode(read_header(header_of(blobs=blobs, episodes=[{}, source]), FILE), 1, {BLOB: data}.__getitem__)


def test_an_episode_made_by_hand_is_read():
    assert plain(read(observations=[record()] * 3).observations[2]) == plain(read(observations=record()).observations)
    one = read(observations=record())
    assert plain(one.observations) == plain(np.array([[1, 2], [3, 4], [5, 6]], "uint8"))
    assert (one.actions, one.rewards) == ([1, 2], [0.5, 0.5])


def nested(depth, value, wrap):
    for _ in range(depth):
        value = wrap(value)
    return value


TUPLE, DICT = {"__type": "tuple"}, {"__type": "dict"}
HOSTILE_EPISODES = [
    *[
        ({key: value}, "malformed")
        for key in ("observations", "actions", "rewards")
        for value in (..., None, 3, "abc", True, 0.5)
    ],
    ({"observations": [1, 2]}, r"observations: wrong number of rows \(expected 3, found 2\)"),
    ({"actions": [1, 2, 3]}, r"actions: wrong number of rows \(expected 2, found 3\)"),
    ({"rewards": []}, "actions: wrong number of rows"),
    ({"headless": True}, "observations: wrong number of rows"),
    ({"observations": {}}, "differ in length"),
    ({"observations": {"a": [1, 2, 3], "b": [1, 2]}}, r"differ in length \(found \[2, 3\]\)"),
    ({"observations": {"a": [1, 2, 3], "b": {"c": [1]}}}, "differ in length"),
    ({"observations": {"a": 3}}, "malformed"),
    ({"observations": {**TUPLE, "items": []}}, "differ in length"),
    ({"observations": {**TUPLE, "items": [[1, 2, 3], [1]]}}, "differ in length"),
    ({"observations": TUPLE}, "items: malformed"),
    ({"observations": {**TUPLE, "items": {}}}, "items: malformed"),
    ({"observations": DICT}, "items: malformed"),
    ({"observations": {**DICT, "items": []}}, "differ in length"),
    *[
        ({"observations": {**DICT, "items": [pair]}}, "items: malformed")
        for pair in (None, [], ["a"], ["a", [], []], {"a": []}, "ab")
    ],
    *[({"observations": {**DICT, "items": [[key, [1, 2, 3]]]}}, "items: malformed") for key in ([], {}, ["a"])],
    ({"observations": {**DICT, "items": [["a", [1, 2, 3]], ["a", [4, 5, 6]]]}}, "twice"),
    ({"observations": [{**DICT, "items": [[1, 2], [1, 3]]}, 2, 3]}, "twice"),
    *[
        ({"observations": {"__type": kind, "items": []}}, "__type: unknown")
        for kind in ("list", "Tuple", "", 3, None, [], {}, True)
    ],
    *[({"observations": [{"__type": kind}, 2, 3]}, "__type: unknown") for kind in ("list", "set", 0, None)],
    ({"observations": record(shape=[], size=1)}, "an array without rows"),
    ({"observations": record(size=...)}, "size"),
    ({"observations": record(size=7)}, "size: wrong size"),
    ({"observations": record(npyoff=len(BYTES) - 5)}, "not wholly there"),
    ({"observations": record(dtype="O")}, "dtype: the dtype is not allowed"),
    ({"observations": record(npyfile=f"{TRACE}.ep000000004.bin")}, "npyfile: not a blob of this batch"),
    *[
        ({"observations": record(npyfile=name)}, "npyfile: not a blob of this batch")
        for name in (..., None, 3, "/etc/passwd")
    ],
    ({"observations": record(npyfile="/etc/passwd")}, "npyfile: not a blob of this batch"),
    ({"observations": record(), "blobs": []}, "npyfile: not a blob of this batch"),
    ({"observations": record(), "blobs": blob(size=130)}, "not wholly in what counts"),
    ({"observations": [record(shape=[n], size=n, npyoff=0) for n in (400, 401, 402)]}, "larger than the blob"),
    ({"observations": nested(40, [1, 2, 3], lambda value: {"a": value})}, "nest"),
    ({"observations": nested(40, [1, 2, 3], lambda value: {**TUPLE, "items": [value]})}, "nest"),
    ({"observations": [nested(40, 1, lambda value: [value]), 2, 3]}, "nest"),
    ({"observations": [nested(300, 1, lambda value: {"a": value}), 2, 3]}, "nest"),
    ({"options": nested(40, 1, lambda value: [value])}, "nest"),
    *[({"terminated": value}, "terminated: malformed") for value in (None, 0, 1, "true", [])],
    *[({"truncated": value}, "truncated: malformed") for value in (None, 0, 1, "true", [])],
    *[({"headless": value}, "headless: malformed") for value in (None, 0, "true")],
    *[({"ended_by": value}, "ended_by: malformed") for value in (None, "", "done", 3, [], {}, "Close")],
    *[({"seed": value}, "seed: malformed") for value in (None, True, 1.0, "1", [1])],
    *[({"started": value}, "started: malformed") for value in (None, 3, [], True)],
    *[({"lane": value}, "lane: malformed") for value in (None, -1, True, 1.0, "1")],
    *[({"gaps": value}, "gaps: malformed") for value in (None, 1, {}, [None], [-1], [True], [1.0], "1")],
    *[({"timestamps": value}, "malformed") for value in (None, 3, "x")],
    *[({"infos": value}, "infos: malformed") for value in (None, {}, "x", [None], [[]], [{"key": []}], [{"key": {}}])],
    ({"infos": [{"key": "a", "rows": [0], "values": [1]}]}, "infos.rows: malformed"),
]
INDICES = np.array([0, 2, 3, -1], "<i8").tobytes()


@pytest.mark.parametrize("number", range(len(HOSTILE_EPISODES)))
def test_a_malformed_episode_is_refused(number):
    members, message = HOSTILE_EPISODES[number]
    with pytest.raises(TraceError, match=message) as caught:
        read(**members)
    assert FILE in str(caught.value) or BLOB in str(caught.value)
    assert "episodes[1]" in str(caught.value)
    assert len(str(caught.value)) < 400


def rows(offset, count, **changes):
    return record(**{"shape": [count], "dtype": "int64", "npyoff": offset, "size": 8 * count, **changes})


@pytest.mark.parametrize(
    "entry, message",
    [
        ({"rows": rows(0, 2), "values": ["a"]}, "infos.rows: malformed"),
        ({"rows": rows(0, 2, dtype="uint64"), "values": ["a", "b"]}, "infos.rows: malformed"),
        ({"rows": rows(0, 2, shape=[2, 1]), "values": ["a", "b"]}, "infos.rows: malformed"),
        ({"rows": rows(0, 3), "values": ["a", "b", "c"]}, r"infos.rows: no such row \(expected 0 to 2, found 3\)"),
        ({"rows": rows(24, 1), "values": ["a"]}, r"infos.rows: no such row \(expected 0 to 2, found -1\)"),
        ({"rows": rows(0, 2)}, "malformed"),
        ({"values": ["a"]}, "malformed"),
    ],
)
def test_malformed_infos_are_refused(entry, message):
    blobs = [{"fn": BLOB, "size": len(INDICES), "crc32": "00000000"}]
    good = read(blobs, INDICES, infos=[{"key": "k", "rows": rows(0, 2), "values": ["a", "b"]}])
    assert good.infos == [{"k": "a"}, {}, {"k": "b"}]
    with pytest.raises(TraceError, match=message):
        read(blobs, INDICES, infos=[{"key": "k", **entry}])


# ---- where arrays lie


def layout(*episodes):
    """The records of `observations` of these arrays, and the columns."""
    source = [{"observations": array, "actions": ["x"], "rewards": ["x"], "ended_by": "close"} for array in episodes]
    document = json.loads(encode_batch(source, 0, BLOB).header)
    places = [(one["observations"]["npyoff"], one["observations"]["shape"]) for one in document["episodes"]]
    return places, [(entry["npyhdr"], entry["npyoff"], entry["shape"], entry["dtype"]) for entry in document["columns"]]


def test_episodes_of_one_dtype_and_row_shape_share_a_column():
    float32, uint8 = np.zeros((2, 3), "float32"), np.zeros((1, 5), "uint8")
    places, columns = layout(float32, uint8, float32, np.zeros((1, 4), "float32"), uint8, float32.astype("float64"))
    assert columns == [
        (0, 128, [4, 3], "float32"),
        (192, 320, [9, 5], "uint8"),
        (384, 512, [1, 4], "float32"),
        (576, 704, [2, 3], "float64"),
    ]
    assert [offset for offset, _ in places] == [128, 320, 152, 512, 360, 704]


def test_rows_of_no_bytes_take_no_place():
    places, columns = layout(np.zeros((2, 0), "float32"), np.zeros((3, 0), "float32"), np.zeros((1, 3, 0), "float32"))
    assert places == [(128, [2, 0]), (128, [3, 0]), (256, [1, 3, 0])]
    assert columns == [(0, 128, [5, 0], "float32"), (128, 256, [1, 3, 0], "float32")]


def test_large_arrays_are_passed_on_without_a_copy():
    frames = np.zeros((3, 800, 400), "uint8")
    source = {"observations": frames, "actions": ["x"] * 2, "rewards": ["x"] * 2, "ended_by": "close"}
    pieces = encode_batch([source], 0, BLOB).blob
    assert any(np.shares_memory(np.frombuffer(piece, "uint8"), frames) for piece in pieces)
    assert len(pieces) <= 3
