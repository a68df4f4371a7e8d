"""What Java does when snapshots and changelogs expire, and we in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.paimon import TABLES, JavaTable, JavaWarehouses
from tests.paimon_expiry import (
    Choose,
    ListedStore,
    changelogs_by,
    expire,
    in_memory,
    journals,
    missing_files,
    names,
    overrides_of,
    snapshots_by,
)

#: A table without snapshots has nothing to expire, and no answers.
EXPIRED = tuple(name for name in TABLES if name != "shop.never_committed")
#: Java's procedure forgets there that changelogs stay; its commits do not.
DECOUPLED = ("shop.pk_decoupled", "shop.pk_decoupled_none")


def _cases(java: JavaTable) -> list[Mapping[str, Any]]:
    """All cases but the one that retains nothing, which we refuse."""
    return [case for case in java.answer("expire_snapshots") if case["case"] != "min0"]


def _choose(case: Mapping[str, Any]) -> Choose:
    by = changelogs_by if case["case"].startswith("expire_changelog") else snapshots_by
    return by(overrides_of(case))


def _is_java_right(java: JavaTable, case: Mapping[str, Any]) -> bool:
    forgets = (
        java.name in DECOUPLED and case["args"] != "java api" and case["returned"] != ["+I[0]"]
    )
    return not case["paimon_damage"] and not forgets


@pytest.mark.parametrize("name", EXPIRED)
def test_the_same_files_go_come_and_change_as_with_java(
    java_tables: JavaWarehouses, name: str
) -> None:
    java = java_tables.table(name)
    before = in_memory(java)
    for case in _cases(java):
        if _is_java_right(java, case):
            store = before.copy_all()
            expire(store, _choose(case))
            assert _difference(before, store) == {
                each: set(case[each]) for each in ("deleted", "created", "changed")
            }, case["case"]


@pytest.mark.parametrize("name", EXPIRED)
def test_what_is_planned_is_what_goes_and_nobody_who_stays_misses_anything(
    java_tables: JavaWarehouses, name: str
) -> None:
    java = java_tables.table(name)
    before = in_memory(java)
    for case in _cases(java):
        store = before.copy_all()
        planned, outcome = expire(store, _choose(case))
        assert planned & names(before).keys() == _difference(before, store)["deleted"]
        assert outcome.tally.deleted == sum(outcome.deleted.values())
        assert not missing_files(store, java)
        assert not journals(store)


@pytest.mark.parametrize("number", [0, 1, 3])
def test_files_of_a_branch_stay_where_java_takes_them(
    java_tables: JavaWarehouses, number: int
) -> None:
    java = java_tables.table("branch_hole")
    case = java.answer("expire_snapshots")[number]
    before = in_memory(java)
    store = before.copy_all()
    expire(store, _choose(case))
    spared = set(case["deleted"]) - _difference(before, store)["deleted"]
    assert spared >= set(case["paimon_damage"]["files_still_live"])
    assert _difference(before, store)["deleted"] < set(case["deleted"])


@pytest.mark.parametrize("name", DECOUPLED)
def test_changelogs_outlive_snapshots_by_the_options_of_the_table_alone(
    java_tables: JavaWarehouses, name: str
) -> None:
    java = java_tables.table(name)
    cases = {case["case"]: case for case in _cases(java)}
    configured = next(case for case in cases.values() if case["case"].startswith("configured"))
    before = in_memory(java)
    store = before.copy_all()
    expire(store, _choose(cases["keep1"]))
    assert _difference(before, store) == {
        each: set(configured[each]) for each in ("deleted", "created", "changed")
    }


def _difference(before: ListedStore, after: ListedStore) -> dict[str, set[str]]:
    old, new = names(before), names(after)
    return {
        "deleted": set(old) - set(new),
        "created": set(new) - set(old),
        "changed": {name for name in old if name in new and old[name] != new[name]},
    }
