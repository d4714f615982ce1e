"""`check_recording`: a right recording has no problem; every broken rule of the format is one line that names it."""

import json
import re
import shutil
import tempfile
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from cases import CASES
from conftest import DATA
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_recording import TraceRecording
from gym_recording.check import Report, check_recording
from gym_recording.format import write_document

TIME = "UTC, ISO 8601, as 2026-01-31T12:00:00.000000Z"


def make_recording(directory):
    """Two batches, of two episodes and of one, with every kind of array: rows of 5 bytes, of 0 bytes, loose ones."""
    with TraceRecording(directory, buffer_batch_size=3, durability="none", infos=True, timestamps=True) as recording:
        for steps in (2, 1, 2):
            observation = {"image": np.full(5, 7, "uint8"), "none": np.empty(0), "pair": (np.float32(1), "text")}
            recording.add_reset(observation, seed=3, options={"start": np.arange(3)}, info={"k": 1})
            for step in range(steps):
                flags = {"terminated": step == steps - 1, "truncated": False}
                recording.add_step(step, observation, 1.5, info={"list": [np.ones(2)]}, **flags)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    directory = tmp_path_factory.mktemp("template")
    make_recording(directory)
    return directory


@pytest.fixture
def recording(template, tmp_path):
    directory = tmp_path / "recording"
    shutil.copytree(template, directory)
    return Recording(directory)


class Recording:
    """A recording to be damaged: its files, and edits after which the checksums are right."""

    NAMES = ("manifest", "header2", "header", "blob2", "blob")

    def __init__(self, directory):
        self.directory = directory
        (self.manifest,) = directory.glob("*.manifest.json")
        self.header, self.header2 = sorted(directory.glob("*.ep*.json"))
        self.blob, self.blob2 = sorted(directory.glob("*.bin"))
        self.trace = self.manifest.name[: -len(".manifest.json")]

    def lines(self, report=None):
        """The problems, with short names for the files, and X for a checksum."""
        text = "\n".join(map(str, check_recording(self.directory, report)))
        for name in self.NAMES:
            text = text.replace(getattr(self, name).name, name.upper())
        return re.sub(r"\b[0-9a-f]{8}\b", "X", text.replace(self.trace, "TRACE")).splitlines()

    @staticmethod
    def read(file):
        return json.loads(file.read_bytes())

    @staticmethod
    def write(file, document):
        body = {key: value for key, value in document.items() if key not in ("format", "crc32")}
        file.write_bytes(write_document(json.dumps(body)[1:-1]))

    @classmethod
    def edit(cls, file, *keys, **members):
        """Sets members of the object at `keys`; one that is None is removed."""
        document = part = cls.read(file)
        for key in keys:
            part = part[key]
        part.update(members)
        for key in [key for key, value in members.items() if value is None]:
            del part[key]
        cls.write(file, document)

    def edit_blob(self, change):
        """Changes the bytes of the first blob, and their number and checksum in its header."""
        data = bytearray(self.blob.read_bytes())
        change(data)
        self.blob.write_bytes(data)
        self.edit(self.header, "blobs", 0, size=len(data), crc32=f"{crc32(data):08x}")

    def column(self, *path):
        """The number and the record of a column of the first batch."""
        columns = enumerate(self.read(self.header)["columns"])
        return next((number, column) for number, column in columns if column["path"] == list(path))


# ---- what is right


def test_a_right_recording_has_no_problem_and_everything_is_counted(recording):
    report = Report()
    assert recording.lines(report) == []
    assert (report.traces, report.batches, report.episodes, report.notes) == (1, 2, 3, [])


def test_what_the_recorder_writes_is_right_whatever_the_values(record):
    assert check_recording(record(*CASES.values())) == []
    assert check_recording(record(*CASES.values(), infos=True, timestamps=True, buffer_batch_size=1)) == []


@pytest.mark.parametrize("name", ["cartpole", "dict_spaces", "null_episodes", "two_recordings", "v0_cartpole"])
def test_recordings_of_the_original_are_right(name):
    report = Report()
    assert check_recording(DATA / "golden" / name, report) == []
    assert report.notes == []
    assert report.episodes > 0


def test_episodes_that_are_streamed_are_right_whatever_the_values(record):
    assert check_recording(record(*CASES.values(), timestamps=True, batch_bytes=1)) == []


