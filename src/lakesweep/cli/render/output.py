"""Write results: data to stdout, messages to stderr, for people or as JSON."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from lakesweep.cli.render.terminal import Colour, paint, write
from lakesweep.errors import LakesweepError
from lakesweep.progress import SILENT, Progress
from lakesweep.redaction import masked
from lakesweep.untrusted.text import printable, printable_lines

if TYPE_CHECKING:
    import msgspec
    import pyarrow as pa
    from rich.console import JustifyMethod

    #: A result of an operation, or JSON values with datetimes, dataclasses and enums inside.
    Document = Mapping[str, object] | msgspec.Struct

_NO_EDGE = 10_000

Line = TypeVar("Line")


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows for people. Columns named in `numbers` are right-aligned."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    title: str | None = None
    numbers: frozenset[str] = frozenset()


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

    def encode(self, batch: pa.RecordBatch) -> bytes: ...

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
            sys.stderr.write(f"{printable(masked(text))}\n")

    def detail(self, text: str) -> None:
        if self._verbose:
            sys.stderr.write(f"{printable(masked(text))}\n")

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
        from lakesweep.cli.render.rows import encode_lines

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
        from lakesweep.cli.render.rows import encode_lines

        return encode_lines(batch.select(list(rows.columns)))


class ConsoleOutput(_Streamed):
    """Tables and lines for people."""

    def result(self, document: Document, *tables: TextTable) -> None:
        del document
        for table in tables:
            write(_render(table).encode())

    def rows(self, batches: Iterable[pa.RecordBatch], rows: RowFormatter) -> None:
        super().rows(batches, rows)
        self.say(rows.summary())

    def report(self, document: Document, batches: Iterable[pa.RecordBatch]) -> None:
        del document
        self.files(batches)

    def lines(self, lines: Iterable[OutputLine]) -> None:
        self.structs(lines, lambda line: line.text())

    def structs(self, structs: Iterable[Line], text: Callable[[Line], str | Sequence[str]]) -> None:
        for struct in structs:
            write(f"{printable_lines(text(struct))}\n".encode())

    def error(self, failure: CommandFailure) -> None:
        sys.stderr.write(f"{paint('error:', Colour.RED)} {printable_lines(failure.lines)}\n")
        if failure.hint:
            sys.stderr.write(f"{paint('try:', Colour.CYAN)} {printable(failure.hint)}\n")

    def _encode(self, batch: pa.RecordBatch, rows: RowFormatter) -> bytes:
        return rows.encode(batch)


def _encode(document: object) -> bytes:
    import msgspec

    return msgspec.json.encode(document) + b"\n"


def _render(table: TextTable) -> str:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(box=SIMPLE_HEAD, pad_edge=False)
    for column in table.columns:
        justify: JustifyMethod = "right" if column in table.numbers else "left"
        grid.add_column(column, justify=justify, overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(printable(cell)) for cell in row))
    # Lines for a file or a pipe are as long as they need be; only a screen has an edge.
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else _NO_EDGE)
    with console.capture() as capture:
        console.print(grid)
    # The title stands above the table: inside, it would be wrapped to the table's width.
    title = [] if table.title is None else [printable(table.title)]
    lines = (line.rstrip() for line in [*title, *capture.get().splitlines()])
    return "".join(f"{line}\n" for line in lines if line)
