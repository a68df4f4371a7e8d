"""What stands in the way of a sweep from the command line, and what it says to do about it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.command import Lakesweep
from tests.small_lake import SmallLake

LOCAL = ("--engine", "local")


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    return SmallLake.make(tmp_path / "lake", orphans=3)


@pytest.fixture
def lakesweep(lake: SmallLake, capsys: pytest.CaptureFixture[str]) -> Lakesweep:
    return Lakesweep(capsys, lake.config)


def _append(lake: SmallLake, commits: int) -> None:
    uri = f"sqlite:///{lake.folder}/catalog.db"
    table = SqlCatalog("lake", uri=uri).load_table("shop.orders")
    rows: Any = pa.table({"id": pa.array([1, 2, 3])})
    for _ in range(commits):
        table.append(rows)


def test_a_filter_that_is_too_small_says_what_would_do(
    lake: SmallLake, lakesweep: Lakesweep
) -> None:
    _append(lake, 20)
    text = lake.config.read_text()
    lake.config.write_text(text.replace("[lakes.prod]", "[lakes.prod]\nfilter_bytes = 64", 1))
    refused = lakesweep("plan", "prod", *LOCAL, "--bloom")
    assert refused.code == 3
    found = re.search(r"set filter_bytes = (\d+)", refused.error["hint"])
    assert found
    needed = int(found[1])
    [run] = lakesweep("runs").lines
    assert (run["status"], run["figures"]["filter"]) == ("refused", {"needed_bytes": needed})
    # There is no plan, so nothing can be deleted by one.
    assert lakesweep("apply", "prod", *LOCAL, "--yes", "--override", "first-run").code == 6
    assert len(lake.orphans()) == 3
    lake.config.write_text(text.replace("[lakes.prod]", f"[lakes.prod]\nfilter_bytes = {needed}"))
    planned = lakesweep("plan", "prod", *LOCAL, "--bloom")
    assert planned.code == 0
    assert planned.document["totals"]["delete"]["unreferenced"]["files"] == 3


def test_the_hint_repeats_the_command_as_it_was_typed(
    lake: SmallLake, lakesweep: Lakesweep
) -> None:
    plan = lakesweep("plan", "prod", *LOCAL).document["plan"]
    refused = lakesweep("apply", plan, *LOCAL, "--quarantine", "--yes", "--override", "share")
    assert refused.code == 3
    words = f"--config {lake.config} apply {plan} --engine local --quarantine --yes"
    typed = f"lakesweep {words} --override share --json --override first-run"
    assert refused.error["hint"].endswith(f", then: {typed}")


def test_a_table_that_lacks_a_file_is_withheld_until_somebody_decides(
    lake: SmallLake, lakesweep: Lakesweep
) -> None:
    live = next(path for path in lake.data.iterdir() if "orphan" not in path.name)
    live.unlink()
    plan = lakesweep("plan", "prod", *LOCAL)
    apply = ("apply", plan.document["plan"], *LOCAL, "--yes", "--override", "first-run")
    withheld = lakesweep(*apply)
    assert (withheld.code, withheld.document["withheld"]) == (4, {"missing": 3})
    decision = """
[[lakes.prod.accept]]
guard = "missing"
table = "lake.shop.orders"
until = 2999-01-31
reason = "lost in January"
"""
    lake.config.write_text(lake.config.read_text() + decision)
    planned = lakesweep("plan", "prod", *LOCAL).document
    assert [each["reason"] for each in planned["accepted"]] == ["lost in January"]
    done = lakesweep("apply", planned["plan"], *LOCAL, "--yes")
    assert (done.code, done.document["deleted"]) == (0, 3)
    accepted = lakesweep("runs", done.document["run"]).document["spec"]["accepted"]
    assert accepted[0]["subject"] == "lake.shop.orders"
