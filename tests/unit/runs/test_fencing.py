from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import DeniedError, LakesweepError, LeaseHeldError, PausedError, StoppedError
from lakesweep.runs.fencing import (
    CONTROL,
    FenceRecord,
    FenceWriter,
    RequestFence,
    RunFence,
    request_stop,
)
from lakesweep.runs.leases import CLOCK_MARGIN, LEASE_TERM, HeldLease, take_lease
from lakesweep.runs.records import TYPES
from lakesweep.runs.run_log import RunLog
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, StorageFault, fail
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from tests.moments import NOON


@dataclass
class Run:
    """A run that holds a lease and has said so to its tasks."""

    clock: ManualClock
    folder: str
    lease: HeldLease
    control: RunFence


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    clock = ManualClock(NOON)
    with Store(MemoryBackend(), types=TYPES, clock=clock) as store:
        realm = store.create_realm("acme")
        lease = take_lease(
            realm, clock, "prod", RunLog(realm, clock).lake("prod").lease, "r1", "host"
        )
        control = RunFence(Stores(), str(tmp_path), "r1", lease.token, clock)
        control.renew(lease)
        yield Run(clock, str(tmp_path), lease, control)


def test_a_run_that_holds_its_lease_goes_on(run: Run) -> None:
    run.control.check()


def test_tasks_of_an_earlier_round_end_whatever_comes_later(run: Run) -> None:
    reins = FenceWriter(run.control, run.lease)
    reins.pause()
    reins.renew(run.lease)
    with pytest.raises(PausedError):
        run.control.check()
    reins.control.check()


def test_nobody_else_can_make_a_run_last_longer(run: Run) -> None:
    """Whoever can write to the folder knows all that is in the object, but not the key."""
    path = Path(run.folder) / CONTROL
    granted = msgspec.json.decode(path.read_bytes(), type=FenceRecord)
    longer = msgspec.structs.replace(granted, good_until=2 * granted.good_until)
    for forged in (longer, longer.signed(b""), msgspec.structs.replace(longer, signature="")):
        path.write_bytes(msgspec.json.encode(forged))
        with pytest.raises(LeaseHeldError, match="was not written by this run"):
            run.control.check()
    path.write_bytes(msgspec.json.encode(granted))
    run.control.check()


def test_a_run_that_is_told_to_stop_stops(run: Run) -> None:
    request_stop(run.control.stores, run.folder)
    with pytest.raises(StoppedError, match="r1 was told to stop"):
        run.control.check()


def test_a_renewal_does_not_undo_a_stop(run: Run) -> None:
    request_stop(run.control.stores, run.folder)
    run.control.renew(run.lease)
    with pytest.raises(StoppedError):
        run.control.check()


def test_a_run_stops_a_while_before_its_lease_ends(run: Run) -> None:
    good = (LEASE_TERM - CLOCK_MARGIN).total_seconds()
    run.clock.sleep(good - 1)
    run.control.check()
    run.clock.sleep(1)
    with pytest.raises(LeaseHeldError, match="lease has ended"):
        run.control.check()


def test_a_renewed_lease_lets_the_run_go_on(run: Run) -> None:
    run.clock.sleep(LEASE_TERM.total_seconds() / 2)
    run.lease.renew()
    run.control.renew(run.lease)
    run.clock.sleep(LEASE_TERM.total_seconds() / 2)
    run.control.check()


def test_a_run_that_was_taken_over_stops(run: Run) -> None:
    later = replace(run.control, run="r2", token=run.control.token + 1)
    later.renew(run.lease)
    with pytest.raises(LeaseHeldError, match="r2 has taken over"):
        run.control.check()
    later.check()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b'{"run": "r1"'),
        lambda path: path.write_bytes(b'{"run": "r1", "token": "1", "good_until": 9}'),
        lambda path: path.write_bytes(b"\xff"),
    ],
)
def test_a_run_without_a_sound_control_object_stops(
    run: Run, spoil: Callable[[Path], object]
) -> None:
    spoil(Path(run.folder) / "control.json")
    with pytest.raises(LeaseHeldError):
        run.control.check()


@pytest.mark.parametrize("method", ["read", "head"])
def test_a_run_that_cannot_see_its_control_objects_does_not_go_on(run: Run, method: str) -> None:
    store = Faulty(LocalStore(), [StorageFault(fail(DeniedError), frozenset({method}))])
    blind = replace(run.control, stores=Stores(replace={"/": store}))
    with pytest.raises(LakesweepError):
        blind.check()


def test_a_control_travels_to_tasks(run: Run) -> None:
    other: RunFence = pickle.loads(pickle.dumps(run.control))
    other.check()


# Before each request.


@dataclass
class SlowClock:
    """The clock of a machine that was suspended, or whose time was set back."""

    wall: ManualClock
    ticks: ManualClock

    def now(self) -> datetime:
        return self.wall.now()

    def monotonic(self) -> float:
        return self.ticks.monotonic()

    def sleep(self, seconds: float) -> None:
        self.wall.sleep(seconds)
        self.ticks.sleep(seconds)


def _another(run: Run) -> None:
    """Another run takes the folder over."""
    replace(run.control, run="r2", token=run.control.token + 1).renew(run.lease)


@pytest.mark.parametrize("which", ["wall", "ticks"])
def test_a_process_that_was_stopped_reads_the_token_before_its_next_request(
    run: Run, which: str
) -> None:
    clock = SlowClock(ManualClock(NOON), ManualClock(NOON))
    fence = RequestFence(run.control.verified_until, clock)
    fence()
    _another(run)
    getattr(clock, which).sleep(1)
    with pytest.raises(LeaseHeldError, match="r2 has taken over"):
        fence()
    replace(run.control).renew(run.lease)
    with pytest.raises(LeaseHeldError, match="r2 has taken over"):
        fence()


def test_the_token_is_not_read_for_each_of_many_requests(run: Run) -> None:
    readings = []

    def read() -> datetime:
        readings.append(run.clock.now())
        return run.control.verified_until()

    fence = RequestFence(read, run.clock)
    for _ in range(10):
        fence()
    run.clock.sleep(1)
    fence()
    assert len(readings) == 2


def test_no_request_is_sent_after_the_end_of_the_lease(run: Run) -> None:
    run.clock.sleep((LEASE_TERM - CLOCK_MARGIN).total_seconds() - 0.5)
    fence = RequestFence(run.control.verified_until, run.clock)
    fence()
    run.clock.sleep(0.5)
    with pytest.raises(LeaseHeldError, match="its lease has ended"):
        fence()
