"""Names of the realms and references that the system itself uses."""

from __future__ import annotations

from collections.abc import Collection

#: Realms whose names start like this belong to the system.
RESERVED = "::"
SYSTEM_REALM = "::system::"

#: In the system realm: all realms, by name.
REALMS = "realms"

#: In each user realm.
ROOT = "root"
CATALOGS = "catalogs"
PRINCIPALS = "principals"
PRINCIPAL_ROLES = "principal-roles"
GRANTS = "grants"
IMMEDIATE_TASKS = "immediate-tasks"
POLICY_MAPPINGS = "policy-mappings"

_SYSTEM_NAMES = (REALMS,)
_USER_NAMES = (
    *(ROOT, CATALOGS, PRINCIPALS, PRINCIPAL_ROLES, GRANTS, IMMEDIATE_TASKS, POLICY_MAPPINGS),
)


def standing_names(realm: str) -> Collection[str]:
    """The references that a realm always has."""
    return _SYSTEM_NAMES if realm == SYSTEM_REALM else _USER_NAMES


def catalog_roles(catalog: int) -> str:
    """The roles of one catalog."""
    return f"cat/{catalog}/roles"


def catalog_content(catalog: int) -> str:
    """The namespaces, tables, views and policies of one catalog."""
    return f"cat/{catalog}/heads/main"


def catalog_grants(catalog: int) -> str:
    """The grants on one catalog and its content."""
    return f"cat/{catalog}/grants"
