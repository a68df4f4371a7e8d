"""Principals, roles and grants of the service's realm, or of another one."""

from __future__ import annotations

from typing import Annotated

import msgspec

from lakesweep.operations.catalogs import access
from lakesweep.operations.catalogs.access import ChangedGrant, EffectivePrivileges
from lakesweep.operations.catalogs.views import (
    EntityLine,
    EntityView,
    GrantView,
    PrincipalSecretView,
)
from lakesweep.server.api.call import Call
from lakesweep.server.api.pages import ListRequest, page_of

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]


class RealmRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The realm; by default that of the service."""

    realm: str | None = None


class PrincipalsRequest(ListRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which principals to list."""

    realm: str | None = None


class RolesRequest(PrincipalsRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which roles or grants to list: those of the realm, or of a catalog."""

    catalog: str | None = None


class NewPrincipalBody(RealmRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A new principal."""

    name: _Name
    properties: dict[str, str] = {}


class NewRoleBody(NewPrincipalBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A new role of the realm, or of a catalog."""

    catalog: str | None = None


class RotateBody(RealmRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether the previous secret ends at once."""

    revoke: bool = False


class RoleRequest(RealmRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A role of the realm, or of a catalog."""

    catalog: str | None = None


class DropRequest(RealmRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether to drop it, or only to show what would be dropped."""

    dry_run: bool = False


class DropRoleQuery(DropRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The same for a role."""

    catalog: str | None = None


class GrantBody(RealmRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Privileges on something, `to` a principal or a role."""

    privileges: Annotated[tuple[_Name, ...], msgspec.Meta(min_length=1)]
    on: _Name
    to: _Name


class PrivilegesRequest(RealmRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the privileges are on: a catalog or an entity; by default the realm."""

    on: _Name | None = None


class PrincipalPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of principals."""

    principals: tuple[EntityLine, ...]
    next: str | None = None


class RolePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of roles."""

    roles: tuple[EntityLine, ...]
    next: str | None = None


class GrantPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of grants."""

    grants: tuple[GrantView, ...]
    next: str | None = None


def _agree(preview: object) -> None:
    """Whoever calls has decided."""
    del preview


def list_principals(call: Call[PrincipalsRequest]) -> PrincipalPage:
    """All principals."""
    found = sorted(access.list_principals(call.app, call.given.realm), key=_name)
    page, after = page_of(found, call.given, _place)
    return PrincipalPage(principals=page, next=after)


def _name(line: EntityLine) -> str:
    return line.name


def _place(line: EntityLine) -> tuple[str]:
    return (line.name,)


def show_principal(call: Call[RealmRequest]) -> EntityView:
    """One principal."""
    return access.show_principal(call.app, call.names["principal"], call.given.realm)


def create_principal(call: Call[NewPrincipalBody]) -> PrincipalSecretView:
    """A new principal, whose secret is shown this once."""
    given = call.given
    request = access.CreatePrincipalRequest(given.name, given.properties, given.realm)
    return access.create_principal(call.app, request)


def rotate_secret(call: Call[RotateBody]) -> PrincipalSecretView:
    """A new secret for a principal."""
    given = call.given
    request = access.RotateSecretRequest(call.names["principal"], given.revoke, given.realm)
    return access.rotate_secret(call.app, request)


def drop_principal(call: Call[DropRequest]) -> EntityView:
    """Drop a principal."""
    given = call.given
    request = access.DropPrincipalRequest(call.names["principal"], given.dry_run, given.realm)
    return access.drop_principal(call.app, request, _agree)


def list_roles(call: Call[RolesRequest]) -> RolePage:
    """All roles."""
    found = access.list_roles(call.app, call.given.catalog, call.given.realm)
    page, after = page_of(sorted(found, key=_name), call.given, _place)
    return RolePage(roles=page, next=after)


def show_role(call: Call[RoleRequest]) -> EntityView:
    """One role."""
    return access.show_role(call.app, call.names["role"], call.given.catalog, call.given.realm)


def create_role(call: Call[NewRoleBody]) -> EntityView:
    """A new role."""
    given = call.given
    request = access.CreateRoleRequest(given.name, given.catalog, given.properties, given.realm)
    return access.create_role(call.app, request)


def drop_role(call: Call[DropRoleQuery]) -> EntityView:
    """Drop a role, and with it all access through it."""
    given = call.given
    request = access.DropRoleRequest(call.names["role"], given.catalog, given.dry_run, given.realm)
    return access.drop_role(call.app, request, _agree)


def list_grants(call: Call[RolesRequest]) -> GrantPage:
    """All grants on the realm, or on a catalog and what it contains."""
    found = access.list_grants(call.app, call.given.catalog, call.given.realm)
    page, after = page_of(found, call.given, lambda each: (each.on, each.to))
    return GrantPage(grants=page, next=after)


def grant(call: Call[GrantBody]) -> ChangedGrant:
    """Grant privileges."""
    return access.grant_privileges(call.app, _change(call.given))


def revoke(call: Call[GrantBody]) -> ChangedGrant:
    """Revoke privileges."""
    return access.revoke_privileges(call.app, _change(call.given))


def _change(given: GrantBody) -> access.ChangeGrantRequest:
    return access.ChangeGrantRequest(given.privileges, given.on, given.to, given.realm)


def show_privileges(call: Call[PrivilegesRequest]) -> EffectivePrivileges:
    """Everything that a principal may do."""
    principal, given = call.names["principal"], call.given
    return access.effective_privileges(call.app, principal, given.on, given.realm)
