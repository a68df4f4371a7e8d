"""What wants a person, what runs now, what is due next, and what sweeps freed, at one glance."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice

import msgspec

from lakesweep.app import App
from lakesweep.errors import DamagedError, NotFoundError
from lakesweep.operations.lakes.lakes import LakeHealth, LakeLine, list_lakes
from lakesweep.operations.lakes.live_runs import RunProgressView, run_progress
from lakesweep.operations.lakes.plan_view import PlanLine, list_plans
from lakesweep.operations.lakes.runs import RunFilter, RunView, every_run
from lakesweep.operations.schedules.schedules import ScheduleView, list_schedules
from lakesweep.runs.records import ApprovalState, RunKind, RunStatus
from lakesweep.sweep.plan.stored_plan import PlanState, open_plan

#: How many days are looked at, and at most how many runs in them.
DAYS = 14
_MOST_RUNS = 2_000
_SHOWN = 10
_FAILED = frozenset({RunStatus.FAILED.value, RunStatus.DEAD.value})
_FREEING = frozenset({RunKind.APPLY.value, RunKind.EMPTY.value, RunKind.EXPIRE.value})


class LiveRun(msgspec.Struct, frozen=True):
    """A run that works, and how far it is where it tells."""

    run: RunView
    progress: RunProgressView | None


class FreedDay(msgspec.Struct, frozen=True):
    """What runs deleted or set aside on one day."""

    day: datetime
    bytes: int
    files: int


class WastefulTable(msgspec.Struct, frozen=True, kw_only=True):
    """What the newest plan of its lake would delete in the folders of a table."""

    table: str
    lake: str
    plan: str
    files: int
    bytes: int


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The state of everything. Lists are cut after a few entries, the counts are complete.

    `failed` are runs of the last days that failed and that no later run of the same lake and kind
    made good. `waste_bytes` is what the newest plans would free.
    """

    waiting: tuple[PlanLine, ...]
    waiting_count: int
    failed: tuple[RunView, ...]
    failed_count: int
    unhealthy: tuple[LakeLine, ...]
    running: tuple[LiveRun, ...]
    due: tuple[ScheduleView, ...]
    paused_count: int
    waste: tuple[LakeLine, ...]
    waste_bytes: int
    tables: tuple[WastefulTable, ...]
    freed: tuple[FreedDay, ...]
    lake_count: int

    @property
    def is_calm(self) -> bool:
        """Whether nothing wants a person."""
        return not (self.waiting_count or self.failed_count or self.unhealthy)


def show_overview(app: App) -> Overview:
    """The overview, from the store alone."""
    since = _midnight(app.clock.now()) - timedelta(days=DAYS - 1)
    runs = list(islice(every_run(app, RunFilter(since=since)), _MOST_RUNS))
    lakes = list_lakes(app).lakes
    waiting = [each for each in list_plans(app) if _waits(each)]
    failed = list(_failures(runs))
    schedules = list_schedules(app).schedules
    due = sorted((each for each in schedules if each.next_due), key=lambda each: each.next_due[0])
    waste = sorted((each for each in lakes if _waste(each)), key=_waste, reverse=True)
    return Overview(
        waiting=tuple(waiting[:_SHOWN]),
        waiting_count=len(waiting),
        failed=tuple(failed[:_SHOWN]),
        failed_count=len(failed),
        unhealthy=tuple(each for each in lakes if each.health is LakeHealth.INCOMPLETE)[:_SHOWN],
        running=running_now(app, runs),
        due=tuple(due[:_SHOWN]),
        paused_count=sum(each.paused_by is not None for each in schedules),
        waste=tuple(waste[:_SHOWN]),
        waste_bytes=sum(map(_waste, lakes)),
        tables=tuple(_wasteful(app, waste[:_SHOWN])[:_SHOWN]),
        freed=tuple(_freed(runs, since)),
        lake_count=len(lakes),
    )


def running_now(app: App, runs: Iterable[RunView] | None = None) -> tuple[LiveRun, ...]:
    """The runs that work now, of some or of the newest ones."""
    some = islice(every_run(app, RunFilter()), _MOST_RUNS) if runs is None else runs
    found = [each for each in some if each.status == RunStatus.RUNNING.value]
    return tuple(LiveRun(each, run_progress(app, each.run)) for each in found[:_SHOWN])


def _waits(plan: PlanLine) -> bool:
    is_waiting = plan.decision is not None and plan.decision.state is ApprovalState.WAITING
    return is_waiting and plan.state is PlanState.READY


def _failures(runs: Iterable[RunView]) -> Iterable[RunView]:
    """Failed runs that are the newest of their lake and kind."""
    seen: set[tuple[str, str]] = set()
    for run in runs:
        if (run.lake, run.kind) not in seen and run.status in _FAILED:
            yield run
        seen.add((run.lake, run.kind))


def _waste(lake: LakeLine) -> int:
    plan = lake.last_plan
    is_open = plan is not None and plan.state not in ("applied", "rejected")
    return (plan.waste_bytes or 0) if plan is not None and is_open else 0


def _wasteful(app: App, lakes: Iterable[LakeLine]) -> list[WastefulTable]:
    """The tables with most waste of some lakes; a plan whose files are gone tells of none."""
    found: list[WastefulTable] = []
    for lake in lakes:
        if lake.last_plan is None:
            continue
        with suppress(NotFoundError, DamagedError):
            document = open_plan(app.stores, app.known_runs, lake.last_plan.plan).document
            found += (
                WastefulTable(
                    table=each.name,
                    lake=lake.lake,
                    plan=document.plan,
                    files=each.delete.files,
                    bytes=each.delete.bytes,
                )
                for each in document.tables[:_SHOWN]
                if each.name and each.delete.files
            )
    return sorted(found, key=lambda each: -each.bytes)


def _freed(runs: Iterable[RunView], since: datetime) -> Iterable[FreedDay]:
    days = [since + timedelta(days=number) for number in range(DAYS)]
    found = dict.fromkeys(days, (0, 0))
    for run in runs:
        if run.kind in _FREEING:
            size, files = found[_midnight(run.started)]
            found[_midnight(run.started)] = size + (run.bytes or 0), files + (run.files or 0)
    return (FreedDay(day, *found[day]) for day in days)


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
