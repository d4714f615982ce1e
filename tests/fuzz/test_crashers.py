"""What the fuzzer once found, and where it begins, replayed without it."""

from pathlib import Path

import pytest
from fuzz_reader import mutated, one_input, put, seeds

from gym_recording import TraceRecordingReader
from gym_recording.check import check_recording

CRASHERS = sorted(path for path in (Path(__file__).parent / "crashers").iterdir() if path.suffix != ".md")


@pytest.mark.parametrize("path", CRASHERS, ids=lambda path: path.name)
def test_what_was_once_neither_read_nor_refused_is_now(path):
    one_input(path.read_bytes())


def test_the_seeds_are_recordings_that_are_read(tmp_path):
    count = 0
    for data in seeds():
        put(data, tmp_path)
        reader = TraceRecordingReader(tmp_path, on_error="skip", verify=True)
        assert len(reader) > 0
        assert all(".ep000000000" not in error.file for error in [*reader.errors, *check_recording(tmp_path)])
        count += 1
    assert count > 10


def test_mutations_of_the_seeds_are_read_or_refused():
    for data in seeds():
        for seed in range(15):
            found = mutated(data, seed)
            if found is not None:
                one_input(found)
