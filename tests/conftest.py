"""What many tests need: a recording made of cases, and a way to read all of one."""

import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings

import gym_recording

# No database: it would be written to the tree. No target phase: nothing here has one, and Hypothesis 6.170 then takes
# recursive strategies for flaky.
settings.register_profile(
    "default", deadline=None, database=None, print_blob=True, phases=[*{*Phase} - {Phase.target, Phase.reuse}]
)
settings.load_profile("default")

DATA = Path(__file__).parent / "data"


@pytest.fixture
def record(tmp_path):
    """A function that records cases, one after the other, to a directory of its own, and gives its path."""
    from cases import play

    def record(*cases, **options):
        directory = tmp_path / f"recording {len(os.listdir(tmp_path))}"
        with gym_recording.TraceRecording(directory, **{"durability": "none", **options}) as recording:
            for case in cases:
                play(case, recording)
        return directory

    return record
