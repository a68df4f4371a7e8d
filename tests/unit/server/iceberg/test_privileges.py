"""Every endpoint with every privilege: who may call what, as one table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.catalog.grants import Privilege, entity_ref, included
from lakesweep.operations.catalogs.views import open_catalogs
from lakesweep.server.application import Service
from lakesweep.server.iceberg.routes import ROUTES
from tests.service import ServiceClient, client_of, make_service, tokens_of

P = Privilege
_N = "/v1/{prefix}/namespaces/{namespace}"
_T, _V = f"{_N}/tables/{{table}}", f"{_N}/views/{{view}}"
SCHEMA = {"type": "struct", "fields": []}
_T1, _V1 = {"namespace": ["n"], "name": "t"}, {"namespace": ["n"], "name": "v"}
_TO = {"namespace": ["n"], "name": "to"}
_CREATE = [{"type": "assert-create"}]

_PN = "/polaris/v1/{prefix}/namespaces/{namespace}"
_G, _L = f"{_PN}/generic-tables", f"{_PN}/policies"
_ATTACHED = {"target": {"type": "namespace", "path": ["n"]}}

#: The privileges that a call needs, all of them, with a body that gets as far as that.
NEEDS: Mapping[str, tuple[set[Privilege], Any]] = {
    "GET /v1/{prefix}/namespaces": ({P.LIST}, None),
    "POST /v1/{prefix}/namespaces": ({P.CREATE_NAMESPACE}, {"namespace": ["m"]}),
    f"GET {_N}": ({P.READ_METADATA}, None),
    f"HEAD {_N}": ({P.LIST}, None),
    f"DELETE {_N}": ({P.DROP}, None),
    f"POST {_N}/properties": ({P.WRITE_METADATA}, {"updates": {"a": "1"}}),
    f"GET {_N}/tables": ({P.LIST}, None),
    f"POST {_N}/tables": ({P.CREATE_TABLE}, {"name": "t2", "schema": SCHEMA}),
    f"POST {_N}/register": ({P.CREATE_TABLE}, {"name": "t3", "metadata-location": "s3://x/y"}),
    f"GET {_T}": ({P.READ_METADATA}, None),
    f"HEAD {_T}": ({P.LIST}, None),
    f"POST {_T}": ({P.WRITE_METADATA}, {"updates": []}),
    f"DELETE {_T}": ({P.DROP}, None),
    f"POST {_T}/metrics": ({P.READ_METADATA}, {}),
    f"POST {_T}/unregister": ({P.DROP}, None),
    f"GET {_T}/credentials": ({P.READ_DATA}, None),
    f"POST {_T}/sign": ({P.READ_DATA}, {}),
    f"POST {_T}/plan": ({P.READ_DATA}, {}),
    f"GET {_T}/plan/{{plan-id}}": ({P.READ_DATA}, None),
    f"DELETE {_T}/plan/{{plan-id}}": ({P.READ_DATA}, None),
    f"POST {_T}/tasks": ({P.READ_DATA}, {"plan-task": "x"}),
    "POST /v1/{prefix}/tables/rename": (
        {P.DROP, P.CREATE_TABLE},
        {"source": _T1, "destination": _TO},
    ),
    "POST /v1/{prefix}/transactions/commit": (
        {P.WRITE_METADATA},
        {"table-changes": [{"identifier": _T1, "updates": []}]},
    ),
    f"GET {_N}/views": ({P.LIST}, None),
    f"POST {_N}/views": ({P.CREATE_VIEW}, {"name": "w", "schema": SCHEMA, "view-version": {}}),
    f"POST {_N}/register-view": ({P.CREATE_VIEW}, {"name": "w", "metadata-location": "s3://x/y"}),
    f"GET {_V}": ({P.READ_METADATA}, None),
    f"HEAD {_V}": ({P.LIST}, None),
    f"POST {_V}": ({P.WRITE_METADATA}, {"updates": []}),
    f"DELETE {_V}": ({P.DROP}, None),
    "POST /v1/{prefix}/views/rename": (
        {P.DROP, P.CREATE_VIEW},
        {"source": _V1, "destination": _TO},
    ),
    f"GET {_G}": ({P.LIST}, None),
    f"POST {_G}": ({P.CREATE_TABLE}, {"name": "g", "format": "delta"}),
    f"GET {_G}/{{generic-table}}": ({P.READ_METADATA}, None),
    f"DELETE {_G}/{{generic-table}}": ({P.DROP}, None),
    f"GET {_L}": ({P.LIST}, None),
    f"POST {_L}": ({P.CREATE_POLICY}, {"name": "p2", "type": "mine"}),
    f"GET {_L}/{{policy-name}}": ({P.READ_METADATA}, None),
    f"PUT {_L}/{{policy-name}}": ({P.WRITE_METADATA}, {"current-policy-version": 0}),
    f"DELETE {_L}/{{policy-name}}": ({P.DROP}, None),
    f"PUT {_L}/{{policy-name}}/mappings": ({P.ATTACH_POLICY}, _ATTACHED),
    f"POST {_L}/{{policy-name}}/mappings": ({P.ATTACH_POLICY}, _ATTACHED),
    "GET /polaris/v1/{prefix}/applicable-policies": ({P.READ_METADATA}, None),
}
#: Bodies and queries that need more than the endpoint as such.
MORE: tuple[tuple[str, str, set[Privilege], Any], ...] = (
    ("POST", _T, {P.CREATE_TABLE}, {"requirements": _CREATE, "updates": []}),
    ("DELETE", f"{_T}?purgeRequested=True", {P.DROP, P.WRITE_DATA}, None),
    (
        "POST",
        f"{_N}/register",
        {P.CREATE_TABLE, P.WRITE_METADATA, P.DROP},
        {"name": "t", "metadata-location": "s3://x/y", "overwrite": True},
    ),
)


@pytest.fixture
def service(tmp_path: Path) -> Service:
    service = make_service(tmp_path)
    open_catalogs(service.app, None).create("shop", location=f"file://{tmp_path}/shop")
    operator = client_of(service, tokens_of(service)[ServiceRole.OPERATOR])
    body = {"namespace": ["n"]}
    assert operator.post("/iceberg/v1/shop/namespaces", json=body).status_code == 200
    return service


def _with_only(service: Service, privileges: set[Privilege], name: str) -> ServiceClient:
    """Somebody who was granted these on the catalog, and nothing else."""
    catalogs = open_catalogs(service.app, None)
    principal, secret = catalogs.principals.create(name)
    catalog = catalogs.open("shop")
    if privileges:
        catalog.grants.grant(
            entity_ref(catalog.definition), entity_ref(principal), sorted(privileges)
        )
    form = {
        "grant_type": "client_credentials",
        "client_id": secret.client_id,
        "client_secret": secret.secret,
    }
    answer = client_of(service).post("/iceberg/v1/oauth/tokens", data=form)
    return client_of(service, answer.json()["access_token"])


def _is_forbidden(client: ServiceClient, method: str, template: str, body: Any) -> bool:
    path = template.replace("{prefix}", "shop").replace("{namespace}", "n")
    path = re.sub(r"{[a-z-]+}", "t", path.replace("{view}", "v"))
    given = {} if body is None else {"json": body}
    answer = client.request(method, f"/iceberg{path}", **given)
    assert answer.status_code < 500, answer.text
    return answer.status_code == 403


def _calls() -> list[tuple[str, str, set[Privilege], Any]]:
    plain = ((*call.split(" "), *needs) for call, needs in NEEDS.items())
    return [*((method, path, needed, body) for method, path, needed, body in plain), *MORE]


def test_the_table_has_all_endpoints() -> None:
    below = {f"{each.method} {each.template}" for each in ROUTES if "{prefix}" in each.template}
    assert set(NEEDS) == below


def test_each_endpoint_needs_its_privileges_and_no_others(service: Service) -> None:
    grantable = [each for each in Privilege if each in _ON_CATALOG]
    wrong = []
    for privilege in grantable:
        client = _with_only(service, {privilege}, f"only-{privilege}")
        for method, path, needed, body in _calls():
            expected = not needed <= included({privilege})
            # Signing is refused for tables that are not there, too; both are 403 or 404.
            if _is_forbidden(client, method, path, body) is not expected:
                wrong.append((privilege, method, path))
    assert not wrong


def test_no_privilege_is_no_access(service: Service) -> None:
    client = _with_only(service, set(), "nobody")
    assert all(_is_forbidden(client, method, path, body) for method, path, _, body in _calls())


def test_exactly_the_needed_ones_are_enough(service: Service) -> None:
    for number, (method, path, needed, body) in enumerate(_calls()):
        if len(needed) > 1:
            client = _with_only(service, needed, f"exact-{number}")
            assert not _is_forbidden(client, method, path, body), (method, path)


_ON_CATALOG = frozenset(Privilege) - {P.USE_ROLE, P.MANAGE_REALM, P.CREATE_CATALOG}
