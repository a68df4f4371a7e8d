"""Tables and lines for people, laid out for the width of their terminal.

No name is ever split, because a split name cannot be read, searched for or copied. A table that is
too wide first wraps its sentences. If that is not enough, the cells that need the most room leave
the grid and stand on lines of their own, right below the rest of their row. Only a cell that is an
address longer than a whole line is shortened, in the middle; `--json` has all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rich.cells import cell_len

from lakesweep.cli.render.terminal import Colour, coloured
from lakesweep.untrusted.text import printable

_EDGE = " "
_GAP = "   "
_INDENT = "    "
#: A sentence in a narrower column is hard to read.
_NARROWEST = 24
#: Figures that are nothing to worry about.
_NOTHING = frozenset({"0", "0 B", "-", ""})
#: Columns, and rows by their first cell. What goes is red; what holds it up is yellow.
_COLOURS = {
    **dict.fromkeys(("delete", "to delete", "bytes to delete", "deleted"), Colour.RED),
    **dict.fromkeys(("missing", "missing file", "fail"), Colour.RED),
    **dict.fromkeys(("guard", "incomplete root", "lists no table at all"), Colour.YELLOW),
    **dict.fromkeys(("failed", "warn"), Colour.YELLOW),
}
_FIELD = re.compile(r"\s{2,}")


@dataclass(frozen=True)
class TextTable:
    """Rows for people. Columns named in `numbers` are right-aligned."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    title: str | None = None
    numbers: frozenset[str] = frozenset()

    def lines(self, width: int | None = None, *, colour: bool = False) -> Iterator[str]:
        """The lines of the table, in `width` columns if there is an edge."""
        if self.title is not None:
            yield from fold(printable(self.title), width)
        yield from _Layout(self, width, colour=colour).lines()


