"""Paimon tables as roots of a sweep, alone and beside Iceberg tables."""

from __future__ import annotations

import json
import struct
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from lakesweep.clock import SystemClock
from lakesweep.config import IcebergMetadataRoot, LakeSection, PaimonWarehouseRoot
from lakesweep.errors import IncompleteError, RefusedError
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, InterceptedCall, StorageFault
from lakesweep.sweep.inspect.verdict_explanation import explain
from lakesweep.sweep.mark.marks import RootState
from lakesweep.sweep.roots.paimon import PaimonRoots
from lakesweep.sweep.roots.root import EmptyRootSource, RootKind, RootProblem, RootRow
from tests import iceberg_tables as iceberg
from tests.iceberg_tables import BUCKET, Bucket
from tests.paimon import TABLES, JavaWarehouses
from tests.paimon_tables import File, Index, Row, Table, unique_name
from tests.planned import Desk, deletes, reasons

WAREHOUSE = f"{BUCKET}/wh"
_numbers = iter(range(1 << 20, 1 << 30))


def data_name() -> str:
    return f"data-{unique_name(next(_numbers))}.parquet"


@dataclass
class World:
    """A bucket with a warehouse, and whoever sweeps all of it."""

    bucket: Bucket = field(default_factory=Bucket)
    warehouse: str = WAREHOUSE
    locations: tuple[str, ...] = (BUCKET,)
    metadata: tuple[str, ...] = ()
    unknown: str = "keep"

    def table(self, name: str, **fields: Any) -> Table:
        return Table(self.bucket, f"wh/shop.db/{name}", **fields)

    def desk(self) -> Desk:
        roots: list[Any] = [PaimonWarehouseRoot(type="paimon-warehouse", path=self.warehouse)]
        if self.metadata:
            roots.append(IcebergMetadataRoot(type="iceberg-metadata", files=self.metadata))
        section = LakeSection(
            locations=self.locations,
            roots=tuple(roots),
            unknown=self.unknown,  # type: ignore[arg-type]
        )
        return Desk(self.bucket.stores, section)

    def stored(self) -> set[str]:
        keys = (info for info in _keys(self.bucket))
        return {f"{BUCKET}/{key}" for key in keys}


def _keys(bucket: Bucket) -> list[str]:
    return [str(key) for key in bucket.store.list("").entries["key"].to_pylist()]


def put(table: Table, *names: str, folder: str = "bucket-0") -> list[str]:
    """Files of data that nobody has committed yet, by their addresses."""
    return [table.write(f"{folder}/{name}", b"content") for name in names or (data_name(),)]


def commit(table: Table, number: int, *files: File, **fields: Any) -> Row:
    """Store files, and commit them."""
    for file in files:
        if file.external_path is None:
            put(table, file.name, *file.extra)
    return table.snapshot(number, table.manifest(*files), **fields)


@pytest.fixture
def world() -> World:
    return World()


def test_the_orphans_of_java_tables_are_what_a_plan_deletes(java_tables: JavaWarehouses) -> None:
    """Every file of every kind that Java's tables use stays, and nothing of it is missing."""
    warehouse = str(java_tables.warehouse)
    root = PaimonWarehouseRoot(type="paimon-warehouse", path=warehouse)
    section = LakeSection(locations=(warehouse,), roots=(root,))
    desk = Desk(Stores(), section, clock=SystemClock())
    plan = desk.plan(grace=timedelta(days=1))
    # What was rolled back has left files that nobody planted.
    tables = [java_tables.table(name) for name in TABLES if name != "shop.rolled_back"]
    planted = {
        f"{java.folder}/{each['path']}"
        for java in tables
        for each in java.references["planted"]
        if each["expect"] == "delete"
    }
    assert {path for path in deletes(plan) if "/rolled_back/" not in path} == planted
    assert plan.document.roots.complete == len(list(java_tables.warehouse.glob("*.db/*")))
    assert not plan.document.roots.incomplete
    assert "missing" not in {guard.name for guard in plan.document.guards}
    assert not desk.check(desk.survey()).files


def test_a_lake_may_mix_formats(world: World) -> None:
    table = world.table("t")
    live = data_name()
    commit(table, 1, File(live))
    rubbish = put(table, data_name())
    other = iceberg.Table(world.bucket, "ice")
    other.snapshot(other.manifest("m0.avro", other.data("a.parquet")))
    world.bucket.write(f"{BUCKET}/ice/data/a.parquet", b"a")
    world.bucket.write(f"{BUCKET}/ice/data/b.parquet", b"b")
    world.metadata = (other.commit(),)
    desk = world.desk()
    plan = desk.plan()
    assert deletes(plan) == {*rubbish, f"{BUCKET}/ice/data/b.parquet"}
    before = world.stored()
    assert desk.apply(plan).report.deleted == 2
    assert before - world.stored() == deletes(plan)


