"""Two ways to meet a file that cannot be read, chosen by the caller and never mixed.

Marking is *strict*: a file that should name live files and cannot be read means that the live set
is not known, so the first problem ends the walk. Purging is *tolerant*: the rest can still go, and
each problem is kept for the outcome.
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
    MissingError,
    StorageError,
    TruncatedError,
    UnreadableError,
)

#: What reading one file may raise; anything else is a defect of ours and is never tolerated.
READ_ERRORS = (StorageError, FormatError, MissingError)

ReadError = StorageError | FormatError | MissingError


class State(StrEnum):
    """What is wrong with a file that could not be read."""

    MISSING = "missing"
    TRUNCATED = "truncated"
    DAMAGED = "damaged"
    ENCRYPTED = "encrypted"
    DENIED = "denied"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Problem:
    """One file that could not be read, and why."""

    path: str
    state: State
    reason: str
    #: What to try, where it is more than what is always said.
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.state}: {self.reason}"


class Tolerance(Protocol):
    """What to do about a file that could not be read. Safe to share between threads."""

    def meet(self, problem: Problem) -> None:
        """Return to go on without the file, or raise to stop."""
        ...


class Strict:
    """The first problem stops the walk."""

    def meet(self, problem: Problem) -> None:
        raise UnreadableError(problem.path, problem.state, problem.reason, hint=problem.hint)


@dataclass
class Tolerant:
    """The walk goes on; the problems are kept."""

    problems: list[Problem] = field(default_factory=list)

    def meet(self, problem: Problem) -> None:
        self.problems.append(problem)


def problem_of(error: ReadError) -> Problem:
    """The problem that an error of reading stands for."""
    hint = None if error.hint == error.usual_hint else error.hint
    return Problem(error.path, _state(error), error.reason, hint)


def _state(error: LakesweepError) -> State:
    match error:
        case MissingError():
            return State.MISSING
        case TruncatedError():
            return State.TRUNCATED
        case EncryptedError():
            return State.ENCRYPTED
        case FormatError():
            return State.DAMAGED
        case DeniedError():
            return State.DENIED
        case _:
            return State.UNAVAILABLE
