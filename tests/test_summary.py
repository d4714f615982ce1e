"""The summary: what is known of each episode without its steps."""

import json
import math
import os
import pickle
import sys
import warnings

import numpy as np
import pytest
from cases import CASES, plain
from conftest import DATA

from gym_recording import MissingEpisodesError, TraceError, TraceRecording, TraceRecordingReader
from gym_recording.format import write_document

RECORDINGS = sorted(path for path in (DATA / "golden").iterdir() if path.is_dir())


def arrays_of(rows):
    if isinstance(rows, np.ndarray):
        yield rows
    elif hasattr(rows, "columns"):
        for item in rows.columns.values() if isinstance(rows, dict) else rows.columns:
            yield from arrays_of(item)


def same(one, other):
    return one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other))


def check(reader):
    """Every row of the summary says what its episode says."""
    summary = reader.summary()
    assert len(summary) == len(reader)
    with np.errstate(all="ignore"):
        for row, episode in enumerate(reader):
            trace = reader.traces[summary.traces[row]]
            assert summary.numbers[row] in trace.numbers
            assert summary.lengths[row] == len(episode)
            assert same(summary.returns[row], episode.total_reward)
            assert summary.started[row] == episode.started
            assert summary.seeds[row] == episode.seed
            assert summary.ended_by[row] == episode.ended_by
            assert summary.terminated[row] is episode.terminated
            assert summary.truncated[row] is episode.truncated
            assert summary.lanes[row] == episode.lane
    return summary


