"""The contract of object stores, on every server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakesweep.storage.azure import listing as azure_listing
from lakesweep.storage.contract import CHECKS, EXACT_KEYS, Subject
from lakesweep.storage.google import listing as google_listing
from tests.clouds.servers import Cloud

# Azure takes dots for steps in a path and a backslash for a slash. Azurite does not say that it has
# no real folders, so keys with empty segments are refused too.
_PATHS = {"a//b", "/lead", "trail/", "x/./y", "x/../y", "x/y/"}
_MISSING = {
    "azurite": {*_PATHS, "back\\slash"},
    "fake-gcs-server": {"line\nfeed"},
    "minio": {"a//b", "/lead", "x/./y", "x/../y"},
    "versitygw": _PATHS,
}


@pytest.fixture
def subject(
    cloud: Cloud, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Subject:
    # Several pages need not be large ones.
    for listing in (azure_listing, google_listing):
        monkeypatch.setattr(listing, "PAGE_ROWS", 100)
    name = request.node.callspec.params["cloud"]
    keys = [key for key in EXACT_KEYS if key not in _MISSING[name]]
    return Subject(
        cloud.store(cloud.make_bucket()),
        keys=keys,
        # Both keep objects as files: they take `/lead` for `lead`, and Versity's gateway refuses
        # `x/y` beside `x`, which MinIO stores but does not list.
        loses_keys=name in ("minio", "versitygw"),
        nests=name not in ("minio", "versitygw"),
        many=350 if name in ("azurite", "fake-gcs-server") else 1_100,
    )


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_store(subject: Subject, check: Callable[[Subject], None]) -> None:
    check(subject)
