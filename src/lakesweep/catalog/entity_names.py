"""Names of entities, and dotted paths of names from the top of a catalog."""

from __future__ import annotations

import re
from typing import TypeAlias

from lakesweep.errors import UsageError

#: A path as callers may write it: its parts, or one text with dots between them.
Name: TypeAlias = str | tuple[str, ...]

MAX_NAME_BYTES = 500

_PART = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')
_PATH = re.compile(r'("([^"]|"")+"|[^."]+)(\.("([^"]|"")+"|[^."]+))*')
_PLAIN = re.compile(r'[^."\s]+')


def split(name: Name) -> tuple[str, ...]:
    """The parts of a path; UsageError where one cannot be a name.

    In text, a part that holds a dot stands in double quotes: `sales."2026.q1".orders`. Inside of
    them, a double quote is written twice.
    """
    parts = name if isinstance(name, tuple) else _parse(name)
    if not parts:
        raise UsageError("a name has one part at least", hint="write namespace.table")
    for part in parts:
        check_name(part)
    return parts


def join(parts: tuple[str, ...]) -> str:
    """A path as text that `split` takes back: no two paths have the same."""
    return ".".join(part if _PLAIN.fullmatch(part) else _quoted(part) for part in parts)


def check_name(name: str) -> None:
    """UsageError unless an entity may have this name."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= MAX_NAME_BYTES or any(ord(character) < 32 for character in name):
        raise UsageError(
            f"{name[:80]!r} cannot be a name",
            hint=f"use 1 to {MAX_NAME_BYTES} bytes of UTF-8, without control characters",
        )


def _parse(text: str) -> tuple[str, ...]:
    if not _PATH.fullmatch(text):
        raise UsageError(
            f"{text[:80]!r} is no name",
            hint='write namespace.table, and parts with dots in quotes: sales."2026.q1".orders',
        )
    return tuple(quoted.replace('""', '"') or plain for quoted, plain in _PART.findall(text))


def _quoted(part: str) -> str:
    return '"{}"'.format(part.replace('"', '""'))
