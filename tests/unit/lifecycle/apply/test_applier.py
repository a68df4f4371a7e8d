"""Two machines with two stores, and one repository: only one of them deletes at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakesweep.errors import LeaseHeldError
from lakesweep.runs.location_lock import STALE_AFTER
from lakesweep.runs.records import LAKE_HOME, REPOSITORY_HOME
from tests.lakefs import RealRepositories
from tests.lifecycle_plans import Around, Office, recorded
from tests.planned import deletes

RULES = {"state": {"prefix": "state", "days": 30}}
LOCKS = f"{REPOSITORY_HOME}locks"


@pytest.fixture
def offices(lakefs_repositories: RealRepositories, tmp_path: Path) -> tuple[Office, Office]:
    """Two machines, each with a store of its own."""
    repository = recorded(lakefs_repositories, "analytics", tmp_path)
    return Office(repository), Office(repository)


def test_a_second_machine_does_not_delete_while_the_first_one_does(
    offices: tuple[Office, Office],
) -> None:
    one, other = offices
    first, second = one.plan(RULES), other.plan(RULES)
    doomed = deletes(first)

    def meddle() -> None:
        with pytest.raises(LeaseHeldError, match="is locked by apply-"):
            other.apply(second)

    assert one.apply(first, removal=Around(before=meddle)).report.deleted == len(doomed) > 0

    late = other.apply(second)  # it was not touched before, and finds nothing left to do
    assert (late.report.deleted, late.report.absent) == (0, len(doomed))
    locks = one.repository.real.folder / LOCKS
    assert not list(locks.iterdir())


@pytest.mark.parametrize("seconds", [STALE_AFTER.total_seconds() - 5, STALE_AFTER.total_seconds()])
def test_the_lock_of_a_dead_run_ends(offices: tuple[Office, Office], seconds: float) -> None:
    office = offices[0]
    plan = office.plan(RULES)
    lock = office.repository.real.folder / LOCKS / "apply-dead"
    lock.parent.mkdir(parents=True)
    lock.write_text("apply-dead (elsewhere:1)")
    written = lock.stat().st_mtime - seconds
    os.utime(lock, (written, written))

    if seconds < STALE_AFTER.total_seconds():
        with pytest.raises(LeaseHeldError, match=r"apply-dead \(elsewhere:1\)"):
            office.apply(plan)
        assert [each.name for each in lock.parent.iterdir()] == ["apply-dead"]
    else:
        assert office.apply(plan).report.deleted > 0
        assert not lock.exists()


def lock_of_a_lake(location: Path) -> Path:
    """The lock of a run that sweeps a lake, by another store."""
    lock = location / LAKE_HOME / "locks" / "apply-sweep"
    lock.parent.mkdir(parents=True)
    lock.write_text("apply-sweep (elsewhere:1)")
    return lock


@pytest.mark.parametrize("place", ["above", "below"])
def test_a_sweep_of_a_lake_above_or_below_a_repository_excludes_a_lifecycle(
    offices: tuple[Office, Office], place: str
) -> None:
    office = offices[0]
    folder = office.repository.real.folder
    lock = lock_of_a_lake(folder.parent if place == "above" else folder / "data" / "lake")
    plan = office.plan(RULES)
    with pytest.raises(LeaseHeldError, match=r"apply-sweep \(elsewhere:1\)"):
        office.apply(plan)
    lock.unlink()
    assert office.apply(plan).report.deleted > 0


def test_a_lake_above_sees_the_lock_of_a_lifecycle(offices: tuple[Office, Office]) -> None:
    office = offices[0]
    locks = lock_of_a_lake(office.repository.real.folder.parent)
    locks.unlink()
    (locks.parent / "else").mkdir()
    seen: list[str] = []

    def look() -> None:
        seen.extend(each.name for each in locks.parent.glob("apply-*"))

    office.apply(office.plan(RULES), removal=Around(before=look))
    assert len(set(seen)) == 1
    assert not list(locks.parent.glob("apply-*"))
