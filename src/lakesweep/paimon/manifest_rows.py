"""The row of a manifest in its list: what is counted, and between which bounds its entries lie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import copysign
from typing import Any

from lakesweep.paimon.binary_row import Value, encode_row
from lakesweep.paimon.entries import ADD, DELETE
from lakesweep.paimon.partitions import Partitioning
from lakesweep.paimon.rows import Row

_VERSION = 2


def list_row(name: str, size_bytes: int, entries: Sequence[Row], partitioning: Partitioning) -> Row:
    """The row of a manifest that holds these entries, at least one."""
    files = [entry["_FILE"] for entry in entries]
    buckets = [entry["_BUCKET"] for entry in entries]
    totals = {entry.get("_TOTAL_BUCKETS") for entry in entries}
    levels = [file["_LEVEL"] for file in files]
    first_row, last_row = _row_ids(files)
    return {
        "_VERSION": _VERSION,
        "_FILE_NAME": name,
        "_FILE_SIZE": size_bytes,
        "_NUM_ADDED_FILES": sum(entry["_KIND"] == ADD for entry in entries),
        "_NUM_DELETED_FILES": sum(entry["_KIND"] == DELETE for entry in entries),
        "_PARTITION_STATS": _partition_stats(entries, partitioning),
        "_SCHEMA_ID": max(file["_SCHEMA_ID"] for file in files),
        "_MIN_BUCKET": min(buckets),
        "_MAX_BUCKET": max(buckets),
        "_MIN_LEVEL": min(levels),
        "_MAX_LEVEL": max(levels),
        "_MIN_ROW_ID": first_row,
        "_MAX_ROW_ID": last_row,
        "_TOTAL_BUCKETS": totals.pop() if len(totals) == 1 else None,
    }


def _partition_stats(entries: Iterable[Row], partitioning: Partitioning) -> Row:
    counts: dict[bytes, int] = {}
    for entry in entries:
        counts[entry["_PARTITION"]] = counts.get(entry["_PARTITION"], 0) + 1
    rows = [(partitioning.decode(data), count) for data, count in counts.items()]
    columns = [[(row[at], count) for row, count in rows] for at in range(len(partitioning.keys))]
    present = [[value for value, _ in column if value is not None] for column in columns]
    return {
        "_MIN_VALUES": encode_row(
            [min(values, key=_order, default=None) for values in present], partitioning.types
        ),
        "_MAX_VALUES": encode_row(
            [max(values, key=_order, default=None) for values in present], partitioning.types
        ),
        "_NULL_COUNTS": [
            sum(count for value, count in column if value is None) for column in columns
        ],
    }


def _order(value: Value) -> Any:
    """Java's order: what is not a number is the greatest, and of two zeros the negative is less."""
    sign = copysign(1, value) if isinstance(value, float) else 0
    return (value != value, value, sign)  # noqa: PLR0124


def _row_ids(files: Sequence[Row]) -> tuple[int | None, int | None]:
    """The rows that files with tracked rows have; nothing where one of them tracks none."""
    firsts: list[Any] = [file.get("_FIRST_ROW_ID") for file in files]
    if None in firsts:
        return None, None
    lasts = [first + file["_ROW_COUNT"] - 1 for first, file in zip(firsts, files, strict=True)]
    return min(firsts), max(lasts)
