"""Schedules: when they are due, what they did, who changed them; and the limits of lakes."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec

from lakesweep.errors import UsageError
from lakesweep.operations.schedules.schedules import schedule_history
from lakesweep.runs.schedules import ON_DEMAND, CatchUp, JobKind, Schedule, ScheduleOrigin
from lakesweep.server.api import runs as api
from lakesweep.server.api.call import Call, Nothing, Reply
from lakesweep.server.api.pages import ListRequest
from lakesweep.server.api.runs import ScheduleBody
from lakesweep.server.console.view import PageView, command_line, encoded, go_to, link
from lakesweep.units import format_duration


class ScheduleForm(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as its form sends it; fields that are left blank are not set.

    `options` has one `name=value` a line.
    """

    name: Annotated[str, msgspec.Meta(max_length=200)] = ""
    job: str = ""
    lake: str = ""
    target: str = ""
    cron: str = ""
    zone: str = "UTC"
    every: str = ""
    jitter: str = "0s"
    timeout: str = ""
    catch_up: CatchUp = CatchUp.ONCE
    options: str = ""

    @classmethod
    def of(cls, schedule: Schedule) -> ScheduleForm:
        """The form of a stored schedule."""
        return cls(
            name=schedule.name,
            job=schedule.job.value,
            lake=schedule.lake or "",
            target=schedule.target or "",
            cron=schedule.cron or "",
            zone=schedule.zone,
            every=_duration(schedule.every),
            jitter=_duration(schedule.jitter),
            timeout=_duration(schedule.timeout),
            catch_up=schedule.catch_up,
            options="\n".join(f"{name}={value}" for name, value in schedule.options.items()),
        )

    @property
    def body(self) -> ScheduleBody:
        """The same as the API takes it."""
        return ScheduleBody(
            job=self.job,
            lake=self.lake or None,
            target=self.target or None,
            options=dict(map(_option, filter(str.strip, self.options.splitlines()))),
            cron=self.cron or None,
            zone=self.zone or "UTC",
            every=self.every or None,
            jitter=self.jitter or "0s",
            timeout=self.timeout or None,
            catch_up=self.catch_up,
        )


def _option(line: str) -> tuple[str, str]:
    name, sign, value = line.partition("=")
    if not sign or not name.strip():
        raise UsageError(f"{line!r} is not an option", hint="write one name=value a line")
    return name.strip(), value.strip()


def _duration(seconds: int | None) -> str:
    return "" if seconds is None else format_duration(timedelta(seconds=seconds))


def list_schedules(call: Call[ListRequest]) -> PageView:
    """All schedules, and what unattended sweeps of each lake may do."""
    return PageView(
        template="schedules.html",
        title="Schedules and limits",
        values={
            "page": api.list_schedules(call),
            "limits": {name: lake.limits for name, lake in call.app.config.lakes.items()},
            "form": ScheduleForm(),
            **_choices(call),
        },
        api="/api/v1/schedules",
        command="lakesweep schedule list",
    )


def show_schedule(call: Call[Nothing]) -> PageView:
    """One schedule with its due times, newest jobs and changes."""
    name = call.names["name"]
    stored = call.app.known_schedules.schedule(name)
    can_edit = stored.origin is ScheduleOrigin.STORE and stored.adaptive is None
    return PageView(
        template="schedule.html",
        title=f"Schedule {name}",
        values={
            "schedule": api.show_schedule(call),
            "history": schedule_history(call.app, name),
            "form": ScheduleForm.of(stored) if can_edit else None,
            "is_filed": stored.origin is ScheduleOrigin.FILE,
            **_choices(call),
        },
        api=link("api", "v1", "schedules", name),
        command=command_line("schedule", "show", name),
    )


def _choices(call: Call[ListRequest] | Call[Nothing]) -> dict[str, list[str]]:
    return {
        "kinds": [each.value for each in JobKind if each not in ON_DEMAND],
        "lakes": ["*", *sorted(call.app.config.lakes)],
        "catch_ups": [each.value for each in CatchUp],
    }


def add(call: Call[ScheduleForm]) -> Reply:
    """Keep a new schedule in the store."""
    name = call.given.name.strip()
    if name in call.app.known_schedules.schedules():
        raise UsageError(f"there is a schedule {name} already", hint="edit it on its own page")
    return _put(call, name)


def edit(call: Call[ScheduleForm]) -> Reply:
    """Replace a schedule of the store."""
    call.app.known_schedules.schedule(call.names["name"])
    return _put(call, call.names["name"])


def _put(call: Call[ScheduleForm], name: str) -> Reply:
    api.put_schedule(Call(call.around, call.caller, {"name": name}, call.given.body))
    return go_to(f"/schedules/{encoded(name)}?done=changed")


def remove(call: Call[Nothing]) -> Reply:
    """Remove a schedule of the store."""
    api.remove_schedule(call)
    return go_to("/schedules?done=removed")


def pause(call: Call[Nothing]) -> Reply:
    """Let no due time run."""
    api.pause_schedule(call)
    return _schedule(call, "paused")


def resume_schedule(call: Call[Nothing]) -> Reply:
    """Let due times run again."""
    api.resume_schedule(call)
    return _schedule(call, "resumed")


def run_schedule(call: Call[Nothing]) -> Reply:
    """Queue the jobs of a schedule now."""
    api.run_schedule(call)
    return _schedule(call, "queued")


def _schedule(call: Call[Nothing], done: str) -> Reply:
    return go_to(f"/schedules/{encoded(call.names['name'])}?done={done}")
