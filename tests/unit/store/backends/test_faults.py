from __future__ import annotations

from dataclasses import replace

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import UnknownOutcomeError, UnreachableError
from lakesweep.store.backends.faults import LATE_CALLS, SLOW_SECONDS, BackendFault, FaultyBackend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import ObjectRow, Reference, RowKey
from tests.moments import NOON

OLD = Reference("main", 1, 0, 5)
NEW = replace(OLD, pointer=2, version=1)
ROWS = [ObjectRow(number, 0, "thing", 5, None, b"value") for number in range(4)]
KEYS = [row.key for row in ROWS]


class Faults:
    """Befalls the next call."""

    def __init__(self) -> None:
        self.next = BackendFault.NONE

    def __call__(self, _method: str) -> BackendFault:
        fault, self.next = self.next, BackendFault.NONE
        return fault


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
def backend(faults: Faults, clock: ManualClock) -> FaultyBackend:
    backend = FaultyBackend(MemoryBackend(), faults, clock)
    backend.insert_reference("acme", OLD)
    return backend


def _pointer(backend: FaultyBackend) -> int | None:
    return backend.fetch_references("acme", ["main"])["main"].pointer


@pytest.mark.parametrize(
    ("fault", "pointer"),
    [
        (BackendFault.LOSE_REQUEST, 1),
        (BackendFault.LOSE_ANSWER, 2),
        (BackendFault.HALVE, 1),
        (BackendFault.LATE, 1),
    ],
)
def test_an_unknown_outcome_is_one_or_the_other(
    backend: FaultyBackend, faults: Faults, fault: BackendFault, pointer: int
) -> None:
    faults.next = fault
    with pytest.raises(UnknownOutcomeError):
        backend.update_reference("acme", NEW, OLD)
    assert _pointer(backend) == pointer


def test_a_refused_write_did_not_happen(backend: FaultyBackend, faults: Faults) -> None:
    faults.next = BackendFault.REFUSE
    with pytest.raises(UnreachableError):
        backend.update_reference("acme", NEW, OLD)
    assert _pointer(backend) == 1


def test_a_late_write_happens_some_calls_later(backend: FaultyBackend, faults: Faults) -> None:
    faults.next = BackendFault.LATE
    with pytest.raises(UnknownOutcomeError):
        backend.update_reference("acme", NEW, OLD)
    assert [_pointer(backend) for _ in range(LATE_CALLS)] == [1, 1, 2]


def test_half_of_a_batch_may_happen(backend: FaultyBackend, faults: Faults) -> None:
    faults.next = BackendFault.HALVE
    with pytest.raises(UnknownOutcomeError):
        backend.write("acme", ROWS)
    assert list(backend.fetch("acme", KEYS)) == KEYS[:2]


@pytest.mark.parametrize(
    "fault", [BackendFault.REFUSE, BackendFault.LOSE_ANSWER, BackendFault.LATE]
)
def test_a_read_is_refused(backend: FaultyBackend, faults: Faults, fault: BackendFault) -> None:
    faults.next = fault
    with pytest.raises(UnreachableError):
        _pointer(backend)


def test_a_stale_read_misses_the_last_write(backend: FaultyBackend, faults: Faults) -> None:
    backend.update_reference("acme", NEW, OLD)
    faults.next = BackendFault.STALE
    assert _pointer(backend) == 1
    assert _pointer(backend) == 2
    backend.write("acme", ROWS[:2])
    backend.write("acme", ROWS[2:])
    faults.next = BackendFault.STALE
    assert list(backend.fetch("acme", KEYS)) == [RowKey(0), RowKey(1)]
    assert list(backend.fetch("acme", KEYS)) == KEYS


def test_a_slow_call_takes_its_time(
    backend: FaultyBackend, faults: Faults, clock: ManualClock
) -> None:
    faults.next = BackendFault.SLOW
    assert _pointer(backend) == 1
    assert clock.monotonic() == SLOW_SECONDS
