"""Batches of a repository's entries as lines for people: size, time, path, address."""

from __future__ import annotations

import pyarrow as pa

from lakesweep.cli.file_rows import Count, one_line, second_texts, size_texts
from lakesweep.units import format_size


class EntryRows(Count):
    """Formats one batch after the other."""

    columns = ("path", "address", "address_type", "size_bytes", "checksum", "modified")

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """The lines of a batch."""
        self.add(batch)
        sizes, moments = size_texts(batch["size_bytes"]), second_texts(batch["modified"])
        names = (batch[name].to_pylist() for name in ("path", "address"))
        rows = zip(sizes, moments, *names, strict=True)
        return "".join(
            f"{size:>7}  {moment:<20}  {one_line(path)}  {one_line(address)}\n"
            for size, moment, path, address in rows
        ).encode()

    def summary(self) -> str:
        """The count in words."""
        noun = "entry" if self.count == 1 else "entries"
        return f"{self.count:,} {noun}, {format_size(self.size_bytes)}"


def path_texts(paths: pa.Array) -> pa.Array:
    """Paths as text; bytes that are none are escaped."""
    try:
        texts = paths.cast(pa.string())
    except pa.ArrowInvalid:
        escaped = [path.decode(errors="backslashreplace") for path in paths.to_pylist()]
        texts = pa.array(escaped, pa.string())
    return texts
