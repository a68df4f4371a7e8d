"""Other tables of a warehouse that may have files in the folders of a table.

Nothing in a table tells who else writes to its folders, so its neighbours are asked: the tables of
the warehouse that it lies in. One that cannot be read tells nothing, and neither does a table of
another warehouse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from lakesweep.errors import LakesweepError, RefusedError
from lakesweep.paimon.databases import table_folders, warehouse_of
from lakesweep.paimon.external import external_roots, overlaps, real_folder
from lakesweep.paimon.table import PaimonTable
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import Address, StoreKind, folder_identity, parse

_LIST = "manifest-list-"


def neighbour_roots(tables: Sequence[PaimonTable]) -> Mapping[str, tuple[str, ...]]:
    """The external roots of other tables in the warehouse of some tables, by their folders."""
    if not tables:
        return {}
    own = {real_folder(table.address.path) for table in tables}
    others = (each for each in _around(tables[0]) if real_folder(each.address.path) not in own)
    found = map_ordered(_roots_of, others, workers=16)
    return {path: roots for path, roots in found if roots}


def check_guests(table: PaimonTable, roots: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse a table that another one, of which nothing else is known, writes into."""
    for other, places in roots.items():
        for place in places:
            if overlaps(table.address.path, [folder_identity(place)]):
                raise RefusedError(
                    "foreign",
                    f"{other} writes to {place}, which is in {table.address.path}, or around it, "
                    "and whose files are whose cannot be told",
                    hint="clean the whole warehouse, or --override foreign if it has none there",
                )


def check_copies(table: PaimonTable) -> None:
    """Refuse a table with external roots if a copy of it lies in the same warehouse.

    Both name the same files there, and what one of them lets go the other may need.
    """
    places = [folder_identity(root) for root in external_roots(table)]
    if not places:
        return
    own = _lists(table)
    for path, roots in neighbour_roots([table]).items():
        other = PaimonTable(table.stores, parse(path))
        if any(overlaps(root, places) for root in roots) and own & _lists(other):
            raise RefusedError(
                "foreign",
                f"{path} has commits of {table.address.path}: one is a copy of the other, and "
                "both name the same files outside of them",
                hint="delete the copy, or --override foreign if nobody needs what it shows",
            )


def _lists(table: PaimonTable) -> set[str]:
    """The names of lists of manifests: no two commits have the same."""
    return {name for name in table.list("manifest").files if name.startswith(_LIST)}


def _roots_of(table: PaimonTable) -> tuple[str, tuple[str, ...]]:
    path = table.address.path
    try:
        return path, external_roots(table)
    except LakesweepError:
        return path, ()


def _around(table: PaimonTable) -> Iterator[PaimonTable]:
    """The folders in the warehouse of a table that may be tables, itself among them.

    A table that is reached through a link may lie in another warehouse than its name says.
    """
    for warehouse in _warehouses(table.address):
        with suppress(LakesweepError):
            for folder in table_folders(table.stores, warehouse):
                yield PaimonTable(table.stores, parse(folder), table.clock)


def _warehouses(table: Address) -> Iterator[str]:
    named = warehouse_of(table.path)
    yield named
    real = warehouse_of(real_folder(table.path))
    if table.kind is StoreKind.FILE and real != real_folder(named):
        yield real
