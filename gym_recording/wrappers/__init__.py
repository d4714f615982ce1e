"""The recorders that go around environments. The only modules that step environments."""

from .dm_env import TraceRecordingDmEnvWrapper
from .pettingzoo import TraceRecordingAECWrapper, TraceRecordingParallelWrapper
from .trace_recording import TraceRecordingWrapper
from .vector import TraceRecordingVectorWrapper

__all__ = [
    "TraceRecordingAECWrapper",
    "TraceRecordingDmEnvWrapper",
    "TraceRecordingParallelWrapper",
    "TraceRecordingVectorWrapper",
    "TraceRecordingWrapper",
]
