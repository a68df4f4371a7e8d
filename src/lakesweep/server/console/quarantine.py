"""Quarantine: what is held, by plan and table, how to bring it back, and how to end a hold."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from lakesweep.errors import DamagedError, IncompleteError, NotFoundError, UsageError
from lakesweep.operations.lakes.plan_view import (
    PlanFilesRequest,
    plan_kind,
    some_plan_files,
    view_plan,
)
from lakesweep.operations.lakes.quarantine import (
    QuarantineView,
    restore_quarantine,
    show_quarantine,
)
from lakesweep.operations.schedules.submitted_jobs import JobRequest, submit_job, target_jobs
from lakesweep.runs.schedules import JobKind
from lakesweep.server.api import store as api
from lakesweep.server.api import submissions
from lakesweep.server.api.call import Call, Reply
from lakesweep.server.api.submissions import EmptyBody
from lakesweep.server.console.runs import is_open
from lakesweep.server.console.view import PageView, command_line, encoded, go_to
from lakesweep.sweep.verdicts import Verdict

_FILES = 50
_TABLES = 100


class HeldFilesRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which held files to show; `q` is a part of their paths."""

    q: str | None = None
    table: str | None = None
    after: Annotated[int, msgspec.Meta(ge=0, le=10**12)] = 0


class RestoreForm(msgspec.Struct, frozen=True, kw_only=True):
    """What to restore: one file, a folder or a table; everything if all are empty."""

    path: str = ""
    prefix: str = ""
    table: str = ""


class ReleaseForm(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever ends a hold says that it cannot be undone."""

    sure: str = ""


def list_quarantine(call: Call[api.QuarantineRequest]) -> PageView:
    """What is held, and for how long."""
    page = api.list_quarantine(call)
    now = call.app.clock.now()
    return PageView(
        template="quarantine.html",
        title="Quarantine",
        values={"page": page, "days": {each.plan: _days(each, now) for each in page.held}},
        api="/api/v1/quarantine",
        command="lakesweep quarantine list",
    )


def _days(held: QuarantineView, now: datetime) -> int | None:
    """Whole days until a job may empty it."""
    if held.hold_until is None:
        return None
    return max(0, (datetime.fromisoformat(held.hold_until) - now).days)


def show_held(call: Call[HeldFilesRequest]) -> PageView:
    """What one plan set aside: its tables, its files, and forms to bring them back."""
    app, given = call.app, call.given
    held = show_quarantine(app, call.names["plan"])
    tables, files = [], None
    try:
        kind = plan_kind(app, held.plan)
        every = view_plan(app, held.plan, kind).tables
        tables = [each for each in every if each.delete.files and not each.is_rest]
        request = PlanFilesRequest(held.plan, kind, Verdict.DELETE, None, given.table, text=given.q)
        files = some_plan_files(app, request, given.after, _FILES)
    except (NotFoundError, DamagedError):
        if given.table is not None:
            raise
        # Without the plan's folder, all can be restored, but not chosen from.
    jobs = target_jobs(app, held.plan)
    return PageView(
        template="held.html",
        title=f"Set aside by {held.plan}",
        values={
            "held": held,
            "days": _days(held, app.clock.now()),
            "tables": tables[:_TABLES],
            "files": files,
            "chosen": given,
            "jobs": jobs,
        },
        api="/api/v1/quarantine",
        command=command_line("quarantine", "restore", held.plan),
        is_live=any(map(is_open, jobs)),
    )


def restore(call: Call[RestoreForm]) -> Reply:
    """Restore one file at once, or queue the restore of a folder, a table or everything."""
    plan, given = call.names["plan"], call.given
    page = f"/quarantine/{encoded(plan)}"
    if given.path:
        restored = restore_quarantine(call.app, plan, (given.path,))
        if not restored.is_complete:
            again = command_line("quarantine", "restore", plan, "--path", given.path)
            raise IncompleteError(f"{given.path} was not restored", hint=again)
        return go_to(f"{page}?done=restored")
    words: tuple[str, ...] = (f"--prefix={given.prefix}",) if given.prefix else ()
    words += (f"--table={given.table}",) if given.table else ()
    submit_job(call.app, JobRequest(JobKind.QUARANTINE_RESTORE, plan, words, call.caller.name))
    return go_to(f"{page}?done=queued")


def release(call: Call[ReleaseForm]) -> Reply:
    """Queue the final deletion of what a plan set aside."""
    if call.given.sure != "yes":
        raise UsageError(
            "nothing was deleted: the box was not ticked",
            hint="tick it to say that this cannot be undone",
        )
    names = call.names
    submissions.empty(Call(call.around, call.caller, names, EmptyBody()))
    return go_to(f"/quarantine/{encoded(names['plan'])}?done=queued")
