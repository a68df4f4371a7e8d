"""Find the line of a key in a TOML file, which Python's own parser does not report."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence

#: The steps to a value: names of keys, and positions in lists.
KeyPath = tuple[str | int, ...]

#: No setting lies deeper; a longer path is cut, since finding it costs the square of its length.
MOST_STEPS = 32

_KEY = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_TABLE = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_DOTTED})\s*=")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def find_line(text: str, path: Sequence[str | int]) -> int | None:
    """The line number of a key, or of the nearest table or value around it."""
    lines: dict[KeyPath, int] = {}
    for found, number in _keys(text):
        for prefix in _prefixes(found):
            # The first line counts: a table may be continued later in the file.
            lines.setdefault(prefix, number)
    return next(
        (lines[prefix] for prefix in _prefixes(tuple(path[:MOST_STEPS])) if prefix in lines), None
    )


def spell(path: Sequence[str | int]) -> str:
    """A key path as people write it: `lakes.prod.roots[0].name`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += ("." if text else "") + (step if _BARE.fullmatch(step) else f'"{step}"')
    return text


def _keys(text: str) -> Iterator[tuple[KeyPath, int]]:
    table: KeyPath = ()
    elements: Counter[tuple[str, ...]] = Counter()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.match(line):
            names = _names(header[2])
            elements[names] += header[1] == "[["
            table = _indexed(names, elements)
            yield table, number
        elif assignment := _ASSIGNMENT.match(line):
            yield table + _names(assignment[1]), number


def _prefixes(path: KeyPath) -> Iterator[KeyPath]:
    """The path itself, then each of its prefixes."""
    return (path[:length] for length in range(len(path), 0, -1))


def _names(dotted: str) -> tuple[str, ...]:
    """The names in a dotted key, split by Python's own parser."""
    names = []
    value: object = tomllib.loads(f"{dotted} = 0")
    while isinstance(value, dict):
        [(name, value)] = value.items()
        names.append(name)
    return tuple(names[:MOST_STEPS])


def _indexed(names: tuple[str, ...], elements: Counter[tuple[str, ...]]) -> KeyPath:
    """A table's path with the index in each list of tables on the way."""
    path: KeyPath = ()
    for length, name in enumerate(names, start=1):
        path += (name,)
        if count := elements[names[:length]]:
            path += (count - 1,)
    return path
