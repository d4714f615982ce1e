"""Every case of the table, from the recorder through the files to every reader; and the recordings of the original."""

import functools
import json
import shutil
import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from cases import (
    CASES,
    FEW_KINDS,
    KINDS,
    NO_ROWS,
    REFUSED,
    SHAPES_OF_EPISODES,
    Values,
    episode,
    members,
    plain,
    play,
    rows_of,
)
from conftest import DATA
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from v1_reader import read_recording

from gym_recording import (
    DictColumns,
    Episode,
    TraceError,
    TraceRecording,
    TraceRecordingReader,
    TupleColumns,
    scan_recorded_traces,
)
from gym_recording.format import read_array, write_document


def form(rows):
    """Kind, dtype and row shape of what is read."""
    if isinstance(rows, DictColumns):
        return [(key, form(column)) for key, column in rows.items()]
    if isinstance(rows, TupleColumns):
        return tuple(map(form, rows.columns))
    return (rows.dtype, rows.shape[1:]) if isinstance(rows, np.ndarray) else "one value per row"


# One case of each form, and those that come to it by another way than the first.
NEIGHBOURS = {repr(form(values.back)): episode(observations=values) for values in FEW_KINDS.values()}
NEIGHBOURS.update({name: episode(observations=KINDS[name]) for name in KINDS if ", then" in name or "varies" in name})
NEIGHBOURS.update(SHAPES_OF_EPISODES)


def all_pairs(items):
    """A sequence in which every pair stands somewhere, in both orders, an item beside itself too (de Bruijn's)."""
    for number, item in enumerate(items):
        yield item
        for later in items[number + 1 :]:
            yield item
            yield later


def headers(directory):
    return [json.loads(path.read_bytes()) for path in sorted(Path(directory).glob("*.ep*.json"))]


# ---- our own readers


# A recorder with this flush interval writes at every call: every episode is streamed, row by row.
STREAMED = {"flush_interval": 0}
however_written = pytest.mark.parametrize("options", [{}, STREAMED], ids=["at once", "streamed"])


@however_written
@pytest.mark.parametrize("name", CASES)
def test_what_was_recorded_is_read_back(name, options, record):
    directory = record(CASES[name], **options)
    (read,) = TraceRecordingReader(directory)
    assert members(read) == members(CASES[name])
    assert (len(read), read.headless) == (CASES[name].steps, CASES[name].headless)
    scanned = []
    assert (
        scan_recorded_traces(directory, lambda *arrays: scanned.append(Episode(*arrays, headless=read.headless))) == 1
    )
    assert [members(one) for one in scanned] == [members(read)]


def test_a_case_reads_the_same_alone_and_beside_every_other(record):
    names = list(all_pairs(list(NEIGHBOURS)))
    read = TraceRecordingReader(record(*[NEIGHBOURS[name] for name in names], batch_bytes=2_000_000))
    expected = {name: members(case) for name, case in NEIGHBOURS.items()}
    assert len(read) == len(names)
    assert [name for name, one in zip(names, read) if members(one) != expected[name]] == []


HOW_WRITTEN = {"one batch": {"batch_bytes": 1 << 40}, "many batches": {"buffer_batch_size": 7}, "streamed": STREAMED}


@pytest.fixture(scope="module", params=HOW_WRITTEN)
def written(request, tmp_path_factory):
    """All cases in one recording: the directory and the headers."""
    directory = tmp_path_factory.mktemp("written")
    with TraceRecording(directory, durability="none", **HOW_WRITTEN[request.param]) as recording:
        for case in CASES.values():
            play(case, recording)
    return directory, headers(directory)


def test_all_cases_are_read_back_from_one_recording(written):
    read = TraceRecordingReader(written[0], verify=True)
    assert [name for name, one in zip(CASES, read) if members(one) != members(CASES[name])] == []
    assert len(read) == len(CASES)


def test_read_arrays_cannot_be_changed(record):
    for one in TraceRecordingReader(record(*CASES.values())):
        for array in arrays_in([one.observations, one.actions, one.rewards]):
            assert not array.flags.writeable


def arrays_in(value):
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, (DictColumns, dict)):
        return arrays_in(list(value.values()))
    if isinstance(value, TupleColumns):
        return arrays_in(list(value.columns))
    return [array for item in value for array in arrays_in(item)] if isinstance(value, (list, tuple)) else []


@however_written
@pytest.mark.parametrize("name", KINDS)
def test_infos_of_every_kind_are_read_back(name, options, tmp_path):
    values = KINDS[name]
    with TraceRecording(tmp_path, durability="none", infos=True, **options) as recording:
        recording.add_reset(0, info={})
        for value in values.rows():
            recording.add_step(0, 0, 0.0, info={"value": value})
            recording.add_step(0, 0, 0.0, info={"other": 1})
    (read,) = TraceRecordingReader(tmp_path)
    rows = [{}]
    for value in values.back:
        rows += [{"value": value}, {"other": np.int64(1)}]
    assert plain(read.infos) == plain(rows)


