"""What to do about files that cannot be read: fail, or continue and report.

Marking is *strict*: if a file that should name live files cannot be read, the live set is
unknown, so the first problem ends the walk. Purging is *tolerant*: the rest can still be
deleted, and each problem is reported. The caller chooses; the two are never mixed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from lakesweep.errors import (
    DeniedError,
    EncryptedError,
    FormatError,
    LakesweepError,
    LimitError,
    MissingError,
    StorageError,
    TruncatedError,
    UnreadableError,
)

#: What reading one file may raise; anything else is a bug and is never tolerated.
READ_ERRORS = (StorageError, FormatError, MissingError)

ReadError = StorageError | FormatError | MissingError


class ReadFailure(StrEnum):
    """What is wrong with a file that could not be read."""

    MISSING = "missing"
    TRUNCATED = "truncated"
    DAMAGED = "damaged"
    TOO_LARGE = "too large"
    ENCRYPTED = "encrypted"
    DENIED = "denied"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Problem:
    """One file that could not be read, and why."""

    path: str
    state: ReadFailure
    reason: str
    #: What to try, if it is more specific than the usual hint.
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.state}: {self.reason}"


class Tolerance(Protocol):
    """What to do about a file that could not be read. Safe to share between threads."""

    def meet(self, problem: Problem) -> None:
        """Return to continue without the file, or raise to stop."""
        ...


class Strict:
    """The first problem stops the walk."""

    def meet(self, problem: Problem) -> None:
        raise UnreadableError(problem.path, problem.state, problem.reason, hint=problem.hint)


@dataclass
class Tolerant:
    """The walk continues; the problems are collected."""

    problems: list[Problem] = field(default_factory=list)

    def meet(self, problem: Problem) -> None:
        self.problems.append(problem)


def problem_of(error: ReadError) -> Problem:
    """The problem that a read error stands for."""
    hint = None if error.hint == error.usual_hint else error.hint
    return Problem(error.path, _state(error), error.reason, hint)


def _state(error: LakesweepError) -> ReadFailure:
    match error:
        case MissingError():
            return ReadFailure.MISSING
        case TruncatedError():
            return ReadFailure.TRUNCATED
        case EncryptedError():
            return ReadFailure.ENCRYPTED
        case LimitError():
            return ReadFailure.TOO_LARGE
        case FormatError():
            return ReadFailure.DAMAGED
        case DeniedError():
            return ReadFailure.DENIED
        case _:
            return ReadFailure.UNAVAILABLE
