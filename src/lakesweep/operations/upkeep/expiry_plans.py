"""Expiries of Iceberg snapshots as stored plans: made once, looked at, carried out once.

A plan holds the terms, what each snapshot and ref alone holds, and every file that would go. Its
hash is in the store. Carrying it out decides again from nothing, and then expires and deletes no
more than the plan showed: what became protected since stays, and what became due since waits for
the next plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

import msgspec
import pyarrow as pa

from lakesweep.app import App
from lakesweep.decoding import convert
from lakesweep.errors import LakesweepError, NotFoundError
from lakesweep.iceberg.commits.pointer_commit import read_table
from lakesweep.operations.interaction import SILENT_IO, Confirm, Interaction
from lakesweep.operations.tables.upkeep_session import UpkeepSession
from lakesweep.operations.upkeep.expiry_result import (
    ExpireTablesRequest,
    IcebergExpiryPreview,
    IcebergExpiryResult,
    SnapshotLine,
)
from lakesweep.operations.upkeep.iceberg_expiry import expire_table
from lakesweep.operations.upkeep.table_plans import (
    ApplyTerms,
    TablePlan,
    open_table_plan,
    planned_files,
    restores_of,
    store_table_plan,
)
from lakesweep.operations.upkeep.table_upkeep import UnexpiredTable, each_table
from lakesweep.storage.file_identity import file_hashes
from lakesweep.sweep.plan.document import (
    PlanDocument,
)
from lakesweep.sweep.plan.stored_plan import StoredPlan
from lakesweep.upkeep.file_index import FileIndex
from lakesweep.upkeep.proposal import ExpiryTerms, table_metadata
from lakesweep.upkeep.snapshot_retention import PlannedExpiry, RetentionArguments

_PLAIN = ApplyTerms()


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
    max_ref_age_ms: int | None = None
    floor_age_ms: int = 0
    floor_keep: int = 0

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
            self.max_ref_age_ms,
            self.floor_age_ms,
            self.floor_keep,
        )
        return ExpiryTerms(arguments, self.clean_metadata)


def plan_expiry(
    app: App,
    ref: str,
    request: ExpireTablesRequest,
    io: Interaction = SILENT_IO,
    session: UpkeepSession | None = None,
) -> PlanDocument:
    """Store what an expiry of one table would do. Changes nothing of the table."""
    restores = restores_of(app, ref)
    made: list[PlanDocument] = []

    def store(preview: IcebergExpiryPreview) -> None:
        wanted = TablePlan(
            table=preview.planned.table,
            restores=restores,
            location=preview.location,
            details=_details(ref, request, preview),
            deletes=preview.batches(),
            guards=tuple(preview.planned.guards or ()),
            overrides=request.overrides,
        )
        made.append(store_table_plan(app, wanted))

    expire_table(app, ref, replace(request, dry_run=True), store, io, session=session)
    return made[0]


def plan_expiries(
    app: App, request: ExpireTablesRequest, io: Interaction = SILENT_IO
) -> Iterator[PlanDocument | UnexpiredTable]:
    """Store a plan for each table. An error concerns one table only."""
    with UpkeepSession(app, request.engine, io) as session:
        yield from each_table(app, request, lambda ref: plan_expiry(app, ref, request, io, session))


def quarantine_tables(
    app: App,
    request: ExpireTablesRequest,
    confirm: Confirm[IcebergExpiryPreview],
    io: Interaction = SILENT_IO,
) -> Iterator[IcebergExpiryResult | UnexpiredTable]:
    """Expire snapshots of tables, and set their files aside by a plan of each table."""
    held = ApplyTerms(quarantine=True, rate=request.rate, engine=request.engine)
    for made in plan_expiries(app, request, io):
        if isinstance(made, UnexpiredTable):
            yield made
            continue
        try:
            yield apply_expiry(app, made.plan, confirm, io, held)
        except LakesweepError as error:
            yield UnexpiredTable(made.details["ref"], error)


def _details(
    ref: str, request: ExpireTablesRequest, preview: IcebergExpiryPreview
) -> ExpiryDetails:
    arguments, found = request.terms.retention, preview.planned
    return ExpiryDetails(
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
        max_ref_age_ms=arguments.max_ref_age_ms,
        floor_age_ms=arguments.floor_age_ms,
        floor_keep=arguments.floor_keep,
    )


def details_of(document: PlanDocument) -> ExpiryDetails:
    """What a plan says of the expiry of its table."""
    return convert(document.details, ExpiryDetails)


def apply_expiry(
    app: App,
    plan: str,
    confirm: Confirm[IcebergExpiryPreview],
    io: Interaction = SILENT_IO,
    terms: ApplyTerms = _PLAIN,
) -> IcebergExpiryResult:
    """Carry out a stored plan, once: no more than it says, and less if the table has changed."""
    opened = open_table_plan(app, plan, terms)
    details = details_of(opened.document)
    request = ExpireTablesRequest(
        refs=(details.ref,),
        terms=details.terms,
        keep_files=details.keep_files,
        rate=terms.rate,
        overrides=opened.overridden,
        engine=terms.engine,
    )
    return expire_table(app, details.ref, request, confirm, io, opened.task)


def explain_expiry(app: App, plan: StoredPlan, path: str) -> tuple[bool, list[str]]:
    """Whether a plan deletes a file, and which snapshots reach it, with what becomes of each.

    NotFoundError if none does. The metadata that the plan was made for is read again.
    """
    details = details_of(plan.document)
    is_planned = bool(planned_files(plan).contains(file_hashes(pa.array([path], pa.string())))[0])
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
