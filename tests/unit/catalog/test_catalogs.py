from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from lakesweep.catalog import TYPES, Catalogs, Create, Drop, Namespace, Update
from lakesweep.catalog.entities import CatalogStatus
from lakesweep.clock import ManualClock
from lakesweep.errors import EntityExistsError, EntityMissingError, RefusedError, UsageError
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.reserved_names import catalog_content, catalog_grants, catalog_roles
from tests.moments import NOON
from tests.realms import names, open_catalogs, table

WEEK = 7 * 86400.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def catalogs(clock: ManualClock) -> Catalogs:
    return open_catalogs(clock=clock)


def references(catalogs: Catalogs) -> set[str]:
    return {each.name for each in catalogs.realm.references.list() if each.name.startswith("cat/")}


def test_a_catalog_has_references_of_its_own(catalogs: Catalogs) -> None:
    shop = catalogs.create("shop", location="s3://lake", properties={"owner": "jane"})
    assert references(catalogs) == {
        catalog_content(shop.id),
        catalog_roles(shop.id),
        catalog_grants(shop.id),
    }
    assert catalogs.open("shop").definition.properties == {"owner": "jane"}
    assert catalogs.open_id(shop.id).name == "shop"
    assert names(shop) == {}


def test_names_of_catalogs_are_taken_once(catalogs: Catalogs) -> None:
    catalogs.create("shop")
    with pytest.raises(EntityExistsError):
        catalogs.create("shop")
    for wrong in ("", "a\nb", "x" * 501):
        with pytest.raises(UsageError):
            catalogs.create(wrong)
    with pytest.raises(UsageError):
        catalogs.create("other", location="nowhere")
    with pytest.raises(UsageError):
        catalogs.create("other", keep_dropped=timedelta(days=-1))
    assert [each.name for each in catalogs.every()] == ["shop"]


def test_a_catalog_can_be_updated_and_listed_in_pages(catalogs: Catalogs) -> None:
    shop, _ = catalogs.create("shop"), catalogs.create("web")
    new = msgspec.structs.replace(shop.definition, properties={"a": "b"})
    catalogs.apply([Update("shop", new, version=1)])
    assert catalogs.open("shop").definition.version == 2
    page = catalogs.list(size=1)
    assert [each.name for each in catalogs.list(size=1, token=page.token).items] == ["web"]


def test_only_an_empty_catalog_is_dropped(catalogs: Catalogs) -> None:
    shop = catalogs.create("shop")
    shop.apply([Create("a", Namespace())])
    with pytest.raises(RefusedError, match="not empty") as caught:
        catalogs.drop("shop")
    assert "catalog purge shop" in (caught.value.hint or "")
    shop.apply([Drop("a")])
    catalogs.drop("shop")
    assert catalogs.end_due("test") == ["shop"]
    assert (references(catalogs), list(catalogs.every()), list(catalogs.tasks.all())) == (
        set(),
        [],
        [],
    )
    with pytest.raises(EntityMissingError):
        catalogs.open("shop")


def test_a_dropped_catalog_takes_no_changes(catalogs: Catalogs) -> None:
    shop = catalogs.create("shop")
    catalogs.purge("shop")
    with pytest.raises(RefusedError, match="being dropped"):
        shop.apply([Create("a", Namespace())])


def test_a_purged_catalog_is_gone_when_its_tables_keep_no_files_any_more(
    catalogs: Catalogs, clock: ManualClock
) -> None:
    shop = catalogs.create("shop")
    shop.apply([Create("t", table("t"))])
    leaving = catalogs.purge("shop")
    assert leaving.definition.status is CatalogStatus.PURGING
    assert [each.id for each in catalogs.leaving()] == [shop.id]
    assert catalogs.create("shop").id != shop.id  # its name is free at once
    clock.sleep(WEEK - 1)
    assert catalogs.end_due("test") == []
    assert names(leaving) == {"t": "table"}
    clock.sleep(601)
    assert catalogs.end_due("test") == ["shop"]
    assert catalog_content(shop.id) not in references(catalogs)
    assert len(list(catalogs.every())) == 1


def test_what_was_dropped_before_holds_up_the_end(catalogs: Catalogs, clock: ManualClock) -> None:
    shop = catalogs.create("shop", keep_dropped=timedelta(hours=2))
    shop.apply([Create("t", table("t"))])
    shop.apply([Drop("t")])
    clock.sleep(3600)
    catalogs.drop("shop")
    assert catalogs.end_due("test") == []
    clock.sleep(3600)
    assert catalogs.end_due("test") == ["shop"]


