"""Write to stdout with clear errors, and colour text for terminals."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from enum import IntEnum
from typing import Any, TextIO, cast

from lakesweep.errors import IncompleteError


class OutputClosedError(Exception):
    """The reader of our output has closed it, as `| head` does when it has seen enough."""


class OutputFailedError(IncompleteError):
    """What should go to stdout cannot be written there, such as to a full disk."""

    usual_hint = "free some space, or send the output elsewhere; then run the same command again"


class Colour(IntEnum):
    """The colours in use, by their ANSI number."""

    RED = 31
    YELLOW = 33
    CYAN = 36


def write(data: bytes | memoryview) -> None:
    """Write data to stdout."""
    with _to_stdout():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@contextmanager
def guarded_stdout() -> Iterator[None]:
    """Let all that is printed here reach stdout; others, such as Typer, print with our errors."""
    with redirect_stdout(cast("TextIO", _Guarded(sys.stdout))):
        yield
        sys.stdout.flush()


class _Guarded:
    """A stream that tells when it cannot be written, in our own words."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with _to_stdout():
            return self._stream.write(text)

    def flush(self) -> None:
        with _to_stdout():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _to_stdout() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise OutputClosedError from None
    except OSError as error:
        reason = error.strerror or error
        raise OutputFailedError(f"the standard output cannot be written: {reason}") from error


def paint(text: str, colour: Colour) -> str:
    """Colour a word of talk, where stderr is a terminal and `NO_COLOR` is not set."""
    return coloured(text, colour) if has_colours(sys.stderr) else text


def coloured(text: str, colour: Colour) -> str:
    """Text between the codes that switch a colour on and off."""
    return f"\x1b[{colour.value}m{text}\x1b[0m"


def has_colours(stream: TextIO) -> bool:
    """Whether a stream is a terminal whose user has not asked for plain text."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


def edge_of(stream: TextIO) -> int | None:
    """The columns of a terminal; lines for a file or a pipe are as long as they need be."""
    return shutil.get_terminal_size().columns if stream.isatty() else None
