"""The table of routes: the router, the role checks and the OpenAPI document all come from it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.operations.catalogs.access import ChangedGrant, EffectivePrivileges
from lakesweep.operations.catalogs.tokens import NewToken, TokenView
from lakesweep.operations.catalogs.views import EntityView, PrincipalSecretView
from lakesweep.operations.lakes.approval import Decision
from lakesweep.operations.lakes.explain import FileExplanation, ObjectExplanations
from lakesweep.operations.lakes.lakes import LakeLine
from lakesweep.operations.lakes.live_runs import CancelRequested, RunEvent
from lakesweep.operations.lakes.plan_view import ExpiredPaths, PlanView
from lakesweep.operations.lakes.runs import RunView
from lakesweep.operations.schedules.schedules import JobView, ScheduleView
from lakesweep.operations.schedules.submitted_jobs import JobOutcome, OutputPage
from lakesweep.operations.store.changes import ChangePage, RealmChange
from lakesweep.operations.store.log import CommitView
from lakesweep.operations.store.realms import CreatedRealm, RealmView
from lakesweep.operations.store.store import MaintenancePreview, MaintenanceView, StoreInfo
from lakesweep.server.api import (
    access,
    changes,
    dropped,
    jobs,
    lakes,
    runs,
    service,
    store,
    submissions,
)
from lakesweep.server.api.call import FORM, JSON_LINES, Nothing, Route
from lakesweep.server.api.pages import ListRequest
from lakesweep.server.auth.authentication import AccessToken
from lakesweep.server.metrics import CONTENT_TYPE

_V = ServiceRole.VIEWER
_O = ServiceRole.OPERATOR
_P = ServiceRole.APPROVER
_A = ServiceRole.ADMIN
_API = "/api/v1"
_CREATED = HTTPStatus.CREATED
_ACCEPTED = HTTPStatus.ACCEPTED
_EMPTY = HTTPStatus.NO_CONTENT
_FILES = (JSON_LINES, lakes.ARROW)
_LINES = (JSON_LINES,)

# fmt: off
#: Method, path, handler, role, request, answer, summary.
ROUTES: tuple[Route[Any], ...] = (
    Route("GET", "/health/live", service.show_live, None, Nothing, (service.Liveness,), "Whether the service answers"),
    Route("GET", "/health/ready", service.show_ready, None, Nothing, (service.Readiness,), "Whether the store answers and has the right tables"),
    Route("GET", "/metrics", service.show_metrics, _V, Nothing, (), "Metrics for Prometheus", media_types=(CONTENT_TYPE.partition(";")[0],)),

    Route("GET", f"{_API}/lakes", lakes.list_lakes, _V, ListRequest, (lakes.LakePage,), "All lakes: last plan, last run, waste and health"),
    Route("GET", f"{_API}/lakes/{{lake}}", lakes.show_lake, _V, Nothing, (LakeLine,), "One lake"),
    Route("POST", f"{_API}/lakes/{{lake}}:sweep", submissions.sweep_lake, _O, submissions.SweepBody, (JobView,), "Queue a sweep: plan a lake, and apply within its limits", _ACCEPTED),
    Route("POST", f"{_API}/lakes/{{lake}}:policy", submissions.run_policies, _P, submissions.PolicyBody, (JobView,), "Queue what the upkeep rules of the tables of a lake say", _ACCEPTED),
    Route("GET", f"{_API}/lakes/{{lake}}/roots", lakes.list_roots, _V, ListRequest, (lakes.RootPage,), "What plans saw of the roots of a lake"),
    Route("GET", f"{_API}/repositories", lakes.list_repositories, _V, ListRequest, (lakes.RepositoryPage,), "The lakeFS repositories of the configuration"),

    Route("POST", f"{_API}/repositories/{{repository}}:plan", submissions.plan_repository, _O, submissions.LifecycleBody, (JobView,), "Queue a plan of a repository by a policy", _ACCEPTED),
    Route("POST", f"{_API}/repositories/{{repository}}:sweep", submissions.sweep_repository, _O, submissions.LifecycleBody, (JobView,), "Queue a policy, carried out within the limits of lifecycles", _ACCEPTED),

    Route("GET", f"{_API}/plans", lakes.list_plans, _V, lakes.PlansRequest, (lakes.PlanPage,), "Plans, newest first"),
    Route("GET", f"{_API}/plans/{{plan}}", lakes.show_plan, _V, lakes.PlanQuery, (PlanView,), "One plan with its totals and guards, or the newest of a lake"),
    Route("GET", f"{_API}/plans/{{plan}}/files", lakes.stream_files, _V, lakes.FilesRequest, (lakes.FileLine,), "Stream the files of a plan", media_types=_FILES),
    Route("GET", f"{_API}/plans/{{plan}}/paths", lakes.stream_paths, _V, Nothing, (ExpiredPaths,), "Stream what a plan of a repository deletes, by paths", media_types=_LINES),
    Route("GET", f"{_API}/plans/{{plan}}/explain", lakes.explain_path, _V, lakes.ExplainRequest, (FileExplanation, ObjectExplanations), "Why a plan keeps or deletes a file"),
    Route("POST", f"{_API}/plans", submissions.plan_lake, _O, submissions.PlanBody, (JobView,), "Queue a plan of a lake", _ACCEPTED),
    Route("POST", f"{_API}/plans/{{plan}}:apply", submissions.apply_plan, _P, submissions.ApplyBody, (JobView,), "Queue the apply of a plan", _ACCEPTED),
    Route("POST", f"{_API}/plans/{{plan}}:approve", lakes.approve, _P, lakes.ApproveRequest, (Decision,), "Let the next sweep apply a plan"),
    Route("POST", f"{_API}/plans/{{plan}}:reject", lakes.reject, _P, lakes.RejectRequest, (Decision,), "Never apply a plan"),

    Route("GET", f"{_API}/runs", runs.list_runs, _V, runs.RunsRequest, (runs.RunPage,), "Runs, newest first"),
    Route("GET", f"{_API}/runs/{{run}}", runs.show_run, _V, Nothing, (RunView, MaintenanceView), "One run in full"),
    Route("GET", f"{_API}/runs/{{run}}/events", jobs.follow, _V, Nothing, (RunEvent,), "Follow a run by server-sent events: progress, output, end", media_types=(jobs.EVENTS,)),
    Route("GET", f"{_API}/runs/{{run}}/output", jobs.show_output, _V, jobs.OutputRequest, (OutputPage,), "What a run said"),
    Route("POST", f"{_API}/runs/{{run}}:cancel", jobs.cancel, _O, Nothing, (CancelRequested,), "Ask a run to stop between two batches"),
    Route("POST", f"{_API}/runs/{{run}}:resume", jobs.resume, _P, Nothing, (JobView,), "Queue what continues a run", _ACCEPTED),
    Route("GET", f"{_API}/jobs", jobs.list_jobs, _V, ListRequest, (jobs.JobPage,), "Jobs, newest first"),
    Route("GET", f"{_API}/jobs/{{job}}", jobs.show_job, _V, Nothing, (JobView,), "One job"),
    Route("GET", f"{_API}/jobs/{{job}}/output", jobs.show_job_output, _V, jobs.OutputRequest, (OutputPage,), "What a job wrote"),
    Route("GET", f"{_API}/jobs/{{job}}/result", jobs.show_job_result, _V, Nothing, (JobOutcome,), "What the command of a job printed for programs, and its error"),
    Route("POST", f"{_API}/jobs/{{job}}:cancel", jobs.cancel_job, _O, Nothing, (JobView,), "End a job"),
    Route("POST", f"{_API}/checks", submissions.check_lake, _O, submissions.CheckBody, (JobView,), "Queue a check for missing files", _ACCEPTED),
    Route("POST", f"{_API}/maintenance", submissions.maintain_store, _A, submissions.MaintainBody, (JobView,), "Queue maintenance of the store", _ACCEPTED),
    Route("POST", f"{_API}/maintenance:preview", store.preview_maintenance, _A, store.RealmsBody, (MaintenancePreview,), "What maintenance would work on"),
    Route("GET", f"{_API}/checks", runs.list_checks, _V, ListRequest, (runs.RunPage,), "Checks for missing files, newest first"),
    Route("GET", f"{_API}/maintenance", runs.list_maintenance, _V, ListRequest, (runs.RunPage,), "Maintenance runs of the store, newest first"),

    Route("GET", f"{_API}/schedules", runs.list_schedules, _V, ListRequest, (runs.SchedulePage,), "All schedules"),
    Route("GET", f"{_API}/schedules/{{name}}", runs.show_schedule, _V, Nothing, (ScheduleView,), "One schedule with its next due times and newest jobs"),
    Route("PUT", f"{_API}/schedules/{{name}}", runs.put_schedule, _A, runs.ScheduleBody, (ScheduleView,), "Add or replace a schedule"),
    Route("DELETE", f"{_API}/schedules/{{name}}", runs.remove_schedule, _A, Nothing, (), "Remove a schedule", _EMPTY),
    Route("POST", f"{_API}/schedules/{{name}}:pause", runs.pause_schedule, _O, Nothing, (ScheduleView,), "Let no due time run"),
    Route("POST", f"{_API}/schedules/{{name}}:resume", runs.resume_schedule, _O, Nothing, (ScheduleView,), "Let due times run again"),
    Route("POST", f"{_API}/schedules/{{name}}:run", runs.run_schedule, _O, Nothing, (runs.JobsQueued,), "Queue the jobs of a schedule now", _ACCEPTED),

    Route("GET", f"{_API}/quarantine", store.list_quarantine, _V, store.QuarantineRequest, (store.QuarantinePage,), "What plans set aside, newest first"),

    Route("POST", f"{_API}/quarantine/{{plan}}:restore", submissions.restore, _P, submissions.RestoreBody, (JobView,), "Queue the restore of some or all files", _ACCEPTED),
    Route("POST", f"{_API}/quarantine/{{plan}}:empty", submissions.empty, _P, submissions.EmptyBody, (JobView,), "Queue the final deletion of what a plan set aside", _ACCEPTED),

    Route("GET", f"{_API}/catalogs/{{catalog}}/dropped", dropped.list_all, _V, ListRequest, (dropped.DroppedPage,), "What was dropped from a catalog and still keeps its files"),
    Route("POST", f"{_API}/catalogs/{{catalog}}:undrop", dropped.undrop, _O, dropped.UndropBody, (EntityView,), "Bring back a dropped table or view"),

    Route("GET", f"{_API}/store", store.show_store, _A, Nothing, (StoreInfo,), "The database of the store"),
    Route("GET", f"{_API}/realms", store.list_realms, _A, ListRequest, (store.RealmPage,), "All realms"),
    Route("GET", f"{_API}/realms/{{realm}}", store.show_realm, _A, Nothing, (RealmView,), "One realm"),
    Route("GET", f"{_API}/realms/{{realm}}/changes", changes.list_changes, _A, changes.ChangesQuery, (ChangePage,), "Every commit of every reference of a realm, oldest first"),
    Route("GET", f"{_API}/realms/{{realm}}/changes/events", changes.follow_changes, _A, changes.ChangesQuery, (RealmChange,), "Follow a realm by server-sent events", media_types=(jobs.EVENTS,)),
    Route("POST", f"{_API}/realms", store.create_realm, _A, store.RealmBody, (CreatedRealm,), "Create a realm; the secret of its first principal is shown this once", _CREATED),
    Route("POST", f"{_API}/realms/{{realm}}:activate", store.activate_realm, _A, Nothing, (RealmView,), "Make an inactive realm usable again"),
    Route("POST", f"{_API}/realms/{{realm}}:deactivate", store.deactivate_realm, _A, Nothing, (RealmView,), "Refuse all use of a realm, and keep its data"),
    Route("POST", f"{_API}/realms/{{realm}}:purge", submissions.purge_realm, _A, submissions.RemoveRealmBody, (JobView,), "Queue the purge of an inactive realm", _ACCEPTED),
    Route("POST", f"{_API}/realms/{{realm}}:delete", submissions.delete_realm, _A, submissions.RemoveRealmBody, (JobView,), "Queue the deletion of a purged realm", _ACCEPTED),
    Route("GET", f"{_API}/references", store.list_references, _A, store.ReferencesRequest, (store.ReferencePage,), "All references of a realm"),
    Route("GET", f"{_API}/references/{{reference}}/log", store.stream_log, _A, store.CommitsRequest, (CommitView,), "Stream the commits of a reference, newest first", media_types=_LINES),

    Route("GET", f"{_API}/principals", access.list_principals, _A, access.PrincipalsRequest, (access.PrincipalPage,), "The principals of a realm"),
    Route("POST", f"{_API}/principals", access.create_principal, _A, access.NewPrincipalBody, (PrincipalSecretView,), "Create a principal; its secret is shown this once", _CREATED),
    Route("GET", f"{_API}/principals/{{principal}}", access.show_principal, _A, access.RealmRequest, (EntityView,), "One principal"),
    Route("DELETE", f"{_API}/principals/{{principal}}", access.drop_principal, _A, access.DropRequest, (EntityView,), "Drop a principal"),
    Route("POST", f"{_API}/principals/{{principal}}:rotate", access.rotate_secret, _A, access.RotateBody, (PrincipalSecretView,), "Give a principal a new secret, shown this once"),
    Route("GET", f"{_API}/principals/{{principal}}/privileges", access.show_privileges, _A, access.PrivilegesRequest, (EffectivePrivileges,), "Everything that a principal may do"),
    Route("GET", f"{_API}/roles", access.list_roles, _A, access.RolesRequest, (access.RolePage,), "The roles of a realm or a catalog"),
    Route("POST", f"{_API}/roles", access.create_role, _A, access.NewRoleBody, (EntityView,), "Create a role", _CREATED),
    Route("GET", f"{_API}/roles/{{role}}", access.show_role, _A, access.RoleRequest, (EntityView,), "One role"),
    Route("DELETE", f"{_API}/roles/{{role}}", access.drop_role, _A, access.DropRoleQuery, (EntityView,), "Drop a role, and all access through it"),
    Route("GET", f"{_API}/grants", access.list_grants, _A, access.RolesRequest, (access.GrantPage,), "The grants on a realm, or on a catalog and what it contains"),
    Route("POST", f"{_API}/grants", access.grant, _A, access.GrantBody, (ChangedGrant,), "Grant privileges"),
    Route("POST", f"{_API}/grants:revoke", access.revoke, _A, access.GrantBody, (ChangedGrant,), "Revoke privileges"),

    Route("GET", f"{_API}/tokens", store.list_tokens, _A, ListRequest, (store.TokenPage,), "All tokens, without their secrets"),
    Route("POST", f"{_API}/tokens", store.create_token, _A, store.NewTokenBody, (NewToken,), "Create a token; its text is shown this once", _CREATED),
    Route("DELETE", f"{_API}/tokens/{{token}}", store.revoke_token, _A, Nothing, (TokenView,), "Revoke a token, by its id or its name"),
    Route("POST", f"{_API}/oauth/token", store.log_in, None, store.LoginForm, (AccessToken,), "Log in as a principal, with client credentials", takes=FORM),
)
# fmt: on
