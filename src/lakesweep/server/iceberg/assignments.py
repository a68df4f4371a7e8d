"""Polaris' management API: who has which role, and what roles may do."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec

from lakesweep.catalog.access.access_control import AccessControl
from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.containers.container import EntityContainer
from lakesweep.catalog.entities import (
    Entity,
    EntityType,
    Principal,
    kind_of,
)
from lakesweep.catalog.grants import EntityRef, Grant, Privilege, entity_ref
from lakesweep.catalog.warehouse.problems import ProblemType, WarehouseError, bad_request
from lakesweep.server.iceberg.call import IcebergCall, IcebergReply, encoded
from lakesweep.server.iceberg.managed import (
    catalog_of,
    managed,
    managed_in_catalog,
    show_entity,
)
from lakesweep.server.iceberg.management import NewCatalogRoleBody, NewPrincipalRoleBody
from lakesweep.server.iceberg.polaris_privileges import (
    parse_polaris_privilege,
    show_polaris_privilege,
)

_CREATED = HTTPStatus.CREATED


class GrantTarget(msgspec.Struct, frozen=True, rename="camel"):
    """A privilege, and what it is granted on."""

    type: str
    privilege: str
    namespace: tuple[str, ...] = ()
    table_name: str | None = None
    view_name: str | None = None
    policy_name: str | None = None


class GrantChangeBody(msgspec.Struct, frozen=True):
    """A grant to be given or taken."""

    grant: GrantTarget


# Who has which role

_USE = (Privilege.USE_ROLE,)


def _role(call: IcebergCall, name: str) -> Entity:
    return call.catalogs.principal_roles.snapshot(fresh=True).get((name,))


def _principal(call: IcebergCall) -> Entity:
    return call.catalogs.principals.snapshot(fresh=True).get((call.name("principal"),))


@managed()
def list_roles_of_principal(call: IcebergCall) -> IcebergReply:
    """The roles that a principal has."""
    principal = _principal(call)
    assert isinstance(principal, Principal)
    found = AccessControl(call.catalogs).principal_roles(principal)
    return encoded({"roles": [show_entity(each) for each in found]})


@managed()
def assign_principal_role(call: IcebergCall) -> IcebergReply:
    """Give a principal a role."""
    role = _role(call, call.decode(NewPrincipalRoleBody).principal_role.name)
    call.catalogs.grants.grant(
        entity_ref(role), entity_ref(_principal(call)), _USE, call.caller.name
    )
    return IcebergReply(status=_CREATED)


@managed()
def revoke_principal_role(call: IcebergCall) -> IcebergReply:
    """Take a role from a principal."""
    role = _role(call, call.name("principal-role"))
    call.catalogs.grants.revoke(
        entity_ref(role), entity_ref(_principal(call)), _USE, call.caller.name
    )
    return IcebergReply()


def _members(grants: Iterable[Grant], kind: EntityType, container: EntityContainer[Any]) -> Any:
    view = container.snapshot(fresh=True)
    for grant in grants:
        is_member = grant.grantee.kind is kind and Privilege.USE_ROLE in grant.privileges
        if is_member and view.entries.by_id(grant.grantee.id) is not None:
            yield show_entity(view.by_id(grant.grantee.id))


@managed()
def list_principals_of_role(call: IcebergCall) -> IcebergReply:
    """The principals that have a role."""
    grants = call.catalogs.grants.on(_role(call, call.name("principal-role")).id)
    found = _members(grants, EntityType.PRINCIPAL, call.catalogs.principals)
    return encoded({"principals": list(found)})


@managed_in_catalog
def list_principal_roles_of_catalog_role(call: IcebergCall) -> IcebergReply:
    """The principal roles that have a catalog role."""
    grants = catalog_of(call).grants.on(_catalog_role(call).id)
    found = _members(grants, EntityType.PRINCIPAL_ROLE, call.catalogs.principal_roles)
    return encoded({"roles": list(found)})


def _catalog_role(call: IcebergCall) -> Entity:
    return catalog_of(call).roles.snapshot(fresh=True).get((call.name("catalog-role"),))


@managed_in_catalog
def list_catalog_roles_of_role(call: IcebergCall) -> IcebergReply:
    """The roles of a catalog that a principal role has."""
    catalog, role = catalog_of(call), _role(call, call.name("principal-role"))
    view = catalog.roles.snapshot(fresh=True)
    held = (each.securable for each in catalog.grants.to(role.id))
    found = [
        show_entity(view.by_id(each.id))
        for each in held
        if each.kind is EntityType.CATALOG_ROLE and view.entries.by_id(each.id) is not None
    ]
    return encoded({"roles": found})


def _assign(call: IcebergCall, name: str) -> tuple[Catalog, EntityRef, EntityRef]:
    catalog, role = catalog_of(call), _role(call, call.name("principal-role"))
    theirs = catalog.roles.snapshot(fresh=True).get((name,))
    return catalog, entity_ref(theirs, catalog.id), entity_ref(role)


@managed_in_catalog
def assign_catalog_role(call: IcebergCall) -> IcebergReply:
    """Give a principal role a role of a catalog."""
    name = call.decode(NewCatalogRoleBody).catalog_role.name
    catalog, theirs, role = _assign(call, name)
    catalog.grants.grant(theirs, role, _USE, call.caller.name)
    return IcebergReply(status=_CREATED)


@managed_in_catalog
def revoke_catalog_role(call: IcebergCall) -> IcebergReply:
    """Take it again."""
    catalog, theirs, role = _assign(call, call.name("catalog-role"))
    catalog.grants.revoke(theirs, role, _USE, call.caller.name)
    return IcebergReply()


# Grants


@managed_in_catalog
def list_grants(call: IcebergCall) -> IcebergReply:
    """What a catalog role may do."""
    catalog, role = catalog_of(call), _catalog_role(call)
    view = catalog.snapshot(fresh=True)
    found = []
    for grant in catalog.grants.to(role.id):
        target = _shown_target(view, grant.securable)
        if target is not None:
            found += [
                {**target, "privilege": show_polaris_privilege(target["type"], each)}
                for each in grant.privileges
            ]
    return encoded({"grants": found})


def _shown_target(view: Any, end: EntityRef) -> dict[str, Any] | None:
    if end.kind is EntityType.CATALOG:
        return {"type": "catalog"}
    if end.kind is EntityType.CATALOG_ROLE or view.entries.by_id(end.id) is None:
        return None
    path = view.path(view.by_id(end.id))
    if end.kind is EntityType.NAMESPACE:
        return {"type": "namespace", "namespace": path}
    kind = {EntityType.VIEW: "view", EntityType.POLICY: "policy"}.get(end.kind, "table")
    return {"type": kind, "namespace": path[:-1], f"{kind}Name": path[-1]}


def _granted(call: IcebergCall) -> tuple[Catalog, EntityRef, EntityRef, Privilege]:
    given, catalog = call.decode(GrantChangeBody).grant, catalog_of(call)
    privilege = parse_polaris_privilege(given.type, given.privilege)
    role = entity_ref(_catalog_role(call), catalog.id)
    return catalog, _grant_target(catalog, given), role, privilege


def _grant_target(catalog: Catalog, given: GrantTarget) -> EntityRef:
    names = {"table": given.table_name, "view": given.view_name, "policy": given.policy_name}
    if given.type == "catalog":
        return entity_ref(catalog.definition)
    name = names.get(given.type)
    if given.type != "namespace" and not name:
        raise bad_request("a grant is on a catalog, a namespace, a table, a view or a policy")
    path = given.namespace if given.type == "namespace" else (*given.namespace, str(name))
    if not path:
        raise bad_request("the namespace of the grant is missing")
    found = catalog.snapshot(fresh=True).get(path)
    if given.type != ("table" if (kind := kind_of(found)) is EntityType.GENERIC_TABLE else kind):
        raise WarehouseError(ProblemType.NOT_FOUND, f"there is no such {given.type}")
    return entity_ref(found, catalog.id)


@managed_in_catalog
def grant(call: IcebergCall) -> IcebergReply:
    """Let a catalog role do something."""
    catalog, target, role, privilege = _granted(call)
    catalog.grants.grant(target, role, [privilege], call.caller.name)
    return IcebergReply(status=_CREATED)


@managed_in_catalog
def revoke(call: IcebergCall) -> IcebergReply:
    """No longer let it."""
    catalog, target, role, privilege = _granted(call)
    catalog.grants.revoke(target, role, [privilege], call.caller.name)
    return IcebergReply(status=_CREATED)
