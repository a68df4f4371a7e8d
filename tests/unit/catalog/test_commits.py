from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from lakesweep.catalog import (
    TYPES,
    Catalog,
    CatalogPolicy,
    CatalogRole,
    Catalogs,
    Create,
    Drop,
    Entity,
    EntityType,
    GenericTable,
    MutationStatus,
    Namespace,
    Rename,
    Table,
    TableMemo,
    Undrop,
    Update,
    View,
)
from lakesweep.clock import ManualClock
from lakesweep.errors import (
    EntityChangedError,
    EntityExistsError,
    EntityMissingError,
    LakesweepError,
    RefusedError,
    UsageError,
)
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.index.keys import decode
from tests.moments import NOON
from tests.realms import names, open_catalogs, open_shop, table


@pytest.fixture
def shop() -> Catalog:
    shop = open_shop()
    shop.apply(
        [
            Create("sales", Namespace()),
            Create("sales.eu", Namespace()),
            Create("sales.orders", table("orders")),
            Create("sales.eu.orders", table("eu")),
            Create("sales.daily", View(metadata_location="s3://lake/shop/daily/metadata/v1.json")),
            Create("sales.raw", GenericTable(format="csv", location="s3://lake/shop/raw")),
            Create("sales.retention", CatalogPolicy(type="retention", content="7d")),
        ]
    )
    return shop


SALES = {
    "sales": "namespace",
    "sales/eu": "namespace",
    "sales/daily": "view",
    "sales/orders": "table",
    "sales/raw": "generic-table",
    "sales/retention": "policy",
    "sales/eu/orders": "table",
}


def test_a_batch_of_all_kinds_is_one_commit(shop: Catalog) -> None:
    assert names(shop) == SALES
    newest, first = shop.realm.log(shop.reference)
    assert (first.value.seq, newest.value.seq) == (1, 2)
    assert [each.action for each in newest.value.changes] == ["add"] * 7
    assert decode(newest.value.changes[3].key) == ("sales", "eu", "orders")


def test_drop_and_create_of_one_name_is_one_commit(shop: Catalog) -> None:
    before = shop.get("sales.orders")
    outcome = shop.apply([Drop("sales.orders"), Create("sales.orders", table("orders"))])
    assert [each.status for each in outcome.results] == [
        MutationStatus.DROPPED,
        MutationStatus.CREATED,
    ]
    assert shop.get("sales.orders").id != before.id
    assert shop.realm.head(shop.reference, type(shop.snapshot().head)).id == outcome.commit  # type: ignore[union-attr]


def test_names_can_be_swapped(shop: Catalog) -> None:
    old = {name: shop.get(name).id for name in ("sales.orders", "sales.raw")}
    shop.apply(
        [
            Rename("sales.orders", "sales.third"),
            Rename("sales.raw", "sales.orders"),
            Rename("sales.third", "sales.raw"),
        ]
    )
    assert shop.get("sales.orders").id == old["sales.raw"]
    assert shop.get("sales.raw").id == old["sales.orders"]


def test_a_namespace_takes_all_that_is_in_it_along(shop: Catalog) -> None:
    inner = shop.get("sales.eu.orders")
    shop.apply([Create("archive", Namespace()), Rename("sales", "archive.y2026")])
    assert "archive/y2026/eu/orders" in names(shop)
    assert shop.snapshot().path(shop.by_id(inner.id)) == ("archive", "y2026", "eu", "orders")
    assert shop.by_id(inner.id) == inner  # nothing of it had to be written again
    (newest,) = [each.value for each in shop.realm.log(shop.reference)][:1]
    assert [(each.action, each.before and decode(each.before)) for each in newest.changes] == [
        ("add", None),
        ("rename", ("sales",)),
    ]


def test_a_namespace_cannot_be_moved_into_itself(shop: Catalog) -> None:
    for place in ("sales.eu.sales", "sales.sales"):
        with pytest.raises(UsageError, match="into itself"):
            shop.apply([Rename("sales", place)])
    assert names(shop) == SALES


