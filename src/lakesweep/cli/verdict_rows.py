"""The rows of a plan as lines for people: verdict, reason, size, time, path, rule."""

from __future__ import annotations

import pyarrow as pa

from lakesweep.cli.file_rows import Count, one_line, second_texts, size_texts


class VerdictRows(Count):
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
    behind = f"  ({one_line(rule)})" if rule else ""
    return f"{verdict:<6}  {reason:<15}  {size:>7}  {modified:<20}  {one_line(path)}{behind}\n"
