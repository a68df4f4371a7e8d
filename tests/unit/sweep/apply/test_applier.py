from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import count

import pytest

from lakesweep.errors import (
    DamagedError,
    IncompleteError,
    LakesweepError,
    LeaseHeldError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)
from lakesweep.runs.fencing import CONTROL, is_stopped, request_stop
from lakesweep.runs.leases import CLOCK_MARGIN, LEASE_TERM
from lakesweep.runs.records import PlanStatus, RunKind, RunRecord, RunStatus, run_folder
from lakesweep.storage.object_store import Outcome
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, StorageFault, refuse
from lakesweep.sweep.apply.applier import load_applicable_plan
from lakesweep.sweep.plan.document import PLAN_LIFETIME, PlanDocument
from lakesweep.sweep.roots.root import RootKind, RootRow, RootSource
from tests.sweeps import (
    LAKE,
    PLANS,
    SMALL,
    DiedError,
    Process,
    World,
    apply,
    at,
    deletes,
    outcomes,
    plan,
)

ORPHANS = [f"{LAKE}/t1/data/orphan-{number}.parquet" for number in range(10)]
ORPHAN = ORPHANS[0]
#: Everything that can be overridden and may stand in the way of a test.
ALL = (*SMALL, "incomplete", "stale-plan")


@pytest.fixture
def world() -> World:
    """Two tables with a file each, and old orphans in the folder of the first."""
    world = World()
    for name in ("t1", "t2"):
        world.create(name)
        world.append(name, world.put(f"{LAKE}/{name}/data/live.parquet"))
    for path in ORPHANS:
        world.put(path)
    world.age()
    return world


@pytest.fixture
def made(world: World) -> PlanDocument:
    return plan(world)


def _orphans(world: World) -> set[str]:
    return world.files() & set(ORPHANS)


def _last_apply(world: World) -> RunRecord:
    runs = Process(world).runs.list("prod")
    return next(run for run in runs if run.kind is RunKind.APPLY)


def _later(world: World) -> None:
    """So much later that whoever held the lease has lost it."""
    world.clock.sleep((LEASE_TERM + 2 * CLOCK_MARGIN).total_seconds())


def test_exactly_what_nothing_references_goes(world: World, made: PlanDocument) -> None:
    live = world.live()
    applied = apply(world, made.plan)
    assert world.files() == live
    assert (applied.report.deleted, applied.report.failed) == (len(ORPHANS), 0)
    assert (applied.kept_by_remark, applied.stopped) == (0, None)


def test_every_file_has_its_outcome(world: World, made: PlanDocument) -> None:
    world.bucket.delete(ORPHANS[1])
    world.put(ORPHANS[2])
    apply(world, made.plan)
    expected = {path: ["deleted"] for path in ORPHANS}
    assert outcomes(world, made.plan) == expected | {
        ORPHANS[1]: ["absent"],
        ORPHANS[2]: ["changed"],
    }
    assert _orphans(world) == {ORPHANS[2]}


def test_files_that_cannot_be_deleted_are_counted_and_named(
    world: World, made: PlanDocument
) -> None:
    process = Process(world)
    key = ORPHAN.removeprefix(f"{LAKE}/")
    refused = refuse(Outcome.DENIED, lambda found: found == key)
    denied = Faulty(world.lake, [StorageFault(refused, frozenset({"delete"}))])
    process.stores = Stores(replace={LAKE: denied, PLANS: world.plans})
    applied = process.apply(made.plan)
    assert (applied.report.deleted, applied.report.failed) == (len(ORPHANS) - 1, 1)
    assert [failure.path for failure in applied.report.failures] == [ORPHAN]
    run = _last_apply(world)
    assert (run.status, run.figures["failed"]) == (RunStatus.INCOMPLETE, 1)
    # The same plan again tries what failed, and nothing else.
    again = apply(world, made.plan)
    assert (again.report.found, again.report.deleted) == (1, 1)
    with pytest.raises(RefusedError, match="a plan is applied once"):
        apply(world, made.plan)