def test_a_file_is_explained_by_the_table_and_the_way_to_it(world: World) -> None:
    table = world.table("t")
    live = data_name()
    document = commit(table, 1, File(live))
    (rubbish,) = put(table)
    plan = world.desk().plan()
    found = explain(plan, table.path(f"bucket-0/{live}"))
    (reference,) = found.references
    assert reference.root.name == table.address
    assert reference.root.kind is RootKind.PAIMON_TABLE
    assert reference.through[:3] == (
        table.path("schema/schema-0"),
        table.path("snapshot/snapshot-1"),
        table.path(f"manifest/{document['deltaManifestList']}"),
    )
    gone = explain(plan, rubbish)
    assert f"it lies in a folder of {table.address}" in gone.evidence
    assert not any("gc.enabled" in text or "unknown" in text for text in gone.would_be_kept_by)


def test_a_file_that_a_tag_keeps_is_explained_as_what_it_is_and_not_as_deleted(
    world: World,
) -> None:
    table = world.table("t")
    old = File(data_name())
    first = table.manifest(old)
    table.tag("v1", table.snapshot(1, first))
    table.delete("snapshot/snapshot-1")
    table.tag("v2", table.snapshot(2, table.manifest(replace(old, kind=1)), base=[first]))
    (path,) = put(table, old.name)
    (reference,) = explain(world.desk().plan(), path).references
    assert reference.kind == "data"
    assert reference.through[-1] == table.path(f"manifest/{first['_FILE_NAME']}")


def packs(folder: str, name: str) -> bytes:
    """A sidecar that names one pack."""
    texts = b"".join(struct.pack(">H", len(text)) + text.encode() for text in (folder, name))
    content = struct.pack(">Bi", 1, 1) + texts
    return b"PBLR" + content + struct.pack(">I", zlib.crc32(content))


def use_extra(table: Table) -> str:
    name = data_name()
    commit(table, 1, File(name, extra=(f"{name}.index",)))
    return table.path(f"bucket-0/{name}.index")


def use_pack(table: Table) -> str:
    name, pack = data_name(), f"data-{unique_name(next(_numbers))}.managed.blob"
    commit(table, 1, File(name, extra=(f"{name}.blobref",)))
    table.write(f"bucket-0/{name}.blobref", packs(table.path("bucket-0"), pack))
    return put(table, pack)[0]


def use_index(table: Table) -> str:
    name = f"index-{unique_name(next(_numbers))}"
    commit(table, 1, File(data_name()), indexManifest=table.index_manifest(Index(name)))
    return table.write(f"index/{name}", b"index")


def use_statistics(table: Table) -> str:
    name = f"stat-{unique_name(next(_numbers))}"
    commit(table, 1, File(data_name()), statistics=name)
    return table.write(f"statistics/{name}", b"{}")


def use_changelog(table: Table) -> str:
    name = f"changelog-{unique_name(next(_numbers))}.parquet"
    changes = table.list(table.manifest(File(name)))
    commit(table, 1, File(data_name()), changelogManifestList=changes)
    return put(table, name)[0]


def use_decoupled_changelog(table: Table) -> str:
    path = use_changelog(table)
    document = json.loads(table.bucket.read(table.path("snapshot/snapshot-1")))
    commit(table, 2, File(data_name()))
    table.changelog(document)
    for name in ("baseManifestList", "deltaManifestList"):
        table.delete(f"manifest/{document[name]}")
    table.delete("snapshot/snapshot-1")
    return path


def use_tag(table: Table) -> str:
    name = data_name()
    table.tag("v1", commit(table, 1, File(name)))
    commit(table, 2, File(data_name()))
    table.delete("snapshot/snapshot-1")
    return table.path(f"bucket-0/{name}")


def use_branch(table: Table) -> str:
    name = data_name()
    table.schema(branch="dev")
    commit(table, 1, File(name), branch="dev")
    commit(table, 1, File(data_name()))
    return table.path(f"bucket-0/{name}")


def use_manifest_sidecar(table: Table) -> str:
    manifest = table.manifest(File(data_name()), _EXTRA_FILES=[])
    sidecar = f"{manifest['_FILE_NAME']}.avro.sidecar"
    table.snapshot(1, {**manifest, "_EXTRA_FILES": [sidecar]})
    return table.write(f"manifest/{sidecar}", b"blocks")


