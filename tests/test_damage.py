"""Damage: every byte of every file flipped by one bit, and every file cut there: it is noticed, nothing wrong is read.

The recording is small and real: an ordinary batch with loose values and infos, and a streamed one. Without a look at
the checksums of blobs (`verify=False`) what is read may be wrong, but it comes from the files alone.
"""

import itertools
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from cases import plain
from conftest import DATA

from gym_recording import TraceError, TraceRecording, TraceRecordingReader
from gym_recording.check import check_recording

MEMBERS = (
    *("observations", "actions", "rewards", "terminated", "truncated", "ended_by", "seed", "options", "lane"),
    *("timestamps", "infos", "headless", "gaps"),
)


def make_recording(directory):
    """Two batches of one episode each."""
    with TraceRecording(directory, durability="none", infos=True) as recording:
        recording.add_reset(np.array([1, 2, 3], "uint8"), seed=7, options={"deep": [np.ones(2)]})
        recording.add_step([np.int16(5), None], np.array([4, 5, 6], "uint8"), 0.5, terminated=True, info={"k": 9})
        recording.end_episode()
        recording.save_complete()
        recording.add_reset(np.float32(0.5))
        recording.flush_interval = 0  # from here on every step is written
        for step in range(3):
            recording.add_step("right", np.float32(step), step)


def digest(episode):
    """All that an episode says, as something that can be compared."""
    return repr([plain(getattr(episode, key)) for key in MEMBERS])


def read(directory, **options):
    return [digest(episode) for episode in TraceRecordingReader(directory, **options)]


def read_until_an_error(directory, **options):
    found = []
    try:
        for episode in TraceRecordingReader(directory, **options):
            found.append(digest(episode))
    except TraceError:
        return found, True
    return found, False


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """The directory and its episodes. Whoever damages a file puts it back."""
    directory = tmp_path_factory.mktemp("recording")
    make_recording(directory)
    assert check_recording(directory) == []
    truth = read(directory, verify=True)
    assert len(set(truth)) == 2
    return directory, truth


FILES = {  # what there is, and which of the two episodes is in it
    "manifest": ("*.manifest.json", None),
    "header": ("*.ep000000000.json", 0),
    "blob": ("*.ep000000000.bin", 0),
    "header of the streamed batch": ("*.ep000000001.json", 1),
    "blob of its first column": ("*.ep000000001.0.bin", 1),
    "blob of its second column": ("*.ep000000001.1.bin", 1),
}


def test_these_are_all_files(recording):
    directory, _ = recording
    assert sorted(directory.iterdir()) == sorted(path for glob, _ in FILES.values() for path in directory.glob(glob))


def flipped(data, position):
    """One bit of the byte there is another; which one goes by the position, so that all are tried."""
    damaged = bytearray(data)
    damaged[position] ^= 1 << position % 8
    return bytes(damaged)


def cut(data, position):
    return data[:position]


DAMAGES = pytest.mark.parametrize("damage", [flipped, cut])
EVERY_FILE = pytest.mark.parametrize("file", FILES)


def damaged_at_every_byte(path, damage):
    """Damages a file at every byte in turn; gives the positions."""
    data = path.read_bytes()
    try:
        for position in range(len(data)):
            path.write_bytes(damage(data, position))
            yield position
    finally:
        path.write_bytes(data)


@DAMAGES
@EVERY_FILE
def test_every_damaged_byte_is_noticed_by_a_check(recording, file, damage):
    directory, _ = recording
    (path,) = directory.glob(FILES[file][0])
    missed = [position for position in damaged_at_every_byte(path, damage) if not check_recording(directory)]
    assert missed == []


@DAMAGES
@EVERY_FILE
def test_a_reader_that_verifies_gives_the_other_batches_and_nothing_wrong(recording, file, damage):
    directory, truth = recording
    glob, episode = FILES[file]
    (path,) = directory.glob(glob)
    others = [one for number, one in enumerate(truth) if number != episode]
    front = npy_header_of(path) if "column" in file else 0  # of no matter for who has the header: nothing of it is read
    for position in damaged_at_every_byte(path, damage):
        reader = TraceRecordingReader(directory, verify=True, on_error="skip")
        found = [digest(one) for one in reader]
        if damage is flipped and position < front:
            assert (found, reader.errors) == (truth, []), position
        else:
            assert found == others, position
            assert reader.errors != [], position
        found, raised = read_until_an_error(directory, verify=True)
        assert found == truth[: len(found)], position
        assert raised == (not (damage is flipped and position < front)), position