def test_a_plan_none_of_whose_deletes_succeeded_is_not_used_up(
    world: World, made: PlanDocument
) -> None:
    process = Process(world)
    refused = refuse(Outcome.DENIED, lambda key: key.startswith("t1/"))
    denied = Faulty(world.lake, [StorageFault(refused, frozenset({"delete"}))])
    process.stores = Stores(replace={LAKE: denied, PLANS: world.plans})
    assert process.apply(made.plan).report.failed == len(ORPHANS)
    with pytest.raises(RefusedError, match="first-run"):
        apply(world, made.plan, ())  # for nothing was ever deleted
    world.append("t1", ORPHANS[0])
    applied = apply(world, made.plan)
    assert applied.report.deleted == len(ORPHANS) - 1
    assert ORPHANS[0] in world.files()


# Guards.


def test_a_guard_that_says_no_is_heard_before_anything_happens(
    world: World, made: PlanDocument
) -> None:
    before = world.files()
    with pytest.raises(RefusedError, match="first-run"):
        apply(world, made.plan, ())
    assert world.files() == before
    assert Process(world).runs.plan(made.plan).status is PlanStatus.READY


def test_the_hint_of_a_guard_repeats_what_was_asked_for(world: World, made: PlanDocument) -> None:
    with pytest.raises(RefusedError) as caught:
        Process(world).apply(made.plan, ["share"], aside=True)
    again = f"lakesweep apply {made.plan} --quarantine --override share --override first-run"
    assert caught.value.hint.endswith(again)


def test_what_was_overridden_for_the_plan_is_overridden_for_the_apply(world: World) -> None:
    made = plan(world, overridden=("first-run",))
    apply(world, made.plan, ())
    assert _orphans(world) == set()


def test_a_plan_expires(world: World, made: PlanDocument) -> None:
    world.clock.sleep((PLAN_LIFETIME - timedelta(seconds=1)).total_seconds())
    process = Process(world)
    load_applicable_plan(process.stores, process.runs, process.order(made.plan), world.clock.now())
    world.clock.sleep(1)
    with pytest.raises(RefusedError, match="expired"):
        apply(world, made.plan)
    assert _orphans(world) == set(ORPHANS)


def test_a_plan_that_expires_before_the_apply_begins_is_refused(
    world: World, made: PlanDocument
) -> None:
    """Somebody may think about the question for a day."""
    process = Process(
        world, at("database", lambda: world.clock.sleep(PLAN_LIFETIME.total_seconds()), after=5)
    )
    with pytest.raises(RefusedError, match="expired"):
        process.apply(made.plan)
    assert _orphans(world) == set(ORPHANS)


def test_a_plan_is_applied_once(world: World, made: PlanDocument) -> None:
    apply(world, made.plan)
    again = world.put(ORPHAN, old=True)
    with pytest.raises(RefusedError, match="applied once"):
        apply(world, made.plan)
    assert again in world.files()


def test_two_plans_of_the_same_files_delete_them_once(world: World, made: PlanDocument) -> None:
    other = plan(world)
    apply(world, made.plan)
    applied = apply(world, other.plan)
    assert (applied.report.deleted, applied.report.absent) == (0, len(ORPHANS))


# The roots are looked at again.


def _add(world: World) -> None:
    world.append("t2", ORPHAN)


def _roll_back(world: World) -> None:
    pointer = world.catalog.pointers["t2"]
    _add(world)
    world.catalog.pointers["t3"] = world.catalog.pointers["t2"]
    world.catalog.pointers["t2"] = pointer


def _new_table(world: World) -> None:
    world.create("t3")
    world.append("t3", ORPHAN)


@pytest.mark.parametrize("bring_back", [_add, _roll_back, _new_table])
def test_what_a_root_took_up_since_the_plan_stays(
    world: World, made: PlanDocument, bring_back: Callable[[World], None]
) -> None:
    bring_back(world)
    applied = apply(world, made.plan)
    assert _orphans(world) == {ORPHAN}
    assert applied.kept_by_remark == 1