def test_an_episode_that_is_streamed_is_right_while_it_runs_and_changes(tmp_path):
    with TraceRecording(tmp_path, infos=True, batch_bytes=500, durability="none") as recording:
        recording.add_reset({"image": np.zeros(100, "uint8"), "list": [np.ones(2), np.float32(3), np.float32(3)]})
        for step in range(50):
            observation = {"image": np.zeros(100, "uint8"), "list": [np.full(2, step), float("nan")]}
            recording.add_step(step, observation if step < 30 else [observation], 1.0, info={"loose": [np.ones(3)]})
            recording.save_complete()
            assert check_recording(tmp_path) == []
    assert len(list(tmp_path.glob("*.ep000000000.*.bin"))) > 2
    assert check_recording(tmp_path) == []


def test_damage_of_a_streamed_episode_is_found(tmp_path):
    with TraceRecording(tmp_path, batch_bytes=500) as recording:
        recording.add_reset(np.zeros(8192, "uint8"))
        for _ in range(10):
            recording.add_step(1, np.zeros(8192, "uint8"), 1.0)
    blob = max(tmp_path.glob("*.bin"), key=lambda path: path.stat().st_size)
    blob.write_bytes(blob.read_bytes()[:-1] + b"1")
    (problem,) = check_recording(tmp_path)
    assert (problem.file, problem.field, problem.problem) == (blob.name, "crc32", "damaged")


def test_flags_of_an_episode_without_a_step_are_a_problem(tmp_path):
    with TraceRecording(tmp_path) as recording:
        recording.add_reset(1)
    (header,) = tmp_path.glob("*.ep*.json")
    Recording.edit(header, "episodes", 0, terminated=False)
    (problem,) = check_recording(tmp_path)
    assert (problem.file, problem.field) == (header.name, "episodes[0].terminated")


def test_a_directory_without_a_recording_has_no_problem_and_other_files_are_left_alone(tmp_path):
    for name in ("notes.txt", "openaigym.trace.1.2-0123456789ab.notes", "openaigym.trace.1-0123456789ab.lock"):
        (tmp_path / name).write_text("mine")
    report = Report()
    assert check_recording(str(tmp_path), report) == []
    assert report == Report()


def test_a_missing_directory_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        check_recording(tmp_path / "missing")


# ---- what is no problem and yet worth a note


def test_leftovers_of_a_crash_are_notes(recording):
    temporary = recording.directory / f".{recording.blob.name}.0123456789ab.tmp"
    temporary.write_bytes(b"half")
    uncommitted = recording.directory / f"{recording.trace}.ep000000003.bin"
    uncommitted.write_bytes(b"whole")
    report = Report()
    assert recording.lines(report) == []
    assert [note.partition(":")[0] for note in report.notes] == [temporary.name, uncommitted.name]


def test_a_trace_that_is_not_closed_is_a_note(recording):
    recording.edit(recording.manifest, closed=None, batches=[])
    report = Report()
    assert recording.lines(report) == []
    assert report.notes == [f"{recording.manifest.name}: not closed: still being recorded, or left by a crash"]


def test_an_absent_manifest_is_a_note(recording):
    recording.manifest.unlink()
    report = Report()
    assert recording.lines(report) == []
    assert [note.partition(":")[0] for note in report.notes] == [recording.manifest.name]
    assert (report.traces, report.batches, report.episodes) == (1, 2, 3)


# ---- what is wrong: every way, and all that is said of it


DAMAGES = {}


def damage(*expected):
    """Enters a way to damage a recording, and the lines that must come of it."""

    def enter(function):
        DAMAGES[function.__name__] = (function, list(expected))
        return function

    return enter


@damage("MANIFEST: not valid JSON: Expecting value: line 1 column 1 (char 0)")
def manifest_is_no_json(r):
    r.manifest.write_bytes(b"hello")


@damage("MANIFEST: crc32: damaged (expected X, found X)")
def manifest_of_other_bytes(r):
    r.manifest.write_bytes(r.manifest.read_bytes().replace(b'"len": 2', b'"len": 3'))


@damage("MANIFEST: format: not of the version that its name says (found version 1)")
def manifest_without_format(r):
    document = r.read(r.manifest)
    del document["format"], document["crc32"]
    r.manifest.write_text(json.dumps(document))