@dataclass
class _Layout:
    """How a table is laid out in a width."""

    table: TextTable
    width: int | None
    colour: bool

    @cached_property
    def _rows(self) -> list[list[str]]:
        return [[printable(cell) for cell in row] for row in self.table.rows]

    @cached_property
    def _limit(self) -> int:
        """The widest cell that stays in the grid."""
        needs = {self._need(cell, c) for row in self._rows for c, cell in enumerate(row)}
        for limit in sorted(needs, reverse=True):
            if self._fits(self._least(limit)):
                return limit
        return 0

    @cached_property
    def _widths(self) -> list[int]:
        """As wide as the cells in the grid, or less where sentences can wrap."""
        least, widths = self._least(self._limit), self._natural(self._limit)
        while not self._fits(widths):
            spare = [w - m for w, m in zip(widths, least, strict=True)]
            if max(spare) <= 0:
                break
            widest = max((w, c) for c, w in enumerate(widths) if spare[c] > 0)[1]
            widths[widest] -= 1
        return widths

    def _fits(self, widths: Sequence[int]) -> bool:
        used = len(_EDGE) + sum(widths) + len(_GAP) * (len(widths) - 1)
        return self.width is None or used <= self.width

    def _natural(self, limit: int) -> list[int]:
        return [
            max([cell_len(title), *(cell_len(cell) for cell in self._within(c, limit))])
            for c, title in enumerate(self.table.columns)
        ]

    def _least(self, limit: int) -> list[int]:
        return [
            max([_need(title), *(self._need(cell, c) for cell in self._within(c, limit))])
            for c, title in enumerate(self.table.columns)
        ]

    def _within(self, column: int, limit: int) -> Iterator[str]:
        cells = (row[column] for row in self._rows)
        return (cell for cell in cells if self._need(cell, column) <= limit)

    def _need(self, cell: str, column: int) -> int:
        """The least width that a cell needs: figures stay together, sentences wrap."""
        if self.table.columns[column] in self.table.numbers:
            return cell_len(cell)
        return _need(cell)

    def lines(self) -> Iterator[str]:
        yield from self._grid(self.table.columns, [None] * len(self.table.columns))
        rule = sum(self._widths) + len(_GAP) * (len(self._widths) - 1)
        yield _EDGE + "─" * rule
        for row in self._rows:
            yield from self._row(row)

    def _row(self, row: Sequence[str]) -> Iterator[str]:
        colours = [self._colour(row, c) for c in range(len(row))]
        wide = [self._need(cell, c) > self._limit for c, cell in enumerate(row)]
        inside = ["" if out else cell for cell, out in zip(row, wide, strict=True)]
        for c, cell in enumerate(row):
            if c == 0 and wide[0]:
                yield from self._alone(cell, _EDGE, colours[0])
            if c == 0 and any(inside):
                yield from self._grid(inside, colours)
            if c > 0 and wide[c]:
                name = self.table.columns[c]
                label = f"{name}: " if name and len(row) > 2 else ""
                yield from self._alone(cell, _INDENT, colours[c], label)

    def _grid(self, cells: Sequence[str], colours: Sequence[Colour | None]) -> Iterator[str]:
        columns = [_wrapped(cell, self._widths[c]) for c, cell in enumerate(cells)]
        for number in range(max(map(len, columns))):
            pieces = [
                self._piece(lines[number] if number < len(lines) else "", c, colours[c])
                for c, lines in enumerate(columns)
            ]
            yield (_EDGE + _GAP.join(pieces)).rstrip()

    def _piece(self, text: str, column: int, colour: Colour | None) -> str:
        space = " " * (self._widths[column] - cell_len(text))
        right = self.table.columns[column] in self.table.numbers
        shown = self._painted(text, colour)
        return space + shown if right else shown + space

    def _alone(
        self, cell: str, indent: str, colour: Colour | None, label: str = ""
    ) -> Iterator[str]:
        assert self.width is not None  # otherwise every cell fits
        room = self.width - len(indent)
        for line in _wrapped(label + _shortened(cell, room - len(label)), room):
            yield indent + self._painted(line, colour)

    def _painted(self, text: str, colour: Colour | None) -> str:
        return coloured(text, colour) if self.colour and colour and text else text

    def _colour(self, row: Sequence[str], column: int) -> Colour | None:
        if row[column] in _NOTHING:
            return None
        by_column = _COLOURS.get(self.table.columns[column])
        return by_column or (None if row[1:2] == ["0"] else _COLOURS.get(row[0]))


def fold(line: str, width: int | None) -> list[str]:
    """A line in as many as it needs, broken between its fields, or else between words."""
    if width is None or cell_len(line) <= width:
        return [line]
    lines, room = [""], width - len(_INDENT)
    indent = line[: len(line) - len(line.lstrip())]
    for start, field in _fields(line, len(indent)):
        gap = " " * start if lines[-1] else indent
        if cell_len(lines[-1] + gap + field) <= width:
            lines[-1] += gap + field
            continue
        first, *rest = _wrapped(field, room)
        lines += [f"{_INDENT if lines[-1] else indent}{first}", *(_INDENT + each for each in rest)]
    return [each.rstrip() for each in lines if each.strip()]


def _fields(line: str, begin: int) -> Iterator[tuple[int, str]]:
    """What stands between gaps of two or more spaces, each with the width of the gap before it."""
    gap = 0
    for found in _FIELD.finditer(line, begin):
        yield gap, line[begin : found.start()]
        gap, begin = len(found.group()), found.end()
    yield gap, line[begin:]


def _shortened(cell: str, width: int) -> str:
    """An address without its middle, if it is longer than a line; its end says the most.

    One in a sentence stays whole on a line of its own: it may be part of a command.
    """
    if cell_len(cell) <= width or " " in cell or "/" not in cell:
        return cell
    head = width // 3
    return f"{cell[:head]}…{cell[len(cell) - (width - head - 1) :]}"


def _need(text: str) -> int:
    return max(*map(cell_len, text.split(" ")), min(cell_len(text), _NARROWEST))


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of whole words."""
    if cell_len(text) <= width:
        return [text]
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cell_len(joined) > width:
            lines.append(word)
        else:
            lines[-1] = joined
    return lines
