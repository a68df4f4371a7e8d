"""Polaris' own endpoints: generic tables, policies, and which of them apply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakesweep.operations.catalogs.views import open_catalogs
from tests.service import ServiceClient, client_of, make_service

BASE = "/iceberg/polaris/v1/shop"
N = f"{BASE}/namespaces/n"
EXPIRY = "system.snapshot-expiry"
CONTENT = json.dumps({"enable": True, "config": {"max_snapshot_age_days": 7}})
SCHEMA = {"type": "struct", "fields": []}


@pytest.fixture
def client(tmp_path: Path) -> ServiceClient:
    service = make_service(tmp_path)
    open_catalogs(service.app, None).create("shop", location=f"file://{tmp_path}/shop")
    client = client_of(service)
    body = {"namespace": ["n"]}
    assert client.post("/iceberg/v1/shop/namespaces", json=body).status_code == 200
    return client


def _refusal(answer: Any) -> tuple[int, str]:
    error = answer.json()["error"]
    assert error["code"] == answer.status_code
    return answer.status_code, error["type"]


def test_a_generic_table_lives_its_life(client: ServiceClient) -> None:
    body = {"name": "d", "format": "delta", "doc": "events", "properties": {"a": "1"}}
    made = client.post(f"{N}/generic-tables", json=body)
    assert made.status_code == 200, made.text
    table = made.json()["table"]
    assert table["base-location"].startswith("file://")
    assert {**table, "base-location": ""} == {**body, "base-location": ""}
    assert client.get(f"{N}/generic-tables/d").json() == made.json()
    names = client.get(f"{N}/generic-tables").json()["identifiers"]
    assert names == [{"namespace": ["n"], "name": "d"}]
    again = client.post(f"{N}/generic-tables", json=body)
    assert _refusal(again) == (409, "AlreadyExistsException")
    # It is no Iceberg table.
    assert client.get("/iceberg/v1/shop/namespaces/n/tables/d").status_code == 404
    assert client.delete(f"{N}/generic-tables/d").status_code == 204
    assert _refusal(client.get(f"{N}/generic-tables/d")) == (404, "NoSuchTableException")
    assert _refusal(client.delete(f"{N}/generic-tables/d")) == (404, "NoSuchTableException")


def test_a_generic_table_lies_where_the_catalog_allows(client: ServiceClient) -> None:
    body = {"name": "d", "format": "delta", "base-location": "s3://elsewhere/d"}
    assert _refusal(client.post(f"{N}/generic-tables", json=body)) == (400, "BadRequestException")


def _policy(client: ServiceClient, name: str, content: str = CONTENT) -> dict[str, Any]:
    body = {"name": name, "type": EXPIRY, "content": content}
    answer = client.post(f"{N}/policies", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["policy"]
    return found


def test_a_policy_lives_its_life(client: ServiceClient) -> None:
    made = _policy(client, "p")
    assert (made["version"], made["inheritable"], made["policy-type"]) == (0, True, EXPIRY)
    assert client.get(f"{N}/policies/p").json() == {"policy": made}
    found = client.get(f"{N}/policies", params={"policyType": EXPIRY}).json()["identifiers"]
    assert found == [{"namespace": ["n"], "name": "p"}]
    assert not client.get(f"{N}/policies", params={"policyType": "x"}).json()["identifiers"]
    change = {"description": "new", "current-policy-version": 0}
    assert client.put(f"{N}/policies/p", json=change).json()["policy"]["version"] == 1
    stale = client.put(f"{N}/policies/p", json=change)
    assert _refusal(stale) == (409, "PolicyVersionMismatchException")
    assert client.delete(f"{N}/policies/p").status_code == 204
    assert _refusal(client.get(f"{N}/policies/p")) == (404, "NoSuchPolicyException")


@pytest.mark.parametrize("content", ["{}", "x", '{"enable": true, "other": 1}'])
def test_content_fits_its_schema(client: ServiceClient, content: str) -> None:
    body = {"name": "p", "type": EXPIRY, "content": content}
    assert _refusal(client.post(f"{N}/policies", json=body)) == (400, "BadRequestException")
    assert client.post(f"{N}/policies", json={**body, "type": "system.x"}).status_code == 400


def _apply(client: ServiceClient, name: str, kind: str, *path: str) -> Any:
    body = {"target": {"type": kind, "path": path}}
    return client.put(f"{N}/policies/{name}/mappings", json=body)


def _applicable(client: ServiceClient, **query: str) -> list[tuple[str, bool]]:
    answer = client.get(f"{BASE}/applicable-policies", params=query)
    assert answer.status_code == 200, answer.text
    found = answer.json()["applicable-policies"]
    return [(each["name"], each["inherited"]) for each in found]


def test_the_nearest_policy_applies(client: ServiceClient) -> None:
    body = {"name": "t", "schema": SCHEMA}
    assert client.post("/iceberg/v1/shop/namespaces/n/tables", json=body).status_code == 200
    for name in ("far", "near"):
        _policy(client, name)
    assert _apply(client, "far", "catalog").status_code == 204
    assert _applicable(client) == [("far", False)]
    assert _applicable(client, namespace="n") == [("far", True)]
    assert _apply(client, "near", "table-like", "n", "t").status_code == 204
    table = {"namespace": "n", "target-name": "t"}
    assert _applicable(client, **table) == [("near", False)]
    assert _applicable(client, **table, policyType="x") == []
    taken = _apply(client, "far", "table-like", "n", "t")
    assert _refusal(taken) == (409, "ConflictPolicyAttachmentException")
    used = client.delete(f"{N}/policies/near")
    assert _refusal(used) == (400, "PolicyInUseException")
    target = {"target": {"type": "table-like", "path": ["n", "t"]}}
    assert client.post(f"{N}/policies/near/mappings", json=target).status_code == 204
    gone = client.post(f"{N}/policies/near/mappings", json=target)
    assert _refusal(gone) == (404, "NoSuchMappingException")
    assert _applicable(client, **table) == [("far", True)]
    assert client.request("DELETE", f"{N}/policies/far?detach-all=true").status_code == 204
    assert _applicable(client, **table) == []


def test_a_target_has_to_be_there(client: ServiceClient) -> None:
    _policy(client, "p")
    assert _refusal(_apply(client, "p", "namespace", "x")) == (404, "NoSuchTargetException")
    assert _refusal(_apply(client, "p", "table-like", "n")) == (404, "NoSuchTargetException")
    assert _refusal(_apply(client, "p", "other", "n")) == (400, "BadRequestException")
    assert _refusal(_apply(client, "x", "namespace", "n")) == (404, "NoSuchPolicyException")
    missing = client.get(f"{BASE}/applicable-policies", params={"namespace": "x"})
    assert _refusal(missing) == (404, "NoSuchTargetException")


def test_the_paths_of_polaris_lead_here_too(client: ServiceClient) -> None:
    found = client.get("/api/catalog/v1/config", params={"warehouse": "shop"}).json()
    assert "GET /polaris/v1/{prefix}/applicable-policies" in found["endpoints"]
    assert client.get("/api/catalog/polaris/v1/shop/namespaces/n/policies").status_code == 200
    assert client.get("/api/catalog/v1/shop/namespaces").json()["namespaces"] == [["n"]]
    assert client.get("/api/catalogs").status_code == 404
