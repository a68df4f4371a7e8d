"""Text from outside, as it is printed: to a terminal, a log or a page.

Names of files, tables and commits are whatever others wrote. A line break in one could forge a
line of ours, an escape sequence could steer a terminal, and a bidirectional control could show a
name in another order. `printable` shows all of these by their code. It is applied where text is
written, so that no message can forget it; lines of our own are therefore passed as several texts.
"""

from __future__ import annotations

from collections.abc import Iterable


def printable(text: str) -> str:
    """One line, with control characters, line breaks and hidden characters shown by their code."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _code(c) for c in text)


def printable_lines(text: str | Iterable[str]) -> str:
    """Several lines of our own, or one."""
    lines = (text,) if isinstance(text, str) else text
    return "\n".join(map(printable, lines))


def _code(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