def test_what_became_an_orphan_since_the_plan_stays_for_the_next(
    world: World, made: PlanDocument
) -> None:
    live = world.live()
    world.change("t1", snapshots=[])
    apply(world, made.plan)
    assert live <= world.files()


def test_a_table_that_opts_out_after_the_plan_keeps_its_folder(
    world: World, made: PlanDocument
) -> None:
    world.change("t1", properties={"gc.enabled": "false"})
    applied = apply(world, made.plan)
    assert applied.kept_by_remark == len(ORPHANS)
    assert _orphans(world) == set(ORPHANS)


def test_what_is_excluded_after_the_plan_stays(world: World, made: PlanDocument) -> None:
    Process(world, exclude=("**/orphan-0.parquet",)).apply(made.plan)
    assert _orphans(world) == {ORPHAN}


def test_a_longer_grace_that_is_configured_after_the_plan_counts(
    world: World, made: PlanDocument
) -> None:
    newer = ORPHANS[:3]
    for path in newer:
        world.lake.age(path.removeprefix(f"{LAKE}/"), world.clock.now() - timedelta(days=10))
    made = plan(world)
    Process(world, grace=timedelta(days=14)).apply(made.plan)
    assert _orphans(world) == set(newer)


def test_a_grace_that_was_given_for_a_plan_alone_counts_at_apply(world: World) -> None:
    world.lake.age(ORPHAN.removeprefix(f"{LAKE}/"), world.clock.now() - timedelta(days=2))
    made = plan(world, grace=timedelta(days=1))
    apply(world, made.plan)
    assert _orphans(world) == set()


def test_unknown_files_are_kept_if_that_is_configured_after_the_plan(world: World) -> None:
    odd = world.put(f"{LAKE}/t1/data/notes.odd", old=True)
    made = plan(world)
    assert odd in deletes(world, made)
    Process(world, unknown="keep").apply(made.plan)
    assert odd in world.files()
    assert _orphans(world) == set()


@dataclass(frozen=True)
class PinnedList:
    """A root that names files."""

    paths: tuple[str, ...]
    name: str = "pinned"

    def collect(self) -> Iterator[RootRow]:
        yield RootRow("pins", RootKind.PINNED, "pins.txt", self.name, self.paths)

    def look(self, root: RootRow) -> RootRow:
        return root


def test_what_is_pinned_after_the_plan_stays(world: World, made: PlanDocument) -> None:
    process = Process(world)
    sources: list[RootSource] = [process.source, PinnedList((ORPHAN,))]
    applier = replace(process.applier(), sources=lambda *_: sources)
    order = process.order(made.plan)
    with process.running(RunKind.APPLY, made.plan) as session:
        applier.apply(order, made, session)
    assert _orphans(world) == {ORPHAN}


def test_a_location_that_another_lake_has_by_now_is_left_alone(
    world: World, made: PlanDocument
) -> None:
    Process(world, neighbours={"other": (f"{LAKE}/t1",)}).apply(made.plan)
    assert _orphans(world) == set(ORPHANS)


def test_a_table_that_is_read_while_it_moves_is_looked_at_again(
    world: World, made: PlanDocument
) -> None:
    """All roots have been looked at once, and what was new is being read."""
    world.append("t1")
    process = Process(world, at("marks/work", partial(_add, world)))
    assert process.apply(made.plan).kept_by_remark == 1
    assert _orphans(world) == {ORPHAN}


def test_a_file_that_is_handed_from_table_to_table_stays(world: World, made: PlanDocument) -> None:
    """There is no moment at which no table has it, and each is looked at when it has not."""
    world.append("t2", ORPHAN)

    def hand_over() -> None:
        world.append("t1", ORPHAN)
        world.change("t2", snapshots=[])

    Process(world, at("catalog collect t2", hand_over)).apply(made.plan)
    assert ORPHAN in world.files()