def test_nothing_happens_if_anything_fails(shop: Catalog) -> None:
    outcome = shop.attempt(
        [Create("new", Namespace()), Drop("sales"), Drop("sales.raw"), Drop("nothing")]
    )
    assert [each.status for each in outcome.results] == [
        MutationStatus.NOT_APPLIED,
        MutationStatus.FAILED,
        MutationStatus.NOT_APPLIED,
        MutationStatus.FAILED,
    ]
    assert isinstance(outcome.results[1].error, RefusedError)
    assert isinstance(outcome.results[3].error, EntityMissingError)
    assert outcome.commit is None
    assert names(shop) == SALES


def test_an_update_without_a_change_is_no_commit(shop: Catalog) -> None:
    outcome = shop.apply([Update("sales.orders", table("orders")), Update("sales", Namespace())])
    assert [each.status for each in outcome.results] == [MutationStatus.UNCHANGED] * 2
    assert outcome.commit is None
    assert len(list(shop.realm.log(shop.reference))) == 2


def test_an_update_keeps_the_id_and_counts_versions(shop: Catalog) -> None:
    before = shop.get("sales.orders")
    shop.apply([Update("sales.orders", table("orders", 2), version=1)])
    after = shop.get("sales.orders")
    assert (after.id, after.version, after.created_at) == (before.id, 2, before.created_at)
    with pytest.raises(EntityChangedError, match="version 2"):
        shop.apply([Update("sales.orders", table("orders", 3), version=1)])
    assert shop.get("sales.orders") == after


@pytest.mark.parametrize(
    ("mutation", "error"),
    [
        (Create("sales", Namespace()), EntityExistsError),
        (Create("sales.eu", table("x")), EntityExistsError),
        (Create("nowhere.t", table("x")), EntityMissingError),
        (Create("sales.orders.t", table("x")), EntityMissingError),
        (Create("sales.role", CatalogRole()), UsageError),
        (Create("sales.t", Table(metadata_location="no address")), UsageError),
        (Create("sales.t", GenericTable(format="csv", location="s3://")), UsageError),
        (Create("sales.t", GenericTable(format="csv", location="/" + "x" * 2100)), UsageError),
        (Create("sales.", Namespace()), UsageError),
        (Create((), Namespace()), UsageError),
        (Create(("a\x00b",), Namespace()), UsageError),
        (Create(("\udc80",), Namespace()), UsageError),
        (Create(("x" * 501,), Namespace()), UsageError),
        (Update("sales.orders", Namespace()), EntityMissingError),
        (Update("sales.nothing", table("x")), EntityMissingError),
        (Rename("sales.orders", "sales.raw"), EntityExistsError),
        (Rename("sales.orders", "nowhere.orders"), EntityMissingError),
        (Rename("sales.orders", "sales.o", kind=EntityType.VIEW), EntityMissingError),
        (Rename("sales.orders", "sales.o", version=7), EntityChangedError),
        (Drop("sales"), RefusedError),
        (Drop("sales.orders", kind=EntityType.VIEW), EntityMissingError),
        (Drop("sales.orders", version=7), EntityChangedError),
    ],
)
def test_what_cannot_be_is_refused(
    shop: Catalog, mutation: Create, error: type[LakesweepError]
) -> None:
    with pytest.raises(error) as caught:
        shop.apply([mutation])
    assert caught.value.hint
    assert names(shop) == SALES


def test_an_empty_namespace_can_be_dropped_with_what_was_in_it(shop: Catalog) -> None:
    shop.apply([Drop("sales.eu.orders"), Drop("sales.eu", kind=EntityType.NAMESPACE)])
    assert "sales/eu" not in names(shop)


