"""Operations over the store, realms, access, tokens and schedules, through a service."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

import msgspec

from lakesweep.client.connection import ServiceConnection, pages, segment
from lakesweep.client.lake_calls import whole_output
from lakesweep.client.remote_jobs import RemoteJobs, arguments
from lakesweep.operations.catalogs.access import (
    ChangedGrant,
    ChangeGrantRequest,
    CreatePrincipalRequest,
    CreateRoleRequest,
    DropPrincipalRequest,
    DropRoleRequest,
    EffectivePrivileges,
    RotateSecretRequest,
)
from lakesweep.operations.catalogs.tokens import (
    CreateTokenRequest,
    NewToken,
    TokenList,
    TokenView,
)
from lakesweep.operations.catalogs.views import (
    EntityLine,
    EntityView,
    GrantView,
    PrincipalSecretView,
)
from lakesweep.operations.interaction import SILENT_IO, Confirm, Interaction
from lakesweep.operations.schedules.schedules import JobView, ScheduleList, ScheduleView
from lakesweep.operations.schedules.submitted_jobs import OutputPage
from lakesweep.operations.store.log import CommitView, ReadLogRequest, ReferenceView
from lakesweep.operations.store.realms import (
    CreatedRealm,
    CreateRealmRequest,
    RealmList,
    RealmView,
    RemovedRealm,
    RemoveRealmRequest,
)
from lakesweep.operations.store.store import (
    MaintainStoreRequest,
    MaintenancePreview,
    MaintenanceView,
    StoreInfo,
)
from lakesweep.runs.schedules import Schedule
from lakesweep.units import format_duration

_JSON_LINES = "application/x-ndjson"
_MOST_LINES = 10_000


class _SchedulePage(ScheduleList, frozen=True, kw_only=True):
    next: str | None = None


class _JobPage(msgspec.Struct, frozen=True, kw_only=True):
    jobs: tuple[JobView, ...]
    next: str | None = None


class _QueuedJobs(msgspec.Struct, frozen=True):
    jobs: tuple[JobView, ...]


class _TokenPage(TokenList, frozen=True, kw_only=True):
    next: str | None = None


class _RealmPage(RealmList, frozen=True, kw_only=True):
    next: str | None = None


class _PrincipalPage(msgspec.Struct, frozen=True, kw_only=True):
    principals: tuple[EntityLine, ...]
    next: str | None = None


class _RolePage(msgspec.Struct, frozen=True, kw_only=True):
    roles: tuple[EntityLine, ...]
    next: str | None = None


class _GrantPage(msgspec.Struct, frozen=True, kw_only=True):
    grants: tuple[GrantView, ...]
    next: str | None = None


class _ReferencePage(msgspec.Struct, frozen=True, kw_only=True):
    references: tuple[ReferenceView, ...]
    next: str | None = None


class RemoteSchedules:
    """Each method is an operation of the same name, without the app."""

    def __init__(self, connection: ServiceConnection) -> None:
        self._service = connection

    def add_schedule(self, schedule: Schedule) -> ScheduleView:
        bounds = schedule.adaptive
        body = arguments(
            job=schedule.job,
            lake=schedule.lake,
            target=schedule.target,
            options=schedule.options,
            cron=schedule.cron,
            zone=schedule.zone,
            every="auto" if bounds else _seconds(schedule.every),
            shortest=_seconds(bounds[0]) if bounds else None,
            longest=_seconds(bounds[1]) if bounds else None,
            jitter=_seconds(schedule.jitter),
            timeout=_seconds(schedule.timeout),
            catch_up=schedule.catch_up,
        )
        return self._service.send("PUT", f"/schedules/{segment(schedule.name)}", ScheduleView, body)

    def list_schedules(self) -> ScheduleList:
        found = pages(self._service, "/schedules", _SchedulePage)
        return ScheduleList(tuple(each for page in found for each in page.schedules))

    def show_schedule(self, name: str) -> ScheduleView:
        return self._service.get(f"/schedules/{segment(name)}", ScheduleView)

    def pause_schedule(self, name: str) -> ScheduleView:
        return self._service.send("POST", f"/schedules/{segment(name)}:pause", ScheduleView)

    def resume_schedule(self, name: str) -> ScheduleView:
        return self._service.send("POST", f"/schedules/{segment(name)}:resume", ScheduleView)

    def run_schedule(self, name: str) -> tuple[JobView, ...]:
        return self._service.send("POST", f"/schedules/{segment(name)}:run", _QueuedJobs).jobs

    def remove_schedule(self, name: str) -> None:
        self._service.delete(f"/schedules/{segment(name)}")

    def list_jobs(self) -> Iterator[JobView]:
        for page in pages(self._service, "/jobs", _JobPage):
            yield from page.jobs

    def show_job(self, name: str) -> JobView:
        return self._service.get(f"/jobs/{segment(name)}", JobView)

    def cancel_job(self, name: str) -> JobView:
        return self._service.send("POST", f"/jobs/{segment(name)}:cancel", JobView)

    def job_output(self, name: str, after: int = 0, limit: int = _MOST_LINES) -> OutputPage:
        return whole_output(self._service, f"/jobs/{segment(name)}/output", after, limit)


class RemoteStore:
    """Each method is an operation of the same name, without the app."""

    def __init__(self, connection: ServiceConnection) -> None:
        self._service = connection
        self._jobs = RemoteJobs(connection)

    def store_info(self) -> StoreInfo:
        return self._service.get("/store", StoreInfo)

    def maintain_store(
        self,
        request: MaintainStoreRequest,
        confirm: Confirm[MaintenancePreview],
        io: Interaction = SILENT_IO,
    ) -> MaintenanceView:
        query = {"realms": request.realms, "purge_realms": request.purge_realms}
        preview = self._service.send("POST", "/maintenance:preview", MaintenancePreview, query)
        confirm(preview)
        body = arguments(
            supersede=request.supersede,
            engine=request.engine,
            dry_run=request.dry_run,
            realms=request.realms,
            purge_realms=request.purge_realms,
            system_realm=request.system_realm,
        )
        return self._jobs.result("/maintenance", body, MaintenanceView, io)

    def create_realm(self, request: CreateRealmRequest) -> CreatedRealm:
        body = arguments(name=request.name, properties=dict(request.properties))
        return self._service.send("POST", "/realms", CreatedRealm, body)

    def list_realms(self) -> RealmList:
        found = pages(self._service, "/realms", _RealmPage)
        return RealmList(tuple(each for page in found for each in page.realms))

    def show_realm(self, name: str) -> RealmView:
        return self._service.get(f"/realms/{segment(name)}", RealmView)

    def activate_realm(self, name: str) -> RealmView:
        return self._service.send("POST", f"/realms/{segment(name)}:activate", RealmView)

    def deactivate_realm(self, name: str) -> RealmView:
        return self._service.send("POST", f"/realms/{segment(name)}:deactivate", RealmView)

    def purge_realm(
        self,
        request: RemoveRealmRequest,
        confirm: Confirm[RemovedRealm],
        io: Interaction = SILENT_IO,
    ) -> RemovedRealm:
        return self._remove(request, "purge", confirm, io)

    def delete_realm(
        self,
        request: RemoveRealmRequest,
        confirm: Confirm[RemovedRealm],
        io: Interaction = SILENT_IO,
    ) -> RemovedRealm:
        return self._remove(request, "delete", confirm, io)

    def _remove(
        self,
        request: RemoveRealmRequest,
        verb: str,
        confirm: Confirm[RemovedRealm],
        io: Interaction,
    ) -> RemovedRealm:
        """A dry run first: what it finds is what a person decides about."""
        path = f"/realms/{segment(request.name)}:{verb}"
        preview = self._jobs.result(path, {"dry_run": True}, RemovedRealm, io)
        confirm(preview)
        if request.dry_run:
            return preview
        return self._jobs.result(path, {"now": request.now}, RemovedRealm, io)

    def read_log(self, request: ReadLogRequest) -> Iterator[CommitView]:
        since = request.since
        query = {
            "realm": request.realm,
            "since": since if isinstance(since, datetime) else None,
            "after": since if isinstance(since, int) else None,
            "oldest_first": request.oldest_first,
            "limit": request.limit,
        }
        path = f"/references/{segment(request.reference)}/log"
        with self._service.stream(path, _JSON_LINES, query) as stream:
            for line in stream.lines():
                yield self._service.decoded(line, CommitView)

    def list_references(
        self, realm: str | None = None, *, limit: int | None = None
    ) -> Iterator[ReferenceView]:
        found = pages(self._service, "/references", _ReferencePage, {"realm": realm})
        return islice((each for page in found for each in page.references), limit)


class RemoteAccess:
    """Each method is an operation of the same name, without the app."""

    def __init__(self, connection: ServiceConnection) -> None:
        self._service = connection

    def create_token(self, request: CreateTokenRequest) -> NewToken:
        body = arguments(
            name=request.name, role=request.role, expires=format_duration(request.life)
        )
        return self._service.send("POST", "/tokens", NewToken, body)

    def list_tokens(self) -> TokenList:
        found = pages(self._service, "/tokens", _TokenPage)
        return TokenList(tuple(each for page in found for each in page.tokens))

    def revoke_token(self, name: str) -> TokenView:
        return self._service.send("DELETE", f"/tokens/{segment(name)}", TokenView)

    def create_principal(self, request: CreatePrincipalRequest) -> PrincipalSecretView:
        body = arguments(
            name=request.name, properties=dict(request.properties), realm=request.realm
        )
        return self._service.send("POST", "/principals", PrincipalSecretView, body)

    def rotate_secret(self, request: RotateSecretRequest) -> PrincipalSecretView:
        path = f"/principals/{segment(request.name)}:rotate"
        body = arguments(revoke=request.revoke, realm=request.realm)
        return self._service.send("POST", path, PrincipalSecretView, body)

    def list_principals(self, realm: str | None = None) -> Iterator[EntityLine]:
        for page in pages(self._service, "/principals", _PrincipalPage, {"realm": realm}):
            yield from page.principals

    def show_principal(self, name: str, realm: str | None = None) -> EntityView:
        return self._service.get(f"/principals/{segment(name)}", EntityView, {"realm": realm})

    def drop_principal(
        self, request: DropPrincipalRequest, confirm: Confirm[EntityView]
    ) -> EntityView:
        confirm(self.show_principal(request.name, request.realm))
        query = {"dry_run": request.dry_run, "realm": request.realm}
        path = f"/principals/{segment(request.name)}"
        return self._service.send("DELETE", path, EntityView, query=query)

    def create_role(self, request: CreateRoleRequest) -> EntityView:
        body = arguments(
            name=request.name,
            catalog=request.catalog,
            properties=dict(request.properties),
            realm=request.realm,
        )
        return self._service.send("POST", "/roles", EntityView, body)

    def list_roles(
        self, catalog: str | None = None, realm: str | None = None
    ) -> Iterator[EntityLine]:
        query = {"catalog": catalog, "realm": realm}
        for page in pages(self._service, "/roles", _RolePage, query):
            yield from page.roles

    def show_role(
        self, name: str, catalog: str | None = None, realm: str | None = None
    ) -> EntityView:
        query = {"catalog": catalog, "realm": realm}
        return self._service.get(f"/roles/{segment(name)}", EntityView, query)

    def drop_role(self, request: DropRoleRequest, confirm: Confirm[EntityView]) -> EntityView:
        confirm(self.show_role(request.name, request.catalog, request.realm))
        query = {
            "catalog": request.catalog,
            "dry_run": request.dry_run,
            "realm": request.realm,
        }
        path = f"/roles/{segment(request.name)}"
        return self._service.send("DELETE", path, EntityView, query=query)

    def grant_privileges(self, request: ChangeGrantRequest) -> ChangedGrant:
        return self._service.send("POST", "/grants", ChangedGrant, _grant(request))

    def revoke_privileges(self, request: ChangeGrantRequest) -> ChangedGrant:
        return self._service.send("POST", "/grants:revoke", ChangedGrant, _grant(request))

    def list_grants(
        self, catalog: str | None = None, realm: str | None = None
    ) -> Iterator[GrantView]:
        query = {"catalog": catalog, "realm": realm}
        for page in pages(self._service, "/grants", _GrantPage, query):
            yield from page.grants

    def effective_privileges(
        self, principal: str, on: str | None = None, realm: str | None = None
    ) -> EffectivePrivileges:
        query = {"on": on, "realm": realm}
        path = f"/principals/{segment(principal)}/privileges"
        return self._service.get(path, EffectivePrivileges, query)


def _grant(request: ChangeGrantRequest) -> dict[str, object]:
    return arguments(
        privileges=request.privileges, on=request.on, to=request.to, realm=request.realm
    )


def _seconds(seconds: int | None) -> str | None:
    return None if seconds is None else format_duration(timedelta(seconds=seconds))