# ---- T = 0


def test_an_episode_without_a_step_has_the_dtypes_of_its_batch(record):
    float32 = np.zeros((2, 3), "float32")
    other = episode(actions=Values(list(float32), float32), rewards=Values([1, 2], np.array([1, 2], "int64")))
    empty = SHAPES_OF_EPISODES["no step"]
    for cases in ([empty, other], [other, empty]):
        reads = [one for one in TraceRecordingReader(record(*cases)) if not len(one)]
        assert [plain(one.actions) for one in reads] == [plain(np.empty(0, "float32"))]
        assert [plain(one.rewards) for one in reads] == [plain(np.empty(0, "int64"))]


def test_an_episode_without_a_step_has_float64_where_no_other_tells(record):
    (read,) = TraceRecordingReader(record(SHAPES_OF_EPISODES["no step"]))
    assert plain(read.actions) == plain(read.rewards) == plain(NO_ROWS.back)


# ---- values that cannot be stored


@however_written
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("role", ["observations", "actions", "rewards"])
def test_a_value_that_cannot_be_stored_is_refused_by_its_path_and_nothing_else_is_lost(role, name, options, tmp_path):
    value, message = REFUSED[name]
    arguments = {"actions": 0, "observations": [1, "x"], "rewards": 0.5}
    with TraceRecording(tmp_path, durability="none", **options) as recording:
        recording.add_reset([0])
        recording.add_step(1, [1], 0.25)
        with pytest.raises(TraceError) as caught:
            recording.add_step(*{**arguments, role: value}.values())
        assert message.replace("observations", role) in str(caught.value)
        assert str(caught.value).startswith(role)
        recording.add_step(2, [2], 0.75)
    (read,) = TraceRecordingReader(tmp_path)
    assert (read.observations, list(read.actions), list(read.rewards)) == ([[0], [1], [2]], [1, 2], [0.25, 0.75])
    assert read.gaps == (1,)


@pytest.mark.parametrize("name", REFUSED)
def test_a_first_observation_that_cannot_be_stored_leaves_an_episode_without_one(name, tmp_path):
    with TraceRecording(tmp_path, durability="none") as recording:
        with pytest.raises(TraceError, match="observations"):
            recording.add_reset(REFUSED[name][0])
        recording.add_step(0, 1, 0.5)
    (read,) = TraceRecordingReader(tmp_path)
    assert (read.headless, list(read.observations)) == (True, [1])


@pytest.mark.parametrize("name", REFUSED)
def test_infos_and_options_that_cannot_be_stored_are_left_out_with_a_warning(name, tmp_path):
    value = REFUSED[name][0]
    with TraceRecording(tmp_path, durability="none", infos=True) as recording:
        with pytest.warns(UserWarning, match="options") as warned:
            recording.add_reset(0, options={"good": 1, "bad": value})
        with pytest.warns(UserWarning, match=r"infos\.bad") as warned_later:
            for _ in range(3):
                recording.add_step(0, 1, 0.5, info={"good": 1, "bad": value})
    assert (len(warned), len(warned_later)) == (1, 1)
    (read,) = TraceRecordingReader(tmp_path)
    assert read.infos == [{}, {"good": 1}, {"good": 1}, {"good": 1}]


# ---- version 1 readers


def as_version_1(back):
    """What a reader of version 1 sees of a member; raises `LookupError` for what version 1 could not express."""
    if isinstance(back, (np.ndarray, np.generic)):
        if back.dtype.names:
            raise LookupError
        return np.asarray(back)
    if isinstance(back, DictColumns):
        back = back.columns
    if isinstance(back, dict):
        if not all(type(key) is str and key != "__type" for key in back):
            raise LookupError
        return {key: as_version_1(value) for key, value in back.items()}
    if isinstance(back, (tuple, TupleColumns)):
        raise LookupError
    return [as_version_1(value) for value in back] if isinstance(back, list) else back


def version_1_members(case):
    return {name: as_version_1(getattr(case, name).back) for name in ("observations", "actions", "rewards")}


def is_of_version_1(case):
    try:
        version_1_members(case)
    except LookupError:
        return False
    return True


OF_VERSION_1 = {name: case for name, case in CASES.items() if is_of_version_1(case)}


@pytest.mark.parametrize("how", HOW_WRITTEN)
def test_a_reader_of_version_1_reads_ours(how, record):
    (read,) = read_recording(record(*OF_VERSION_1.values(), **HOW_WRITTEN[how])).values()
    assert len(read) == len(OF_VERSION_1) > 400
    differing = [
        name
        for (name, case), one in zip(OF_VERSION_1.items(), read)
        for key, expected in version_1_members(case).items()
        if rows_of(one[key]) != rows_of(expected)
    ]
    assert differing == []


# ---- the files themselves


def records_in(value):
    if isinstance(value, dict) and value.get("__type") == "ndarray":
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [record for item in values for record in records_in(item)]


