"""The exception family: every complaint names the file, the field, what was expected and what was found.

`TraceError` is a `ValueError`; its subclasses are there where a caller would want to tell one from another.
Errors of the operating system (a full disk, no permission) stay `OSError`s and carry the file's name.
"""

from __future__ import annotations

from typing import Any


class TraceError(ValueError):
    """A value cannot be recorded, or a recording cannot be read.

    Attributes:
        problem: what is wrong, one sentence.
        file: the file concerned, or None.
        field: the path inside that file, or of the value (`observations.image`), or None.
        expected: what would have been right, or None.
        found: what was there instead, or None.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        field: str | None = None,
        expected: str | None = None,
        found: str | None = None,
    ) -> None:
        self.problem = problem
        self.file = file
        self.field = field
        self.expected = expected
        self.found = found
        super().__init__(problem)

    def __str__(self) -> str:
        """One line: file, field, problem, expected, found; what is unknown is left out."""
        where = [part for part in (self.file, self.field) if part]
        detail = [f"{word} {text}" for word, text in (("expected", self.expected), ("found", self.found)) if text]
        return ": ".join([*where, self.problem]) + (f" ({', '.join(detail)})" if detail else "")

    def __reduce__(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """Errors cross process boundaries (data loaders, pools) with all their fields."""
        return type(self), (self.problem,), self.__dict__.copy()


class MissingEpisodesError(TraceError):
    """Episodes that a trace must have are not there: a header or a blob is absent."""


class ClosedError(TraceError):
    """A closed recorder was asked to record."""


class MissingPackageError(TraceError, ImportError):
    """An optional package is needed; the message has the line that installs it."""


def missing_package(package: str, purpose: str, install: str) -> MissingPackageError:
    """The error for an absent optional package."""
    return MissingPackageError(f"{purpose} needs the package {package}: pip install {install}")
