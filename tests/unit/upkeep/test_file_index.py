"""Which files an expiry frees, on tables that Iceberg expired itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

import msgspec
import pyarrow as pa
import pytest

from lakesweep.iceberg.mark_levels import reached_files
from lakesweep.iceberg.metadata import TableMetadata, load_metadata, parse_metadata
from lakesweep.marks.unreadable import ReadFailure, Strict
from lakesweep.storage.address import identity, parse
from lakesweep.storage.file_batches import file_batch
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Recording
from lakesweep.upkeep.file_index import FileIndex, HeldFiles
from lakesweep.upkeep.hashed_rows import HashedRows
from tests.expiry_lake import ExpiryCase, ExpiryLake, expiry_cases

BUCKETS = ("attic", "attic-cold")
_names = count()


def fresh_buckets(lake: ExpiryLake) -> dict[str, ObjectStore]:
    """Both buckets in memory."""
    names = {bucket: f"memory://expiry-{next(_names)}/" for bucket in BUCKETS}
    return {
        f"s3://{bucket}": lake.fill(bucket, Stores().open(name)) for bucket, name in names.items()
    }


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> ExpiryLake:
    return ExpiryLake(tmp_path_factory.mktemp("nothing"))


@pytest.fixture(scope="module")
def stores(lake: ExpiryLake) -> Stores:
    return Stores(replace=fresh_buckets(lake))


@pytest.fixture(scope="module")
def reached(lake: ExpiryLake, stores: Stores) -> dict[str, set[str]]:
    """What each table reaches."""
    found = {}
    for name, path in lake.pointers.items():
        batches = reached_files(stores, load_metadata(stores, path), Strict())
        found[name] = identities_of(batches)
    return found


def identities_of(batches: Iterable[pa.RecordBatch]) -> set[str]:
    return {identity(path) for batch in batches for path in batch["path"].to_pylist()}


def before_and_after(stores: Stores, case: ExpiryCase) -> tuple[TableMetadata, TableMetadata]:
    before = load_metadata(stores, case.metadata_before)
    path = case.answer["metadata_after"]
    after = parse_metadata(path, msgspec.json.encode(case.document_after()))
    assert isinstance(before, TableMetadata)
    assert isinstance(after, TableMetadata)
    return before, after


def changed(case: ExpiryCase) -> bool:
    return case.document_after() is not None and "removed_before_the_call" not in case.answer


def deletable(case: ExpiryCase) -> set[str]:
    files = case.answer["rule"]["deletable"].values()
    return {identity(path) for paths in files for path in paths}


@pytest.mark.parametrize("case", [*filter(changed, expiry_cases())], ids=str)
def test_what_is_freed_is_what_may_go(
    case: ExpiryCase, stores: Stores, reached: dict[str, set[str]]
) -> None:
    before, after = before_and_after(stores, case)
    with FileIndex(stores) as index:
        index.read_lists(before)
        found = [*index.freed(before, after)]
    others = set[str]().union(*(files for name, files in reached.items() if name != case.table))
    assert identities_of(found) - others == deletable(case)
    kinds = {kind for batch in found for kind in batch["kind"].to_pylist()}
    assert kinds >= case.answer["rule"]["deletable"].keys()


def case_named(name: str) -> ExpiryCase:
    return next(case for case in expiry_cases() if case.name == name)


def without(lake: ExpiryLake, case: ExpiryCase) -> Stores:
    """The lake after the files of a case were lost."""
    buckets = fresh_buckets(lake)
    for path in case.answer["removed_before_the_call"]:
        address = parse(path)
        buckets[address.base.rstrip("/")].delete([address.key])
    return Stores(replace=buckets)


@pytest.mark.parametrize("what", ["list", "manifest"])
def test_what_lost_files_of_expired_snapshots_named_stays(what: str, lake: ExpiryLake) -> None:
    case = case_named(f"attic.shop.cow.missing-expired-{what}")
    stores = without(lake, case)
    before, after = before_and_after(stores, case)
    with FileIndex(stores) as index:
        index.read_lists(before)
        found = identities_of(index.freed(before, after))
        assert [each.state for each in index.problems(before)] == [ReadFailure.MISSING]
        assert index.problems(after) == []
    assert found <= deletable(case) | {
        identity(path) for path in case.answer["removed_before_the_call"]
    }
    assert found


@pytest.mark.parametrize("what", ["list", "manifest"])
def test_lost_files_of_retained_snapshots_are_problems(what: str, lake: ExpiryLake) -> None:
    case = case_named(f"attic.shop.cow.missing-retained-{what}")
    stores = without(lake, case)
    before, after = before_and_after(stores, case)
    with FileIndex(stores) as index:
        index.read_lists(before)
        index.read_manifests()
        assert [each.path for each in index.problems(after)] == case.answer[
            "removed_before_the_call"
        ]


def test_each_list_and_manifest_is_read_once(lake: ExpiryLake) -> None:
    case = case_named("attic.shop.merged.head-only")
    buckets = fresh_buckets(lake)
    recording = Recording(buckets["s3://attic"])
    stores = Stores(replace={**buckets, "s3://attic": recording})
    before, after = before_and_after(stores, case)
    recording.calls.clear()
    with FileIndex(stores) as index:
        for metadata in (before, after):
            index.read_lists(metadata)
            index.read_manifests()
        first = identities_of(index.freed(before, after))
        assert identities_of(index.freed(before, after)) == first
    read = recording.keys("read")
    assert len(read) == len(set(read))


def test_snapshots_hold_what_no_other_snapshot_reaches(stores: Stores) -> None:
    before, _ = before_and_after(stores, case_named("attic.shop.cow.head-only"))
    with FileIndex(stores) as index:
        index.read_lists(before)
        index.read_manifests()
        for snapshot in before.snapshots:
            owners = {each.id: int(each.id == snapshot.id) for each in before.snapshots}
            held = index.held_alone(before.snapshots, owners)[1]
            # The same as if it were the only one to expire.
            left = tuple(each for each in before.snapshots if each.id != snapshot.id)
            after = replace(before, snapshots=left)
            files = [*index.freed(before, after)]
            assert held == HeldFiles(
                sum(batch.num_rows for batch in files),
                sum(size or 0 for batch in files for size in batch["size_bytes"].to_pylist()),
            )


def test_rows_on_disk_are_the_same_as_in_memory() -> None:
    def rows(most: int) -> Iterator[set[tuple[str, int]]]:
        with HashedRows(most) as found:
            for number in range(40):
                paths = [(f"s3://b/{number % 7}-{each}", each) for each in range(50)]
                found.add(number, file_batch("data", paths))
            for part in found.parts():
                yield set(zip(part["path"].to_pylist(), part["manifest"].to_pylist(), strict=True))

    (whole,), spilled = [*rows(1 << 20)], [*rows(300)]
    assert len(spilled) == 32
    assert set().union(*spilled) == whole
    files = [{path for path, _ in part} for part in spilled]
    assert sum(map(len, files)) == len(set().union(*files))