def test_np_load_of_a_blob_gives_its_first_array(written):
    directory, documents = written
    for header in documents:
        for blob in header["blobs"]:
            array = np.load(directory / blob["fn"])
            (first,) = [
                entry for entry in records_in(header) if entry["npyfile"] == blob["fn"] and entry.get("npyhdr") == 0
            ]
            assert plain(array) == plain(read_array(first, lambda name: (directory / name).read_bytes(), "header"))


def test_np_load_gives_the_array_at_every_npyhdr(written):
    directory, documents = written
    entries = [record for header in documents for record in records_in(header) if "npyhdr" in record]
    assert len(entries) > 500
    for entry in entries:
        with open(directory / entry["npyfile"], "rb") as file:
            file.seek(entry["npyhdr"])
            array = np.load(file)
            file.seek(entry["npyoff"])
            assert array.tobytes() == file.read(entry["size"])
        assert (list(array.shape), array.nbytes) == (entry["shape"], entry["size"])
        assert entry["dtype"] in (array.dtype.name, array.dtype.str, repr(array.dtype.descr))


def test_every_offset_is_aligned_and_every_array_lies_inside_its_blob(written):
    directory, documents = written
    for header in documents:
        sizes = {blob["fn"]: blob["size"] for blob in header["blobs"]}
        assert sizes == {name: (directory / name).stat().st_size for name in sizes}
        for record in records_in(header):
            assert record["npyoff"] % (64 if "npyhdr" in record else 8) == 0
            assert record.get("npyhdr", 0) % 64 == 0
            assert 0 <= record["npyoff"] <= record["npyoff"] + record["size"] <= sizes[record["npyfile"]]


def test_every_array_of_an_episode_lies_in_a_column_or_has_a_npy_header_of_its_own(written):
    for header in written[1]:
        for record in records_in(header["episodes"]):
            inside = any(
                (column["npyfile"], column["dtype"]) == (record["npyfile"], record["dtype"])
                and column["npyoff"] <= record["npyoff"]
                and record["npyoff"] + record["size"] <= column["npyoff"] + column["size"]
                for column in header["columns"]
            )
            assert inside != ("npyhdr" in record)


def test_arrays_do_not_overlap_and_a_column_has_a_path_dtype_and_row_shape_of_its_own(written):
    for header in written[1]:
        entries = [record for record in records_in(header) if "npyhdr" in record]
        spans = sorted((entry["npyfile"], entry["npyhdr"], entry["npyoff"] + entry["size"]) for entry in entries)
        assert all(name != after or end <= start for (name, _, end), (after, start, _) in zip(spans, spans[1:]))
        kinds = [json.dumps([entry["path"], entry["dtype"], entry["shape"][1:]]) for entry in header["columns"]]
        assert len(set(kinds)) == len(kinds)


def test_an_episode_starts_at_most_seven_rows_after_the_one_before(record):
    for width in range(1, 18):
        rows = Values([np.full(width, 7, "uint8")] * 3, np.full((3, width), 7, "uint8"))
        (header,) = headers(record(*[episode(observations=rows)] * 5))
        starts = [one["observations"]["npyoff"] for one in header["episodes"]]
        gaps = [after - before - 3 * width for before, after in zip(starts, starts[1:])]
        assert all(0 <= gap <= 7 * width and gap % width == 0 for gap in gaps)
        assert gaps[0] == min(gap for gap in range(0, 8 * width, width) if (starts[0] + 3 * width + gap) % 8 == 0)


def test_a_batch_without_an_array_has_no_blob(record):
    text = Values(["a", "b"], ["a", "b"])
    directory = record(episode(observations=text, actions=Values(["c"], ["c"]), rewards=Values(["d"], ["d"])))
    (header,) = headers(directory)
    assert (header["blobs"], header["columns"]) == ([], [])
    assert not list(directory.glob("*.bin"))


def test_manifests_and_headers_are_strict_json(record):
    def refuse(token):
        raise AssertionError(token)

    directory = record(*CASES.values(), metadata={"note": "\ud800 \U0001f600"})
    documents = list(directory.glob("*.json"))
    assert len(documents) >= 2
    for document in documents:
        text = document.read_bytes().decode("ascii")
        assert json.loads(text, parse_constant=refuse)["format"] == {"name": "gym-recording", "version": [2, 0]}


def test_a_key_whose_value_would_be_null_is_not_written(record):
    directory = record(SHAPES_OF_EPISODES["one step"])
    (header,) = headers(directory)
    (manifest,) = [json.loads(path.read_bytes()) for path in directory.glob("*.manifest.json")]
    assert None not in [*header.values(), *header["episodes"][0].values(), *manifest.values()]
    assert set(header["episodes"][0]) == {"observations", "actions", "rewards", "ended_by", "started"}


# ---- arrays of other packages

