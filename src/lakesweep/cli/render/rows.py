"""Arrow batches as text lines: files, verdicts, missing files, lakeFS entries."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
from rich.cells import cell_len

from lakesweep.json_lines import moment_texts
from lakesweep.operations.lakes.plan_view import PLAN_COLUMNS
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.units import format_count, format_size
from lakesweep.untrusted.text import printable

_KIND_WIDTH = 20


class RowCount:
    """How many files there were, and how large they are together."""

    def __init__(self) -> None:
        self.count = 0
        self.size_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the files of a batch."""
        self.count += batch.num_rows
        self.size_bytes += pc.sum(batch.column("size_bytes")).as_py() or 0

    def summary(self) -> str:
        """The count in words."""
        return f"{format_count(self.count, 'file')}, {format_size(self.size_bytes)}"


class FileRows(RowCount):
    """Formats one batch after the other. The first batch decides on the kind column."""

    columns = tuple(FILE_SCHEMA.names)

    def __init__(self) -> None:
        super().__init__()
        self._with_kind: bool | None = None

    def encode(self, batch: pa.RecordBatch, edge: int | None = None) -> bytes:
        """The lines of a batch; beyond an edge, each name stands on a line of its own."""
        if batch.num_rows == 0:
            return b""
        self.add(batch)
        sizes = size_texts(batch.column("size_bytes"))
        moments = second_texts(batch.column("modified"))
        heads = [f"{s:>7}  {m:<20}" for s, m in zip(sizes, moments, strict=True)]
        if self._shows_kind(batch.column("kind")):
            kinds = batch.column("kind").fill_null("-").to_pylist()
            heads = [f"{head}  {k:<{_KIND_WIDTH}}" for head, k in zip(heads, kinds, strict=True)]
        return _lines(edge, heads, batch.column("path").to_pylist())

    def _shows_kind(self, kinds: pa.Array) -> bool:
        if self._with_kind is None:
            self._with_kind = kinds.null_count < len(kinds)
        return self._with_kind


def size_texts(column: pa.Array) -> list[str]:
    """Sizes for people, `-` where unknown."""
    return ["-" if size is None else format_size(size) for size in column.to_pylist()]


def second_texts(column: pa.Array) -> list[str]:
    """Moments to the second, `-` where unknown."""
    seconds = pc.floor_temporal(column.cast(pa.timestamp("us")), unit="second")
    texts: list[str] = moment_texts(seconds).fill_null("-").to_pylist()
    return texts


class VerdictRows(RowCount):
    """Formats one batch of verdicts after the other."""

    columns = PLAN_COLUMNS

    def encode(self, batch: pa.RecordBatch, edge: int | None = None) -> bytes:
        """The lines of a batch; beyond an edge, each name stands on a line of its own."""
        self.add(batch)
        columns = (
            batch["verdict"].to_pylist(),
            batch["reason"].to_pylist(),
            size_texts(batch["size_bytes"]),
            second_texts(batch["modified"]),
        )
        heads = [f"{v:<6}  {r:<15}  {s:>7}  {m:<20}" for v, r, s, m in zip(*columns, strict=True)]
        rules = [f"({rule})" if rule else "" for rule in batch["rule"].to_pylist()]
        return _lines(edge, heads, batch["path"].to_pylist(), rules)


def _lines(edge: int | None, heads: Iterable[str], *names: Iterable[str]) -> bytes:
    """A line for each row: its figures, then its names."""
    rows = zip(heads, *names, strict=True)
    return "".join(_line(edge, head, *filter(None, behind)) for head, *behind in rows).encode()


def _line(edge: int | None, head: str, *names: str) -> str:
    shown = [printable(name) for name in names]
    line = "  ".join([head, *shown])
    if edge is None or cell_len(line) <= edge:
        return f"{line}\n"
    return "".join(f"{each}\n" for each in [head.rstrip(), *(f"    {name}" for name in shown)])


class MissingRows(RowCount):
    """Formats one batch of missing files after the other."""

    columns = ("path", "kind", "size_bytes", "table")

    def encode(self, batch: pa.RecordBatch, edge: int | None = None) -> bytes:
        """The lines of a batch; beyond an edge, each name stands on a line of its own."""
        self.add(batch)
        kinds, *names = (batch[name].to_pylist() for name in ("kind", "table", "path"))
        return _lines(edge, [f"{kind or '-':<20}" for kind in kinds], *names)


class EntryRows(RowCount):
    """Formats one batch after the other."""

    columns = ("path", "address", "address_type", "size_bytes", "checksum", "modified")

    def encode(self, batch: pa.RecordBatch, edge: int | None = None) -> bytes:
        """The lines of a batch; beyond an edge, each name stands on a line of its own."""
        self.add(batch)
        sizes, moments = size_texts(batch["size_bytes"]), second_texts(batch["modified"])
        heads = [f"{s:>7}  {m:<20}" for s, m in zip(sizes, moments, strict=True)]
        return _lines(edge, heads, *(batch[name].to_pylist() for name in ("path", "address")))

    def summary(self) -> str:
        """The count in words."""
        noun = "entry" if self.count == 1 else "entries"
        return f"{self.count:,} {noun}, {format_size(self.size_bytes)}"
