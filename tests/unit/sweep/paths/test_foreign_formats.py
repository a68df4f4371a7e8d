"""Folders of formats that no root reads are known by what lies in them, and kept."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from lakesweep.config import LakeSection
from lakesweep.storage.listing.inventory import open_inventory
from lakesweep.sweep.paths.foreign_formats import (
    MOST_FOLDERS,
    TABLES,
    ForeignFormat,
    FormatSign,
    FormatSigns,
    foreign_folders,
)
from tests.iceberg_tables import BUCKET, Bucket, File, Names, Table
from tests.planned import Desk, deletes, reasons, rows_of

SIGNS = {
    ForeignFormat.ICEBERG: ("metadata/v1.metadata.json",),
    ForeignFormat.DELTA: ("_delta_log/00000000000000000000.json",),
    ForeignFormat.HUDI: (".hoodie/hoodie.properties",),
    ForeignFormat.PAIMON: ("snapshot/snapshot-1", "schema/schema-0"),
    ForeignFormat.LAKEFS: ("_lakefs/dummy",),
    ForeignFormat.DATASET: ("_SUCCESS",),
}


def found(*paths: str) -> list[tuple[str, str]]:
    signs = FormatSigns()
    for path in paths:  # the files of one folder may be listed in different batches
        signs.add(pa.array([path]))
    return [(each.format, each.folder) for each in foreign_folders(signs.found())]


@pytest.mark.parametrize("form", ForeignFormat)
def test_a_folder_is_known_by_its_signs(form: ForeignFormat) -> None:
    assert found(*(f"s3://b/x/t/{name}" for name in SIGNS[form])) == [(form, "s3://b/x/t/")]


@pytest.mark.parametrize("sign", SIGNS[ForeignFormat.PAIMON])
def test_one_sign_of_two_is_not_enough(sign: str) -> None:
    assert found(f"s3://b/x/t/{sign}") == []


@pytest.mark.parametrize(
    "name",
    ["data/a.parquet", "metadata/v1.json", "x_delta_log/a.json", "a_SUCCESS", ".hoodie"],
)
def test_other_names_are_no_sign(name: str) -> None:
    assert found(f"s3://b/x/t/{name}") == []


def test_a_table_inside_a_table_is_part_of_it() -> None:
    path = "s3://b/t/.hoodie/metadata/.hoodie/hoodie.properties"
    assert found(path) == [(ForeignFormat.HUDI, "s3://b/t/")]


def test_tasks_that_saw_one_sign_each_know_the_folder_together() -> None:
    signs = [FormatSign("snapshot", "s3://b/t/"), FormatSign("schema", "s3://b/t/")]
    assert [each.format for each in foreign_folders(signs)] == [ForeignFormat.PAIMON]


def test_very_many_folders_become_wider_ones() -> None:
    signs = [FormatSign("done", f"s3://b/jobs/{n}/") for n in range(MOST_FOLDERS + 1)]
    assert [each.folder for each in foreign_folders(signs)] == ["s3://b/jobs/"]


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


@pytest.fixture
def desk(bucket: Bucket) -> Desk:
    """A lake of one table, with something of Spark's in it."""
    table = Table(bucket, "one")
    bucket.write(table.path("data/_SUCCESS"), b"")
    bucket.write(table.path("data/orphan.parquet"), b"")
    return Desk(bucket.stores, LakeSection(locations=(BUCKET,)), [Names({"one": table.commit()})])


@pytest.mark.parametrize(
    "path",
    [
        "t/metadata/00003-x.metadata.json",
        "t/metadata/v3.gz.metadata.json",
        "t/metadata/a/b/v3.metadata.json.gz",
        "t/v3.metadata.json",
    ],
)
def test_metadata_of_iceberg_tells_the_folder_of_its_table(path: str) -> None:
    assert found(f"s3://b/{path}") == [(ForeignFormat.ICEBERG, "s3://b/t/")]


def test_one_of_many_metadata_files_is_kept_as_a_sign() -> None:
    signs = FormatSigns()
    for number in (1, 3, 2):
        signs.add(pa.array([f"s3://b/t/metadata/0000{number}-x.metadata.json"]))
    [found] = foreign_folders(signs.found())
    assert found.file == "s3://b/t/metadata/00003-x.metadata.json"


@pytest.mark.parametrize("form", sorted(set(ForeignFormat) - TABLES))
def test_all_files_of_another_format_are_kept(
    desk: Desk, bucket: Bucket, form: ForeignFormat
) -> None:
    data = bucket.write(f"{BUCKET}/other/t/p=1/part-00000-c000.snappy.parquet", b"")
    for name in SIGNS[form]:
        bucket.write(f"{BUCKET}/other/t/{name}", b"")
    plan = desk.plan()
    rules = {row["path"]: (row["reason"], row["rule"]) for row in rows_of(plan)}
    assert rules[data] == ("foreign", f"a {form} in {BUCKET}/other/t/")
    assert [(each.format, each.folder) for each in plan.document.foreign] == [
        (form, f"{BUCKET}/other/t/")
    ]


def test_what_an_engine_left_in_a_table_makes_no_dataset_of_it(desk: Desk) -> None:
    plan = desk.plan()
    assert f"{BUCKET}/one/data/orphan.parquet" in deletes(plan)
    assert plan.document.foreign == ()


def test_folders_are_known_from_an_inventory_as_well(desk: Desk, bucket: Bucket) -> None:
    paths = [f"{BUCKET}/d/t/{name}" for name in ("_delta_log/0.json", "a.parquet")]
    rows = [f"{path},7,2020-01-01T00:00:00.000Z" for path in paths]
    text = "\n".join(["path,size,modified", *rows])
    file = bucket.write(f"{BUCKET}/inventory.csv", text.encode())
    now = desk.clock.now()
    plan = desk.plan(inventory=open_inventory(bucket.stores, file, taken_at=now))
    assert set(reasons(plan).values()) == {"foreign"}


def test_a_dataset_that_a_table_took_over_is_the_table_s(desk: Desk, bucket: Bucket) -> None:
    table = Table(bucket, "two")
    paths = [bucket.write(f"{BUCKET}/old/{name}", b"") for name in ("p=1/a.parquet", "_SUCCESS")]
    orphan = bucket.write(f"{BUCKET}/old/p=1/b.parquet", b"")
    table.snapshot(table.manifest("m0.avro", File(paths[0])))
    plan = replace(desk, roots=[Names({"two": table.commit()})]).plan()
    assert orphan in deletes(plan)
