"""The page of a plan: complete in itself, and safe whatever tables are called."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import msgspec
import pytest

from lakesweep.sweep.guards import Guard
from lakesweep.sweep.inspect.report import render_report
from lakesweep.sweep.judge.totals import ClassTotals, FileTotals, TableTotals
from lakesweep.sweep.paths.folder_map import FolderOverlap
from lakesweep.sweep.plan.document import (
    IncompleteRoot,
    PlanDocument,
    RootCounts,
    UnlistedTable,
)

_NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
EVIL = '<script>alert("x")</script>\u202e\x1b&'
VISIBLE = '<script>alert("x")</script>\\u202e\\x1b&'


def sides(delete: int, keep: int) -> dict[str, Any]:
    return {
        "delete": FileTotals(delete, 1000 * delete),
        "keep": FileTotals(keep, 1000 * keep),
    }


PLAN = PlanDocument(
    plan="plan-1",
    lake="prod",
    created=_NOON,
    expires=_NOON,
    cut_off=_NOON,
    grace_seconds=0.0,
    mode="bloom",
    roots=RootCounts(complete=2, incomplete=1),
    incomplete_roots=(IncompleteRoot("t3", "s3://lake/m0.avro: missing"),),
    unlisted=(UnlistedTable("s3://lake/lost/v1.metadata.json", "scan", (), kept=True),),
    totals={
        "delete": {"unreferenced": FileTotals(3, 3_000_000)},
        "keep": {"referenced": FileTotals(9, 9_000_000), "too-new": FileTotals(1, 0)},
    },
    guesses={"aborted-write": FileTotals(3, 3_000_000)},
    tables=(TableTotals(table="t1", **sides(3, 9)), TableTotals(table=None, **sides(0, 1))),
    ages=(ClassTotals(name="30 to 90 days", **sides(3, 9)),),
    sizes=(ClassTotals(name="under 1 MiB", **sides(3, 9)),),
    overlaps=(FolderOverlap("s3://lake/t1/", ("t1", "t2")),),
    filter={"bits": 8, "expected_fpp": 1e-5},
    guards=(Guard("first-run", "nothing was ever deleted"),),
    locations=("s3://lake",),
    spec={"listed": 13, "inventory": None},
    seconds={"list": 1.25},
)


def shown(document: PlanDocument, state: str = "ready") -> Element:
    """The page as its parts; it is whole, or this fails."""
    return fromstring(render_report(document, state))


def text_of(page: Element) -> str:
    return " ".join(page.itertext())


def test_the_page_is_whole_and_shows_what_people_ask() -> None:
    text = text_of(shown(PLAN))
    for word in ("prod", "plan-1", "ready", "3.0 MB", "first-run", "aborted-write", "t1"):
        assert word in text
    for words in ("30 to 90 days", "t3", "s3://lake/lost/v1.metadata.json", "25.0 % of all bytes"):
        assert words in text


def test_the_page_asks_nobody_for_anything() -> None:
    page = render_report(PLAN, "ready")
    assert not re.search(r"(?i)src=|href=|url\(|@import|<script|<link|https?://", page)
    assert "default-src 'none'" in page


@pytest.mark.parametrize("place", ["lake", "plan", "table", "guard", "root", "folder", "location"])
def test_names_are_text_wherever_they_stand(place: str) -> None:
    changed: dict[str, dict[str, Any]] = {
        "lake": {"lake": EVIL},
        "plan": {"plan": EVIL},
        "table": {"tables": (TableTotals(table=EVIL, **sides(1, 1)),)},
        "guard": {"guards": (Guard("share", EVIL),)},
        "root": {"incomplete_roots": (IncompleteRoot(EVIL, EVIL),)},
        "folder": {"overlaps": (FolderOverlap(EVIL, ("t1", "t2")),)},
        "location": {"locations": (EVIL,)},
    }
    page = shown(msgspec.structs.replace(PLAN, **changed[place]))
    assert page.find(".//script") is None
    assert VISIBLE in text_of(page)


def test_a_plan_of_nothing_has_a_page() -> None:
    empty = msgspec.structs.replace(
        PLAN, totals={}, guesses={}, tables=(), ages=(), sizes=(), guards=(), overlaps=(), filter={}
    )
    assert "No guard refuses this plan." in text_of(shown(empty, "expired"))


def test_of_many_tables_the_first_are_shown_and_the_rest_counted() -> None:
    tables = tuple(TableTotals(table=f"t{number}", **sides(1, 0)) for number in range(50))
    page = render_report(msgspec.structs.replace(PLAN, tables=tables), "ready")
    assert "and 30 more" in page
    assert ">t19<" in page
    assert ">t20<" not in page