def test_a_table_that_was_made_again_under_the_same_names_is_read_again(world: World) -> None:
    """Without a catalog, versions are counted from one again."""
    pointer = f"{LAKE}/t2/metadata/v1.metadata.json"
    world.catalog.pointers["t2"] = world.bucket.write(
        pointer, world.bucket.read(world.catalog.pointers["t2"])
    )
    made = plan(world)
    world.bucket.write(pointer, world.bucket.read(world.append("t2", ORPHAN)))
    world.catalog.pointers["t2"] = pointer
    apply(world, made.plan)
    assert _orphans(world) == {ORPHAN}


def test_a_catalog_that_is_lost_ends_the_apply(world: World, made: PlanDocument) -> None:
    world.catalog.is_down = True
    with pytest.raises(IncompleteError, match="could be read before and cannot be read now"):
        apply(world, made.plan, ALL)
    assert _orphans(world) == set(ORPHANS)
    world.catalog.is_down = False
    apply(world, made.plan)
    assert _orphans(world) == set()


def test_a_table_that_moved_and_cannot_be_read_ends_the_apply(
    world: World, made: PlanDocument
) -> None:
    """It may have taken up files anywhere, as this one did."""
    world.append("t2", ORPHAN)
    world.denied.add(world.catalog.pointers["t2"])
    with pytest.raises(IncompleteError, match="t2 is new or has changed since the plan"):
        apply(world, made.plan, ALL)
    assert _orphans(world) == set(ORPHANS)
    world.denied.clear()
    apply(world, made.plan)
    assert _orphans(world) == {ORPHAN}


def test_a_new_table_that_cannot_be_read_ends_the_apply(world: World, made: PlanDocument) -> None:
    world.create("t3")
    world.denied.add(world.catalog.pointers["t3"])
    with pytest.raises(IncompleteError, match="t3 is new or has changed since the plan"):
        apply(world, made.plan, ALL)
    assert _orphans(world) == set(ORPHANS)


def test_a_table_that_could_not_be_read_for_the_plan_holds_on_to_its_folders(world: World) -> None:
    plan(world)
    mine = world.put(f"{LAKE}/t2/data/x.parquet", old=True)
    world.denied.add(world.catalog.pointers["t2"])
    made = plan(world)
    apply(world, made.plan, ALL)
    assert _orphans(world) == set()
    assert mine in world.files()


# While files are deleted.


def _take_up_meanwhile(world: World, act: Callable[[], object]) -> Process:
    """A process that is slow in its first batch: somebody acts, and it is seen by the next look."""

    def script(call: str) -> None:
        if not call.startswith(f"delete {LAKE}") or acted:
            return
        acted.append(call)
        act()
        key = next(key for key in world.plans.objects if key.endswith(CONTROL))
        while b'"round":1' not in world.plans.objects[key].data:
            time.sleep(0.01)

    acted: list[str] = []
    process = Process(world, script)
    process.look_every = timedelta(0)
    return process


def test_what_a_root_takes_up_while_files_are_deleted_stays(
    world: World, made: PlanDocument
) -> None:
    process = _take_up_meanwhile(world, lambda: world.append("t2", ORPHANS[-1]))
    applied = process.apply(made.plan)
    assert _orphans(world) == {ORPHANS[-1]}
    assert (applied.report.deleted, applied.kept_by_remark, applied.stopped) == (9, 1, None)
    assert Process(world).runs.plan(made.plan).status is PlanStatus.APPLIED


def test_a_catalog_that_is_lost_while_files_are_deleted_ends_the_run(
    world: World, made: PlanDocument
) -> None:
    process = _take_up_meanwhile(world, lambda: setattr(world.catalog, "is_down", True))
    with pytest.raises(IncompleteError, match="after the run deleted 4 files"):
        process.apply(made.plan)
    assert len(_orphans(world)) == 6
    world.catalog.is_down = False
    apply(world, made.plan)
    assert _orphans(world) == set()