def test_an_end_that_was_interrupted_is_finished(catalogs: Catalogs, clock: ManualClock) -> None:
    shop = catalogs.create("shop")
    leaving = catalogs.drop("shop")
    reference = catalogs.realm.references.fetch_for_update(catalog_content(shop.id))
    catalogs.realm.references.delete(reference)
    assert catalogs.end(leaving)
    clock.sleep(1)
    assert catalogs.end_due("test") == []  # the task finds nothing to do, and goes
    assert list(catalogs.tasks.all()) == []


def test_a_drop_that_was_interrupted_is_finished(catalogs: Catalogs) -> None:
    shop = catalogs.create("shop")
    shop.close(if_empty=True)
    assert [each.definition.status for each in catalogs.every()] == [CatalogStatus.ACTIVE]
    catalogs.drop("shop")
    assert catalogs.end_due("test") == ["shop"]


def test_an_active_catalog_never_ends(catalogs: Catalogs) -> None:
    assert not catalogs.end(catalogs.create("shop"))
    assert len(references(catalogs)) == 3


def test_dropped_tables_are_remembered_for_a_while(catalogs: Catalogs, clock: ManualClock) -> None:
    shop = catalogs.create("shop", keep_dropped=timedelta(days=1))
    shop.apply([Create("n", Namespace()), Create("n.t", table("t"))])
    number = shop.get("n.t").id
    shop.apply([Drop("n.t"), Drop("n")])
    ((_, dropped),) = shop.dropped()
    assert (dropped.id, dropped.path) == (number, ("n", "t"))
    (entity,) = shop.snapshot().load_dropped([dropped])
    assert entity.id == number
    clock.sleep(86401)
    assert shop.dropped() == []
    shop.configure(keep_dropped=timedelta(days=2))
    assert len(shop.dropped()) == 1  # nobody forgot it yet
    clock.sleep(2 * 86400)
    shop.apply([Create("x", Namespace())])
    shop.apply([Create("y", Namespace())])  # two have to find that its time has come
    shop.configure(keep_dropped=timedelta(days=9))
    assert shop.dropped() == []


def test_tasks_are_claimed_by_one(catalogs: Catalogs, clock: ManualClock) -> None:
    task = catalogs.tasks.schedule("any", 7, 0)
    assert catalogs.tasks.schedule("any", 7, 5) == task
    claimed = catalogs.tasks.claim(task, "me", timedelta(minutes=1))
    assert claimed is not None
    assert catalogs.tasks.claim(task, "you", timedelta(minutes=1)) is None
    assert catalogs.tasks.claim(claimed, "you", timedelta(minutes=1)) is None
    clock.sleep(61)
    taken = catalogs.tasks.claim(claimed, "you", timedelta(minutes=1))
    assert taken is not None
    assert not catalogs.tasks.finish(claimed)
    assert (taken.attempts, catalogs.tasks.finish(taken)) == (2, True)


def test_the_root_says_what_it_is_told(catalogs: Catalogs) -> None:
    assert (catalogs.root().name, catalogs.root().version) == ("acme", 0)
    assert catalogs.set_root({"owner": "jane"}).version == 1
    assert catalogs.set_root({"owner": "jane"}).version == 1
    assert catalogs.root().properties == {"owner": "jane"}


@pytest.mark.parametrize("wrong", [timedelta(days=-9), timedelta(days=9)])
def test_one_wrong_clock_ends_no_grace_of_what_was_dropped(wrong: timedelta) -> None:
    backend, clock = MemoryBackend(), ManualClock(NOON)
    shop = open_catalogs(backend, clock).create("shop")
    shop.apply([Create("t", table("t")), Create("u", table("u"))])
    shop.apply([Drop("t")])
    elsewhere = Store(backend, types=TYPES, clock=ManualClock(NOON + wrong))
    Catalogs(elsewhere.realm("acme")).open("shop").apply([Drop("u")])
    clock.sleep(60)
    assert [each.path for _, each in shop.snapshot(fresh=True).dropped(shop.now())] == [
        ("t",),
        ("u",),
    ]


def test_a_clock_that_is_behind_purges_no_catalog_at_once() -> None:
    backend, clock = MemoryBackend(), ManualClock(NOON)
    catalogs = open_catalogs(backend, clock)
    catalogs.create("shop").apply([Create("t", table("t"))])
    elsewhere = Store(backend, types=TYPES, clock=ManualClock(NOON - timedelta(days=9)))
    Catalogs(elsewhere.realm("acme")).purge("shop")
    clock.sleep(60)
    assert catalogs.end_due("me") == []
