"""What an operation exchanges with its caller while it runs.

An operation is one function: `operation(app, request, io)`, or `operation(app, request, confirm,
io)` if it deletes. The caller is a command, a service or a user's own Python; the operation never
prints and never reads from a terminal. The clock is the app's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from lakesweep.app import App
from lakesweep.progress import SILENT, Progress

Preview = TypeVar("Preview")

#: Decides whether an operation may delete. No implementation agrees by default.
#:
#: The operation calls it once, after all guards have passed and before anything changes, with a
#: preview of what it is about to do. It returns to agree and raises RefusedError to refuse. A dry
#: run calls it too, so that the caller can show the preview, and then deletes nothing.
Confirm = Callable[[Preview], None]

#: Receives a sentence that people should read before the operation ends.
Notify = Callable[[str], None]


def _ignore(notice: str) -> None:
    """Drop the notice."""
    del notice


@dataclass(frozen=True, slots=True)
class Interaction:
    """Where an operation reports while it runs; nowhere by default."""

    progress: Progress = SILENT
    notify: Notify = _ignore
    verbose: bool = False
    """Whether engines write their own logs to stderr."""


#: For callers that only want the result.
SILENT_IO = Interaction()


class EngineName(StrEnum):
    """Where the steps of an operation run: on Spark as configured, or in this process."""

    SPARK = "spark"
    LOCAL = "local"


def choose_engine(app: App, name: EngineName | str | None) -> EngineName:
    """The engine of this name, or that of the configuration; Spark if neither names one."""
    return EngineName(name or app.config.engine or EngineName.SPARK)
