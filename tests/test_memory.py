"""A directory in memory holds what one on disk would hold, and nothing comes to a disk."""

import copy
import multiprocessing
import os
import pickle
import signal
import warnings

import numpy as np
import pytest
from cases import CASES, plain, play
from environments import LIBRARIES, Walk, make

from gym_recording import (
    MemoryDirectory,
    TraceError,
    TraceRecording,
    TraceRecordingReader,
    TraceRecordingWrapper,
    scan_recorded_traces,
)
from gym_recording.check import check_recording


def members(episode):
    return plain({key: value for key, value in vars(episode).items() if key != "started"})


@pytest.mark.parametrize("name", CASES)
def test_what_is_recorded_to_memory_reads_as_what_is_recorded_to_disk(name, record):
    directory = MemoryDirectory()
    with TraceRecording(directory) as recording:
        play(CASES[name], recording)
        play(CASES[name], recording)
    assert list(check_recording(directory)) == []
    found, expected = TraceRecordingReader(directory), TraceRecordingReader(record(CASES[name], CASES[name]))
    assert list(map(members, found)) == list(map(members, expected))


def test_an_episode_is_there_as_soon_as_it_has_ended_and_no_sooner(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    directory = MemoryDirectory()
    recording = TraceRecording(directory, flush_interval=0)
    reader = TraceRecordingReader(directory)
    for number in range(3):
        recording.add_reset(number)
        recording.add_step(0, number, 1.0)
        reader.refresh()
        assert [episode.observations[0] for episode in reader] == list(range(number))
        assert not reader.traces or not reader.traces[0].closed
    recording.close()
    reader.refresh()
    assert len(reader) == 3
    assert reader.traces[0].closed
    assert os.listdir(tmp_path) == []


def test_short_episodes_share_batches_until_somebody_looks():
    directory = MemoryDirectory()
    recording = TraceRecording(directory)
    for number in range(10):
        recording.add_reset(number)
    assert len(recording.episodes) == 9
    assert len(TraceRecordingReader(directory)) == 9
    assert (len(recording.episodes), len(recording.batches)) == (0, 1)
    recording.close()
    assert len(recording.batches) == 2


def test_a_long_episode_is_one_batch():
    directory = MemoryDirectory()
    with TraceRecording(directory, batch_bytes=1000, flush_interval=0) as recording:
        recording.add_reset(np.zeros(1000))
        for number in range(100):
            recording.add_step(0, np.full(1000, float(number)), 1.0)
        assert directory.files == {}
    assert [len(episode) for episode in TraceRecordingReader(directory)] == [100]
    assert len(directory.files) == 3


def test_several_recorders_share_one_and_all_that_takes_a_directory_takes_it():
    directory = MemoryDirectory()
    with TraceRecording(directory) as first, TraceRecording(directory) as second:
        for number, recording in enumerate((first, second)):
            assert recording.directory is directory
            recording.add_reset(number)
            recording.add_step(0, number, 0.5)
    seen = []
    assert scan_recorded_traces(directory, lambda *arrays: seen.append(arrays[0].tolist())) == 2
    assert seen == [[0, 0], [1, 1]]
    assert repr(directory) == f"<MemoryDirectory of 6 files, {sum(map(len, directory.files.values()))} bytes>"


def test_it_is_pickled_with_its_contents_and_so_is_its_reader():
    directory = MemoryDirectory()
    with TraceRecording(directory) as recording:
        recording.add_reset(1)
    other = pickle.loads(pickle.dumps(directory))
    assert other.files == directory.files
    assert len(pickle.loads(pickle.dumps(TraceRecordingReader(directory)))) == 1


def test_what_is_missing_is_missing_as_on_disk():
    directory = MemoryDirectory()
    with TraceRecording(directory, buffer_batch_size=0) as recording:
        for number in range(3):
            recording.add_reset(number)
    del directory.files[recording.batches[1]["fn"]]
    with pytest.raises(ValueError, match="missing"):
        list(TraceRecordingReader(directory))
    assert len(TraceRecordingReader(directory, on_error="skip")) == 2


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_wrapper_and_its_copies_record_to_it(library):
    module = pytest.importorskip(library)
    directory = MemoryDirectory()
    env = TraceRecordingWrapper(make(module, Walk), directory, infos=True)
    assert env.directory is directory
    twin = copy.deepcopy(env)
    assert twin.directory is directory
    for one in (env, twin):
        one.reset(seed=4)
        one.step(1)
        one.close()
    first, second = TraceRecordingReader(directory)
    assert members(first) == members(second)
    assert first.infos[1] == {"at": 1}


@pytest.mark.skipif(not hasattr(signal, "raise_signal") or os.name == "nt", reason="no such signals")
def test_a_signal_handler_that_looks_in_the_midst_of_recording_is_refused():
    class Raising:
        """Raises a signal while it is recorded."""

        def __array__(self, dtype=None, copy=None):
            signal.raise_signal(signal.SIGUSR1)
            return np.zeros(2)

    directory, errors = MemoryDirectory(), []

    def handler(*_):
        try:
            len(TraceRecordingReader(directory))
        except TraceError as error:
            errors.append(error)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with TraceRecording(directory) as recording:
            recording.add_reset(0)
            recording.add_step(0, Raising(), 0.0)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert "in a signal handler" in str(errors[0])
    assert len(TraceRecordingReader(directory)[0]) == 1


def record_elsewhere(directory, recording, connection):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with recording or TraceRecording(directory) as one:
            for number in range(3):
                one.add_reset(number)
    connection.send([str(warning.message) for warning in warned])


@pytest.mark.parametrize(("method", "is_made"), [("fork", False), ("fork", True), ("spawn", False)])
def test_recording_to_that_of_another_process_warns_once(method, is_made):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("this system has no fork")
    context, directory = multiprocessing.get_context(method), MemoryDirectory()
    recording = TraceRecording(directory) if is_made else None
    here, there = context.Pipe()
    child = context.Process(target=record_elsewhere, args=(directory, recording, there))
    child.start()
    (message,) = here.recv()
    child.join()
    assert "recorded to a MemoryDirectory of another process, which sees nothing of it" in message
    assert len(TraceRecordingReader(directory)) == 0


def test_nobody_is_warned_at_home():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for directory in (MemoryDirectory(), pickle.loads(pickle.dumps(MemoryDirectory()))):
            with TraceRecording(directory) as recording:
                recording.add_reset(0)
