"""What only some rows have: frames here. Infos are tried in test_trace_recording.py, interrupts in test_lane.py."""

import warnings

import numpy as np
import pytest
from environments import Convertible, same

from gym_recording import TraceError, TraceRecording, TraceRecordingReader
from gym_recording.check import check_recording

HOW = {"at once": {}, "streamed": {"flush_interval": 0}, "each alone": {"buffer_batch_size": 1}}


def picture(n, shape=(4, 5, 3)):
    return (np.arange(np.prod(shape)) + n).reshape(shape).astype("uint8")


@pytest.fixture(params=HOW)
def record(request, tmp_path):
    """Records episodes of frames, the first at the reset; gives them back as they are read."""

    def record(*episodes):
        with TraceRecording(tmp_path, frames=True, durability="none", **HOW[request.param]) as recording:
            for first, *others in episodes:
                recording.add_reset(0, frame=first)
                for n, frame in enumerate(others, 1):
                    recording.add_step(n, n, 0.0, frame=frame)
        assert check_recording(tmp_path) == []
        reader = TraceRecordingReader(tmp_path, verify=True)
        assert [episode.rewards.tolist() for episode in reader] == [[0.0] * (len(one) - 1) for one in episodes]
        return [episode.frames for episode in reader]

    return record


def assert_listed(found, expected):
    assert isinstance(found, list) and len(found) == len(expected)
    assert all(a is None if b is None else same(a, b) for a, b in zip(found, expected))


@pytest.mark.parametrize("shape", [(4, 5, 3), (4, 5, 1), (4, 5), (4, 5, 7), (60, 70, 3)])
def test_a_frame_for_each_observation_makes_one_array(record, shape):
    episodes = [[picture(n, shape) for n in range(length)] for length in (5, 1, 3)]
    for found, frames in zip(record(*episodes), episodes):
        assert same(found, np.stack(frames))


def test_the_frame_is_copied_at_once(tmp_path):
    frame = picture(0)
    with TraceRecording(tmp_path, frames=True) as recording:
        recording.add_reset(0, frame=frame)
        for n in range(1, 4):
            frame[...] = picture(n)
            recording.add_step(0, 0, 0.0, frame=frame)
        frame[...] = 77
    (episode,) = TraceRecordingReader(tmp_path)
    assert same(episode.frames, np.stack([picture(n) for n in range(4)]))


@pytest.mark.parametrize("lost", [{0}, {2}, {4}, {0, 1, 3}, {0, 1, 2, 3, 4}])
def test_a_frame_that_is_missing_leaves_the_others_where_they_are(record, lost):
    frames = [None if n in lost else picture(n) for n in range(5)]
    whole = [picture(n) for n in range(3)]
    first, second, third = record(whole, frames, whole)
    assert_listed(second, frames)
    assert same(first, np.stack(whole)) and same(third, np.stack(whole))


def test_frames_of_other_sizes_are_kept_as_they_are(record):
    shapes = [(4, 5, 3), (4, 5, 3), (9, 2, 3), (4, 5, 3), (4, 5), None, (9, 2, 3), (100, 100, 3)]
    frames = [None if shape is None else picture(n, shape) for n, shape in enumerate(shapes)]
    (found,) = record(frames)
    assert_listed(found, frames)


def test_a_step_before_the_first_reset_has_a_frame_too(tmp_path):
    with TraceRecording(tmp_path, frames=True) as recording:
        for n in range(3):
            recording.add_step(0, 0, 0.0, frame=picture(n))
    (episode,) = TraceRecordingReader(tmp_path)
    assert episode.headless and same(episode.frames, np.stack([picture(n) for n in range(3)]))


