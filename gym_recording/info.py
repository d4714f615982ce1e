"""What `gym-recording info` says of a recording: an object of JSON, and lines of text made from it.

What is shown comes from files and is untrusted: it may be of any type, is shortened, and `cli` escapes it.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, Iterator

import numpy as np

from .format import is_current
from .playback import Trace, TraceRecordingReader

INFO_KEYS = """\
--json prints one object, with null where a recording does not say:
  directory   as it was given
  traces      list of {name, created, closed, repaired, env, observation_space, action_space, metadata,
              episodes}
  episodes    how many
  steps       how many, of all episodes
  returns     {episodes, min, mean, max}: sums of rewards, of the episodes where that is a number;
              what is not finite is text: "nan", "inf", "-inf"
  lengths     {episodes, min, mean, max}: steps of an episode
  ended_by    {reason: episodes}; "unknown" in old recordings and copies of them, and while an episode runs
  started     {episodes, first, last}: when they began, UTC, ISO 8601
  seeds       how many episodes were reset with one
  bytes       on disk
  files       how many
  errors      list of text: what is missing or damaged, and left out above
"""
_STATISTICS = ("min", "mean", "max")
_MAX_TEXT, _MAX_DEPTH = 200, 8  # characters of an id or a space; spaces in spaces


def counted(number: int, noun: str, plural: str = "s") -> str:
    """`1 episode`, `2 episodes`."""
    return f"{number} {noun}{'' if number == 1 else plural}"


def summary(reader: TraceRecordingReader) -> dict[str, Any]:
    """What `INFO_KEYS` describes, but for what hangs on the files."""
    found = reader.summary()
    return {
        "directory": reader.directory,
        "traces": [_trace_summary(trace) for trace in reader.traces],
        "episodes": len(found),
        "steps": sum(found.lengths.tolist()),  # Python's ints have no end
        "returns": _statistics(found.returns[~np.isnan(found.returns)]),
        "lengths": _statistics(found.lengths),
        "ended_by": dict(Counter(reason or "unknown" for reason in found.ended_by)),
        "started": _period([started[:_MAX_TEXT] for started in found.started if started is not None]),
        "seeds": sum(seed is not None for seed in found.seeds),
    }


def _trace_summary(trace: Trace) -> dict[str, Any]:
    spaces = {key: trace.env.get(key) for key in ("observation_space", "action_space")}
    return {
        "name": trace.name,
        "created": trace.created or None,
        "closed": trace.closed if is_current(trace.name) and trace.error is None else None,
        "repaired": trace.repaired or None,
        "env": str(trace.env["id"])[:_MAX_TEXT] if "id" in trace.env else None,
        **{key: None if space is None else _space(space) for key, space in spaces.items()},
        "metadata": trace.metadata,
        "episodes": len(trace),
    }


def _period(started: list[str]) -> dict[str, Any] | None:
    return {"episodes": len(started), "first": min(started), "last": max(started)} if started else None


def _statistics(values: Any) -> dict[str, Any] | None:
    if not len(values):
        return None
    numbers = [getattr(values, key)().item() for key in _STATISTICS]
    strict = [number if math.isfinite(number) else repr(number) for number in numbers]
    return {"episodes": len(values), **dict(zip(_STATISTICS, strict))}


def _space(space: Any, depth: int = 0) -> str:
    """A space of a manifest, which may be anything: `Box(low=0, high=255, shape=[210, 160, 3], dtype=uint8)`."""
    if not isinstance(space, dict) or depth > _MAX_DEPTH:
        return "?"
    parts = space.get("spaces")
    if isinstance(parts, (dict, list)):
        items: Any = parts.items() if isinstance(parts, dict) else enumerate(parts)
        texts = [f"{key}={_space(part, depth + 1)}" for key, part in items]
    else:
        uneven = [key for key in ("low", "high") if isinstance(space.get(key), list)]  # a bound for every element
        texts = [f"{key}={value}" for key, value in space.items() if key not in ("type", *uneven)]
    text = f"{space.get('type')}({', '.join(texts)})"
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "..."


def info_lines(info: dict[str, Any]) -> Iterator[str]:
    """The same for people."""
    if not info["traces"]:
        yield f"{info['directory']}: nothing is recorded"
        return
    counts = [
        counted(len(info["traces"]), "trace"),
        counted(info["episodes"], "episode"),
        counted(info["steps"], "step"),
    ]
    yield f"{info['directory']}: {', '.join(counts)}, {info['bytes']} bytes in {counted(info['files'], 'file')}"
    for key in ("returns", "lengths"):
        numbers = info[key] or {"episodes": 0}
        texts = [f"{name} {float(numbers[name]):.8g}" for name in _STATISTICS if name in numbers]
        if numbers["episodes"] < info["episodes"]:
            texts.append(f"of {counted(numbers['episodes'], 'episode')}; the returns of others are no numbers")
        yield f"  {key:13}{', '.join(texts)}"
    yield f"  ended by     {', '.join(f'{reason} {count}' for reason, count in sorted(info['ended_by'].items()))}"
    if info["started"]:
        yield f"  started      {info['started']['first']} to {info['started']['last']}"
    if info["seeds"]:
        yield f"  seeds        of {counted(info['seeds'], 'episode')}"
    for trace in info["traces"]:
        state = ", repaired after a crash" if trace["repaired"] else ", not closed" if trace["closed"] is False else ""
        yield f"{trace['name']}: {counted(trace['episodes'], 'episode')}{state}"
        for key in ("created", "env", "observation_space", "action_space"):
            if trace[key] is not None:
                yield f"  {key.replace('_space', 's'):13}{trace[key]}"
        if trace["metadata"] is not None:
            yield f"  metadata     {json.dumps(trace['metadata'])[:_MAX_TEXT]}"