ML_DTYPES = ["bfloat16", "float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
ML_DTYPES += ["float8_e3m4", "float8_e4m3", "float8_e8m0fnu"]


@pytest.mark.parametrize("name", ML_DTYPES)
def test_dtypes_of_ml_dtypes_come_back_exactly(name, record):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    if not hasattr(ml_dtypes, name):
        pytest.skip("not in this version of ml_dtypes")
    carrier = np.dtype("uint16" if name == "bfloat16" else "uint8")
    bits = np.arange(256 * carrier.itemsize, dtype=carrier).reshape(2, -1) * (255 if name == "bfloat16" else 1)
    array = bits.view(getattr(ml_dtypes, name))
    large = np.resize(array, (2, 10_000))
    kinds = {
        "arrays": Values(list(array), array),
        "numbers": Values(list(array[0]), array[0]),
        "0-d arrays": Values([np.array(number) for number in array[0, :3]], array[0, :3]),
        "lists": Values([[array[0]], [array[1, 3]]], [[array[0]], [array[1, 3]]]),
        "large arrays": Values([large[0], large[1, ::-1]], np.stack([large[0], large[1, ::-1]])),
        "its carrier": Values(list(bits), bits),
    }
    cases = [episode(observations=kinds[kind]) for kind in all_pairs(list(kinds))]
    directory = record(*cases)
    assert [members(one) for one in TraceRecordingReader(directory)] == [members(case) for case in cases]
    (version_1,) = read_recording(directory).values()
    assert plain(version_1[0]["observations"]) == plain(bits)


def test_torch_tensors_come_back_as_arrays(record):
    torch = pytest.importorskip("torch")
    ramp = np.arange(6, dtype="float32").reshape(2, 3)
    kinds = {
        "float32": Values([torch.tensor(row) for row in ramp], ramp),
        "gradient": Values([torch.tensor(row, requires_grad=True) for row in ramp], ramp),
        "transposed": Values([torch.tensor(ramp).T] * 2, np.stack([ramp.T] * 2)),
        "numbers": Values([torch.tensor(1.5), torch.tensor(2.5)], np.array([1.5, 2.5], "float32")),
        "ints": Values([torch.arange(3), torch.arange(3)], np.array([[0, 1, 2]] * 2, "int64")),
        "bools": Values([torch.tensor([True, False])] * 2, np.array([[True, False]] * 2)),
        "conjugates": Values([torch.tensor([1 + 2j]).conj()] * 2, np.array([[1 - 2j]] * 2, "complex64")),
        "lists": Values([[torch.tensor(1.5), torch.tensor([1])]], [[np.float32(1.5), np.array([1], "int64")]]),
        "dicts": Values([{"a": torch.tensor(row)} for row in ramp], DictColumns(a=ramp)),
    }
    cases = [episode(observations=values) for values in kinds.values()]
    read = TraceRecordingReader(record(*cases))
    assert [members(one) for one in read] == [members(case) for case in cases]


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_torch_dtypes_that_numpy_does_not_have_come_back_as_those_of_ml_dtypes(name, record):
    torch, ml_dtypes = pytest.importorskip("torch"), pytest.importorskip("ml_dtypes")
    tensor = torch.tensor([[1.5, -0.0], [2.0, float("nan")]]).to(getattr(torch, name))
    array = tensor.view(torch.int16 if name == "bfloat16" else torch.uint8).numpy().view(getattr(ml_dtypes, name))
    case = episode(observations=Values(list(tensor), array), actions=Values([tensor[0, 0]], array[0, :1]))
    (read,) = TraceRecordingReader(record(case))
    assert members(read) == members(case)


def test_a_tensor_that_has_no_array_is_refused_by_its_path(tmp_path):
    torch = pytest.importorskip("torch")
    with TraceRecording(tmp_path) as recording, pytest.raises(TraceError, match=r"observations\.a: cannot store"):
        recording.add_reset({"a": torch.eye(2).to_sparse()})


class OnlyArray:
    def __array__(self, dtype=None, copy=None):
        return np.array([1, 2], "int16")


class OnlyDLPack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_whatever_has_an_array_is_stored_as_that(record):
    case = episode(observations=Values([OnlyArray(), OnlyArray()], np.array([[1, 2]] * 2, "int16")))
    (read,) = TraceRecordingReader(record(case))
    assert members(read) == members(case)


@pytest.mark.skipif(not hasattr(np, "from_dlpack"), reason="NumPy 1.22 and later read DLPack")
def test_whatever_has_dlpack_is_stored_as_that_array(record):
    array = np.arange(4, dtype="float32")
    case = episode(observations=Values([OnlyDLPack(array)] * 2, np.stack([array, array])))
    (read,) = TraceRecordingReader(record(case))
    assert members(read) == members(case)


# ---- recordings of the original, versions 0 and 1

GOLDEN = sorted(path.parent.name for path in DATA.glob("golden/*/expected.json"))


@pytest.fixture(params=["in place", "moved"])
def golden(request, tmp_path):
    """A function that gives the directory of a golden recording, or of a copy whose name has what globs would mind."""

    def golden(name):
        directory = DATA / "golden" / name
        return directory if request.param == "in place" else shutil.copytree(directory, tmp_path / "a [1] b")

    return golden


def expected_episodes(directory):
    traces = json.loads((directory / "expected.json").read_text())
    return [
        {key: golden_value(one[key]) for key in ("observations", "actions", "rewards")}
        for trace in sorted(traces, key=lambda name: int(name.split(".")[2]))
        for one in traces[trace]
    ]


def golden_value(value):
    """The values of `expected.json`; the original gave T = 0 the shape (1, 0)."""
    if "dtype" in value:
        shape = (0,) if value["shape"] == [1, 0] else value["shape"]
        return np.frombuffer(bytes.fromhex(value["hex"]), value["dtype"]).reshape(shape)
    if "list" in value:
        return [golden_value(item) for item in value["list"]]
    if "dict" in value:
        return {key: golden_value(item) for key, item in value["dict"].items()}
    return float.fromhex(value["float"]) if "float" in value else value["value"]


def test_there_are_golden_recordings():
    assert len(GOLDEN) == 11


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_recordings_read_as_the_original_read_them(name, golden):
    directory = golden(name)
    expected = expected_episodes(directory)
    reader = TraceRecordingReader(directory)
    read = [{key: getattr(one, key) for key in ("observations", "actions", "rewards")} for one in reader]
    assert plain(read) == plain(expected)
    assert [len(one.observations) for one in reader] == [len(one.rewards) + 1 for one in reader]
    assert all((one.terminated, one.ended_by, one.headless) == (None, None, False) for one in reader)
    scanned = []
    scan_recorded_traces(
        directory, lambda *arrays: scanned.append(dict(zip(("observations", "actions", "rewards"), arrays)))
    )
    assert plain(scanned) == plain(expected)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_methods_of_2016_read_golden_recordings_again_and_again(name, golden):
    directory = golden(name)
    expected = plain(expected_episodes(directory))
    reader = TraceRecordingReader(directory)
    for _ in range(3):
        batches = reader.get_recorded_batches()
        episodes = [one for batch in batches for one in reader.get_recorded_episodes(batch)]
        assert (
            plain([{key: one[key] for key in ("observations", "actions", "rewards")} for one in episodes]) == expected
        )
        reader.close()
    assert [batch["first"] for batch in batches] == [
        entry["first"]
        for path in sorted(directory.glob("*manifest.json"))
        for entry in json.loads(path.read_text())["batches"]
    ]


@pytest.mark.parametrize("name", GOLDEN)
def test_json_decode_is_an_object_hook_for_old_headers(name, golden):
    directory = golden(name)
    with TraceRecordingReader(directory) as reader:
        for batch in reader.get_recorded_batches():
            text = (directory / batch["fn"]).read_text()
            decoded = json.loads(text, object_hook=reader.json_decode)["episodes"]
            for one, found in zip(reader.get_recorded_episodes(batch), decoded):
                for key in ("observations", "actions", "rewards"):
                    assert len(one[key]) == 0 or json_types(plain(one[key])) == json_types(plain(found[key]))
            for array in records_in(json.loads(text)):
                assert bytes(reader.get_binfile(array["npyfile"])) == (directory / array["npyfile"]).read_bytes()
                assert reader.load_npy(array).shape == tuple(array["shape"])


def json_types(tree):
    """Arrays without dimensions and NumPy's numbers are the same here."""
    return repr(tree).replace("'scalar'", "'array'")


def old_recording(directory, records, blob, name="openaigym.trace.3.99"):
    """A recording of version 1 or 0 made by hand: one episode of two steps whose members have these records."""
    header = {"episodes": [{key: {"__type": "ndarray", **record} for key, record in records.items()}]}
    manifest = {"batches": [{"first": 0, "len": 1, "fn": f"{name}.ep000000000.json"}]}
    (directory / f"{name}.manifest.json").write_text(json.dumps(manifest))
    (directory / f"{name}.ep000000000.json").write_text(json.dumps(header))
    (directory / f"{name}.ep000000000.bin").write_bytes(blob)
    return directory


def raw(dtype, shape, offset, size):
    """An array record of version 1."""
    place = {"npyfile": "openaigym.trace.3.99.ep000000000.bin", "npyoff": offset, "size": size}
    return {"shape": shape, "order": "C", "dtype": dtype, **place}


def read_one(directory):
    (one,) = TraceRecordingReader(directory)
    return plain([one.observations, one.actions, one.rewards])


OLD_BLOB = bytes.fromhex(
    "0000803f 00000000 01000000 00000000"  # observations: (x float32 1.0, 4 bytes of padding, n int64 1), ...
    "00000040 00000000 02000000 00000000"
    "00004040 00000000 03000000 00000000"
    "3f800000 40000000"  # actions: big-endian float32 1.0, 2.0
    "0000000000000840 00000000000010c0"  # rewards: float64 3.0, -4.0
)


@pytest.mark.parametrize(
    "dtype",
    [
        "{'names':['x','n'], 'formats':['<f4','<i8'], 'offsets':[0,8], 'itemsize':16, 'aligned':True}",  # NumPy of 2017
        "{'names': ['x', 'n'], 'formats': ['<f4', '<i8'], 'offsets': [0, 8], 'itemsize': 16}",
        "[('x', '<f4'), ('', '|V4'), ('n', '<i8')]",
    ],
)
def test_old_files_with_structured_and_big_endian_dtypes_are_read(dtype, tmp_path):
    records = {
        "observations": raw(dtype, [3], 0, 48),
        "actions": raw(">f4", [2], 48, 8),
        "rewards": raw("float64", [2], 56, 16),
    }
    padded = np.dtype({"names": ["x", "n"], "formats": ["<f4", "<i8"], "offsets": [0, 8], "itemsize": 16})
    expected = [np.array([(1, 1), (2, 2), (3, 3)], padded), np.array([1, 2], ">f4"), np.array([3.0, -4.0])]
    assert read_one(old_recording(tmp_path, records, OLD_BLOB)) == plain(expected)


def test_old_files_with_packed_structured_dtypes_are_read(tmp_path):
    records = {
        "observations": raw("[('p', [('x', '<f4')]), ('m', '<u2', (2,))]", [3], 0, 24),
        "actions": raw("[('x', '>i2'), ('name', '|S2')]", [2], 24, 8),
        "rewards": raw(">f8", [2], 32, 16),
    }
    blob = bytes.fromhex(
        "0000803f 0100 0200 00000040 0300 0400 00004040 0500 06000001 6162 fffe 63003ff0000000000000 c000000000000000"
    )
    expected = [
        np.array([((1,), (1, 2)), ((2,), (3, 4)), ((3,), (5, 6))], [("p", [("x", "<f4")]), ("m", "<u2", (2,))]),
        np.array([(1, b"ab"), (-2, b"c")], [("x", ">i2"), ("name", "S2")]),
        np.array([1.0, -2.0], ">f8"),
    ]
    assert read_one(old_recording(tmp_path, records, blob)) == plain(expected)


def npy(descr, fortran_order, shape, data, version=1):
    """A `.npy` file, byte by byte as it is described; `shape` as text, as Python 2 wrote it."""
    text = f"{{'descr': {descr}, 'fortran_order': {fortran_order}, 'shape': {shape}, }}\n".encode("latin1")
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + bytes.fromhex(data)


@pytest.mark.parametrize("version", [1, 2])
def test_version_0_is_read_whatever_the_npy_header_says(version, tmp_path):
    observations = npy("'<f4'", True, "(3, 2)", "0000803f 00004040 0000a040 00000040 00008040 0000c040", version)
    actions = npy("'>i2'", False, "(2,)", "0001 fffe", version)
    rewards = npy("[('x', '<f4'), ('n', 'u1')]", False, "(2,)", "0000803f 01 00000040 02", version)
    place = {"npyfile": "openaigym.trace.3.99.ep000000000.bin"}
    records = {
        "observations": {"shape": [3, 2], "dtype": "float32", "npyoff": 0, **place},
        "actions": {"shape": [2], "dtype": ">i2", "npyoff": len(observations), **place},
        "rewards": {
            "shape": [2],
            "dtype": "[('x', '<f4'), ('n', 'u1')]",
            "npyoff": len(observations) + len(actions),
            **place,
        },
    }
    expected = [
        np.array([[1, 2], [3, 4], [5, 6]], "float32"),
        np.array([1, -2], ">i2"),
        np.array([(1, 1), (2, 2)], [("x", "<f4"), ("n", "u1")]),
    ]
    assert read_one(old_recording(tmp_path, records, observations + actions + rewards)) == plain(expected)


def test_version_0_from_python_2_is_read_without_a_warning(tmp_path):
    array = npy("'<f8'", False, "(1L,)", "000000000000f03f")
    record = {"shape": [1], "dtype": "float64", "npyoff": 0, "npyfile": "openaigym.trace.3.99.ep000000000.bin"}
    text = {"episodes": [{"observations": ["a", "b"], "actions": {"__type": "ndarray", **record}, "rewards": [1.5]}]}
    old_recording(tmp_path, {}, array)
    (tmp_path / "openaigym.trace.3.99.ep000000000.json").write_text(json.dumps(text))
    assert read_one(tmp_path) == plain([["a", "b"], np.array([1.0]), [1.5]])


def test_old_steps_before_the_first_reset_are_an_episode_without_a_first_observation(tmp_path):
    records = {key: raw("float64", [2], 16 * i, 16) for i, key in enumerate(("observations", "actions", "rewards"))}
    (one,) = TraceRecordingReader(old_recording(tmp_path, records, bytes(48)))
    assert (one.headless, len(one), len(one.observations)) == (True, 2, 2)


def test_old_arrays_that_no_multiple_of_their_size_precedes_are_read(tmp_path):
    records = {
        "observations": raw("<f4", [2], 1, 8),
        "actions": raw("<f8", [1], 9, 8),
        "rewards": raw("<i2", [1], 17, 2),
    }
    blob = b"x" + struct.pack("<ffdh", 0.5, -1.5, 2.5, -7)
    (one,) = TraceRecordingReader(old_recording(tmp_path, records, blob))
    assert (one.observations.tolist(), one.actions.tolist(), one.rewards.tolist()) == ([0.5, -1.5], [2.5], [-7])


# ---- any value, any bytes

any_int = (
    st.integers() | st.integers(-(2**64), 2**64) | st.sampled_from([2**53, 2**53 + 1, 2**63, -(2**63) - 1, 1 << 4096])
)
any_text = st.text(st.characters()) | st.text(st.characters(categories=["Cs"]) | st.just("a"))
any_dtype = hnp.scalar_dtypes() | hnp.unicode_string_dtypes() | hnp.byte_string_dtypes()
any_dtype = any_dtype | hnp.array_dtypes(allow_subarrays=True) | hnp.nested_dtypes(max_leaves=4)
any_array = any_dtype.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
any_scalar = hnp.scalar_dtypes().flatmap(lambda dtype: hnp.arrays(dtype, (1,))).map(lambda array: array[0])
any_number = any_int | st.floats() | st.complex_numbers() | st.booleans() | any_scalar
any_leaf = any_number | any_text | st.none() | any_array | st.binary(max_size=3) | st.just(np.array([None]))
any_key = (
    st.text(max_size=3) | any_text | st.integers(-3, 3) | st.floats() | st.none() | st.just("__type") | st.tuples()
)
any_value = st.recursive(
    any_leaf,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.tuples(inner)
        | st.dictionaries(st.sampled_from("ab") | any_key, inner, max_size=3)
    ),
    max_leaves=8,
)
alike_rows = any_leaf.flatmap(lambda leaf: st.lists(st.just(leaf) | any_leaf, min_size=1, max_size=4))
number_rows = st.lists(
    any_number | st.integers(-3, 3) | st.sampled_from([0.5, np.float64(1.5), np.int64(2)]), min_size=1
)


