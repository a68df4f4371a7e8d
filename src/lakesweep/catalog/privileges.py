"""The privileges that can be granted, and what each one includes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum

from lakesweep.catalog.entities import EntityType
from lakesweep.errors import UsageError


class Privilege(StrEnum):
    """Something that a role may do. Names never change: grants hold them."""

    #: To be a member: of a principal role, or to have a catalog role.
    USE_ROLE = "use-role"

    MANAGE_REALM = "manage-realm"
    CREATE_CATALOG = "create-catalog"

    MANAGE_CATALOG = "manage-catalog"
    MANAGE_ACCESS = "manage-access"
    MANAGE_CONTENT = "manage-content"

    LIST = "list"
    READ_METADATA = "read-metadata"
    WRITE_METADATA = "write-metadata"
    READ_DATA = "read-data"
    WRITE_DATA = "write-data"
    CREATE_NAMESPACE = "create-namespace"
    CREATE_TABLE = "create-table"
    CREATE_VIEW = "create-view"
    CREATE_POLICY = "create-policy"
    ATTACH_POLICY = "attach-policy"
    DROP = "drop"


_READ = frozenset({Privilege.LIST, Privilege.READ_METADATA})
_CONTENT = frozenset(
    {
        *_READ,
        *(Privilege.WRITE_METADATA, Privilege.READ_DATA, Privilege.WRITE_DATA),
        *(Privilege.CREATE_NAMESPACE, Privilege.CREATE_TABLE, Privilege.CREATE_VIEW),
        *(Privilege.CREATE_POLICY, Privilege.ATTACH_POLICY, Privilege.DROP),
    }
)

#: What a privilege includes beside itself, all the way down.
INCLUDES: Mapping[Privilege, frozenset[Privilege]] = {
    Privilege.READ_METADATA: frozenset({Privilege.LIST}),
    Privilege.WRITE_METADATA: _READ,
    Privilege.READ_DATA: _READ,
    Privilege.WRITE_DATA: _READ | {Privilege.READ_DATA, Privilege.WRITE_METADATA},
    Privilege.MANAGE_CONTENT: _CONTENT,
    Privilege.MANAGE_CATALOG: _CONTENT | {Privilege.MANAGE_CONTENT, Privilege.MANAGE_ACCESS},
    Privilege.MANAGE_REALM: frozenset(Privilege) - {Privilege.USE_ROLE, Privilege.MANAGE_REALM},
}

_ROLES = frozenset({EntityType.PRINCIPAL_ROLE, EntityType.CATALOG_ROLE})
_ON_REALM = frozenset(Privilege) - {Privilege.USE_ROLE}
_ON_CATALOG = _ON_REALM - {Privilege.MANAGE_REALM, Privilege.CREATE_CATALOG}
_ON_CONTENT = _ON_CATALOG - {Privilege.MANAGE_CATALOG}


def included(privileges: Iterable[Privilege]) -> frozenset[Privilege]:
    """These privileges with all that they include."""
    given = frozenset(privileges)
    return given.union(*(INCLUDES.get(each, frozenset()) for each in given))


def grantable_on(kind: EntityType) -> frozenset[Privilege]:
    """What can be granted on an entity of this kind."""
    if kind in _ROLES:
        return frozenset({Privilege.USE_ROLE})
    if kind is EntityType.ROOT:
        return _ON_REALM
    return _ON_CATALOG if kind is EntityType.CATALOG else _ON_CONTENT


def parse_privilege(text: str) -> Privilege:
    """The privilege of this name; UsageError with the nearest one if there is none."""
    try:
        return Privilege(text)
    except ValueError:
        names = [each.value for each in Privilege]
        near = get_close_matches(text, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        raise UsageError(f"there is no privilege {text!r}", hint=hint) from None
