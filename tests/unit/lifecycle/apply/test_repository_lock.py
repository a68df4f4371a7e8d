"""Two machines with two stores, and one repository: only one of them deletes at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakesweep.errors import LeaseHeldError
from lakesweep.lifecycle.apply.repository_lock import LOCKS, STALE_AFTER, RepositoryLock
from lakesweep.runs.records import RunKind
from lakesweep.runs.sessions import run_session
from lakesweep.storage.address import parse
from lakesweep.storage.stores import Stores
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
        with pytest.raises(LeaseHeldError, match="are being deleted by apply-"):
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


@pytest.mark.parametrize("how", ["removed", "taken"])
def test_a_run_whose_lock_is_gone_loses_its_lease(offices: tuple[Office, Office], how: str) -> None:
    runs, store = offices[0].runs, Stores().open(parse(f"memory://{how}"))
    lock = RepositoryLock(store, "locks/", "apply-1")
    with run_session(runs, "lake", RunKind.APPLY, spec={}) as session:
        lock.take()
        lock.renew(session.lease)
        session.lease.check()
        if how == "removed":
            lock.release()
        else:
            store.write("locks/apply-2", b"apply-2")
        with session.lease.telling(lock.renew), pytest.raises(LeaseHeldError, match="apply-1"):
            session.lease.renew()
        with pytest.raises(LeaseHeldError, match="no longer holds"):
            session.lease.check()
    assert "locks/apply-1" not in store.list("locks/").entries["key"].to_pylist()
