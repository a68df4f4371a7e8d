"""The result of a scan: all tables, the folders that they share, and sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from lakesweep.sweep.paths.folder_map import FolderMap, claimed_folder
from lakesweep.upkeep.scan.table_figures import TableFigures


class SharedFolder(msgspec.Struct, frozen=True):
    """A folder that several tables use, or that lies inside one of another table."""

    folder: str
    tables: tuple[str, ...]
    inside: str | None = None


class ScanTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over all tables, of what is known."""

    tables: int
    unreadable: int
    snapshots: int
    overdue_snapshots: int
    data_files: int
    data_bytes: int
    small_files: int
    old_bytes: int
    free_bytes: int
    metadata_bytes: int
    findings: dict[str, int]


class ScanResult(msgspec.Struct, frozen=True, kw_only=True):
    """All tables, the one that could free the most first.

    `problems` are catalogs and warehouses that could not be listed, or list nothing.
    """

    subject: str
    scanned: datetime
    small_bytes: int
    totals: ScanTotals
    tables: list[TableFigures]
    shared_folders: list[SharedFolder]
    problems: list[str]

    @property
    def is_complete(self) -> bool:
        return not self.problems and all(each.is_complete for each in self.tables)


def shared_folders(tables: Iterable[TableFigures]) -> Iterator[SharedFolder]:
    """The folders that tables have in common."""
    claims = {
        (claimed_folder(each), table.table): each for table in tables for each in table.folders
    }
    written = {folder: address for (folder, _), address in claims.items()}
    for overlap in FolderMap(claims).overlaps():
        names = tuple(dict.fromkeys((*overlap.names, *overlap.outer_names)))
        if len(names) > 1:
            outer = None if overlap.outer is None else written[overlap.outer]
            yield SharedFolder(written[overlap.folder], names, outer)


def totals_of(tables: list[TableFigures]) -> ScanTotals:
    """The sums over all tables."""

    def total(name: str) -> int:
        return sum(getattr(each, name) or 0 for each in tables)

    findings = Counter(finding.value for each in tables for finding in each.findings)
    return ScanTotals(
        tables=len(tables),
        unreadable=sum(each.measured_by is None for each in tables),
        findings=dict(findings.most_common()),
        **{
            name: total(name)
            for name in ScanTotals.__struct_fields__
            if name not in {"tables", "unreadable", "findings"}
        },
    )