@damage("MANIFEST: batches[1].first: malformed (expected 2, found 1)")
def manifest_with_another_first(r):
    r.edit(r.manifest, "batches", 1, first=1)


@damage("MANIFEST: batches[1].first: malformed (expected 2, found None)")
def manifest_without_first(r):
    r.edit(r.manifest, "batches", 1, first=None)


@damage("MANIFEST: batches: not in order")
def manifest_out_of_order(r):
    r.edit(r.manifest, batches=r.read(r.manifest)["batches"][::-1])


@damage("HEADER2: not the episodes that the manifest lists (expected 2, found 1)")
def manifest_with_another_len(r):
    r.edit(r.manifest, "batches", 1, len=2)


@damage("MANIFEST: batches: closed, and yet a batch is not listed (expected HEADER2)")
def manifest_closed_without_a_batch(r):
    r.edit(r.manifest, batches=r.read(r.manifest)["batches"][:1])


@damage(f"MANIFEST: created: not a time (expected {TIME}, found '2026-02-31T12:00:00Z')")
def created_on_a_day_that_is_none(r):
    r.edit(r.manifest, created="2026-02-31T12:00:00Z")


@damage(f"MANIFEST: created: not a time (expected {TIME}, found '2026-01-31T12:00:00+01:00')")
def created_in_local_time(r):
    r.edit(r.manifest, created="2026-01-31T12:00:00+01:00")


@damage(f"MANIFEST: created: not a time (expected {TIME}, found None)")
def created_at_no_time(r):
    r.edit(r.manifest, created=None)


@damage("MANIFEST: writer: malformed (expected dict, found nothing)")
def written_by_nobody(r):
    r.edit(r.manifest, writer=None)


@damage("HEADER2: episodes 2..2 are missing (expected this header)")
def header_missing(r):
    r.header2.unlink()


@damage("HEADER: episodes 0..1 are missing (expected this header)")
def header_missing_and_not_listed(r):
    r.header.unlink()
    r.edit(r.manifest, closed=None, batches=[])


@damage("HEADER2: overlaps the batch before it (expected first 2)")
def batches_overlap(r):
    r.edit(r.manifest, closed=None, batches=[])
    text = r.header2.read_text().replace("ep000000002", "ep000000001")
    r.header2.unlink()
    r.header2 = r.directory / f"{r.trace}.ep000000001.json"
    r.blob2 = r.blob2.rename(r.directory / f"{r.trace}.ep000000001.bin")
    r.write(r.header2, {**json.loads(text), "first": 1})


@damage("HEADER: crc32: damaged (expected X, found X)")
def header_of_other_bytes(r):
    r.header.write_bytes(r.header.read_bytes().replace(b'"seed": 3', b'"seed": 4', 1))


@damage("HEADER: format: not of the version that its name says (found version 1)")
def header_without_format(r):
    r.header.write_text(json.dumps({"episodes": r.read(r.header)["episodes"]}))


@damage("HEADER: first: not the batch of this name (found 1)")
def header_with_another_first(r):
    r.edit(r.header, first=1)


@damage("BLOB: the blob is missing, and its episodes with it")
def blob_missing(r):
    r.blob.unlink()


@damage("BLOB: cannot be opened (expected a regular file)")
def blob_that_is_a_directory(r):
    r.blob.unlink()
    r.blob.mkdir()


@damage("BLOB: crc32: damaged (expected X, found X)")
def blob_of_other_bytes(r):
    _, column = r.column("rewards")
    data = bytearray(r.blob.read_bytes())
    data[column["npyoff"]] ^= 1
    r.blob.write_bytes(data)


@damage("BLOB: too long (expected 2576 bytes, found 2580 bytes)")
def blob_longer_than_stated(r):
    r.blob.write_bytes(r.blob.read_bytes() + b"more")


@damage(
    "BLOB: cut short (expected 2576 bytes, found 2560 bytes)",
    "BLOB: episodes[1].infos.list.values[0][0]: the array is not wholly there (expected 2576 bytes, found 2560 bytes)",
)
def blob_cut_short(r):
    r.blob.write_bytes(r.blob.read_bytes()[:-16])


@damage("HEADER: blobs.fn: not a blob of this batch (found TRACE.ep000000007.bin)")
def blob_of_another_name(r):
    name = r.blob.name.replace("ep000000000", "ep000000007")
    r.write(r.header, json.loads(r.header.read_text().replace(r.blob.name, name)))
    r.blob.rename(r.directory / name)


