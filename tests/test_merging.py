"""A merged directory holds every trace of its sources, byte for byte, and nothing twice."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import plain

from gym_recording import (
    MemoryDirectory,
    MissingEpisodesError,
    TraceError,
    TraceRecording,
    TraceRecordingReader,
    merge,
)
from gym_recording.check import check_recording

GOLDEN = Path(__file__).parent / "data" / "golden"


def record(directory, *numbers, **options):
    with TraceRecording(directory, durability="none", **options) as recording:
        for number in numbers:
            recording.add_reset(np.full(3, number, "float32"))
            recording.add_step(number, np.zeros(3, "float32"), 1.0)
    return directory


def contents(directory):
    return {path.name: path.read_bytes() for path in Path(directory).iterdir() if path.name.startswith("openaigym")}


def numbers(directory):
    return [int(episode.actions[0]) for episode in TraceRecordingReader(directory)]


def test_traces_are_copied_byte_for_byte(tmp_path):
    a, b, c = (tmp_path / name for name in "abc")
    record(a, 0, 1, buffer_batch_size=0)
    record(a, 2)
    record(b, 3)
    record(c, 4)
    merged = merge([a, b], c)
    assert contents(c).items() >= {**contents(a), **contents(b)}.items()
    assert len(merged.copied) == 3 and merged.present == [] and merged.renamed == {}
    assert numbers(c) == [0, 1, 2, 3, 4]
    assert list(check_recording(c)) == []
    before = contents(c)
    again = merge([b, a, c], c)
    assert (again.copied, len(again.present)) == ([], 4)
    assert contents(c) == before


@pytest.mark.parametrize("done", range(9))
def test_a_merge_that_was_cut_off_is_finished_by_the_same_merge(tmp_path, done):
    source, copy = record(tmp_path / "a", 0, 1, buffer_batch_size=0), tmp_path / "b"
    record(source, 2)
    whole = contents(source)
    order = sorted(
        whole, key=lambda name: (int(name.split(".")[2]), not name.endswith(".bin"), "manifest" in name, name)
    )
    copy.mkdir()
    for name in order[:done]:
        shutil.copy(source / name, copy)
        assert sorted(numbers(copy)) == [0, 1, 2][: len(TraceRecordingReader(copy))]
    merge([source], copy)
    assert contents(copy) == whole
    assert numbers(copy) == [0, 1, 2]


def test_a_blob_comes_before_its_header_and_the_manifest_last(tmp_path):
    source = record(tmp_path / "a", 0, 1, buffer_batch_size=0)
    copy = MemoryDirectory()
    merge([source], copy)
    kinds = ["manifest" if "manifest" in name else name[-4:] for name in copy.files]
    assert kinds == [".bin", ".bin", "json", "json", "manifest"]


def test_other_files_are_left_where_they_are(tmp_path):
    source = record(tmp_path / "a", 0)
    trace = TraceRecordingReader(source).traces[0].name
    for name in ("notes.txt", f".{trace}.manifest.json.0123456789ab.tmp", "openaigym.trace.1-0123456789ab.lock"):
        (source / name).write_text("{}")
    (source / f"{trace}.ep000000007.bin").write_bytes(b"of a commit that came to nothing")
    merge([source], tmp_path / "b")
    assert sorted(os.listdir(tmp_path / "b")) == sorted(
        [f"{trace}.ep000000000.bin", f"{trace}.ep000000000.json", f"{trace}.manifest.json"]
    )


def test_memory_is_merged_too(tmp_path):
    source = record(MemoryDirectory(), 0, 1)
    merge([source], tmp_path)
    assert contents(tmp_path) == source.files
    copy = MemoryDirectory()
    merge([tmp_path, source], copy)
    assert copy.files == source.files


def test_a_streamed_episode_is_copied(tmp_path):
    with TraceRecording(tmp_path / "a", flush_interval=0, durability="none") as recording:
        recording.add_reset(0)
        for number in range(10):
            recording.add_step(number, number, 0.5)
    merge([tmp_path / "a"], tmp_path / "b")
    assert contents(tmp_path / "b") == contents(tmp_path / "a")
    assert list(check_recording(tmp_path / "b")) == []


# ---- what is refused: all before anything is copied


def refused(sources, copy, error=TraceError, match=None):
    with pytest.raises(error, match=match):
        merge(sources, copy)
    assert not copy.exists() or contents(copy) == {}


def test_a_source_that_is_not_there_or_empty(tmp_path):
    good, empty, copy = record(tmp_path / "a", 0), tmp_path / "e", tmp_path / "b"
    refused([good, empty], copy, FileNotFoundError)
    empty.mkdir()
    refused([good, empty], copy, match="nothing is recorded here")
    refused([good, MemoryDirectory()], copy, match="nothing is recorded here")


def test_one_directory_in_place_of_several(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record("a", 0)  # the letter of a path that nobody meant
    for source in ("a", b"a", tmp_path / "a", MemoryDirectory()):
        refused(source, tmp_path / "b", match="sources: malformed .expected a list of directories")


def test_a_source_that_is_still_written(tmp_path):
    good = record(tmp_path / "a", 0)
    recording = TraceRecording(tmp_path / "c")
    recording.add_reset(0)
    recording.end_episode()
    recording.save_complete()
    refused([good, tmp_path / "c"], tmp_path / "b", match="manifest.json: not finished: close its recorder, or, if tha")
    recording.close()
    merge([good, tmp_path / "c"], tmp_path / "b")
    assert len(TraceRecordingReader(tmp_path / "b")) == 2


def flip(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "error", "match"),
    [
        (lambda d: next(d.glob("*.ep*.bin")).unlink(), MissingEpisodesError, "the blob is missing"),
        (lambda d: next(d.glob("*.ep*.json")).unlink(), MissingEpisodesError, "are missing"),
        (lambda d: flip(next(d.glob("*.ep*.bin"))), TraceError, "crc32: damaged"),
        (lambda d: flip(next(d.glob("*.manifest.json"))), TraceError, "manifest.json: "),
    ],
)
def test_a_source_that_is_damaged(tmp_path, damage, error, match):
    good, bad = record(tmp_path / "a", 0), record(tmp_path / "c", 1)
    damage(bad)
    refused([good, bad], tmp_path / "b", error, match)


def test_two_different_files_of_one_name(tmp_path):
    source, copy = record(tmp_path / "a", 0), tmp_path / "b"
    shutil.copytree(source, copy)
    flip(next(copy.glob("*.ep*.bin")))
    before = contents(copy)
    with pytest.raises(TraceError, match=r"\.bin: another file of this name is there \(expected the same bytes\)"):
        merge([source], copy)
    with pytest.raises(TraceError, match="damaged"):
        merge([source, copy], tmp_path / "c")
    assert contents(copy) == before


# ---- recordings of 2017, whose names may clash


def old(directory, *numbers, pid=7):
    """A recording of version 1, with a NaN and text that looks like the name of a file."""
    directory.mkdir()
    trace = f"openaigym.trace.0.{pid}"
    (directory / f"{trace}.ep000000000.bin").write_bytes(np.array(numbers, "<i8").tobytes())
    record = {"__type": "ndarray", "order": "C", "dtype": "int64", "npyfile": f"{trace}.ep000000000.bin"}
    episodes = [
        {
            "observations": [
                f"{trace}.ep000000000.bin",
                {"batches": [{"fn": f"{trace}.x"}], "n": float("nan")},
            ],
            "actions": {**record, "shape": [1], "npyoff": 8 * place, "size": 8},
            "rewards": [1],
        }
        for place in range(len(numbers))
    ]
    (directory / f"{trace}.ep000000000.json").write_text(json.dumps({"episodes": episodes}))
    entry = {"first": 0, "len": len(numbers), "fn": f"{trace}.ep000000000.json"}
    (directory / f"{trace}.manifest.json").write_text(json.dumps({"batches": [entry]}))
    return directory


def test_an_old_trace_whose_name_is_taken_gets_another_number(tmp_path):
    a, b, c, copy = old(tmp_path / "a", 1, 2), old(tmp_path / "b", 3), old(tmp_path / "c", 4, pid=8), tmp_path / "d"
    merged = merge([a, b, c], copy)
    assert merged.renamed == {"openaigym.trace.0.7": "openaigym.trace.1.7"}
    assert merged.copied == ["openaigym.trace.0.7", "openaigym.trace.1.7", "openaigym.trace.0.8"]
    assert list(check_recording(copy)) == []
    assert sorted(numbers(copy)) == [1, 2, 3, 4]
    (found,), (expected,) = TraceRecordingReader(copy).select(trace="openaigym.trace.1.7"), TraceRecordingReader(b)
    assert plain(vars(found)) == plain(vars(expected))
    assert contents(copy).items() >= {**contents(a), **contents(c)}.items()
    before = contents(copy)
    for sources in ([a, b, c], [b], [c, b, a], [copy]):
        assert merge(sources, copy).copied == []
        assert contents(copy) == before


@pytest.mark.parametrize("done", range(4))
def test_a_merge_that_renames_is_finished_too(tmp_path, done):
    a, b, copy = old(tmp_path / "a", 1), old(tmp_path / "b", 2), tmp_path / "d"
    merge([a, b], copy)
    whole = contents(copy)
    order = [name for name in whole if name.startswith("openaigym.trace.1.")]
    for name in sorted(order, key=lambda name: (not name.endswith(".bin"), "manifest" in name))[done:]:
        (copy / name).unlink()
    merge([a, b], copy)
    assert contents(copy) == whole


def test_every_old_recording_is_merged_with_itself_under_another_name(tmp_path):
    sources = [path for path in sorted(GOLDEN.iterdir()) if list(path.glob("*.manifest.json"))]
    merge(sources, tmp_path / "all")
    assert len(TraceRecordingReader(tmp_path / "all")) == sum(len(TraceRecordingReader(path)) for path in sources)
    for source in sources:
        copy = tmp_path / source.name
        shutil.copytree(source, copy)
        for path in copy.glob("*.ep*.json"):  # the same, and yet not
            path.write_bytes(path.read_bytes() + b"\n")
        merged = merge([source], copy)
        assert len(merged.renamed) == len(merged.copied) > 0
        assert list(check_recording(copy)) == []
        reader = TraceRecordingReader(copy)
        for old_name, new_name in merged.renamed.items():
            one, other = reader.select(trace=old_name), reader.select(trace=new_name)
            assert [plain(vars(e)) for e in one] == [plain(vars(e)) for e in other]
            assert len(one) > 0


def test_a_trace_that_is_renamed_and_nests_too_deeply_for_this_python_is_an_error(tmp_path):
    a, b = old(tmp_path / "a", 1), old(tmp_path / "b", 2)
    (header,) = b.glob("*.ep*.json")
    text = header.read_text()
    header.write_text(text.rstrip()[:-1] + ', "more": ' + "[" * 700 + "]" * 700 + "}")
    assert len(TraceRecordingReader(b)) == 1
    try:
        merge([a, b], tmp_path / "c")
    except TraceError as error:  # before Python 3.12, a comprehension is a call
        assert "ep000000000.json: the JSON nests too deeply" in str(error)
        assert not (tmp_path / "c").exists()
    else:
        assert sys.version_info >= (3, 12)
        assert len(TraceRecordingReader(tmp_path / "c")) == 2


class Counting(MemoryDirectory):
    """Counts how often it is listed."""

    looks = 0

    @property
    def files(self):
        self.looks += 1
        return super().files


def test_the_destination_is_listed_once_however_many_traces_there_are():
    looks = []
    for traces in (1, 10):
        source, copy = MemoryDirectory(), Counting()
        for number in range(traces):
            record(source, number)
        merge([source], copy)
        assert len(copy.files) == 3 * traces
        looks.append(copy.looks)
    assert looks[0] == looks[1] < 4
