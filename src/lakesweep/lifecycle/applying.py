"""Carrying out a plan by a policy: the sweep's own apply, and a word in the repository's history.

Only a run after which all is gone that the policy lets go tells later ones where to go on. One that
was stopped, that failed in part, or that kept something after all, is told as what it is.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from lakesweep.errors import LakesweepError, RefusedError
from lakesweep.lakefs.addresses import Namespace
from lakesweep.lakefs.dump_ages import load_ages
from lakesweep.lifecycle.heads import Heads
from lakesweep.lifecycle.history import History, RunRecord, RunState
from lakesweep.lifecycle.locking import locked
from lakesweep.lifecycle.policy_file import parse_policy
from lakesweep.lifecycle.refs_file import read_refs
from lakesweep.lifecycle.releasing import HeadRelease
from lakesweep.lifecycle.rereading import Changes, OtherSources, PlanSources
from lakesweep.sweep.clocks import ahead_of
from lakesweep.sweep.guards import look_at_clock, refuse
from lakesweep.sweep.plans import PlanDocument, open_dataset
from lakesweep.sweep.root_sources import Sources, root_sources
from lakesweep.sweep.verdicts import Reason, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lakesweep.lakefs.repository import Repository
    from lakesweep.lifecycle.policy import Policy
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.applying import Applied, Applier, ApplyOrder
    from lakesweep.sweep.lakefs_roots import Opener
    from lakesweep.sweep.records import PlanRecord
    from lakesweep.sweep.sessions import Session

#: Why objects are kept that the policy may let go: the next run has to look at them again.
_HELD_BACK = (Reason.TOO_NEW, Reason.AGE_UNKNOWN, Reason.REFERENCED)


def policy_of(document: PlanDocument) -> Policy:
    """The policy by which a plan was made, as it was then."""
    details = document.details
    return parse_policy(details["policy"].encode(), details["policy_name"], floor=1)


def plan_sources(
    stores: Stores,
    plan: PlanRecord,
    document: PlanDocument,
    openers: Mapping[str, Opener],
    of_lakes: Sources = root_sources,
) -> PlanSources:
    """Who is asked what changed since a plan. `openers` open it, its neighbours and later ones."""
    details = document.details
    refs = read_refs(stores, open_dataset(stores, plan.address, document.datasets, "refs"))
    changes = Changes(policy_of(document), refs, details["tags_protect_history"])
    name = details["repository"]
    neighbours = {other: opener for other, opener in openers.items() if other != name}
    ages = load_ages(details["dumps"])
    others = OtherSources(neighbours, details["without_staging"], ages, of_lakes)
    return PlanSources(name, openers[name], changes.metaranges, others)


def waits(document: PlanDocument, *, at_once: bool) -> dict[str, Any]:
    """What a plan takes off HEADs before it goes, in a later run; `files` and `paths` of it."""
    nothing = {"files": 0, "bytes": 0, "paths": 0, "branches": []}
    return (None if at_once else document.details.get("heads")) or nothing


def apply_plan(
    applier: Applier,
    order: ApplyOrder,
    document: PlanDocument,
    session: Session,
    opener: Opener,
    *,
    at_once: bool = False,
) -> Applied:
    """Delete what a plan says, and write down in the repository's history what became of it.

    What a HEAD holds is first taken off it, and goes in a later run, unless `at_once`.
    """
    namespace = Namespace(document.details["namespace"])
    with locked(applier.stores, namespace, session.record.run, session.lease) as lock:
        _refuse_early(lock.written(), order, document)
        if "heads" in document.datasets and not at_once:
            release = _release(applier, order, document, session, opener())
            applier = replace(applier, release=release)
        return _apply(applier, order, document, session)


def _release(
    applier: Applier,
    order: ApplyOrder,
    document: PlanDocument,
    session: Session,
    repository: Repository,
) -> HeadRelease:
    editor = repository.editor
    if editor is None:
        raise RefusedError(
            "expire-heads",
            f"the plan takes paths off branches of {repository.name}, and nobody can commit there",
            hint="configure its server again, or apply the plan with --bytes-at-once",
        )
    stores, address = applier.stores, order.plan.address
    refs = read_refs(stores, open_dataset(stores, address, document.datasets, "refs"))
    rules = ", ".join(rule.id for rule in policy_of(document).head_rules)
    return HeadRelease(
        stores,
        applier.engine,
        editor,
        Heads(repository, refs),
        open_dataset(stores, address, document.datasets, "heads"),
        session.record.run,
        {"lakesweep-plan": document.plan, "lakesweep-rules": rules},
    )


def _refuse_early(now: datetime | None, order: ApplyOrder, document: PlanDocument) -> None:
    """RefusedError where by the store's clock it is not yet the time that a plan was made at.

    A plan that lies elsewhere was not held against this clock when it was made.
    """
    guards = look_at_clock(ahead_of(document.created, now))
    overridden = {*order.overridden, *document.overridden}
    refuse(guards, overridden, document.plan, document.commands)


def _apply(
    applier: Applier, order: ApplyOrder, document: PlanDocument, session: Session
) -> Applied:
    try:
        applied = applier.apply(order, document, session)
    except LakesweepError:
        with suppress(LakesweepError):  # the first error is the one to tell
            _write_failure(applier, document)
        raise
    figures = {**applied.figures, "kept_by_remark": applied.kept_by_remark}
    _write_history(applier, document, _state(document, applied), figures)
    return applied


def _state(document: PlanDocument, applied: Applied) -> RunState:
    kept = document.totals.get(Verdict.KEEP.value, {})
    is_whole = (
        applied.stopped is None
        and not applied.figures["failed"]
        and not applied.figures.get("changed")
        and not applied.figures.get("waiting")
        and not applied.kept_by_remark
        and not any(reason.value in kept for reason in _HELD_BACK)
    )
    return RunState.SWEPT if is_whole else RunState.PARTIAL


def _write_failure(applier: Applier, document: PlanDocument) -> None:
    """Whoever is refused because all was done before does not make it undone."""
    record = msgspec.convert(document.details["record"], RunRecord)
    if not _history(applier, document).has_swept(record):
        _write_history(applier, document, RunState.FAILED, {})


def _write_history(
    applier: Applier, document: PlanDocument, state: RunState, figures: dict[str, Any]
) -> None:
    record = msgspec.convert(document.details["record"], RunRecord)
    counts = {name: count for name, count in figures.items() if isinstance(count, int)}
    _history(applier, document).finish(record, state, applier.clock.now(), counts)


def _history(applier: Applier, document: PlanDocument) -> History:
    return History(applier.stores, document.details["home"], document.details["namespace"])
