"""Recheck a plan before deleting.

All roots are checked again. Those that are new, moved or could not be read are marked again,
and files that are now referenced or doubtful are kept. Marking takes time, and meanwhile a
file may be handed from a root that is yet to be read to one that was. So if anything moved
since the plan, the roots are checked once more, which is quick.

A root that moved since the plan and cannot be read may reference any file, wherever it lies.
Then nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakesweep.clock import Clock
from lakesweep.errors import DamagedError, IncompleteError, RefusedError
from lakesweep.guard_names import GuardName
from lakesweep.progress import Progress
from lakesweep.runs.task_progress import show_progress
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.writer import commit_dataset
from lakesweep.sweep.apply.withholding import Withholding, add_counts
from lakesweep.sweep.columns import VERDICTS
from lakesweep.sweep.engine.protocol import TASK_RESULTS, results_of
from lakesweep.sweep.guards import GoneRoot, Guard, gone_roots_guard, refuse
from lakesweep.sweep.judge.dangling_search import DanglingResult, DanglingSearch
from lakesweep.sweep.judge.live_set import JudgeStep
from lakesweep.sweep.judge.rules import make_rules
from lakesweep.sweep.judge.totals import totals_of, withheld_of
from lakesweep.sweep.mark.mark_phase import remark
from lakesweep.sweep.mark.marker import MarkSpec
from lakesweep.sweep.mark.marks import Marks, RootMark, RootState, load_marks
from lakesweep.sweep.mark.root_identity import KnownRoots, may_have_moved
from lakesweep.sweep.mark.survey import LakeSurvey, files_of
from lakesweep.sweep.plan.document import MOST_ROOTS, PlanDocument, accepted_guards, open_dataset
from lakesweep.sweep.roots.root_kinds import RootSourceFactory
from lakesweep.sweep.verdicts import Verdict
from lakesweep.units import format_count

if TYPE_CHECKING:
    from lakesweep.runs.leases import HeldLease
    from lakesweep.runs.run_log import RunLog
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.roots.root import RootSource


@dataclass(frozen=True)
class RecheckedPlan:
    """The files to delete, and the roots as they were at the last check.

    `withheld` counts the files that guards withhold, by guard.
    """

    deletes: Dataset
    marks: Marks
    withheld: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PlanRecheck:
    """Removes files from a plan that must be kept after all. `address` is the plan's folder."""

    stores: Stores
    engine: SweepEngine
    runs: RunLog
    clock: Clock
    progress: Progress
    sources: RootSourceFactory
    lake: Lake
    document: PlanDocument
    address: str
    overridden: Collection[str]

    def settle(self, folder: str, lease: HeldLease, *, deleted: int = 0) -> RecheckedPlan:
        """The files to delete: the dataset `delete` of a folder, written and read back.

        `deleted` is how many files were deleted before roots changed.
        """
        try:
            return self._settle(folder, lease)
        except (RefusedError, IncompleteError) as error:
            if not deleted:
                raise
            raise IncompleteError(
                [
                    f"roots changed after the run deleted {format_count(deleted, 'file')}",
                    *error.lines,
                ],
                hint=error.hint,
            ) from error

    def _settle(self, folder: str, lease: HeldLease) -> RecheckedPlan:
        left = self._open(Verdict.DELETE.value)
        before = self._open_marks()
        marks, gone = self._look(before, f"{folder}/marks")
        lease.check()
        first = RecheckedPlan(left, marks)
        if _pointers(marks) != _pointers(before):
            first = self._judge(left, before, marks, gone, f"{folder}/first")
            lease.check()
            # The plan knows roots by their manifests; those that changed since, by their pointer.
            known = replace(before, roots=marks.roots)
            marks, later = self._look(known, f"{folder}/second/marks")
            gone = [*gone, *later]
            lease.check()
        last = self._judge(first.deletes, before, marks, gone, folder)
        return replace(last, withheld=add_counts(first.withheld, last.withheld))

    def sources_now(self) -> Sequence[RootSource]:
        """New sources of roots, which another thread may read at the same time."""
        return self.sources(self.stores, self.lake, files_of(self.stores, self._open("listing")))

    def _open(self, name: str) -> Dataset:
        return open_dataset(self.stores, self.address, self.document.datasets, name)

    def _open_marks(self) -> Marks:
        marks = load_marks(self.stores, f"{self.address}/marks")
        for name, dataset in marks.datasets.items():
            if dataset.sha256 != self.document.datasets[name].sha256:
                raise DamagedError(dataset.address, "is not what it was when the plan was made")
        return marks

    def _look(self, before: Marks, address: str) -> tuple[Marks, Sequence[GoneRoot]]:
        """Mark the roots that changed, and find those that are gone."""
        sources = self.sources_now()
        with show_progress(
            self.stores, address, self.progress, "marked again", unit="metadata files"
        ) as shown:
            spec = MarkSpec(self.engine, self.stores, address, counts=shown.folder)
            marks = remark(spec, sources, before)
            shown.reach(marks.datasets["sources"].rows)
        for doubt in _doubts(before, marks):
            raise IncompleteError(
                f"{doubt}; nothing more is deleted",
                hint="fix it, then apply the same plan again",
            )
        return marks, self._gone(before, marks)

    def _gone(self, before: Marks, now: Marks) -> Sequence[GoneRoot]:
        """The roots of the plan that are gone, unless one may have taken up files first."""
        gone = list(_gone_marks(before, now))
        found = [GoneRoot(root.name, root.origin, self.document.created) for root in gone]
        moved = [
            guarded
            for root, guarded in zip(gone, found, strict=True)
            if may_have_moved(self.stores, root, self.document.started)
        ]
        if moved:
            # It may reference any file now, so withholding its folders would not be enough.
            guard = replace(gone_roots_guard(moved), subjects=())
            refuse([guard], self.overridden, self.document.plan, self.document.commands)
        return found

    def _judge(
        self,
        files: Dataset,
        before: Marks,
        marks: Marks,
        gone: Sequence[GoneRoot],
        folder: str,
    ) -> RecheckedPlan:
        """The files that no mark keeps and no guard withholds."""
        memory = self.runs.known_folders(self.runs.lake(self.lake.name))
        # The configuration of now decides, as far as it protects more than that of the plan.
        cutoff = self.document.cut_off_by(self.lake.grace)
        ruling = make_rules(
            self.lake, marks, memory, self.overridden, now=self.clock.now(), cutoff=cutoff
        )
        # Roots that moved may mean files of the plan by another spelling, or by a name that is
        # not a path, just as those that the plan read.
        survey = LakeSurvey(self._open("listing"), marks)
        doubtful = DanglingSearch(self.stores, self.engine, f"{folder}/doubts").look(
            self.lake, survey
        )
        guards = [*_standing_guards(self.document), *_new_guards(gone, doubtful)]
        withheld = self.withholding.files(guards, before, marks, memory)
        step = JudgeStep(
            self.stores,
            f"{folder}/keep",
            f"{folder}/delete",
            replace(ruling.rules, withheld=withheld),
            doubts=doubtful.filters,
            namesakes=doubtful.namesakes,
        )
        answers = self.engine.match(step, files, marks.content, TASK_RESULTS)
        parts = results_of(answers, Verdict.DELETE.value, Part)
        # Not loaded again: between the write and a load, others could change which parts it has.
        # The hashes of the parts come from the tasks, and are checked when the rows are read back.
        deletes = commit_dataset(self.stores, f"{folder}/delete", parts, VERDICTS)
        counts = self.withholding.counts(guards, withheld_of(totals_of(answers)))
        return RecheckedPlan(deletes, marks, counts)

    @property
    def withholding(self) -> Withholding:
        """What is accepted now: by override, or by the configuration of the lake."""
        accepted = accepted_guards(self.lake, self.clock.now())
        return Withholding(self.overridden, accepted)


