"""Recent activity of people: decisions, jobs, tokens and schedules, newest first."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import chain, islice

import msgspec

from lakesweep.app import App
from lakesweep.operations.catalogs.tokens import list_tokens
from lakesweep.operations.lakes.plan_view import list_plans
from lakesweep.operations.schedules.schedules import list_schedules
from lakesweep.operations.schedules.submitted_jobs import list_jobs
from lakesweep.runs.records import ApprovalState

#: Jobs that people started are looked for among this many of the newest.
_MOST_JOBS = 500
_SHOWN = 100
_DECIDED = frozenset({ApprovalState.APPROVED, ApprovalState.REJECTED})


class Activity(msgspec.Struct, frozen=True):
    """What a person or a token did, when, and to what."""

    at: datetime
    by: str
    what: str
    on: str


def recent_activity(app: App, limit: int = _SHOWN) -> tuple[Activity, ...]:
    """The newest of what was decided, asked for and changed, as the store has it."""
    every = chain(_decisions(app), _jobs(app), _tokens(app), _schedules(app))
    return tuple(sorted(every, key=lambda each: each.at, reverse=True)[:limit])


def _decisions(app: App) -> Iterator[Activity]:
    for plan in list_plans(app):
        decision = plan.decision
        if decision is not None and decision.state in _DECIDED:
            why = f": {decision.why}" if decision.why else ""
            yield Activity(decision.at, decision.by, f"{decision.state.value}{why}", plan.plan)


def _jobs(app: App) -> Iterator[Activity]:
    scheduled = {each.name for each in list_schedules(app).schedules}
    for job in islice(list_jobs(app), _MOST_JOBS):
        if job.schedule not in scheduled:  # those are claimed by services
            yield Activity(job.claimed, job.claimed_by, f"asked for {job.kind}", job.target)


def _tokens(app: App) -> Iterator[Activity]:
    for token in list_tokens(app).tokens:
        yield Activity(token.created, token.created_by, f"made a token, {token.role}", token.name)
        if token.revoked is not None:
            yield Activity(token.revoked, token.revoked_by or "", "revoked a token", token.name)


def _schedules(app: App) -> Iterator[Activity]:
    for schedule in list_schedules(app).schedules:
        if schedule.changed is not None and schedule.changed_by:
            yield Activity(
                schedule.changed, schedule.changed_by, "changed a schedule", schedule.name
            )
