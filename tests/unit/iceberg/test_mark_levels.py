"""The levels of marking as kernels: pointers in, rows out."""

from __future__ import annotations

import pickle
from collections.abc import Iterable

import pyarrow as pa
import pytest

from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.iceberg.mark_levels import (
    IcebergListLevel,
    IcebergManifestLevel,
    IcebergMetadataLevel,
)
from lakesweep.marks.columns import POINTERS, SCHEMAS, MarkBatch, MarkKind, source_numbers
from lakesweep.storage.address import parse
from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.stores import Keyring, Stores
from tests.iceberg_tables import BUCKET, Bucket, File, Table


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


def pointers(
    kind: IcebergKind,
    *paths: str,
    size_bytes: int | None = None,
    entries: int | None = None,
    location: str | None = None,
    access: int = 0,
) -> pa.RecordBatch:
    hashes = file_hashes(pa.array(paths))
    count = len(paths)
    columns = [
        source_numbers(hashes),
        *hash_columns(hashes),
        pa.array(paths),
        pa.array([kind.value] * count),
        pa.array([size_bytes] * count, pa.int64()),
        pa.array([entries] * count, pa.int64()),
        pa.array([location] * count, pa.string()),
        pa.array([access] * count),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=POINTERS)


def rows(marked: Iterable[MarkBatch], what: MarkKind) -> list[dict[str, object]]:
    return [row for each in marked if each.what is what for row in each.rows.to_pylist()]


def test_every_batch_has_the_columns_of_its_kind(bucket: Bucket) -> None:
    table = Table(bucket, "t", {"refs": {"main": {"snapshot-id": 9}}})
    table.snapshot(table.manifest("m0.avro", table.data("a")))
    found = list(
        IcebergMetadataLevel(Keyring(bucket.stores))(
            [pointers(IcebergKind.METADATA, table.commit())]
        )
    )
    assert {each.what for each in found} == set(MarkKind)
    assert all(each.rows.schema == SCHEMAS[each.what] for each in found)


def test_a_level_can_be_pickled_and_still_reads(bucket: Bucket) -> None:
    table, path = Table(bucket, "t"), "memory://pickled-level/m0.avro"
    data = bucket.read(table.manifest("m0.avro", table.data("a")))
    Stores().open(path).write("m0.avro", data)
    options = (StorageOptions(access_key_id="A", secret_access_key="S3CRET"),)
    level = pickle.loads(pickle.dumps(IcebergManifestLevel(Keyring(Stores(), options))))
    assert "S3CRET" not in repr(level)
    (source,) = rows(level([pointers(IcebergKind.MANIFEST, path)]), MarkKind.SOURCE)
    assert source["entries"] == 1


def test_access_that_a_catalog_hands_out_is_used_where_none_is_configured() -> None:
    configured = StorageOptions(access_key_id="configured")
    vended = StorageOptions(access_key_id="vended")
    keyring = Keyring(Stores({"s3://mine": configured}), (vended,))
    assert keyring.open(0).options(parse("s3://theirs/x")).access_key_id is None
    assert keyring.open(1).options(parse("s3://theirs/x")).access_key_id == "vended"
    assert keyring.open(1).options(parse("s3://mine/x")).access_key_id == "configured"
    assert keyring.open(1) is keyring.open(1)


def test_no_more_than_some_accesses_stay_open() -> None:
    options = [StorageOptions(access_key_id=str(n)) for n in range(1, 4)]
    keyring = Keyring(Stores(), options, most_open=2)
    first, second = keyring.open(1), keyring.open(2)
    assert keyring.open(1) is first
    keyring.open(3)
    assert keyring.open(1) is first
    assert keyring.open(2) is not second


def test_children_are_reached_as_their_parents_are(bucket: Bucket) -> None:
    table = Table(bucket, "t")
    table.snapshot(table.manifest("m0.avro", table.data("a")))
    keyring = Keyring(bucket.stores, (StorageOptions(), StorageOptions()))
    batch = pointers(IcebergKind.METADATA, table.commit(), access=2)
    (child,) = rows(IcebergMetadataLevel(keyring)([batch]), MarkKind.CHILD)
    assert child["access"] == 2
    below = pa.RecordBatch.from_pylist([child]).select(POINTERS.names).cast(POINTERS)
    (manifest,) = rows(IcebergListLevel(keyring)([below]), MarkKind.CHILD)
    assert (manifest["access"], manifest["parent"]) == (2, child["source"])


def test_many_small_manifests_come_in_few_batches(bucket: Bucket) -> None:
    table = Table(bucket, "t")
    paths = [table.manifest(f"m{n}.avro", table.data(str(n))) for n in range(100)]
    found = list(
        IcebergManifestLevel(Keyring(bucket.stores))([pointers(IcebergKind.MANIFEST, *paths)])
    )
    assert len(found) <= 4
    assert len(rows(found, MarkKind.LIVE)) == 200


