"""Planning and carrying out a purge, on tables that the Java engine wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count

import pyarrow as pa
import pytest

from lakesweep.hashing import HashSet
from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.iceberg.metadata import ViewMetadata, load_metadata
from lakesweep.iceberg.purge import (
    PurgePlan,
    execute_purge,
    own_location,
    plan_base_location,
    plan_purge,
)
from lakesweep.storage.address import identity
from lakesweep.storage.datasets.spool import path_hashes
from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.object_store import ObjectStore, Outcome
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, Recording, StorageFault, refuse
from tests.iceberg_tables import Bucket, Table
from tests.lake import EngineLake, EngineTable, table_names

_names = count()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> EngineLake:
    return EngineLake.unpack(tmp_path_factory.mktemp("engine"))


@pytest.fixture
def store(lake: EngineLake) -> ObjectStore:
    return fresh_store(lake)


def fresh_store(lake: EngineLake) -> ObjectStore:
    """The lake's bucket in memory."""
    return lake.fill(Stores().open(f"memory://purge-{next(_names)}/"))


def opened(store: ObjectStore) -> Stores:
    return Stores(replace={"s3://lake": store})


def stored(store: ObjectStore) -> set[str]:
    batches = list_files(opened(store), "s3://lake/")
    return {path for batch in batches for path in batch["path"].to_pylist()}


def planned(store: ObjectStore, table: EngineTable) -> PurgePlan:
    stores = opened(store)
    return plan_purge(stores, load_metadata(stores, table.metadata_path))


def carry_out(store: ObjectStore, plan: PurgePlan) -> OutcomeTotals:
    with plan:
        return execute_purge(plan, lambda batches: delete_files(opened(store), batches))


def refusing(store: ObjectStore, part: str) -> Faulty:
    """A store that denies deletes of keys with this part."""
    effect = refuse(Outcome.DENIED, lambda key: part in key)
    return Faulty(store, [StorageFault(effect, methods=frozenset({"delete"}))])


@pytest.mark.parametrize("name", table_names())
def test_a_purge_takes_what_the_table_reaches_and_nothing_else(
    name: str, lake: EngineLake, store: ObjectStore
) -> None:
    table = lake.table(name)
    before = stored(store)
    tally = carry_out(store, planned(store, table))
    assert before - stored(store) == table.purged() & before
    assert tally.failed == 0
    assert tally.deleted + tally.absent == len(table.purged())


def test_children_go_before_parents_and_the_metadata_last(
    lake: EngineLake, store: ObjectStore
) -> None:
    table = lake.table("hdp.old.counts")
    recording = Recording(store)
    carry_out(recording, planned(store, table))
    kinds = {path.removeprefix("s3://lake/"): kind for kind, path in table.referenced()}
    order = [kinds[key] for key in recording.keys("delete")]
    ranks = [
        IcebergKind.DATA,
        IcebergKind.MANIFEST,
        IcebergKind.MANIFEST_LIST,
        IcebergKind.METADATA_LOG,
        IcebergKind.VERSION_HINT,
        IcebergKind.METADATA,
    ]
    assert [ranks.index(IcebergKind(kind)) for kind in order] == sorted(
        ranks.index(IcebergKind(kind)) for kind in order
    )


def test_nothing_that_a_damaged_manifest_names_is_purged() -> None:
    bucket = Bucket()
    table = Table(bucket, "t")
    good, bad = table.data("good"), table.data("bad")
    for file in (good, bad):
        bucket.write(file.path, b"rows")
    many = (table.data(f"{number:06}") for number in range(70_000))
    damaged = table.manifest("m1.avro", bad, *many, table.data("unknown", status=3))
    table.snapshot(table.manifest("m0.avro", good), damaged)
    metadata = load_metadata(bucket.stores, table.commit())
    tally = carry_out(bucket.store, plan_purge(bucket.stores, metadata))
    left = stored(bucket.store)
    assert tally.failed == 1
    assert {bad.path, damaged, metadata.path} <= left
    assert good.path not in left


def test_each_file_goes_once(lake: EngineLake, store: ObjectStore) -> None:
    recording = Recording(store)
    carry_out(recording, planned(store, lake.table("lake.shop.events")))
    deleted = recording.keys("delete")
    assert len(deleted) == len(set(deleted))


def test_metadata_that_only_older_logs_name_goes_before_the_log(
    lake: EngineLake, store: ObjectStore
) -> None:
    table = lake.table("lake.shop.longtail")
    older = table.answer["older-metadata-reached-through-log"]
    recording = Recording(store)
    carry_out(recording, planned(store, table))
    deleted = [f"s3://lake/{key}" for key in recording.keys("delete")]
    first_logged = min(
        deleted.index(path) for kind, path in table.referenced() if kind == IcebergKind.METADATA_LOG
    )
    assert older
    assert all(deleted.index(path) < first_logged for path in older)


def test_an_interrupted_purge_can_be_repeated_to_the_end(lake: EngineLake) -> None:
    table = lake.table("lake.shop.t1")
    for stop_after in range(len(table.purged())):
        store = fresh_store(lake)
        before = stored(store)
        with planned(store, table) as plan, pytest.raises(InterruptedError):
            execute_purge(plan, interrupted(store, stop_after))
        assert table.metadata_path in stored(store)
        carry_out(store, planned(store, table))
        assert before - stored(store) == table.purged()


