"""What callers may pass to a recorder, checked at the door: behind it, they are trusted. No default stands here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from .errors import TraceError
from .format import read_document, write_document


def at_least_zero(value: Any, field: str) -> Any:
    """An option that is a number or None; a number of NumPy becomes one of Python.

    Raises:
        TraceError: it is not.
    """
    if value is None:
        return None
    number = int(value) if isinstance(value, (int, np.integer)) else value
    number = float(number) if isinstance(number, (float, np.floating)) else number
    if not (isinstance(number, (int, float)) and number >= 0):
        raise TraceError("malformed", field=field, expected="a number from 0 on, or None", found=repr(value)[:80])
    return number


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


def json_copy(value: Mapping[str, Any] | None, field: str) -> Any:
    """A copy of a JSON object that nobody else can change, and that any reader will take."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise TraceError("malformed", field=field, expected="a dict", found=str(type(value)))
    try:
        text = json.dumps(value, allow_nan=False)
        copy = read_document(write_document(f'"value": {text}'), field)["value"]
        has_text_keys = _has_text_keys(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise TraceError(f"cannot be written as JSON: {error}", field=field) from error
    if not has_text_keys:  # `json` would write 1 as "1"
        raise TraceError("cannot be written as JSON: keys must be text", field=field)
    return copy


def _has_text_keys(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _has_text_keys(item) for key, item in value.items())
    return not isinstance(value, (list, tuple)) or all(map(_has_text_keys, value))
