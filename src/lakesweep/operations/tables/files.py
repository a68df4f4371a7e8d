"""List the files stored at some locations, and purge those that filters select."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.app import App
from lakesweep.errors import RefusedError, UsageError
from lakesweep.guard_names import GuardName
from lakesweep.hashing import HashSet
from lakesweep.iceberg.file_kinds import IcebergKind, kinds_by_name
from lakesweep.marks.unreadable import Problem
from lakesweep.operations.interaction import SILENT_IO, Confirm, Interaction
from lakesweep.operations.tables.delete_runs import purge_run
from lakesweep.operations.tables.purge_check import (
    PurgeCheck,
    PurgeScope,
    purge_check,
    whole_stores,
)
from lakesweep.progress import Progress
from lakesweep.storage.address import StoreKind, parse
from lakesweep.storage.datasets.spool import Spool, unique_files
from lakesweep.storage.deleting.bulk_delete import Deleter, make_deleter
from lakesweep.storage.deleting.outcome_totals import OutcomeReport, OutcomeTotals
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.file_identity import file_hashes
from lakesweep.storage.listing import filters, locations
from lakesweep.storage.object_store import Outcome
from lakesweep.storage.options import UNLIMITED, DeleteRate
from lakesweep.storage.wrappers.fenced import FencedStores


@dataclass(frozen=True, slots=True)
class FileFilters:
    """Which files are selected: those that meet all conditions. None and () are no condition.

    A condition never selects a file whose value is unknown, such as an age without a time.
    """

    older_than: datetime | None = None
    newer_than: datetime | None = None
    globs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    regex: str | None = None
    min_size_bytes: int | None = None
    max_size_bytes: int | None = None
    kinds: tuple[str, ...] = ()

    def build(self) -> filters.Filter:
        """All conditions as one filter; UsageError if one of them is invalid."""
        result = filters.glob(self.globs) & filters.exclude(self.excludes)
        if self.older_than is not None:
            result &= filters.older_than(self.older_than)
        if self.newer_than is not None:
            result &= filters.newer_than(self.newer_than)
        if self.regex is not None:
            result &= filters.regex(self.regex)
        if self.min_size_bytes is not None:
            result &= filters.min_size(self.min_size_bytes)
        if self.max_size_bytes is not None:
            result &= filters.max_size(self.max_size_bytes)
        return result & filters.kind(_known_kinds(self.kinds)) if self.kinds else result


def _known_kinds(kinds: Sequence[str]) -> Sequence[str]:
    names = [kind.value for kind in IcebergKind]
    for kind in kinds:
        if kind not in names:
            near = get_close_matches(kind, names, n=1)
            advice = f"did you mean {near[0]}?" if near else f"the kinds are {', '.join(names)}"
            raise UsageError(f"there is no kind {kind!r}", hint=advice)
    return kinds


NO_FILTERS = FileFilters()


@dataclass(frozen=True, slots=True)
class ListFilesRequest:
    """Files at and below absolute addresses."""

    locations: tuple[str, ...]
    filters: FileFilters = NO_FILTERS


@dataclass(frozen=True, slots=True)
class PurgeFilesRequest:
    """Files to delete, and how fast. Overrides are names of guards."""

    locations: tuple[str, ...]
    filters: FileFilters = NO_FILTERS
    rate: DeleteRate = UNLIMITED
    dry_run: bool = False
    overrides: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PurgeFilesPreview:
    """What a purge is about to delete. `protected` files stay because a root references them."""

    files: int
    size_bytes: int
    protected: int = 0


class PurgeResult(OutcomeReport, frozen=True, kw_only=True):
    """How a purge ended. `protected` files stay because a root references them."""

    bytes_found: int
    protected: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ReachedFiles:
    """Files as batches of FILE_SCHEMA, and what could not be read, complete once all are taken."""

    batches: Iterator[pa.RecordBatch]
    problems: Sequence[Problem] = ()


def list_files(app: App, request: ListFilesRequest) -> Iterator[pa.RecordBatch]:
    """The files stored at and below some addresses, as batches of FILE_SCHEMA.

    An address is a folder: t1 never means t10. A file below two of them comes twice.
    """
    return _selected(app, request.locations, request.filters.build())


def purge_files(
    app: App,
    request: PurgeFilesRequest,
    confirm: Confirm[PurgeFilesPreview],
    io: Interaction = SILENT_IO,
) -> PurgeResult:
    """Delete the files that filters select, except what a root of a configured lake references.

    Exactly what was counted for the preview is deleted, less what is referenced or written again
    meanwhile.
    """
    _refuse_root(request.locations)
    with Spool() as spool:
        _find(_selected(app, request.locations, request.filters.build()), spool, io.progress)
        scope = PurgeScope(
            whole_stores(request.locations),
            asks_roots=GuardName.REFERENCED not in request.overrides,
        )
        with purge_check(app, scope, spool.batches(), progress=io.progress) as check:
            return _purge_selected(app, request, spool, check, confirm, io.progress)


def _purge_selected(
    app: App,
    request: PurgeFilesRequest,
    spool: Spool,
    check: PurgeCheck,
    confirm: Confirm[PurgeFilesPreview],
    progress: Progress,
) -> PurgeResult:
    seen = check.look()
    protected = len(seen.kept)
    found, size_bytes = spool.files - protected, spool.size_bytes - seen.size_bytes()
    confirm(PurgeFilesPreview(found, size_bytes, protected))
    totals = OutcomeTotals()
    if found and not request.dry_run:
        spec = {"files": list(request.locations), "overridden": sorted(request.overrides)}
        with purge_run(app, "files", request.locations, spec) as run, run.counting(totals):
            stores = FencedStores(app.stores.within(*request.locations), run.fence)
            # What was written again since it was listed is not what the filters chose.
            delete = make_deleter(stores, app.clock, request.rate, verify=True)
            with check.deletion(delete) as deletion:
                _delete(_without(spool, seen.kept), found, deletion, totals, progress)
    return PurgeResult(
        **{**msgspec.structs.asdict(totals.report()), "found": found},
        bytes_found=size_bytes,
        protected=protected + totals.counts[Outcome.REFERENCED],
        dry_run=request.dry_run,
    )


def _without(spool: Spool, kept: HashSet) -> Iterator[pa.RecordBatch]:
    for batch in spool.batches():
        yield batch.filter(pa.array(~kept.contains(file_hashes(batch["path"]))))


def _find(batches: Iterable[pa.RecordBatch], spool: Spool, progress: Progress) -> None:
    with progress.task("found") as task:
        for batch in unique_files(batches):
            spool.add(batch)
            task.advance(batch.num_rows)


def _delete(
    batches: Iterable[pa.RecordBatch],
    count: int,
    delete: Deleter,
    totals: OutcomeTotals,
    progress: Progress,
) -> None:
    with progress.task("deleted", total=count) as task:
        for outcome in delete(batches):
            totals.add(outcome)
            task.advance(outcome.num_rows)


def _selected(
    app: App, addresses: Iterable[str], chosen: filters.Filter
) -> Iterator[pa.RecordBatch]:
    for address in addresses:
        for batch in locations.list_files(app.stores, address):
            kinds = kinds_by_name(batch["path"])
            named = batch.set_column(1, FILE_SCHEMA.field("kind"), kinds)
            yield from _filtered(named, address, chosen)


def _filtered(
    batch: pa.RecordBatch, address: str, chosen: filters.Filter
) -> Iterator[pa.RecordBatch]:
    """The rows that pass. Patterns see the object that the address itself names from its folder."""
    is_itself = pc.equal(batch["path"], address)
    yield chosen.apply(batch.filter(is_itself), address.rpartition("/")[0])
    yield chosen.apply(batch.filter(pc.invert(is_itself)), address)


def _refuse_root(addresses: Iterable[str]) -> None:
    """Refuse the root of the local file system, however it is written."""
    for path in addresses:
        address = parse(path)
        if address.kind is StoreKind.FILE and os.path.realpath(f"/{address.key}") == "/":
            raise RefusedError(
                "root",
                f"{path!r} is the whole file system; nothing was deleted",
                hint="name a folder",
            )
