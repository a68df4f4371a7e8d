"""Dropped tables: listed, and brought back, by the API that the REST catalog dropped them under."""

from __future__ import annotations

from pathlib import Path

from lakesweep.operations.catalogs.views import open_catalogs
from tests.service import client_of, make_service

SCHEMA = {"type": "struct", "fields": []}
API = "/api/v1/catalogs/shop"
TABLES = "/iceberg/v1/shop/namespaces/n.1/tables"


def test_a_purged_table_comes_back(tmp_path: Path) -> None:
    service = make_service(tmp_path)
    open_catalogs(service.app, None).create("shop", location=f"file://{tmp_path}/shop")
    client = client_of(service)
    client.post("/iceberg/v1/shop/namespaces", json={"namespace": ["n.1"]})
    made = client.post(TABLES, json={"name": "t", "schema": SCHEMA}).json()
    gone = client.request("DELETE", f"{TABLES}/t?purgeRequested=true")
    assert gone.status_code == 204
    assert client.get(f"{TABLES}/t").status_code == 404
    (line,) = client.get(f"{API}/dropped").json()["dropped"]
    assert line["name"] == 'shop."n.1".t'
    # Another one of the same name does not stand in the way of another name.
    client.post(TABLES, json={"name": "t", "schema": SCHEMA})
    body = {"name": ["n.1", "t"], "to": ["n.1", "back"], "id": line["id"]}
    back = client.post(f"{API}:undrop", json=body)
    assert back.status_code == 200, back.text
    assert back.json()["id"] == line["id"]
    found = client.get(f"{TABLES}/back").json()
    assert found["metadata-location"] == made["metadata-location"]
    assert client.get(f"{API}/dropped").json()["dropped"] == []
    assert client.post(f"{API}:undrop", json=body).status_code == 404
    assert client.post(f"{API}:undrop", json={**body, "id": "x"}).status_code == 400
    assert client.get("/api/v1/catalogs/none/dropped").status_code == 404
