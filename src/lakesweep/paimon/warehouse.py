"""The tables of a warehouse, of one of its databases, or one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lakesweep.clock import Clock
from lakesweep.errors import LakesweepError, NotFoundError, RefusedError
from lakesweep.paimon.databases import is_database, table_folders
from lakesweep.paimon.external import Group, external_roots, group_tables
from lakesweep.paimon.neighbours import check_guests, neighbour_roots
from lakesweep.paimon.table import PaimonTable
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

    def groups(self) -> list[Group]:
        """Tables that must be cleaned together, and each of the others alone."""
        return group_tables(self.tables)

    def check_shared(self, group: Group) -> None:
        """Refuse tables that may share folders with others whose files are not known."""
        roots = [root for table in group.tables for root in external_roots(table)]
        if roots and (self.is_part or self.failures):
            others = "a table outside of this call" if self.is_part else _named(self.failures)
            path = group.tables[0].address.path
            raise RefusedError(
                "foreign",
                f"{path} writes to {roots[0]}, where {others} may write as well, and whose files "
                "are whose cannot be told",
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


def find_tables(stores: Stores, path: str, clock: Clock) -> Warehouse:
    """The tables at an address; NotFoundError where there is none."""
    try:
        table = PaimonTable.open(stores, path, clock)
        return Warehouse([table], is_one_table=True, is_part=True)
    except NotFoundError as error:
        found = Warehouse(is_part=is_database(path))
        for folder in table_folders(stores, path):
            _open(found, stores, folder, clock)
        if not (found.tables or found.failures):
            raise _nothing(path) from error
    return found


def _open(found: Warehouse, stores: Stores, folder: str, clock: Clock) -> None:
    try:
        table = PaimonTable.open(stores, folder, clock)
    except NotFoundError:  # some other folder
        return
    except LakesweepError as error:
        found.failures.append(FailedTable(folder, error))
        return
    try:
        external_roots(table)
    except LakesweepError as error:
        found.failures.append(FailedTable(folder, error))
    else:
        found.tables.append(table)


def _nothing(path: str) -> NotFoundError:
    return NotFoundError(
        f"{path} is no Paimon table, and holds none",
        hint="name the folder of a table, of a database (shop.db) or of a warehouse",
    )