@damage("HEADER: columns[0]: malformed (expected __type ndarray, order C, found 'column 0')")
def column_that_is_no_record(r):
    r.edit(r.header, columns=["column 0", *r.read(r.header)["columns"][1:]])


@damage(
    "HEADER: columns[0]: malformed (expected __type ndarray, order C, found {'__type': 'ndarray', 'shape': [10, 5]})"
)
def column_without_order(r):
    r.edit(r.header, "columns", 0, order=None, dtype=None, npyfile=None, npyoff=None, size=None, npyhdr=None, path=None)


@damage("HEADER: columns[0].size: malformed (expected int, found nothing)")
def column_as_in_version_0(r):
    r.edit(r.header, "columns", 0, size=None)


@damage("HEADER: columns[0].npyfile: not a blob of this batch (found BLOB2)")
def column_in_another_blob(r):
    r.edit(r.header, "columns", 0, npyfile=r.blob2.name)


@damage("HEADER: columns[0].npyhdr: malformed (expected int, found nothing)")
def column_without_npyhdr(r):
    r.edit(r.header, "columns", 0, npyhdr=None)


@damage("HEADER: columns[0].npyhdr: not the .npy header of this array, ending at its data (found 64)")
def npyhdr_elsewhere(r):
    r.edit(r.header, "columns", 0, npyhdr=64)


@damage("HEADER: columns[0].npyhdr: not the .npy header of this array, ending at its data (found 0)")
def npy_header_written_otherwise(r):
    def change(data):
        data[:128] = data[:128].replace(b"'fortran_order': False", b"'fortran_order':False ")

    r.edit_blob(change)


@damage("HEADER: columns[0].npyoff: not aligned (expected a multiple of 64, found 133)")
def column_not_aligned(r):
    r.edit(r.header, "columns", 0, npyoff=133, shape=[9, 5], size=45)


@damage("HEADER: columns[0].path: malformed (expected list, found nothing)")
def column_without_path(r):
    r.edit(r.header, "columns", 0, path=None)


@damage("HEADER: columns[0].path: malformed (expected the path of a leaf, and an array of rows)")
def column_of_a_path_that_is_none(r):
    r.edit(r.header, "columns", 0, path=["observations", ["image"]])


@damage("HEADER: columns[0].dtype: not little-endian (found >f8)")
def column_big_endian(r):
    number, column = r.column("rewards")
    columns = r.read(r.header)["columns"]
    columns[0], columns[number] = {**column, "dtype": ">f8"}, columns[0]
    at = r.blob.read_bytes().index(b"<f8", column["npyhdr"])
    r.edit_blob(lambda data: data.__setitem__(slice(at, at + 3), b">f8"))
    r.edit(r.header, columns=columns)


@damage("HEADER: columns[5].path: its path, dtype and row shape are those of another")
def the_same_column_twice(r):
    number, _ = r.column("timestamps")
    r.edit(r.header, "columns", number, path=["rewards"])


@damage(
    "BLOB: bytes 0 to 192: of no array (expected at most 63 zeros)",
    "HEADER: columns[1]: begins before columns[0] ends (expected 320, found 0)",
)
def columns_out_of_order(r):
    columns = r.read(r.header)["columns"]
    r.edit(r.header, columns=[columns[1], columns[0], *columns[2:]])


def _episode(number, *keys):
    return ("episodes", number, *keys)


@damage("HEADER: episodes[1].rewards: in no column of its path and kind (found float64(1,) at 1024)")
def rows_in_the_column_of_another_path(r):
    _, column = r.column("timestamps")
    r.edit(r.header, *_episode(1, "rewards"), npyoff=column["npyoff"])


@damage("HEADER: episodes[0].rewards: in no column of its path and kind (found int64(2,) at 832)")
def rows_of_another_dtype(r):
    r.edit(r.header, *_episode(0, "rewards"), dtype="int64")


@damage("HEADER: episodes[1].observations.image: in no column of its path and kind (found uint8(2, 5) at 136)")
def rows_that_begin_in_the_middle_of_a_row(r):
    r.edit(r.header, *_episode(1, "observations", "image"), npyoff=136)


@damage("HEADER: episodes[1].observations.image.npyoff: not aligned (expected a multiple of 8, found 133)")
def rows_not_aligned(r):
    r.edit(r.header, *_episode(1, "observations", "image"), npyoff=133)


