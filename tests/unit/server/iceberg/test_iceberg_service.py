"""The protocol as such: envelopes, codes, names, access, and bodies that nobody should send."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from lakesweep.catalog import Catalog
from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.catalog.grants import Privilege, entity_ref
from lakesweep.operations.catalogs.views import open_catalogs
from lakesweep.server.application import Service
from lakesweep.server.iceberg.routes import ENDPOINTS, ROUTES
from tests.service import ServiceClient, client_of, make_service, tokens_of

SCHEMA = {
    "type": "struct",
    "fields": [{"id": 7, "name": "id", "type": "long", "required": True}],
}


@pytest.fixture
def service(tmp_path: Path) -> Service:
    service = make_service(tmp_path)
    _catalog(service, tmp_path)
    return service


def _catalog(service: Service, folder: Path) -> Catalog:
    return open_catalogs(service.app, None).create("shop", location=f"file://{folder}/shop")


@pytest.fixture
def client(service: Service) -> ServiceClient:
    return client_of(service)


def _url(path: str = "") -> str:
    return f"/iceberg/v1/shop{path}"


def _namespace(client: ServiceClient, *parts: str, **properties: str) -> str:
    body = {"namespace": parts, "properties": properties}
    assert client.post(_url("/namespaces"), json=body).status_code == 200
    return _url(f"/namespaces/{quote(chr(31).join(parts), safe='')}")


def _table(client: ServiceClient, namespace: str, name: str = "t", **more: Any) -> dict[str, Any]:
    body = {"name": name, "schema": SCHEMA, **more}
    answer = client.post(f"{namespace}/tables", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def _is_refused(answer: httpx.Response, status: int, type_: str, text: str = "") -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["type"]) == (status, type_)
    assert text in error["message"]


def test_clients_are_told_of_all_endpoints(client: ServiceClient) -> None:
    found = client.get("/iceberg/v1/config", params={"warehouse": "shop"}).json()
    assert found["endpoints"] == list(ENDPOINTS)
    assert len(ENDPOINTS) == len(ROUTES) - 2
    assert all(len(each.split(" ")) == 2 for each in ENDPOINTS)
    assert found["overrides"]["prefix"].isdigit()
    by_id = f"/iceberg/v1/{found['overrides']['prefix']}/namespaces"
    assert client.get(by_id).json() == {"namespaces": [], "next-page-token": None}
    _is_refused(client.get("/iceberg/v1/config"), 400, "BadRequestException")
    missing = client.get("/iceberg/v1/config", params={"warehouse": "x"})
    _is_refused(missing, 404, "NoSuchWarehouseException")


def test_every_error_has_the_envelope(client: ServiceClient) -> None:
    _is_refused(client.get("/iceberg"), 404, "NotFoundException")
    _is_refused(client.get("/iceberg/v1/shop/what"), 404, "NotFoundException")
    _is_refused(client.put(_url("/namespaces")), 405, "BadRequestException", "GET, POST")
    _is_refused(client.get("/iceberg/v1/no/namespaces"), 404, "NoSuchWarehouseException")
    _is_refused(client.get(_url("/namespaces/%ff")), 400, "BadRequestException")
    _is_refused(client.get(_url("/namespaces/%01")), 400, "BadRequestException")
    absent = client.get(_url("/namespaces/a/tables/t"))
    _is_refused(absent, 404, "NoSuchTableException", "Table does not exist: a.t")
    assert client.request("HEAD", _url("/namespaces/a")).status_code == 404
    assert client.request("HEAD", _url("/namespaces/a")).content == b""


def _nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


@pytest.mark.parametrize("value", [None, 1, "x", [None], {"a": [1]}])
def test_wrong_bodies_are_refused(client: ServiceClient, value: object) -> None:
    namespace = _namespace(client, "n")
    _table(client, namespace)
    bodies = [value, *({each: value} for each in ("name", "updates", "requirements", "source"))]
    bodies += [
        {"name": "x", "schema": value},
        {"name": "x", "schema": {**SCHEMA, "fields": value}},
        {"name": "x", "schema": {"type": "struct", "fields": [{"id": value, "name": "a"}]}},
        {"name": "x", "schema": SCHEMA, "partition-spec": {"fields": value or 1}},
        {"name": "x", "schema": SCHEMA, "write-order": {"fields": [value]}},
        {"name": "x", "schema": SCHEMA, "view-version": value},
        {"name": "x", "schema": SCHEMA, "properties": {"format-version": value}},
        {"requirements": [{"type": value}], "updates": []},
        {"updates": [{"action": "add-schema", "schema": value}]},
        {"updates": [{"action": "add-spec", "spec": {"fields": [value]}}]},
        {"updates": [{"action": "add-snapshot", "snapshot": value}]},
        {"updates": [{"action": value}]},
        {"table-changes": [{"identifier": value, "updates": []}]},
        {"namespace": value, "properties": value},
    ]
    posts = [each.template for each in ROUTES if each.method == "POST"]
    paths = [
        path.replace("{prefix}", "shop").replace("{namespace}", "n").replace("{table}", "t")
        for path in posts
    ]
    for path in paths:
        for body in bodies:
            answer = client.post(f"/iceberg{path}", content=json.dumps(body).encode())
            assert answer.status_code < 500, (path, body, answer.text)


def test_deep_and_large_bodies_are_refused(client: ServiceClient) -> None:
    namespace = _namespace(client, "n")
    for path in (f"{namespace}/tables", f"{namespace}/tables/t", _url("/namespaces")):
        for depth in (150, 5_000, 200_000):
            answer = client.post(path, content=_nested(depth))
            _is_refused(answer, 400, "BadRequestException")
    kind: Any = "long"
    for _ in range(150):
        kind = {"type": "list", "element-id": 1, "element": kind, "element-required": True}
    fields = [{"id": 7, "name": "id", "type": kind, "required": True}]
    deep = {"name": "t", "schema": {"type": "struct", "fields": fields}}
    answer = client.post(f"{namespace}/tables", json=deep)
    _is_refused(answer, 400, "IllegalArgumentException", "nested")
    large = client.post(f"{namespace}/tables", headers={"content-length": str(10**9)}, content=b"")
    _is_refused(large, 413, "BadRequestException")


def test_listings_have_pages(client: ServiceClient) -> None:
    for name in ("a", "b", "c"):
        _namespace(client, name)
    url, names = _url("/namespaces"), []
    token: str | None = ""
    while token is not None:
        page = client.get(url, params={"pageToken": token, "pageSize": "2"}).json()
        names += page["namespaces"]
        token = page["next-page-token"]
    assert names == [["a"], ["b"], ["c"]]
    assert client.get(url).json()["namespaces"] == names
    _is_refused(client.get(url, params={"pageSize": "0"}), 400, "BadRequestException")
    _is_refused(client.get(url, params={"pageToken": "!"}), 400, "BadRequestException")
    strange = client.get(url, params={"parent": "x"})
    _is_refused(strange, 404, "NoSuchNamespaceException", "Namespace does not exist: x")


def test_a_plus_is_a_space_only_if_iceberg_itself_sends_it(client: ServiceClient) -> None:
    _namespace(client, "a b")
    _namespace(client, "a+b")
    java = {"x-client-version": "Apache Iceberg 1.11.0 (commit 1)"}
    path = _url("/namespaces/a+b")
    assert client.get(path).json()["namespace"] == ["a+b"]
    assert client.get(path, headers=java).json()["namespace"] == ["a b"]
    assert client.get(_url("/namespaces/a%2Bb"), headers=java).json()["namespace"] == ["a+b"]


def test_a_transaction_commits_all_tables_or_none(client: ServiceClient) -> None:
    namespace = _namespace(client, "n")
    for name in ("t", "u"):
        _table(client, namespace, name)

    def change(name: str, schema: int, key: str) -> dict[str, Any]:
        return {
            "identifier": {"namespace": ["n"], "name": name},
            "requirements": [{"type": "assert-current-schema-id", "current-schema-id": schema}],
            "updates": [{"action": "set-properties", "updates": {key: "1"}}],
        }

    url = _url("/transactions/commit")
    lost = client.post(url, json={"table-changes": [change("t", 0, "a"), change("u", 1, "a")]})
    _is_refused(lost, 409, "CommitFailedException", "current schema changed: expected id 1 != 0")
    assert "a" not in client.get(f"{namespace}/tables/t").json()["metadata"]["properties"]
    changes = [change("t", 0, "a"), change("u", 0, "a"), change("t", 0, "b")]
    assert client.post(url, json={"table-changes": changes}).status_code == 204
    metadata = client.get(f"{namespace}/tables/t").json()["metadata"]
    assert {"a", "b"} <= metadata["properties"].keys()
    assert len(metadata["metadata-log"]) == 1
    assert "a" in client.get(f"{namespace}/tables/u").json()["metadata"]["properties"]
    _is_refused(client.post(url, json={"table-changes": []}), 400, "BadRequestException")


def test_refused_commits_leave_no_file(client: ServiceClient, tmp_path: Path) -> None:
    namespace = _namespace(client, "n")
    _table(client, namespace)
    before = sorted((tmp_path / "shop").rglob("*.json"))
    wrong = {"type": "assert-table-uuid", "uuid": "x"}
    body = {"requirements": [wrong], "updates": [{"action": "set-location", "location": "/x"}]}
    lost = client.post(f"{namespace}/tables/t", json=body)
    _is_refused(lost, 409, "CommitFailedException", "Requirement failed: UUID does not match")
    assert sorted((tmp_path / "shop").rglob("*.json")) == before


@pytest.mark.parametrize("way", ["create", "stage", "commit", "path", "register", "namespace"])
def test_tables_stay_in_the_locations_of_their_catalog(
    client: ServiceClient, tmp_path: Path, way: str
) -> None:
    namespace = _namespace(client, "n")
    made = _table(client, namespace)
    outside = f"file://{tmp_path}/shop/../elsewhere"
    posts: dict[str, tuple[str, dict[str, Any]]] = {
        "create": ("/tables", {"name": "x", "schema": SCHEMA, "location": outside}),
        "stage": (
            "/tables",
            {"name": "x", "schema": SCHEMA, "stage-create": True, "location": outside},
        ),
        "commit": ("/tables/t", _set_location(outside)),
        "path": (
            "/tables",
            {"name": "x", "schema": SCHEMA, "properties": {"write.data.path": outside}},
        ),
        "register": ("/register", {"name": "x", "metadata-location": f"{outside}/1.json"}),
        "namespace": ("/properties", {"updates": {"location": outside}}),
    }
    path, body = posts[way]
    answer = client.post(f"{namespace}{path}", json=body)
    _is_refused(answer, 400, "BadRequestException", "outside of what catalog shop allows")
    overlap = made["metadata"]["location"] + "/below"
    if way == "create":
        answer = client.post(f"{namespace}{path}", json={**body, "location": overlap})
        _is_refused(answer, 400, "BadRequestException", "overlaps")


def test_a_location_that_names_no_folder_exactly_is_the_fault_of_the_client(
    client: ServiceClient, tmp_path: Path
) -> None:
    body = {"name": "x", "schema": SCHEMA, "location": f"{tmp_path}/shop/odd//x"}
    answer = client.post(f"{_namespace(client, 'n')}/tables", json=body)
    _is_refused(answer, 400, "BadRequestException", "would name a different file")


def _set_location(location: str) -> dict[str, Any]:
    return {"updates": [{"action": "set-location", "location": location}]}


def test_a_lost_metadata_file_is_said_to_be_lost(client: ServiceClient) -> None:
    namespace = _namespace(client, "n")
    made = _table(client, namespace)
    location = made["metadata-location"]
    Path(location.removeprefix("file://")).unlink()
    answer = client.get(f"{namespace}/tables/t")
    text = f"Failed to open input stream for file: {location}"
    _is_refused(answer, 404, "NotFoundException", text)


def test_a_purge_deletes_nothing_and_is_noted(service: Service, client: ServiceClient) -> None:
    namespace = _namespace(client, "n")
    made = _table(client, namespace)
    answer = client.delete(f"{namespace}/tables/t", params={"purgeRequested": "True"})
    assert answer.status_code == 204
    assert Path(made["metadata-location"].removeprefix("file://")).exists()
    catalog = open_catalogs(service.app, None).open("shop")
    ((_, dropped),) = catalog.dropped()
    (table,) = catalog.snapshot().load_dropped([dropped])
    assert table.properties == {"purge-requested": "true"}
    again = client.delete(f"{namespace}/tables/t")
    _is_refused(again, 404, "NoSuchTableException", "Table does not exist: n.t")


def test_views_are_replaced_by_whoever_comes_last(client: ServiceClient) -> None:
    namespace = _namespace(client, "n")

    def version(number: int, sql: str) -> dict[str, Any]:
        return {
            "version-id": number,
            "timestamp-ms": 1,
            "schema-id": 0,
            "summary": {},
            "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
            "default-namespace": ["n"],
        }

    body = {"name": "v", "schema": SCHEMA, "view-version": version(1, "a"), "properties": {}}
    made = client.post(f"{namespace}/views", json=body).json()
    assert made["metadata-location"].endswith(".gz.metadata.json")
    assert made["metadata"]["schemas"][0]["fields"][0]["id"] == 7
    taken = client.post(f"{namespace}/views", json=body)
    _is_refused(taken, 409, "AlreadyExistsException", "View already exists: n.v")
    for sql in ("b", "c"):
        updates = [
            {"action": "add-view-version", "view-version": version(2, sql)},
            {"action": "set-current-view-version", "view-version-id": -1},
        ]
        asserted = [{"type": "assert-view-uuid", "uuid": made["metadata"]["view-uuid"]}]
        given = {"requirements": asserted, "updates": updates}
        answer = client.post(f"{namespace}/views/v", json=given)
        assert answer.status_code == 200, answer.text
    assert client.get(f"{namespace}/views/v").json()["metadata"]["current-version-id"] == 3
    _table(client, namespace)
    names = {"source": {"namespace": ["n"], "name": "v"}}
    clash = client.post(
        _url("/views/rename"), json={**names, "destination": {"namespace": ["n"], "name": "t"}}
    )
    text = "Cannot rename n.v to n.t. Table already exists"
    _is_refused(clash, 409, "AlreadyExistsException", text)
    moved = {**names, "destination": {"namespace": ["n"], "name": "w"}}
    assert client.post(_url("/views/rename"), json=moved).status_code == 204
    assert client.get(f"{namespace}/views").json()["identifiers"] == [
        {"namespace": ["n"], "name": "w"}
    ]


def test_roles_of_the_service_read_or_write(service: Service) -> None:
    tokens = tokens_of(service)
    viewer, operator = (client_of(service, tokens[each]) for each in list(ServiceRole)[:2])
    nobody = client_of(service)
    _is_refused(nobody.get(_url("/namespaces")), 401, "NotAuthorizedException")
    namespace = _namespace(operator, "n")
    _table(operator, namespace)
    assert viewer.get(f"{namespace}/tables/t").status_code == 200
    refused = viewer.post(_url("/namespaces"), json={"namespace": ["m"]})
    _is_refused(refused, 403, "ForbiddenException", "create-namespace")


def test_principals_do_what_they_were_granted(service: Service) -> None:
    operator = client_of(service, tokens_of(service)[ServiceRole.OPERATOR])
    mine, theirs = _namespace(operator, "mine"), _namespace(operator, "theirs")
    _table(operator, mine)
    _table(operator, theirs)
    catalogs = open_catalogs(service.app, None)
    principal, secret = catalogs.principals.create("ann")
    catalog = catalogs.open("shop")
    found = catalog.snapshot(fresh=True).get(("mine",))
    catalog.grants.grant(
        entity_ref(found, catalog.id), entity_ref(principal), [Privilege.READ_METADATA]
    )
    form = {
        "grant_type": "client_credentials",
        "client_id": secret.client_id,
        "client_secret": secret.secret,
        "scope": "catalog",
    }
    url = "/iceberg/v1/oauth/tokens"
    answer = client_of(service).post(url, data=form)
    assert answer.json()["token_type"] == "bearer"
    ann = client_of(service, answer.json()["access_token"])
    assert ann.get(f"{mine}/tables/t").status_code == 200
    assert ann.get(f"{mine}/tables/absent").status_code == 404
    for path in (f"{theirs}/tables/t", f"{theirs}/tables/absent", _url("/namespaces")):
        _is_refused(ann.get(path), 403, "ForbiddenException")
    _is_refused(ann.delete(f"{mine}/tables/t"), 403, "ForbiddenException", "drop")
    assert ann.get("/api/v1/lakes").status_code == 403

    basic = base64.b64encode(f"{secret.client_id}:{secret.secret}".encode()).decode()
    header = {"authorization": f"Basic {basic}"}
    grant = {"grant_type": "client_credentials"}
    assert client_of(service).post(url, data=grant, headers=header).status_code == 200
    wrong = client_of(service).post(url, data={**form, "client_secret": "no"})
    assert (wrong.status_code, wrong.json()["error"]) == (401, "invalid_client")
    other = client_of(service).post(url, data={"grant_type": "password"})
    assert (other.status_code, other.json()["error"]) == (400, "unsupported_grant_type")


KEY = {"idempotency-key": "01990000-0000-7000-8000-000000000001"}
OTHER_KEY = {"idempotency-key": "01990000-0000-7000-8000-000000000002"}


def test_a_request_that_is_sent_again_is_carried_out_once(client: ServiceClient) -> None:
    body = {"namespace": ["n"], "properties": {"a": "1"}}
    made = [client.post(_url("/namespaces"), json=body, headers=KEY) for _ in range(2)]
    assert [each.status_code for each in made] == [200, 200]
    assert made[0].json() == made[1].json()
    namespace = _url("/namespaces/n")
    table = {"name": "t", "schema": SCHEMA}
    made = [client.post(f"{namespace}/tables", json=table, headers=OTHER_KEY) for _ in range(2)]
    assert [each.status_code for each in made] == [200, 200]
    assert made[0].content == made[1].content
    update = {"updates": [{"action": "set-properties", "updates": {"x": "1"}}]}
    key = {"idempotency-key": "01990000-0000-7000-8000-000000000003"}
    made = [client.post(f"{namespace}/tables/t", json=update, headers=key) for _ in range(2)]
    assert made[0].json()["metadata-location"] == made[1].json()["metadata-location"]
    changes = {"removals": ["a", "b"], "updates": {"c": "1"}}
    key = {"idempotency-key": "01990000-0000-7000-8000-000000000004"}
    path = f"{namespace}/properties"
    made = [client.post(path, json=changes, headers=key) for _ in range(2)]
    assert [each.json()["removed"] for each in made] == [["a"], ["a"]]
    key = {"idempotency-key": "01990000-0000-7000-8000-000000000005"}
    for _ in range(2):
        assert client.delete(f"{namespace}/tables/t", headers=key).status_code == 204
    assert client.delete(f"{namespace}/tables/t").status_code == 404


def test_a_key_is_for_one_request(client: ServiceClient) -> None:
    _namespace(client, "n")
    for name, status in (("a", 200), ("b", 422)):
        body = {"name": name, "schema": SCHEMA}
        answer = client.post(_url("/namespaces/n/tables"), json=body, headers=KEY)
        assert answer.status_code == status
    bad = {"idempotency-key": "x"}
    answer = client.post(_url("/namespaces"), json={"namespace": ["m"]}, headers=bad)
    _is_refused(answer, 400, "BadRequestException", "UUID")


@pytest.mark.parametrize("name", ["write.metadata.path", "write.data.path"])
def test_a_table_may_not_write_into_the_location_of_another(
    client: ServiceClient, name: str
) -> None:
    namespace = _namespace(client, "n")
    other = _table(client, namespace, "other")["metadata"]["location"]
    own = _table(client, namespace, "own")
    for place in (f"{other}/metadata", f"{other}//data", other.rpartition("/")[0]):
        answer = client.post(
            f"{namespace}/tables",
            json={"name": "new", "schema": SCHEMA, "properties": {name: place}},
        )
        _is_refused(answer, 400, "BadRequestException", "overlaps the location of another table")
        update = {"action": "set-properties", "updates": {name: place}}
        answer = client.post(f"{namespace}/tables/own", json={"updates": [update]})
        _is_refused(answer, 400, "BadRequestException", "overlaps the location of another table")
    place = own["metadata"]["location"] + "/elsewhere"
    update = {"action": "set-properties", "updates": {name: place}}
    assert client.post(f"{namespace}/tables/own", json={"updates": [update]}).status_code == 200


def test_no_metadata_is_written_that_would_pass_for_that_of_another_table(
    client: ServiceClient,
) -> None:
    """A table that only its files tell of: the catalog must not take its place."""
    namespace = _namespace(client, "n")
    lost = _table(client, namespace, "lost")["metadata"]
    assert client.delete(f"{namespace}/tables/lost").status_code == 204
    folder = Path(lost["location"].removeprefix("file://")) / "metadata"
    before = sorted(folder.iterdir())
    first = _staged(client, namespace)
    updates = [
        {"action": "assign-uuid", "uuid": lost["table-uuid"]},
        {"action": "set-location", "location": lost["location"]},
        *first,
    ]
    answer = client.post(f"{namespace}/tables/new", json=_creation(updates))
    _is_refused(answer, 400, "BadRequestException", "another table that has the same id")
    assert sorted(folder.iterdir()) == before
    updates[0] = {"action": "assign-uuid", "uuid": "5c2f9b1e-0a1b-4c2d-8e3f-0123456789ab"}
    assert client.post(f"{namespace}/tables/new", json=_creation(updates)).status_code == 200


def _staged(client: ServiceClient, namespace: str) -> list[dict[str, Any]]:
    """The updates with which a client ends the creation of a table."""
    body = {"name": "new", "schema": SCHEMA, "stage-create": True}
    made = client.post(f"{namespace}/tables", json=body).json()["metadata"]
    return [
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": made["schemas"][0], "last-column-id": 1},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": made["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": made["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]


def _creation(updates: list[dict[str, Any]]) -> dict[str, Any]:
    return {"requirements": [{"type": "assert-create"}], "updates": updates}
