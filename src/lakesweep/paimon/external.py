"""Folders outside of a table that it may write files to.

Such a root has no part that is named after the table. Tables that are given the same root, or one
inside another, mix their files, and none of them can tell which are its own. So they are cleaned
together, or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakesweep.paimon.table import PaimonTable
from lakesweep.storage.address import folder_identity

_OPTION = "data-file.external-paths"


def external_roots(table: PaimonTable) -> tuple[str, ...]:
    """The external roots of all branches, each once, with a `/` at the end."""
    texts = (branch.layout.options.text(_OPTION) or "" for branch in table.branches())
    roots = (root.strip() for text in texts for root in text.split(","))
    return tuple(dict.fromkeys(root.rstrip("/") + "/" for root in roots if root))


def group_tables(tables: Sequence[PaimonTable]) -> list[tuple[PaimonTable, ...]]:
    """Tables that must be cleaned together, and each of the others alone."""
    roots = {table: external_roots(table) for table in tables}
    places = [folder_identity(root) for found in roots.values() for root in found]
    together = tuple(
        table for table in tables if roots[table] or _overlaps(table.address.path, places)
    )
    groups = [(table,) for table in tables if table not in together]
    return [*groups, *([together] if together else [])]


def _overlaps(path: str, places: Sequence[str]) -> bool:
    own = folder_identity(path)
    return any(place.startswith(own) or own.startswith(place) for place in places)