def test_a_large_manifest_comes_in_several_batches(bucket: Bucket) -> None:
    table = Table(bucket, "t")
    files = [table.data(f"{n:06}", size_bytes=1) for n in range(70_000)]
    path = table.manifest("m0.avro", *files)
    found = list(
        IcebergManifestLevel(Keyring(bucket.stores))([pointers(IcebergKind.MANIFEST, path)])
    )
    assert len([each for each in found if each.what is MarkKind.LIVE]) > 2
    (source,) = rows(found, MarkKind.SOURCE)
    assert source["entries"] == 70_000
    used = {row["kind"]: (row["files"], row["bytes"]) for row in rows(found, MarkKind.USAGE)}
    assert used["data"] == (70_000, 70_000)


def test_hashes_and_numbers_are_those_of_the_paths(bucket: Bucket) -> None:
    table = Table(bucket, "t")
    path = table.manifest("m0.avro", File("s3a://lake/x"), File(f"{BUCKET}/y"))
    batch = pointers(IcebergKind.MANIFEST, path)
    for each in IcebergManifestLevel(Keyring(bucket.stores))([batch]):
        if each.what is MarkKind.LIVE:
            h1, h2 = hash_columns(file_hashes(each.rows["path"]))
            assert each.rows["h1"].equals(h1)
            assert each.rows["h2"].equals(h2)
            assert set(each.rows["source"].to_pylist()) == set(batch["source"].to_pylist())


def test_a_manifest_that_falls_short_is_told_and_kept(bucket: Bucket) -> None:
    table = Table(bucket, "t")
    path = table.manifest("m0.avro", table.data("a"))
    found = list(
        IcebergManifestLevel(Keyring(bucket.stores))(
            [pointers(IcebergKind.MANIFEST, path, entries=2)]
        )
    )
    (problem,) = rows(found, MarkKind.PROBLEM)
    assert (problem["path"], problem["state"]) == (path, "truncated")
    assert {row["path"] for row in rows(found, MarkKind.LIVE)} == {path, table.path("data/a")}
    (source,) = rows(found, MarkKind.SOURCE)
    assert source["entries"] is None


def test_what_a_manifest_names_before_its_damage_is_kept(bucket: Bucket) -> None:
    table = Table(bucket, "t")
    files = [table.data(f"{number:06}") for number in range(70_000)]
    path = table.manifest("m0.avro", *files, table.data("unknown", status=3))
    found = list(
        IcebergManifestLevel(Keyring(bucket.stores))([pointers(IcebergKind.MANIFEST, path)])
    )
    (problem,) = rows(found, MarkKind.PROBLEM)
    assert (problem["path"], problem["state"]) == (path, "damaged")
    assert len(rows(found, MarkKind.LIVE)) > 1
    (source,) = rows(found, MarkKind.SOURCE)
    assert source["entries"] is None


def test_snapshots_that_share_a_list_hold_it_to_the_largest_of_their_counts(
    bucket: Bucket,
) -> None:
    table = Table(bucket, "t")
    table.snapshot()
    (snapshot,) = table.document["snapshots"]
    table.document["snapshots"] = [
        {**snapshot, "snapshot-id": number, "summary": {"total-data-files": str(total)}}
        for number, total in enumerate((1, 3, 2))
    ]
    level = IcebergMetadataLevel(Keyring(bucket.stores))
    (child,) = rows(level([pointers(IcebergKind.METADATA, table.commit())]), MarkKind.CHILD)
    assert (child["kind"], child["entries"]) == (IcebergKind.MANIFEST_LIST, 3)


def test_a_list_that_leads_to_too_few_files_is_truncated(bucket: Bucket) -> None:
    table = Table(bucket, "t")
    table.snapshot()
    path = table.document["snapshots"][0]["manifest-list"]
    found = IcebergListLevel(Keyring(bucket.stores))(
        [pointers(IcebergKind.MANIFEST_LIST, path, entries=1)]
    )
    (problem,) = rows(found, MarkKind.PROBLEM)
    assert problem["state"] == "truncated"


def test_metadata_without_a_location_takes_the_catalogs_word(bucket: Bucket) -> None:
    table = Table(bucket, "t", {"format-version": 4, "location": None})
    path = table.commit()
    keyring = Keyring(bucket.stores)
    (problem,) = rows(
        IcebergMetadataLevel(keyring)([pointers(IcebergKind.METADATA, path)]), MarkKind.PROBLEM
    )
    assert "no location" in str(problem["reason"])
    told = pointers(IcebergKind.METADATA, path, location=f"{BUCKET}/t")
    assert rows(IcebergMetadataLevel(keyring)([told]), MarkKind.PROBLEM) == []


def test_a_version_hint_is_kept_where_there_is_one(bucket: Bucket) -> None:
    table = Table(bucket, "t")
    document = bucket.read(table.commit())
    path = bucket.write(table.path("metadata/v1.metadata.json"), document)
    level, batch = (
        IcebergMetadataLevel(Keyring(bucket.stores)),
        pointers(IcebergKind.METADATA, path),
    )
    assert {row["kind"] for row in rows(level([batch]), MarkKind.LIVE)} == {IcebergKind.METADATA}
    bucket.write(table.path("metadata/version-hint.text"), b"1")
    assert {row["kind"] for row in rows(level([batch]), MarkKind.LIVE)} == {
        IcebergKind.METADATA,
        IcebergKind.VERSION_HINT,
    }
