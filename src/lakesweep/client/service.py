"""A service in the place of the app: the same operations, carried out through its API.

A command names an operation once, and does not know where it is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lakesweep.client.connection import ServiceAddress, ServiceConnection
from lakesweep.client.lake_calls import RemoteLakes
from lakesweep.client.store_calls import RemoteAccess, RemoteSchedules, RemoteStore
from lakesweep.errors import UsageError
from lakesweep.operations.catalogs import access, tokens
from lakesweep.operations.lakes import (
    apply,
    approval,
    check,
    explain,
    lakes,
    live_runs,
    plan,
    plan_view,
    quarantine,
    repository_plan,
    runs,
    sweep,
)
from lakesweep.operations.schedules import schedules, submitted_jobs
from lakesweep.operations.store import log, realms, store

_Calls = Mapping[Callable[..., Any], Callable[..., Any]]

_LAKES: _Calls = {
    lakes.list_lakes: RemoteLakes.list_lakes,
    plan.plan_lake: RemoteLakes.plan_lake,
    repository_plan.plan_repository: RemoteLakes.plan_repository,
    sweep.sweep_lake: RemoteLakes.sweep_lake,
    sweep.sweep_repository: RemoteLakes.sweep_repository,
    plan_view.plan_kind: RemoteLakes.plan_kind,
    plan_view.view_plan: RemoteLakes.view_plan,
    plan_view.plan_files: RemoteLakes.plan_files,
    plan_view.expired_paths: RemoteLakes.expired_paths,
    explain.explain_file: RemoteLakes.explain_file,
    explain.explain_object: RemoteLakes.explain_object,
    apply.apply_plan: RemoteLakes.apply_plan,
    approval.approve_plan: RemoteLakes.approve_plan,
    approval.reject_plan: RemoteLakes.reject_plan,
    check.check_lake: RemoteLakes.check_lake,
    runs.list_runs: RemoteLakes.list_runs,
    runs.show_run: RemoteLakes.show_run,
    live_runs.run_progress: RemoteLakes.run_progress,
    live_runs.follow_run: RemoteLakes.follow_run,
    live_runs.cancel_run: RemoteLakes.cancel_run,
    live_runs.resume_run: RemoteLakes.resume_run,
    live_runs.run_output: RemoteLakes.run_output,
    quarantine.list_quarantines: RemoteLakes.list_quarantines,
    quarantine.ended_holds: RemoteLakes.ended_holds,
    quarantine.restore_quarantine: RemoteLakes.restore_quarantine,
    quarantine.empty_quarantine: RemoteLakes.empty_quarantine,
}
_SCHEDULES: _Calls = {
    schedules.add_schedule: RemoteSchedules.add_schedule,
    schedules.list_schedules: RemoteSchedules.list_schedules,
    schedules.show_schedule: RemoteSchedules.show_schedule,
    schedules.pause_schedule: RemoteSchedules.pause_schedule,
    schedules.resume_schedule: RemoteSchedules.resume_schedule,
    schedules.run_schedule: RemoteSchedules.run_schedule,
    schedules.remove_schedule: RemoteSchedules.remove_schedule,
    submitted_jobs.list_jobs: RemoteSchedules.list_jobs,
    submitted_jobs.show_job: RemoteSchedules.show_job,
    submitted_jobs.cancel_job: RemoteSchedules.cancel_job,
    submitted_jobs.job_output: RemoteSchedules.job_output,
}
_STORE: _Calls = {
    store.store_info: RemoteStore.store_info,
    store.maintain_store: RemoteStore.maintain_store,
    realms.create_realm: RemoteStore.create_realm,
    realms.list_realms: RemoteStore.list_realms,
    realms.show_realm: RemoteStore.show_realm,
    realms.activate_realm: RemoteStore.activate_realm,
    realms.deactivate_realm: RemoteStore.deactivate_realm,
    realms.purge_realm: RemoteStore.purge_realm,
    realms.delete_realm: RemoteStore.delete_realm,
    log.read_log: RemoteStore.read_log,
    log.list_references: RemoteStore.list_references,
}
_ACCESS: _Calls = {
    tokens.create_token: RemoteAccess.create_token,
    tokens.list_tokens: RemoteAccess.list_tokens,
    tokens.revoke_token: RemoteAccess.revoke_token,
    access.create_principal: RemoteAccess.create_principal,
    access.rotate_secret: RemoteAccess.rotate_secret,
    access.list_principals: RemoteAccess.list_principals,
    access.show_principal: RemoteAccess.show_principal,
    access.drop_principal: RemoteAccess.drop_principal,
    access.create_role: RemoteAccess.create_role,
    access.list_roles: RemoteAccess.list_roles,
    access.show_role: RemoteAccess.show_role,
    access.drop_role: RemoteAccess.drop_role,
    access.grant_privileges: RemoteAccess.grant_privileges,
    access.revoke_privileges: RemoteAccess.revoke_privileges,
    access.list_grants: RemoteAccess.list_grants,
    access.effective_privileges: RemoteAccess.effective_privileges,
}
#: Who carries out which operations.
_PARTS: Mapping[type[Any], _Calls] = {
    RemoteLakes: _LAKES,
    RemoteSchedules: _SCHEDULES,
    RemoteStore: _STORE,
    RemoteAccess: _ACCESS,
}


class RemoteService:
    """Carries out operations through the API of a service."""

    def __init__(self, address: ServiceAddress) -> None:
        connection = ServiceConnection(address)
        self._calls = {
            operation: (part(connection), call)
            for part, calls in _PARTS.items()
            for operation, call in calls.items()
        }

    def call(self, operation: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Carry out an operation with these arguments. UsageError if the API does not have it."""
        if operation not in self._calls:
            raise UsageError(
                f"{operation.__name__.replace('_', ' ')} cannot be done through a service",
                hint="run the command without --server, where the service runs",
            )
        part, carry_out = self._calls[operation]
        return carry_out(part, *given, **named)
