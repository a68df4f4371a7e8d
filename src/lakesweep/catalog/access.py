"""Effective privileges: what a principal may do with something, and through which grant.

A principal has the privileges that were granted to itself, to its principal roles, and to the
catalog roles that those have. What is granted on the realm holds in all catalogs, what is granted
on a catalog in all its namespaces, and what is granted on a namespace for all that lies below it.
A role that is gone gives nothing any more, even while its grants are still there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.catalogs import Catalogs
from lakesweep.catalog.container import EntityContainer
from lakesweep.catalog.entities import NO_PARENT, Entity, Principal
from lakesweep.catalog.grants import Grant, Grants
from lakesweep.catalog.kinds import Kind
from lakesweep.catalog.names import Name, join
from lakesweep.catalog.privileges import Privilege, included
from lakesweep.errors import EntityMissingError


@dataclass(frozen=True, slots=True)
class Allowed:
    """One privilege, and the grant that gives it: to whom, and on what."""

    privilege: Privilege
    through: str
    on: str


class Access:
    """Answers who may do what in a realm."""

    def __init__(self, catalogs: Catalogs) -> None:
        self._catalogs = catalogs

    def effective(
        self, principal: Principal, catalog: Catalog | None = None, name: Name | None = None
    ) -> Sequence[Allowed]:
        """All that a principal may do with the realm, a catalog, or something in it."""
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

    def _grantees(self, principal: Principal) -> Mapping[int, str]:
        """The principal and its roles, by id."""
        roles = _used_roles(self._catalogs.grants, principal.id, Kind.PRINCIPAL_ROLE)
        found = _existing(self._catalogs.principal_roles, roles)
        names = {role.id: f"principal role {role.name}" for role in found}
        return {principal.id: f"principal {principal.name}", **names}


def _catalog_roles(catalog: Catalog, grantees: Iterable[int]) -> Mapping[int, str]:
    roles = [
        role for each in grantees for role in _used_roles(catalog.grants, each, Kind.CATALOG_ROLE)
    ]
    found = _existing(catalog.roles, roles)
    return {role.id: f"catalog role {role.name}" for role in found}


def _used_roles(grants: Grants, grantee: int, kind: Kind) -> list[int]:
    return [grant.securable.id for grant in grants.to(grantee) if grant.securable.kind is kind]


def _existing(roles: EntityContainer[Any], ids: Iterable[int]) -> Iterator[Entity]:
    view = roles.snapshot()
    found = (view.entries.by_id(number) for number in ids)
    return iter(view.load([each for each in found if each is not None]))


def _chain(catalog: Catalog, name: Name | None) -> Iterator[tuple[int, str]]:
    """The catalog and all from there down to an entity, with what each is called."""
    yield catalog.id, f"catalog {catalog.name}"
    if name is None:
        return
    view = catalog.snapshot()
    entity = view.get(name)
    path = view.path(entity)
    for depth in range(1, len(path) + 1):
        found = view.entries.find(path[:depth])
        if found is None:
            raise EntityMissingError(f"there is no entity {join(path[:depth])}")
        yield found.named.id, f"{found.named.kind.words} {join(path[:depth])}"


def _allowed(grants: Iterable[Grant], grantees: Mapping[int, str], words: str) -> Iterator[Allowed]:
    for grant in grants:
        if grant.grantee.id in grantees:
            through = grantees[grant.grantee.id]
            yield from (Allowed(each, through, words) for each in included(grant.privileges))
