"""Several processes that sweep one lake at the same moment."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.forks import started
from tests.small_lake import SmallLake

ORPHANS = 300
LOCAL = ("--engine", "local", "--json")
_PLAN = ("plan", "prod", *LOCAL)
APPLY = (*LOCAL, "--yes", "--override", "first-run", "--override", "share")
#: Done; refused, because another one has done it; another one is at it.
DONE, REFUSED, HELD = 0, 3, 5


def _end(lake: SmallLake, *commands: tuple[str, ...]) -> dict[int, list[str]]:
    """Run commands at the same time; what they wrote, by exit code."""
    ended: dict[int, list[str]] = {}
    with ExitStack() as running:
        together = [running.enter_context(started(lake.folder, *words)) for words in commands]
        for done in [command.finish() for command in together]:
            ended.setdefault(done.code, []).append(done.out)
    return ended


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    return SmallLake.make(tmp_path / "lake", orphans=ORPHANS)


def test_of_appliers_of_one_plan_one_deletes(lake: SmallLake) -> None:
    live = lake.files() - lake.orphans()
    [made] = _end(lake, _PLAN)[DONE]
    plan = json.loads(made)["plan"]
    ended = _end(lake, *([("apply", plan, *APPLY)] * 3))
    [applied] = ended.pop(DONE)
    assert ended.keys() <= {REFUSED, HELD}
    assert json.loads(applied)["deleted"] == ORPHANS
    assert lake.files() == live
    parts = (lake.folder / ".lakesweep" / "plans").glob("**/outcomes/*.parquet")
    outcomes = Counter(row for part in parts for row in pq.read_table(part)["outcome"].to_pylist())
    assert outcomes == {"deleted": ORPHANS}


def test_of_appliers_of_several_plans_nobody_deletes_twice(lake: SmallLake) -> None:
    live = lake.files() - lake.orphans()
    plans = [_end(lake, _PLAN)[DONE][0] for _ in range(2)]
    names = [json.loads(plan)["plan"] for plan in plans]
    ended = _end(lake, *(("apply", name, *APPLY) for name in names))
    assert ended.keys() <= {DONE, HELD}
    assert sum(json.loads(applied)["deleted"] for applied in ended[DONE]) == ORPHANS
    assert lake.files() == live
