"""Events for webhooks: what is worth telling others, and what still has to be delivered.

An event is written by the same commit that records what happened, so a crash loses none and tells
none that did not happen. Services deliver it later; no run waits for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from lakesweep.runs.records import (
    Approval,
    ApprovalState,
    PlanRecord,
    RunKind,
    RunRecord,
    RunStatus,
)
from lakesweep.runs.run_figures import run_totals

#: Only the newest events are kept while nobody delivers them.
MOST_ENTRIES = 10_000


class EventType(StrEnum):
    """What a webhook can be told."""

    RUN_DONE = "run.done"
    RUN_FAILED = "run.failed"
    APPROVAL_NEEDED = "approval.needed"
    LIMIT_REACHED = "limit.reached"
    ROOT_UNREADABLE = "root.unreadable"
    FILES_MISSING = "files.missing"
    TEST = "test"


class LakeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened. `id` is the same however often it is told; `at` are microseconds."""

    id: str
    type: EventType
    subject: str
    at: int
    data: dict[str, Any] = {}


class OutboxEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a webhook has to be told, not before `next_at`. `error` is of the last try."""

    event: LakeEvent
    webhook: str
    attempts: int = 0
    next_at: int = 0
    error: str = ""

    @property
    def place(self) -> tuple[int, str, str]:
        """Its key: in the order of events."""
        return self.event.at, self.event.id, self.webhook


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """A webhook, named so that its URL, which may be secret, is not stored."""

    name: str
    events: frozenset[str]

    @classmethod
    def of(cls, url: str, events: Iterable[str]) -> WebhookTarget:
        """The target of a URL."""
        return cls(hashlib.sha256(url.encode()).hexdigest()[:12], frozenset(events))


def entries_for(
    events: Iterable[LakeEvent], targets: Sequence[WebhookTarget]
) -> Iterator[OutboxEntry]:
    """What each webhook has to be told."""
    for event in events:
        for target in targets:
            if event.type.value in target.events:
                yield OutboxEntry(event=event, webhook=target.name)


def run_events(run: RunRecord) -> Iterator[LakeEvent]:
    """What the end of a run has to tell."""
    if run.status is RunStatus.RUNNING or run.finished_at is None:
        return
    is_done = run.status in (RunStatus.DONE, RunStatus.INCOMPLETE)
    kinds = [EventType.RUN_DONE if is_done else EventType.RUN_FAILED]
    totals = run_totals(run.figures)
    if totals.roots_incomplete:
        kinds.append(EventType.ROOT_UNREADABLE)
    if run.kind is RunKind.CHECK and totals.missing:
        kinds.append(EventType.FILES_MISSING)
    data = {
        "run": run.run,
        "kind": run.kind.value,
        "status": run.status.value,
        "plan": run.plan,
        "message": run.message,
        "job": run.job,
    }
    counts = ("delete_files", "delete_bytes", "deleted", "quarantined", "failed", "missing")
    data |= {name: run.figures[name] for name in counts if name in run.figures}
    if "roots_incomplete" in run.figures:
        data["roots_incomplete"] = run.figures["roots_incomplete"]
    for kind in kinds:
        at, name = run.finished_at, f"{run.run}/{kind}"
        yield LakeEvent(id=name, type=kind, subject=run.lake, at=at, data=data)


def approval_events(plan: PlanRecord, approval: Approval) -> Iterator[LakeEvent]:
    """What a plan that waits for a person has to tell."""
    if approval.state is not ApprovalState.WAITING:
        return
    kinds = [EventType.APPROVAL_NEEDED]
    if any("more than max_" in reason for reason in approval.reasons):
        kinds.append(EventType.LIMIT_REACHED)
    for kind in kinds:
        yield LakeEvent(
            id=f"{plan.plan}/{kind}",
            type=kind,
            subject=plan.lake,
            at=approval.at,
            data={"plan": plan.plan, "reasons": list(approval.reasons)},
        )