def interrupted(
    store: ObjectStore, stop_after: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Deletes one file at a time and is interrupted after a number of them."""
    left = iter(range(stop_after))

    def delete(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in range(batch.num_rows):
                if next(left, None) is None:
                    raise InterruptedError
                yield from delete_files(opened(store), [batch.slice(row, 1)])

    return delete


@pytest.mark.parametrize(
    ("part", "kept_kinds"),
    [
        (
            "/data/",
            {
                IcebergKind.DATA,
                IcebergKind.MANIFEST,
                IcebergKind.MANIFEST_LIST,
                IcebergKind.METADATA,
            },
        ),
        ("-m0.avro", {IcebergKind.MANIFEST, IcebergKind.MANIFEST_LIST, IcebergKind.METADATA}),
        ("/snap-", {IcebergKind.MANIFEST_LIST, IcebergKind.METADATA}),
    ],
)
def test_what_cannot_be_deleted_keeps_the_way_to_it(
    part: str, kept_kinds: set[IcebergKind], lake: EngineLake, store: ObjectStore
) -> None:
    table = lake.table("lake.shop.plain_v1")
    tally = carry_out(refusing(store, part), planned(store, table))
    left = stored(store)
    assert tally.failed > 0
    assert {kind for kind, path in table.referenced() if path in left} == kept_kinds
    carry_out(store, planned(store, table))
    assert not table.purged() & stored(store)


def test_files_that_others_reach_are_left_alone(lake: EngineLake, store: ObjectStore) -> None:
    table, twin = lake.table("lake.shop.plain_v1"), lake.table("lake.shop.registered")
    live = HashSet()
    live.add(path_hashes(paths(path for _, path in twin.referenced())))
    plan = planned(store, table)
    plan.spare(live)
    shared = {path for _, path in table.referenced()} & {path for _, path in twin.referenced()}
    assert plan.protected == len(shared) > 0
    carry_out(store, plan)
    assert {path for _, path in twin.referenced()} <= stored(store)


def test_totals_are_known_before_anything_goes(lake: EngineLake, store: ObjectStore) -> None:
    table = lake.table("lake.shop.stats")
    with planned(store, table) as plan:
        assert plan.total_files == len(table.purged())
        assert plan.files[IcebergKind.STATISTICS] == 2
        assert plan.files[IcebergKind.PARTITION_STATISTICS] > 0
        assert 0 < plan.bytes[IcebergKind.DATA] < plan.total_bytes
    assert table.purged() <= stored(store)


def test_files_outside_the_tables_own_folders_are_counted(
    lake: EngineLake, store: ObjectStore
) -> None:
    with planned(store, lake.table("lake.shop.added")) as added:
        assert added.outside == added.files[IcebergKind.DATA] > 0
    with planned(store, lake.table("lake.shop.t1")) as own:
        assert own.outside == 0


def base_plan(store: ObjectStore, table: EngineTable) -> PurgePlan:
    stores = opened(store)
    return plan_base_location(stores, load_metadata(stores, table.metadata_path))


def test_a_base_location_is_a_folder_not_a_prefix(lake: EngineLake, store: ObjectStore) -> None:
    table = lake.table("lake.shop.t1")
    before = stored(store)
    carry_out(store, base_plan(store, table))
    assert before - stored(store) == {
        path for path in before if path.startswith("s3://lake/warehouse/shop/t1/")
    }


def test_a_base_location_goes_with_its_metadata_last(lake: EngineLake, store: ObjectStore) -> None:
    table = lake.table("lake.shop.t1")
    recording = Recording(store)
    carry_out(recording, base_plan(store, table))
    assert f"s3://lake/{recording.keys('delete')[-1]}" == table.metadata_path


@pytest.mark.parametrize(
    ("location", "path", "owned"),
    [
        ("s3://lake/t", "s3://lake/t/metadata/1.metadata.json", "s3://lake/t"),
        ("s3a://lake/t/", "s3://lake/t/metadata/1.metadata.json", "s3a://lake/t/"),
        ("s3://lake/t/inner", "s3://lake/t/metadata/1.metadata.json", None),
        ("s3://lake/t/b", "s3://lake/t/1.metadata.json", None),
        ("s3://lake", "s3://lake/t/metadata/1.metadata.json", "s3://lake/t"),
        ("s3://lake/t1", "s3://lake/t/metadata/1.metadata.json", None),
        ("/etc", "/srv/t/metadata/1.metadata.json", None),
        ("/", "/srv/t/metadata/1.metadata.json", "/srv/t"),
        ("s3://lake", "s3://lake/metadata/1.metadata.json", None),
        ("s3://lake", "s3://lake/1.metadata.json", None),
    ],
)
def test_metadata_owns_no_more_than_the_folder_it_lies_in(
    location: str, path: str, owned: str | None
) -> None:
    assert own_location(ViewMetadata(path, 1, 1, "x", location, True)) == owned


def paths(names: Iterable[str]) -> pa.RecordBatch:
    return pa.record_batch({"path": pa.array(map(identity, names), pa.string())})
