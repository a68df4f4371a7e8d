"""What obstore hides of a bucket's keys, on a real server: the guard must find it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

import pytest
from obstore.store import S3Store

from lakesweep.errors import InexactKeyError
from lakesweep.storage.cloud.store import Clients, CloudStore, open_memory
from lakesweep.storage.contract import pages_of
from lakesweep.storage.object_store import StorageCapabilities
from tests.servers import S3Server

_NUMBERS = count()

Open = Callable[[Mapping[str, bytes]], CloudStore]


@pytest.fixture(params=[True, False], ids=["ordered", "unordered"])
def open_holding(moto: S3Server, request: pytest.FixtureRequest) -> Open:
    """Gives a store through obstore that holds exactly these objects, put there by boto3."""

    def open_holding(objects: Mapping[str, bytes]) -> CloudStore:
        bucket = moto.make_bucket(f"inexact-{next(_NUMBERS)}")
        for key, data in objects.items():
            moto.boto3().put_object(Bucket=bucket, Key=key, Body=data)
        client = S3Store(
            bucket,
            endpoint=moto.endpoint,
            region=moto.region,
            access_key_id=moto.access_key_id,
            secret_access_key=moto.secret_access_key,
            client_options={"allow_http": True},
        )
        capabilities = StorageCapabilities(1000, ordered=request.param)
        return CloudStore(
            Clients(client, client), f"s3://{bucket}/", capabilities, (open_memory, ("unused",))
        )

    return open_holding


def keys_of(store: CloudStore, prefix: str = "", after: str = "") -> list[str]:
    pages = pages_of(store, prefix, after=after)
    return [key for page in pages for key in page.entries.column("key").to_pylist()]


@pytest.mark.parametrize(
    ("objects", "named"),
    [
        pytest.param({"a": b"1", "trail/": b""}, "trail/", id="empty marker"),
        pytest.param({"trail/": b""}, "trail/", id="only a marker"),
        pytest.param({"trail/": b"1", "trail/x": b"1"}, "trail/", id="marker with bytes"),
        pytest.param({"trail": b"1", "trail/": b"1"}, "trail", id="marker beside look-alike"),
        pytest.param(
            {"trail": b"1", "trail-x": b"1", "trail/": b"1"}, "trail", id="marker out of order"
        ),
        pytest.param({"/lead": b"1", "z": b"1"}, "/lead", id="leading slash"),
        pytest.param({"!": b"1", "/lead": b"1"}, "/lead", id="leading slash behind a mark"),
        pytest.param({"a//b": b"1"}, "a//b", id="double slash"),
        pytest.param({"x/./y": b"1"}, "x/./y", id="dot segment"),
        pytest.param({"tab\there": b"1"}, "tab\there", id="tab"),
    ],
)
def test_a_listing_stops_at_a_key_that_it_cannot_name(
    open_holding: Open, objects: Mapping[str, bytes], named: str
) -> None:
    store = open_holding(objects)
    with pytest.raises(InexactKeyError) as caught:
        keys_of(store)
    assert caught.value.path == store.base + named


@pytest.mark.parametrize("one_level", [True, False])
def test_the_marker_of_the_listed_folder_itself_is_found(
    open_holding: Open, one_level: bool
) -> None:
    store = open_holding({"t/": b"", "t/x": b"1"})
    with pytest.raises(InexactKeyError, match=r"/t/: "):
        list(pages_of(store, "t/", one_level=one_level))


def test_keys_with_a_leading_slash_are_found_in_one_level(open_holding: Open) -> None:
    store = open_holding({"/lead": b"1", "z": b"1"})
    with pytest.raises(InexactKeyError):
        list(pages_of(store, "", one_level=True))


def test_ordinary_keys_raise_no_alarm(open_holding: Open) -> None:
    objects = {"_SUCCESS": b"", "a": b"1", "a-b": b"", "a/b": b"", "a/c/d": b"1", "b/_SUCCESS": b""}
    store = open_holding(objects)
    assert sorted(keys_of(store)) == sorted(objects)
    assert sorted(keys_of(store, after="a")) == ["a-b", "a/b", "a/c/d", "b/_SUCCESS"]


def test_what_is_not_seen_is_at_least_not_deleted(open_holding: Open, moto: S3Server) -> None:
    """The one gap: an object `trail/` with bytes and nothing below. Its look-alike is nothing."""
    store = open_holding({"a": b"1", "trail/": b"1"})
    assert keys_of(store) == ["a", "trail"]
    store.delete(["trail"])
    bucket = store.base.removeprefix("s3://").removesuffix("/")
    left = moto.boto3().list_objects_v2(Bucket=bucket)["Contents"]
    assert [entry["Key"] for entry in left] == ["a", "trail/"]
