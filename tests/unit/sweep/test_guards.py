from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.errors import RefusedError
from lakesweep.guard_names import GuardName
from lakesweep.sweep.guards import (
    CONFIRMED,
    DeleteShare,
    GoneRoot,
    Guard,
    PlanFigures,
    check_plan_age,
    failed_guards,
    refuse,
)
from tests.moments import NOON

FINE = PlanFigures(
    was_applied=True,
    live=1_000,
    live_before=1_000,
    listed=1_100,
    deletes=100,
    grace=timedelta(days=7),
    shares=(DeleteShare("s3://lake", 1_100, 100),),
)


def _names(figures: PlanFigures) -> list[str]:
    return [guard.name for guard in failed_guards(figures)]


def test_a_usual_plan_meets_no_guard() -> None:
    assert _names(FINE) == []


@pytest.mark.parametrize(
    ("figures", "name"),
    [
        (replace(FINE, was_applied=False), "first-run"),
        (replace(FINE, live=0, live_before=None), "zero-live"),
        (replace(FINE, live=799), "live-fell"),
        (replace(FINE, shares=(DeleteShare("t", 100, 51),)), "share"),
        (replace(FINE, incomplete=("a.b",)), "incomplete"),
        (replace(FINE, gone=(GoneRoot("a.b", "catalog a", NOON, 9, 1),)), "roots-gone"),
        (replace(FINE, empty=("catalog a",)), "empty-catalog"),
        (replace(FINE, repositories=("s3://lake/repos/a",)), "repositories"),
        (replace(FINE, foreign=("s3://lake/x",)), "foreign"),
        (replace(FINE, grace=timedelta(hours=23)), "grace"),
        (replace(FINE, opted_in=("a.b",)), "gc.enabled"),
    ],
)
def test_each_guard_has_its_reason(figures: PlanFigures, name: str) -> None:
    assert _names(figures) == [name]


@pytest.mark.parametrize(
    "figures",
    [
        replace(FINE, live=800),
        replace(FINE, live=10, live_before=99),
        replace(FINE, live=10, live_before=None),
        replace(FINE, live=0, live_before=0, listed=0),
        replace(FINE, shares=(DeleteShare("t", 100, 50), DeleteShare("u", 99, 99))),
        replace(FINE, gone=(GoneRoot("a.b", "catalog a", NOON, 9, 0),)),
        replace(FINE, empty=("catalog a",), deletes=0),
        replace(FINE, grace=timedelta(hours=24)),
    ],
)
def test_guards_say_nothing_at_their_limits(figures: PlanFigures) -> None:
    assert _names(figures) == []


def test_a_plan_is_stale_from_the_moment_at_which_it_expires() -> None:
    assert [guard.name for guard in check_plan_age(NOON, NOON)] == ["stale-plan"]
    assert not list(check_plan_age(NOON, NOON + timedelta(seconds=1)))


def test_all_guards_that_stand_are_named_with_what_to_try() -> None:
    guards = [Guard("grace", "short"), Guard("share", "much"), Guard("share", "more")]
    refuse(guards, ["grace", "share"], "p")
    with pytest.raises(RefusedError, match="2 guards failed\nshare: much\nshare: more") as caught:
        refuse(guards, ["grace"], "p")
    assert caught.value.hint.endswith("lakesweep apply p --override share")
    assert caught.value.guard == "share"
    typed = "lakesweep apply p --quarantine --engine local --override grace"
    assert caught.value.hint_for(typed).endswith(f", then: {typed} --override share")


def test_few_days_ask_for_a_look() -> None:
    with pytest.raises(RefusedError) as caught:
        refuse([Guard("short-retention", "5 days")], [], "p")
    assert caught.value.hint.endswith("--override short-retention")


def test_the_same_advice_is_given_once() -> None:
    with pytest.raises(RefusedError) as caught:
        refuse([Guard("missing", "1 file"), Guard("outside", "2 files")], [], "p")
    assert caught.value.hint.count("fix what the guard names") == 1


def test_the_guide_names_every_guard() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "sweep.md").read_text()
    assert [name.value for name in GuardName if f"`{name}`" not in guide] == []


@pytest.mark.parametrize("name", sorted(set(GuardName) - CONFIRMED))
def test_no_hint_offers_to_override_what_protects_live_files(name: str) -> None:
    with pytest.raises(RefusedError) as caught:
        refuse([Guard("first-run", "new"), Guard(name, "doubt")], [], "p")
    assert "--override" not in caught.value.hint
    assert "--override" not in caught.value.hint_for("lakesweep apply p")
