"""What callers may pass to a recorder, checked at the door: behind it, options are trusted. No default stands here."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import TraceError


def at_least_zero(value: Any, field: str) -> Any:
    """An option that is a number or None.

    Raises:
        TraceError: it is not.
    """
    if value is not None and not (isinstance(value, (int, float, np.number)) and value >= 0):
        raise TraceError("malformed", field=field, expected="a number from 0 on, or None", found=repr(value)[:80])
    return value


def at_least_one(value: Any, field: str) -> None:
    """Whether an option is a whole number from 1 on, or None.

    Raises:
        TraceError: it is not.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise TraceError("malformed", field=field, expected="a number from 1 on, or None", found=repr(value)[:80])


def one_of(value: Any, choices: tuple[str, ...], field: str) -> None:
    """Whether an option is one of a few words.

    Raises:
        TraceError: it is not.
    """
    if value not in choices:
        raise TraceError(
            "unknown", field=field, expected=" or ".join(f'"{word}"' for word in choices), found=repr(value)
        )
