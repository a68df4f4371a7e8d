"""A sweep whose process is killed anywhere: whoever comes next goes on, and nothing live is lost.

The command is the real one, on real files and a real database; see `tests/mortal.py`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from lakesweep.app import App
from lakesweep.config.file import load_config
from lakesweep.runs.records import LeaseRecord, PlanStatus, RunStatus
from lakesweep.sweep.apply.deletion import outcome_parts
from tests.command import Lakesweep
from tests.mortal import KILLED, run_mortal
from tests.small_lake import SmallLake

ORPHANS = 12
LOCAL = ("--engine", "local")
APPLY = (*LOCAL, "--yes", "--override", "first-run")
#: It was killed behind its last step: the plan was applied.
APPLIED = 3


class Shore:
    """A lake that can be put back to what it was when its first plan was made."""

    def __init__(self, folder: Path, lakesweep: Lakesweep) -> None:
        self.lake = SmallLake.make(folder / "lake", orphans=ORPHANS)
        lakesweep.config = self.lake.config
        self.orphans = self.lake.orphans()
        self.live = self.lake.files() - self.orphans
        self.plan = str(lakesweep("plan", "prod", *LOCAL).document["plan"])
        self._saved = folder / "saved"
        shutil.copytree(self.lake.folder, self._saved)

    def put_back(self) -> None:
        shutil.rmtree(self.lake.folder)
        shutil.copytree(self._saved, self.lake.folder)

    def kill(self, *command: str, steps: int) -> bool:
        """Run a command that dies behind so many steps; whether it came to that."""
        code = run_mortal(command, self.lake.folder, steps)
        self._end_lease()
        return code == KILLED

    @property
    def app(self) -> App:
        return App(load_config(self.lake.config, {}), folder=self.lake.folder)

    def outcomes(self) -> set[str]:
        """The files of which runs wrote down what became of them."""
        parts = outcome_parts(self.app.stores, f"{self.app.runs.plan(self.plan).address}/outcomes")
        return {path for part in parts for path in pq.read_table(part)["path"].to_pylist()}

    def _end_lease(self) -> None:
        """As if the minutes had passed for which a dead run holds it."""
        for lock in self.lake.folder.rglob("_lakesweep/locks/*"):
            os.utime(lock, (1, 1))
        runs = self.app.runs
        held = runs.realm.objects.fetch(runs.lake("prod").lease, LeaseRecord)
        assert held is not None
        if held.value.expires_at:
            ended = msgspec.structs.replace(held.value, expires_at=1)
            assert runs.realm.objects.update(held, ended) is not None


@pytest.fixture
def lakesweep(capsys: pytest.CaptureFixture[str]) -> Lakesweep:
    return Lakesweep(capsys)


@pytest.fixture
def shore(tmp_path: Path, lakesweep: Lakesweep) -> Shore:
    return Shore(tmp_path, lakesweep)


def test_planners_that_are_killed_leave_nothing_in_the_way(
    shore: Shore, lakesweep: Lakesweep
) -> None:
    steps = 0
    while shore.kill("plan", "prod", *LOCAL, steps=steps):
        steps += 41
    assert steps > 3 * 41
    plan = lakesweep("plan", "prod", *LOCAL).document["plan"]
    assert lakesweep("apply", plan, *APPLY).document["deleted"] == ORPHANS
    assert shore.lake.files() == shore.live
    assert RunStatus.RUNNING not in {run.status for run in shore.app.runs.list()}


def test_an_apply_that_is_killed_is_gone_on_with(shore: Shore, lakesweep: Lakesweep) -> None:
    steps = 0
    while shore.kill("apply", shore.plan, *APPLY, steps=steps):
        assert shore.live <= shore.lake.files()
        assert lakesweep("apply", shore.plan, *APPLY).code in (0, APPLIED)
        assert shore.lake.files() == shore.live
        assert shore.outcomes() == shore.orphans
        assert shore.app.runs.plan(shore.plan).status is PlanStatus.APPLIED
        shore.put_back()
        steps += 11
    assert steps > 5 * 11


def test_what_a_killed_apply_set_aside_comes_back(shore: Shore, lakesweep: Lakesweep) -> None:
    steps = 40
    while shore.kill("apply", shore.plan, *APPLY, "--quarantine", steps=steps):
        restored = lakesweep("quarantine", "restore", shore.plan)
        assert restored.code == 0, restored.err
        assert shore.lake.files() == shore.live | shore.orphans
        shore.put_back()
        steps += 13
    assert steps > 40 + 2 * 13


def test_a_restore_that_is_killed_can_be_repeated(shore: Shore, lakesweep: Lakesweep) -> None:
    lakesweep("apply", shore.plan, *APPLY, "--quarantine")
    steps = 0
    while shore.kill("quarantine", "restore", shore.plan, steps=steps):
        steps += 2
    assert steps > 6
    restored = lakesweep("quarantine", "restore", shore.plan)
    assert restored.code == 0, restored.err
    assert restored.document["restored"] == ORPHANS
    assert shore.lake.files() == shore.live | shore.orphans