def use_external(table: Table) -> str:
    path = f"{BUCKET}/out/bucket-0/{data_name()}"
    spelled = path.replace("s3://", "s3a://")
    table.schema(options={"data-file.external-paths": f"{BUCKET}/out"})
    commit(table, 1, File(path.rpartition("/")[2], external_path=spelled))
    return table.bucket.write(path, b"content")


def use_elsewhere(table: Table) -> str:
    """What is used lies where another option of the table said that it lay."""
    path = use_index(table)
    table.schema(1, options={"index-file-in-data-file-dir": "true"})
    return path


@pytest.mark.parametrize(
    "use",
    [
        use_extra,
        use_pack,
        use_index,
        use_statistics,
        use_changelog,
        use_decoupled_changelog,
        use_tag,
        use_branch,
        use_manifest_sidecar,
        use_external,
        use_elsewhere,
    ],
)
def test_every_kind_of_file_stays_in_each_of_two_plans(
    world: World, use: Callable[[Table], str]
) -> None:
    options = {"data-file.external-paths": f"{BUCKET}/out"}
    path = use(world.table("t", options=options))
    (rubbish,) = put(world.table("other"))
    desk = world.desk()
    # What the first plan read, the second one knows.
    for plan in (desk.plan(), desk.plan()):
        assert reasons(plan)[path] in {"referenced", "in-doubt"}
        assert rubbish in deletes(plan)


def test_files_that_a_commit_deleted_may_be_missing(world: World) -> None:
    table = world.table("t")
    old, new = File(data_name()), File(data_name())
    first = table.manifest(old)
    put(table, new.name)
    table.snapshot(2, table.manifest(replace(old, kind=1), new), base=[first])
    desk = world.desk()
    assert "missing" not in {guard.name for guard in desk.plan().document.guards}
    assert not desk.check(desk.survey()).files
    table.delete(f"bucket-0/{new.name}")
    put(table)
    assert "missing" in {guard.name for guard in desk.plan().document.guards}
    found = desk.check(desk.survey())
    assert [(gap.table, gap.files) for gap in found.gaps] == [(table.address, 1)]


@pytest.mark.parametrize("keeper", ["tag", "snapshot", "branch"])
def test_a_file_that_a_commit_deleted_is_missed_by_older_owners(world: World, keeper: str) -> None:
    table = world.table("t")
    shared, old = File(data_name()), File(data_name())
    first, second = table.manifest(shared, old), table.manifest(replace(old, kind=1))
    put(table, shared.name)
    row = table.snapshot(1, first)
    table.snapshot(2, second, base=[first])
    if keeper == "tag":
        table.tag("v1", row)
    if keeper == "branch":
        table.schema(branch="dev")
        table.snapshot(1, first, branch="dev")
    if keeper != "snapshot":
        table.delete("snapshot/snapshot-1")
    desk = world.desk()
    found = desk.check(desk.survey())
    missing = [row["path"] for row in desk.rows(found.missing)]
    assert missing == [table.path(f"bucket-0/{old.name}")]


def test_an_index_manifest_that_lost_its_entries_is_not_believed(world: World) -> None:
    table = world.table("t", partition_keys=("k",))
    table.schema(primaryKeys=["id", "k"], options={"bucket": "-1"})
    commit(table, 1, File(data_name()), indexManifest=table.index_manifest(), totalRecordCount=1)
    put(table)
    plan = world.desk().plan()
    assert [root.name for root in plan.document.incomplete_roots] == [table.address]
    assert not deletes(plan)


def test_only_names_of_paimon_go_from_its_folders(world: World) -> None:
    table = world.table("t", partition_keys=("_day",))
    commit(table, 1)
    strange = {
        table.write(name, b"x")
        for name in ("_day=1/bucket-0/part-0.parquet", "notes.txt", "metadata/v1.metadata.json")
    }
    kept = {table.write(name, b"x") for name in ("_day=1/_SUCCESS", "consumer/consumer-a")}
    temporary = f".snapshot-2.{unique_name(1)[:-2]}.tmp"
    litter = {
        table.write(f"snapshot/{temporary}", b"x"),
        *put(table, folder="_day=1/bucket-0"),
    }
    assert deletes(world.desk().plan()) == litter
    world.unknown = "delete"
    plan = world.desk().plan()
    assert deletes(plan) == litter | strange
    assert kept <= reasons(plan).keys()


