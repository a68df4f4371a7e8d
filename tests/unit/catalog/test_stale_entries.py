from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from lakesweep.catalog import (
    CatalogPolicy,
    CatalogRole,
    Catalogs,
    Create,
    Drop,
    Namespace,
    PrincipalRole,
)
from lakesweep.catalog.grants import REALM, Grant, Privilege, entity_ref
from lakesweep.catalog.stale_entries import (
    BATCH,
    end_due_catalogs,
    forget_expired_drops,
    remove_stale_grants,
    remove_stale_mappings,
    remove_stale_tasks,
)
from lakesweep.clock import ManualClock
from tests.moments import NOON
from tests.realms import open_catalogs, table

MANY = BATCH + 40


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def catalogs(clock: ManualClock) -> Catalogs:
    catalogs = open_catalogs(clock=clock)
    shop = catalogs.create("shop")
    shop.apply([Create(f"n{number}", Namespace()) for number in range(MANY)])
    shop.roles.apply([Create("reader", CatalogRole())])
    return catalogs


def grant_all(catalogs: Catalogs) -> None:
    shop = catalogs.open("shop")
    reader = entity_ref(shop.roles.get("reader"), shop.id)
    view = shop.snapshot()
    for entity in view.load(list(view.children())):
        shop.grants.grant(entity_ref(entity, shop.id), reader, [Privilege.LIST])


def test_grants_on_what_is_gone_are_removed(catalogs: Catalogs) -> None:
    grant_all(catalogs)
    shop = catalogs.open("shop")
    shop.apply([Drop("n3"), Drop("n280"), Create("n3", Namespace())])
    assert remove_stale_grants(catalogs, dry_run=True) == 2
    assert len(list(shop.grants.all())) == MANY
    assert remove_stale_grants(catalogs, dry_run=False) == 2
    assert len(list(shop.grants.all())) == MANY - 2
    before = len(list(shop.realm.log(shop.grants.reference)))
    assert remove_stale_grants(catalogs, dry_run=False) == 0
    assert len(list(shop.realm.log(shop.grants.reference))) == before


def test_grants_to_what_is_gone_are_removed(catalogs: Catalogs) -> None:
    shop = catalogs.open("shop")
    jane, _ = catalogs.principals.create("jane")
    catalogs.principal_roles.apply([Create("analyst", PrincipalRole())])
    analyst = entity_ref(catalogs.principal_roles.get("analyst"))
    reader = entity_ref(shop.roles.get("reader"), shop.id)
    catalogs.grants.grant(analyst, entity_ref(jane), [Privilege.USE_ROLE])
    catalogs.grants.grant(REALM, entity_ref(jane), [Privilege.LIST])
    shop.grants.grant(reader, analyst, [Privilege.USE_ROLE])
    shop.grants.grant(entity_ref(shop.definition), analyst, [Privilege.LIST])
    assert remove_stale_grants(catalogs, dry_run=False) == 0
    catalogs.principal_roles.apply([Drop("analyst")])
    assert remove_stale_grants(catalogs, dry_run=False) == 3
    assert [each.securable for each in catalogs.grants.all()] == [REALM]


def test_what_is_created_and_granted_meanwhile_is_not_taken_for_stale(
    catalogs: Catalogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Grants of a later batch are on entities that came after the first batch was judged."""
    grant_all(catalogs)
    shop = catalogs.open("shop")
    reader = entity_ref(shop.roles.get("reader"), shop.id)
    read, late = shop.grants.all, ["late1", "late2"]

    def reading(_: object, behind: bytes = b"") -> Iterator[Grant]:
        if late:
            name = late.pop()
            shop.apply([Create(name, Namespace())])
            shop.grants.grant(entity_ref(shop.get(name), shop.id), reader, [Privilege.LIST])
        return read(behind)

    with monkeypatch.context() as patched:
        patched.setattr(catalogs.grants, "all", lambda _: iter(()))
        patched.setattr("lakesweep.catalog.grants.Grants.all", reading)
        assert remove_stale_grants(catalogs, dry_run=False) == 0
    assert late == []
    assert len(list(shop.grants.all())) == MANY + 2


def test_mappings_of_what_is_gone_are_removed(catalogs: Catalogs) -> None:
    shop = catalogs.open("shop")
    shop.apply([Create("p", CatalogPolicy(type="retention"))])
    policy = entity_ref(shop.get("p"), shop.id)
    for name in ("n1", "n2"):
        catalogs.mappings.attach(policy, "retention", entity_ref(shop.get(name), shop.id))
    shop.apply([Drop("n1")])
    assert remove_stale_mappings(catalogs, dry_run=True) == 1
    assert remove_stale_mappings(catalogs, dry_run=False) == 1
    shop.apply([Drop("p")])
    assert remove_stale_mappings(catalogs, dry_run=False) == 1
    assert list(catalogs.mappings.all()) == []


def test_everything_on_a_catalog_that_is_gone_is_removed(
    catalogs: Catalogs, clock: ManualClock
) -> None:
    shop = catalogs.open("shop")
    shop.apply([Create("p", CatalogPolicy(type="retention"))])
    catalogs.mappings.attach(
        entity_ref(shop.get("p"), shop.id), "retention", entity_ref(shop.get("n1"), shop.id)
    )
    catalogs.purge("shop")
    catalogs.tasks.schedule("another", shop.id, 0)
    clock.sleep(8 * 86400)
    assert end_due_catalogs(catalogs, dry_run=True, holder="test") == 1
    assert end_due_catalogs(catalogs, dry_run=False, holder="test") == 1
    assert remove_stale_mappings(catalogs, dry_run=False) == 1
    catalogs.tasks.schedule("end-catalog", shop.id, 0)
    assert remove_stale_tasks(catalogs, dry_run=True) == 1
    assert remove_stale_tasks(catalogs, dry_run=False) == 1
    assert [task.type for task in catalogs.tasks.all()] == ["another"]  # not ours to judge


def test_old_drops_are_forgotten(catalogs: Catalogs, clock: ManualClock) -> None:
    shop = catalogs.open("shop")
    shop.configure(keep_dropped=timedelta(hours=1))
    shop.apply([Create("t", table("t")), Create("u", table("u"))])
    shop.apply([Drop("t")])
    clock.sleep(3600)
    shop.apply([Drop("u")])
    clock.sleep(1)
    assert forget_expired_drops(catalogs, dry_run=True) == 1
    assert forget_expired_drops(catalogs, dry_run=False) == 1
    assert [each.path for _, each in shop.dropped()] == [("u",)]
    assert forget_expired_drops(catalogs, dry_run=False) == 0
