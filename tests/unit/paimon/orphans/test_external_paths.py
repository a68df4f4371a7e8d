"""Tables that write to the same folder outside of them are cleaned together, or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import DamagedError, RefusedError
from lakesweep.paimon.model.external_paths import group_tables
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.model.warehouse import Warehouse, check_copies, find_tables, warehouse_of
from lakesweep.paimon.orphans.orphan_files import plan_orphans
from lakesweep.storage.address import parse
from lakesweep.storage.stores import Stores
from tests.moments import NOON
from tests.paimon import JavaTable, JavaWarehouses
from tests.paimon_expiry import ListedStore

BASE = "memory://bucket/"
ORPHAN = "data-00000000-0000-0000-0000-000000000000-0.parquet"


def put(store: ListedStore, java: JavaTable, key: str, external: str | None = None) -> None:
    """A table at a key, which writes to an external root if told so."""
    for name in java.stored():
        store.write(f"{key}/{name}", (java.folder / name).read_bytes())
    schemas = [name for name in store.current() if name.startswith(f"{key}/schema/schema-")]
    for name in schemas if external else []:
        schema = json.loads(store.read(name))
        schema["options"]["data-file.external-paths"] = f"{BASE}{external}"
        store.write(name, json.dumps(schema).encode())


@pytest.fixture
def store(java_tables: JavaWarehouses) -> ListedStore:
    store = ListedStore()
    put(store, java_tables.table("append_plain"), "w/a.db/one", "out/")
    put(store, java_tables.table("evolve"), "w/a.db/two", "out")
    put(store, java_tables.table("compacted"), "w/b.db/three")
    return store


def found(store: ListedStore, path: str) -> Warehouse:
    return find_tables(Stores(replace={BASE: store}), f"{BASE}{path}", ManualClock(NOON))


def live_name(java: JavaTable) -> str:
    """The name of some live data file."""
    paths = sorted(path for live in java.live().values() for path in live)
    return next(path for path in paths if path.endswith(".parquet")).rpartition("/")[2]


def table_names(tables: Iterable[PaimonTable]) -> list[str]:
    return [table.address.key.rstrip("/").rpartition("/")[2] for table in tables]


def test_tables_with_external_roots_are_one_group(store: ListedStore) -> None:
    alone, together = found(store, "w").groups()
    assert table_names(alone.tables) == ["three"]
    assert table_names(together.tables) == ["one", "two"]


def test_a_table_that_another_writes_into_belongs_to_the_group(
    store: ListedStore, java_tables: JavaWarehouses
) -> None:
    put(store, java_tables.table("stats"), "w/b.db/four", "w/b.db/three/bucket-0")
    (together,) = group_tables(found(store, "w").tables)
    assert sorted(table_names(together.tables)) == ["four", "one", "three", "two"]


@pytest.mark.parametrize("root", ["lost/t9", "lost/t9/dt=1"])
def test_a_root_in_a_table_that_is_not_cleaned_as_well_is_refused(
    store: ListedStore, java_tables: JavaWarehouses, root: str
) -> None:
    """It would make orphans of files that only that table knows."""
    put(store, java_tables.table("evolve"), "lost/t9")
    put(store, java_tables.table("stats"), "w/b.db/four", root)
    warehouse = found(store, "w")
    group = next(each for each in warehouse.groups() if "four" in table_names(each.tables))
    with pytest.raises(DamagedError, match=f"in the folder of the table {BASE}lost/t9/"):
        warehouse.check_roots(group)


def test_a_root_in_a_table_that_is_cleaned_as_well_is_compared_with_it(
    store: ListedStore, java_tables: JavaWarehouses
) -> None:
    put(store, java_tables.table("stats"), "w/b.db/four", "w/b.db/three/bucket-0")
    warehouse = found(store, "w")
    for group in warehouse.groups():
        warehouse.check_roots(group)


def test_a_root_that_only_an_old_schema_names_counts(store: ListedStore) -> None:
    schema = json.loads(store.read("w/a.db/one/schema/schema-0"))
    schema["id"] = 1
    del schema["options"]["data-file.external-paths"]
    store.write("w/a.db/one/schema/schema-1", json.dumps(schema).encode())
    (table,) = found(store, "w/a.db/one").tables
    assert table.external_roots == (f"{BASE}out/",)


@pytest.mark.parametrize("user", ["evolve", "compacted"])
def test_what_any_table_of_the_warehouse_names_stays_in_a_root(
    store: ListedStore, java_tables: JavaWarehouses, user: str
) -> None:
    store.write(f"out/bucket-0/{live_name(java_tables.table(user))}", b"")
    store.write(f"out/bucket-0/{ORPHAN}", b"")
    *_, group = found(store, "w").groups()
    with plan_orphans(group, NOON + timedelta(days=1)) as plan:
        paths = [path for batch in plan.batches() for path in batch["path"].to_pylist()]
    assert [path for path in paths if "/out/" in path] == [f"{BASE}out/bucket-0/{ORPHAN}"]


@pytest.mark.parametrize("part", ["w/a.db/one", "w/a.db", "w/a.db/"])
def test_a_table_with_external_roots_is_not_cleaned_without_its_warehouse(
    store: ListedStore, part: str
) -> None:
    one = found(store, part)
    with pytest.raises(RefusedError, match="outside of this call"):
        one.check_shared(*one.groups())


def test_nor_beside_a_table_that_cannot_be_read(store: ListedStore) -> None:
    schemas = [key for key in store.current() if key.startswith("w/b.db/three/schema/")]
    store.delete(schemas)
    warehouse = found(store, "w")
    assert [failure.table for failure in warehouse.failures] == [f"{BASE}w/b.db/three/"]
    with pytest.raises(RefusedError, match="three/, which cannot be read"):
        warehouse.check_shared(*warehouse.groups())


def test_tables_without_external_roots_need_nobody(store: ListedStore) -> None:
    three = found(store, "w/b.db")
    assert not three.tables[0].external_roots
    three.check_shared(*three.groups())


@pytest.mark.parametrize("part", ["w/b.db/three", "w/b.db"])
@pytest.mark.parametrize("root", ["w/b.db/three/bucket-0", "w"])
def test_a_table_that_another_writes_into_is_not_cleaned_without_it(
    store: ListedStore, java_tables: JavaWarehouses, part: str, root: str
) -> None:
    put(store, java_tables.table("stats"), "w/c.db/four", root)
    three = found(store, part)
    with pytest.raises(RefusedError, match=r"c\.db/four/ writes to .* and whose files are whose"):
        three.check_shared(*three.groups())


def test_neighbours_that_cannot_be_read_are_not_asked(store: ListedStore) -> None:
    store.write("w/a.db/broken/schema/schema-0", b"{")
    three = found(store, "w/b.db/three")
    three.check_shared(*three.groups())


def test_the_warehouse_of_a_table_is_around_its_database() -> None:
    found = [warehouse_of(f"s3://b/{path}") for path in ("w/a.db/t", "a.db/t/", "w/t", "t")]
    assert found == ["s3://b/w/", "s3://b/", "s3://b/w/", "s3://b/"]


def test_a_copy_that_shares_files_with_its_original_is_found(
    store: ListedStore, java_tables: JavaWarehouses
) -> None:
    (original,) = found(store, "w/a.db/one").tables
    check_copies(original)  # two has the same root, and commits of its own
    put(store, java_tables.table("append_plain"), "w/b.db/copy", "out")
    (copy,) = found(store, "w/b.db/copy").tables
    for one in (original, copy):
        with pytest.raises(RefusedError, match="one is a copy of the other"):
            check_copies(one)


def test_a_copy_is_found_by_whatever_link_its_original_is_reached(
    tmp_path: Path, java_tables: JavaWarehouses
) -> None:
    original = tmp_path / "w" / "a.db" / "one"
    shutil.copytree(java_tables.table("append_plain").folder, original)
    for path in (original / "schema").glob("schema-*"):
        schema = json.loads(path.read_text())
        schema["options"]["data-file.external-paths"] = f"file://{tmp_path}/out"
        path.chmod(0o600)
        path.write_text(json.dumps(schema))
    (tmp_path / "link").symlink_to(original.parent)
    linked = PaimonTable(Stores(), parse(str(tmp_path / "link" / "one")))
    check_copies(linked)  # the same table under another name is no copy
    shutil.copytree(original, tmp_path / "w" / "b.db" / "copy")
    with pytest.raises(RefusedError, match="one is a copy of the other"):
        check_copies(linked)


def test_a_copy_of_a_table_that_has_all_files_inside_shares_none(
    store: ListedStore, java_tables: JavaWarehouses
) -> None:
    put(store, java_tables.table("compacted"), "w/b.db/copy")
    check_copies(found(store, "w/b.db/copy").tables[0])


def test_a_root_inside_the_table_is_looked_at_once(
    java_tables: JavaWarehouses,
) -> None:
    store = ListedStore()
    put(store, java_tables.table("append_plain"), "w/a.db/one", "w/a.db/one/")
    store.write(f"w/a.db/one/bucket-0/{ORPHAN}", b"")
    (group,) = found(store, "w").groups()
    with plan_orphans(group, NOON + timedelta(days=1)) as plan:
        paths = [path for batch in plan.batches() for path in batch["path"].to_pylist()]
    assert paths.count(f"{BASE}w/a.db/one/bucket-0/{ORPHAN}") == 1


def test_indexes_outside_of_a_table_that_nobody_names_are_orphans(
    store: ListedStore, java_tables: JavaWarehouses
) -> None:
    put(store, java_tables.table("stats"), "w/b.db/four")
    schema = json.loads(store.read("w/b.db/four/schema/schema-0"))
    schema["options"]["global-index.external-path"] = f"{BASE}indexes"
    store.write("w/b.db/four/schema/schema-0", json.dumps(schema).encode())
    orphan = "btree-global-index-00000000-0000-0000-0000-000000000000.index"
    for name in (orphan, f"deeper/{orphan}", "notes.txt"):
        store.write(f"indexes/{name}", b"index")
    (group,) = (group for group in found(store, "w").groups() if len(group.tables) > 1)
    assert "four" in table_names(group.tables)
    with plan_orphans(group, NOON + timedelta(days=1)) as plan:
        paths = [path for batch in plan.batches() for path in batch["path"].to_pylist()]
        assert f"{BASE}indexes/notes.txt" in plan.unknown.paths
    assert [path for path in paths if path.startswith(f"{BASE}indexes")] == [
        f"{BASE}indexes/{orphan}"
    ]