def test_what_looks_like_paimon_stays_where_no_table_of_the_warehouse_is(world: World) -> None:
    commit(world.table("t"), 1, File(data_name()))
    unlisted = Table(world.bucket, "elsewhere/t")
    nested = world.table("t/inner")
    for table in (unlisted, nested):
        commit(table, 1, File(data_name()))
        put(table)
    world.bucket.write(f"{BUCKET}/lost/bucket-0/{data_name()}", b"x")
    assert not deletes(world.desk().plan())


def test_a_name_that_another_one_begins_with_is_another_table(world: World) -> None:
    short, long = world.table("t1"), world.table("t10")
    names = data_name(), data_name()
    commit(short, 1, File(names[0]))
    commit(long, 1, File(names[1]))
    rubbish = put(short)
    for key in [key for key in _keys(world.bucket) if key.startswith("wh/shop.db/t10/manifest/")]:
        world.bucket.delete(f"{BUCKET}/{key}")
    desk = world.desk()
    plan = desk.plan()
    # Of t10 nothing was ever known, so that it may keep files anywhere.
    assert [root.name for root in plan.document.incomplete_roots] == [long.address]
    assert not deletes(plan)
    world.locations = (short.address,)
    world.warehouse = short.address
    assert deletes(world.desk().plan()) == set(rubbish)


def test_the_spelling_of_the_warehouse_does_not_matter(world: World) -> None:
    table = world.table("t")
    commit(table, 1, File(data_name()))
    rubbish = put(table)
    stores = Stores(replace={BUCKET: world.bucket.store, "s3a://lake": world.bucket.store})
    world.bucket.stores = stores
    world.warehouse = WAREHOUSE.replace("s3://", "s3a://")
    assert deletes(world.desk().plan()) == set(rubbish)


@pytest.mark.parametrize("part", ["shop.db", "shop.db/t"])
def test_without_its_warehouse_what_a_table_has_outside_stays(world: World, part: str) -> None:
    table = world.table("t", options={"data-file.external-paths": f"{BUCKET}/out"})
    commit(table, 1, File(data_name()))
    outside = world.bucket.write(f"{BUCKET}/out/bucket-0/{data_name()}", b"x")
    assert deletes(world.desk().plan()) == {outside}
    world.warehouse = f"{WAREHOUSE}/{part}"
    assert not deletes(world.desk().plan())


def test_tables_with_one_folder_outside_keep_what_either_uses(world: World) -> None:
    options = {"data-file.external-paths": f"{BUCKET}/out"}
    one, two = (world.table(name, options=options) for name in ("one", "two"))
    paths = [f"{BUCKET}/out/bucket-0/{data_name()}" for _ in range(3)]
    for path in paths:
        world.bucket.write(path, b"x")
    for table, path in ((one, paths[0]), (two, paths[1])):
        commit(table, 1, File(path.rpartition("/")[2], external_path=path))
    assert deletes(world.desk().plan()) == {paths[2]}


def test_what_is_committed_between_plan_and_apply_stays(world: World) -> None:
    table = world.table("t")
    commit(table, 1, File(data_name()))
    paths = put(table, *(data_name() for _ in range(4)))
    names = [path.rpartition("/")[2] for path in paths]
    desk = world.desk()
    plan = desk.plan()
    table.snapshot(2, table.manifest(File(names[0])))
    table.tag("late", table.snapshot(3, table.manifest(File(names[1]))))
    table.delete("snapshot/snapshot-3")
    table.schema(branch="dev")
    table.snapshot(1, table.manifest(File(names[2])), branch="dev")
    applied = desk.apply(plan)
    assert applied.kept_by_remark == 3
    assert set(paths) & world.stored() == set(paths[:3])


def test_nothing_goes_where_what_came_cannot_be_read(world: World) -> None:
    table = world.table("t")
    commit(table, 1, File(data_name()))
    put(table)
    desk = world.desk()
    plan = desk.plan()
    document = table.snapshot(2)
    table.delete(f"manifest/{document['deltaManifestList']}")
    before = world.stored()
    with pytest.raises(IncompleteError, match="is new or has changed since the plan"):
        desk.apply(plan)
    assert world.stored() == before


