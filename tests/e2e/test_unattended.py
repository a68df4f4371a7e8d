"""Sweeps that no person watches: limits, approvals, and who decided what."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakesweep.clock import SystemClock
from tests.command import Lakesweep
from tests.small_lake import SmallLake

LOCAL = ("--engine", "local")


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    return SmallLake.make(tmp_path / "lake", orphans=3)


@pytest.fixture
def lakesweep(lake: SmallLake, capsys: pytest.CaptureFixture[str]) -> Lakesweep:
    return Lakesweep(capsys, lake.config)


def _limit(lake: SmallLake, *lines: str) -> None:
    text = "\n".join(["", "[lakes.prod.limits]", "max_share = 1", "max_table_share = 1", *lines])
    lake.config.write_text(lake.config.read_text() + text + "\n")


def test_the_first_sweep_waits_for_approval_and_the_next_applies_into_quarantine(
    lake: SmallLake, lakesweep: Lakesweep
) -> None:
    _limit(lake)
    waiting = lakesweep("sweep", "prod", *LOCAL)
    assert (waiting.code, waiting.document["outcome"]) == (3, "waiting")
    assert any("first-run" in reason for reason in waiting.document["reasons"])
    assert len(lake.orphans()) == 3

    plan = waiting.document["plan"]
    approved = lakesweep("approve", plan, "--why", "seen")
    assert (approved.code, approved.document["overridden"]) == (0, ["first-run"])
    applied = lakesweep("sweep", "prod", *LOCAL)
    assert (applied.code, applied.document["outcome"]) == (0, "applied")
    assert applied.document["plan"] == plan
    assert applied.document["approved_by"] == approved.document["by"]
    assert applied.document["applied"]["quarantined"] == 3
    assert len(lake.orphans()) == 0
    run = lakesweep("runs", applied.document["applied"]["run"]).document
    assert run["spec"]["hold_until"] > 0
    restored = lakesweep("quarantine", "restore", plan)
    assert (restored.code, len(lake.orphans())) == (0, 3)


def test_a_plan_beyond_a_limit_waits_and_one_within_goes(
    lake: SmallLake, lakesweep: Lakesweep
) -> None:
    _limit(lake, "max_files = 2", 'quarantine = "0d"')
    first = lakesweep("sweep", "prod", *LOCAL).document
    lakesweep("approve", first["plan"])
    assert lakesweep("sweep", "prod", *LOCAL).document["applied"]["deleted"] == 3

    lake.add_orphans(3)
    beyond = lakesweep("sweep", "prod", *LOCAL)
    assert (beyond.code, beyond.document["reasons"]) == (
        3,
        ["3 files, more than max_files = 2"],
    )
    assert len(lake.orphans()) == 3
    lake.config.write_text(lake.config.read_text().replace("max_files = 2", "max_files = 3"))
    within = lakesweep("sweep", "prod", *LOCAL)
    assert (within.code, within.document["applied"]["deleted"]) == (0, 3)
    assert len(lake.orphans()) == 0
    assert lakesweep("sweep", "prod", *LOCAL).document["outcome"] == "clean"


def test_a_lake_that_is_never_applied_cannot_be_approved(
    lake: SmallLake, lakesweep: Lakesweep
) -> None:
    _limit(lake)
    plan = lakesweep("sweep", "prod", *LOCAL).document["plan"]
    assert lakesweep("approve", plan).code == 0
    _limit_apply(lake, "never")
    planned = lakesweep("sweep", "prod", *LOCAL)
    assert (planned.code, planned.document["outcome"]) == (0, "planned")
    refused = lakesweep("approve", planned.document["plan"])
    assert refused.code == 3
    assert refused.error["hint"] == f"lakesweep apply {planned.document['plan']}"
    assert len(lake.orphans()) == 3


def _limit_apply(lake: SmallLake, apply: str) -> None:
    limits = "[lakes.prod.limits]"
    text = lake.config.read_text().replace(limits, f'{limits}\napply = "{apply}"')
    lake.config.write_text(text)


def test_a_hold_ends_by_the_clock_of_the_store(
    lake: SmallLake, lakesweep: Lakesweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    _limit(lake)
    plan = lakesweep("sweep", "prod", *LOCAL).document["plan"]
    lakesweep("approve", plan)
    lakesweep("sweep", "prod", *LOCAL)
    assert lakesweep("quarantine", "empty", "--ended", "--yes", *LOCAL).lines == []
    monkeypatch.setattr(SystemClock, "now", lambda _: datetime.now(UTC) + timedelta(days=8))
    early = lakesweep("quarantine", "empty", "--ended", "--yes", *LOCAL)
    assert early.code == 3
    assert "8d ahead" in early.error["message"]
    monkeypatch.undo()
    assert lakesweep("quarantine", "restore", plan).code == 0
    assert len(lake.orphans()) == 3


def test_a_rejected_plan_is_never_applied(lake: SmallLake, lakesweep: Lakesweep) -> None:
    plan = lakesweep("sweep", "prod", *LOCAL).document["plan"]
    assert lakesweep("reject", plan).code == 3
    rejected = lakesweep("reject", plan, "--why", "orders is needed")
    assert rejected.document["state"] == "rejected"
    refused = lakesweep("apply", plan, *LOCAL, "--yes", "--override", "first-run")
    assert refused.code == 3
    assert "rejected" in refused.error["message"]
    assert "orders is needed" in refused.error["message"]
    assert lakesweep("approve", plan).code == 3
    assert len(lake.orphans()) == 3


def test_without_limits_every_plan_needs_approval(lake: SmallLake, lakesweep: Lakesweep) -> None:
    lakesweep("approve", lakesweep("sweep", "prod", *LOCAL).document["plan"])
    assert lakesweep("sweep", "prod", *LOCAL).document["outcome"] == "applied"
    lake.add_orphans(1)
    again = lakesweep("sweep", "prod", *LOCAL)
    assert (again.code, again.document["outcome"]) == (3, "waiting")
    assert "every plan of this lake needs approval" in again.document["reasons"]


def test_a_lake_that_is_never_applied_is_only_planned(
    lake: SmallLake, lakesweep: Lakesweep
) -> None:
    _limit(lake, 'apply = "never"')
    planned = lakesweep("sweep", "prod", *LOCAL)
    assert (planned.code, planned.document["outcome"]) == (0, "planned")
    assert len(lake.orphans()) == 3


def test_a_guard_that_doubts_what_is_live_cannot_be_approved(
    lake: SmallLake, lakesweep: Lakesweep
) -> None:
    pins = lake.folder / "keep.txt"
    pins.write_text("")
    lakes, _, _ = lake.config.read_text().partition("[[")
    lake.config.write_text(f'{lakes}[[lakes.prod.roots]]\ntype = "pinned"\nfile = "{pins}"\n')
    plan = lakesweep("sweep", "prod", *LOCAL).document["plan"]
    refused = lakesweep("approve", plan)
    assert refused.code == 3
    assert "zero-live" in refused.error["message"]
    assert "override" not in refused.error["hint"]
    assert len(lake.orphans()) == 3
