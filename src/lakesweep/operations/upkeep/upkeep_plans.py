"""Rewrites and trims of Iceberg tables as stored plans: made once, looked at, carried out once.

Carrying one out plans again from nothing. No file leaves the current snapshot, and none is deleted,
that the plan does not name. Manifests may be merged in another way than the plan showed, because
that removes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias, assert_never

import msgspec
import pyarrow as pa

from lakesweep.app import App
from lakesweep.decoding import convert
from lakesweep.errors import NotFoundError, UsageError
from lakesweep.operations.interaction import SILENT_IO, Confirm, Interaction
from lakesweep.operations.upkeep.iceberg_rewrites import (
    ExpirePartitions,
    MergeManifests,
    RemoveDanglingDeletes,
    RewriteTablesRequest,
    RewriteTask,
    TableRewriteResult,
    preview_rewrite,
    rewrite_table,
)
from lakesweep.operations.upkeep.iceberg_trim import TrimResult, TrimTablesRequest, trim_table
from lakesweep.operations.upkeep.table_plans import (
    ApplyTerms,
    TablePlan,
    open_table_plan,
    restores_of,
    store_table_plan,
)
from lakesweep.operations.upkeep.table_upkeep import UnexpiredTable, each_table
from lakesweep.storage.address import identity
from lakesweep.sweep.plan.document import PlanDocument
from lakesweep.sweep.plan.stored_plan import StoredPlan
from lakesweep.sweep.verdicts import Reason, Verdict

_PLAIN = ApplyTerms()


class UpkeepTask(StrEnum):
    """Tasks besides expiry that plans are stored of, by their commands."""

    REWRITE_MANIFESTS = "rewrite-manifests"
    REMOVE_DANGLING_DELETES = "remove-dangling-deletes"
    EXPIRE_PARTITIONS = "expire-partitions"
    TRIM_METADATA = "trim-metadata"


class RewriteDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the document of a plan says of a rewrite. The keys are stored."""

    task: UpkeepTask
    ref: str
    table: str
    metadata: str
    found: TableRewriteResult
    target_bytes: int | None = None
    column: str | None = None
    before: datetime | None = None

    @property
    def rewrite(self) -> RewriteTask:
        """What was asked for."""
        match self.task:
            case UpkeepTask.REWRITE_MANIFESTS:
                return MergeManifests(self.target_bytes)
            case UpkeepTask.REMOVE_DANGLING_DELETES:
                return RemoveDanglingDeletes()
            case _:
                assert self.column is not None
                assert self.before is not None
                return ExpirePartitions(self.column, self.before)


class TrimDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the document of a plan says of a trim. The keys are stored."""

    task: UpkeepTask
    ref: str
    table: str
    metadata: str
    found: TrimResult
    keep: int | None = None
    grace_seconds: float = 0


UpkeepDetails: TypeAlias = RewriteDetails | TrimDetails


def upkeep_details(document: PlanDocument) -> UpkeepDetails | None:
    """What a plan of a table says of its task; None if it is an expiry of snapshots."""
    task = document.details.get("task")
    if task is None:
        return None
    if task == UpkeepTask.TRIM_METADATA:
        return convert(document.details, TrimDetails)
    return convert(document.details, RewriteDetails)


def plan_rewrites(
    app: App, request: RewriteTablesRequest
) -> Iterator[PlanDocument | UnexpiredTable]:
    """Store a plan of the rewrite of each table. An error concerns one table only."""
    return each_table(app, request, lambda ref: plan_rewrite(app, ref, request))


def plan_trims(
    app: App, request: TrimTablesRequest, io: Interaction = SILENT_IO
) -> Iterator[PlanDocument | UnexpiredTable]:
    """Store a plan of the trim of each table. An error concerns one table only."""
    return each_table(app, request, lambda ref: plan_trim(app, ref, request, io))


def plan_rewrite(app: App, ref: str, request: RewriteTablesRequest) -> PlanDocument:
    """Store what a rewrite of one table would do. Changes nothing of the table."""
    restores = restores_of(app, ref)
    preview = preview_rewrite(app, ref, request)
    found = preview.found
    task, arguments = _arguments(request.task)
    wanted = TablePlan(
        task=task,
        table=found.table,
        restores=restores,
        location=preview.location,
        details=RewriteDetails(
            task=task,
            ref=ref,
            table=found.table,
            metadata=found.metadata_before,
            found=found,
            **arguments,
        ),
        leaving=preview.leaving,
        guards=tuple(found.guards or ()),
        overrides=request.overrides,
    )
    return store_table_plan(app, wanted)


def _arguments(task: RewriteTask) -> tuple[UpkeepTask, dict[str, Any]]:
    match task:
        case MergeManifests(size):
            return UpkeepTask.REWRITE_MANIFESTS, {"target_bytes": size}
        case RemoveDanglingDeletes():
            return UpkeepTask.REMOVE_DANGLING_DELETES, {}
        case ExpirePartitions(column, before):
            return UpkeepTask.EXPIRE_PARTITIONS, {"column": column, "before": before}
        case other:
            assert_never(other)


def plan_trim(
    app: App, ref: str, request: TrimTablesRequest, io: Interaction = SILENT_IO
) -> PlanDocument:
    """Store what a trim of one table would do. Changes nothing of the table."""
    restores = restores_of(app, ref)
    seen: list[tuple[str, list[pa.RecordBatch]]] = []

    def look(location: str, files: Iterator[pa.RecordBatch]) -> None:
        seen.append((location, [*files]))

    trial = replace(request, dry_run=True)
    found = trim_table(app, ref, trial, lambda _: None, io, look=look)
    ((location, files),) = seen
    wanted = TablePlan(
        task=UpkeepTask.TRIM_METADATA,
        reason=Reason.UNREFERENCED,
        table=found.table,
        restores=restores,
        location=location,
        details=TrimDetails(
            task=UpkeepTask.TRIM_METADATA,
            ref=ref,
            table=found.table,
            metadata=found.metadata_before,
            found=found,
            keep=request.keep,
            grace_seconds=request.grace.total_seconds(),
        ),
        deletes=files,
        overrides=request.overrides,
    )
    return store_table_plan(app, wanted)


def apply_rewrite(
    app: App,
    plan: str,
    confirm: Confirm[TableRewriteResult],
    io: Interaction = SILENT_IO,
    terms: ApplyTerms = _PLAIN,
) -> TableRewriteResult:
    """Carry out the stored plan of a rewrite, once."""
    if terms.quarantine:
        raise UsageError(
            "this plan deletes no file: the snapshots before the rewrite hold all of them",
            hint=f"lakesweep apply {plan}",
        )
    opened = open_table_plan(app, plan, terms)
    details = convert(opened.document.details, RewriteDetails)
    request = RewriteTablesRequest(
        refs=(details.ref,), task=details.rewrite, overrides=opened.overridden
    )
    return rewrite_table(app, details.ref, request, confirm, io, opened.task)


def apply_trim(
    app: App,
    plan: str,
    confirm: Confirm[TrimResult],
    io: Interaction = SILENT_IO,
    terms: ApplyTerms = _PLAIN,
) -> TrimResult:
    """Carry out the stored plan of a trim, once."""
    opened = open_table_plan(app, plan, terms)
    details = convert(opened.document.details, TrimDetails)
    request = TrimTablesRequest(
        refs=(details.ref,),
        keep=details.keep,
        grace=timedelta(seconds=details.grace_seconds),
        rate=terms.rate,
        overrides=opened.overridden,
    )
    return trim_table(app, details.ref, request, confirm, io, stored=opened.task)


def explain_upkeep(plan: StoredPlan, details: UpkeepDetails, path: str) -> tuple[bool, list[str]]:
    """Whether a plan deletes a file, and why. NotFoundError if the plan does not name it."""
    wanted = identity(path)
    for verdict in (Verdict.DELETE, Verdict.KEEP):
        for batch in plan.rows(verdict):
            if wanted in map(identity, batch["path"].to_pylist()):
                return verdict is Verdict.DELETE, [_why(details)]
    raise NotFoundError(
        f"{details.task} of {details.table} does not concern {path}",
        hint=f"lakesweep show {plan.document.plan} --files lists the files",
    )


def _why(details: UpkeepDetails) -> str:
    match details.task:
        case UpkeepTask.TRIM_METADATA:
            return "metadata of this table that neither the table nor its log names"
        case UpkeepTask.REMOVE_DANGLING_DELETES:
            why = "it can hide no row of the current snapshot"
        case _:
            why = "every row is older, or it hides rows of such a file"
    return f"{why}; it leaves the current snapshot, and goes when the snapshots before expire"
