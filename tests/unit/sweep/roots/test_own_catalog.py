from __future__ import annotations

from datetime import timedelta

import pytest

from lakesweep.catalog import Catalog, Catalogs, Create, Drop, GenericTable, Namespace, Rename, View
from lakesweep.catalog import Update as Change
from lakesweep.clock import ManualClock
from lakesweep.config import LakesweepRoot
from lakesweep.errors import HeadMissingError
from lakesweep.store.reserved_names import catalog_content
from lakesweep.sweep.roots.own_catalog import RealmRoots
from lakesweep.sweep.roots.root import (
    EmptyRootSource,
    RootKind,
    RootProblem,
    RootRow,
    collect_roots,
)
from lakesweep.sweep.roots.root_kinds import root_sources
from tests.moments import NOON
from tests.realms import open_catalogs, table


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def catalogs(clock: ManualClock) -> Catalogs:
    return open_catalogs(clock=clock)


@pytest.fixture
def shop(catalogs: Catalogs) -> Catalog:
    shop = catalogs.create("shop", keep_dropped=timedelta(days=1))
    shop.apply(
        [
            Create("sales", Namespace()),
            Create("sales.orders", table("orders")),
            Create("sales.daily", View(metadata_location="s3://lake/shop/daily/metadata/v1.json")),
            Create("raw", GenericTable(format="csv", location="s3://lake/shop/raw")),
        ]
    )
    return shop


def rows(source: RealmRoots) -> dict[str, RootRow]:
    found = list(source.collect())
    assert all(isinstance(each, RootRow) for each in found)
    return {each.name: each for each in found if isinstance(each, RootRow)}


def test_tables_and_views_are_roots_and_other_tables_are_left_alone(
    catalogs: Catalogs, shop: Catalog
) -> None:
    found = rows(RealmRoots(lambda: catalogs))
    assert {name: row.kind for name, row in found.items()} == {
        "acme:shop.sales.orders": RootKind.ICEBERG_TABLE,
        "acme:shop.sales.daily": RootKind.ICEBERG_VIEW,
        "acme:shop.raw": RootKind.FOREIGN,
    }
    orders = found["acme:shop.sales.orders"]
    assert orders.pointer == "s3://lake/shop/orders/metadata/00001.metadata.json"
    assert orders.locations == ("s3://lake/shop/orders",)
    assert found["acme:shop.raw"].locations == ("s3://lake/shop/raw",)


def test_what_was_dropped_is_a_root_until_its_grace_ends(
    catalogs: Catalogs, shop: Catalog, clock: ManualClock
) -> None:
    number = shop.get("sales.orders").id
    shop.apply([Drop("sales.orders"), Create("sales.orders", table("other"))])
    found = rows(RealmRoots(lambda: catalogs))
    assert f"acme:shop.sales.orders dropped {number}" in found
    assert len(found) == 4
    clock.sleep(86_401)
    assert len(rows(RealmRoots(lambda: catalogs))) == 3


def test_a_purged_catalog_keeps_its_files_until_its_grace_ends(
    catalogs: Catalogs, shop: Catalog, clock: ManualClock
) -> None:
    catalogs.purge("shop")
    catalogs.create("shop").apply([Create("new", table("new"))])
    found = rows(RealmRoots(lambda: catalogs))
    assert f"acme:shop~{shop.id}.sales.orders" in found
    assert len(found) == 4
    clock.sleep(86_401)
    assert len(rows(RealmRoots(lambda: catalogs))) == 4  # nobody ended it yet
    catalogs.end_due("test")
    assert set(rows(RealmRoots(lambda: catalogs))) == {"acme:shop.new"}


def test_catalogs_can_be_chosen(catalogs: Catalogs, shop: Catalog) -> None:
    catalogs.create("web").apply([Create("t", table("web"))])
    assert set(rows(RealmRoots(lambda: catalogs, "acme", ["web"]))) == {"acme:web.t"}
    missing = list(RealmRoots(lambda: catalogs, "acme", ["web", "none"]).collect())
    assert missing[-1] == RootProblem("realm acme", "there is no catalog none in it")


def test_a_realm_without_tables_says_so(catalogs: Catalogs) -> None:
    source = RealmRoots(lambda: catalogs)
    assert list(source.collect()) == [
        EmptyRootSource("realm of the store", "its catalogs list no table")
    ]


def test_a_root_is_looked_at_again_wherever_it_went(
    catalogs: Catalogs, shop: Catalog, clock: ManualClock
) -> None:
    source = RealmRoots(lambda: catalogs)
    before = rows(source)["acme:shop.sales.orders"]
    assert source.look(before) == before
    shop.apply([Rename("sales", "s"), Change("s.orders", table("orders", 2))])
    moved = source.look(before)
    assert moved is not None
    assert moved.pointer.endswith("00002.metadata.json")
    shop.apply([Drop("s.orders")])
    assert source.look(before) == moved
    clock.sleep(86_401)
    assert source.look(before) is None


def test_content_that_cannot_be_read_is_a_problem_of_all(catalogs: Catalogs, shop: Catalog) -> None:
    head = shop.realm.head(shop.reference, type(shop.snapshot().head))
    assert head is not None
    shop.realm.objects.delete([head])
    (problem,) = collect_roots([RealmRoots(lambda: catalogs)])
    assert isinstance(problem, RootProblem)
    assert problem.name is None
    with pytest.raises(HeadMissingError):
        list(RealmRoots(lambda: catalogs).collect())


def test_a_reference_that_is_lost_is_a_problem_of_all(catalogs: Catalogs, shop: Catalog) -> None:
    references = catalogs.realm.references
    references.delete(references.fetch_for_update(catalog_content(shop.id)))
    (problem,) = collect_roots([RealmRoots(lambda: catalogs)])
    assert isinstance(problem, RootProblem)


def test_nobody_forgets_a_realm_that_cannot_be_opened() -> None:
    from lakesweep.config import LakeSection
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.lake import find_lake

    section = LakeSection(locations=("/lake",), roots=(LakesweepRoot(type="lakesweep"),))
    lake = find_lake({"prod": section}, "prod", "/plans")
    sources = root_sources(Stores({}), lake, lambda: iter(()))
    (problem,) = collect_roots(sources)
    assert isinstance(problem, RootProblem)
    assert problem.name is None
