"""Batches of files as lines for people: size, time, kind, path."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.cli.json_lines import moment_texts
from lakesweep.cli.terminal import printable
from lakesweep.units import format_size

_KIND_WIDTH = 20


class FileRows:
    """Formats one batch after the other, and counts. The first batch decides on the kind column."""

    def __init__(self) -> None:
        self.count = 0
        self.size_bytes = 0
        self._with_kind: bool | None = None

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        if batch.num_rows == 0:
            return b""
        self.count += batch.num_rows
        self.size_bytes += pc.sum(batch.column("size_bytes")).as_py() or 0
        sizes = batch.column("size_bytes").to_pylist()
        moments = _moments(batch.column("modified"))
        names = [_one_line(path) for path in batch.column("path").to_pylist()]
        if self._shows_kind(batch.column("kind")):
            kinds = batch.column("kind").fill_null("-").to_pylist()
            names = [f"{k:<{_KIND_WIDTH}}  {n}" for k, n in zip(kinds, names, strict=True)]
        rows = zip(sizes, moments, names, strict=True)
        return "".join(f"{_size(s):>7}  {m:<20}  {n}\n" for s, m, n in rows).encode()

    def _shows_kind(self, kinds: pa.Array) -> bool:
        if self._with_kind is None:
            self._with_kind = kinds.null_count < len(kinds)
        return self._with_kind


def _size(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else format_size(size_bytes)


def _moments(column: pa.Array) -> list[str]:
    seconds = pc.floor_temporal(column.cast(pa.timestamp("us")), unit="second")
    texts: list[str] = moment_texts(seconds).fill_null("-").to_pylist()
    return texts


def _one_line(path: str) -> str:
    return printable(path).replace("\n", "\\n")
