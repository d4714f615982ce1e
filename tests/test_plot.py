"""The picture of a recording."""

import os
import sys

import numpy as np
import pytest
from conftest import DATA

from gym_recording import TraceError, TraceRecording, TraceRecordingReader
from gym_recording.cli import main
from gym_recording.plot import plot


def record(directory, returns):
    with TraceRecording(directory, durability="none") as recording:
        for total in returns:
            recording.add_reset(0)
            recording.add_step(0, 0, total)


@pytest.fixture
def matplotlib():
    return pytest.importorskip("matplotlib")


def test_a_picture_shows_each_trace_in_a_colour_of_its_own(matplotlib, tmp_path):
    record(tmp_path / "r", np.arange(60.0))
    record(tmp_path / "r", [5.0] * 60)
    plot(TraceRecordingReader(tmp_path / "r"), tmp_path / "out.png")
    from matplotlib.image import imread

    pixels = imread(tmp_path / "out.png")
    for color in ("C0", "C1"):  # of the lines
        assert np.isclose(pixels[..., :3], matplotlib.colors.to_rgb(color), atol=0.01).all(axis=-1).sum() > 100


@pytest.mark.parametrize(
    ("ending", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml"), ("PNG", b"\x89PNG")]
)
def test_the_ending_says_the_format(matplotlib, ending, start, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["plot", str(DATA / "golden" / "two_recordings"), f"out.{ending}"]) == 0
    assert (tmp_path / f"out.{ending}").read_bytes().startswith(start)
    assert os.listdir(tmp_path) == [f"out.{ending}"]


def test_returns_that_are_no_numbers_are_left_out(matplotlib, tmp_path):
    record(tmp_path / "r", [1.0, float("nan"), "good", float("inf"), -1.7e308, 2.0, 1e308] * 10)
    plot(TraceRecordingReader(tmp_path / "r"), tmp_path / "out.png")
    record(tmp_path / "large", [1e299, -1e299] * 50)
    plot(TraceRecordingReader(tmp_path / "large"), tmp_path / "large.png")
    record(tmp_path / "none", ["good"] * 50)
    plot(TraceRecordingReader(tmp_path / "none"), tmp_path / "none.png")
    assert (tmp_path / "none.png").exists()


def test_what_cannot_be_drawn_is_an_error_and_no_file(matplotlib, tmp_path, capsys):
    record(tmp_path / "r", [1.0])
    with pytest.raises(TraceError, match=r"out.doc: no format of a picture \(expected .*\.png"):
        plot(TraceRecordingReader(tmp_path / "r"), tmp_path / "out.doc")
    with pytest.raises(TraceError, match="there is no episode to plot"):
        plot(TraceRecordingReader(tmp_path / "nothing"), tmp_path / "out.png")
    with pytest.raises(OSError, match="No such file or directory"):
        plot(TraceRecordingReader(tmp_path / "r"), tmp_path / "absent" / "out.png")
    assert main(["plot", str(tmp_path / "absent"), str(tmp_path / "out.png")]) == 1
    assert "absent: No such file or directory" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["r"]


def test_what_is_damaged_is_said_and_the_rest_drawn(matplotlib, tmp_path, capsys):
    record(tmp_path / "r", [1.0])
    record(tmp_path / "r", [2.0])
    next((tmp_path / "r").glob("*.bin")).unlink()
    assert main(["plot", str(tmp_path / "r"), str(tmp_path / "out.png")]) == 1
    assert "the blob is missing" in capsys.readouterr().err
    assert (tmp_path / "out.png").exists()
    for path in (tmp_path / "r").glob("*.bin"):
        path.unlink()
    assert main(["plot", str(tmp_path / "r"), str(tmp_path / "none.png")]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[-1] for line in lines[:-1]] == ["the blob is missing, and its episodes with it"] * 2
    assert "there is no episode to plot" in lines[-1]


def test_without_matplotlib_the_error_says_how_to_get_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    record(tmp_path / "r", [1.0])
    assert main(["plot", str(tmp_path / "r"), str(tmp_path / "out.png")]) == 1
    message = "gym-recording: plot needs the package matplotlib: pip install 'gym_recording[plot]'\n"
    assert capsys.readouterr().err == message