def npy_header_of(path):
    """How many bytes the .npy header in front of a file has."""
    data = path.read_bytes()
    return 10 + int.from_bytes(data[8:10], "little")


@DAMAGES
@pytest.mark.parametrize(
    "file, mmap", [(file, mmap) for file in FILES for mmap in (True, False) if mmap or "blob" in file]
)
def test_a_reader_that_does_not_verify_reads_nothing_outside_of_the_files(recording, file, damage, mmap):
    directory, truth = recording
    glob, episode = FILES[file]
    (path,) = directory.glob(glob)
    for position in damaged_at_every_byte(path, damage):
        reader = TraceRecordingReader(directory, mmap=mmap)
        for number in range(len(reader)):
            try:
                found = reader[number]
            except TraceError:
                assert number == episode, position
                continue
            check_inside(found, reader)
            assert number == episode or digest(found) == truth[number], position


def check_inside(episode, reader):
    """Every array that is stored is wholly inside of a blob."""
    blobs = [addresses(np.frombuffer(data, "uint8")) for data in reader.binfiles.values() if len(data)]
    for array in itertools.chain.from_iterable(arrays_of(getattr(episode, key)) for key in MEMBERS):
        start, end = addresses(array)
        assert start == end or any(low <= start and end <= high for low, high in blobs)


def addresses(array):
    start = array.__array_interface__["data"][0]
    return start, start + array.nbytes


def arrays_of(value):
    if isinstance(value, np.ndarray):
        yield value
    elif hasattr(value, "columns"):
        yield from arrays_of(value.columns)
    elif isinstance(value, dict):
        yield from itertools.chain.from_iterable(map(arrays_of, value.values()))
    elif isinstance(value, (list, tuple)):
        yield from itertools.chain.from_iterable(map(arrays_of, value))


# ---- old versions have no checksums: what is read of them may be wrong, as it always could


@DAMAGES
@pytest.mark.parametrize("name", ["null_episodes", "v0_cartpole"])
def test_a_damaged_recording_of_an_old_version_is_read_from_its_files_alone(tmp_path, name, damage):
    directory = tmp_path / name
    shutil.copytree(DATA / "golden" / name, directory, copy_function=shutil.copyfile)
    for path in sorted(directory.glob("openaigym.*")):
        data = path.read_bytes()
        step = max(1, len(data) // 300)
        for position in range(0, len(data), step):
            path.write_bytes(damage(data, position))
            reader = TraceRecordingReader(directory)
            try:
                for episode in reader:
                    check_inside(episode, reader)
            except TraceError as error:
                assert str(error)
            for error in check_recording(directory):
                assert str(error)
        path.write_bytes(data)


# ---- more than one byte


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(
    "change",
    {
        "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
        "of zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
        "in pages of zeros": lambda path: path.write_bytes(path.read_bytes()[:64].ljust(path.stat().st_size, b"\0")),
        "gone": os.unlink,
    }.items(),
    ids=lambda item: item[0],
)
def test_a_file_that_a_power_cut_left_is_noticed(recording, tmp_path, file, change):
    directory = shutil.copytree(recording[0], tmp_path / "copy")
    glob, episode = FILES[file]
    (path,) = Path(directory).glob(glob)
    change[1](path)
    others = [one for number, one in enumerate(recording[1]) if number != episode]
    may_be_longer = change[0] == "longer" and path.suffix == ".bin"  # what lies behind `size` does not count
    is_cache = change[0] == "gone" and file == "manifest"  # and the headers are there
    if not is_cache and not (may_be_longer and "column" in file):
        assert check_recording(directory) != []
    expected = recording[1] if may_be_longer or is_cache else others
    assert read(directory, verify=True, on_error="skip") == expected