# What was shown is what goes.


@pytest.mark.parametrize("place", [0, 0.5, 1])
@pytest.mark.parametrize(
    "name", ["plan.json", "/delete/", "listing/_dataset.json", "marks/roots", "marks.json"]
)
def test_a_plan_whose_files_were_changed_is_refused(
    world: World, made: PlanDocument, name: str, place: float
) -> None:
    """One bit, at the beginning, in the middle and at the end of each file that is used."""
    folder = f"prod/{made.plan}/"
    changed = [key for key in world.plans.objects if key.startswith(folder) and name in key]
    for key in changed:
        data = world.plans.read(key)
        damaged = bytearray(data)
        damaged[int(place * (len(data) - 1))] ^= 1
        world.plans.write(key, bytes(damaged))
        with pytest.raises(LakesweepError):
            apply(world, made.plan, ALL)
        assert _orphans(world) == set(ORPHANS), key
        world.plans.write(key, data)
    assert changed
    apply(world, made.plan, ALL)


@pytest.mark.parametrize("name", ["delete", "listing", "marks"])
def test_the_datasets_of_another_plan_do_not_pass(
    world: World, made: PlanDocument, name: str
) -> None:
    """Marks of a later plan would say of a root that it was read, and it was not."""
    world.append("t2", world.put(f"{LAKE}/t1/data/more.parquet", old=True), ORPHAN)
    other = plan(world)
    for key in [key for key in world.plans.objects if f"{other.plan}/{name}/" in key]:
        world.plans.write(key.replace(other.plan, made.plan), world.plans.read(key))
    with pytest.raises(DamagedError):
        apply(world, made.plan)
    assert _orphans(world) == set(ORPHANS)


def test_a_plan_whose_files_are_gone_is_not_found(world: World, made: PlanDocument) -> None:
    world.plans.objects.clear()
    with pytest.raises(NotFoundError):
        apply(world, made.plan)


# Who may delete.


def test_one_run_at_a_time(world: World, made: PlanDocument) -> None:
    def others() -> None:
        with pytest.raises(LeaseHeldError):
            apply(world, made.plan)
        with pytest.raises(LeaseHeldError):
            plan(world)

    Process(world, at(f"delete {LAKE}", others)).apply(made.plan)
    assert {len(found) for found in outcomes(world, made.plan).values()} == {1}


@pytest.mark.parametrize("call", ["marks/roots/part", "delete/_dataset.json", "control.json"])
def test_a_run_that_lost_its_lease_deletes_nothing(
    world: World, made: PlanDocument, call: str
) -> None:
    process = Process(world, at(call, partial(_later, world)))
    with suppress(LeaseHeldError):
        assert process.apply(made.plan).stopped
    assert _orphans(world) == set(ORPHANS)


def test_a_run_that_was_taken_for_dead_stops_before_its_next_batch(
    world: World, made: PlanDocument
) -> None:
    """It sleeps in its first batch, and another run carries out the plan meanwhile."""

    def take_over() -> None:
        _later(world)
        apply(world, made.plan)

    process = Process(world, at(f"delete {LAKE}", take_over, after=1))
    applied = process.apply(made.plan)
    assert applied.stopped
    assert (applied.report.deleted, applied.report.absent, applied.report.failed) == (1, 1, 0)
    assert _orphans(world) == set()


@pytest.mark.parametrize("aside", [False, True])
def test_a_run_that_was_stopped_sends_nothing_more_when_it_wakes_up(
    world: World, made: PlanDocument, *, aside: bool
) -> None:
    """Another run took over, and kept what a table had taken up: the rest of the first batch."""

    def take_over() -> None:
        _later(world)
        world.append("t2", *ORPHANS[1:])
        Process(world).apply(made.plan, aside=aside)

    first = [path for path in world.files() if path == ORPHAN]
    process = Process(world, at(f"delete {LAKE}", take_over))
    order = process.order(made.plan, aside=aside)
    document = load_applicable_plan(process.stores, process.runs, order, world.clock.now())
    with process.running(RunKind.APPLY, made.plan) as session:
        order = replace(order, batch_rows=100)
        assert process.applier().apply(order, document, session).stopped
    assert first
    assert _orphans(world) >= set(ORPHANS[1:])


