"""What names say: of Java's files, of what was planted among them, and of odd ones."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakesweep.paimon.model.file_kinds import ORPHAN_KINDS, kinds_of_external_files, kinds_of_files
from lakesweep.paimon.model.layout import Layout
from lakesweep.paimon.model.options import Options
from lakesweep.paimon.model.partitioning import make_partitioning
from lakesweep.paimon.model.schemas import PaimonField
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.storage.stores import Stores
from tests.paimon import TABLES, JavaTable, JavaWarehouses

UUID = "597a1ecf-fcf0-4fec-b91e-e9e5efe09f07"


@pytest.fixture(scope="module", params=TABLES)
def java(request: pytest.FixtureRequest, java_tables: JavaWarehouses) -> JavaTable:
    return java_tables.table(request.param)


def kinds(java: JavaTable, names: list[str]) -> list[str | None]:
    layout = PaimonTable.open(Stores(), str(java.folder)).layout
    found: list[str | None] = kinds_of_files(layout, pa.array(names, pa.string())).to_pylist()
    return found


def test_names_tell_the_kind_of_every_file_that_java_references(java: JavaTable) -> None:
    named = sorted(java.referenced())
    found = kinds(java, [path for _, path in named])
    assert list(zip(found, (path for _, path in named), strict=True)) == named


def test_only_what_writers_leave_behind_may_be_litter(java: JavaTable) -> None:
    planted = [each for each in java.references["planted"] if each["age"] == "old"]
    found = kinds(java, [each["path"] for each in planted])
    litter = {
        each["path"] for each, kind in zip(planted, found, strict=True) if kind in ORPHAN_KINDS
    }
    assert litter == {each["path"] for each in planted if each["expect"] == "delete"}


def test_what_java_leaves_behind_itself_is_litter_or_a_marker(java: JavaTable) -> None:
    left = java.references["not_referenced_not_planted"]
    found = kinds(java, left)
    assert [kind for kind in found if kind not in ORPHAN_KINDS | {"marker"}] == []


def layout(*keys: str, **options: str) -> Layout:
    chosen = Options({name.replace("_", "-"): value for name, value in options.items()})
    partitioning = make_partitioning([PaimonField(key, "STRING") for key in keys], chosen)
    return Layout("s3://lake/t/", partitioning, chosen)


def kind_of(name: str, *keys: str, **options: Any) -> str | None:
    (found,) = kinds_of_files(layout(*keys, **options), pa.array([name])).to_pylist()
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"bucket-0/data-{UUID}-0.parquet", "data"),
        (f"bucket-0/data-{UUID}-0.zst.parquet", "data"),
        (f"bucket-0/data-{UUID}-0.json.gz", "data"),
        (f"bucket-0/data-{UUID}-0.blob", "data"),
        (f"bucket-0/data-{UUID}-0.vector.lance", "data"),
        (f"bucket-postpone/data--u-a user-s-12-w-{UUID}-0.avro", "data"),
        (f"bucket-0/changelog-{UUID}-0.orc", "changelog"),
        (f"bucket-0/data-{UUID}-0.parquet.index", "extra"),
        (f"bucket-0/data-{UUID}-0.parquet.blobref", "extra"),
        (f"bucket-0/data-{UUID}-0.parquet.row", "extra"),
        (f"bucket-0/data-{UUID}-0.managed.blob", "extra"),
        (f"bucket-0/index-{UUID}-0", "index"),
        (f"bucket-0/.data-{UUID}-0.parquet.{UUID}.tmp", "temporary"),
        (f"index/index-{UUID}-0", "index"),
        (f"index/bitmap-global-index-{UUID}.index", "index"),
        (f"manifest/manifest-{UUID}-0", "manifest"),
        (f"manifest/manifest-{UUID}-changelog-0", "manifest"),
        (f"manifest/manifest-{UUID}-0.avro.sidecar", "extra"),
        (f"manifest/manifest-list-{UUID}-changelog", "manifest-list"),
        (f"manifest/index-manifest-{UUID}", "index-manifest"),
        (f"statistics/stat-{UUID}-0", "statistics"),
        (f"snapshot/.snapshot-3.{UUID}.tmp", "temporary"),
        (f"branch/branch-dev/snapshot/.LATEST.{UUID}.tmp", "temporary"),
        ("branch/branch-dev/", "branch"),
        ("branch/branch-dev/tag/tag-v 1", "tag"),
        ("service/service-primary-key-lookup", "service"),
        ("tag/tag-success-file/v1_SUCCESS", "marker"),
        ("_SUCCESS", "marker"),
    ],
)
def test_names_of_paimon_are_known(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    "name",
    [
        f"bucket-0/data-{UUID}-0.parquet.bak",
        f"bucket-0/data-{UUID}-0.parquet\n",
        f"bucket-0/copy of data-{UUID}-0.parquet",
        f"bucket-0/sub/data-{UUID}-0.parquet",
        f"bucket-0/.data-{UUID}-0.parquet.crc",
        f"bucket-x/data-{UUID}-0.parquet",
        f"data-{UUID}-0.parquet",
        f"dt=1/bucket-0/data-{UUID}-0.parquet",
        f"bucket-0/DATA-{UUID}-0.parquet",
        f"bucket-0/part-{UUID}-0.parquet",
        f"snapshot/snapshot-99{UUID}.tmp",
        f"schema/.schema-9.{UUID}.tmp",
        f"tag/.tag-x.{UUID}.tmp",
        f"metadata/manifest-{UUID}-0",
        "notes.txt",
        "",
    ],
)
def test_other_names_are_not_known(name: str) -> None:
    assert kind_of(name) is None


def test_partitions_have_the_keys_of_the_table_in_their_order() -> None:
    name = f"a%3Ab=1/c.d=2/bucket-0/data-{UUID}-0.parquet"
    assert kind_of(name, "a:b", "c.d") == "data"
    assert kind_of(name, "c.d", "a:b") is None
    assert kind_of(name.replace("c.d", "cxd"), "a:b", "c.d") is None


def test_markers_lie_in_partitions_not_in_buckets() -> None:
    assert kind_of("dt=1/_SUCCESS", "dt") == "marker"
    assert kind_of("dt=1/bucket-0/_SUCCESS", "dt") is None


def test_data_may_lie_in_a_folder_of_its_own() -> None:
    name = f"bucket-0/data-{UUID}-0.parquet"
    options = {"data_file.path_directory": "my.data"}
    assert kind_of(f"my.data/{name}", **options) == "data"
    assert kind_of(name, **options) is None


def test_own_prefixes_and_those_that_were_before_are_known() -> None:
    options = {"data_file.prefix": "a+", "changelog_file.prefix": "cl-"}
    names = [f"bucket-0/{prefix}{UUID}-0.orc" for prefix in ("a+", "data-", "cl-", "changelog-")]
    found = [kind_of(name, **options) for name in names]
    assert found == ["data", "data", "changelog", "changelog"]


def test_below_external_roots_a_hash_may_be_folders() -> None:
    name = f"bucket-0/0101/1100/0011/10101010/data-{UUID}-0.parquet"
    names = pa.array([name, name.replace("0101/", "01/"), f"manifest/manifest-{UUID}-0"])
    assert kinds_of_external_files(layout(), names).to_pylist() == ["data", None, None]
    assert kind_of(name) is None
