"""Batches of deletes: an outcome for each key, and nothing deleted that changed."""

from __future__ import annotations

import pytest

from lakesweep.errors import DeniedError, MissingError
from lakesweep.storage.azure.store import AzureStore
from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.object_store import Outcome, expected_of
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.stores import Stores
from tests.clouds.servers import Cloud

_BATCHING = pytest.mark.parametrize("cloud", ["azurite", "fake-gcs-server"], indirect=True)


@_BATCHING
def test_a_full_batch_has_an_outcome_for_each_key(cloud: Cloud) -> None:
    store = cloud.store(cloud.make_bucket())
    keys = [f"k{number:03} é%2F" for number in range(store.capabilities.delete_batch)]
    for key in keys[::2]:
        store.write(key, b"x")
    outcomes = [deletion.outcome for deletion in store.delete(keys)]
    assert outcomes == [Outcome.DELETED, Outcome.ABSENT] * (len(keys) // 2)
    assert store.list("").entries.num_rows == 0


@_BATCHING
def test_what_changed_since_the_listing_is_kept(cloud: Cloud) -> None:
    base = cloud.make_bucket()
    store, stores = cloud.store(base), Stores({base: cloud.options})
    for name in ("a", "b", "c"):
        store.write(f"t/{name}", b"old")
    listed = list(list_files(stores, f"{base}t"))
    store.write("t/b", b"new")
    (outcomes,) = delete_files(stores, listed, verify=True)
    assert outcomes["outcome"].to_pylist() == ["deleted", "changed", "deleted"]
    assert store.read("t/b") == b"new"


@_BATCHING
def test_objects_listed_without_an_etag_are_compared_by_size_and_time(cloud: Cloud) -> None:
    store = cloud.store(cloud.make_bucket())
    for key in ("same", "older", "larger"):
        store.write(key, b"data")
    same, older, larger = (
        expected_of(store.head(key))._replace(etag=None) for key in ("same", "older", "larger")
    )
    assert older.modified_micros is not None
    listed = [
        same,
        older._replace(modified_micros=older.modified_micros - 60_000_000),
        larger._replace(size_bytes=5),
    ]
    outcomes = [one.outcome for one in store.delete(["same", "older", "larger"], listed)]
    assert outcomes == [Outcome.DELETED, Outcome.CHANGED, Outcome.CHANGED]
    assert store.list("").entries["key"].to_pylist() == ["larger", "older"]


@_BATCHING
def test_a_missing_bucket_is_told(cloud: Cloud) -> None:
    store = cloud.store(cloud.base("nowhere"))
    with pytest.raises(MissingError, match="does not exist"):
        store.list("")


@pytest.mark.parametrize("cloud", ["azurite"], indirect=True)  # the other knows no accounts
def test_a_wrong_key_is_told(cloud: Cloud) -> None:
    wrong = StorageOptions(endpoint=cloud.options.endpoint, account_key="d3Jvbmc=")
    with pytest.raises(DeniedError, match="list was refused"):
        AzureStore("nowhere@devstoreaccount1.dfs.core.windows.net", wrong).list("")