def canonical(value):
    """A value as one that stands in a list is read back: arrays little-endian, no 0-d arrays, no mappings but dicts."""
    if isinstance(value, np.str_):
        return str(value)
    if isinstance(value, (np.void, np.bytes_)):
        value = np.asarray(value)
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value, value.dtype.newbyteorder("<"))
        return array if array.ndim or array.dtype.names or array.dtype.kind in "SU" else array[()]
    if isinstance(value, (list, tuple)):
        return type(value)(map(canonical, value))
    if isinstance(value, dict):
        return {key: canonical(item) for key, item in value.items()}
    if isinstance(value, complex) or (isinstance(value, float) and not np.isfinite(value)):
        return np.asarray(value)[()]
    return value


def comparable(value):
    """Numbers to which stacking gives another type but no other value are the same, and dicts in another order."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(comparable, value))
    if isinstance(value, dict):
        return {key: comparable(value[key]) for key in sorted(value, key=repr)}
    if type(value) in (int, np.int64):
        return np.float64(value) if abs(int(value)) <= 2**53 else int(value)
    return {bool: np.bool_, float: np.float64}.get(type(value), lambda same: same)(value)


def row(rows, index):
    """One row of a member, as a plain value."""
    if isinstance(rows, DictColumns):
        return {key: row(column, index) for key, column in rows.items()}
    if isinstance(rows, TupleColumns):
        return tuple(row(column, index) for column in rows.columns)
    if isinstance(rows, np.ndarray):  # without NumPy's scalars, which lose NULs at the end of text
        return canonical(rows[index : index + 1].reshape(rows.shape[1:]))
    return rows[index]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A function that gives one directory again and again, empty."""
    directory = tmp_path_factory.mktemp("fresh")

    def fresh():
        for path in directory.iterdir():
            path.unlink()
        return directory

    return fresh


