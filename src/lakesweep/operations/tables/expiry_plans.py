"""Expiries of Iceberg snapshots as stored plans: made once, looked at, carried out once.

A plan holds the terms, what each snapshot and ref alone holds, and every file that would go. Its
hash is in the store. Carrying it out decides again from nothing, and then expires and deletes no
more than the plan showed: what became protected since stays, and what became due since waits for
the next plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pyarrow as pa

from lakesweep.app import App
from lakesweep.clock import micros
from lakesweep.errors import LakesweepError, NotFoundError
from lakesweep.hashing import HashSet
from lakesweep.iceberg.commits.pointer_commit import read_table
from lakesweep.operations.interaction import SILENT_IO, Confirm, Interaction
from lakesweep.operations.tables.delete_runs import plans_of_table, quarantine_of_table
from lakesweep.operations.tables.expiry_result import (
    ExpireTablesRequest,
    IcebergExpiryPreview,
    IcebergExpiryResult,
    SnapshotLine,
)
from lakesweep.operations.tables.iceberg_expiry import (
    StoredExpiry,
    UnexpiredTable,
    expire_table,
    table_refs,
)
from lakesweep.runs.records import TABLE_PREFIX, new_name
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.storage.options import UNLIMITED, DeleteRate
from lakesweep.sweep.columns import VERDICTS
from lakesweep.sweep.guards import check_plan_age, refuse
from lakesweep.sweep.holdings import HOLD_UNTIL
from lakesweep.sweep.judge.totals import FileTotals
from lakesweep.sweep.plan.document import (
    PLAN_LIFETIME,
    PlanDocument,
    PlanKind,
    RootCounts,
    dataset_ref,
)
from lakesweep.sweep.plan.stored_plan import StoredPlan, open_plan, publish_plan
from lakesweep.sweep.verdicts import Reason, Verdict
from lakesweep.upkeep.file_index import FileIndex
from lakesweep.upkeep.proposal import ExpiryTerms, table_metadata
from lakesweep.upkeep.snapshot_retention import PlannedExpiry, RetentionArguments

_KIND = "expiry"


class ExpiryDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What the document of a plan says of an expiry. The keys are stored.

    `found` is the preview: what each snapshot and ref holds, and why each that stays does.
    """

    ref: str
    table: str
    metadata: str
    location: str
    found: IcebergExpiryResult
    older_than_ms: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()
    only_ids: bool = False
    keep_staged: bool = False
    marker_age_seconds: float = 0
    limit: int | None = None
    clean_metadata: bool = False
    keep_files: bool = False

    @property
    def terms(self) -> ExpiryTerms:
        """What was asked for, limited to what was found."""
        planned = PlannedExpiry(
            frozenset(self.found.expired_snapshots), frozenset(self.found.removed_refs)
        )
        arguments = RetentionArguments(
            self.older_than_ms,
            self.retain_last,
            self.snapshot_ids,
            self.only_ids,
            self.keep_staged,
            timedelta(seconds=self.marker_age_seconds),
            self.limit,
            planned,
        )
        return ExpiryTerms(arguments, self.clean_metadata)


def plan_expiry(
    app: App, ref: str, request: ExpireTablesRequest, io: Interaction = SILENT_IO
) -> PlanDocument:
    """Store what an expiry of one table would do. Changes nothing of the table."""
    plan = new_name(_KIND, app.clock)
    made: list[PlanDocument] = []

    def store(preview: IcebergExpiryPreview) -> None:
        location = preview.location
        address = f"{plans_of_table(app, location)}/{plan}"
        rows = _verdicts(preview.batches(), preview.planned.table)
        deletes = write_dataset(app.stores, f"{address}/{Verdict.DELETE}", VERDICTS, rows)
        keeps = write_dataset(app.stores, f"{address}/{Verdict.KEEP}", VERDICTS, ())
        document = _document(app, plan, ref, request, preview)
        datasets = {
            Verdict.DELETE.value: dataset_ref(Verdict.DELETE, deletes),
            Verdict.KEEP.value: dataset_ref(Verdict.KEEP, keeps),
        }
        document = msgspec.structs.replace(document, datasets=datasets)
        publish_plan(app.stores, app.runs, address, document, 0)
        made.append(document)

    expire_table(app, ref, replace(request, dry_run=True), store, io)
    return made[0]


def plan_expiries(
    app: App, request: ExpireTablesRequest, io: Interaction = SILENT_IO
) -> Iterator[PlanDocument | UnexpiredTable]:
    """Store a plan for each table. An error concerns one table only."""
    for ref in table_refs(app, request):
        if isinstance(ref, UnexpiredTable):
            yield ref
            continue
        try:
            yield plan_expiry(app, ref, request, io)
        except LakesweepError as error:
            yield UnexpiredTable(ref, error)


def quarantine_tables(
    app: App,
    request: ExpireTablesRequest,
    confirm: Confirm[IcebergExpiryPreview],
    io: Interaction = SILENT_IO,
) -> Iterator[IcebergExpiryResult | UnexpiredTable]:
    """Expire snapshots of tables, and set their files aside by a plan of each table."""
    for made in plan_expiries(app, request, io):
        if isinstance(made, UnexpiredTable):
            yield made
            continue
        try:
            yield apply_expiry(app, made.plan, confirm, io, quarantine=True, rate=request.rate)
        except LakesweepError as error:
            yield UnexpiredTable(made.details["ref"], error)