@damage(
    "HEADER: episodes[1].rewards: begins before episodes[0].rewards ends (expected 848, found 840)",
    "BLOB: bytes 848 to 856: of no array (expected at most 0 zeros)",
)
def rows_shared_by_episodes(r):
    r.edit(r.header, *_episode(1, "rewards"), npyoff=840)


@damage("HEADER: episodes[0].infos.k.rows: in no column of its path and kind (found int64(0,) at 8)")
def no_rows_elsewhere(r):
    record = r.read(r.header)["episodes"][0]["infos"][0]["rows"]
    none = {**record, "shape": [0], "size": 0, "npyoff": 8}
    r.edit(r.header, *_episode(0, "infos", 0), rows=none, values=[])


@damage("HEADER: episodes[0].infos.list.rows: not ascending (found [2, 1])")
def infos_out_of_order(r):
    record = r.read(r.header)["episodes"][0]["infos"][1]["rows"]
    at = record["npyoff"]
    r.edit_blob(lambda data: data.__setitem__(slice(at, at + 16), np.array([2, 1]).tobytes()))


@pytest.fixture
def filmed(tmp_path):
    """An episode with frames of two sizes, at rows 0 and 2, and at row 1."""
    with TraceRecording(tmp_path / "filmed", frames=True, durability="none") as recording:
        recording.add_reset(0, frame=np.zeros((2, 2), "uint8"))
        for height in (3, 2):
            recording.add_step(0, 0, 0.0, frame=np.zeros((height, 2), "uint8"))
    recording = Recording.__new__(Recording)
    recording.directory = tmp_path / "filmed"
    (recording.header,), (recording.blob,) = (list(recording.directory.glob(kind)) for kind in ("*.ep*.json", "*.bin"))
    return recording


def test_rows_of_frames_that_are_not_in_order_are_found(filmed):
    assert check_recording(filmed.directory) == []
    at = filmed.read(filmed.header)["episodes"][0]["frames"][0]["rows"]["npyoff"]
    filmed.edit_blob(lambda data: data.__setitem__(slice(at, at + 16), np.array([2, 0]).tobytes()))
    (problem,) = check_recording(filmed.directory)
    assert str(problem) == f"{filmed.header.name}: episodes[0].frames[0].rows: not ascending (found [2, 0])"


def test_two_frames_of_a_row_are_found(filmed):
    at = filmed.read(filmed.header)["episodes"][0]["frames"][1]["rows"]["npyoff"]
    filmed.edit_blob(lambda data: data.__setitem__(slice(at, at + 8), np.array([2]).tobytes()))
    (problem,) = check_recording(filmed.directory)
    assert str(problem) == f"{filmed.header.name}: episodes[0].frames[1].rows: a row stands twice (found 2)"


@damage("BLOB: bytes 143 to 168: of no array (expected at most 35 zeros)")
def skipped_rows_not_zero(r):
    r.edit_blob(lambda data: data.__setitem__(150, 1))


@damage("BLOB: bytes 178 to 192: of no array (expected at most 63 zeros)")
def padding_behind_a_column_not_zero(r):
    r.edit_blob(lambda data: data.__setitem__(180, 1))


@damage("BLOB: bytes 2576 to 2640: of no array (expected at most 63 zeros)")
def bytes_that_nothing_refers_to(r):
    r.edit_blob(lambda data: data.extend(bytes(64)))


@damage("HEADER: episodes[0].options.start.npyhdr: malformed (expected int, found nothing)")
def loose_array_without_npyhdr(r):
    r.edit(r.header, *_episode(0, "options", "start"), npyhdr=None)


@damage("HEADER: episodes[0].options.start.size: wrong size (expected 16, found 24)")
def array_of_another_size(r):
    r.edit(r.header, *_episode(0, "options", "start"), shape=[2])


@damage("HEADER: episodes[0].actions: wrong number of rows (expected 2, found 1)")
def episode_without_its_last_action(r):
    r.edit(r.header, *_episode(0, "actions"), shape=[1], size=8)


@damage("HEADER: episodes[0].ended_by: malformed (expected one of ['terminated'], found close)")
def ended_by_close_and_yet_terminated(r):
    r.edit(r.header, *_episode(0), ended_by="close")


