"""Runs of all kinds, checks and maintenance among them, and schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from lakesweep.operations.lakes.runs import RunFilter, RunView, every_run
from lakesweep.operations.lakes.runs import show_run as find_run
from lakesweep.operations.schedules import schedules
from lakesweep.operations.schedules.schedules import (
    JobView,
    ScheduleList,
    ScheduleView,
    parse_job,
)
from lakesweep.operations.store.store import MaintenanceView
from lakesweep.runs.schedules import CatchUp, Schedule
from lakesweep.server.api.call import Call, Nothing
from lakesweep.server.api.pages import ListRequest, page_of
from lakesweep.units import parse_duration

_CHECK = "check"
_MAINTAIN = "maintain"
_AUTO = "auto"


class RunsRequest(ListRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which runs to list."""

    lake: str | None = None
    status: str | None = None
    kind: str | None = None
    since: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of runs, newest first."""

    runs: tuple[RunView, ...]
    next: str | None = None


class SchedulePage(ScheduleList, frozen=True, kw_only=True):
    """A page of schedules."""

    next: str | None = None


class JobsQueued(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that wait for a worker."""

    jobs: tuple[JobView, ...]


class ScheduleBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A schedule, as the configuration file has it. Durations are written as `6h`.

    With `every` = `auto` it decides itself how often it is due, between two bounds.
    """

    job: str
    lake: str | None = None
    target: str | None = None
    options: dict[str, str] = {}
    cron: str | None = None
    zone: str = "UTC"
    every: str | None = None
    shortest: str = "1h"
    longest: str = "7d"
    jitter: str = "0s"
    timeout: str | None = None
    catch_up: CatchUp = CatchUp.ONCE


def list_runs(call: Call[RunsRequest]) -> RunPage:
    """Runs over lakes, repositories, tables and the store."""
    given = call.given
    return _page(call, given, RunFilter(given.lake, given.status, given.since, given.kind))


def list_checks(call: Call[ListRequest]) -> RunPage:
    """Runs that looked for missing files."""
    return _page(call, call.given, RunFilter(kind=_CHECK))


def list_maintenance(call: Call[ListRequest]) -> RunPage:
    """Maintenance runs of the store."""
    return _page(call, call.given, RunFilter(kind=_MAINTAIN))


def _page(
    call: Call[RunsRequest] | Call[ListRequest], given: ListRequest, wanted: RunFilter
) -> RunPage:
    page, after = page_of(every_run(call.app, wanted), given, _place, descending=True)
    return RunPage(runs=page, next=after)


def _place(run: RunView) -> tuple[str, str]:
    return run.started.isoformat(), run.run


def show_run(call: Call[Nothing]) -> RunView | MaintenanceView:
    """One run in full."""
    return find_run(call.app, call.names["run"])


def list_schedules(call: Call[ListRequest]) -> SchedulePage:
    """Schedules of the configuration file and of the store."""
    found = schedules.list_schedules(call.app).schedules
    page, after = page_of(found, call.given, lambda each: (each.name,))
    return SchedulePage(page, next=after)


def show_schedule(call: Call[Nothing]) -> ScheduleView:
    """One schedule with its newest jobs."""
    return schedules.show_schedule(call.app, call.names["name"])


def put_schedule(call: Call[ScheduleBody]) -> ScheduleView:
    """Keep a schedule in the store, or replace it."""
    given = call.given
    schedule = Schedule(
        name=call.names["name"],
        job=parse_job(given.job),
        lake=given.lake,
        target=given.target,
        options=given.options,
        cron=given.cron,
        zone=given.zone,
        every=None if given.every == _AUTO else _seconds(given.every),
        adaptive=_bounds(given) if given.every == _AUTO else None,
        jitter=_seconds(given.jitter) or 0,
        timeout=_seconds(given.timeout),
        catch_up=given.catch_up,
        changed_by=call.caller.name,
    )
    return schedules.add_schedule(call.app, schedule)


def _bounds(given: ScheduleBody) -> tuple[int, int]:
    return _seconds(given.shortest) or 0, _seconds(given.longest) or 0


def _seconds(text: str | None) -> int | None:
    return None if text is None else int(parse_duration(text).total_seconds())


def remove_schedule(call: Call[Nothing]) -> None:
    """Remove a schedule of the store."""
    schedules.remove_schedule(call.app, call.names["name"], call.caller.name)


def pause_schedule(call: Call[Nothing]) -> ScheduleView:
    """Let no due time run until it is resumed."""
    return schedules.pause_schedule(call.app, call.names["name"], call.caller.name)


def resume_schedule(call: Call[Nothing]) -> ScheduleView:
    """Let a paused schedule run again."""
    return schedules.resume_schedule(call.app, call.names["name"], call.caller.name)


def run_schedule(call: Call[Nothing]) -> JobsQueued:
    """Queue the jobs of a schedule now."""
    return JobsQueued(jobs=schedules.run_schedule(call.app, call.names["name"], call.caller.name))
