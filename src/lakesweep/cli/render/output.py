"""Write results: data to stdout, messages to stderr, for people or as JSON."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from lakesweep.cli.render.terminal import Colour, edge_of, has_colours, paint, write
from lakesweep.cli.render.text_table import TextTable, fold
from lakesweep.errors import LakesweepError
from lakesweep.progress import SILENT, Progress
from lakesweep.redaction import masked
from lakesweep.untrusted.text import printable, printable_lines

if TYPE_CHECKING:
    import msgspec
    import pyarrow as pa

    #: A result of an operation, or JSON values with datetimes, dataclasses and enums inside.
    Document = Mapping[str, object] | msgspec.Struct

_TRY = "try:"
#: The first words of lines that stand out.
_COLOURS = {"error:": Colour.RED, "warning:": Colour.YELLOW, _TRY: Colour.CYAN}

Line = TypeVar("Line")


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """How a failed command ended; `lines` are those of its message."""

    type: str
    lines: tuple[str, ...]
    hint: str | None
    exit_code: int

    @classmethod
    def of(cls, error: LakesweepError) -> CommandFailure:
        """The failure of one of our errors."""
        return cls(type(error).__name__, error.lines, error.hint, error.exit_code)


class OutputLine(Protocol):
    """One line of many: a dataclass whose fields are for programs, and its text for people."""

    def text(self) -> str: ...


class RowFormatter(Protocol):
    """Batches as lines for people, one per row; programs get the columns. Counts them too."""

    @property
    def columns(self) -> Sequence[str]: ...

    def encode(self, batch: pa.RecordBatch, edge: int | None = None) -> bytes: ...

    def summary(self) -> str: ...


class Output(Protocol):
    """Where a command puts its results. All of it may raise OutputClosedError."""

    def result(self, document: Document, *tables: TextTable) -> None:
        """Give the result of the command: the document to programs, the tables to people."""
        ...

    def files(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Stream rows of FILE_SCHEMA as they come, and show how many have come."""
        ...

    def rows(self, batches: Iterable[pa.RecordBatch], rows: RowFormatter) -> None:
        """Stream rows of any columns in the same way."""
        ...

    def report(self, document: Document, batches: Iterable[pa.RecordBatch]) -> None:
        """Give a document with files, however many: to programs as `files`, its last member."""
        ...

    def lines(self, lines: Iterable[OutputLine]) -> None:
        """Stream many results as they come."""
        ...

    def structs(self, structs: Iterable[Line], text: Callable[[Line], str | Sequence[str]]) -> None:
        """The same for values that do not know their text, of one line or several."""
        ...

    def say(self, text: str) -> None:
        """Tell people something; not with `--quiet`."""
        ...

    def detail(self, text: str) -> None:
        """Tell people more; only with `--verbose`."""
        ...

    def error(self, failure: CommandFailure) -> None:
        """Say what went wrong, why, and what to try."""
        ...


class _Streamed(ABC):
    """What both outputs share: talk on stderr, and a count while files stream to stdout."""

    def __init__(self, progress: Progress, *, quiet: bool = False, verbose: bool = False) -> None:
        self._progress = progress
        self._quiet = quiet
        self._verbose = verbose

    def say(self, text: str) -> None:
        if not self._quiet:
            _talk(masked(text))

    def detail(self, text: str) -> None:
        if self._verbose:
            _talk(masked(text))

    def files(self, batches: Iterable[pa.RecordBatch]) -> None:
        from lakesweep.cli.render.rows import FileRows

        self.rows(batches, FileRows())

    def rows(self, batches: Iterable[pa.RecordBatch], rows: RowFormatter) -> None:
        # On a terminal the lines themselves show how far it is; a bar would be torn by them.
        with (SILENT if sys.stdout.isatty() else self._progress).task("listed") as task:
            for batch in batches:
                write(self._encode(batch, rows))
                task.advance(batch.num_rows)

    @abstractmethod
    def _encode(self, batch: pa.RecordBatch, rows: RowFormatter) -> bytes | memoryview: ...


class JsonOutput(_Streamed):
    """One JSON document, or one JSON object a line for files."""

    def result(self, document: Document, *tables: TextTable) -> None:
        del tables
        write(_encode(document))

    def report(self, document: Document, batches: Iterable[pa.RecordBatch]) -> None:
        from lakesweep.json_lines import encode_lines

        write(_encode(document).rstrip()[:-1] + b',"files":[')
        comma = b""
        for batch in batches:
            if batch.num_rows:
                lines = bytes(encode_lines(batch)).rstrip(b"\n")
                write(comma + lines.replace(b"\n", b","))
                comma = b","
        write(b"]}\n")

    def lines(self, lines: Iterable[OutputLine]) -> None:
        for line in lines:
            write(_encode(line))

    def structs(self, structs: Iterable[Line], text: Callable[[Line], str | Sequence[str]]) -> None:
        del text
        for struct in structs:
            write(_encode(struct))

    def error(self, failure: CommandFailure) -> None:
        document = {
            "type": failure.type,
            "message": "\n".join(failure.lines),
            "hint": failure.hint,
            "exit_code": failure.exit_code,
        }
        sys.stderr.write(_encode({"error": document}).decode())

    def _encode(self, batch: pa.RecordBatch, rows: RowFormatter) -> memoryview:
        from lakesweep.json_lines import encode_lines

        return encode_lines(batch.select(list(rows.columns)))


class ConsoleOutput(_Streamed):
    """Tables and lines for people."""

    def result(self, document: Document, *tables: TextTable) -> None:
        del document
        shown = (self._lines(table) for table in tables)
        write("\n".join(shown).encode())

    def _lines(self, table: TextTable) -> str:
        lines = table.lines(edge_of(sys.stdout), colour=has_colours(sys.stdout))
        return "".join(f"{line}\n" for line in lines)

    def rows(self, batches: Iterable[pa.RecordBatch], rows: RowFormatter) -> None:
        super().rows(batches, rows)
        self.say(rows.summary())

    def report(self, document: Document, batches: Iterable[pa.RecordBatch]) -> None:
        del document
        self.files(batches)

    def lines(self, lines: Iterable[OutputLine]) -> None:
        self.structs(lines, lambda line: line.text())

    def structs(self, structs: Iterable[Line], text: Callable[[Line], str | Sequence[str]]) -> None:
        edge = edge_of(sys.stdout)
        for struct in structs:
            lines = printable_lines(text(struct)).splitlines()
            write("".join(f"{each}\n" for line in lines for each in fold(line, edge)).encode())

    def error(self, failure: CommandFailure) -> None:
        first, *rest = failure.lines
        _talk(f"error: {first}", *rest)
        if failure.hint:
            _talk(f"{_TRY} {failure.hint}")

    def _encode(self, batch: pa.RecordBatch, rows: RowFormatter) -> bytes:
        return rows.encode(batch, edge_of(sys.stdout))


def _talk(*lines: str) -> None:
    """Write lines to stderr. A command to try stays in one piece, so that it can be copied."""
    for line in map(printable, lines):
        edge = None if line.startswith(_TRY) else edge_of(sys.stderr)
        sys.stderr.write("".join(f"{_painted(each)}\n" for each in fold(line, edge)))


def _painted(line: str) -> str:
    word, gap, rest = line.partition(" ")
    colour = _COLOURS.get(word)
    return f"{paint(word, colour)}{gap}{rest}" if colour else line


def _encode(document: object) -> bytes:
    import msgspec

    return msgspec.json.encode(document) + b"\n"
