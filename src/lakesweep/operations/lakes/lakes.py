"""List the configured lakes: last plan, last run, waste and health of each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum

import msgspec

from lakesweep.app import App
from lakesweep.clock import micros, moment
from lakesweep.errors import NotFoundError
from lakesweep.runs.records import (
    PlanRecord,
    PlanStatus,
    RootMemory,
    RunKind,
    RunRecord,
    RunStatus,
)
from lakesweep.runs.run_figures import run_totals

_FAILED = frozenset({RunStatus.FAILED, RunStatus.DEAD})


class LakeHealth(StrEnum):
    """What the newest runs of a lake say about it."""

    NEW = "new"
    OK = "ok"
    RUNNING = "running"
    INCOMPLETE = "incomplete"
    REFUSED = "refused"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    FAILED = "failed"


class LakePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The newest plan of a lake; `waste_files` and `waste_bytes` are what it deletes."""

    plan: str
    created: datetime
    state: str
    waste_files: int | None
    waste_bytes: int | None


class LakeRun(msgspec.Struct, frozen=True, kw_only=True):
    """The newest run of a lake."""

    run: str
    kind: str
    status: str
    started: datetime


class LakeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A lake and what is known of it."""

    lake: str
    locations: tuple[str, ...]
    health: LakeHealth
    last_plan: LakePlan | None
    last_run: LakeRun | None


class LakeList(msgspec.Struct, frozen=True):
    """All lakes of the configuration."""

    lakes: tuple[LakeLine, ...]


class KnownRoot(msgspec.Struct, frozen=True, kw_only=True):
    """A root that a plan of the lake saw: where it keeps files, and its newest version read."""

    root: str
    origin: str
    folders: tuple[str, ...]
    pointer: str
    uuid: str | None
    seen: datetime
    dropped: bool

    @classmethod
    def of(cls, name: str, memory: RootMemory) -> KnownRoot:
        """The view of what is remembered of a root."""
        return cls(
            root=name,
            origin=memory.origin,
            folders=memory.folders,
            pointer=memory.pointer,
            uuid=memory.uuid,
            seen=moment(memory.seen_at),
            dropped=memory.dropped,
        )


class RootList(msgspec.Struct, frozen=True):
    """All roots that plans of a lake ever saw."""

    roots: tuple[KnownRoot, ...]


def list_lakes(app: App) -> LakeList:
    """The lakes of the configuration, in its order. Nothing is read but the store."""
    return LakeList(tuple(_lines(app)))


def show_lake(app: App, name: str) -> LakeLine:
    """One lake of the configuration. NotFoundError if there is none of that name."""
    return _line(app, app.lake(name).name)


def list_roots(app: App, lake: str) -> RootList:
    """What earlier plans of a lake saw of its roots, by name. Nothing is read but the store."""
    record = app.known_runs.find_lake(app.lake(lake).name)
    found = {} if record is None else app.known_runs.known_folders(record)
    return RootList(tuple(KnownRoot.of(name, found[name]) for name in sorted(found)))


def _lines(app: App) -> Iterator[LakeLine]:
    for name in app.config.lakes:
        yield _line(app, name)


def _line(app: App, name: str) -> LakeLine:
    newest = next(app.known_runs.list(name), None)
    return LakeLine(
        lake=name,
        locations=app.config.lakes[name].locations,
        health=_health(newest),
        last_plan=_last_plan(app, name),
        last_run=None if newest is None else _run(newest),
    )


def _last_plan(app: App, lake: str) -> LakePlan | None:
    try:
        newest = app.known_runs.newest_plan(lake)
    except NotFoundError:
        return None
    made = (run for run in app.known_runs.list(lake) if run.kind is RunKind.PLAN)
    found = run_totals(next((run.figures for run in made if run.run == newest.plan), {}))
    is_expired = newest.expires_at <= micros(app.clock.now())
    is_open = newest.status is PlanStatus.READY
    return LakePlan(
        plan=newest.plan,
        created=moment(newest.created_at),
        state="expired" if is_open and is_expired else _plan_state(newest),
        waste_files=found.delete_files,
        waste_bytes=found.delete_bytes,
    )


def _plan_state(plan: PlanRecord) -> str:
    """The status of a plan, or that it waits for a person."""
    approval = plan.approval if plan.status is PlanStatus.READY else None
    return plan.status.value if approval is None else approval.state.value


def _run(record: RunRecord) -> LakeRun:
    return LakeRun(
        run=record.run,
        kind=record.kind.value,
        status=record.status.value,
        started=moment(record.started_at),
    )


def _health(newest: RunRecord | None) -> LakeHealth:
    if newest is None:
        return LakeHealth.NEW
    if newest.status in _FAILED:
        return LakeHealth.FAILED
    return LakeHealth.OK if newest.status is RunStatus.DONE else LakeHealth(newest.status.value)
