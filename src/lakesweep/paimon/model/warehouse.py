"""The tables of a warehouse or database, and neighbours that share their folders.

A table does not say who else writes to its folders, so the other tables of its warehouse are
asked. Nothing is learned from a table that cannot be read, or that lies in another warehouse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from lakesweep.clock import Clock
from lakesweep.errors import DamagedError, LakesweepError, NotFoundError, RefusedError
from lakesweep.paimon.model.external_paths import TableGroup, group_tables, overlaps, real_folder
from lakesweep.paimon.model.owned_folders import check_external_root
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.parallel import map_ordered
from lakesweep.storage.address import Address, StoreKind, folder_identity, parse
from lakesweep.storage.listing.folder_level import list_folders
from lakesweep.storage.object_store import StoreOpener
from lakesweep.storage.stores import Stores


@dataclass(frozen=True, slots=True)
class FailedTable:
    """A table that could not be read or cleaned, and why."""

    table: str
    error: LakesweepError


@dataclass
class Warehouse:
    """The tables at an address, and those that cannot be opened. `is_one_table` names itself.

    A table and a database are a part of a warehouse, which may have more tables.
    """

    tables: list[PaimonTable] = field(default_factory=list)
    failures: list[FailedTable] = field(default_factory=list)
    is_one_table: bool = False
    is_part: bool = False

    def groups(self) -> list[TableGroup]:
        """Tables that must be cleaned together, and each of the others alone."""
        return group_tables(self.tables)

    def check_roots(self, group: TableGroup) -> None:
        """Refuse external roots in tables that are not in this call: their files are not known."""
        known = {real_folder(table.address.path) for table in (*group.tables, *group.beside)}
        for table in group.tables:
            for root in table.external_roots:
                check_external_root(table, root, known)

    def check_shared(self, group: TableGroup) -> None:
        """Refuse tables that may share folders with others whose files are not known."""
        roots = [root for table in group.tables for root in table.external_roots]
        if roots and (self.is_part or self.failures):
            others = "a table outside of this call" if self.is_part else _named(self.failures)
            path = group.tables[0].address.path
            raise RefusedError(
                "foreign",
                f"{path} writes to {roots[0]}, where {others} may write as well, and whose files "
                "are whose is unknown",
                hint="clean the whole warehouse, or --override foreign if no other table does",
            )
        for table in group.tables:
            check_guests(table, self._roots_around)

    @cached_property
    def _roots_around(self) -> Mapping[str, tuple[str, ...]]:
        """The external roots of tables in the same warehouse that are not in this call."""
        return neighbour_roots(self.tables) if self.is_part else {}


def _named(failures: Sequence[FailedTable]) -> str:
    return f"{failures[0].table}, which cannot be read,"


def find_tables(
    stores: Stores, path: str, clock: Clock, *, threads: int | None = None
) -> Warehouse:
    """The tables at an address; NotFoundError where there is none. `threads` read them."""
    try:
        table = PaimonTable.open(stores, path, clock, threads=threads)
        return Warehouse([table], is_one_table=True, is_part=True)
    except NotFoundError as error:
        found = Warehouse(is_part=is_database(path))
        for folder in table_folders(stores, path):
            _open(found, stores, folder, clock, threads)
        if not (found.tables or found.failures):
            raise _nothing(path) from error
    return found


def _open(found: Warehouse, stores: Stores, folder: str, clock: Clock, threads: int | None) -> None:
    try:
        table = PaimonTable.open(stores, folder, clock, threads=threads)
    except NotFoundError:  # some other folder
        return
    except LakesweepError as error:
        found.failures.append(FailedTable(folder, error))
        return
    try:
        _ = table.external_roots  # read now: a schema that cannot be read may name any
    except LakesweepError as error:
        found.failures.append(FailedTable(folder, error))
    else:
        found.tables.append(table)


def _nothing(path: str) -> NotFoundError:
    return NotFoundError(
        f"{path} is no Paimon table, and holds none",
        hint="name the folder of a table, of a database (shop.db) or of a warehouse",
    )


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
    """Refuse a table if a table that was not read writes into its folder."""
    for other, places in roots.items():
        for place in places:
            if overlaps(table.address.path, [folder_identity(place)]):
                raise RefusedError(
                    "foreign",
                    f"{other} writes to {place}, which is in {table.address.path}, or around it, "
                    "and whose files are whose is unknown",
                    hint="clean the whole warehouse, or --override foreign if it has none there",
                )


def check_copies(table: PaimonTable) -> None:
    """Refuse a table with external roots if a copy of it lies in the same warehouse.

    Both name the same files there, and what one of them lets go the other may need.
    """
    places = [folder_identity(root) for root in table.external_roots]
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
                hint="delete the copy, or --override foreign if nothing reads it",
            )


def _lists(table: PaimonTable) -> set[str]:
    """The names of lists of manifests: no two commits have the same."""
    return {name for name in table.list("manifest").files if name.startswith(_LIST)}


def _roots_of(table: PaimonTable) -> tuple[str, tuple[str, ...]]:
    path = table.address.path
    try:
        return path, table.external_roots
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


_DATABASE = ".db"


def is_database(path: str) -> bool:
    """Whether an address is that of a database of a warehouse."""
    return path.rstrip("/").endswith(_DATABASE)


def table_folders(stores: StoreOpener, path: str) -> Iterator[str]:
    """The folders that may be tables: of all databases here, or of the database that this is.

    A database behind a broken link is among them, so that opening it reports the loss.
    """
    here = parse(path)
    for name in list_folders(stores, here):
        folder = f"{here.folder}{name}/"
        if not name.endswith(_DATABASE):
            yield here.base + folder
            continue
        for inner in _tables(stores, here.child(folder)):
            yield f"{here.base}{folder}{inner}"


def _tables(stores: StoreOpener, database: Address) -> Iterator[str]:
    try:
        yield from (f"{name}/" for name in list_folders(stores, database))
    except DamagedError:
        yield ""


def warehouse_of(path: str) -> str:
    """The warehouse that a table lies in; the folder around it where that is no database."""
    around = _parent(path)
    return _parent(around) if is_database(around) else around


def _parent(path: str) -> str:
    address = parse(path)
    folder = address.folder.rstrip("/").rpartition("/")[0]
    return address.base + (f"{folder}/" if folder else "")