@given(
    rows=st.lists(any_value, min_size=1, max_size=3) | alike_rows | number_rows, options=st.sampled_from([{}, STREAMED])
)
@settings(max_examples=400)
def test_any_values_come_back_equal_or_are_refused(fresh, rows, options):
    kept = []
    with TraceRecording(fresh(), durability="none", **options) as recording:
        for value in rows:
            try:
                recording.add_step(value, 0, 0.0)
            except TraceError as error:
                assert str(error).startswith("actions")
            else:
                kept.append(value)
    read = [row(one.actions, t) for one in TraceRecordingReader(recording.directory) for t in range(len(one))]
    assert plain(comparable(read)) == plain([comparable(canonical(value)) for value in kept])


@given(value=any_value)
@settings(max_examples=200)
@pytest.mark.filterwarnings("ignore:the options are not recorded")
def test_any_options_come_back_exactly_or_not_at_all(fresh, value):
    with TraceRecording(fresh(), durability="none") as recording:
        recording.add_reset(0, options={"value": value})
    (read,) = TraceRecordingReader(recording.directory)
    assert read.options is None or plain(read.options) == plain({"value": canonical(value)})


BLOB_NAME = "openaigym.trace.3.99.ep000000000.bin"


def contents(directory):
    return {path.name: path.read_bytes() for path in sorted(Path(directory).glob("openaigym.*"))}