def test_what_was_dropped_comes_back_as_it_was(shop: Catalog) -> None:
    before = shop.get("sales.orders")
    shop.apply([Drop("sales.orders"), Create("sales.orders", table("orders", 2))])
    with pytest.raises(EntityExistsError):
        shop.apply([Undrop("sales.orders")])
    # Its place is taken as well as its name.
    with pytest.raises(RefusedError, match="overlaps"):
        shop.apply([Undrop("sales.orders", "back")])
    shop.apply([Drop("sales.orders"), Undrop("sales.orders", "back", before.id)])
    back = shop.get("back")
    assert (back.id, back.version) == (before.id, before.version + 1)
    assert isinstance(back, Table)
    assert back.metadata_location == table("orders").metadata_location
    assert [each.path for _, each in shop.dropped()] == [("sales", "orders")]
    assert [path for _, path in shop.at("s3://lake/shop/orders")] == [("back",)]


def test_what_keeps_no_files_any_more_cannot_come_back(shop: Catalog) -> None:
    shop.apply([Drop("sales.orders"), Drop("sales.retention")])
    with pytest.raises(EntityMissingError):
        shop.apply([Undrop("sales.retention")])
    clock = shop.realm.clock
    assert isinstance(clock, ManualClock)
    clock.sleep(timedelta(days=7, seconds=1).total_seconds())
    with pytest.raises(EntityMissingError, match="still keeps its files"):
        shop.apply([Undrop("sales.orders")])


def test_a_clock_that_is_behind_brings_nothing_back_too_late() -> None:
    backend = MemoryBackend()
    behind = open_catalogs(backend).create("shop")
    behind.apply([Create("t", table("t")), Drop("t")])
    store = Store(backend, types=TYPES, clock=ManualClock(NOON + timedelta(days=8)))
    Catalogs(store.realm("acme")).open("shop").apply([Create("other", Namespace())])
    with pytest.raises(EntityMissingError):
        behind.apply([Undrop("t")])


def test_names_may_hold_whatever_people_write(shop: Catalog) -> None:
    shop.apply([Create(("a.b",), Namespace())])
    shop.apply([Create('"a.b".ü', table("x"))])
    assert shop.get(("a.b", "ü")).name == "ü"


def test_a_memo_stays_while_its_file_is_named(shop: Catalog) -> None:
    memo = TableMemo(uuid="u", format_version=2, location="s3://lake/shop/orders", size_bytes=9)
    shop.apply([Update("sales.orders", table("orders"), memo=memo)])
    kept = _table(shop.get("sales.orders"))
    assert shop.memo(kept) == memo
    shop.apply([Update("sales.orders", _with(kept, properties={"a": "b"}))])
    assert shop.memo(_table(shop.get("sales.orders"))) == memo
    shop.apply([Update("sales.orders", _with(kept, metadata_location="s3://lake/shop/o/m2.json"))])
    assert shop.memo(_table(shop.get("sales.orders"))) is None


def test_the_log_says_what_a_batch_did(shop: Catalog) -> None:
    shop.apply([Drop("sales.raw"), Rename("sales.eu", "eu"), Create("x", Namespace()), Drop("x")])
    (newest, *_) = shop.realm.log(shop.reference)
    assert newest.value.message == (
        "drop sales.raw, rename sales.eu to eu, create namespace x, and 1 more"
    )


def _table(entity: Entity) -> Table:
    assert isinstance(entity, Table)
    return entity


def _with(table: Table, **values: object) -> Table:
    return msgspec.structs.replace(table, **values)


@pytest.mark.parametrize(
    "what",
    [Namespace(properties={"owner": "\udcff"}), Table(metadata_location="s3://lake/\udcff/1.json")],
)
def test_text_that_is_no_unicode_is_refused(shop: Catalog, what: Entity) -> None:
    with pytest.raises(UsageError, match="not Unicode text"):
        shop.apply([Create("odd", what)])
    assert "odd" not in names(shop)
