"""The recorders that go around environments. The only modules that know Gym's interfaces."""

from .trace_recording import TraceRecordingWrapper
from .vector import TraceRecordingVectorWrapper

__all__ = ["TraceRecordingVectorWrapper", "TraceRecordingWrapper"]
