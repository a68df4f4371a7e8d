"""The endpoints of the protocol that this service has; clients are told of the same table."""

from __future__ import annotations

from lakesweep.catalog.grants import Privilege
from lakesweep.server.iceberg import (
    access,
    generic_tables,
    namespaces,
    policies,
    scans,
    sessions,
    tables,
    views,
)
from lakesweep.server.iceberg.call import IcebergRoute, Target

_P = "/v1/{prefix}"
_N = f"{_P}/namespaces/{{namespace}}"
_T = f"{_N}/tables/{{table}}"
_V = f"{_N}/views/{{view}}"
#: Polaris has endpoints of its own beside those of the protocol.
_POLARIS = "/polaris/v1/{prefix}"
_G = f"{_POLARIS}/namespaces/{{namespace}}/generic-tables"
_POLICIES = f"{_POLARIS}/namespaces/{{namespace}}/policies"
_POLICY = f"{_POLICIES}/{{policy-name}}"
_NS, _ENTITY = Target.NAMESPACE, Target.ENTITY
LOGIN = "/v1/oauth/tokens"
_CONFIG = "/v1/config"

# fmt: off
#: Method, template, handler, the privilege that it needs, and on what.
ROUTES: tuple[IcebergRoute, ...] = (
    IcebergRoute("GET", _CONFIG, sessions.show_config),
    IcebergRoute("POST", LOGIN, sessions.log_in),

    IcebergRoute("GET", f"{_P}/namespaces", namespaces.list_all),
    IcebergRoute("POST", f"{_P}/namespaces", namespaces.create),
    IcebergRoute("GET", _N, namespaces.load, Privilege.READ_METADATA, _NS),
    IcebergRoute("HEAD", _N, namespaces.exists, Privilege.LIST, _NS),
    IcebergRoute("DELETE", _N, namespaces.drop, Privilege.DROP, _NS),
    IcebergRoute("POST", f"{_N}/properties", namespaces.update, Privilege.WRITE_METADATA, _NS),

    IcebergRoute("GET", f"{_N}/tables", tables.list_all, Privilege.LIST, _NS),
    IcebergRoute("POST", f"{_N}/tables", tables.create, Privilege.CREATE_TABLE, _NS,
                 replay=tables.reload),
    IcebergRoute("POST", f"{_N}/register", tables.register, Privilege.CREATE_TABLE, _NS,
                 replay=tables.reload),
    IcebergRoute("GET", _T, tables.load, Privilege.READ_METADATA, _ENTITY),
    IcebergRoute("HEAD", _T, tables.exists, Privilege.LIST, _ENTITY),
    IcebergRoute("POST", _T, tables.commit, is_commit=True, replay=tables.reload),
    IcebergRoute("DELETE", _T, tables.drop, Privilege.DROP, _ENTITY),
    IcebergRoute("POST", f"{_T}/metrics", tables.report, Privilege.READ_METADATA, _ENTITY),
    IcebergRoute("POST", f"{_T}/unregister", tables.unregister, Privilege.DROP, _ENTITY),
    IcebergRoute("GET", f"{_T}/credentials", access.credentials, Privilege.READ_DATA, _ENTITY),
    IcebergRoute("POST", f"{_T}/sign", access.sign_request, Privilege.READ_DATA, _ENTITY),
    IcebergRoute("POST", f"{_T}/plan", scans.plan, Privilege.READ_DATA, _ENTITY),
    IcebergRoute("GET", f"{_T}/plan/{{plan-id}}", scans.fetch, Privilege.READ_DATA, _ENTITY),
    IcebergRoute("DELETE", f"{_T}/plan/{{plan-id}}", scans.cancel, Privilege.READ_DATA, _ENTITY),
    IcebergRoute("POST", f"{_T}/tasks", scans.fetch_tasks, Privilege.READ_DATA, _ENTITY),
    IcebergRoute("POST", f"{_P}/tables/rename", tables.move),
    IcebergRoute("POST", f"{_P}/transactions/commit", tables.commit_many, is_commit=True),

    IcebergRoute("GET", f"{_N}/views", views.list_all, Privilege.LIST, _NS),
    IcebergRoute("POST", f"{_N}/views", views.create, Privilege.CREATE_VIEW, _NS,
                 replay=views.reload),
    IcebergRoute("POST", f"{_N}/register-view", views.add, Privilege.CREATE_VIEW, _NS,
                 replay=views.reload),
    IcebergRoute("GET", _V, views.load, Privilege.READ_METADATA, _ENTITY),
    IcebergRoute("HEAD", _V, views.exists, Privilege.LIST, _ENTITY),
    IcebergRoute("POST", _V, views.commit, Privilege.WRITE_METADATA, _ENTITY, is_commit=True,
                 replay=views.reload),
    IcebergRoute("DELETE", _V, views.drop, Privilege.DROP, _ENTITY),
    IcebergRoute("POST", f"{_P}/views/rename", views.move),

    IcebergRoute("GET", _G, generic_tables.list_all, Privilege.LIST, _NS),
    IcebergRoute("POST", _G, generic_tables.create, Privilege.CREATE_TABLE, _NS),
    IcebergRoute("GET", f"{_G}/{{generic-table}}", generic_tables.load, Privilege.READ_METADATA,
                 _ENTITY),
    IcebergRoute("DELETE", f"{_G}/{{generic-table}}", generic_tables.drop, Privilege.DROP, _ENTITY),
    IcebergRoute("GET", _POLICIES, policies.list_all, Privilege.LIST, _NS),
    IcebergRoute("POST", _POLICIES, policies.create, Privilege.CREATE_POLICY, _NS),
    IcebergRoute("GET", _POLICY, policies.load, Privilege.READ_METADATA, _ENTITY),
    IcebergRoute("PUT", _POLICY, policies.update, Privilege.WRITE_METADATA, _ENTITY),
    IcebergRoute("DELETE", _POLICY, policies.drop, Privilege.DROP, _ENTITY),
    IcebergRoute("PUT", f"{_POLICY}/mappings", policies.attach, Privilege.ATTACH_POLICY, _ENTITY),
    IcebergRoute("POST", f"{_POLICY}/mappings", policies.detach, Privilege.ATTACH_POLICY, _ENTITY),
    IcebergRoute("GET", f"{_POLARIS}/applicable-policies", policies.applicable),
)
# fmt: on
#: What clients are told: everything that lies below a prefix.
ENDPOINTS = tuple(
    f"{route.method} {route.template}" for route in ROUTES if "{prefix}" in route.template
)
