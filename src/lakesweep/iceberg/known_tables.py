"""Find tables and views by identifier, and plan purges that spare all other known tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesweep.errors import LakesweepError, RefusedError, UnreadableError, UsageError
from lakesweep.hashing import HashSet
from lakesweep.iceberg.catalog_entries import CatalogEntry
from lakesweep.iceberg.catalogs import IcebergCatalog, known_catalogs, open_catalog, storage_options
from lakesweep.iceberg.claims import (
    TableClaim,
    claims,
    folders_of,
    holds,
    is_same_table,
    overlaps,
    real_folder,
    real_hashes,
)
from lakesweep.iceberg.metadata import TableMetadata, load_metadata
from lakesweep.iceberg.purge import PurgePlan, PurgeProtection, plan_base_location, plan_purge
from lakesweep.iceberg.reach import reached_files
from lakesweep.iceberg.table_identifier import is_address, metadata_path, split_identifier
from lakesweep.marks.pins import read_pins
from lakesweep.marks.unreadable import Strict
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.address import identity, parse
from lakesweep.storage.stores import with_access

if TYPE_CHECKING:
    from lakesweep.iceberg.metadata import Metadata
    from lakesweep.storage.stores import Stores


@dataclass(frozen=True)
class TargetTable:
    """The table or view that a command names. `entry` is None if an address was given."""

    name: str
    metadata: Metadata
    stores: Stores = field(repr=False)
    entry: CatalogEntry | None = None

    @property
    def what(self) -> str:
        """`table` or `view`."""
        return "table" if isinstance(self.metadata, TableMetadata) else "view"


@dataclass(frozen=True)
class ForeignFiles:
    """Files kept by formats that are not read here.

    `folders` belong to those formats alone; `unknown` are the names of roots that keep files in
    unknown places.
    """

    folders: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


NO_FOREIGN_FILES = ForeignFiles()


class IcebergTables:
    """Tables and views by name or address, among all that the configuration knows."""

    def __init__(
        self,
        stores: Stores,
        catalogs: Mapping[str, Mapping[str, str]],
        metadata_files: Iterable[str] = (),
        pinned_files: Sequence[str] = (),
        strangers: ForeignFiles = NO_FOREIGN_FILES,
        *,
        progress: Progress = SILENT,
    ) -> None:
        self._stores = stores
        self._properties = catalogs
        self._metadata_files = metadata_files
        self._pinned_files = pinned_files
        self._strangers = strangers
        self._progress = progress
        self._catalogs: dict[str, IcebergCatalog] = {}

    def find(self, ref: str) -> TargetTable:
        """Find a table or view by its REF."""
        if is_address(ref):
            path = metadata_path(self._stores, ref)
            return TargetTable(path, load_metadata(self._stores, path), self._stores)
        catalog, *name = split_identifier(ref)
        entry = self._open(catalog).find(tuple(name))
        stores = self._stores_for(entry)
        return TargetTable(
            entry.full_name, load_metadata(stores, entry.metadata_path), stores, entry
        )

    def drop(self, target: TargetTable) -> None:
        """Drop the name of the table from its catalog."""
        if target.entry is None:
            raise UsageError(
                f"{target.name} is an address; there is no name to drop",
                hint="run without --drop, or name the table as catalog.namespace.table",
            )
        self._open(target.entry.catalog).drop(target.entry)

    def plan_purge(
        self, target: TargetTable, *, base_location: bool, overrides: frozenset[str]
    ) -> PurgePlan:
        """Plan a purge; RefusedError if a guard refuses."""
        _guard_gc_enabled(target, overrides)
        strangers = NO_FOREIGN_FILES if "foreign" in overrides else self._strangers
        _guard_strangers(target, strangers)
        entries = self._entries(target, overrides)
        others = self._others(target, entries, overrides)
        near = tuple(c for c in others if overlaps(c, folders_of(target.metadata)))
        if base_location:
            _guard_location(target, near, overrides)
        live = self._mark(target, others, overrides)
        planning = plan_base_location if base_location else plan_purge
        inside = _inside(target, near, base_location)
        protection = PurgeProtection(live, (*self._pins(), *strangers.folders, *inside))
        plan = planning(target.stores, target.metadata, protection, progress=self._progress)
        plan.overlapping = near
        plan.witness = _witness(target, entries)
        _guard_stores(target, plan, overrides)
        return plan

    def check_unchanged(
        self, target: TargetTable, plan: PurgePlan, *, overrides: frozenset[str]
    ) -> None:
        """Refuse a plan if any table was changed, created or dropped since it was made."""
        current = target if target.entry is None else self.find(target.entry.full_name)
        if _witness(current, self._entries(target, overrides)) != plan.witness:
            raise RefusedError(
                "stale-plan",
                "a table was changed, created or dropped since the plan was made",
                hint="run the command again",
            )

    def _mark(
        self, target: TargetTable, others: Iterable[TableClaim], overrides: frozenset[str]
    ) -> HashSet:
        """Mark what the others reach. An unreadable one stops the purge unless overridden."""
        live = HashSet()
        with self._progress.task("protected") as task:
            for claim in others:
                try:
                    for batch in _reach(target.stores, claim):
                        live.add(real_hashes(batch))
                        task.advance(batch.num_rows)
                except UnreadableError as error:
                    if "foreign" not in overrides:
                        reason = (
                            f"{claim.name} may share files, but cannot be read: {error.message}"
                        )
                        raise _foreign(reason) from error
        return live

    def _others(
        self, target: TargetTable, entries: Sequence[CatalogEntry], overrides: frozenset[str]
    ) -> list[TableClaim]:
        """Every other known table. A table given by address is the one that a catalog lists."""
        every = list(claims(target.stores, entries, progress=self._progress))
        if target.entry is not None:
            return every
        same = [claim for claim in every if is_same_table(claim, target.metadata)]
        if len(same) > 1 and "foreign" not in overrides:
            names = ", ".join(claim.name for claim in same)
            raise _foreign(f"several catalog entries point to {target.name}: {names}")
        return [claim for claim in every if claim not in same]

    def _entries(self, target: TargetTable, overrides: frozenset[str]) -> list[CatalogEntry]:
        """Every other table and view, of all catalogs and metadata roots."""
        found: list[CatalogEntry] = []
        for name in self._catalog_names(target):
            try:
                found += self._open(name).entries()
            except LakesweepError as error:
                if "foreign" not in overrides:
                    reason = f"the tables of catalog {name} could not be listed: {error.message}"
                    raise _foreign(reason) from error
        own = identity(target.metadata.path)
        found += [CatalogEntry(p, (), False, p) for p in self._metadata_files if identity(p) != own]
        return [entry for entry in found if entry != target.entry]

    def _catalog_names(self, target: TargetTable) -> Iterable[str]:
        own = [target.entry.catalog] if target.entry else []
        return dict.fromkeys([*self._known, *own])

    @cached_property
    def _known(self) -> Mapping[str, Mapping[str, str]]:
        return {**known_catalogs(), **self._properties}

    def _pins(self) -> Iterator[str]:
        for path in self._pinned_files:
            yield from read_pins(self._stores, path)

    def _open(self, name: str) -> IcebergCatalog:
        if name not in self._catalogs:
            self._catalogs[name] = open_catalog(name, self._known.get(name, {}))
        return self._catalogs[name]

    def _stores_for(self, entry: CatalogEntry) -> Stores:
        return with_access(self._stores, storage_options(entry.access))


def _guard_gc_enabled(target: TargetTable, overrides: frozenset[str]) -> None:
    if not target.metadata.gc_enabled and "gc.enabled" not in overrides:
        raise RefusedError(
            "gc.enabled",
            f"{target.name} has gc.enabled=false: its files may belong to others",
            hint="make sure that nothing else needs them, then add --override gc.enabled",
        )


def _guard_strangers(target: TargetTable, strangers: ForeignFiles) -> None:
    for name in strangers.unknown:
        raise _foreign(f"{name} may reference files of {target.name}, but cannot be read")
    for own in map(real_folder, folders_of(target.metadata)):
        for folder in strangers.folders:
            if own.startswith(real_folder(folder)):
                raise _foreign(f"{target.name} lies in {folder}, which another format uses too")


def _guard_location(
    target: TargetTable, near: tuple[TableClaim, ...], overrides: frozenset[str]
) -> None:
    if parse(target.metadata.location).folder == "":
        raise RefusedError(
            "foreign",
            f"the location of {target.name} is an entire store: {target.metadata.location}",
            hint="purge without --base-location",
        )
    for claim in near:
        if holds(claim, target.metadata.location) and "foreign" not in overrides:
            raise _foreign(
                f"{claim.name} keeps its files in {claim.folders[0]}, "
                f"which is or contains the location of {target.name}"
            )


def _guard_stores(target: TargetTable, plan: PurgePlan, overrides: frozenset[str]) -> None:
    if plan.strange and "foreign" not in overrides:
        plan.close()
        raise _foreign(
            f"{target.name} references files in another kind of store, such as {plan.strange}"
        )


def _inside(target: TargetTable, near: Iterable[TableClaim], base_location: bool) -> Iterator[str]:
    """The folders of other tables inside the location, with everything in them."""
    own = real_folder(target.metadata.location)
    for claim in near if base_location else ():
        for folder in claim.folders:
            if real_folder(folder) != own and real_folder(folder).startswith(own):
                yield folder


def _reach(stores: Stores, claim: TableClaim) -> Iterator[pa.RecordBatch]:
    if claim.metadata is None:
        raise UnreadableError(claim.path, "unreadable", claim.error or "")
    yield from reached_files(stores, claim.metadata, Strict())


def _witness(target: TargetTable, entries: Iterable[CatalogEntry]) -> frozenset[tuple[str, str]]:
    """What must not change between planning and deleting."""
    known = {(entry.full_name, entry.metadata_path) for entry in entries}
    return frozenset({*known, (target.name, target.metadata.path)})


def _foreign(message: str) -> RefusedError:
    return RefusedError(
        "foreign",
        message,
        hint="make sure that nothing else needs the files, then add --override foreign",
    )
