"""Recheck a plan before deleting.

All roots are checked again. Those that are new, moved or could not be read are marked again,
and files that are now referenced or doubtful are kept. Marking takes time, and meanwhile a
file may be handed from a root that is yet to be read to one that was. So if anything moved
since the plan, the roots are checked once more, which is quick.

A root that moved since the plan and cannot be read may reference any file, wherever it lies.
Then nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from lakesweep.clock import Clock
from lakesweep.errors import DamagedError, IncompleteError, RefusedError
from lakesweep.progress import Progress
from lakesweep.runs.task_progress import show_progress
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import load_dataset
from lakesweep.storage.datasets.writer import commit_dataset
from lakesweep.sweep.columns import VERDICTS
from lakesweep.sweep.engine.tasks import TASK_RESULTS, results_of
from lakesweep.sweep.guards import GoneRoot, gone_roots_guard, refuse
from lakesweep.sweep.judge.live_set import JudgeStep
from lakesweep.sweep.judge.live_subsets import SubsetFilters
from lakesweep.sweep.judge.rules import make_rules
from lakesweep.sweep.mark.mark_phase import remark
from lakesweep.sweep.mark.marker import MarkSpec
from lakesweep.sweep.mark.marks import Marks, RootMark, RootState, load_marks
from lakesweep.sweep.mark.root_identity import KnownRoots
from lakesweep.sweep.mark.survey import files_of
from lakesweep.sweep.plan.document import PlanDocument, open_dataset
from lakesweep.sweep.roots.sources import RootSourceFactory
from lakesweep.sweep.verdicts import Verdict

if TYPE_CHECKING:
    from lakesweep.runs.leases import HeldLease
    from lakesweep.runs.run_log import RunLog
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.roots.root import RootSource


@dataclass(frozen=True)
class RecheckedPlan:
    """The files to delete, and the roots as they were at the last check."""

    deletes: Dataset
    marks: Marks


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
                f"roots changed after {deleted:,} files had been deleted\n{error.message}",
                hint=error.hint,
            ) from error

    def _settle(self, folder: str, lease: HeldLease) -> RecheckedPlan:
        left = self._open(Verdict.DELETE.value)
        before = self._open_marks()
        marks = self._look(before, f"{folder}/marks")
        lease.check()
        if _pointers(marks) != _pointers(before):
            left = self._judge(left, marks, f"{folder}/first")
            lease.check()
            # The plan knows roots by their manifests; those that changed since, by their pointer.
            marks = self._look(replace(before, roots=marks.roots), f"{folder}/second/marks")
            lease.check()
        return RecheckedPlan(self._judge(left, marks, folder), marks)

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

    def _look(self, before: Marks, address: str) -> Marks:
        """Mark the roots that changed."""
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
        if gone := list(_gone(before, marks, self.document.created)):
            plan = self.document
            refuse([gone_roots_guard(gone)], self.overridden, plan.plan, plan.commands)
        return marks

    def _judge(self, files: Dataset, marks: Marks, folder: str) -> Dataset:
        """The files that no mark keeps."""
        memory = self.runs.known_folders(self.runs.lake(self.lake.name))
        cutoff = self.document.cut_off
        ruling = make_rules(
            self.lake, marks, memory, self.overridden, now=self.clock.now(), cutoff=cutoff
        )
        # Paimon tables may reference files by names that are not paths.
        used = SubsetFilters(self.stores, self.engine, f"{folder}/chosen").used_names(marks)
        step = JudgeStep(
            self.stores, f"{folder}/keep", f"{folder}/delete", ruling.rules, namesakes=used
        )
        answers = self.engine.match(step, files, marks.content, TASK_RESULTS)
        parts = results_of(answers, Verdict.DELETE.value, Part)
        commit_dataset(self.stores, f"{folder}/delete", parts, VERDICTS)
        return load_dataset(self.stores, f"{folder}/delete")


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


def _gone(before: Marks, now: Marks, seen: datetime) -> Iterator[GoneRoot]:
    return (GoneRoot(root.name, root.origin, seen) for root in _gone_marks(before, now))


def _gone_marks(before: Marks, now: Marks) -> Iterator[RootMark]:
    """Roots that were read completely and are no longer listed, under any name."""
    there = KnownRoots(root for root in now.roots if root.state is not RootState.ABSENT)
    for root in before.in_state(RootState.COMPLETE):
        pointer, uuid = (root.pointer, root.facts.uuid) if root.facts else ("", None)
        if not there.has(root.name, pointer, uuid):
            yield root


def _pointers(marks: Marks) -> set[tuple[str, str, str]]:
    return {(root.name, root.kind.value, root.pointer) for root in marks.roots}
