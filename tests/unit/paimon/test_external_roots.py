"""Tables that write to the same folder outside of them are cleaned together, or not at all."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import RefusedError
from lakesweep.paimon.external import external_roots, group_tables
from lakesweep.paimon.orphans import plan_orphans
from lakesweep.paimon.table import PaimonTable
from lakesweep.paimon.warehouse import Warehouse, find_tables
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


def table_names(tables: tuple[PaimonTable, ...]) -> list[str]:
    return [table.address.key.rstrip("/").rpartition("/")[2] for table in tables]


def test_tables_with_external_roots_are_one_group(store: ListedStore) -> None:
    groups = found(store, "w").groups()
    assert [table_names(group) for group in groups] == [["three"], ["one", "two"]]


def test_a_table_that_another_writes_into_belongs_to_the_group(
    store: ListedStore, java_tables: JavaWarehouses
) -> None:
    put(store, java_tables.table("stats"), "w/b.db/four", "w/b.db/three/bucket-0")
    groups = group_tables(found(store, "w").tables)
    assert [table_names(group) for group in groups] == [["one", "two", "four", "three"]]


def test_what_any_table_of_the_group_names_stays(
    store: ListedStore, java_tables: JavaWarehouses
) -> None:
    of_two = live_name(java_tables.table("evolve"))
    store.write(f"out/bucket-0/{of_two}", b"")
    store.write(f"out/bucket-0/{ORPHAN}", b"")
    *_, group = found(store, "w").groups()
    with plan_orphans(group, NOON + timedelta(days=1)) as plan:
        paths = [path for batch in plan.batches() for path in batch["path"].to_pylist()]
    assert [path for path in paths if "/out/" in path] == [f"{BASE}out/bucket-0/{ORPHAN}"]


def test_a_table_with_external_roots_is_not_cleaned_alone(store: ListedStore) -> None:
    one = found(store, "w/a.db/one")
    with pytest.raises(RefusedError, match="outside of this call"):
        one.check_shared(one.tables)


def test_nor_beside_a_table_that_cannot_be_read(store: ListedStore) -> None:
    schemas = [key for key in store.current() if key.startswith("w/b.db/three/schema/")]
    store.delete(schemas)
    warehouse = found(store, "w")
    assert [failure.table for failure in warehouse.failures] == [f"{BASE}w/b.db/three/"]
    with pytest.raises(RefusedError, match="three/, which cannot be read"):
        warehouse.check_shared(warehouse.tables)


def test_tables_without_external_roots_need_nobody(store: ListedStore) -> None:
    three = found(store, "w/b.db")
    assert not external_roots(three.tables[0])
    three.check_shared(three.tables)
