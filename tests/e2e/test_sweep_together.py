"""Several processes that sweep one lake at the same moment."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.small_lake import SmallLake

ORPHANS = 300
LAKESWEEP = str(Path(sys.executable).with_name("lakesweep"))
LOCAL = ("--engine", "local", "--json")
APPLY = (*LOCAL, "--yes", "--override", "first-run", "--override", "share")
#: Done; refused, because another one has done it; another one is at it.
DONE, REFUSED, HELD = 0, 3, 5
_PATIENCE_SECONDS = 120


def _start(lake: SmallLake, *words: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [LAKESWEEP, *words], cwd=lake.folder, stdout=pipe, stderr=pipe, text=True
    )


def _end(*processes: subprocess.Popen[str]) -> dict[int, list[str]]:
    """What was written, by exit code."""
    ended: dict[int, list[str]] = {}
    for process in processes:
        out, _ = process.communicate(timeout=_PATIENCE_SECONDS)
        ended.setdefault(process.returncode, []).append(out)
    return ended


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    return SmallLake.make(tmp_path / "lake", orphans=ORPHANS)


def test_of_appliers_of_one_plan_one_deletes(lake: SmallLake) -> None:
    live = lake.files() - lake.orphans()
    [made] = _end(_start(lake, "plan", "prod", *LOCAL))[DONE]
    plan = json.loads(made)["plan"]
    ended = _end(*(_start(lake, "apply", plan, *APPLY) for _ in range(3)))
    [applied] = ended.pop(DONE)
    assert ended.keys() <= {REFUSED, HELD}
    assert json.loads(applied)["deleted"] == ORPHANS
    assert lake.files() == live
    parts = (lake.folder / ".lakesweep" / "plans").glob("**/outcomes/*.parquet")
    outcomes = Counter(row for part in parts for row in pq.read_table(part)["outcome"].to_pylist())
    assert outcomes == {"deleted": ORPHANS}


def test_of_appliers_of_several_plans_nobody_deletes_twice(lake: SmallLake) -> None:
    live = lake.files() - lake.orphans()
    plans = [_end(_start(lake, "plan", "prod", *LOCAL))[DONE][0] for _ in range(2)]
    names = [json.loads(plan)["plan"] for plan in plans]
    ended = _end(*(_start(lake, "apply", name, *APPLY) for name in names))
    assert ended.keys() <= {DONE, HELD}
    assert sum(json.loads(applied)["deleted"] for applied in ended[DONE]) == ORPHANS
    assert lake.files() == live
