"""A video of an episode: its frames, or observations that are pictures, one after the other through ffmpeg.

One picture is in memory at a time. The file gets its name when all of it is there. Which pictures an episode has is
found by their dtype and shape. Needs imageio-ffmpeg, which brings ffmpeg; nothing here knows how episodes are stored.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import suppress
from typing import Any, Iterator, Sequence

import numpy as np

from .episode import DictColumns, Episode, TupleColumns
from .errors import TraceError, missing_package
from .playback import Trace
from .values import Path, is_picture, path_text

FPS = 30  # where the recording does not say
_CHANNELS = {1: "gray", 3: "rgb24", 4: "rgba"}  # ffmpeg's names
_CANVAS = 1 << 26  # bytes of a picture that holds all sizes; more, only if they have so many themselves
_EVEN = "pad=ceil(iw/2)*2:ceil(ih/2)*2"  # most players want colour at half the size


def write_video(
    episode: Episode, path: str | os.PathLike[str], *, fps: float = FPS, key: str | None = None
) -> tuple[int, int]:
    """Writes a video of an episode, in the format that the name asks for; a file that is there is replaced.

    Where a frame is missing, the one before stays. Smaller pictures stand in the upper left corner.

    Args:
        episode: of a reader.
        path: where to: `out.mp4`.
        fps: pictures a second.
        key: which pictures: `frames`, `observations`, `observations.image`. None: the frames if there are any, else
            what is the only choice.

    Returns:
        How many pictures it has, and how many of them stand for a missing frame.

    Raises:
        TraceError: there are no pictures, or several kinds of them, or ffmpeg cannot make it.
        OSError: the file cannot be written.
        MissingPackageError: imageio-ffmpeg is not installed.
    """
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError as error:
        raise missing_package("imageio-ffmpeg", "writing videos", "'gym_recording[video]'") from error
    pictures = _choose(episode, key)
    try:
        _write(pictures, os.fspath(path), fps, get_ffmpeg_exe())
    except OSError as error:  # of the temporary file
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error
    return len(pictures), sum(picture is None for picture in pictures)


def _write(pictures: Any, path: str, fps: float, ffmpeg: str) -> None:
    shapes = {_shape(picture) for picture in pictures if picture is not None}
    height, width, channels = map(max, zip(*shapes))
    size, most = height * width * channels, max(_CANVAS, sum(one.nbytes for one in pictures if one is not None))
    if size > most:  # small files must not ask for much memory
        shape = f"{width} x {height}"
        raise TraceError("the pictures differ too much", field="frames", expected=f"{most} bytes", found=shape)
    canvas = np.zeros((height, width, channels), np.uint8)
    directory, name = os.path.split(os.path.abspath(path))
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=directory) as place, tempfile.TemporaryFile() as log:
        made = os.path.join(place, name)
        source = [
            "-f",
            "rawvideo",
            "-pix_fmt",
            _CHANNELS[channels],
            "-s",
            f"{width}x{height}",
            "-r",
            f"{fps}",
            "-i",
            "-",
        ]
        command = [ffmpeg, "-v", "error", *source, "-vf", _EVEN, "-pix_fmt", "yuv420p", made]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log) as process:
            stdin: Any = process.stdin
            try:
                with suppress(BrokenPipeError):  # it has ended, and says why
                    for picture in pictures:
                        if picture is not None:
                            _draw(canvas, picture)
                        stdin.write(canvas.data)
                    stdin.close()
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            log.seek(0)
            lines = log.read().decode(errors="replace").splitlines()
            found = next((line for line in lines if line.strip()), f"exit code {process.returncode}")
            raise TraceError(
                "ffmpeg cannot make this video", file=path, found=found.replace(f"{place}{os.sep}", "")[:200]
            )
        os.replace(made, path)


def recorded_fps(traces: Sequence[Trace], number: int) -> float:
    """How many pictures a second the environment means to have, for an episode of a reader with these `traces`."""
    for trace in traces:
        fps: Any = trace.env.get("render_fps")
        if number in trace.numbers and type(fps) in (int, float) and 0 < fps < 1000:
            return float(fps)
    return FPS


def _choose(episode: Episode, key: str | None) -> Any:
    """The pictures of an episode under a name: an array, or a list in which None stands for a missing one."""
    choices = {"frames": _pictures(episode.frames)}
    choices.update(
        {path_text(path): _pictures(column) for path, column in _leaves(("observations",), episode.observations)}
    )
    choices = {name: pictures for name, pictures in choices.items() if pictures is not None}
    expected = ", ".join(choices) or "uint8 (height, width, 3) or (height, width); record with frames=True"
    if key is None:
        if "frames" in choices or len(choices) == 1:
            return choices.get("frames", next(iter(choices.values())))
        raise TraceError("several kinds of pictures" if choices else "no pictures", field="key", expected=expected)
    if key not in choices:
        raise TraceError("no such pictures", field="key", expected=expected, found=key[:80])
    return choices[key]


def _leaves(path: Path, column: Any) -> Iterator[tuple[Path, Any]]:
    """The columns of observations that are no dict and no tuple, with their paths."""
    if isinstance(column, (DictColumns, TupleColumns)):
        items = column.items() if isinstance(column, DictColumns) else enumerate(column.columns)
        for key, item in items:
            yield from _leaves((*path, key), item)
    else:
        yield path, column


def _pictures(column: Any) -> Any:
    """A column, if its rows are pictures; those with channels first get them last. None if they are none."""
    if is_picture(column, 1):
        if column.ndim == 3 or column.shape[3] in _CHANNELS:
            return column
        return np.moveaxis(column, 1, 3) if column.shape[1] in (1, 3) else None
    if not isinstance(column, list) or all(row is None for row in column):
        return None
    good = all(row is None or (is_picture(row) and _shape(row)[2] in _CHANNELS) for row in column)
    return column if good else None


def _shape(picture: Any) -> tuple[int, int, int]:
    """Height, width, channels."""
    return picture.shape if picture.ndim == 3 else (*picture.shape, 1)


def _draw(canvas: Any, picture: Any) -> None:
    """Copies a picture to the upper left corner, in the colours of the canvas."""
    height, width, channels = _shape(picture)
    canvas[...] = 0
    corner = canvas[:height, :width]
    corner[...] = 255  # nothing is transparent in a picture that does not say so
    corner[..., : max(channels, min(3, canvas.shape[2]))] = picture.reshape(height, width, channels)
