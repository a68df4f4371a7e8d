"""The endpoints of Polaris' management API, below `/api`."""

from __future__ import annotations

from lakesweep.server.iceberg import assignments as a
from lakesweep.server.iceberg import management as m
from lakesweep.server.iceberg.call import IcebergRoute

_M = "/management/v1"
_CATALOG = f"{_M}/catalogs/{{catalog}}"
_ROLES = f"{_CATALOG}/catalog-roles"
_ROLE = f"{_ROLES}/{{catalog-role}}"
_PRINCIPAL = f"{_M}/principals/{{principal}}"
_HELD = f"{_PRINCIPAL}/principal-roles"
_PRINCIPAL_ROLE = f"{_M}/principal-roles/{{principal-role}}"
_THEIRS = f"{_PRINCIPAL_ROLE}/catalog-roles/{{catalog}}"

# fmt: off
#: Method, template, handler. Each handler checks what its caller may do.
MANAGEMENT: tuple[IcebergRoute, ...] = (
    IcebergRoute("GET", f"{_M}/catalogs", m.list_catalogs),
    IcebergRoute("POST", f"{_M}/catalogs", m.create_catalog),
    IcebergRoute("GET", _CATALOG, m.load_catalog),
    IcebergRoute("PUT", _CATALOG, m.update_catalog),
    IcebergRoute("DELETE", _CATALOG, m.drop_catalog),

    IcebergRoute("GET", f"{_M}/principals", m.list_principals),
    IcebergRoute("POST", f"{_M}/principals", m.create_principal),
    IcebergRoute("GET", _PRINCIPAL, m.load_entity),
    IcebergRoute("PUT", _PRINCIPAL, m.update_entity),
    IcebergRoute("DELETE", _PRINCIPAL, m.drop_entity),
    IcebergRoute("POST", f"{_PRINCIPAL}/rotate", m.rotate),
    IcebergRoute("GET", _HELD, a.list_roles_of_principal),
    IcebergRoute("PUT", _HELD, a.assign_principal_role),
    IcebergRoute("DELETE", f"{_HELD}/{{principal-role}}", a.revoke_principal_role),

    IcebergRoute("GET", f"{_M}/principal-roles", m.list_principal_roles),
    IcebergRoute("POST", f"{_M}/principal-roles", m.create_principal_role),
    IcebergRoute("GET", _PRINCIPAL_ROLE, m.load_entity),
    IcebergRoute("PUT", _PRINCIPAL_ROLE, m.update_entity),
    IcebergRoute("DELETE", _PRINCIPAL_ROLE, m.drop_entity),
    IcebergRoute("GET", f"{_PRINCIPAL_ROLE}/principals", a.list_principals_of_role),
    IcebergRoute("GET", _THEIRS, a.list_catalog_roles_of_role),
    IcebergRoute("PUT", _THEIRS, a.assign_catalog_role),
    IcebergRoute("DELETE", f"{_THEIRS}/{{catalog-role}}", a.revoke_catalog_role),

    IcebergRoute("GET", _ROLES, m.list_catalog_roles),
    IcebergRoute("POST", _ROLES, m.create_catalog_role),
    IcebergRoute("GET", _ROLE, m.load_catalog_role),
    IcebergRoute("PUT", _ROLE, m.update_catalog_role),
    IcebergRoute("DELETE", _ROLE, m.drop_catalog_role),
    IcebergRoute("GET", f"{_ROLE}/principal-roles", a.list_principal_roles_of_catalog_role),
    IcebergRoute("GET", f"{_ROLE}/grants", a.list_grants),
    IcebergRoute("PUT", f"{_ROLE}/grants", a.grant),
    IcebergRoute("POST", f"{_ROLE}/grants", a.revoke),
)
# fmt: on