def _document(
    app: App, plan: str, ref: str, request: ExpireTablesRequest, preview: IcebergExpiryPreview
) -> PlanDocument:
    now, arguments, found = app.clock.now(), request.terms.retention, preview.planned
    details = ExpiryDetails(
        ref=ref,
        table=found.table,
        metadata=found.metadata_before,
        location=preview.location,
        found=found,
        older_than_ms=arguments.older_than_ms,
        retain_last=arguments.retain_last,
        snapshot_ids=arguments.snapshot_ids,
        only_ids=arguments.only_ids,
        keep_staged=arguments.keep_staged,
        marker_age_seconds=arguments.marker_age.total_seconds(),
        limit=arguments.limit,
        clean_metadata=request.terms.clean_metadata,
        keep_files=request.keep_files,
    )
    deletes = FileTotals(preview.total_files, found.bytes_deleted)
    return PlanDocument(
        plan=plan,
        lake=f"{TABLE_PREFIX}{found.table}",
        kind=PlanKind.EXPIRY,
        created=now,
        expires=now + PLAN_LIFETIME,
        cut_off=now,
        grace_seconds=0,
        mode="exact",
        roots=RootCounts(1, 0),
        totals={Verdict.DELETE.value: {Reason.EXPIRED.value: deletes}},
        guards=tuple(found.guards or ()),
        overridden=tuple(sorted(request.overrides)),
        locations=(preview.location,),
        details=msgspec.to_builtins(details),
    )


def _verdicts(batches: Iterable[pa.RecordBatch], table: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        count = batch.num_rows

        def same(text: str, rows: int = count) -> pa.Array:
            return pa.repeat(pa.scalar(text, pa.string()), rows)

        yield pa.RecordBatch.from_arrays(
            [
                batch["path"],
                same(Verdict.DELETE),
                same(Reason.EXPIRED),
                batch["kind"],
                batch["size_bytes"],
                batch["modified"],
                batch["etag"],
                same(table),
                *hash_columns(file_hashes(batch["path"])),
            ],
            schema=VERDICTS,
        )


def details_of(document: PlanDocument) -> ExpiryDetails:
    """What a plan says of the expiry of its table."""
    return msgspec.convert(document.details, ExpiryDetails)


def apply_expiry(
    app: App,
    plan: str,
    confirm: Confirm[IcebergExpiryPreview],
    io: Interaction = SILENT_IO,
    *,
    quarantine: bool = False,
    hold: timedelta | None = None,
    rate: DeleteRate = UNLIMITED,
    overrides: Iterable[str] = (),
) -> IcebergExpiryResult:
    """Carry out a stored plan, once: no more than it says, and less if the table has changed."""
    found = open_plan(app.stores, app.runs, plan)
    document, details = found.document, details_of(found.document)
    overridden = {*overrides, *document.overridden}
    age = [*check_plan_age(app.clock.now(), document.expires)]
    again = f"{document.commands} apply {document.plan}"
    refuse(age, overridden, document.plan, document.commands, again)
    request = ExpireTablesRequest(
        refs=(details.ref,),
        terms=details.terms,
        keep_files=details.keep_files,
        rate=rate,
        overrides=frozenset(overridden),
    )
    spec: dict[str, Any] = {"quarantine": quarantine, "overridden": sorted(overridden)}
    if quarantine:
        places = quarantine_of_table(app, details.location, document.plan)
        spec["places"] = msgspec.to_builtins(places)
        if hold is not None:
            spec[HOLD_UNTIL] = micros(app.clock.now() + hold)
    stored = StoredExpiry(found.record, _files(found), spec, quarantine)
    return expire_table(app, details.ref, request, confirm, io, stored)


def _files(plan: StoredPlan) -> HashSet:
    """The hashes of the files of a plan."""
    found = HashSet()
    for batch in read_dataset(plan.stores, plan.dataset(Verdict.DELETE.value), ["path"]):
        found.add(file_hashes(batch["path"]))
    return found


def explain_expiry(app: App, plan: StoredPlan, path: str) -> tuple[bool, list[str]]:
    """Whether a plan deletes a file, and which snapshots reach it, with what becomes of each.

    NotFoundError if none does. The metadata that the plan was made for is read again.
    """
    details = details_of(plan.document)
    is_planned = bool(_files(plan).contains(file_hashes(pa.array([path], pa.string())))[0])
    try:
        reaching = _holders(app, details, path)
    except LakesweepError as error:
        return is_planned, [f"which snapshots reach it cannot be read any more: {error.message}"]
    if not (is_planned or reaching):
        raise NotFoundError(
            f"no snapshot of {details.table} reaches {path}",
            hint=f"lakesweep show {plan.document.plan} --files lists what would be deleted",
        )
    lines = {line.snapshot_id: line for line in details.found.snapshots or ()}
    return is_planned, [_standing(each, lines) for each in reaching]


def _holders(app: App, details: ExpiryDetails, path: str) -> list[int]:
    table = read_table(details.table, details.metadata, app.iceberg.find(details.ref).stores)
    metadata = table_metadata(table.location, table.document)
    with FileIndex(table.stores) as index:
        index.read_lists(metadata)
        index.read_manifests()
        return index.holders(path, metadata)


def _standing(snapshot: int, lines: Mapping[int, SnapshotLine]) -> str:
    line = lines.get(snapshot)
    if line is None:
        return f"snapshot {snapshot} reaches it"
    if line.expires:
        return f"snapshot {snapshot} reaches it, and expires ({line.standing})"
    why = ", ".join(dict.fromkeys(each.why.value for each in line.reasons))
    return f"snapshot {snapshot} reaches it, and stays ({why})"
