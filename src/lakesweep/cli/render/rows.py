"""Format Arrow batches as text lines: files, verdicts, missing files, lakeFS entries."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.cli.render.json_lines import moment_texts
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

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        if batch.num_rows == 0:
            return b""
        self.add(batch)
        sizes = size_texts(batch.column("size_bytes"))
        moments = second_texts(batch.column("modified"))
        names = [printable(path) for path in batch.column("path").to_pylist()]
        if self._shows_kind(batch.column("kind")):
            kinds = batch.column("kind").fill_null("-").to_pylist()
            names = [f"{k:<{_KIND_WIDTH}}  {n}" for k, n in zip(kinds, names, strict=True)]
        rows = zip(sizes, moments, names, strict=True)
        return "".join(f"{s:>7}  {m:<20}  {n}\n" for s, m, n in rows).encode()

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

    columns = ("path", "verdict", "reason", "size_bytes", "modified", "rule")

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        self.add(batch)
        columns = (
            batch["verdict"].to_pylist(),
            batch["reason"].to_pylist(),
            size_texts(batch["size_bytes"]),
            second_texts(batch["modified"]),
            batch["path"].to_pylist(),
            batch["rule"].to_pylist(),
        )
        return "".join(_line(*row) for row in zip(*columns, strict=True)).encode()


def _line(verdict: str, reason: str, size: str, modified: str, path: str, rule: str | None) -> str:
    behind = f"  ({printable(rule)})" if rule else ""
    return f"{verdict:<6}  {reason:<15}  {size:>7}  {modified:<20}  {printable(path)}{behind}\n"


class MissingRows(RowCount):
    """Formats one batch of missing files after the other."""

    columns = ("path", "kind", "size_bytes", "table")

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        self.add(batch)
        columns = (batch[name].to_pylist() for name in ("kind", "table", "path"))
        rows = zip(*columns, strict=True)
        return "".join(
            f"{kind or '-':<20}  {printable(table)}  {printable(path)}\n"
            for kind, table, path in rows
        ).encode()


class EntryRows(RowCount):
    """Formats one batch after the other."""

    columns = ("path", "address", "address_type", "size_bytes", "checksum", "modified")

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        self.add(batch)
        sizes, moments = size_texts(batch["size_bytes"]), second_texts(batch["modified"])
        names = (batch[name].to_pylist() for name in ("path", "address"))
        rows = zip(sizes, moments, *names, strict=True)
        return "".join(
            f"{size:>7}  {moment:<20}  {printable(path)}  {printable(address)}\n"
            for size, moment, path, address in rows
        ).encode()

    def summary(self) -> str:
        """The count in words."""
        noun = "entry" if self.count == 1 else "entries"
        return f"{self.count:,} {noun}, {format_size(self.size_bytes)}"