FRAME = np.zeros((2, 2, 3), "uint8")


@functools.lru_cache(maxsize=None)
def documents():
    """Recordings of versions 2, 1 and 0, as `{name: bytes}`."""
    with TemporaryDirectory() as directory:
        with TraceRecording(directory, durability="none", infos=True, timestamps=True, frames=True) as recording:
            for name in (
                "dicts",
                "tuples in tuples",
                "lists of arrays",
                "structured arrays",
                "dicts with keys of all types",
            ):
                recording.add_reset(0, seed=3, options={"a": (1, np.zeros(2))}, info={"key": 1}, frame=FRAME)
                for value in KINDS[name].rows():
                    recording.add_step(value, value, 0.5, terminated=False, truncated=True, info={"other": value})
        ours = contents(directory)
    golden = ("dict_spaces", "tuple_spaces", "two_recordings", "v0_cartpole")
    return [ours, contents(DATA / "version_2"), *[contents(DATA / "golden" / name) for name in golden]]


# Documents of recordings of all versions, each with one change or a few, and their checksums made right again.

json_words = [
    "ndarray",
    "tuple",
    "dict",
    "float64",
    "<U3",
    "bfloat16",
    "C",
    "F",
    "[('a', '<i4')]",
    "rewards",
    BLOB_NAME,
]
json_keys = ["__type", "items", "shape", "dtype", "size", "key", "rows", "values", "npyfile", "npyoff", "view"]
any_json = st.none() | st.booleans() | any_int | st.floats(allow_nan=False, allow_infinity=False) | any_text
any_json = any_json | st.sampled_from(json_words)
for _ in range(3):
    any_json = (
        any_json | st.lists(any_json, max_size=3) | st.dictionaries(st.sampled_from(json_keys), any_json, max_size=3)
    )


