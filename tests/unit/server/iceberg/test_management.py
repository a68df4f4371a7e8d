"""Polaris' management API: what it makes, the service and its clients use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.catalog.grants import REALM, Privilege, entity_ref
from lakesweep.operations.catalogs.views import open_catalogs
from lakesweep.server.application import Service
from lakesweep.server.iceberg.management_routes import MANAGEMENT
from tests.service import ServiceClient, client_of, make_service, tokens_of

M = "/api/management/v1"


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return make_service(tmp_path)


@pytest.fixture
def admin(service: Service) -> ServiceClient:
    return client_of(service, tokens_of(service)[ServiceRole.ADMIN])


def _catalog(admin: ServiceClient, folder: Path, name: str = "shop") -> dict[str, Any]:
    place = f"file://{folder}/{name}"
    body = {
        "type": "INTERNAL",
        "name": name,
        "properties": {"default-base-location": place, "a": "1"},
        "storageConfigInfo": {"storageType": "FILE", "allowedLocations": [place]},
    }
    answer = admin.post(f"{M}/catalogs", json={"catalog": body})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def _ok(answer: Any, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


def test_a_catalog_lives_its_life(admin: ServiceClient, tmp_path: Path) -> None:
    made = _catalog(admin, tmp_path)
    assert made["storageConfigInfo"]["allowedLocations"] == [f"file://{tmp_path}/shop"]
    assert _ok(admin.get(f"{M}/catalogs/shop")) == made
    assert [each["name"] for each in _ok(admin.get(f"{M}/catalogs"))["catalogs"]] == ["shop"]
    change = {"currentEntityVersion": made["entityVersion"], "properties": {"b": "2"}}
    changed = _ok(admin.put(f"{M}/catalogs/shop", json=change))
    assert changed["properties"]["b"] == "2"
    assert changed["properties"]["default-base-location"]
    assert admin.put(f"{M}/catalogs/shop", json=change).status_code == 409
    again = admin.post(f"{M}/catalogs", json={"catalog": {"name": "shop"}})
    assert (again.status_code, again.json()["error"]["type"]) == (409, "AlreadyExistsException")
    _ok(admin.delete(f"{M}/catalogs/shop"), 204)
    assert admin.get(f"{M}/catalogs/shop").status_code == 404


def _log_in(service: Service, credentials: dict[str, str]) -> ServiceClient:
    form = {
        "grant_type": "client_credentials",
        "client_id": credentials["clientId"],
        "client_secret": credentials["clientSecret"],
    }
    answer = client_of(service).post("/api/catalog/v1/oauth/tokens", data=form)
    return client_of(service, _ok(answer)["access_token"])


def test_a_principal_may_do_what_its_roles_were_granted(
    service: Service, admin: ServiceClient, tmp_path: Path
) -> None:
    _catalog(admin, tmp_path)
    made = _ok(admin.post(f"{M}/principals", json={"principal": {"name": "ada"}}), 201)
    ada = _log_in(service, made["credentials"])
    body = {"namespace": ["n"]}
    assert ada.post("/api/catalog/v1/shop/namespaces", json=body).status_code == 403

    team, writer = {"principalRole": {"name": "team"}}, {"catalogRole": {"name": "writer"}}
    _ok(admin.post(f"{M}/principal-roles", json=team), 201)
    _ok(admin.put(f"{M}/principals/ada/principal-roles", json=team), 201)
    _ok(admin.post(f"{M}/catalogs/shop/catalog-roles", json=writer), 201)
    _ok(admin.put(f"{M}/principal-roles/team/catalog-roles/shop", json=writer), 201)
    grants = f"{M}/catalogs/shop/catalog-roles/writer/grants"
    create = {"grant": {"type": "catalog", "privilege": "NAMESPACE_CREATE"}}
    _ok(admin.put(grants, json=create), 201)
    _ok(ada.post("/api/catalog/v1/shop/namespaces", json=body))
    found = _ok(admin.get(grants))["grants"]
    assert found == [{"type": "catalog", "privilege": "NAMESPACE_CREATE"}]

    def names(path: str, key: str = "roles") -> list[str]:
        return [each["name"] for each in _ok(admin.get(f"{M}/{path}"))[key]]

    assert names("principals/ada/principal-roles") == ["team"]
    assert names("principal-roles/team/principals", "principals") == ["ada"]
    assert names("principal-roles/team/catalog-roles/shop") == ["writer"]
    assert names("catalogs/shop/catalog-roles/writer/principal-roles") == ["team"]
    assert names("catalogs/shop/catalog-roles") == ["writer"]
    assert names("principal-roles") == ["team"]

    _ok(admin.post(grants, json=create), 201)
    other = {"namespace": ["m"]}
    assert ada.post("/api/catalog/v1/shop/namespaces", json=other).status_code == 403
    _ok(admin.put(grants, json=create), 201)
    _ok(admin.delete(f"{M}/principal-roles/team/catalog-roles/shop/writer"), 204)
    assert ada.post("/api/catalog/v1/shop/namespaces", json=other).status_code == 403
    _ok(admin.delete(f"{M}/principals/ada/principal-roles/team"), 204)
    assert names("principals/ada/principal-roles") == []


def test_a_privilege_that_would_be_wider_is_refused(admin: ServiceClient, tmp_path: Path) -> None:
    _catalog(admin, tmp_path)
    _ok(admin.post("/iceberg/v1/shop/namespaces", json={"namespace": ["n"]}))
    role = {"catalogRole": {"name": "r"}}
    _ok(admin.post(f"{M}/catalogs/shop/catalog-roles", json=role), 201)
    grants = f"{M}/catalogs/shop/catalog-roles/r/grants"
    wide = {"type": "namespace", "namespace": ["n"], "privilege": "VIEW_DROP"}
    assert admin.put(grants, json={"grant": wide}).status_code == 400
    own = {"type": "namespace", "namespace": ["n"], "privilege": "drop"}
    _ok(admin.put(grants, json={"grant": own}), 201)
    assert _ok(admin.get(grants))["grants"] == [own]
    missing = {"type": "table", "namespace": ["n"], "tableName": "t", "privilege": "TABLE_DROP"}
    assert admin.put(grants, json={"grant": missing}).status_code == 404


def test_secrets_are_rotated_and_entities_changed(service: Service, admin: ServiceClient) -> None:
    made = _ok(admin.post(f"{M}/principals", json={"principal": {"name": "ada"}}), 201)
    fresh = _ok(admin.post(f"{M}/principals/ada/rotate"))
    assert fresh["credentials"]["clientSecret"] != made["credentials"]["clientSecret"]
    _log_in(service, fresh["credentials"])
    now = _ok(admin.get(f"{M}/principals/ada"))
    assert "secrets" not in str(now)
    change = {"currentEntityVersion": now["entityVersion"], "properties": {"a": "1"}}
    assert _ok(admin.put(f"{M}/principals/ada", json=change))["properties"] == {"a": "1"}
    assert admin.put(f"{M}/principals/ada", json=change).status_code == 409
    names = [each["name"] for each in _ok(admin.get(f"{M}/principals"))["principals"]]
    assert names == ["ada"]
    _ok(admin.delete(f"{M}/principals/ada"), 204)
    assert admin.get(f"{M}/principals/ada").status_code == 404


def test_only_those_who_may_manage_do(
    service: Service, admin: ServiceClient, tmp_path: Path
) -> None:
    _catalog(admin, tmp_path)
    operator = client_of(service, tokens_of(service)[ServiceRole.OPERATOR])
    made = _ok(admin.post(f"{M}/principals", json={"principal": {"name": "eve"}}), 201)
    eve = _log_in(service, made["credentials"])
    for client in (operator, eve):
        for route in MANAGEMENT:
            path = route.template.replace("{catalog}", "shop").replace("{principal}", "eve")
            path = path.replace("{principal-role}", "r").replace("{catalog-role}", "r")
            assert client.request(route.method, f"/api{path}").status_code == 403, path
    catalogs = open_catalogs(service.app, None)
    principal = catalogs.principals.get(("eve",))
    catalog = catalogs.open("shop")
    manage = [Privilege.MANAGE_ACCESS]
    catalog.grants.grant(entity_ref(catalog.definition), entity_ref(principal), manage)
    _ok(eve.get(f"{M}/catalogs/shop/catalog-roles"))
    assert eve.get(f"{M}/principals").status_code == 403
    assert eve.get(f"{M}/catalogs/other/catalog-roles").status_code == 403
    catalogs.grants.grant(REALM, entity_ref(principal), [Privilege.MANAGE_REALM])
    _ok(eve.get(f"{M}/principals"))


@pytest.mark.parametrize("value", [None, 1, "x", [None], {"a": [1]}])
def test_wrong_bodies_are_refused(admin: ServiceClient, tmp_path: Path, value: object) -> None:
    _catalog(admin, tmp_path)
    bodies = [value, {"catalog": value}, {"principal": {"name": value}}, {"grant": value}]
    bodies += [{"principalRole": value}, {"catalogRole": value}, {"currentEntityVersion": value}]
    for route in MANAGEMENT:
        if route.method in ("POST", "PUT"):
            path = route.template.replace("{catalog}", "shop")
            for body in bodies:
                status = admin.request(route.method, f"/api{path}", json=body).status_code
                assert status < 500, (path, body)
