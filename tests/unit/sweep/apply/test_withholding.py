"""A guard about a table or a root withholds its files; the rest is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from lakesweep.config import AcceptSection
from lakesweep.errors import RefusedError
from lakesweep.operations.lakes.plan import decision_warnings
from lakesweep.runs.records import RunKind, RunStatus
from lakesweep.sweep.apply.report import ApplyResult
from lakesweep.sweep.plan.document import PlanDocument
from tests.moments import NOON
from tests.sweeps import LAKE, Process, World

FIRST = ("first-run",)
TODAY = NOON.date()
ORPHANS = {name: f"{LAKE}/{name}/data/orphan.parquet" for name in ("t1", "t2")}


@pytest.fixture
def world() -> World:
    """Two tables with a file and an old orphan each."""
    world = World()
    for name, orphan in ORPHANS.items():
        world.create(name)
        world.append(name, world.put(f"{LAKE}/{name}/data/live.parquet"))
        world.put(orphan)
    world.age()
    return world


def _left(world: World) -> set[str]:
    return {name for name, path in ORPHANS.items() if path in world.files()}


def _accept(guard: str, *, until: date = TODAY, **subject: str) -> dict[str, Any]:
    decision = {"guard": guard, "until": until, "reason": "known", **subject}
    return {"accept": (AcceptSection.model_validate(decision),)}


def _break(world: World, guard: str) -> None:
    """Have a guard fail that is about t2."""
    Process(world).plan()
    match guard:
        case "missing":
            world.append("t2", f"{LAKE}/t2/data/lost.parquet")
            world.age()
        case "incomplete":
            world.denied.add(world.catalog.pointers["t2"])
        case "roots-gone":
            del world.catalog.pointers["t2"]
        case _:
            for number in range(100):
                world.put(f"{LAKE}/t2/data/more-{number}.parquet", old=True)
            live = [world.put(f"{LAKE}/t1/data/{number}.parquet") for number in range(150)]
            world.append("t1", *live)


def _sweep(
    world: World, overridden: Sequence[str] = FIRST, **section: Any
) -> tuple[PlanDocument, ApplyResult]:
    process = Process(world, **section)
    made = process.plan()
    whole = [guard.name for guard in made.guards if not guard.subjects]
    return made, process.apply(made.plan, [*overridden, *whole])


GUARDS = ["missing", "incomplete", "roots-gone", "share"]


@pytest.mark.parametrize("guard", GUARDS)
def test_the_files_of_one_table_are_withheld_and_the_rest_is_deleted(
    world: World, guard: str
) -> None:
    _break(world, guard)
    live = world.live()
    made, applied = _sweep(world)
    [found] = [each for each in made.guards if each.name == guard and each.subjects]
    assert found.subjects == ("t2",)
    assert _left(world) == {"t2"}
    assert live <= world.files() | {f"{LAKE}/t2/data/lost.parquet"}
    withheld = applied.report.withheld
    assert isinstance(withheld, dict)
    assert (list(withheld), withheld[guard] > 0) == ([guard], True)
    assert applied.kept_by_remark == 0
    run = next(run for run in Process(world).runs.list("prod") if run.kind is RunKind.APPLY)
    assert (run.status, run.figures["withheld"]) == (RunStatus.INCOMPLETE, withheld)


@pytest.mark.parametrize("guard", ["missing", "roots-gone", "share"])
def test_an_override_deletes_what_a_guard_withholds(world: World, guard: str) -> None:
    _break(world, guard)
    _, applied = _sweep(world, (*FIRST, guard))
    assert _left(world) == set()
    assert applied.report.is_complete


def test_no_override_deletes_what_an_unreadable_root_may_reference(world: World) -> None:
    _break(world, "incomplete")
    _sweep(world, (*FIRST, "incomplete"))
    assert _left(world) == {"t2"}


@pytest.mark.parametrize("guard", GUARDS)
def test_a_standing_decision_accepts_a_guard_for_one_table(world: World, guard: str) -> None:
    _break(world, guard)
    made, applied = _sweep(world, **_accept(guard, table="t2"))
    assert [(each.guard, each.subject, each.reason) for each in made.accepted] == [
        (guard, "t2", "known")
    ]
    assert applied.report.is_complete
    assert _left(world) == ({"t2"} if guard == "incomplete" else set())


@pytest.mark.parametrize(
    "decision",
    [
        _accept("missing", root="t1"),
        _accept("share", table="t2"),
        _accept("missing", table="t2", until=NOON.date() - timedelta(days=1)),
    ],
)
def test_a_decision_about_something_else_or_of_the_past_accepts_nothing(
    world: World, decision: dict[str, Any]
) -> None:
    _break(world, "missing")
    _sweep(world, **decision)
    assert _left(world) == {"t2"}


def test_a_decision_that_was_withdrawn_after_the_plan_does_not_count(world: World) -> None:
    _break(world, "missing")
    made = Process(world, **_accept("missing", table="t2")).plan()
    Process(world).apply(made.plan, FIRST)
    assert _left(world) == {"t2"}


def test_a_table_that_lacks_a_file_since_the_plan_is_withheld(world: World) -> None:
    made = Process(world).plan()
    world.append("t2", f"{LAKE}/t2/data/lost.parquet")
    applied = Process(world).apply(made.plan, FIRST)
    assert _left(world) == {"t2"}
    assert applied.report.withheld == {"missing": 1}


def test_a_table_that_was_dropped_since_the_plan_is_withheld(world: World) -> None:
    made = Process(world).plan()
    world.clock.sleep(3600)
    del world.catalog.pointers["t2"]
    applied = Process(world).apply(made.plan, FIRST)
    assert _left(world) == {"t2"}
    assert applied.report.withheld == {"roots-gone": 1}


def test_a_table_that_changed_and_was_hidden_since_the_plan_refuses_everything(
    world: World,
) -> None:
    """It may have taken up any file, as this one did."""
    made = Process(world).plan()
    world.append("t2", ORPHANS["t1"])
    del world.catalog.pointers["t2"]
    with pytest.raises(RefusedError, match="roots-gone"):
        Process(world).apply(made.plan, FIRST)
    assert _left(world) == {"t1", "t2"}


@pytest.mark.parametrize(
    ("decision", "what"),
    [
        ({"guard": "missing", "table": "t", "reason": "x"}, "until"),
        ({"guard": "missing", "table": "t", "until": "2027-01-31"}, "reason"),
        ({"guard": "missing", "until": "2027-01-31", "reason": "x"}, "either a table or a root"),
        ({"guard": "first-run", "table": "t", "until": "2027-01-31", "reason": "x"}, "guard"),
        ({"guard": "missing", "table": "t", "until": "soon", "reason": "x"}, "must be a day"),
    ],
)
def test_a_decision_has_a_guard_a_subject_an_end_and_a_reason(
    decision: dict[str, Any], what: str
) -> None:
    with pytest.raises(ValidationError, match=what):
        AcceptSection.model_validate(decision)


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (8, []),
        (6, ["accept missing for t2 (known) ends on"]),
        (-1, ["accept missing for t2 (known) ended on"]),
    ],
)
def test_a_plan_warns_before_a_decision_ends(world: World, days: int, said: list[str]) -> None:
    until = NOON.date() + timedelta(days=days)
    lake = Process(world, **_accept("missing", table="t2", until=until)).lake
    found = list(decision_warnings(lake, NOON))
    assert [line[: len(text)] for line, text in zip(found, said, strict=True)] == said


@pytest.mark.parametrize("detour", ["./", "x/../", "/"])
def test_a_table_that_spells_its_folder_otherwise_is_withheld(world: World, detour: str) -> None:
    """All its references lead nowhere, and its files lie in another folder than it says."""
    live, orphan = (world.put(f"{LAKE}/t3/data/{name}.parquet") for name in ("live", "orphan"))
    world.create("t3", f"{detour}t3")
    world.append("t3", f"{LAKE}/{detour}t3/data/live.parquet")
    world.age()
    made, applied = _sweep(world)
    assert [each.subjects for each in made.guards if each.name == "missing"] == [("t3",)]
    assert {live, orphan} <= world.files()
    assert applied.report.withheld == {"missing": 1}
    assert _left(world) == set()


def test_a_guard_that_stands_is_named_although_it_withholds_nothing(world: World) -> None:
    world.append("t1", f"{LAKE}/t1/data/lost.parquet")
    world.lake.delete([ORPHANS["t1"].removeprefix(f"{LAKE}/")])
    world.age()
    _, applied = _sweep(world)
    assert applied.report.withheld == {"missing": 0}
    assert not applied.report.is_complete


def test_a_table_that_was_renamed_since_the_plan_is_withheld(world: World) -> None:
    _break(world, "share")
    process = Process(world)
    made = process.plan()
    whole = [guard.name for guard in made.guards if not guard.subjects]
    pointers = world.catalog.pointers
    pointers["t1"], pointers["t9"] = pointers.pop("t2"), pointers.pop("t1")
    applied = process.apply(made.plan, [*FIRST, *whole])
    assert _left(world) == {"t2"}
    assert applied.report.withheld == {"share": 101}


def test_a_table_opts_out_in_whatever_way_it_spells_its_folder(world: World) -> None:
    orphan = world.put(f"{LAKE}/t3/data/orphan.parquet")
    world.create("t3", "x/../t3", properties={"gc.enabled": "false"})
    world.age()
    _sweep(world)
    assert orphan in world.files()
