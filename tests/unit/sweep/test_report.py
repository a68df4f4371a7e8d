"""The page of a plan: complete in itself, and safe whatever tables are called."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from lakesweep.sweep.guards import Guard
from lakesweep.sweep.plans import Amount, PlanDocument, Root, RootCounts, Unlisted
from lakesweep.sweep.report import render

_NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
_VOID = {"meta", "rect", "br"}
EVIL = '<script>alert("x")</script>\u202e&'


def sides(delete: int, keep: int) -> dict[str, Any]:
    return {
        "delete": {"files": delete, "bytes": 1000 * delete},
        "keep": {"files": keep, "bytes": 1000 * keep},
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
    incomplete_roots=(Root("t3", "s3://lake/m0.avro: missing"),),
    unlisted=(Unlisted("s3://lake/lost/v1.metadata.json", "scan", (), kept=True),),
    totals={
        "delete": {"unreferenced": Amount(3, 3_000_000)},
        "keep": {"referenced": Amount(9, 9_000_000), "too-new": Amount(1, 0)},
    },
    guesses={"aborted-write": Amount(3, 3_000_000)},
    tables=({"table": "t1", **sides(3, 9)}, {"table": None, **sides(0, 1)}),
    ages=({"class": "30 to 90 days", **sides(3, 9)},),
    sizes=({"class": "under 1 MiB", **sides(3, 9)},),
    overlaps=(
        {"folder": "s3://lake/t1/", "names": ["t1", "t2"], "outer": None, "outer_names": []},
    ),
    filter={"bits": 8, "expected_fpp": 1e-5},
    guards=(Guard("first-run", "nothing was ever deleted"),),
    locations=("s3://lake",),
    spec={"listed": 13, "inventory": None},
    seconds={"list": 1.25},
)


class Structure(HTMLParser):
    """Checks that all that is opened is closed, and collects what is shown."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in _VOID and tag != "li":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_is_whole_and_shows_what_people_ask() -> None:
    found = Structure(render(PLAN, "ready"))
    assert not found.open
    text = " ".join(found.texts)
    for shown in ("prod", "plan-1", "ready", "3.0 MB", "first-run", "aborted-write", "t1"):
        assert shown in text
    for shown in ("30 to 90 days", "t3", "s3://lake/lost/v1.metadata.json", "25.0 % of all bytes"):
        assert shown in text


def test_the_page_asks_nobody_for_anything() -> None:
    page = render(PLAN, "ready")
    assert not re.search(r"(?i)src=|href=|url\(|@import|<script|<link|https?://", page)
    assert "default-src 'none'" in page


@pytest.mark.parametrize("place", ["lake", "plan", "table", "guard", "root", "folder", "location"])
def test_names_are_text_wherever_they_stand(place: str) -> None:
    changed: dict[str, dict[str, Any]] = {
        "lake": {"lake": EVIL},
        "plan": {"plan": EVIL},
        "table": {"tables": ({"table": EVIL, **sides(1, 1)},)},
        "guard": {"guards": (Guard("share", EVIL),)},
        "root": {"incomplete_roots": (Root(EVIL, EVIL),)},
        "folder": {"overlaps": ({**PLAN.overlaps[0], "folder": EVIL},)},
        "location": {"locations": (EVIL,)},
    }
    found = Structure(render(msgspec.structs.replace(PLAN, **changed[place]), "ready"))
    assert "script" not in found.tags
    assert EVIL in " ".join(found.texts)


def test_a_plan_of_nothing_has_a_page() -> None:
    empty = msgspec.structs.replace(
        PLAN, totals={}, guesses={}, tables=(), ages=(), sizes=(), guards=(), overlaps=(), filter={}
    )
    found = Structure(render(empty, "expired"))
    assert not found.open
    assert "No guard says no." in found.texts


def test_of_many_tables_the_first_are_shown_and_the_rest_counted() -> None:
    tables = tuple({"table": f"t{number}", **sides(1, 0)} for number in range(50))
    page = render(msgspec.structs.replace(PLAN, tables=tables), "ready")
    assert "and 30 more" in page
    assert ">t19<" in page
    assert ">t20<" not in page
