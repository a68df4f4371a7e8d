"""How clients reach the files of tables: keys from STS, signed requests, handed-out settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from lakesweep.operations.catalogs.views import open_catalogs
from lakesweep.server.application import Service
from tests.servers import S3Server
from tests.service import client_of, make_service

ROLE = "arn:aws:iam::123456789012:role/lake"
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "a", "type": "long", "required": True}]}
ASKS = {"x-iceberg-access-delegation": "vended-credentials,remote-signing"}
_TABLE = "/iceberg/v1/shop/namespaces/n/tables/t"


def _service(folder: Path, server: S3Server, bucket: str, **properties: str) -> Service:
    options = {
        "endpoint": server.endpoint,
        "region": server.region,
        "access_key_id": server.access_key_id,
        "secret_access_key": server.secret_access_key,
    }
    service = make_service(folder, storage={f"s3://{bucket}": options})
    catalogs = open_catalogs(service.app, None)
    catalogs.create("shop", location=f"s3://{bucket}/shop", properties=properties)
    client = client_of(service)
    assert client.post("/iceberg/v1/shop/namespaces", json={"namespace": ["n"]}).status_code == 200
    return service


def _create(service: Service) -> dict[str, Any]:
    path, body = "/iceberg/v1/shop/namespaces/n/tables", {"name": "t", "schema": SCHEMA}
    answer = client_of(service).post(path, json=body, headers=ASKS)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_keys_are_vended(moto: S3Server, tmp_path: Path) -> None:
    bucket = moto.make_bucket("vended")
    given = {"storage-access": "sts", "storage-role": ROLE, "config.s3.connect-timeout": "7"}
    service = _service(tmp_path, moto, bucket, **given)
    table = _create(service)
    (vended,) = table["storage-credentials"]
    assert vended["prefix"] == f"s3://{bucket}/"
    assert vended["config"].items() <= table["config"].items()
    assert {"s3.session-token", "s3.session-token-expires-at-ms"} < vended["config"].keys()
    assert vended["config"]["s3.access-key-id"] != moto.access_key_id
    assert table["config"]["s3.endpoint"] == moto.endpoint
    assert table["config"]["s3.connect-timeout"] == "7"
    client = client_of(service)
    again = client.get(f"{_TABLE}/credentials").json()["storage-credentials"]
    assert again == [vended]  # shared for half of their life
    plain = client.get(_TABLE)
    assert "storage-credentials" not in plain.json()  # nobody asked
    asked = client.get(_TABLE, headers=ASKS)
    assert asked.headers["etag"] != plain.headers["etag"]
    config = client.get("/iceberg/v1/config", params={"warehouse": "shop"}).json()
    assert config["defaults"]["s3.connect-timeout"] == "7"


def test_requests_are_signed(rclone: S3Server, tmp_path: Path) -> None:
    bucket = rclone.make_bucket("signed")
    service = _service(tmp_path, rclone, bucket, **{"storage-access": "sign"})
    table = _create(service)
    assert table["config"]["s3.remote-signing-enabled"] == "true"
    assert "storage-credentials" not in table
    signer = f"/iceberg/{table['config']['s3.signer.endpoint']}"
    uri = table["metadata-location"].replace("s3://", f"{rclone.endpoint}/")
    request = {"region": "us-east-1", "uri": uri, "method": "GET", "headers": {}}
    signed = client_of(service).post(signer, json=request)
    assert signed.status_code == 200, signed.text
    assert signed.headers["cache-control"] == "private"
    headers = {name: values[0] for name, values in signed.json()["headers"].items()}
    assert httpx.get(uri, headers=headers).json() == table["metadata"]
    other = {**request, "uri": f"{rclone.endpoint}/{bucket}/shop/other"}
    assert client_of(service).post(signer, json=other).status_code == 403


@pytest.mark.parametrize("way", ["none", "sts", "sign"])
def test_other_places_get_nothing(moto: S3Server, tmp_path: Path, way: str) -> None:
    """A table outside of what its catalog allows now has no access handed out."""
    bucket = moto.make_bucket(f"outside-{way}")
    service = _service(tmp_path, moto, bucket, **{"storage-access": way, "storage-role": ROLE})
    _create(service)
    catalogs = open_catalogs(service.app, None)
    shop = catalogs.open("shop")
    location = f"s3://{bucket}/elsewhere"
    catalogs.update(shop, location=location, properties=shop.definition.properties)
    client = client_of(service)
    loaded = client.get(_TABLE, headers=ASKS)
    assert (loaded.status_code, loaded.json()["config"]) == (200, {})
    assert client.get(f"{_TABLE}/credentials").json() == {"storage-credentials": []}
    request = {"uri": f"{moto.endpoint}/{bucket}/shop/x", "method": "GET", "headers": {}}
    assert client.post(f"{_TABLE}/sign", json=request).status_code == 403