def test_whoever_takes_over_is_seen_whatever_the_clocks_say(
    world: World, made: PlanDocument
) -> None:
    """The clock of the first run stands still; its control object tells it."""

    def take_over() -> None:
        now = world.clock.monotonic()
        _later(world)
        apply(world, made.plan)
        world.clock.sleep(0)
        world.clock._elapsed = now

    process = Process(world, at(f"delete {LAKE}", take_over, after=1))
    assert "has taken over" in str(process.apply(made.plan).stopped)


def test_a_run_ends_when_its_control_object_is_replaced(world: World, made: PlanDocument) -> None:
    def replace() -> None:
        key = next(key for key in world.plans.objects if key.endswith(CONTROL))
        world.plans.write(
            key, b'{"run": "apply-other", "token": 9, "good_until": 9999999999999999}'
        )

    applied = Process(world, at(f"delete {LAKE}", replace, after=1)).apply(made.plan)
    assert "apply-other has taken over" in str(applied.stopped)
    assert applied.report.deleted == 4
    assert len(_orphans(world)) == 6


def test_a_run_that_wakes_up_does_not_end_the_plan_of_another(
    world: World, made: PlanDocument
) -> None:
    """The first one sleeps behind its last delete; the second one dies in the middle."""

    def take_over() -> None:
        _later(world)
        other = Process(world)
        other.gate.script = at("/delete/", other.gate.die)
        with pytest.raises(DiedError):
            other.apply(made.plan)

    process = Process(world)
    process.gate.script = at(
        "outcomes", lambda: setattr(process.gate, "script", at("database", take_over)), after=2
    )
    process.apply(made.plan)
    assert Process(world).runs.plan(made.plan).status is PlanStatus.APPLYING


# Stops, deaths and resumes.


def _stop(world: World, plan: str) -> None:
    folder = run_folder(f"{PLANS}/prod/{plan}", _last_apply(world).run)
    request_stop(Process(world).stores, folder)


def test_a_run_that_is_told_to_stop_ends_before_its_next_batch(
    world: World, made: PlanDocument
) -> None:
    process = Process(world, at(f"delete {LAKE}", lambda: _stop(world, made.plan)))
    applied = process.apply(made.plan)
    assert "was told to stop" in str(applied.stopped)
    assert applied.report.deleted == 4
    run = _last_apply(world)
    assert (run.status, run.figures["deleted"]) == (RunStatus.STOPPED, 4)


