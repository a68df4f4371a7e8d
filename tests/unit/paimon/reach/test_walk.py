"""What tables reach that are written here file by file."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from lakesweep.errors import (
    IncompleteError,
    LakesweepError,
    MissingError,
    UnreadableError,
)
from lakesweep.marks.unreadable import Strict, Tolerance, Tolerant
from lakesweep.paimon.model.binary_row import encode_row
from lakesweep.paimon.model.data_types import parse_type
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.reach.walk import reached_files
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.base import StoreWrapper
from tests.iceberg_tables import BUCKET
from tests.paimon_tables import File, Index, Table


def reached(table: Table, *kinds: str, tolerance: Tolerance | None = None) -> set[str]:
    """The paths below the table, or whole where they are not below it, of files of some kinds."""
    opened = PaimonTable.open(table.bucket.stores, table.address)
    batches = reached_files(opened, tolerance or Strict())
    rows = (row for batch in batches for row in batch.to_pylist())
    return {row["path"].removeprefix(f"{table.address}/") for row in rows if row["kind"] in kinds}


def partition(value: str) -> bytes:
    return encode_row([value], [parse_type("STRING")])


def references(*packs: str) -> bytes:
    """A sidecar that names packs."""
    parts = [part.encode() for pack in packs for part in pack.rsplit("/", 1)]
    texts = b"".join(struct.pack(">H", len(part)) + part for part in parts)
    content = struct.pack(">Bi", 1, len(packs)) + texts
    return b"PBLR" + content + struct.pack(">I", zlib.crc32(content))


def test_a_table_without_snapshots_reaches_its_schema() -> None:
    table = Table()
    opened = PaimonTable.open(table.bucket.stores, table.address)
    (batch,) = reached_files(opened, Strict())
    assert batch["path"].to_pylist() == [table.path("schema/schema-0")]


def test_data_of_all_branches_lies_in_the_table() -> None:
    table = Table()
    table.snapshot(1, table.manifest(File("data-a.parquet")))
    table.schema(branch="dev")
    table.snapshot(1, table.manifest(File("data-b.parquet")), branch="dev")
    assert reached(table, "data") == {"bucket-0/data-a.parquet", "bucket-0/data-b.parquet"}


def test_the_metadata_of_a_branch_lies_in_its_folder() -> None:
    table = Table()
    table.schema(branch="dev")
    document = table.snapshot(1, branch="dev")
    table.tag("v1", document, branch="dev")
    table.write("branch/branch-dev/consumer/consumer-job", {"nextSnapshot": 1})
    table.write("branch/branch-dev/snapshot/LATEST", b"1")
    found = reached(table, "schema", "snapshot", "tag", "consumer", "hint")
    assert found == {
        "schema/schema-0",
        "branch/branch-dev/schema/schema-0",
        "branch/branch-dev/snapshot/snapshot-1",
        "branch/branch-dev/tag/tag-v1",
        "branch/branch-dev/consumer/consumer-job",
        "branch/branch-dev/snapshot/LATEST",
    }


def test_services_are_reached() -> None:
    table = Table()
    table.write("service/service-primary-key-lookup", b"[]")
    assert reached(table, "service") == {"service/service-primary-key-lookup"}


def test_deleted_files_are_still_named() -> None:
    table = Table()
    table.snapshot(1, table.manifest(File("data-a.parquet", kind=1)))
    assert reached(table, "data") == {"bucket-0/data-a.parquet"}


def test_files_of_changelog_manifests_are_changelogs() -> None:
    table = Table()
    changes = table.list(table.manifest(File("changelog-a.parquet")))
    table.snapshot(1, changelogManifestList=changes)
    assert reached(table, "changelog") == {"bucket-0/changelog-a.parquet"}


def test_extra_files_lie_beside_their_data_file() -> None:
    table = Table()
    file = File("data-a.parquet", bucket=3, extra=("data-a.parquet.index", "other"))
    table.snapshot(1, table.manifest(file))
    assert reached(table, "extra") == {"bucket-3/data-a.parquet.index", "bucket-3/other"}


def test_external_files_are_where_they_say_with_their_extra_files() -> None:
    table = Table(options={"data-file.external-paths": "oss://a/b, s3a://elsewhere//top/"})
    outside = "s3://elsewhere/top/bucket-0/0101/1100/0011/10101010/data-a.parquet"
    file = File("data-a.parquet", external_path=outside, extra=("data-a.parquet.index",))
    table.snapshot(1, table.manifest(file))
    assert reached(table, "data", "extra") == {outside, f"{outside}.index"}


@pytest.mark.parametrize(
    "outside",
    [
        "s3://elsewhere/tops/bucket-0/data-a.parquet",
        "s3://elsewhere/top/data-a.parquet",
        "s3://elsewhere/top/other_table/bucket-0/data-a.parquet",
        "s3://elsewhere/top/k=1/bucket-0/data-a.parquet",
        "s3://elsewhere/top/../other/bucket-0/data-a.parquet",
        "/etc/shadow",
        "s3://b/t2/bucket-0/data-a.parquet",
    ],
)
def test_external_files_are_believed_only_where_the_table_writes(outside: str) -> None:
    table = Table(options={"data-file.external-paths": "s3://elsewhere/top"})
    manifest = table.manifest(File("data-a.parquet", external_path=outside))
    table.snapshot(1, manifest)
    with pytest.raises(UnreadableError, match=r"in no external path of the table") as caught:
        reached(table)
    assert caught.value.path == table.path(f"manifest/{manifest['_FILE_NAME']}")
    assert outside.rpartition("/")[0] in caught.value.reason


def test_external_indexes_are_believed_only_where_the_table_writes() -> None:
    table = Table(options={"global-index.external-path": "s3://elsewhere/indexes"})
    index = Index("btree-1.index", external_path="s3://elsewhere/others/btree-1.index")
    name = table.index_manifest(index)
    table.snapshot(1, indexManifest=name)
    with pytest.raises(UnreadableError, match="s3://elsewhere/others/") as caught:
        reached(table)
    assert caught.value.path.endswith(name)


@pytest.mark.parametrize("name", ["../t2/bucket-0/data-a.parquet", "a/b", "..", ".", "a\0b"])
def test_a_name_that_leads_to_another_folder_is_refused(name: str) -> None:
    for file in (File(name), File("data-a.parquet", extra=(name,))):
        table = Table()
        table.snapshot(1, table.manifest(file))
        with pytest.raises(UnreadableError, match="no name of a file"):
            reached(table)


@pytest.mark.parametrize("field", ["baseManifestList", "indexManifest", "statistics"])
def test_a_snapshot_that_names_a_file_of_another_folder_is_refused(field: str) -> None:
    table = Table()
    fields: dict[str, Any] = {field: "../../t2/schema/schema-0"}
    table.snapshot(1, table.manifest(File("data-a.parquet")), **fields)
    with pytest.raises(UnreadableError, match="no name of a file") as caught:
        reached(table)
    assert caught.value.path == table.path("snapshot/snapshot-1")


def test_postponed_buckets_have_a_name() -> None:
    table = Table()
    table.snapshot(1, table.manifest(File("data-a.parquet", bucket=-2)))
    assert reached(table, "data") == {"bucket-postpone/data-a.parquet"}


def test_data_may_lie_in_a_folder_of_its_own() -> None:
    table = Table(options={"data-file.path-directory": "data"}, partition_keys=["dt"])
    table.snapshot(1, table.manifest(File("data-a.parquet", partition=partition("x/y"))))
    assert reached(table, "data") == {"data/dt=x%2Fy/bucket-0/data-a.parquet"}


def test_index_files_lie_in_the_folder_of_indexes() -> None:
    table = Table(partition_keys=["dt"])
    table.snapshot(
        1, indexManifest=table.index_manifest(Index("index-1", partition=partition("a")))
    )
    assert reached(table, "index") == {"index/index-1"}


def test_index_files_may_lie_in_buckets() -> None:
    table = Table(options={"index-file-in-data-file-dir": "true"}, partition_keys=["dt"])
    table.snapshot(
        1, indexManifest=table.index_manifest(Index("index-1", partition=partition("a")))
    )
    assert reached(table, "index") == {"dt=a/bucket-0/index-1"}


def test_indexes_over_the_whole_table_never_lie_in_buckets() -> None:
    table = Table(options={"index-file-in-data-file-dir": "true"})
    index = Index("btree-1.index", type="btree", first_row=0)
    table.snapshot(1, indexManifest=table.index_manifest(index))
    assert reached(table, "index") == {"index/btree-1.index"}


def test_external_indexes_are_where_they_say() -> None:
    table = Table(options={"global-index.external-path": "s3://elsewhere/indexes"})
    index = Index("btree-1.index", external_path="s3://elsewhere/indexes/btree-1.index")
    table.snapshot(1, indexManifest=table.index_manifest(index))
    assert reached(table, "index") == {"s3://elsewhere/indexes/btree-1.index"}


def test_sidecars_of_manifests_are_extra_files() -> None:
    table = Table()
    manifest = table.manifest(File("data-a.parquet"), _EXTRA_FILES=["manifest-1.avro.sidecar"])
    table.snapshot(1, manifest)
    assert reached(table, "extra") == {"manifest/manifest-1.avro.sidecar"}


def test_statistics_are_reached() -> None:
    table = Table()
    table.snapshot(1, statistics="stat-1")
    assert reached(table, "statistics") == {"statistics/stat-1"}


def test_packs_are_reached_through_sidecars_of_data_files() -> None:
    table = Table()
    file = File("data-a.parquet", extra=("data-a.parquet.blobref",))
    table.snapshot(1, table.manifest(file))
    pack = table.path("bucket-0/data-b.managed.blob")
    table.write("bucket-0/data-a.parquet.blobref", references(pack))
    assert "bucket-0/data-b.managed.blob" in reached(table, "extra")


def test_a_sidecar_that_went_with_its_data_file_names_nothing() -> None:
    table = Table()
    file = File("data-a.parquet", kind=1, extra=("data-a.parquet.blobref",))
    table.snapshot(1, table.manifest(file))
    assert reached(table, "extra") == {"bucket-0/data-a.parquet.blobref"}


def test_a_data_file_without_its_sidecar_is_an_error() -> None:
    table = Table()
    file = File("data-a.parquet", extra=("data-a.parquet.blobref",))
    table.snapshot(1, table.manifest(file))
    table.write("bucket-0/data-a.parquet", b"...")
    with pytest.raises(UnreadableError, match=r"data-a\.parquet\.blobref is missing"):
        reached(table)


def test_a_manifest_is_read_once_whoever_names_it() -> None:
    table = Table()
    manifest = table.manifest(File("data-a.parquet"))
    for number in (1, 2, 3):
        table.snapshot(number, base=[manifest])
    table.bucket.reads()
    reached(table)
    path = table.path(f"manifest/{manifest['_FILE_NAME']}")
    assert table.bucket.reads().count(path) == 1


def test_a_branch_of_another_layout_has_its_files_elsewhere() -> None:
    table = Table()
    manifest = table.manifest(File("data-a.parquet"))
    table.snapshot(1, manifest)
    table.schema(branch="dev", options={"data-file.path-directory": "data"})
    table.snapshot(1, manifest, branch="dev")
    assert reached(table, "data") == {"bucket-0/data-a.parquet", "data/bucket-0/data-a.parquet"}


def test_a_changelog_does_without_the_lists_of_its_snapshot() -> None:
    table = Table()
    changes = table.list(table.manifest(File("changelog-a.parquet")))
    document = table.snapshot(1, changelogManifestList=changes, indexManifest="index-manifest-gone")
    table.changelog(document)
    table.snapshot(2)
    table.delete("snapshot/snapshot-1")
    table.delete(f"manifest/{document['baseManifestList']}")
    table.delete(f"manifest/{document['deltaManifestList']}")
    assert reached(table, "changelog") == {"bucket-0/changelog-a.parquet"}


def test_a_changelog_whose_own_list_is_missing_is_an_error() -> None:
    table = Table()
    table.changelog(table.snapshot(1, changelogManifestList="manifest-list-gone"))
    table.snapshot(2)
    table.delete("snapshot/snapshot-1")
    with pytest.raises(UnreadableError, match="manifest-list-gone is missing"):
        reached(table)


def test_a_tag_does_without_its_changelog() -> None:
    table = Table()
    document = table.snapshot(1, table.manifest(File("data-a.parquet")))
    table.tag("v1", {**document, "changelogManifestList": "manifest-list-gone"})
    assert reached(table, "data") == {"bucket-0/data-a.parquet"}


@pytest.mark.parametrize("role", ["baseManifestList", "deltaManifestList", "changelogManifestList"])
def test_a_list_that_a_snapshot_needs_and_is_missing_is_an_error(role: str) -> None:
    table = Table()
    lists: dict[str, Any] = {role: "manifest-list-gone"}
    table.snapshot(1, **lists)
    with pytest.raises(UnreadableError, match="manifest-list-gone is missing"):
        reached(table)


def test_an_index_manifest_that_is_missing_is_an_error() -> None:
    table = Table()
    table.snapshot(1, indexManifest="index-manifest-gone")
    with pytest.raises(UnreadableError, match="index-manifest-gone is missing"):
        reached(table)


def test_a_manifest_that_is_missing_is_an_error() -> None:
    table = Table()
    manifest = table.manifest(File("data-a.parquet"))
    table.snapshot(1, manifest)
    table.delete(f"manifest/{manifest['_FILE_NAME']}")
    with pytest.raises(UnreadableError, match="is missing"):
        reached(table)


def test_a_manifest_that_only_the_changelog_of_a_tag_names_may_be_missing() -> None:
    table = Table()
    manifest = table.manifest(File("changelog-a.parquet"))
    document = table.snapshot(1)
    table.tag("v1", {**document, "changelogManifestList": table.list(manifest)})
    table.delete(f"manifest/{manifest['_FILE_NAME']}")
    assert reached(table, "changelog") == set()


@pytest.mark.parametrize("cut", [0, 3, 40, -1])
def test_a_cut_manifest_is_an_error(cut: int) -> None:
    table = Table()
    manifest = table.manifest(File("data-a.parquet"))
    path = table.path(f"manifest/{manifest['_FILE_NAME']}")
    table.bucket.write(path, table.bucket.read(path)[:cut])
    table.snapshot(1, manifest)
    with pytest.raises(UnreadableError, match="is truncated"):
        reached(table)


def test_a_manifest_with_fewer_entries_than_its_list_says_is_an_error() -> None:
    table = Table()
    table.snapshot(1, table.manifest(File("data-a.parquet"), _NUM_ADDED_FILES=2))
    with pytest.raises(UnreadableError, match="has 1 of 2 entries"):
        reached(table)


def test_a_list_shorter_than_its_snapshot_says_is_an_error() -> None:
    table = Table()
    table.snapshot(1, deltaManifestListSize=10_000)
    with pytest.raises(UnreadableError, match="of 10000 bytes"):
        reached(table)


def test_entries_of_another_version_are_an_error() -> None:
    table = Table()
    table.snapshot(1, table.manifest(File("data-a.parquet", version=3)))
    with pytest.raises(UnreadableError, match="entries of version 3"):
        reached(table)


def test_a_snapshot_of_a_newer_version_is_an_error() -> None:
    table = Table()
    table.snapshot(1, version=4)
    with pytest.raises(IncompleteError, match="version 4") as caught:
        reached(table)
    assert caught.value.hint == "use a newer lakesweep"


def test_a_branch_with_snapshots_and_no_schema_is_an_error() -> None:
    table = Table()
    table.snapshot(1, branch="dev")
    with pytest.raises(LakesweepError, match="holds no schema"):
        reached(table)


@pytest.mark.parametrize("hint", ["EARLIEST", "LATEST"])
def test_hints_without_any_snapshot_tell_that_snapshots_were_lost(hint: str) -> None:
    table = Table()
    table.write(f"snapshot/{hint}", b"5")
    with pytest.raises(UnreadableError, match="refers to snapshots, but there are none"):
        reached(table)


def test_tolerant_walks_go_on_and_tell() -> None:
    table = Table()
    bad = table.manifest(File("data-a.parquet"), _NUM_ADDED_FILES=2)
    table.snapshot(1, bad, table.manifest(File("data-b.parquet")))
    tolerance = Tolerant()
    found = reached(table, "data", "manifest", tolerance=tolerance)
    assert "bucket-0/data-b.parquet" in found
    assert f"manifest/{bad['_FILE_NAME']}" in found
    assert [str(problem).split(": ")[1] for problem in tolerance.problems] == ["truncated"]


class Expiring(StoreWrapper):
    """A store in which something happens right before one key is read."""

    def __init__(self, store: ObjectStore, key: str, happens: Callable[[], None]) -> None:
        super().__init__(store)
        self._key, self._happens = key, happens

    def read(self, key: str) -> bytes:
        if key == self._key:
            self._happens()
        return self.store.read(key)


def expired_while_reading(table: Table, before: str, *gone: str) -> set[str]:
    """What is reached if files go right before one is read."""

    def expire() -> None:
        for name in gone:
            table.delete(name)

    store = Expiring(table.bucket.store, f"t/{before}", expire)
    opened = PaimonTable.open(Stores(replace={BUCKET: store}), table.address)
    batches = list(reached_files(opened, Strict()))
    return {row["path"] for batch in batches for row in batch.to_pylist() if row["kind"] == "data"}


def test_a_list_that_went_with_its_snapshot_is_no_error() -> None:
    table = Table()
    document = table.snapshot(1, table.manifest(File("data-a.parquet")))
    table.snapshot(2, table.manifest(File("data-b.parquet")))
    name = f"manifest/{document['deltaManifestList']}"
    found = expired_while_reading(table, name, "snapshot/snapshot-1", name)
    assert found == {table.path("bucket-0/data-b.parquet")}


def test_a_manifest_that_went_with_its_snapshot_is_no_error() -> None:
    table = Table()
    manifest = table.manifest(File("data-a.parquet"))
    table.snapshot(1, manifest)
    table.snapshot(2, table.manifest(File("data-b.parquet")))
    name = f"manifest/{manifest['_FILE_NAME']}"
    found = expired_while_reading(table, name, "snapshot/snapshot-1", name)
    assert found == {table.path("bucket-0/data-b.parquet")}


def test_a_manifest_that_went_while_another_snapshot_needs_it_is_an_error() -> None:
    table = Table()
    manifest = table.manifest(File("data-a.parquet"))
    table.snapshot(1, manifest)
    table.snapshot(2, base=[manifest])
    name = f"manifest/{manifest['_FILE_NAME']}"
    with pytest.raises(UnreadableError, match="is missing"):
        expired_while_reading(table, name, "snapshot/snapshot-1", name)


def test_a_snapshot_that_went_since_it_was_listed_is_no_owner() -> None:
    table = Table()
    table.snapshot(1, table.manifest(File("data-a.parquet")))
    table.snapshot(2, table.manifest(File("data-b.parquet")))
    found = expired_while_reading(table, "snapshot/snapshot-1", "snapshot/snapshot-1")
    assert found == {table.path("bucket-0/data-b.parquet")}


def test_a_snapshot_that_is_asked_for_and_not_there_is_missing() -> None:
    table = Table()
    with pytest.raises(MissingError):
        PaimonTable.open(table.bucket.stores, table.address).main.snapshot(7)
