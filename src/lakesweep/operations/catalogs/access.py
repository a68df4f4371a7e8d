"""Use cases of access: principals, roles and grants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lakesweep.app import App
from lakesweep.catalog import CatalogRole, Catalogs, Create, Drop, PrincipalRole
from lakesweep.catalog.access.access_control import AccessControl, EffectivePrivilege
from lakesweep.catalog.containers.container import EntityContainer
from lakesweep.catalog.entities import split
from lakesweep.catalog.grants import Grant, Privilege, parse_privilege
from lakesweep.errors import UsageError
from lakesweep.operations.catalogs.views import (
    EntityLine,
    EntityView,
    GrantView,
    PrincipalSecretView,
    extend,
    find_principal,
    grants_of,
    open_catalogs,
    resolve_target,
    role_container,
    target_name,
)
from lakesweep.operations.interaction import Confirm

_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class CreatePrincipalRequest:
    """A new principal."""

    name: str
    properties: Mapping[str, str] = field(default_factory=dict)
    realm: str | None = None


@dataclass(frozen=True, slots=True)
class RotateSecretRequest:
    """A new secret; `revoke` invalidates the previous one at once."""

    name: str
    revoke: bool = False
    realm: str | None = None


@dataclass(frozen=True, slots=True)
class CreateRoleRequest:
    """A new role of the realm, or of a catalog."""

    name: str
    catalog: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    realm: str | None = None


@dataclass(frozen=True, slots=True)
class DropPrincipalRequest:
    """Drop a principal."""

    name: str
    dry_run: bool = False
    realm: str | None = None


@dataclass(frozen=True, slots=True)
class DropRoleRequest:
    """Drop a role of the realm, or of a catalog."""

    name: str
    catalog: str | None = None
    dry_run: bool = False
    realm: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeGrantRequest:
    """Grant or revoke privileges.

    `on` is `realm`, a catalog, an entity or `role:…`; `to` is `principal:…` or `role:…`.
    """

    privileges: tuple[str, ...]
    on: str
    to: str
    realm: str | None = None


class ChangedGrant(msgspec.Struct, frozen=True, kw_only=True):
    """The privileges after a change."""

    on: str
    to: str
    privileges: tuple[Privilege, ...]
    changed: bool


class EffectivePrivileges(msgspec.Struct, frozen=True, kw_only=True):
    """What a principal may do with something, and through which grants."""

    principal: str
    on: str
    allowed: tuple[EffectivePrivilege, ...]


def create_principal(app: App, request: CreatePrincipalRequest) -> PrincipalSecretView:
    """Create a principal with a secret, of which only a hash is stored."""
    principals = open_catalogs(app, request.realm).principals
    principal, credentials = principals.create(request.name, dict(request.properties))
    view = EntityView.named(request.name, principal)
    return extend(PrincipalSecretView, view, secret=credentials.secret)


def rotate_secret(app: App, request: RotateSecretRequest) -> PrincipalSecretView:
    """Give a principal a new secret; the previous one stays valid until the next rotation."""
    principals = open_catalogs(app, request.realm).principals
    credentials = principals.rotate(request.name, revoke=request.revoke)
    view = EntityView.named(request.name, principals.get((request.name,)))
    return extend(PrincipalSecretView, view, secret=credentials.secret)


def list_principals(app: App, realm: str | None = None) -> Iterator[EntityLine]:
    """All principals."""
    return _list(open_catalogs(app, realm).principals)


def show_principal(app: App, name: str, realm: str | None = None) -> EntityView:
    """One principal."""
    return _show(open_catalogs(app, realm).principals, name)


def drop_principal(
    app: App, request: DropPrincipalRequest, confirm: Confirm[EntityView]
) -> EntityView:
    """Drop a principal; the next maintenance run removes its grants."""
    principals = open_catalogs(app, request.realm).principals
    return _drop(principals, request.name, confirm, dry_run=request.dry_run)


def create_role(app: App, request: CreateRoleRequest) -> EntityView:
    """Create a role."""
    kind = PrincipalRole if request.catalog is None else CatalogRole
    roles = role_container(open_catalogs(app, request.realm), request.catalog)
    roles.apply([Create((request.name,), kind(properties=dict(request.properties)))])
    return _show(roles, request.name)


def list_roles(
    app: App, catalog: str | None = None, realm: str | None = None
) -> Iterator[EntityLine]:
    """All roles of the realm, or of a catalog."""
    return _list(role_container(open_catalogs(app, realm), catalog))


def show_role(
    app: App, name: str, catalog: str | None = None, realm: str | None = None
) -> EntityView:
    """One role."""
    return _show(role_container(open_catalogs(app, realm), catalog), name)


def drop_role(app: App, request: DropRoleRequest, confirm: Confirm[EntityView]) -> EntityView:
    """Drop a role, and with it all access through it."""
    roles = role_container(open_catalogs(app, request.realm), request.catalog)
    return _drop(roles, request.name, confirm, dry_run=request.dry_run)


def grant_privileges(app: App, request: ChangeGrantRequest) -> ChangedGrant:
    """Grant privileges."""
    return _change(app, request, revoke=False)


def revoke_privileges(app: App, request: ChangeGrantRequest) -> ChangedGrant:
    """Revoke privileges."""
    return _change(app, request, revoke=True)


def list_grants(
    app: App, catalog: str | None = None, realm: str | None = None
) -> Iterator[GrantView]:
    """All grants on the realm itself, or on one catalog and what it contains, by what and who."""
    catalogs = open_catalogs(app, realm)
    grants = catalogs.grants if catalog is None else catalogs.open(catalog).grants
    yield from sorted(
        (_grant(catalogs, grant) for grant in grants.all()), key=lambda each: (each.on, each.to)
    )


def effective_privileges(
    app: App, principal: str, on: str | None = None, realm: str | None = None
) -> EffectivePrivileges:
    """Everything a principal may do with a catalog or an entity; None is the realm."""
    catalogs = open_catalogs(app, realm)
    top, path = (None, ()) if on is None else (split(on)[0], tuple(split(on)[1:]))
    catalog = None if top is None else catalogs.open(top)
    allowed = AccessControl(catalogs).effective(
        find_principal(catalogs, principal), catalog, path or None
    )
    return EffectivePrivileges(principal=principal, on=on or "realm", allowed=tuple(allowed))


def _change(app: App, request: ChangeGrantRequest, *, revoke: bool) -> ChangedGrant:
    privileges = [parse_privilege(name) for name in request.privileges]
    # Before anything is looked up: a name alone would be looked for among the catalogs.
    if not request.to.startswith(("principal:", "role:")):
        raise UsageError(
            f"{request.to} does not say whether it is a principal or a role",
            hint=f"write --to principal:{request.to} or --to role:{request.to}",
        )
    catalogs = open_catalogs(app, request.realm)
    target, grantee = resolve_target(catalogs, request.on), resolve_target(catalogs, request.to)
    grants = grants_of(catalogs, target)
    changed = (grants.revoke if revoke else grants.grant)(target, grantee, privileges)
    left = grants.get(target.id, grantee.id)
    return ChangedGrant(
        on=request.on,
        to=request.to,
        privileges=tuple(left.privileges) if left else (),
        changed=changed,
    )


def _grant(catalogs: Catalogs, grant: Grant) -> GrantView:
    return GrantView(
        on=target_name(catalogs, grant.securable),
        to=target_name(catalogs, grant.grantee),
        privileges=tuple(each.value for each in grant.privileges),
    )


def _list(container: EntityContainer[Any]) -> Iterator[EntityLine]:
    token: str | None = None
    while True:
        page = container.list(size=_PAGE, token=token)
        yield from (EntityLine.of(entity.name, entity) for entity in page.items)
        token = page.token
        if token is None:
            return


def _show(container: EntityContainer[Any], name: str) -> EntityView:
    return EntityView.named(name, container.snapshot(fresh=True).get((name,)))


def _drop(
    container: EntityContainer[Any], name: str, confirm: Confirm[EntityView], *, dry_run: bool
) -> EntityView:
    preview = msgspec.structs.replace(_show(container, name), status="not-applied")
    confirm(preview)
    if dry_run:
        return preview
    container.apply([Drop((name,))])
    return msgspec.structs.replace(preview, status="dropped")
