"""Missing files as lines for people: kind, who needs it, path."""

from __future__ import annotations

import pyarrow as pa

from lakesweep.cli.file_rows import Count, one_line


class MissingRows(Count):
    """Formats one batch of missing files after the other."""

    columns = ("path", "kind", "size_bytes", "table")

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        self.add(batch)
        columns = (batch[name].to_pylist() for name in ("kind", "table", "path"))
        rows = zip(*columns, strict=True)
        return "".join(
            f"{kind or '-':<20}  {one_line(table)}  {one_line(path)}\n"
            for kind, table, path in rows
        ).encode()