def test_nothing_goes_where_a_table_is_gone(world: World) -> None:
    table, other = world.table("t"), world.table("other")
    commit(table, 1, File(data_name()))
    commit(other, 1, File(data_name()))
    put(other)
    desk = world.desk()
    plan = desk.plan()
    metadata = tuple(f"wh/shop.db/t/{name}/" for name in ("schema", "snapshot", "manifest"))
    for key in [key for key in _keys(world.bucket) if key.startswith(metadata)]:
        world.bucket.delete(f"{BUCKET}/{key}")
    with pytest.raises(RefusedError, match="roots-gone"):
        desk.apply(plan)
    again = desk.plan()
    assert not {path for path in deletes(again) if path.startswith(f"{table.address}/")}


def test_what_is_committed_while_files_are_deleted_stays(world: World) -> None:
    table = world.table("t")
    commit(table, 1, File(data_name()))
    paths = put(table, *(data_name() for _ in range(20)))

    def take_up(call: InterceptedCall) -> object:
        """The first delete is slow: before it ends, all other files of the plan are committed."""
        left = [path for path in paths if path.removeprefix(f"{BUCKET}/") not in call.keys]
        names = [path.rpartition("/")[2] for path in left]
        table.snapshot(2, table.manifest(*map(File, names)))
        time.sleep(1)
        return call.proceed()

    fault = StorageFault(take_up, frozenset({"delete"}), times=1)
    desk = world.desk()
    desk.stores = Stores(replace={BUCKET: Faulty(world.bucket.store, [fault])})
    plan = desk.plan()
    applied = desk.apply(plan, look_every=timedelta(milliseconds=20), batch_rows=1)
    assert (applied.report.deleted, applied.kept_by_remark) == (1, 19)
    assert len(set(paths) & world.stored()) == 19


def test_a_version_changes_with_all_that_keeps_files_and_nothing_else(world: World) -> None:
    table = world.table("t")
    document = commit(table, 1, File(data_name()))
    source = PaimonRoots(world.bucket.stores, WAREHOUSE)

    def pointer() -> str:
        (row,) = source.collect()
        assert isinstance(row, RootRow)
        assert source.look(row) == row
        return row.pointer

    seen = [pointer()]
    changes: list[Callable[[], object]] = [
        lambda: table.tag("a", document),
        lambda: table.tag("a", {**document, "watermark": 7}),
        lambda: table.changelog(document),
        lambda: table.schema(1),
        lambda: table.schema(branch="dev"),
        lambda: table.snapshot(1, branch="dev"),
        lambda: table.tag("b", document, branch="dev"),
        lambda: table.delete("tag/tag-a"),
        lambda: table.snapshot(2),
        lambda: table.delete("snapshot/snapshot-1"),
    ]
    for change in changes:
        change()
        seen.append(pointer())
    assert len(set(seen)) == len(seen)
    table.write("consumer/consumer-c", b'{"nextSnapshot": 2}')
    table.write("snapshot/LATEST", b"2")
    put(table)
    assert pointer() == seen[-1]


def test_folders_without_tables_are_told_from_tables_without_schemas(world: World) -> None:
    source = PaimonRoots(world.bucket.stores, WAREHOUSE)
    assert [type(found) for found in source.collect()] == [EmptyRootSource]
    world.bucket.write(f"{WAREHOUSE}/shop.db/other/x.txt", b"x")
    table = world.table("broken")
    table.snapshot(1)
    table.delete("schema/schema-0")
    (problem,) = source.collect()
    assert isinstance(problem, RootProblem)
    assert (problem.name, problem.kind) == (table.address, RootKind.PAIMON_TABLE)
    plan = world.desk().plan()
    assert not deletes(plan)
    assert plan.document.roots.incomplete == 1


def test_owners_that_expire_while_they_are_read_need_nothing(world: World) -> None:
    """What went with a snapshot is no loss; what came meanwhile is read as well."""
    table = world.table("t")
    first = commit(table, 1, File(data_name()))
    commit(table, 2, File(data_name()))
    late = data_name()
    put(table, late)
    rubbish = put(table)

    def expire(call: InterceptedCall) -> object:
        table.delete("snapshot/snapshot-1")
        table.delete(f"manifest/{first['deltaManifestList']}")
        commit(table, 3, File(late))
        return call.proceed()

    key = f"wh/shop.db/t/manifest/{first['deltaManifestList']}"
    fault = StorageFault(expire, frozenset({"read"}), key=lambda asked: asked == key, times=1)
    faulty = Faulty(world.bucket.store, [fault])
    world.bucket.stores = Stores(replace={BUCKET: faulty})
    desk = world.desk()
    plan = desk.plan()
    (root,) = plan.marks().roots
    assert root.state is RootState.COMPLETE
    assert table.path(f"bucket-0/{late}") not in deletes(plan)
    assert set(rubbish) <= deletes(plan)
