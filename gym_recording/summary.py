"""What is known of each episode without its steps, as arrays over the episodes.

It is made from outlines: headers and rewards are read, no other column.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Iterable

import numpy as np

from .errors import missing_package
from .index import Trace
from .outline import FACTS, Outline

_FACTS = dict(zip(("started", "seeds", "ended_by", "terminated", "truncated", "lanes"), FACTS))


@dataclass(frozen=True, eq=False)
class Summary:
    """The statistics of N episodes; each attribute is an array (N,).

    Attributes:
        numbers: int64: 0 to N - 1, the number of the episode in the reader or view that was asked.
        traces: int64: the number of its trace in `reader.traces`.
        lengths: int64: T, the number of steps.
        returns: float64: `Episode.total_reward`, NaN where the rewards are not one number per step.
        started: object: text, UTC, ISO 8601; as all that follows, None where unknown.
        seeds: object: int.
        ended_by: object: text.
        terminated, truncated: object: bool.
        lanes: object: int.
    """

    numbers: Any
    traces: Any
    lengths: Any
    returns: Any
    started: Any
    seeds: Any
    ended_by: Any
    terminated: Any
    truncated: Any
    lanes: Any

    def __len__(self) -> int:
        """N."""
        return len(self.numbers)

    def __repr__(self) -> str:
        return f"<Summary of {len(self)} episodes>"

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`, a row per episode: `started` as time; dtypes that know what is missing.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise missing_package("pandas", "to_pandas", "pandas") from None
        frame = pandas.DataFrame({field.name: getattr(self, field.name) for field in fields(self)})
        frame["started"] = pandas.to_datetime(frame["started"], errors="coerce", utc=True, format="ISO8601")
        dtypes = {"ended_by": "string", "terminated": "boolean", "truncated": "boolean", "lanes": "Int64"}
        if all(seed is None or -(2**63) <= seed < 2**63 for seed in self.seeds):
            dtypes["seeds"] = "Int64"
        return frame.astype(dtypes)


def summarize(traces: list[Trace], outlines: Iterable[tuple[int, Any, Outline]]) -> Summary:
    """The summary of episodes.

    Args:
        traces: of the recording.
        outlines: of each batch the number of its first episode, the numbers of the episodes in it, and its outline.
    """
    whole: list[Any] = [np.zeros(0, "int64")]  # the numbers in the recording
    arrays: dict[str, list[Any]] = {
        field.name: [] for field in fields(Summary) if field.name not in ("numbers", "traces")
    }
    for start, chosen, outline in outlines:
        chosen = np.asarray(chosen, "int64")
        whole.append(chosen + start)
        arrays["lengths"].append(outline.lengths[chosen])
        arrays["returns"].append(outline.returns[chosen])
        for name, fact in _FACTS.items():
            arrays[name].append(_objects(outline.facts[fact])[chosen])
    dtypes = {"returns": "float64", **dict.fromkeys(_FACTS, "object")}
    joined = {name: np.concatenate([np.zeros(0, dtypes.get(name, "int64")), *parts]) for name, parts in arrays.items()}
    stops = np.array([trace.numbers.stop for trace in traces], "int64")
    return Summary(
        **joined,
        numbers=np.arange(len(joined["lengths"]), dtype="int64"),
        traces=stops.searchsorted(np.concatenate(whole), "right"),
    )


def _objects(values: list[Any]) -> Any:
    array = np.empty(len(values), "object")
    array[:] = values
    return array
