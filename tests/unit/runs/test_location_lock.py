"""Two machines with two stores, and one lake: only one of them changes it at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from lakesweep.clock import ManualClock
from lakesweep.config import LakeSection
from lakesweep.errors import DeniedError, LeaseHeldError, RefusedError, UnavailableError
from lakesweep.runs.leases import LEASE_TERM
from lakesweep.runs.location_lock import STALE_AFTER, LocationLock, lock_locations
from lakesweep.runs.lock_holders import LockRecord, is_gone, lock_nonce, new_record, this_process
from lakesweep.runs.records import TYPES, RunKind
from lakesweep.runs.run_log import RunLog
from lakesweep.runs.sessions import Session, run_session
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.base import StoreWrapper
from lakesweep.storage.wrappers.faults import Faulty, StorageFault, fail
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.sweep.lake import Lake
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
    """Its process is not there any more, although its lock is new."""
    world.lake.write("_lakesweep/locks/apply-elsewhere", b"apply-elsewhere (host:1)")
    process = Process(world)
    made = process.plan()
    with pytest.raises(LeaseHeldError, match="apply-elsewhere"):
        process.apply(made.plan)
    world.clock.sleep((LEASE_TERM + timedelta(seconds=15)).total_seconds())
    process.apply(made.plan)
    assert "_lakesweep/locks/apply-elsewhere" not in world.lake.objects
    run = next(process.runs.list("prod")).run
    world.lake.write(f"_lakesweep/locks/{run}", msgspec.json.encode(new_record(run, "lost", 0)))
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


# Nested locations of two stores.


class InnerStore(OtherStore):
    """A machine with a store of its own, whose lake is a folder of the other one's."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        section = LakeSection(locations=(f"{LAKE}/t1",), unknown="delete", roots=())
        self.lake = Lake("inner", section, f"{PLANS}/inner")


@pytest.mark.parametrize("restoring", ["inner", "outer"])
def test_a_restore_above_or_below_refuses_older_plans(world: World, restoring: str) -> None:
    inner, outer = InnerStore(world), Process(world)
    one, other = (inner, outer) if restoring == "inner" else (outer, inner)
    first = one.plan()
    one.apply(first.plan, aside=True)
    one.restore(first.plan)  # from now on there is a home
    world.age()
    world.clock.sleep(3600)
    late, again = other.plan(), one.plan()
    one.apply(again.plan, aside=True)
    one.restore(again.plan)
    with pytest.raises(RefusedError, match="files were restored in"):
        other.apply(late.plan)
    assert set(ORPHANS) <= world.files()
    world.age()
    world.clock.sleep(3600)
    other.apply(other.plan().plan)
    assert not set(ORPHANS) & world.files()


def test_a_lake_that_is_new_below_marks_the_homes_above(world: World) -> None:
    world.lake.write("_lakesweep/restored", b"long ago")
    world.clock.sleep(3600)
    late, inner = Process(world).plan(), InnerStore(world)
    first = inner.plan()
    inner.apply(first.plan, aside=True)
    inner.restore(first.plan)
    with pytest.raises(RefusedError, match=f"files were restored in {LAKE} since"):
        Process(world).apply(late.plan)


@pytest.mark.parametrize("first", ["inner", "outer"])
@pytest.mark.parametrize("home", ["", "t1/"])
def test_runs_of_two_stores_in_nested_locations_exclude_each_other(
    world: World, first: str, home: str
) -> None:
    """One of the two lakes was used before, so that it has a home to be seen in."""
    world.lake.write(f"{home}_lakesweep/restored", b"long ago")
    world.clock.sleep(3600)
    inner, outer = InnerStore(world), Process(world)
    one, other = (inner, outer) if first == "inner" else (outer, inner)
    mine, theirs = one.plan(), other.plan()
    met = []

    def meddle() -> None:
        with pytest.raises(LeaseHeldError, match="is locked by apply-"):
            other.apply(theirs.plan)
        met.append(True)

    one.gate.script = at(f"delete {LAKE}/t1/data", meddle)
    one.apply(mine.plan)
    assert met
    assert not [key for key in world.lake.objects if "/locks/" in key]


# Copies of a store.


def test_a_copied_store_respects_the_living_lock_of_the_original(world: World) -> None:
    """The copy knows the run, but not that its lease is renewed in the original."""
    original = Process(world)
    made = original.plan()
    met = []

    def meddle() -> None:
        assert original.session
        lock = LocationLock(
            world.lake, "_lakesweep/locks/", "apply-copy", holds_lease=lambda *_: False
        )
        with pytest.raises(LeaseHeldError, match=original.session.record.run):
            lock.take()
        met.append(True)

    original.gate.script = at(f"delete {LAKE}/t1/data", meddle)
    original.apply(made.plan)
    assert met


def test_a_holder_is_gone_only_if_this_machine_knows() -> None:
    with lock_nonce() as nonce:
        mine = new_record("apply-1", nonce, 0)
        assert not is_gone(mine)
    assert is_gone(mine)
    machine, _, _ = this_process().rpartition("/")
    assert is_gone(LockRecord("apply-1", process=f"{machine}/{os.getpid()}-1"))
    parent = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[19]
    assert not is_gone(LockRecord("apply-1", process=f"{machine}/{os.getppid()}-{parent}"))
    for other in ("", "elsewhere/pid:[1]/1-1", f"{machine}/0-1", f"{machine}/{9**30}-1"):
        assert not is_gone(LockRecord("apply-1", process=other))


