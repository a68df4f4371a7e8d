"""What a purge may delete: nothing that a root references, and nothing of Lakesweep's own.

All purges ask here, whatever named their files: table metadata, a listing, a partition. The roots
of all configured lakes are read as a sweep reads them, before the preview is shown and again right
before the first delete.

Guards say what must hold before a table is deleted with its files. None of them lifts the
protection of another table: what a root references stays, whatever is overridden.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import pyarrow as pa

from lakesweep.app import App
from lakesweep.config import IcebergCatalogRoot, IcebergScanRoot, LakeSection, Root
from lakesweep.errors import RefusedError
from lakesweep.guard_names import GuardName
from lakesweep.iceberg.metadata import Metadata
from lakesweep.iceberg.purge import folders_of, real_folder
from lakesweep.iceberg.table_identifier import TargetTable
from lakesweep.operations.tables.upkeep_session import UpkeepSession
from lakesweep.progress import SILENT, Progress
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.deleting.bulk_delete import Deleter
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.stores import Stores
from lakesweep.sweep.columns import LISTING
from lakesweep.sweep.engine.local_engine import LocalSweepEngine
from lakesweep.sweep.engine.protocol import SweepEngine
from lakesweep.sweep.judge.reasons import JudgeRules
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.paths.foreign_formats import ForeignFolder
from lakesweep.sweep.plan.document import IncompleteRoot
from lakesweep.sweep.references import (
    ListedRoots,
    PurgeTarget,
    RecordedRoots,
    ReferenceCheck,
    ReferencedFiles,
    RootsBeside,
    RootsBesideTables,
    TablesRead,
    UnreferencedDeletion,
    listing_rows,
    references_only,
)
from lakesweep.sweep.roots.iceberg_scan import ListedFiles
from lakesweep.sweep.roots.root import RootSource
from lakesweep.sweep.roots.root_kinds import RootSourceFactory
from lakesweep.sweep.verdicts import Reason
from lakesweep.units import format_count


@dataclass(frozen=True)
class PurgeScope:
    """Where a purge may delete, and whom it asks.

    Files outside `locations` stay. `catalogs`, by their properties, are asked beside the configured
    roots, and `target` is the table that is purged. `formats` are tables of other formats that its
    files may belong to. `read_tables` are Paimon tables that the caller has read itself. `roots`
    are asked in place of those of all lakes. Without `asks_roots`, only Lakesweep's own files stay.
    """

    locations: tuple[str, ...]
    target: PurgeTarget | None = None
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    own_files: tuple[str, ...] = ()
    asks_roots: bool = True
    rules: Callable[[JudgeRules], JudgeRules] = references_only
    read_tables: TablesRead | None = None
    roots: tuple[Root, ...] | None = None
    formats: tuple[ForeignFolder, ...] = ()


@dataclass
class PurgeCheck:
    """Decides for some files, again and again, which of them stay."""

    check: ReferenceCheck
    files: Dataset
    session: UpkeepSession

    def look(self) -> ReferencedFiles:
        """Ask all roots as they are now. RefusedError if one of them cannot be read."""
        seen = self.check.look(self.files, self.session.known)
        self.session.remember(seen.marks, self.check.address)
        return seen

    def deletion(
        self, delete: Deleter, look: Callable[[], ReferencedFiles] | None = None
    ) -> UnreferencedDeletion:
        """A deleter that leaves what stays, by a look right before the first delete."""
        return UnreferencedDeletion(look or self.look, self.check.sources, delete)


@contextmanager
def purge_check(
    app: App,
    scope: PurgeScope,
    batches: Iterable[pa.RecordBatch],
    *,
    progress: Progress = SILENT,
    session: UpkeepSession | None = None,
    engine: SweepEngine | None = None,
    recalls: bool = False,
) -> Iterator[PurgeCheck]:
    """A check of files, given as batches with `path` and `size_bytes`, each file once.

    A check that `recalls` takes lists of roots from its session: for previews, never for deletes.
    """
    with ExitStack() as stack:
        if session is None:
            session = stack.enter_context(UpkeepSession(app))
        place = stack.enter_context(session.look_folder())
        # Before any root is read: what a table takes up from now on is seen as referenced.
        files = write_dataset(app.stores, f"{place}/files", LISTING, listing_rows(batches))
        lake = _lake(app, scope, place)
        check = ReferenceCheck(
            app.stores,
            engine or LocalSweepEngine(app.stores),
            app.clock,
            lake,
            partial(_sources, app, lake, scope, session.listed, asks=not recalls),
            place,
            _veto,
            progress=progress,
            rules=scope.rules,
            formats=scope.formats,
        )
        yield PurgeCheck(check, files, session)


def whole_stores(addresses: Iterable[str]) -> tuple[str, ...]:
    """The buckets and file systems that addresses are in."""
    return tuple(dict.fromkeys(parse(each).child("").path for each in addresses))


def _lake(app: App, scope: PurgeScope, place: str) -> Lake:
    """All lakes as one. Work in progress is in `place`, which is also where nothing is found."""
    lakes = app.config.lakes
    of_lakes = (root for lake in lakes.values() for root in lake.roots)
    roots = list(of_lakes if scope.roots is None else scope.roots)
    roots += [
        IcebergCatalogRoot(type="iceberg-catalog", name=name, properties=dict(properties))
        for name, properties in scope.catalogs.items()
        if name not in app.catalogs
    ]
    section = LakeSection(
        locations=scope.locations or (place,), roots=tuple(roots) if scope.asks_roots else ()
    )
    kept = tuple(dict.fromkeys((*app.lakes.kept_folders, *scope.own_files)))
    return Lake("purge", section, place, kept=kept)


def sources_of_others(app: App) -> RootSourceFactory:
    """Makes the sources of a lake. Scans of others count as well, by listings of their own."""

    def sources(stores: Stores, lake: Lake, _: ListedFiles) -> Sequence[RootSource]:
        roots = (*lake.section.roots, *lake.roots_of_others)
        section = lake.section.model_copy(update={"roots": roots})
        everything = replace(lake, section=section, roots_of_others=())
        return app.root_sources(stores, everything, lambda: _scanned(app, roots))

    return sources


def _sources(
    app: App, lake: Lake, scope: PurgeScope, listed: ListedRoots, *, asks: bool
) -> Sequence[RootSource]:
    found: Sequence[RootSource] = sources_of_others(app)(app.stores, lake, tuple)
    found = [RecordedRoots(source, listed, asks) for source in found]
    if scope.read_tables is not None:
        read = scope.read_tables
        found = [RootsBesideTables(app.stores, source, read) for source in found]
    if scope.target is not None:
        found = [RootsBeside(source, scope.target) for source in found]
    return found


def _scanned(app: App, roots: Iterable[Root]) -> Iterator[pa.RecordBatch]:
    """What scans search: only they need a listing."""
    paths = dict.fromkeys(root.path for root in roots if isinstance(root, IcebergScanRoot))
    return chain.from_iterable(list_files(app.stores, path) for path in paths)


def _veto(root: IncompleteRoot) -> RefusedError:
    # No override: what this root needs is unknown, and it may be any of the files.
    return RefusedError(
        GuardName.INCOMPLETE,
        f"{root.name} may reference the files, and cannot be read: {root.reason}",
        hint="make it readable, then run the command again; lakesweep doctor checks catalogs",
    )


@dataclass(frozen=True, slots=True)
class OverlappingTable:
    """Another table that keeps files in a folder of the purged one."""

    name: str
    folder: str


def guard_gc_enabled(target: TargetTable, overrides: Collection[str]) -> None:
    """Refuse a table whose files may belong to others."""
    if not target.metadata.gc_enabled and GuardName.GC_ENABLED not in overrides:
        raise RefusedError(
            GuardName.GC_ENABLED,
            f"{target.name} has gc.enabled=false: its files may belong to others",
            hint="if nothing else uses them, set gc.enabled=true in the table's properties",
        )


def guard_names(found: PurgeTarget, target: TargetTable) -> None:
    """Refuse an address if it is unclear which of several names is meant."""
    names = found.names if target.entry is None else []
    if len(names) > 1:
        raise RefusedError(
            GuardName.FOREIGN,
            f"several catalog entries point to {target.name}: {', '.join(names)}",
            hint="purge one of them by its name",
        )


def guard_formats(seen: ReferencedFiles, target: TargetTable) -> None:
    """Refuse a table that lies in one of another format, which may publish itself this way."""
    for each in seen.ruling.formats:
        if real_folder(target.metadata.path).startswith(real_folder(each.folder)):
            raise RefusedError(
                GuardName.FOREIGN,
                f"{target.name} lies in a {each.format} in {each.folder}, and may share its files",
                hint="drop the table there, in its own format; if nothing uses that any more,"
                " add --override foreign",
            )


def guard_outside(
    seen: ReferencedFiles,
    table: str,
    listing: str,
    overrides: Collection[str],
    own: str | None = None,
) -> None:
    """Metadata may name any path, so it owns only what lies where its tables certainly lie.

    `listing` is the command that shows the files of the table, `own` where they may lie, unless
    that is in the locations of lakes.
    """
    files = seen.reasons()[Reason.OUTSIDE]
    if not files:
        return
    example = seen.example(Reason.OUTSIDE)
    if GuardName.OUTSIDE in overrides:
        raise RefusedError(
            GuardName.OUTSIDE,
            f"{format_count(files, 'file')} of {table} in a bucket that is neither the"
            f" table's own nor in the configuration, such as {example}",
            hint="if the table owns them, add their folder to the locations of a lake",
        )
    raise RefusedError(
        GuardName.OUTSIDE,
        f"{format_count(files, 'file')} of {table} outside"
        f" {own or 'its location and the locations of all lakes'}, such as {example}",
        hint=f"look at them with {listing}; if the table owns them, add"
        f" {'' if own else 'their folder to the locations of a lake, or add '}--override outside",
    )


def guard_location(seen: ReferencedFiles, target: TargetTable, overrides: Collection[str]) -> None:
    """Refuse to delete everything in a folder that other tables use as well."""
    location = target.metadata.location
    if parse(location).folder == "":
        raise RefusedError(
            GuardName.FOREIGN,
            f"the location of {target.name} is an entire store: {location}",
            hint="purge without --base-location",
        )
    for name, folder in _declared_folders(seen):
        holds = real_folder(location).startswith(real_folder(folder))
        if holds and GuardName.FOREIGN not in overrides:
            raise RefusedError(
                GuardName.FOREIGN,
                f"{name} keeps its files in {folder}, which is or contains the location of"
                f" {target.name}",
                hint="purge without --base-location: then only what the table reaches is deleted",
            )


def guard_changed(app: App, target: TargetTable) -> None:
    """Refuse a table that moved on since its files were counted."""
    if app.iceberg.refresh(target).metadata.path != target.metadata.path:
        raise RefusedError(
            GuardName.STALE_PLAN,
            f"{target.name} was changed since the plan was made",
            hint="run the command again",
        )


def overlapping_tables(seen: ReferencedFiles, metadata: Metadata) -> Iterator[OverlappingTable]:
    """Other tables with a folder that equals, contains or is inside one of the table's."""
    own = [real_folder(folder) for folder in folders_of(metadata)]
    found: dict[str, OverlappingTable] = {}
    for name, folder in _declared_folders(seen):
        theirs = real_folder(folder)
        if any(theirs.startswith(mine) or mine.startswith(theirs) for mine in own):
            found.setdefault(name, OverlappingTable(name, folder))
    return iter(found.values())


def _declared_folders(seen: ReferencedFiles) -> Iterator[tuple[str, str]]:
    for root in seen.marks.roots:
        if root.facts is not None:
            yield from (
                (root.name, each) for each in (root.facts.location, *root.facts.write_paths)
            )
