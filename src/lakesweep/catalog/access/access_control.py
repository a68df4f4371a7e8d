"""Effective privileges: what a principal may do, and through which grant.

A principal has the privileges granted to itself, to its principal roles, and to the catalog
roles that those have. A grant on the realm applies to all catalogs, one on a catalog to all
its namespaces, and one on a namespace to everything below it. A deleted principal or role has
no privileges, even while its grants still exist.

Every question reads what is stored now, never a cached head: what another process revoked is
gone at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.catalogs import Catalogs
from lakesweep.catalog.containers.container import EntityContainer
from lakesweep.catalog.entities import NO_PARENT, Entity, EntityType, Name, Principal, join
from lakesweep.catalog.grants import Grant, Grants, Privilege, included
from lakesweep.errors import EntityMissingError


@dataclass(frozen=True, slots=True)
class EffectivePrivilege:
    """One privilege, and the grant that gives it: to whom, and on what."""

    privilege: Privilege
    through: str
    on: str


class AccessControl:
    """Answers who may do what in a realm."""

    def __init__(self, catalogs: Catalogs) -> None:
        self._catalogs = catalogs

    def effective(
        self, principal: Principal, catalog: Catalog | None = None, name: Name | None = None
    ) -> Sequence[EffectivePrivilege]:
        """All that a principal may do with the realm, a catalog, or something in it."""
        self._catalogs.realm.verify()
        grantees = self._grantees(principal)
        allowed = list(_allowed(self._catalogs.grants.on(NO_PARENT), grantees, "realm"))
        if catalog is not None:
            grantees = {**grantees, **_catalog_roles(catalog, grantees)}
            for number, words in _chain(catalog, name):
                allowed += _allowed(catalog.grants.on(number), grantees, words)
        return sorted(set(allowed), key=lambda each: (each.privilege, each.on, each.through))

    def may(
        self,
        principal: Principal,
        privilege: Privilege,
        catalog: Catalog | None = None,
        name: Name | None = None,
    ) -> bool:
        """Whether a principal may do this."""
        return any(each.privilege is privilege for each in self.effective(principal, catalog, name))

    def principal_roles(self, principal: Principal) -> Sequence[Entity]:
        """The principal roles that a principal may use; none once it is deleted."""
        if self._catalogs.principals.snapshot(fresh=True).entries.by_id(principal.id) is None:
            return []
        roles = _used_roles(self._catalogs.grants, principal.id, EntityType.PRINCIPAL_ROLE)
        return list(_existing(self._catalogs.principal_roles, roles))

    def _grantees(self, principal: Principal) -> Mapping[int, str]:
        """The principal and its roles, by id; none of them once the principal is deleted."""
        if self._catalogs.principals.snapshot(fresh=True).entries.by_id(principal.id) is None:
            return {}
        names = {role.id: f"principal role {role.name}" for role in self.principal_roles(principal)}
        return {principal.id: f"principal {principal.name}", **names}


def _catalog_roles(catalog: Catalog, grantees: Iterable[int]) -> Mapping[int, str]:
    roles = [
        role
        for each in grantees
        for role in _used_roles(catalog.grants, each, EntityType.CATALOG_ROLE)
    ]
    found = _existing(catalog.roles, roles)
    return {role.id: f"catalog role {role.name}" for role in found}


def _used_roles(grants: Grants, grantee: int, kind: EntityType) -> list[int]:
    return [grant.securable.id for grant in grants.to(grantee) if grant.securable.kind is kind]


def _existing(roles: EntityContainer[Any], ids: Iterable[int]) -> Iterator[Entity]:
    view = roles.snapshot(fresh=True)
    found = (view.entries.by_id(number) for number in ids)
    return iter(view.load([each for each in found if each is not None]))


def _chain(catalog: Catalog, name: Name | None) -> Iterator[tuple[int, str]]:
    """The catalog and all from there down to an entity, with what each is called."""
    yield catalog.id, f"catalog {catalog.name}"
    if name is None:
        return
    view = catalog.snapshot(fresh=True)
    entity = view.get(name)
    path = view.path(entity)
    for depth in range(1, len(path) + 1):
        found = view.entries.find(path[:depth])
        if found is None:
            raise EntityMissingError(f"there is no entity {join(path[:depth])}")
        yield found.named.id, f"{found.named.kind.words} {join(path[:depth])}"


def _allowed(
    grants: Iterable[Grant], grantees: Mapping[int, str], words: str
) -> Iterator[EffectivePrivilege]:
    for grant in grants:
        if grant.grantee.id in grantees:
            through = grantees[grant.grantee.id]
            yield from (
                EffectivePrivilege(each, through, words) for each in included(grant.privileges)
            )