def test_tasks_of_a_run_that_was_interrupted_end_before_their_next_batch(
    world: World, made: PlanDocument
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    process = Process(world, at(f"delete {LAKE}", interrupt))
    with pytest.raises(KeyboardInterrupt):
        process.apply(made.plan)
    assert process.session is not None
    folder = run_folder(f"{PLANS}/prod/{made.plan}", process.session.record.run)
    assert is_stopped(process.stores, folder)


def test_a_run_that_was_stopped_can_be_gone_on_with(world: World, made: PlanDocument) -> None:
    Process(world, at(f"delete {LAKE}", lambda: _stop(world, made.plan))).apply(made.plan)
    applied = apply(world, made.plan)
    assert applied.report.deleted == 6
    assert _orphans(world) == set()
    assert outcomes(world, made.plan) == {path: ["deleted"] for path in ORPHANS}


_CHANGES = ("write", "delete", "copy", "database")


def _mortal(world: World, changes: int) -> Process:
    """A process that dies before it changes anything once more than so often.

    To die before it reads is the same.
    """
    process, left = Process(world), count(changes, -1)

    def script(call: str) -> None:
        if call.startswith(_CHANGES) and next(left) == 0:
            process.gate.die()

    process.gate.script = script
    return process


def test_an_apply_may_die_anywhere(world: World) -> None:
    """Whoever comes next goes on with it to its end."""
    live = world.live()
    for changes in count():
        for path in ORPHANS:
            world.put(path, old=True)
        made, process = plan(world), _mortal(world, changes)
        with suppress(DiedError):
            process.apply(made.plan)
        if not process.gate.is_dead:
            break
        _later(world)
        with suppress(RefusedError):  # it died behind its last step
            apply(world, made.plan)
        assert world.files() == live
        assert all(found.count("deleted") <= 1 for found in outcomes(world, made.plan).values())
    assert changes > 40
    found = {run.status for run in Process(world).runs.list("prod")}
    assert found == {RunStatus.DONE, RunStatus.DEAD}


def test_a_plan_may_die_anywhere(world: World) -> None:
    for changes in count():
        process = _mortal(world, changes)
        with suppress(DiedError):
            process.plan()
        if not process.gate.is_dead:
            break
        _later(world)
    assert changes > 40
    apply(world, plan(world).plan)
    assert world.files() == world.live()


def test_what_was_taken_up_before_the_resume_stays(world: World, made: PlanDocument) -> None:
    Process(world, at(f"delete {LAKE}", lambda: _stop(world, made.plan))).apply(made.plan)
    kept = min(_orphans(world))
    world.append("t2", kept)
    apply(world, made.plan)
    assert _orphans(world) == {kept}


def test_an_apply_that_failed_can_be_repeated(world: World, made: PlanDocument) -> None:
    def fail() -> None:
        raise UnavailableError(PLANS, "does not answer")

    for call in ("marks/", "delete/_dataset", "control.json", "outcomes"):
        with pytest.raises(UnavailableError):
            Process(world, at(call, fail)).apply(made.plan)
    apply(world, made.plan)
    assert _orphans(world) == set()


def test_no_plan_is_applied_that_is_older_than_a_restore(world: World, made: PlanDocument) -> None:
    later = plan(world)
    Process(world).apply(later.plan, aside=True)
    Process(world).restore(later.plan)
    with pytest.raises(RefusedError, match="brought files back since"):
        apply(world, made.plan, ALL)
    assert _orphans(world) == set(ORPHANS)


def test_no_apply_is_resumed_that_a_restore_undid(world: World, made: PlanDocument) -> None:
    process = Process(world)
    process.gate.script = at("delete s3://lake", process.gate.die, after=5)
    with suppress(DiedError):
        process.apply(made.plan, aside=True)
    _later(world)
    Process(world).restore(made.plan)
    with pytest.raises(RefusedError, match="brought files back since"):
        Process(world).apply(made.plan, ALL, aside=True)
    assert _orphans(world) == set(ORPHANS)


def test_a_restore_does_not_stand_in_the_way_of_later_plans(
    world: World, made: PlanDocument
) -> None:
    Process(world).apply(made.plan, aside=True)
    Process(world).restore(made.plan)
    world.age()
    apply(world, plan(world).plan)
    assert not _orphans(world)


def test_a_restore_that_comes_while_somebody_thinks_voids_the_plan(
    world: World, made: PlanDocument
) -> None:
    later = plan(world)
    Process(world).apply(later.plan, aside=True)

    with pytest.raises(RefusedError, match="brought files back since"):
        Process(world).apply(made.plan, ALL, meanwhile=lambda: Process(world).restore(later.plan))


def test_a_plan_that_a_run_applied_which_the_store_does_not_know_is_refused(world: World) -> None:
    """As it is after the store was brought back from a backup."""
    made = plan(world)
    folder = run_folder(f"{PLANS}/prod/{made.plan}", "apply-1")
    Process(world).stores.open(folder).write(f"{folder.removeprefix(PLANS)[1:]}/delete/x", b"")
    with pytest.raises(RefusedError, match="applied by apply-1, which the store does not know"):
        apply(world, made.plan)
    assert set(ORPHANS) <= world.files()