def places_in(tree):
    """Every (container, key) of a JSON value."""
    keys = tree.keys() if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    return [place for key in keys for place in [(tree, key), *places_in(tree[key])]]


@st.composite
def changed(draw):
    """The bytes of all files of a recording, one JSON document of it changed."""
    files = dict(draw(st.sampled_from(documents())))
    name = draw(st.sampled_from(sorted(name for name in files if name.endswith(".json"))))
    tree = json.loads(files[name])
    for _ in range(draw(st.integers(1, 3))):
        places = places_in(tree)
        if not places:
            break
        (container, key), (other, its_key) = (places[draw(st.integers(0, len(places) - 1))] for _ in range(2))
        kind = draw(st.sampled_from(["deleted", "replaced", "replaced", "as another"]))
        if kind == "deleted":
            del container[key]
        else:
            container[key] = draw(any_json) if kind == "replaced" else json.loads(json.dumps(other[its_key]))
    body = {key: value for key, value in tree.items() if key not in ("format", "crc32")}
    files[name] = write_document(json.dumps(body)[1:-1]) if "format" in tree else json.dumps(tree).encode()
    return files


@st.composite
def cut_or_overwritten(draw):
    """The bytes of all files of a recording, some bytes of one changed, or its end missing."""
    files = dict(draw(st.sampled_from(documents())))
    name = draw(st.sampled_from(sorted(files)))
    start = draw(st.integers(0, len(files[name])))
    inserted = draw(st.binary(max_size=8))
    end = draw(st.sampled_from([start, start + len(inserted), start + 1, len(files[name])]))
    files[name] = files[name][:start] + inserted + files[name][end:]
    return files


@st.composite
def random_bytes(draw):
    """The files of a recording, one of them with any content."""
    files = dict(draw(st.sampled_from(documents())))
    files[draw(st.sampled_from(sorted(files)))] = draw(
        st.binary() | any_json.map(lambda tree: json.dumps(tree).encode())
    )
    return files


@given(files=changed() | cut_or_overwritten() | random_bytes())
@settings(max_examples=400)
def test_any_bytes_are_read_or_refused_with_a_trace_error(fresh, files):
    directory = fresh()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    for attempt in (
        lambda: list(TraceRecordingReader(directory)),
        lambda: list(TraceRecordingReader(directory, verify=True, mmap=False)),
        lambda: TraceRecordingReader(directory).get_recorded_batches(),
    ):
        try:
            attempt()
        except TraceError as error:
            assert str(error)
    skipping = TraceRecordingReader(directory, on_error="skip")
    for one in skipping:
        plain([one.observations, one.actions, one.rewards, one.infos, one.timestamps, one.options])
