"""What rewrites and trims of Iceberg tables would do, or did, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesweep.cli.render.text_table import TextTable
from lakesweep.units import format_count, format_size

if TYPE_CHECKING:
    from lakesweep.operations.upkeep.iceberg_rewrites import TableRewriteResult
    from lakesweep.operations.upkeep.iceberg_trim import TrimResult
    from lakesweep.operations.upkeep.upkeep_plans import UpkeepDetails

_LABELS = {
    "manifests": "manifests",
    "manifests_replaced": "to replace",
    "manifests_created": "to write",
    "entries": "entries to copy",
    "delete_files": "delete files",
    "dangling": "dangling",
    "data_files": "data files",
    "removed": "to remove",
    "removed_rows": "rows in them",
    "removed_bytes": "bytes in them",
    "removed_delete_files": "delete files of them",
    "kept_in_part": "kept, older only in part",
    "kept_null": "kept, without a value",
    "kept_unknown": "kept, age not provable",
    "kept_not_planned": "kept, not in the plan",
}
_SHOWN_PARTITIONS = 20


def details_tables(details: UpkeepDetails) -> list[TextTable]:
    """What a stored plan found."""
    from lakesweep.operations.upkeep.upkeep_plans import TrimDetails

    if isinstance(details, TrimDetails):
        return [trim_table(details.found)]
    return rewrite_tables(details.found)


def trim_table(result: TrimResult) -> TextTable:
    """Metadata files of a table, and its log."""
    rows = [
        ("found", _amount(result.found, result.bytes_found)),
        ("deleted", _amount(result.deleted, result.bytes_deleted)),
        ("too new", f"{result.too_new:,}"),
        ("log", f"{result.log_before:,} to {result.log_after:,}"),
    ]
    return TextTable(("table", result.table), rows)


def _amount(files: int, size: int) -> str:
    return f"{format_count(files, 'file')}, {format_size(size)}"


def rewrite_tables(result: TableRewriteResult) -> list[TextTable]:
    """The figures of a rewrite, and the partitions that it removes."""
    rows = [(_LABELS.get(name, name), f"{count:,}") for name, count in result.figures.items()]
    if result.snapshot_id is not None:
        rows.append(("new snapshot", str(result.snapshot_id)))
    tables = [TextTable(("table", result.table), rows)]
    if result.partitions:
        lines = [
            (each.partition, f"{each.files:,}", format_size(each.bytes))
            for each in result.partitions[:_SHOWN_PARTITIONS]
        ]
        more = len(result.partitions) - len(lines)
        lines += [(f"and {more:,} more", "", "")] if more else []
        numbers = frozenset({"files", "size"})
        tables.append(TextTable(("partition to remove", "files", "size"), lines, numbers=numbers))
    return tables