def test_a_lease_that_is_older_than_the_lock_is_that_of_a_copy(world: World) -> None:
    with _session(world.clock) as (runs, session):
        run, until = session.record.run, session.lease.stored.value.expires_at
        assert runs.holds_lease(run, until) is True
        assert runs.holds_lease(run, until + 1) is False
        assert runs.holds_lease("apply-elsewhere", 0) is None


# Locks that something else wrote.


def test_a_lock_of_the_future_counts_from_now(world: World) -> None:
    key = "_lakesweep/locks/apply-forged"
    world.lake.write(key, b"apply-forged")
    world.lake.age(key, world.clock.now() + timedelta(days=36_500))
    process = Process(world)
    made = process.plan()
    with pytest.raises(LeaseHeldError, match=f"{LAKE}/{key} had a time in the future"):
        process.apply(made.plan)
    with pytest.raises(LeaseHeldError, match="apply-forged"):
        process.apply(made.plan)  # not earlier than any other lock
    world.clock.sleep(STALE_AFTER.total_seconds())
    assert process.apply(made.plan).report.deleted == len(ORPHANS)


def test_a_huge_lock_or_mark_is_not_read(world: World) -> None:
    class Sized(StoreWrapper):
        def read(self, key: str) -> bytes:
            assert "_lakesweep/" not in key, "read as a whole"
            return self.store.read(key)

    for name in ("locks/apply-forged", "restored"):
        world.lake.write(f"_lakesweep/{name}", b"[" * 1_000_000)
    process = Process(world)
    process.stores = Stores(replace={LAKE: Sized(world.lake), PLANS: world.plans})
    made = process.plan()
    with pytest.raises(LeaseHeldError) as caught:
        process.apply(made.plan)
    assert len(caught.value.message) < 1_000
    world.clock.sleep(STALE_AFTER.total_seconds())
    assert process.apply(made.plan).report.deleted == len(ORPHANS)


LIVE = "t1/data/live.parquet"
#: A home of another lake further in: everything that a listing shows is looked at.
INNER = "t1/_lakesweep/"
FORGED = [
    b"",
    b"\x00\xff\x1b[2Jerror: forged\ntry: rm -rf /",
    b'{"run":"apply-forged","lease_until":9223372036854775807}',
    b'{"run":"apply-forged","process":"x/y/1-1","nonce":"n","holder":"h"}',
    b'{"run":7}',
]


@pytest.mark.parametrize("data", FORGED)
@pytest.mark.parametrize("home", ["_lakesweep/", INNER])
def test_a_forged_lock_delays_and_deletes_nothing(world: World, home: str, data: bytes) -> None:
    process = Process(world)
    world.lake.write(f"{home}locks/apply-forged", data)
    made, before = process.plan(), set(world.lake.objects)
    with pytest.raises(LeaseHeldError, match="is locked by") as caught:
        process.apply(made.plan)
    assert "\n" not in caught.value.message
    assert before <= set(world.lake.objects)
    world.clock.sleep(STALE_AFTER.total_seconds())
    assert process.apply(made.plan).report.deleted == len(ORPHANS)
    assert LIVE in world.lake.objects


def test_a_forged_lock_does_not_pass_for_that_of_a_run_of_ours(world: World) -> None:
    """It bears the name of a living run, and says that its process is gone."""
    one, other = Process(world), OtherStore(world)
    mine, theirs = one.plan(), other.plan()
    met = []

    def meddle() -> None:
        (key,) = (key for key in world.lake.objects if "/locks/" in key)
        gone = f"{this_process().rpartition('/')[0]}/{2**22 + 1}-1"
        forged = LockRecord(key.rpartition("/")[2], "elsewhere", gone, "nonce")
        world.lake.write(key, msgspec.json.encode(forged))
        with pytest.raises(LeaseHeldError, match="is locked by apply-"):
            other.apply(theirs.plan)
        met.append(True)

    one.gate.script = at(f"delete {LAKE}/t1/data", meddle)
    one.apply(mine.plan)
    assert met
    assert LIVE in world.lake.objects


@pytest.mark.parametrize("data", FORGED)
@pytest.mark.parametrize("home", ["_lakesweep/", INNER])
def test_a_forged_mark_refuses_older_plans_and_no_later_ones(
    world: World, home: str, data: bytes
) -> None:
    process = Process(world)
    world.lake.write(f"{home}notes", b"")  # a home that listings show
    world.clock.sleep(3600)
    made = process.plan()
    world.lake.write(f"{home}restored", data or b" ")
    world.lake.age(f"{home}restored", world.clock.now() + timedelta(days=36_500))
    before = set(world.lake.objects)
    with pytest.raises(RefusedError, match="files were restored in") as refused:
        process.apply(made.plan)
    assert "\n" not in refused.value.message
    assert before <= set(world.lake.objects)
    world.clock.sleep(3600)  # longer than clocks may differ
    assert process.apply(process.plan().plan).report.deleted == len(ORPHANS)
    assert LIVE in world.lake.objects