@damage("HEADER: episodes[0].ended_by: malformed (expected one of ['truncated'], found terminated)")
def ended_by_the_other_flag(r):
    r.edit(r.header, *_episode(0), terminated=False, truncated=True)


@damage("HEADER: episodes[0].ended_by: malformed (expected one of ['reset', 'close', 'crash'], found terminated)")
def ended_by_a_flag_that_is_not_true(r):
    r.edit(r.header, *_episode(0), terminated=False)


@damage("HEADER: episodes[0].ended_by: malformed (expected one of ['terminated'], found None)")
def ended_by_nothing_and_yet_terminated(r):
    r.edit(r.header, *_episode(0), ended_by=None)


@damage("HEADER: episodes[0].ended_by: malformed (found 'boredom')")
def ended_by_boredom(r):
    r.edit(r.header, *_episode(0), ended_by="boredom")


@damage(f"HEADER: episodes[0].started: malformed (expected {TIME}, found 'today')")
def started_at_no_time(r):
    r.edit(r.header, *_episode(0), started="today")


@damage(
    "HEADER: episodes[0].timestamps: malformed (expected float64, (2,), found ('float64', (1,)))",
    "BLOB: bytes 1032 to 1040: of no array (expected at most 0 zeros)",
)
def too_few_timestamps(r):
    r.edit(r.header, *_episode(0, "timestamps"), shape=[1], size=8)


@damage("HEADER: episodes[0].gaps: malformed (expected ascending, below 2, found [2])")
def gap_after_the_end(r):
    r.edit(r.header, *_episode(0), gaps=[2])


@damage("HEADER: episodes[0].gaps: malformed (expected ascending, below 2, found [1, 0])")
def gaps_out_of_order(r):
    r.edit(r.header, *_episode(0), gaps=[1, 0])


@damage(
    "HEADER: episodes[0].seed: malformed (found 'one')",
    "HEADER: episodes[1].seed: malformed (found 'two')",
    "BLOB2: crc32: damaged (expected X, found X)",
)
def everything_at_once(r):
    r.edit(r.header, *_episode(0), seed="one")
    r.edit(r.header, *_episode(1), seed="two")
    r.blob2.write_bytes(r.blob2.read_bytes()[:-1] + b"!")


@pytest.mark.parametrize("name", DAMAGES)
def test_every_broken_rule_is_a_line(name, recording):
    function, expected = DAMAGES[name]
    function(recording)
    assert recording.lines() == expected


# ---- any damage


@pytest.fixture(scope="module")
def bytes_by_name(template):
    return {path.name: path.read_bytes() for path in template.iterdir()}


def problems_of(files):
    with tempfile.TemporaryDirectory() as directory:
        for name, data in files.items():
            Path(directory, name).write_bytes(data)
        return check_recording(directory)


@settings(max_examples=300)
@given(st.data())
def test_any_byte_that_changed_is_found(bytes_by_name, data):
    name = data.draw(st.sampled_from(sorted(bytes_by_name)))
    content = bytearray(bytes_by_name[name])
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    assert problems_of({**bytes_by_name, name: bytes(content)})


@settings(max_examples=100)
@given(st.data())
def test_any_file_that_is_cut_or_longer_is_found(bytes_by_name, data):
    name = data.draw(st.sampled_from(sorted(bytes_by_name)))
    content = bytes_by_name[name]
    end = data.draw(st.integers(0, len(content) - 1))
    assert problems_of({**bytes_by_name, name: content[:end]})
    assert problems_of({**bytes_by_name, name: content + content[end:]})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**65) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just("__type"), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300)
@given(st.data())
def test_any_json_in_any_place_of_a_document_is_checked_without_another_error(bytes_by_name, data):
    name = data.draw(st.sampled_from(sorted(name for name in bytes_by_name if name.endswith(".json"))))
    document = part = json.loads(bytes_by_name[name])
    while True:
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        key = data.draw(st.sampled_from(keys))
        if not (isinstance(part[key], (dict, list)) and part[key]) or data.draw(st.booleans()):
            break
        part = part[key]
    part[key] = data.draw(JSON)
    body = {key: value for key, value in document.items() if key not in ("format", "crc32")}
    problems = problems_of({**bytes_by_name, name: write_document(json.dumps(body)[1:-1])})
    assert all(len(str(problem)) < 1000 for problem in problems)
