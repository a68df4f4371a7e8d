"""Arrow batches as text lines and as JSON lines: files, verdicts, missing files, lakeFS entries.

JSON is encoded column by column, which is faster than row by row.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.cells import cell_len

from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.units import format_count, format_size
from lakesweep.untrusted.text import printable

_KIND_WIDTH = 20
_MUST_ESCAPE = r'["\\\x00-\x1f]'
_NULL = pa.scalar("null")


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

    columns = ("path", "verdict", "reason", "size_bytes", "modified", "rule")

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


def encode_lines(batch: pa.RecordBatch) -> memoryview:
    """One JSON object a row, one row a line, its fields in the order of the columns."""
    if batch.num_rows == 0:
        return memoryview(b"")
    parts: list[pa.Array | str] = []
    lead = "{"
    for field, column in zip(batch.schema, batch.columns, strict=True):
        parts += [f"{lead}{_quote(field.name)}:", _json_texts(column)]
        lead = ","
    return _text(pc.binary_join_element_wise(*parts, "}\n", ""))


def _json_texts(column: pa.Array) -> pa.Array:
    """The JSON text of each value; `null` where there is none."""
    kind = column.type
    if pa.types.is_string(kind):
        texts = _quoted(column)
    elif pa.types.is_timestamp(kind):
        texts = pc.binary_join_element_wise('"', moment_texts(column), '"', "")
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        texts = column.cast(pa.string())
    elif pa.types.is_null(kind):
        return pa.repeat(_NULL, len(column))
    else:
        raise TypeError(f"no JSON text for a column of {kind}")
    return texts.fill_null(_NULL) if texts.null_count else texts


def _quoted(column: pa.Array) -> pa.Array:
    # Values that need an escape are rare: a batch without any costs one look over its bytes.
    if _may_need_escape(column):
        needy = pc.match_substring_regex(column, _MUST_ESCAPE)
        picked = column.filter(needy)
        escaped = pa.array([_quote(text)[1:-1] for text in picked.to_pylist()], column.type)
        column = pc.replace_with_mask(column, needy.fill_null(False), escaped)
    return pc.binary_join_element_wise('"', column, '"', "")


def _may_need_escape(column: pa.Array) -> bool:
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    return bool(((data < 0x20) | (data == ord('"')) | (data == ord("\\"))).any())


def moment_texts(column: pa.Array) -> pa.Array:
    """RFC 3339 in UTC; a fraction only where there is one."""
    # Arrow looks up the zone for every row of a zoned column; a bare one is 20 times as fast.
    bare = column.cast(pa.timestamp("us")).cast(pa.string())
    trimmed = pc.utf8_rtrim(pc.utf8_rtrim(pc.utf8_replace_slice(bare, 10, 11, "T"), "0"), ".")
    return pc.binary_join_element_wise(trimmed, "Z", "")


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _text(lines: pa.Array) -> memoryview:
    """The values of a string column, one behind the other, without a copy."""
    offsets = memoryview(lines.buffers()[1]).cast("B").cast("i")
    start, end = offsets[lines.offset], offsets[lines.offset + len(lines)]
    return memoryview(lines.buffers()[2])[start:end]
