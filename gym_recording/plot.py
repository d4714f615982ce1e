"""A picture of a recording: returns and lengths over its episodes, each trace in a colour of its own."""

from __future__ import annotations

import os
from io import BytesIO
from typing import Any

import numpy as np

from . import files
from .errors import TraceError, missing_package
from .playback import TraceRecordingReader

_MEAN_OF = 20  # a running mean is over one part in so many of a trace's episodes, so that it shows the trend
_DRAWN = 1e300  # beyond, sums and the margins of the picture overflow
_INCHES = (10, 6)
_LEGEND = 10  # traces, beyond which colours come again, and names would hide the picture


def plot(reader: TraceRecordingReader, path: str | os.PathLike[str]) -> None:
    """Draws the returns and lengths of the episodes, with running means, and puts the picture at `path`.

    Args:
        reader: the episodes; or a view of some.
        path: where to, whole or not at all. Its ending says in which format: `.png`, `.pdf`, `.svg`, ...

    Raises:
        TraceError: there is no episode, or something is missing or damaged, or matplotlib has no such format.
        MissingPackageError: matplotlib is not installed.
        OSError: the picture cannot be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_package("matplotlib", "plot", "'gym_recording[plot]'") from None
    summary = reader.summary()
    if not len(summary):
        raise TraceError("there is no episode to plot", file=str(reader.directory))
    folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))
    figure = Figure(figsize=_INCHES, layout="constrained")
    kind = os.path.splitext(name)[1][1:].lower()
    known = FigureCanvasAgg(figure).get_supported_filetypes()
    if kind not in known:
        raise TraceError("no format of a picture", field=name, expected=", ".join(f".{one}" for one in sorted(known)))
    axes: Any = figure.subplots(2, sharex=True)
    traces = np.unique(summary.traces).tolist()
    for axis, label, values in zip(axes, ("return", "length (steps)"), (summary.returns, summary.lengths)):
        for color, trace in enumerate(traces):
            chosen = summary.traces == trace
            _draw(axis, summary.numbers[chosen], values[chosen], f"C{color}", reader.traces[trace].name)
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    axes[1].set_xlabel("episode")
    if 1 < len(traces) <= _LEGEND:
        axes[0].legend(fontsize="x-small")
    picture = BytesIO()
    figure.savefig(picture, format=kind)
    files.put(folder, name, [picture.getbuffer()], sync=False)


def _draw(axis: Any, numbers: Any, values: Any, color: str, label: str) -> None:
    """Points, and a line for the mean of those around each that are numbers which can be drawn."""
    values = np.where(np.abs(values) < _DRAWN, values, np.nan)
    axis.plot(numbers, values, ".", color=color, alpha=0.4, label=label)
    width = max(len(values) // _MEAN_OF, 1)
    if width > 1:
        sums, counts = (_running_sum(part, width) for part in (np.nan_to_num(values), ~np.isnan(values)))
        axis.plot(numbers, np.divide(sums, counts, where=counts > 0.5, out=np.full(len(sums), np.nan)), color=color)


def _running_sum(values: Any, width: int) -> Any:
    """The sums of `width` values around each: from both sides of blocks, so that nothing large is subtracted again."""
    count = len(values)
    blocks = np.zeros((-(-count // width) + 1, width))
    blocks.reshape(-1)[width // 2 : width // 2 + count] = values
    after = blocks.cumsum(axis=1).reshape(-1)  # from the beginning of the block
    before = blocks[:, ::-1].cumsum(axis=1)[:, ::-1].reshape(-1)  # to its end
    starts = np.arange(count)
    return before[:count] + np.where(starts % width, after[starts + width - 1], 0)
