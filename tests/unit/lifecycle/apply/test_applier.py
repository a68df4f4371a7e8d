"""Two machines with two stores, and one repository: only one of them deletes at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakesweep.errors import LeaseHeldError
from lakesweep.lifecycle.apply.applier import LOCKS
from lakesweep.lifecycle.repository_lake import lake_name
from lakesweep.runs.location_lock import STALE_AFTER
from lakesweep.runs.records import home_folder
from lakesweep.storage.address import parse
from tests.lakefs import RealRepositories
from tests.lifecycle_plans import Around, Office, recorded
from tests.planned import deletes

RULES = {"state": {"prefix": "state", "days": 30}}


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


def test_a_restore_holds_the_same_lock_as_an_apply(offices: tuple[Office, Office]) -> None:
    namespace = offices[0].repository.namespace
    home = home_folder(lake_name(namespace), namespace.address("data"))
    assert parse(home + "locks/").key == parse(namespace.address(LOCKS)).key


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
