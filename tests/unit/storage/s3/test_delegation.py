"""Requests that are signed for others, and those that must not be."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import httpx
import pytest

from lakesweep.errors import DeniedError
from lakesweep.storage.address import parse
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.s3.delegation import S3Scope, UnsignedRequest, policy_of, scope_of, sign
from lakesweep.storage.s3.xml_bodies import delete_body
from tests.servers import S3Server

OPTIONS = StorageOptions(
    endpoint="http://s3.test:9000", access_key_id="k", secret_access_key="s", region="r"
)
SCOPE = S3Scope("lake", ("shop/t/",), OPTIONS, may_write=True)
ORIGIN = "http://s3.test:9000/lake"


@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("GET", f"{ORIGIN}/shop/t/data/a.parquet"),
        ("HEAD", f"{ORIGIN}/shop/t/a%20b"),
        ("GET", "http://lake.s3.test:9000/shop/t/a"),
        ("GET", f"{ORIGIN}?list-type=2&prefix=shop/t/data"),
        ("PUT", f"{ORIGIN}/shop/t/a?partNumber=1&uploadId=x"),
        ("POST", f"{ORIGIN}/shop/t/a?uploads"),
        ("DELETE", f"{ORIGIN}/shop/t/a"),
    ],
)
def test_what_lies_in_the_table_is_signed(method: str, uri: str) -> None:
    assert sign(UnsignedRequest(method, uri), SCOPE)["Authorization"]
    if method in ("PUT", "POST", "DELETE"):
        with pytest.raises(DeniedError):
            sign(UnsignedRequest(method, uri), replace(SCOPE, may_write=False))


@pytest.mark.parametrize(
    ("method", "uri"),
    [
        ("GET", f"{ORIGIN}/shop/t2/a"),
        ("GET", f"{ORIGIN}/shop/t"),
        ("GET", f"{ORIGIN}/shop/t/../u/a"),
        ("GET", f"{ORIGIN}/shop/t/%2e%2e/u/a"),
        ("GET", "http://s3.test:9000/other/shop/t/a"),
        ("GET", "http://evil.test/lake/shop/t/a"),
        ("GET", "https://s3.test:9000/lake/shop/t/a"),
        ("GET", "http://s3.test:9000@evil.test/lake/shop/t/a"),
        ("GET", f"{ORIGIN}"),
        ("GET", f"{ORIGIN}?list-type=2"),
        ("GET", f"{ORIGIN}?list-type=2&prefix=shop/"),
        ("GET", f"{ORIGIN}?prefix=shop/t/"),
        ("PUT", f"{ORIGIN}/shop/t/a?acl"),
        ("PUT", f"{ORIGIN}?policy"),
        ("DELETE", f"{ORIGIN}"),
        ("PATCH", f"{ORIGIN}/shop/t/a"),
    ],
)
def test_nothing_else_is_signed(method: str, uri: str) -> None:
    with pytest.raises(DeniedError):
        sign(UnsignedRequest(method, uri), SCOPE)


@pytest.mark.parametrize(
    "headers",
    [
        {"x-amz-copy-source": ["/lake/shop/u/a"]},
        {"X-Amz-Copy-Source": ["other/shop/t/a"]},
        {"x-amz-acl": ["public-read"]},
        {"x-amz-grant-read": ["everyone"]},
    ],
)
def test_headers_reach_no_further(headers: dict[str, list[str]]) -> None:
    with pytest.raises(DeniedError):
        sign(UnsignedRequest("PUT", f"{ORIGIN}/shop/t/a", headers), SCOPE)


def test_a_deletion_of_many_is_bound_to_its_keys() -> None:
    uri = f"{ORIGIN}?delete"
    body = delete_body(["shop/t/a", "shop/t/b"]).decode()
    claimed = {"x-amz-content-sha256": ["0" * 64]}
    signed = sign(UnsignedRequest("POST", uri, claimed, body), SCOPE)
    assert signed["X-Amz-Content-SHA256"] == [sha256(body.encode()).hexdigest()]
    outside = delete_body(["shop/t/a", "shop/u/b"]).decode()
    for wrong in (outside, "", "<Delete></Delete>", "<!DOCTYPE x>" + body, "no xml"):
        with pytest.raises(DeniedError):
            sign(UnsignedRequest("POST", uri, {}, wrong), SCOPE)


def test_scopes_are_folders_of_one_bucket() -> None:
    found = scope_of([parse("s3://lake/a/t"), parse("s3a://lake/a/m/")], OPTIONS, may_write=False)
    assert found is not None
    assert found.prefixes == ("a/m/", "a/t/")
    assert scope_of([parse("s3://lake/a"), parse("s3://pool/a")], OPTIONS, may_write=False) is None
    assert scope_of([parse("s3://lake/")], OPTIONS, may_write=False) is None
    actions = policy_of(found)["Statement"][0]["Action"]
    assert "s3:PutObject" not in actions


def test_a_server_takes_the_signature(rclone: S3Server) -> None:
    bucket = rclone.make_bucket("lake")
    scope = S3Scope(bucket, ("t/",), rclone.options(), may_write=True)
    uri = f"{rclone.endpoint}/{bucket}/t/a%20b"
    _send(scope, "PUT", uri, b"hello")
    assert _send(scope, "GET", uri, b"").content == b"hello"
    assert _send(scope, "GET", uri, b"", date="20200101T000000Z").status_code in (400, 403)


def _send(scope: S3Scope, method: str, uri: str, content: bytes, date: str = "") -> httpx.Response:
    """Send a request with the headers that it was given, and perhaps another date."""
    asked = {"x-amz-content-sha256": [sha256(content).hexdigest()]}
    signed = sign(UnsignedRequest(method, uri, asked), scope)
    headers = {name.lower(): values[0] for name, values in signed.items()}
    changed = {"x-amz-date": date} if date else {}
    return httpx.request(method, uri, headers={**headers, **changed}, content=content)
