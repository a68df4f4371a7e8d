"""The bytes that reach stdout, and what is safe and pretty to show on a screen."""

from __future__ import annotations

import os
import sys
from enum import IntEnum


class OutputClosedError(Exception):
    """Whoever read our output has gone, as `| head` does when it has seen enough."""


class Colour(IntEnum):
    """The colours in use, by their ANSI number."""

    RED = 31
    CYAN = 36


def write(data: bytes | memoryview) -> None:
    """Write data to stdout."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise OutputClosedError from None


def paint(text: str, colour: Colour) -> str:
    """Colour a word of talk, where stderr is a terminal and `NO_COLOR` is not set."""
    if not sys.stderr.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{colour.value}m{text}\x1b[0m"


def printable(text: str) -> str:
    """Show control characters by their code: names of objects must not steer a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _code(c) for c in text)


def _code(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
