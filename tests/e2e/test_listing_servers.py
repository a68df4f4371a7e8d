"""Listing and deleting in bulk on real servers and real folders, also when they misbehave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from lakesweep.clock import ManualClock, SystemClock
from lakesweep.errors import ThrottledError, UnavailableError
from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
from lakesweep.storage.listing.key_splits import split
from lakesweep.storage.listing.locations import list_files, list_splits
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.options import DeleteRate
from lakesweep.storage.s3.store import S3Store
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, StorageFault, fail, lose
from lakesweep.storage.wrappers.rate_limit import DeleteLimiter
from lakesweep.storage.wrappers.retry import Retrying
from tests.paged_store import OneStore
from tests.servers import S3Server, rclone_server

BUCKET = "listing"
BASE = f"s3://{BUCKET}/"
LIST = frozenset({"list"})
DELETE = frozenset({"delete"})

#: A flat folder of three pages, and folders whose names sort around the slash.
FLAT = [f"flat/{Random(number).getrandbits(64):016x}.parquet" for number in range(2_500)]
TREE = [
    f"tree/{name}/{number:03d}" for name in ("a", "a!", "a-b", "a.b", "ab") for number in range(300)
]


def batches_of(size: int) -> DeleteLimiter:
    return DeleteLimiter(SystemClock(), DeleteRate(batch_size=size))


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with rclone_server() as rclone:
        assert rclone.folder is not None
        bucket = rclone.folder / BUCKET
        _fill(bucket, [*FLAT, *TREE])
        yield rclone


def _fill(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def _bucket(server: S3Server, name: str, keys: Iterable[str]) -> S3Store:
    """A new bucket that holds these keys, one byte each."""
    store = S3Store(server.make_bucket(name), server.options())
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: store.write(key, b"x"), keys))
    return store


def open_stores(server: S3Server) -> Stores:
    return Stores({BASE: server.options()})


def paths(batches: Iterable[pa.RecordBatch]) -> list[str]:
    return sorted(path for batch in batches for path in batch.column("path").to_pylist())


def full(keys: Iterable[str]) -> list[str]:
    return sorted(BASE + key for key in keys)


def with_faults(store: ObjectStore, faults: Sequence[StorageFault]) -> OneStore:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    return OneStore(Retrying(Faulty(store, faults), clock, Random(1)))


@pytest.mark.parametrize("workers", [1, 8])
def test_a_flat_folder_and_a_tree_are_listed_whole(server: S3Server, workers: int) -> None:
    stores = open_stores(server)
    for location, keys in (("flat", FLAT), ("tree/", TREE), ("tree/a", TREE[:300])):
        assert paths(list_files(stores, BASE + location, workers=workers)) == full(keys)


def test_splits_list_the_bucket_each_file_once(server: S3Server) -> None:
    store = open_stores(server).open(BASE)
    splits = split(store, "", 6)
    assert len(splits) > 3
    found = [paths(list_splits(store, [part], base=BASE)) for part in splits]
    assert sorted(path for part in found for path in part) == full([*FLAT, *TREE])


def test_a_storm_that_ends_does_not_shorten_a_listing(server: S3Server) -> None:
    store = S3Store(BUCKET, server.options())
    storm = StorageFault(fail(ThrottledError, "slow down"), LIST, skip=2, times=5)
    stores = with_faults(store, [storm, StorageFault(lose, LIST, skip=9, times=2)])
    assert paths(list_files(stores, BASE + "flat/", workers=4)) == full(FLAT)


@pytest.mark.parametrize("skip", [0, 1, 2])
def test_a_page_that_stays_away_fails_the_listing(server: S3Server, skip: int) -> None:
    store = S3Store(BUCKET, server.options())
    stores = with_faults(store, [StorageFault(fail(UnavailableError), LIST, skip=skip)])
    with pytest.raises(UnavailableError):
        paths(list_files(stores, BASE + "flat/", workers=4))


def test_what_is_listed_is_deleted_and_nothing_else(moto: S3Server) -> None:
    doomed = [f"t1/{number}" for number in range(120)]
    store = _bucket(moto, "deleting", [*doomed, "t10/a", "t1_bak/a"])
    stores, tally = OneStore(store), OutcomeTotals()
    for outcome in delete_files(
        stores, list_files(stores, "s3a://deleting/t1"), limiter=batches_of(50)
    ):
        tally.add(outcome)
    assert (tally.deleted, tally.failed, tally.bytes_deleted) == (120, 0, 120)
    assert paths(list_files(stores, "s3://deleting/")) == [
        "s3://deleting/t10/a",
        "s3://deleting/t1_bak/a",
    ]


def test_lost_answers_to_deletes_are_asked_for_again(moto: S3Server) -> None:
    store = _bucket(moto, "lossy", [f"{number:03d}" for number in range(60)])
    stores = with_faults(store, [StorageFault(lose, DELETE, times=2)])
    files = list_files(stores, "s3://lossy/")
    outcomes = list(delete_files(stores, files, limiter=batches_of(20)))
    assert {o for batch in outcomes for o in batch.column("outcome").to_pylist()} == {"deleted"}
    assert paths(list_files(stores, "s3://lossy/")) == []


def test_deletes_whose_answers_stay_away_are_unknown(moto: S3Server) -> None:
    store = _bucket(moto, "silent", ["a/1", "b/1"])
    stores = with_faults(store, [StorageFault(lose, DELETE, key="a/1".__eq__)])
    files = list_files(stores, "s3://silent/")
    batches = delete_files(stores, files, limiter=batches_of(1))
    outcomes = {row["path"]: row for batch in batches for row in batch.to_pylist()}
    assert outcomes["s3://silent/b/1"]["outcome"] == "deleted"
    assert outcomes["s3://silent/a/1"]["outcome"] == "failed"
    assert outcomes["s3://silent/a/1"]["reason"].startswith("outcome unknown: ")


def test_look_alikes_survive_on_a_server_that_keeps_keys_exactly(moto: S3Server) -> None:
    odd = ["a//b", "a/b", "a/b/", "/a/b", "a/./b", "a/é", "a/e\u0301", "a/\U0010ffff/x", "a/%2F"]
    many = [f"a/{number:04d}" for number in range(1_001)]
    store = _bucket(moto, "look-alikes", [*odd, *many])
    stores, base = OneStore(store), "s3://look-alikes/"
    everything = sorted(base + key for key in [*odd, *many])
    assert paths(list_files(stores, base)) == everything
    splits = split(store, "", 5)
    assert paths(list_splits(store, splits, base=base, workers=3)) == everything
    doomed = pa.table({"path": [base + "a//b", base + "a/e\u0301"], "size_bytes": [0, 0]})
    outcomes = delete_files(stores, doomed.to_batches())
    assert [o for batch in outcomes for o in batch.column("outcome").to_pylist()] == ["deleted"] * 2
    assert paths(list_files(stores, base)) == sorted({*everything} - {*doomed["path"].to_pylist()})


def test_a_local_tree_is_listed_split_and_deleted(tmp_path: Path) -> None:
    names = [f"t/{day:02d}/{number:03d}" for day in range(30) for number in range(20)]
    _fill(tmp_path, [*names, "t2/x"])
    stores, store = Stores(), LocalStore()
    location = f"{tmp_path}/t"
    expected = sorted(f"{tmp_path}/{name}" for name in names)
    assert paths(list_files(stores, location)) == expected
    splits = split(store, location[1:] + "/", 4)
    assert [len(paths(list_splits(store, [part], base="/"))) for part in splits] == [
        140,
        160,
        140,
        160,
    ]
    outcomes = delete_files(stores, list_files(stores, location))
    assert {o for batch in outcomes for o in batch.column("outcome").to_pylist()} == {"deleted"}
    assert paths(list_files(stores, str(tmp_path))) == [f"{tmp_path}/t2/x"]
