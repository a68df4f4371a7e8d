"""Apply a lifecycle plan with the sweep's applier, and record the outcome in the run history.

Only a run after which everything the policy expires is gone lets later runs continue from it.
A run that was stopped, failed in part, or kept something after all is recorded as such.

The lock of a repository is in its namespace, wherever the tables of the runs may be.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from lakesweep.decoding import convert
from lakesweep.errors import LakesweepError, RefusedError
from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lifecycle.apply.head_release import HeadRelease
from lakesweep.lifecycle.plan.document import lifecycle_details, plan_policy, read_refs
from lakesweep.lifecycle.plan.head_entries import BranchHeads
from lakesweep.lifecycle.plan.recheck import NeighbourSources, RecheckSources, RefChanges
from lakesweep.lifecycle.run_history import (
    LifecycleHistory,
    LifecycleRunState,
    VouchedDocuments,
)
from lakesweep.runs.location_lock import lock_locations
from lakesweep.runs.run_figures import Recorded
from lakesweep.sweep.apply.report import ApplyResult
from lakesweep.sweep.guards import check_clock, clock_skew, refuse
from lakesweep.sweep.plan.document import PlanDocument, open_dataset
from lakesweep.sweep.roots.root_kinds import RootSourceFactory, root_sources
from lakesweep.sweep.verdicts import Reason, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lakesweep.lakefs.addresses import StorageNamespace
    from lakesweep.lakefs.repository.interface import Repository, RepositoryOpener
    from lakesweep.runs.records import PlanRecord
    from lakesweep.runs.run_log import RunLog
    from lakesweep.runs.sessions import Session
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.apply.applier import Applier, ApplyRequest


#: Reasons that keep objects the policy may expire, so the next run must check them again.
_HELD_BACK = (Reason.TOO_NEW, Reason.AGE_UNKNOWN, Reason.REFERENCED)


def plan_sources(
    stores: Stores,
    plan: PlanRecord,
    document: PlanDocument,
    openers: Mapping[str, RepositoryOpener],
    of_lakes: RootSourceFactory = root_sources,
) -> RecheckSources:
    """The sources that say what changed since a plan. `openers` opens all repositories."""
    details = lifecycle_details(document)
    refs = read_refs(stores, open_dataset(stores, plan.address, document.datasets, "refs"))
    changes = RefChanges(plan_policy(document), refs, details.tags_protect_history)
    name = details.repository
    neighbours = {other: opener for other, opener in openers.items() if other != name}
    others = NeighbourSources(neighbours, details.without_staging, details.dumps, of_lakes)
    return RecheckSources(name, openers[name], changes.metaranges, others)


class PendingBranch(msgspec.Struct, frozen=True):
    """A branch and how many paths are removed from it."""

    name: str
    paths: int


class PendingOnHeads(msgspec.Struct, frozen=True):
    """What a plan removes from HEADs first. Its `files` are deleted by a later run."""

    files: int = 0
    bytes: int = 0
    branches: tuple[PendingBranch, ...] = ()


def pending_on_heads(document: PlanDocument, *, at_once: bool) -> PendingOnHeads:
    """What waits for a later run because a HEAD holds it; nothing if it is deleted at once."""
    held = None if at_once else document.details.get("heads")
    return convert(held or {}, PendingOnHeads)


def apply_lifecycle_plan(
    applier: Applier,
    order: ApplyRequest,
    document: PlanDocument,
    session: Session,
    opener: RepositoryOpener,
    *,
    at_once: bool = False,
) -> ApplyResult:
    """Apply a plan, and record the outcome in the repository's history.

    Unless `at_once`, paths of a HEAD are removed from it first, and their objects are deleted by a
    later run.
    """
    namespace = StorageNamespace(lifecycle_details(document).namespace)
    root = namespace.address("")
    inner = document.inner_homes
    # Its objects are not all of a repository: branches are changed under the lock as well.
    with lock_locations(applier.stores, applier.runs, [root], session, inner) as locks:
        for lock in locks:
            _refuse_early(lock.written(), order, document)
        if "heads" in document.datasets and not at_once:
            release = _release(applier, order, document, session, opener())
            applier = replace(applier, release=release)
        return _apply(applier, order, document, session)


def _release(
    applier: Applier,
    order: ApplyRequest,
    document: PlanDocument,
    session: Session,
    repository: Repository,
) -> HeadRelease:
    editor = repository.editor
    if editor is None:
        raise RefusedError(
            "expire-heads",
            f"the plan removes paths from branches of {repository.name}, which has no server to"
            " commit to",
            hint="configure its server again, or apply the plan with --bytes-at-once",
        )
    stores, address = applier.stores, order.plan.address
    refs = read_refs(stores, open_dataset(stores, address, document.datasets, "refs"))
    rules = ", ".join(rule.id for rule in plan_policy(document).head_rules)
    return HeadRelease(
        stores,
        applier.engine,
        editor,
        BranchHeads(repository, refs),
        open_dataset(stores, address, document.datasets, "heads"),
        session.record.run,
        {"lakesweep-plan": document.plan, "lakesweep-rules": rules},
    )


def _refuse_early(now: datetime | None, order: ApplyRequest, document: PlanDocument) -> None:
    """RefusedError if the plan was made in the future by the store's clock.

    A plan that is stored elsewhere was not compared with this clock when it was made.
    """
    guards = check_clock(clock_skew(document.created, now))
    overridden = {*order.overridden, *document.overridden}
    refuse(guards, overridden, document.plan, document.commands)


def _apply(
    applier: Applier, order: ApplyRequest, document: PlanDocument, session: Session
) -> ApplyResult:
    try:
        applied = applier.apply(order, document, session)
    except LakesweepError:
        with suppress(LakesweepError):  # report the first error
            _write_failure(applier, document)
        raise
    # After the deletes: the next run skips what the history says is swept, so claiming it earlier
    # would leave files for good if this run died.
    _write_history(applier, document, _state(document, applied), applied.run_figures())
    return applied


def _state(document: PlanDocument, applied: ApplyResult) -> LifecycleRunState:
    kept = document.totals.get(Verdict.KEEP.value, {})
    report = applied.report
    is_whole = (
        applied.stopped is None
        and not report.failed
        and not report.changed
        and not report.waiting
        and not applied.kept_by_remark
        and not any(reason.value in kept for reason in _HELD_BACK)
    )
    return LifecycleRunState.SWEPT if is_whole else LifecycleRunState.PARTIAL


def _write_failure(applier: Applier, document: PlanDocument) -> None:
    """Record the failure, unless an earlier run has already completed the plan."""
    record = lifecycle_details(document).record
    if not _history(applier.stores, applier.runs, document).has_swept(record):
        _write_history(applier, document, LifecycleRunState.FAILED, {})


def record_dry_run(
    stores: Stores, runs: RunLog, document: PlanDocument, now: datetime, waiting: int
) -> None:
    """Write down that a plan was only tried."""
    counts = {"found": document.amount(Verdict.DELETE.value).files, "waiting": waiting}
    record = lifecycle_details(document).record
    _history(stores, runs, document).finish_dry_run(record, now, counts)


def _write_history(
    applier: Applier, document: PlanDocument, state: LifecycleRunState, figures: Recorded
) -> None:
    record = lifecycle_details(document).record
    counts = {name: count for name, count in figures.items() if isinstance(count, int)}
    history = _history(applier.stores, applier.runs, document)
    history.finish(record, state, applier.clock.now(), counts)


def _history(stores: Stores, runs: RunLog, document: PlanDocument) -> LifecycleHistory:
    details = lifecycle_details(document)
    documents = VouchedDocuments(runs, document.lake)
    return LifecycleHistory(stores, details.home, details.namespace, documents)
