"""The picture of a recording."""

import os
import sys
import time

import numpy as np
import pytest
from conftest import DATA

from gym_recording import TraceError, TraceRecording, TraceRecordingReader
from gym_recording.cli import main
from gym_recording.plot import _draw, plot


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


class Axis:
    """Keeps what is drawn."""

    def __init__(self):
        self.lines = []

    def plot(self, numbers, values, *style, **options):
        self.lines.append(np.asarray(values))


@pytest.mark.parametrize("count", [1, 19, 40, 41, 59, 60, 99, 100, 133])
def test_a_line_is_the_mean_of_the_numbers_around_each(count):
    values = np.random.default_rng(count).normal(size=count)
    values[::7] = [np.nan, np.inf, 1e308, -1.7e308, 1e299][count % 5]
    axis, width = Axis(), count // 20
    _draw(axis, np.arange(count), values, "C0", "")
    good = np.where(np.abs(values) < 1e300, values, np.nan)
    assert np.array_equal(axis.lines[0], good, equal_nan=True)
    if width < 2:
        assert len(axis.lines) == 1
        return
    around = [good[max(at - width // 2, 0) : at + (width - 1) // 2 + 1] for at in range(count)]
    expected = [np.nan if np.isnan(some).all() else np.nanmean(some) for some in around]
    np.testing.assert_allclose(axis.lines[1], expected, rtol=1e-12, equal_nan=True)


def test_the_time_of_a_line_grows_with_the_episodes_and_not_with_their_square():
    values = np.zeros(1_000_000)  # windows of 50,000: each by itself, that would be 5 * 10^10 sums
    began = time.process_time()
    _draw(Axis(), values, values, "C0", "")
    assert time.process_time() - began < 5


def test_returns_that_are_no_numbers_are_left_out(matplotlib, tmp_path):
    """The same picture as of those that are numbers alone, and no warning."""
    pictures = []
    for name, others in (("a", [float("nan"), "good"]), ("b", [float("inf"), -1.7e308])):
        record(tmp_path / name, [1.0, *others, 2.0, 4.0] * 10)
        plot(TraceRecordingReader(tmp_path / name), tmp_path / f"{name}.png")
        pictures.append((tmp_path / f"{name}.png").read_bytes())
    record(tmp_path / "c", [1.0, 3.0, 3.0, 2.0, 4.0] * 10)
    plot(TraceRecordingReader(tmp_path / "c"), tmp_path / "c.png")
    assert pictures[0] == pictures[1] != (tmp_path / "c.png").read_bytes()
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
