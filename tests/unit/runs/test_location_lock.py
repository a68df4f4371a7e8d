"""Two machines with two stores, and one lake: only one of them changes it at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import DeniedError, LeaseHeldError, RefusedError, UnavailableError
from lakesweep.runs.leases import LEASE_TERM
from lakesweep.runs.location_lock import LocationLock, lock_locations
from lakesweep.runs.records import TYPES, RunKind
from lakesweep.runs.run_log import RunLog
from lakesweep.runs.sessions import Session, run_session
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, StorageFault, fail
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from tests.moments import NOON
from tests.sweeps import LAKE, PLANS, REALM, Process, World, at
from tests.timed_store import TimedStore

ORPHANS = [f"{LAKE}/t1/data/orphan-{number}.parquet" for number in range(4)]


@pytest.fixture
def world() -> World:
    """A table with a file, and old orphans."""
    world = World()
    world.create("t1")
    world.append("t1", world.put(f"{LAKE}/t1/data/live.parquet"))
    for path in ORPHANS:
        world.put(path)
    world.age()
    return world


class OtherStore(Process):
    """A machine that sweeps the same lake with a store of its own."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        store = Store(MemoryBackend(), types=TYPES, clock=world.clock)
        self.runs = RunLog(store.create_realm(REALM), world.clock)


def test_another_store_does_not_delete_what_a_first_one_restored(world: World) -> None:
    one, other = Process(world), OtherStore(world)
    late = other.plan()
    first = one.plan()
    one.apply(first.plan, aside=True)
    one.restore(first.plan)
    with pytest.raises(RefusedError, match=rf"restored in {LAKE} since plan {late.plan} was made"):
        other.apply(late.plan)
    assert set(ORPHANS) <= world.files()
    world.age()
    other.apply(other.plan().plan)  # a plan that was made with them
    assert not set(ORPHANS) & world.files()


def test_a_plan_that_listed_during_a_restore_is_refused(world: World) -> None:
    one, other = Process(world), OtherStore(world)
    first = one.plan()
    one.apply(first.plan, aside=True)
    late = []
    one.gate.script = at(
        "delete s3://lake/_lakesweep/quarantine", lambda: late.append(other.plan())
    )
    one.restore(first.plan)
    with pytest.raises(RefusedError, match="ended"):
        other.apply(late[0].plan)


@pytest.mark.parametrize("what", ["apply", "restore", "empty"])
def test_another_store_waits_while_a_run_changes_files(world: World, what: str) -> None:
    one, other = Process(world), OtherStore(world)
    held, mine = other.plan(), one.plan()
    if what != "apply":
        other.apply(held.plan, aside=True)
        mine = one.plan()
        for path in ORPHANS:
            world.put(path.replace("orphan", "more"), old=True)
        mine = one.plan()

    def meddle() -> None:
        with pytest.raises(LeaseHeldError, match=r"locked by apply-.* \(.*\), at 20"):
            getattr(other, what)(held.plan)

    one.gate.script = at(f"delete {LAKE}", meddle)
    one.apply(mine.plan)
    assert not [key for key in world.lake.objects if "/locks/" in key]


def test_the_lock_of_a_dead_run_of_this_store_is_taken_over(world: World) -> None:
    """The lease says that it is dead, although its lock is new."""
    world.lake.write("_lakesweep/locks/apply-elsewhere", b"apply-elsewhere (host:1)")
    process = Process(world)
    made = process.plan()
    with pytest.raises(LeaseHeldError, match="apply-elsewhere"):
        process.apply(made.plan)
    world.clock.sleep((LEASE_TERM + timedelta(seconds=15)).total_seconds())
    process.apply(made.plan)
    assert "_lakesweep/locks/apply-elsewhere" not in world.lake.objects
    world.lake.write(f"_lakesweep/locks/{next(process.runs.list('prod')).run}", b"")
    Process(world).apply(process.plan().plan)
    assert not [key for key in world.lake.objects if "/locks/" in key]


@contextmanager
def _session(clock: ManualClock) -> Iterator[tuple[RunLog, Session]]:
    runs = RunLog(Store(MemoryBackend(), types=TYPES, clock=clock).create_realm(REALM), clock)
    with run_session(runs, "prod", RunKind.APPLY, spec={}) as session:
        yield runs, session


def test_a_lock_further_out_counts(world: World) -> None:
    stores = Stores(replace={LAKE: world.lake})
    with (
        _session(world.clock) as (runs, session),
        _session(world.clock) as (others, another),
        lock_locations(stores, runs, [LAKE], session),
        pytest.raises(LeaseHeldError),
        lock_locations(stores, others, [f"{LAKE}/t1"], another),
    ):
        pass


def test_locations_of_one_lake_may_be_nested(world: World) -> None:
    stores = Stores(replace={LAKE: world.lake})
    with (
        _session(world.clock) as (runs, session),
        lock_locations(stores, runs, [f"{LAKE}/t1", LAKE, f"{LAKE}/t1/"], session),
    ):
        session.lease.renew()
        session.lease.check()


def test_a_location_that_cannot_be_written_says_so(world: World) -> None:
    denied = Faulty(world.lake, [StorageFault(fail(DeniedError), frozenset({"write"}))])
    process = Process(world)
    made = process.plan()
    process.stores = Stores(replace={LAKE: denied, PLANS: world.plans})
    with pytest.raises(DeniedError, match="the lock of the location cannot be written") as caught:
        process.apply(made.plan)
    assert caught.value.hint.startswith(f"grant the right to write and delete below {LAKE}/")
    assert set(ORPHANS) <= world.files()


def test_no_folder_is_made_for_a_location_that_is_not_there(tmp_path: Path) -> None:
    gone = tmp_path / "not mounted"
    with (
        _session(ManualClock(NOON)) as (runs, session),
        lock_locations(Stores(), runs, [str(gone)], session),
    ):
        assert not gone.exists()


@pytest.mark.parametrize("how", ["removed", "taken", "unwritable"])
def test_a_run_whose_lock_is_lost_loses_its_lease(how: str) -> None:
    clock = ManualClock(NOON)
    objects = TimedStore("s3://b/", clock)
    faults = [StorageFault(fail(UnavailableError), frozenset({"write"}), skip=2)]
    store = Faulty(objects, faults) if how == "unwritable" else objects
    lock = LocationLock(store, "locks/", "apply-1")
    with _session(clock) as (_, session):
        lock.take()
        lock.renew(session.lease)
        session.lease.check()
        match how:
            case "removed":
                lock.release()
            case "taken":
                objects.write("locks/apply-2", b"apply-2")
            case _:
                clock.sleep(76)
        error = UnavailableError if how == "unwritable" else LeaseHeldError
        with session.lease.telling(lock.renew), pytest.raises(error):
            session.lease.renew()
        with pytest.raises(LeaseHeldError, match="no longer holds"):
            session.lease.check()
