"""Tags whose time is up, and what goes with them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from lakesweep.paimon.expire.expiry import Expiry
from lakesweep.paimon.expire.tag_expiry import TagRule, choose_tags
from lakesweep.paimon.model.snapshots import parse_tag
from lakesweep.paimon.model.table import PaimonTable
from tests.moments import NOON
from tests.paimon import JavaWarehouses
from tests.paimon_expiry import Choose, ListedStore, expire, in_memory, keep, missing_files, names
from tests.paimon_history import MAIN, History
from tests.paimon_tables import Table

LATER = NOON + timedelta(days=10_000)


def _by(rule: TagRule) -> Choose:
    def choose(table: PaimonTable) -> Expiry:
        return choose_tags(table.main, rule)

    return choose


def _tags(store: ListedStore) -> set[str]:
    return {name.removeprefix("tag/tag-") for name in names(store) if name.startswith("tag/tag-")}


def _created(store: ListedStore, name: str) -> datetime:
    year, month, day, hour, minute, second, nanos = json.loads(names(store)[f"tag/tag-{name}"])[
        "tagCreateTime"
    ]
    return datetime(year, month, day, hour, minute, second, nanos // 1000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("after", "zone", "goes"),
    [
        (timedelta(days=2, seconds=1), "UTC", True),
        (timedelta(days=2, seconds=-1), "UTC", False),
        (timedelta(days=2, seconds=-1), "Asia/Tokyo", True),
        (timedelta(days=2, seconds=1), "America/Lima", False),
    ],
)
def test_a_tag_goes_when_its_time_to_live_has_passed(
    java_tables: JavaWarehouses, after: timedelta, zone: str, goes: bool
) -> None:
    store = in_memory(java_tables.table("tagged"))
    now = _created(store, "keep-2d") + after
    expire(store, _by(TagRule(now, ZoneInfo(zone))))
    assert _tags(store) == {"v1", "same-as-v1"} | (set() if goes else {"keep-2d"})


@pytest.mark.parametrize(("ahead", "goes"), [(8, False), (27, True)])
def test_a_tag_of_a_zone_that_nobody_named_is_as_old_as_its_file(ahead: int, goes: bool) -> None:
    """A clock that is eight hours behind says so of a tag of this moment."""
    behind = NOON - timedelta(hours=ahead)
    said = {"tagCreateTime": behind.timetuple()[:6], "tagTimeRetained": 3600.0}
    document = json.dumps({**Table().snapshot(1), **said}).encode()
    tag = parse_tag("tag-new", document, "new", NOON)
    assert TagRule(NOON + timedelta(minutes=1), UTC).is_over(tag) is goes


def test_older_ones_without_a_time_to_live_go_by_the_age_of_their_files(
    java_tables: JavaWarehouses,
) -> None:
    store = in_memory(java_tables.table("tagged"))
    now = _created(store, "keep-2d")
    expire(store, _by(TagRule(now, UTC, cut=LATER)))
    assert _tags(store) == {"keep-2d"}


def test_while_their_snapshots_are_there_only_tags_go(java_tables: JavaWarehouses) -> None:
    java = java_tables.table("tagged")
    store = in_memory(java)
    planned, _ = expire(store, _by(TagRule(LATER, UTC, cut=LATER)))
    assert planned == {"tag/tag-keep-2d", "tag/tag-v1", "tag/tag-same-as-v1"}
    assert not missing_files(store, java)


def test_what_only_tags_held_goes_with_the_last_of_them(java_tables: JavaWarehouses) -> None:
    java = java_tables.table("tag_alive")
    store = in_memory(java)
    planned, _ = expire(store, _by(TagRule(LATER, UTC, cut=LATER)))
    live = java.live()
    held = set.union(*(live[owner] for owner in live if ":snapshot-" in owner))
    tagged = set.union(*(live[owner] for owner in live if ":tag-" in owner))
    assert tagged - held
    assert tagged - held == {name for name in planned if "/data-" in name}
    assert {name for name in planned if "/manifest-list-" in name}
    assert not missing_files(store, java)


def test_what_another_tag_holds_stays(java_tables: JavaWarehouses) -> None:
    java = java_tables.table("tag_alive")
    store = in_memory(java)
    first, second = (names(store)[f"tag/tag-{name}"] for name in ("first", "second"))
    store.delete(["t/tag/tag-first"])
    for name, data in (("lasting", first), ("second", second)):
        store.write(f"t/tag/tag-{name}", data)
    store.write("t/tag/tag-lasting", _with_time_to_live(first))
    expire(store, _by(TagRule(datetime(2026, 11, 17, tzinfo=UTC), UTC, cut=LATER)))
    assert _tags(store) == {"lasting"}
    assert java.live()["main:tag-first"] <= names(store).keys()
    assert not missing_files(store, java)


def test_what_a_branch_was_made_of_stays_when_the_tag_goes(java_tables: JavaWarehouses) -> None:
    java = java_tables.table("branched")
    store = in_memory(java)
    expire(store, _by(TagRule(LATER, UTC, cut=LATER)))
    assert not _tags(store)
    assert not missing_files(store, java)


def _with_time_to_live(tag: bytes) -> bytes:
    document = json.loads(tag)
    document |= {"tagCreateTime": [2026, 11, 16, 0, 0], "tagTimeRetained": 365 * 86400.0}
    return json.dumps(document).encode()


def test_what_was_deleted_and_brought_back_goes_with_the_last_tag_that_shows_it() -> None:
    history = History()
    files = history.new_files(1)
    history.commit(add=files)
    history.commit(delete=files)
    history.commit(add=files)
    history.tag("v1", MAIN, 3)
    history.commit(add=history.new_files(1), delete=files)
    expire(history.store, keep())
    assert f"bucket-0/{files[0].name}" in history.stored
    expire(history.store, _by(TagRule(LATER, UTC, cut=LATER)))
    assert f"bucket-0/{files[0].name}" not in history.stored
    assert not history.missing()
