"""External paths: folders outside a table that it may write files to.

An external path has no part named after the table. Tables that share one, or nest one in
another, mix their files, and none can tell which files are its own. A table may still have
files in a path it no longer names. Files there are therefore compared with what every table
of the warehouse references, or left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakesweep.paimon.model.table import PaimonTable
from lakesweep.storage.address import folder_identity
from lakesweep.storage.file_identity import resolve_alias


@dataclass(frozen=True, slots=True)
class TableGroup:
    """Tables that are cleaned together. Files that a table of `beside` uses stay as well."""

    tables: tuple[PaimonTable, ...]
    beside: tuple[PaimonTable, ...] = ()


def group_tables(tables: Sequence[PaimonTable]) -> list[TableGroup]:
    """Tables with external roots or files of others in them together, all others each alone."""
    roots = {table: table.external_roots for table in tables}
    places = [folder_identity(root) for found in roots.values() for root in found]
    together = tuple(
        table for table in tables if roots[table] or overlaps(table.address.path, places)
    )
    alone = tuple(table for table in tables if table not in together)
    groups = [TableGroup((table,)) for table in alone]
    return [*groups, *([TableGroup(together, alone)] if together else [])]


def overlaps(path: str, places: Sequence[str]) -> bool:
    """Whether a folder lies in one of some places, or one of them in it, whatever links lead there.

    Places are given by `folder_identity`.
    """
    own = real_folder(path)
    return any(
        place.startswith(own) or own.startswith(place) for place in map(resolve_alias, places)
    )


def real_folder(path: str) -> str:
    """The identity of everything below an address, without links on a disk."""
    return resolve_alias(folder_identity(path))