def _doubts(before: Marks, now: Marks) -> Iterator[str]:
    """What cannot be read now, but could be read or did not exist when the plan was made.

    What could not be read then was accepted by an override.
    """
    known = {unknown.origin for unknown in before.unknown}
    for unknown in now.unknown:
        if unknown.origin not in known:
            yield f"{unknown.origin} could be read before and cannot be read now: {unknown.reason}"
    unread = {root.name for root in before.in_state(RootState.INCOMPLETE)}
    for root in now.in_state(RootState.INCOMPLETE):
        if root.name not in unread:
            reasons = "; ".join(root.reasons)
            yield f"{root.name} is new or has changed since the plan, and cannot be read: {reasons}"

    yield from _emptied(before, now)


def _emptied(before: Marks, now: Marks) -> Iterator[str]:
    """The sources that listed tables before and list none now."""
    there = {root.origin for root in now.roots if root.state is not RootState.ABSENT}
    for origin in sorted({root.origin for root in _gone_marks(before, now)} - there):
        yield f"{origin} listed tables when the plan was made and lists none now"


def _standing_guards(document: PlanDocument) -> Iterator[Guard]:
    """The guards of a plan. Tables that no root lists matter only if the plan let them go."""
    is_whole = len(document.unlisted) < MOST_ROOTS
    for guard in document.guards:
        if guard.name != GuardName.UNLISTED_TABLE or not is_whole:
            yield guard
    released = tuple(each.pointer for each in document.unlisted if not each.kept)
    if released and is_whole:
        # The decision that let them go may have been withdrawn or ended since.
        yield Guard(GuardName.UNLISTED_TABLE, "no root lists them", released)


def _new_guards(gone: Sequence[GoneRoot], doubtful: DanglingResult) -> Iterator[Guard]:
    """Guards about tables and roots that fail only now."""
    if gone:
        yield gone_roots_guard(gone)
    if doubtful.tables:
        yield Guard(GuardName.MISSING, "referenced and not stored", tuple(doubtful.tables))


def _gone_marks(before: Marks, now: Marks) -> Iterator[RootMark]:
    """Roots that were read completely and are no longer listed, under any name."""
    there = KnownRoots(root for root in now.roots if root.state is not RootState.ABSENT)
    for root in before.in_state(RootState.COMPLETE):
        pointer, uuid = (root.pointer, root.facts.uuid) if root.facts else ("", None)
        if not there.has(root.name, pointer, uuid):
            yield root


def _pointers(marks: Marks) -> set[tuple[str, str, str]]:
    return {(root.name, root.kind.value, root.pointer) for root in marks.roots}
