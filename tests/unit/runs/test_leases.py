from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import LeaseHeldError
from lakesweep.runs.leases import CLOCK_MARGIN, LEASE_TERM, HeldLease, keep_renewing, take_lease
from lakesweep.runs.records import TYPES
from lakesweep.runs.run_log import RunLog
from lakesweep.store import Realm, Store
from lakesweep.store.backends.faults import BackendFault, FaultyBackend
from lakesweep.store.backends.memory import MemoryBackend
from tests.moments import NOON

_TERM = LEASE_TERM.total_seconds()
_MARGIN = CLOCK_MARGIN.total_seconds()


class Lake:
    """A lake whose lease two runs want, over a database that may lose answers."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.fault = BackendFault.NONE
        backend = FaultyBackend(MemoryBackend(), self._choose, clock)
        self.store = Store(backend, types=TYPES, clock=clock)
        self.realm: Realm = self.store.create_realm("acme")
        self.lease = RunLog(self.realm, clock).lake("prod").lease

    def take(self, run: str) -> HeldLease:
        return take_lease(self.realm, self.clock, "lake prod", self.lease, run, "host")

    def _choose(self, method: str) -> BackendFault:
        return self.fault if method == "update_row" else BackendFault.NONE


@pytest.fixture
def lake() -> Iterator[Lake]:
    lake = Lake(ManualClock(NOON))
    with lake.store:
        yield lake


def test_one_run_at_a_time(lake: Lake) -> None:
    first = lake.take("r1")
    with pytest.raises(LeaseHeldError, match=r"worked on by r1 \(host\)"):
        lake.take("r2")
    first.release()
    assert lake.take("r2").token == first.token + 1


def test_a_dead_run_is_taken_over_when_its_lease_has_ended(lake: Lake) -> None:
    first = lake.take("r1")
    lake.clock.sleep(_TERM + _MARGIN - 1)
    with pytest.raises(LeaseHeldError):
        lake.take("r2")
    lake.clock.sleep(1)
    assert lake.take("r2").token > first.token


def test_a_run_that_wakes_up_knows_that_it_is_too_late(lake: Lake) -> None:
    first = lake.take("r1")
    first.check()
    lake.clock.sleep(_TERM - _MARGIN)
    with pytest.raises(LeaseHeldError, match="no longer holds"):
        first.check()
    lake.clock.sleep(2 * _MARGIN)
    lake.take("r2")
    with pytest.raises(LeaseHeldError, match="no longer holds"):
        first.renew()


def test_a_lease_that_is_renewed_does_not_end(lake: Lake) -> None:
    first = lake.take("r1")
    for _ in range(10):
        lake.clock.sleep(_TERM / 2)
        first.renew()
        first.check()
    with pytest.raises(LeaseHeldError):
        lake.take("r2")


@pytest.mark.parametrize("fault", [BackendFault.LOSE_ANSWER, BackendFault.LOSE_REQUEST])
def test_a_renewal_without_an_answer_harms_nobody(lake: Lake, fault: BackendFault) -> None:
    first = lake.take("r1")
    lake.clock.sleep(30)
    lake.fault = fault
    first.renew()
    lake.fault = BackendFault.NONE
    first.renew()
    first.check()
    assert first.token == 1


def test_a_lease_taken_without_an_answer_is_held(lake: Lake) -> None:
    lake.fault = BackendFault.LOSE_ANSWER
    held = lake.take("r1")
    lake.fault = BackendFault.NONE
    held.renew()
    with pytest.raises(LeaseHeldError):
        lake.take("r2")


def test_a_lease_that_was_not_taken_is_not_held(lake: Lake) -> None:
    lake.fault = BackendFault.LOSE_REQUEST
    with pytest.raises(LeaseHeldError, match="just now"):
        lake.take("r1")
    lake.fault = BackendFault.NONE
    assert lake.take("r2").token == 1


def test_the_lease_is_given_back_at_the_end(lake: Lake) -> None:
    with keep_renewing(lake.take("r1")):
        pass
    lake.take("r2")
