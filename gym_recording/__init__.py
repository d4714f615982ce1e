"""Records what an agent and an environment did, to plain files, and plays it back.

    env = TraceRecordingWrapper(env, directory)
    scan_recorded_traces(directory, callback)

Importing this package imports neither gym nor gymnasium; names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "1.0.0.dev0"

if TYPE_CHECKING:
    from .columns import optimize_list_of_ndarrays
    from .copying import Copied, copy_episodes
    from .difference import Difference
    from .episode import DictColumns, Episode, TupleColumns
    from .errors import ClosedError, MissingEpisodesError, MissingPackageError, TraceError
    from .index import Trace
    from .memory import MemoryDirectory
    from .merging import Merged, merge
    from .playback import TraceRecordingReader, scan_recorded_traces
    from .playback_env import PlaybackEnv
    from .position import PlaybackAgent
    from .recording import TraceRecording
    from .replaying import EpisodeReplay, replay
    from .summary import Summary
    from .transitions import Transition, Transitions
    from .windows import Window, Windows
    from .wrappers import (
        TraceRecordingAECWrapper,
        TraceRecordingDmEnvWrapper,
        TraceRecordingParallelWrapper,
        TraceRecordingVectorWrapper,
        TraceRecordingWrapper,
    )

_HOMES = {
    "ClosedError": "errors",
    "Copied": "copying",
    "DictColumns": "episode",
    "Difference": "difference",
    "Episode": "episode",
    "EpisodeReplay": "replaying",
    "MemoryDirectory": "memory",
    "Merged": "merging",
    "MissingEpisodesError": "errors",
    "MissingPackageError": "errors",
    "PlaybackAgent": "position",
    "PlaybackEnv": "playback_env",
    "Summary": "summary",
    "Trace": "index",
    "TraceError": "errors",
    "TraceRecording": "recording",
    "TraceRecordingAECWrapper": "wrappers",
    "TraceRecordingDmEnvWrapper": "wrappers",
    "TraceRecordingParallelWrapper": "wrappers",
    "TraceRecordingReader": "playback",
    "TraceRecordingVectorWrapper": "wrappers",
    "TraceRecordingWrapper": "wrappers",
    "Transition": "transitions",
    "Transitions": "transitions",
    "TupleColumns": "episode",
    "copy_episodes": "copying",
    "merge": "merging",
    "Window": "windows",
    "Windows": "windows",
    "optimize_list_of_ndarrays": "columns",
    "replay": "replaying",
    "scan_recorded_traces": "playback",
}
_MODULES = ("playback", "recording", "test_recording", "wrappers")

__all__ = [
    "ClosedError",
    "Copied",
    "DictColumns",
    "Difference",
    "Episode",
    "EpisodeReplay",
    "MemoryDirectory",
    "Merged",
    "MissingEpisodesError",
    "MissingPackageError",
    "PlaybackAgent",
    "PlaybackEnv",
    "Summary",
    "Trace",
    "TraceError",
    "TraceRecording",
    "TraceRecordingAECWrapper",
    "TraceRecordingDmEnvWrapper",
    "TraceRecordingParallelWrapper",
    "TraceRecordingReader",
    "TraceRecordingVectorWrapper",
    "TraceRecordingWrapper",
    "Transition",
    "Transitions",
    "TupleColumns",
    "Window",
    "Windows",
    "__version__",
    "copy_episodes",
    "get_include",
    "merge",
    "optimize_list_of_ndarrays",
    "replay",
    "scan_recorded_traces",
]


def get_include() -> str:
    """The directory of `gym_recording.hpp`, the reader for C++, as compilers want it."""
    import os

    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "readers")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
