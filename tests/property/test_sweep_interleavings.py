"""Writers, planners and appliers of one lake in any order, inside each other, ending anywhere.

A sweeper passes a gate with each call. There Hypothesis may let writers commit, let hours pass,
let another sweeper run from its start to its end, or end this one. So whatever can come between two
steps of a plan or of an apply does.

What must hold:

- No file goes that any root referenced when the plan, or the apply, looked at that root last, or
  that it has referenced ever since the apply began.
- No file goes that is younger than the grace.
- No plan is carried out once files were restored that it does not know to be back.
- No sweeper deletes that did not hold the lease when it last looked, which is before each batch.
- A file that a root references is there. The only exception is a file that a root took up after
  the apply had looked at it for the last time, and before it was deleted; it was an orphan at all
  looks, and older than the grace.
- Whatever happened, one plan and one apply later exactly the referenced files are left, every plan
  that was begun has come to its end, unless all its roots are gone, and no run is called running.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from lakesweep.clock import micros
from lakesweep.errors import IncompleteError, LeaseHeldError, NotFoundError, RefusedError
from lakesweep.runs.fencing import request_stop
from lakesweep.runs.records import LeaseRecord, PlanStatus, RunStatus
from tests.lake_writers import ACTS, Writers
from tests.random_tests import Machine, examples
from tests.sweeps import (
    GRACE,
    LAKE,
    PLANS,
    SMALL,
    DiedError,
    Process,
    Script,
    at,
    deletes,
    outcomes,
)

ALL = (*SMALL, "incomplete", "stale-plan", "roots-gone")

#: Something that is done, by its name, with two numbers that choose among what there is.
Act = tuple[str, int, int]
#: Before which call it is done: one whose text contains this, after so many others.
Place = tuple[str, int]

#: What happens when.
Scene = tuple[Place, Sequence[Act]]

NUMBERS = st.integers(0, 11)
_AGES = st.sampled_from([0, 0, 0, 1, 2])
_GUARDS = st.sampled_from([SMALL, ALL])


def _acts(*names: str) -> st.SearchStrategy[Act]:
    return st.tuples(st.sampled_from(names), NUMBERS, NUMBERS)


_WRITES = _acts(*ACTS)
#: What brings files back to life, and what changes who may delete them.
_DANGERS = _acts("add files", "roll back", "die", "stop", "tick", "plan", "apply")
#: What makes the plan wrong that was right, or hard to make.
_DOUBTS = _acts("add files", "deny", "deny", "mend", "drop")
_ANYWHERE = st.tuples(st.just(""), st.integers(0, 130))
_STEPS = st.tuples(
    st.sampled_from(["catalog collect", "_dataset.json", ".json", "outcomes", "database"]), NUMBERS
)
#: Where it matters most: between a look at a root or at the lease and a delete.
_BRINKS = st.tuples(
    st.sampled_from(["catalog collect", "control.json", "delete s3://lake"]), st.integers(0, 3)
)


def _scenes(
    places: st.SearchStrategy[Place], acts: st.SearchStrategy[Act]
) -> st.SearchStrategy[list[Scene]]:
    return st.lists(st.tuples(places, st.lists(acts, min_size=1, max_size=2)), max_size=3)


@dataclass(frozen=True)
class Planned:
    """What a plan was made of."""

    looked: dict[str, str]
    cutoff: datetime


class Lakes(Machine):
    """The histories of one lake."""

    def __init__(self) -> None:
        super().__init__()
        self.writers = Writers()
        self.world = self.writers.world
        self.planned: dict[str, Planned] = {}
        #: Files that were taken up too late to be seen.
        self.raced: set[str] = set()
        #: Plans that are older than some restore.
        self.overtaken: set[str] = set()
        self.wrong: list[str] = []
        self.rightful: dict[Process, bool] = {}
        #: How long the history was when an applier began.
        self.begun: dict[Process, int] = {}
        #: The files of a table that no root ever listed.
        self.forgotten = self._forget("forgotten")

    def _forget(self, name: str) -> set[str]:
        """A table of a catalog that is not in the configuration."""
        before = self.world.files()
        self.world.create(name)
        self.world.append(name, self.world.put(f"{LAKE}/{name}/data/a.parquet"))
        del self.world.catalog.pointers[name]
        files = self.world.files() - before
        self.world.age(*files)
        return files

    @initialize(by_copy=st.booleans())
    def choose_store(self, by_copy: bool) -> None:
        self.world.by_copy = by_copy

    @rule(act=_WRITES)
    def write(self, act: Act) -> None:
        self._act(act)

    @rule(script=_scenes(_ANYWHERE | _STEPS, _WRITES | _DANGERS))
    def plan(self, script: Sequence[Scene]) -> None:
        process = Process(self.world)
        process.gate.watch = lambda call: self._note_plan(process, call)
        process.gate.script = self._play(process, script)
        with suppress(LeaseHeldError, IncompleteError, DiedError):
            process.plan()

    @rule(
        age=_AGES,
        guards=_GUARDS,
        aside=st.booleans(),
        script=_scenes(_ANYWHERE | _STEPS, _WRITES | _DANGERS),
    )
    def apply(
        self, age: int, guards: Sequence[str], aside: bool, script: Sequence[Scene] = ()
    ) -> None:
        if name := self._plan_of_age(age):
            process = self._applier(name)
            process.gate.script = self._play(process, script, name)
            with suppress(LeaseHeldError, IncompleteError, RefusedError, NotFoundError, DiedError):
                process.apply(name, guards, aside=aside)

    @rule(age=_AGES, dies=st.none() | NUMBERS)
    def restore(self, age: int, dies: int | None) -> None:
        if name := self._plan_of_age(age):
            process = Process(self.world)
            if dies is not None:
                process.gate.script = at("lakesweep", process.gate.die, after=dies)
            with suppress(LeaseHeldError, NotFoundError, DiedError):
                process.restore(name)
            if process.session is not None:
                self.overtaken |= set(self.planned)
            self.raced -= self.world.files()

    @rule(
        before=st.lists(_WRITES | _DOUBTS, max_size=2),
        between=st.lists(_WRITES | _DOUBTS, max_size=2),
        guards=_GUARDS,
        aside=st.booleans(),
        script=_scenes(_BRINKS, _DANGERS),
    )
    def sweep(
        self,
        before: Sequence[Act],
        between: Sequence[Act],
        guards: Sequence[str],
        aside: bool,
        script: Sequence[Scene],
    ) -> None:
        for act in before:
            self._act(act)
        self.plan([])
        for act in between:
            self._act(act)
        self.apply(0, guards, aside, script)

    @invariant()
    def no_delete_was_wrong(self) -> None:
        assert not self.wrong

    @invariant()
    def what_is_referenced_is_there(self) -> None:
        missing = self.writers.live() - self.world.files() - self.raced
        assert not missing, f"{missing} are referenced, and gone"

    @invariant()
    def what_no_root_lists_is_there(self) -> None:
        assert self.forgotten <= self.world.files()

    def teardown(self) -> None:
        self.writers.mend()
        self.world.clock.sleep(timedelta(days=1).total_seconds())
        self.writers.forget_broken(self.raced)
        self._end_all_plans()
        self.writers.forget_broken(self.raced)
        self.world.clock.sleep((GRACE + timedelta(hours=1)).total_seconds())
        self._sweep_to_the_end()
        runs = Process(self.world).runs.list("prod")
        assert not [run for run in runs if run.status is RunStatus.RUNNING]
        self.no_delete_was_wrong()

    def _act(self, act: Act) -> None:
        """Nobody goes on with a table whose metadata was lost in a race: it is given up."""
        self.writers.forget_broken(self.raced)
        self.writers.act(*act)

    def _play(self, process: Process, script: Sequence[Scene], plan: str | None = None) -> Script:
        def interrupt(acts: Sequence[Act]) -> None:
            for act in acts:
                self._interrupt(process, plan, act)

        scripts = [
            at(what, partial(interrupt, acts), after=after) for (what, after), acts in script
        ]

        def play(call: str) -> None:
            for each in scripts:
                each(call)

        return play

    def _interrupt(self, process: Process, plan: str | None, act: Act) -> None:
        match act:
            case ("die", _, _):
                process.gate.die()
            case ("stop", _, _) if plan is not None and process.session is not None:
                folder = f"{PLANS}/prod/{plan}/apply-{process.session.record.run}"
                request_stop(Process(self.world).stores, folder)
            case ("plan", _, _):
                self.plan([])
            case ("apply", age, _):
                self.apply(age, ALL, aside=False)
            case _ if act[0] in ACTS:
                self._act(act)

    def _applier(self, plan: str) -> Process:
        def check(paths: Sequence[str]) -> None:
            # Whatever a delete raises becomes the outcome of a file, so it is raised later. Locks
            # and what lies with plans are not files of the lake.
            files = [path for path in self.world.files() & {*paths} if "/_lakesweep/" not in path]
            self.wrong += self._wrongs(process, plan, files) if files else ()

        def watch(call: str) -> None:
            if call.startswith("read ") and call.endswith("/control.json"):
                self.rightful[process] = self._is_rightful(process)

        process = Process(self.world, on_delete=check)
        process.gate.watch = watch
        self.begun[process] = len(self.writers.history)
        return process

    def _plan_of_age(self, age: int) -> str | None:
        """One of the plans, by how many came after it."""
        names = list(self.planned)
        return names[-1 - age % len(names)] if names else None

    def _note_plan(self, process: Process, call: str) -> None:
        if call.startswith("write ") and call.endswith("/plan.json"):
            assert process.session is not None
            looked, started = dict(process.source.looked), process.session.started
            self.planned[call.split("/")[-2]] = Planned(looked, started - GRACE)

    def _is_rightful(self, process: Process) -> bool:
        assert process.session is not None
        runs = Process(self.world).runs
        lease = runs.realm.objects.fetch(runs.lake("prod").lease, LeaseRecord)
        assert lease is not None
        is_held = lease.value.expires_at > micros(self.world.clock.now())
        return is_held and lease.value.token == process.session.lease.token

    def _wrongs(self, process: Process, plan: str, paths: Sequence[str]) -> Iterator[str]:
        """What does not hold when files are about to be deleted."""
        if plan in self.overtaken:
            yield f"{plan} deletes, and is older than a restore"
        if not self.rightful[process]:
            yield "deletes without the lease"
        for path in self.world.files() & set(paths):
            modified = self.world.lake.objects[path.removeprefix(f"{LAKE}/")].modified
            if modified >= self.planned[plan].cutoff:
                yield f"{path} is younger than the grace"
            for name, pointer in self._seen(process, plan, path):
                if path in self.writers.reached[pointer]:
                    yield f"{path} is deleted, which {name} was seen to reference"
            self.raced |= {path} & self.writers.live()

    def _seen(self, process: Process, plan: str, path: str) -> Iterator[tuple[str, str]]:
        """The roots that must be heeded, each as it was when it was looked at, or as it is."""
        yield from self.planned[plan].looked.items()
        yield from process.source.looked.items()
        for name in self.writers.held_since(self.begun[process], path):
            yield name, self.world.catalog.pointers[name]

    def _end_all_plans(self) -> None:
        """Every apply that was begun can be gone on with, and comes to its end."""
        runs = Process(self.world).runs
        for name in self.planned:
            try:
                status = runs.plan(name).status
            except NotFoundError:
                continue  # its planner died before it told anybody
            if status is PlanStatus.APPLYING:
                self._end_plan(name)
            for path, found in outcomes(self.world, name).items():
                assert Counter(found)["deleted"] <= 1, f"{path} was deleted twice"

    def _end_plan(self, name: str) -> None:
        if name in self.overtaken:
            with pytest.raises(RefusedError, match="brought files back"):
                self._applier(name).apply(name, ALL)
            return
        if not self.world.catalog.pointers and self.planned[name].looked:
            with pytest.raises(IncompleteError, match="lists none now"):
                self._applier(name).apply(name, ALL)
            return
        self._applier(name).apply(name, ALL)
        assert Process(self.world).runs.plan(name).status is PlanStatus.APPLIED

    def _sweep_to_the_end(self) -> None:
        plan = Process(self.world).plan()
        # Tables that came and went between two plans: a person knows that they were dropped.
        lost = [each.pointer for each in plan.unlisted if not each.pointer.endswith("/forgotten")]
        plan = Process(self.world).plan(overridden=[f"unlisted-table={each}" for each in lost])
        guards = [guard.name for guard in plan.guards]
        assert "incomplete" not in guards
        assert "unlisted-table" in guards
        pointers, now = dict(self.world.catalog.pointers), self.world.clock.now()
        self.planned[plan.plan] = Planned(pointers, now - GRACE)
        self._applier(plan.plan).apply(plan.plan, guards)
        assert self.world.files() == (self.writers.live() - self.raced) | self.forgotten
        with pytest.raises(RefusedError, match="applied once"):
            Process(self.world).apply(plan.plan, guards)
        assert deletes(self.world, Process(self.world).plan()) == set()


TestSweeps = Lakes.TestCase
TestSweeps.settings = examples(8, steps=16)
