"""The table of pages and forms: paths, handlers and roles."""

from __future__ import annotations

from typing import Any

from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.server.api.call import FORM, Nothing, Route
from lakesweep.server.api.lakes import ApproveRequest, ExplainRequest, PlansRequest, RejectRequest
from lakesweep.server.api.pages import ListRequest
from lakesweep.server.api.runs import RunsRequest
from lakesweep.server.api.store import NewTokenBody, QuarantineRequest
from lakesweep.server.console import lakes, plans, quarantine, runs, schedules, store, tables

EVENTS = "text/event-stream"

_V = ServiceRole.VIEWER
_O = ServiceRole.OPERATOR
_P = ServiceRole.APPROVER
_A = ServiceRole.ADMIN

# fmt: off
#: Method, path, handler, role, request, answer, summary.
PAGES: tuple[Route[Any], ...] = (
    Route("GET", "/", lakes.overview, _V, Nothing, (), "Overview"),
    Route("GET", "/events", lakes.overview_events, _V, Nothing, (), "What runs now", media_types=(EVENTS,)),
    Route("GET", "/lakes", lakes.list_lakes, _V, ListRequest, (), "Lakes"),
    Route("GET", "/lakes/{lake}", lakes.show_lake, _V, ListRequest, (), "One lake and its roots"),
    Route("POST", "/lakes/{lake}:plan", lakes.plan_lake, _O, Nothing, (), "Queue a plan", takes=FORM),
    Route("POST", "/lakes/{lake}:check", lakes.check_lake, _O, Nothing, (), "Queue a check", takes=FORM),

    Route("GET", "/plans", plans.list_plans, _V, PlansRequest, (), "Plans"),
    Route("GET", "/plans/{plan}", plans.show_plan, _V, plans.ReviewRequest, (), "Review a plan"),
    Route("GET", "/plans/{plan}/explain", plans.explain, _V, ExplainRequest, (), "Why a plan keeps or deletes a file"),
    Route("GET", "/plans/{plan}/download", plans.download, _V, plans.DownloadRequest, (), "The files of a plan"),
    Route("POST", "/plans/{plan}:approve", plans.approve, _P, ApproveRequest, (), "Approve a plan", takes=FORM),
    Route("POST", "/plans/{plan}:apply", plans.apply, _P, plans.ApplyForm, (), "Apply a plan into quarantine", takes=FORM),
    Route("POST", "/plans/{plan}:reject", plans.reject, _P, RejectRequest, (), "Reject a plan", takes=FORM),

    Route("GET", "/runs", runs.list_runs, _V, RunsRequest, (), "Runs"),
    Route("GET", "/runs/{run}", runs.show_run, _V, runs.RunPageRequest, (), "One run"),
    Route("GET", "/runs/{run}/events", runs.run_events, _V, Nothing, (), "How far a run is", media_types=(EVENTS,)),
    Route("POST", "/runs/{run}:cancel", runs.cancel, _O, Nothing, (), "Cancel a run", takes=FORM),
    Route("POST", "/runs/{run}:resume", runs.resume, _P, Nothing, (), "Resume a run", takes=FORM),
    Route("POST", "/runs/{run}:again", runs.again, _O, Nothing, (), "Run it once more", takes=FORM),
    Route("GET", "/jobs/events", runs.jobs_events, _V, runs.JobsRequest, (), "Jobs that wait or run", media_types=(EVENTS,)),

    Route("GET", "/schedules", schedules.list_schedules, _V, ListRequest, (), "Schedules"),
    Route("GET", "/schedules/{name}", schedules.show_schedule, _V, Nothing, (), "One schedule"),
    Route("POST", "/schedules", schedules.add, _A, schedules.ScheduleForm, (), "Add a schedule", takes=FORM),
    Route("POST", "/schedules/{name}", schedules.edit, _A, schedules.ScheduleForm, (), "Edit a schedule", takes=FORM),
    Route("POST", "/schedules/{name}:remove", schedules.remove, _A, Nothing, (), "Remove a schedule", takes=FORM),
    Route("POST", "/schedules/{name}:pause", schedules.pause, _O, Nothing, (), "Pause a schedule", takes=FORM),
    Route("POST", "/schedules/{name}:resume", schedules.resume_schedule, _O, Nothing, (), "Resume a schedule", takes=FORM),
    Route("POST", "/schedules/{name}:run", schedules.run_schedule, _O, Nothing, (), "Run a schedule now", takes=FORM),

    Route("GET", "/quarantine", quarantine.list_quarantine, _V, QuarantineRequest, (), "Quarantine"),
    Route("GET", "/quarantine/{plan}", quarantine.show_held, _V, quarantine.HeldFilesRequest, (), "What a plan set aside"),
    Route("POST", "/quarantine/{plan}:restore", quarantine.restore, _P, quarantine.RestoreForm, (), "Restore files", takes=FORM),
    Route("POST", "/quarantine/{plan}:empty", quarantine.release, _P, quarantine.ReleaseForm, (), "End a hold", takes=FORM),

    Route("GET", "/tables", tables.list_tables, _V, tables.TablesRequest, (), "Tables"),
    Route("GET", "/tables/{lake}/{table}", tables.show_table, _V, tables.HistoryPageRequest, (), "The history of a table"),
    Route("GET", "/repositories/{repository}", tables.show_repository, _V, Nothing, (), "A lakeFS repository"),

    Route("GET", "/store", store.show_store, _A, store.StoreRequest, (), "Store"),
    Route("GET", "/store/log", store.show_log, _A, store.LogRequest, (), "Commits of a reference"),
    Route("GET", "/store/catalog", store.show_catalog, _A, store.CatalogRequest, (), "What a catalog holds"),
    Route("GET", "/access", store.list_tokens, _A, ListRequest, (), "Access"),
    Route("POST", "/access", store.create_token, _A, NewTokenBody, (), "Create a token", takes=FORM),
    Route("POST", "/access/{token}:revoke", store.revoke_token, _A, Nothing, (), "Revoke a token", takes=FORM),
)
# fmt: on
