"""Maintenance of realms that hold catalogs: nothing in use goes, and what is gone does not stay."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lakesweep.catalog import (
    TYPES,
    Catalog,
    CatalogRole,
    Catalogs,
    Create,
    Drop,
    Namespace,
    Rename,
    TableMemo,
    Update,
)
from lakesweep.catalog.grants import Privilege, entity_ref
from lakesweep.catalog.tasks import Tasks
from lakesweep.errors import SnapshotExpiredError
from lakesweep.maintenance.plugins import load_plugins
from lakesweep.maintenance.run_records import TYPES as RECORDS
from lakesweep.maintenance.service import MaintenanceService
from lakesweep.store import Store
from lakesweep.store.reserved_names import catalog_content
from tests.maintained import Maintained, heads_reach, stored_ids
from tests.realms import names, table

MANY = 2_000
MEMO = TableMemo(uuid="u", format_version=2, location="s3://lake", size_bytes=1)


class MaintainedCatalogs(Maintained):
    """A store that knows what catalogs are."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.plugins = load_plugins()

    def open(self) -> Store:
        return Store(self.backend, types={**TYPES, **RECORDS}, clock=self.clock)


@pytest.fixture
def world() -> MaintainedCatalogs:
    return MaintainedCatalogs()


@pytest.fixture
def catalogs(world: MaintainedCatalogs) -> Catalogs:
    return Catalogs(world.store.create_realm("acme"))


def fill(catalog: Catalog) -> None:
    """More than fits into commits: names, ids and locations all lie in stripes."""
    catalog.apply([Create("a", Namespace())])
    tables = [Create(f"a.table_{number:05}", table(f"t{number:05}")) for number in range(MANY)]
    catalog.apply(tables)
    view = catalog.snapshot()
    for root in (view.head.names, view.head.ids, view.head.locations):
        assert len(root) < 40_000


def test_a_large_catalog_is_whole_after_maintenance(
    world: MaintainedCatalogs, catalogs: Catalogs
) -> None:
    shop = catalogs.create("shop")
    fill(shop)
    for number in range(0, MANY, 100):
        shop.apply([Rename(f"a.table_{number:05}", f"a.renamed_{number:05}")])
    before = names(shop)
    world.pass_grace()
    info = world.maintain()
    assert info.success
    assert stored_ids(world.backend, "acme") == heads_reach(catalogs.realm)
    again = Catalogs(world.open().realm("acme")).open("shop")
    assert names(again) == before
    assert len(before) == MANY + 1
    assert sum(1 for _ in again.at("s3://lake/shop")) == MANY


def test_memos_go_with_the_versions_that_named_them(
    world: MaintainedCatalogs, catalogs: Catalogs
) -> None:
    shop = catalogs.create("shop")
    shop.apply([Create("t", table("t"), memo=MEMO)])
    for version in (2, 3):
        shop.apply([Update("t", table("t", version), memo=MEMO)])
    world.pass_grace()
    assert world.maintain().success
    types = [row.type for row in world.backend.scan_rows("acme")]
    assert types.count("table-memo") == 1
    assert types.count("iceberg-table") == 1


def test_a_dropped_table_stays_while_it_keeps_its_files(
    world: MaintainedCatalogs, catalogs: Catalogs
) -> None:
    shop = catalogs.create("shop", keep_dropped=timedelta(days=1))
    shop.apply([Create("t", table("t"))])
    shop.apply([Drop("t")])
    world.pass_grace()
    assert world.maintain().success
    ((_, dropped),) = shop.dropped()
    (entity,) = shop.snapshot().load_dropped([dropped])
    assert entity.name == "t"
    world.clock.sleep(86_400)
    assert world.maintain().success  # it is forgotten by a commit,
    world.pass_grace()
    assert world.maintain().success  # and its object goes when that is no longer new
    assert "iceberg-table" not in {row.type for row in world.backend.scan_rows("acme")}


def test_a_purged_catalog_goes_with_its_references(
    world: MaintainedCatalogs, catalogs: Catalogs
) -> None:
    shop, web = catalogs.create("shop", keep_dropped=timedelta(0)), catalogs.create("web")
    fill(shop)
    web.apply([Create("a", Namespace())])
    web.roles.apply([Create("reader", CatalogRole())])
    reader = entity_ref(web.roles.get("reader"), web.id)
    web.grants.grant(entity_ref(web.get("a"), web.id), reader, [Privilege.LIST])
    catalogs.purge("shop")
    for _ in range(2):
        world.pass_grace()
        assert world.maintain().success
    left = {each.name for each in catalogs.realm.references.list()}
    assert catalog_content(shop.id) not in left
    assert catalog_content(web.id) in left
    assert stored_ids(world.backend, "acme") == heads_reach(catalogs.realm)
    assert [each.grantee for each in web.grants.all()] == [reader]
    web.apply([Drop("a")])
    assert world.maintain().success
    assert list(web.grants.all()) == []


def test_who_does_not_know_the_types_of_catalogs_takes_nothing_of_them_for_left_over(
    world: MaintainedCatalogs, catalogs: Catalogs
) -> None:
    shop = catalogs.create("shop")
    shop.apply([Create("a", Namespace())])
    world.pass_grace()
    stranger = MaintenanceService(
        Store(world.backend, types=RECORDS, clock=world.clock),
        world.config,
        world.clock,
        plugins=[replace(plugin, tidiers=()) for plugin in world.plugins],
    )
    run = stranger.perform(stranger.build_spec())
    assert not run.success
    assert "of a type that this program does not know" in run.status_message
    there = Catalogs(world.open().realm("acme")).open("shop")
    assert there.get("a").name == "a"


def test_a_catalog_whose_purge_was_interrupted_comes_to_its_end(
    world: MaintainedCatalogs, catalogs: Catalogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogs.create("shop", keep_dropped=timedelta(hours=1))
    with monkeypatch.context() as patch:
        patch.setattr(Tasks, "schedule", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            catalogs.purge("shop")
    assert [each.name for each in catalogs.leaving()] == ["shop"]
    world.pass_grace()
    assert world.maintain(dry_run=True).tidied == {"acme": {"catalogs": 1}}
    assert world.maintain().tidied == {"acme": {"catalogs": 1}}
    assert list(catalogs.leaving()) == []
    assert list(catalogs.tasks.all()) == []


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_page_token_of_what_is_gone_says_so(
    world: MaintainedCatalogs, catalogs: Catalogs
) -> None:
    shop = catalogs.create("shop")
    fill(shop)
    page = shop.list("a", size=10)
    shop.apply([Drop("a.table_00001")])
    assert world.maintain().success
    assert len(shop.list("a", size=10, token=page.token).items) == 10  # it was head moments ago
    world.pass_grace()
    assert world.maintain().success
    with pytest.raises(SnapshotExpiredError):
        Catalogs(world.open().realm("acme")).open("shop").list("a", size=10, token=page.token)