BAD = {
    "floats": np.zeros((4, 5, 3)),
    "signed": np.zeros((4, 5, 3), "int8"),
    "a row": np.zeros(5, "uint8"),
    "a film": np.zeros((2, 4, 5, 3), "uint8"),
    "no pixel": np.zeros((0, 5, 3), "uint8"),
    "a list of frames": [picture(0)],
    "text": "ansi",
    "an object": object(),
    "objects": np.array([[None]]),
    "a conversion that fails": Convertible(ValueError("mine")),
    "an error": TraceError("render failed", field="frames"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_picture_costs_its_frame_and_one_warning_but_no_step(tmp_path, name):
    with warnings.catch_warnings(record=True) as caught, TraceRecording(tmp_path, frames=True) as recording:
        warnings.simplefilter("always")
        for _ in range(2):
            recording.add_reset(0, frame=BAD[name])
            recording.add_step(0, 1, 0.5, frame=picture(1))
            recording.add_step(0, 1, 0.5, frame=BAD[name])
    assert [(w.filename, str(w.message)[:22]) for w in caught] == [(__file__, "not recorded: frames: ")]
    for episode in TraceRecordingReader(tmp_path):
        assert (episode.rewards.tolist(), episode.gaps, episode.headless) == ([0.5, 0.5], (), False)
        assert_listed(episode.frames, [None, picture(1), None])


def test_what_can_be_converted_is_a_frame(tmp_path):
    with TraceRecording(tmp_path, frames=True) as recording:
        recording.add_reset(0, frame=Convertible(picture(1)))
    (episode,) = TraceRecordingReader(tmp_path)
    assert same(episode.frames, picture(1)[None])


def test_frames_that_nobody_asked_for_are_not_recorded(tmp_path):
    with TraceRecording(tmp_path) as recording:
        recording.add_reset(0, frame=picture(1))
        recording.add_step(0, 0, 0.0, frame=BAD["an object"])
    (episode,) = TraceRecordingReader(tmp_path)
    assert episode.frames is None


@pytest.mark.parametrize("frame_of", [lambda n: picture(n, (50, 70, 3)), lambda n: picture(n, (2, 3))])
def test_frames_count_for_the_memory_of_a_long_episode(tmp_path, frame_of):
    with TraceRecording(tmp_path, frames=True, batch_bytes=20_000, flush_interval=1e9) as recording:
        recording.add_reset(0, frame=frame_of(0))
        lane, most = recording.lane, 0
        for n in range(1, 3000):
            recording.add_step(0, 0, 0.0, frame=None if n % 100 == 5 else frame_of(n))
            most = max(most, lane.size())
            if n == 300 and frame_of(0).nbytes > 8192:
                break
        assert lane.stream is not None and most < 40 * 20_000
        steps = lane.steps
    (episode,) = TraceRecordingReader(tmp_path)
    assert len(episode.frames) == steps + 1
    assert all((frame is None) == (n % 100 == 5) for n, frame in enumerate(episode.frames))
    assert all(frame is None or same(frame, frame_of(n)) for n, frame in enumerate(episode.frames))
    assert check_recording(tmp_path) == []


def test_frames_count_for_the_size_of_a_batch(tmp_path):
    with TraceRecording(tmp_path, frames=True, batch_bytes=100_000, flush_interval=1e9) as recording:
        for n in range(10):
            recording.add_reset(0, frame=picture(n, (150, 150, 3)))
        recording.save_complete()
        assert len(recording.batches) > 3


def test_keys_of_infos_that_are_equal_and_not_the_same_are_not_taken_for_each_other(tmp_path):
    with TraceRecording(tmp_path, infos=True, durability="none") as recording:
        for keys in ((1, True), (True, True), (1.0, 1.0)):
            recording.add_reset(0.0, info={keys[0]: 5})
            if keys[0] == 1 and keys[0] is not True and keys[1] is True:
                with pytest.warns(UserWarning, match="not recorded: infos: cannot store the key True beside 1"):
                    recording.add_step(0, 0.0, 0.0, info={keys[1]: 6})
            else:
                recording.add_step(0, 0.0, 0.0, info={keys[1]: 6})
    found = [repr([list(info) for info in one.infos]) for one in TraceRecordingReader(tmp_path)]
    assert found == ["[[1], []]", "[[True], [True]]", "[[1.0], [1.0]]"]
