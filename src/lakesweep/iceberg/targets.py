"""The tables that commands name, the other tables that are known, and what keeps them apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakesweep.errors import RefusedError, UnreadableError, UsageError
from lakesweep.hashing import HashSet
from lakesweep.iceberg.access import storage_options
from lakesweep.iceberg.catalogs import Entry, IcebergCatalog, open_catalog
from lakesweep.iceberg.claims import Claim, claims, folders_of, holds, is_same_table, mark, overlaps
from lakesweep.iceberg.metadata import TableMetadata
from lakesweep.iceberg.purge import Protection, PurgePlan, plan_base_location, plan_purge
from lakesweep.iceberg.reading import load_metadata
from lakesweep.iceberg.refs import is_address, metadata_path, split_name
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.address import folder_identity, identity, parse

if TYPE_CHECKING:
    from lakesweep.iceberg.reading import Metadata
    from lakesweep.storage.stores import Stores


@dataclass(frozen=True)
class Target:
    """One table or view that a command names. `entry` is None where an address was given."""

    name: str
    metadata: Metadata
    stores: Stores = field(repr=False)
    entry: Entry | None = None

    @property
    def what(self) -> str:
        """`table` or `view`."""
        return "table" if isinstance(self.metadata, TableMetadata) else "view"


class IcebergTargets:
    """Tables and views by name or address, among all that the configuration knows."""

    def __init__(
        self,
        stores: Stores,
        catalogs: Mapping[str, Mapping[str, str]],
        metadata_files: Sequence[str] = (),
        *,
        progress: Progress = SILENT,
    ) -> None:
        self._stores = stores
        self._properties = catalogs
        self._metadata_files = metadata_files
        self._progress = progress
        self._catalogs: dict[str, IcebergCatalog] = {}

    def find(self, ref: str) -> Target:
        """The table or view that a REF means."""
        if is_address(ref):
            path = metadata_path(self._stores, ref)
            return Target(path, load_metadata(self._stores, path), self._stores)
        catalog, *name = split_name(ref)
        entry = self._open(catalog).find(tuple(name))
        stores = self._stores_for(entry)
        return Target(entry.full_name, load_metadata(stores, entry.metadata_path), stores, entry)

    def drop(self, target: Target) -> None:
        """Make the catalog forget the table's name."""
        if target.entry is None:
            raise UsageError(
                f"{target.name} is an address; there is no name to drop",
                hint="run without --drop, or name the table as catalog.namespace.table",
            )
        self._open(target.entry.catalog).drop(target.entry)

    def plan_purge(
        self, target: Target, *, base_location: bool, overrides: frozenset[str]
    ) -> PurgePlan:
        """Plan a purge; RefusedError where a guard says no."""
        _guard_gc_enabled(target, overrides)
        others = tuple(self._others(target))
        near = tuple(c for c in others if overlaps(c, folders_of(target.metadata)))
        if base_location:
            _guard_location(target, near, overrides)
            plan = self._plan_base_location(target, near, overrides)
        else:
            plan = self._plan_reached(target, near, others, overrides)
        plan.overlapping = near
        return plan

    def _plan_base_location(
        self, target: Target, near: tuple[Claim, ...], overrides: frozenset[str]
    ) -> PurgePlan:
        own = folder_identity(target.metadata.location)
        theirs = (folder for claim in near for folder in claim.folders)
        inside = tuple(f for f in theirs if _lies_inside(folder_identity(f), own))
        protection = Protection(self._mark(target, near, overrides), inside)
        return plan_base_location(
            target.stores, target.metadata, protection, progress=self._progress
        )

    def _plan_reached(
        self,
        target: Target,
        near: tuple[Claim, ...],
        others: tuple[Claim, ...],
        overrides: frozenset[str],
    ) -> PurgePlan:
        plan = self._plan(target, near, overrides)
        if plan.outside and len(near) < len(others):
            # Files from elsewhere may belong to any table: then all of them are asked.
            plan.close()
            plan = self._plan(target, others, overrides)
        return plan

    def _plan(
        self, target: Target, others: tuple[Claim, ...], overrides: frozenset[str]
    ) -> PurgePlan:
        protection = Protection(self._mark(target, others, overrides))
        return plan_purge(target.stores, target.metadata, protection, progress=self._progress)

    def _mark(
        self, target: Target, others: tuple[Claim, ...], overrides: frozenset[str]
    ) -> HashSet:
        """What the others reach. One that cannot be read stops the purge unless overridden."""
        for claim in others:
            if claim.metadata is None and "foreign" not in overrides:
                raise _foreign(f"{claim.name} may share files, and cannot be read: {claim.error}")
        try:
            return mark(target.stores, others, progress=self._progress)
        except UnreadableError as error:
            raise _foreign(f"another table may share files: {error.message}") from error

    def _others(self, target: Target) -> Iterator[Claim]:
        """Every other known table, from all catalogs and metadata roots."""
        for claim in claims(target.stores, self._entries(target), progress=self._progress):
            if not (target.entry is None and is_same_table(claim, target.metadata)):
                yield claim

    def _entries(self, target: Target) -> Iterator[Entry]:
        names = dict.fromkeys(
            [*self._properties, *([target.entry.catalog] if target.entry else [])]
        )
        for name in names:
            for entry in self._open(name).entries():
                if target.entry is None or entry != target.entry:
                    yield entry
        own = identity(target.metadata.path)
        for path in self._metadata_files:
            if identity(path) != own:
                yield Entry(path, (), False, path)

    def _open(self, name: str) -> IcebergCatalog:
        if name not in self._catalogs:
            self._catalogs[name] = open_catalog(name, self._properties.get(name, {}))
        return self._catalogs[name]

    def _stores_for(self, entry: Entry) -> Stores:
        options = storage_options(entry.access)
        if options is None:
            return self._stores
        return self._stores.with_defaults({"s3://": options, "abfss://": options})


def _guard_gc_enabled(target: Target, overrides: frozenset[str]) -> None:
    if not target.metadata.gc_enabled and "gc.enabled" not in overrides:
        raise RefusedError(
            "gc.enabled",
            f"{target.name} has gc.enabled=false: its files may belong to others",
            hint="make sure that nothing else needs them, then add --override gc.enabled",
        )


def _guard_location(target: Target, near: tuple[Claim, ...], overrides: frozenset[str]) -> None:
    if parse(target.metadata.location).folder == "":
        raise RefusedError(
            "foreign",
            f"the location of {target.name} is a whole store: {target.metadata.location}",
            hint="purge without --base-location",
        )
    for claim in near:
        if holds(claim, target.metadata.location) and "foreign" not in overrides:
            raise _foreign(
                f"{claim.name} keeps its files in {claim.folders[0]}, "
                f"which is or holds the location of {target.name}"
            )


def _lies_inside(folder: str, outer: str) -> bool:
    return folder != outer and folder.startswith(outer)


def _foreign(message: str) -> RefusedError:
    return RefusedError(
        "foreign",
        message,
        hint="purge without --base-location, mend the other table, or add --override foreign",
    )