def test_it_says_of_episodes_of_every_kind_of_value_what_they_say(record):
    directory = record(*CASES.values(), batch_bytes=20_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # infinities have no sum, which is no reason to warn
        summary = check(TraceRecordingReader(directory))
    assert summary.lengths.dtype == summary.numbers.dtype == summary.traces.dtype == np.int64
    assert summary.returns.dtype == np.float64
    assert np.isnan(summary.returns).any() and np.isfinite(summary.returns).any()


@pytest.mark.parametrize("options", [{}, {"flush_interval": 0}, {"infos": True, "timestamps": True}])
def test_episodes_are_the_same_ones_when_a_summary_was_made(record, options):
    directory = record(*CASES.values(), **options)
    fresh, known = TraceRecordingReader(directory), TraceRecordingReader(directory)
    known.summary()
    assert len(fresh) == len(known)
    for one, other in zip(fresh, known):
        assert list(map(plain, vars(one).items())) == list(map(plain, vars(other).items()))
        for name in ("observations", "actions", "rewards"):
            for array in arrays_of(getattr(other, name)):
                assert not array.flags.writeable
    held = [known[number] for number in range(len(known))]
    known.close()
    assert [plain(one.observations) for one in held] == [plain(one.observations) for one in fresh]


def test_an_episode_needs_no_header_when_a_summary_was_made(tmp_path):
    with TraceRecording(tmp_path, durability="none") as recording:
        for seed in (3, None):
            recording.add_reset(0.5, seed=seed)
            recording.add_step(1, 0.5, 2.0)
        recording.add_reset(0.5, options={"a": 1})
    reader = TraceRecordingReader(tmp_path)
    reader.summary()
    reader.close()
    next(tmp_path.glob("*.ep000000000.json")).write_text("damaged")
    assert [reader[number].seed for number in (0, 1)] == [3, None]
    with pytest.raises(TraceError):
        reader[2]
    next(tmp_path.glob("*.ep000000000.json")).unlink()
    assert reader[0].seed == 3
    reader.refresh()
    for ask in (lambda: reader[0], reader.summary):
        with pytest.raises(MissingEpisodesError):
            ask()


@pytest.mark.parametrize("directory", RECORDINGS, ids=lambda path: path.name)
def test_it_says_of_old_recordings_what_their_episodes_say(directory):
    summary = check(TraceRecordingReader(directory))
    assert set(summary.ended_by) | set(summary.seeds) | set(summary.started) <= {None}


def test_it_knows_traces_seeds_flags_and_lanes(tmp_path):
    with TraceRecording(tmp_path, durability="none", lanes=2) as recording:
        for lane in (1, 0):
            recording.add_reset(0.5, seed=2**70 + lane, lane=lane)
            recording.add_step(1, 0.5, 2.0, terminated=lane == 1, truncated=False, lane=lane)
            recording.end_episode(lane=lane)
    with TraceRecording(tmp_path, durability="none") as recording:
        recording.add_reset(0.5)
    summary = check(TraceRecordingReader(tmp_path))
    assert summary.traces.tolist() == [0, 0, 1]
    assert summary.seeds.tolist() == [2**70 + 1, 2**70, None]
    assert summary.terminated.tolist() == [True, False, None]
    assert summary.ended_by.tolist() == ["terminated", "reset", "close"]
    assert summary.lanes.tolist() == [1, 0, None]
    assert repr(summary) == "<Summary of 3 episodes>"
    again = pickle.loads(pickle.dumps(summary))
    assert again.seeds.tolist() == summary.seeds.tolist()


def test_nothing_recorded_is_an_empty_summary(tmp_path):
    summary = check(TraceRecordingReader(tmp_path / "none"))
    assert (len(summary), summary.returns.dtype, summary.seeds.dtype) == (0, np.float64, object)


def test_a_running_episode_is_summarized_as_far_as_it_has_come(tmp_path):
    recording = TraceRecording(tmp_path, durability="none", flush_interval=0)
    recording.add_reset(0.0)
    recording.add_step(0, 0.0, 1.0)
    recording.add_step(0, 0.0, 1.0)
    reader = TraceRecordingReader(tmp_path)
    before = check(reader)
    assert before.ended_by.tolist() == [None]
    for _ in range(3):
        recording.add_step(0, 0.0, 1.0)
    recording.close()
    assert reader.summary().lengths.tolist() == before.lengths.tolist()
    reader.refresh()
    after = check(reader)
    assert (after.lengths.tolist(), after.returns.tolist(), after.ended_by.tolist()) == ([5], [5.0], ["close"])


def test_what_is_missing_is_an_error_or_left_out(tmp_path):
    with TraceRecording(tmp_path, durability="none", buffer_batch_size=1) as recording:
        for number in range(3):
            recording.add_reset(0)
            recording.add_step(0, 0, float(number))
    os.unlink(next(tmp_path.glob("*.ep000000001.bin")))
    with pytest.raises(MissingEpisodesError, match="the blob is missing"):
        TraceRecordingReader(tmp_path).summary()
    assert check(TraceRecordingReader(tmp_path, on_error="skip")).returns.tolist() == [0.0, 2.0]
    next(tmp_path.glob("*.manifest.json")).write_text("damaged")
    with pytest.raises(TraceError, match="not valid JSON"):
        TraceRecordingReader(tmp_path).summary()


def test_pandas_gets_a_row_per_episode_with_dtypes_that_know_what_is_missing(tmp_path):
    pandas = pytest.importorskip("pandas")
    with TraceRecording(tmp_path, durability="none") as recording:
        recording.add_reset(0.5, seed=3)
        recording.add_step(1, 0.5, 2.0, terminated=True, truncated=False)
        recording.add_reset(0.5)
        recording.add_step(1, 0.5, "good")
    frame = TraceRecordingReader(tmp_path).summary().to_pandas()
    assert frame["lengths"].tolist() == [1, 1]
    assert frame["returns"].isna().tolist() == [False, True]
    assert str(frame["started"].dtype).startswith("datetime64[") and str(frame["started"].dtype).endswith("UTC]")
    assert frame["seeds"].dtype == "Int64" and frame["seeds"][0] == 3 and frame["seeds"][1] is pandas.NA
    assert frame["terminated"].dtype == "boolean"
    assert (frame["ended_by"] == "terminated").tolist() == [True, False]
    with TraceRecording(tmp_path, durability="none") as recording:
        recording.add_reset(0.5, seed=2**70)
    assert TraceRecordingReader(tmp_path).summary().to_pandas()["seeds"].tolist()[::2] == [3, 2**70]
    empty = TraceRecordingReader(tmp_path / "none").summary().to_pandas()
    assert (len(empty), list(empty)) == (0, list(frame))


def test_without_pandas_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_pandas needs the package pandas: pip install pandas"):
        TraceRecordingReader(tmp_path).summary().to_pandas()


def test_the_blobs_of_a_batch_are_not_searched_for_each_episode(tmp_path):
    many = 300
    with TraceRecording(tmp_path, flush_interval=0, durability="none") as recording:
        for number in range(many):
            recording.add_reset(number)
            recording.add_step(0, 0, 0.0)
    lines, paths = 0, sorted(tmp_path.glob("*.json"))
    headers = [json.loads(path.read_bytes()) for path in paths if ".ep" in path.name]
    blobs = [blob for header in headers for blob in header["blobs"]]
    episodes = [episode for header in headers for episode in header["episodes"]]
    for path in paths:
        path.unlink()
    body = {"first": 0, "blobs": blobs, "columns": [], "episodes": episodes}
    paths[0].write_bytes(write_document(json.dumps(body)[1:-1]))
    reader = TraceRecordingReader(tmp_path)
    assert len(reader) == many <= len(blobs)

    def trace(frame, event, argument):
        nonlocal lines
        lines += event == "line"
        return trace if frame.f_code.co_filename.endswith("outline.py") else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        summary = reader.summary()
    finally:
        sys.settrace(before)
    assert summary.lengths.tolist() == [1] * many
    assert lines < 250 * many
