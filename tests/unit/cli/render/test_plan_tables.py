from __future__ import annotations

import msgspec

from lakesweep.cli.render.plan_tables import (
    breakdown_tables,
    facts_table,
    totals_table,
    warnings_tables,
)
from lakesweep.sweep.judge.totals import TableTotals
from tests.unit.sweep.inspect.test_report import PLAN, sides


def test_what_goes_comes_first_and_reasons_in_the_order_of_judging() -> None:
    rows = [(verdict, reason) for verdict, reason, *_ in totals_table(PLAN).rows]
    assert rows == [("delete", "unreferenced"), ("keep", "referenced"), ("keep", "too-new")]


def test_each_thing_to_look_at_has_a_table() -> None:
    titles = [table.columns[0] for table in warnings_tables(PLAN)]
    assert titles == [
        "incomplete root",
        "table that no catalog lists",
        "folders that tables share",
        "guard",
    ]


def test_a_guard_that_was_overridden_is_shown_as_such() -> None:
    given = msgspec.structs.replace(PLAN, overridden=("first-run",))
    *_, guards = warnings_tables(given)
    assert guards.rows == [("first-run", "nothing was ever deleted (overridden)")]


def test_tables_beyond_twenty_are_added_up() -> None:
    tables = tuple(TableTotals(table=f"t{number}", **sides(1, 2)) for number in range(25))
    shown = list(breakdown_tables(msgspec.structs.replace(PLAN, tables=tables)))[1]
    assert len(shown.rows) == 21
    assert shown.rows[-1] == ("(others)", "5", "5.0 kB", "10")


def test_facts_tell_where_the_listing_came_from() -> None:
    spec = {"listed": 13, "inventory": "s3://logs/manifest.json", "inventory_time": "2026-01-01"}
    table = facts_table(msgspec.structs.replace(PLAN, spec=spec), "ready")
    [stored] = [row[1] for row in table.rows if row[0] == "stored"]
    assert stored == "13 files, by s3://logs/manifest.json of 2026-01-01"
