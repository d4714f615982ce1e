"""The agent that does what was done: the recorded actions, episode by episode.

An action is given as an environment took it, as far as that is known: arrays can be written to, a dict or tuple is one,
an int is NumPy's int64, which the spaces of Gym sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .episode import Episode


def action_of(episode: Episode, step: int) -> Any:
    """The action of a step, which is the caller's own."""
    return _own(episode.actions[step])


def _own(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Mapping):
        return {key: _own(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_own, value))
    return value
