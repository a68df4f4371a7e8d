"""What of a plan may still go.

All roots are looked at again: whatever came, moved or could not be read is marked anew, and what is
referenced or doubtful by now stays. Reading takes its time, in which others move, and a file may
be handed from a root that is yet to be looked at to one that was. So if anything moved since the
plan, the roots are looked at once more, which is quick.

A root that moved since the plan and cannot be read may have taken up any file, wherever that lies.
Then nothing goes. Neither does it where a root is not listed any more: whoever hides it hides where
it moved. It may have been dropped, so that can be overridden; not so where all of a source is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from lakesweep.clock import Clock
from lakesweep.errors import DamagedError, IncompleteError, RefusedError
from lakesweep.progress import Progress
from lakesweep.storage.datasets import Dataset, Part, commit_dataset, load_dataset
from lakesweep.sweep.absence import Census
from lakesweep.sweep.answers import ANSWERS, answers_of
from lakesweep.sweep.chosen import Chooser
from lakesweep.sweep.columns import VERDICTS
from lakesweep.sweep.counting import showing
from lakesweep.sweep.guards import Gone, look_at_gone, refuse
from lakesweep.sweep.marker import MarkSpec
from lakesweep.sweep.marking import remark
from lakesweep.sweep.marks import Marks, RootMark, RootState, load_marks
from lakesweep.sweep.plans import PlanDocument, open_dataset
from lakesweep.sweep.root_sources import Sources
from lakesweep.sweep.ruling import make_ruling
from lakesweep.sweep.steps import JudgeStep
from lakesweep.sweep.surveying import files_of
from lakesweep.sweep.verdicts import Verdict

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine import SweepEngine
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.leases import HeldLease
    from lakesweep.sweep.roots import RootSource
    from lakesweep.sweep.runs import Runs


@dataclass(frozen=True)
class Settled:
    """What is to go, and how the roots were when that was last looked at."""

    deletes: Dataset
    marks: Marks


@dataclass(frozen=True)
class Settler:
    """Takes away from a plan what stays after all. `address` is the folder of the plan."""

    stores: Stores
    engine: SweepEngine
    runs: Runs
    clock: Clock
    progress: Progress
    sources: Sources
    lake: Lake
    document: PlanDocument
    address: str
    overridden: Collection[str]

    def settle(self, folder: str, lease: HeldLease, *, deleted: int = 0) -> Settled:
        """What is to go: the dataset `delete` of a folder, written and read back.

        So many files were `deleted` already, before roots moved.
        """
        try:
            return self._settle(folder, lease)
        except (RefusedError, IncompleteError) as error:
            if not deleted:
                raise
            raise IncompleteError(
                f"roots moved while files were deleted; {deleted:,} went before\n{error.message}",
                hint=error.hint,
            ) from error

    def _settle(self, folder: str, lease: HeldLease) -> Settled:
        left = self._open(Verdict.DELETE.value)
        before = self._open_marks()
        marks = self._look(before, f"{folder}/marks")
        lease.check()
        if _pointers(marks) != _pointers(before):
            left = self._judge(left, marks, f"{folder}/first")
            lease.check()
            # What the plan read is known by its manifests, what moved since by its pointer.
            marks = self._look(replace(before, roots=marks.roots), f"{folder}/second/marks")
            lease.check()
        return Settled(self._judge(left, marks, folder), marks)

    def sources_now(self) -> Sequence[RootSource]:
        """Who is asked for roots, for somebody else to ask at the same time."""
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
        """Mark what is not as it was before."""
        sources = self.sources_now()
        with showing(
            self.stores, address, self.progress, "marked again", unit="metadata files"
        ) as shown:
            spec = MarkSpec(self.engine, self.stores, address, counts=shown.folder)
            marks = remark(spec, sources, before)
            shown.reach(marks.datasets["sources"].rows)
        for doubt in _doubts(before, marks):
            raise IncompleteError(
                f"{doubt}; nothing more is deleted",
                hint="mend it, then apply the same plan again",
            )
        if gone := list(_gone(before, marks, self.document.created)):
            plan = self.document
            refuse([look_at_gone(gone)], self.overridden, plan.plan, plan.commands)
        return marks

    def _judge(self, files: Dataset, marks: Marks, folder: str) -> Dataset:
        """The files that nothing which was marked keeps."""
        memory = self.runs.known_folders(self.runs.lake(self.lake.name))
        cutoff = self.document.cut_off
        ruling = make_ruling(
            self.lake, marks, memory, self.overridden, now=self.clock.now(), cutoff=cutoff
        )
        # Paimon tables may have taken up files by names that are no paths.
        used = Chooser(self.stores, self.engine, f"{folder}/chosen").used_names(marks)
        step = JudgeStep(
            self.stores, f"{folder}/keep", f"{folder}/delete", ruling.rules, namesakes=used
        )
        answers = self.engine.match(step, files, marks.content, ANSWERS)
        parts = answers_of(answers, Verdict.DELETE.value, Part)
        commit_dataset(self.stores, f"{folder}/delete", parts, VERDICTS)
        return load_dataset(self.stores, f"{folder}/delete")


def _doubts(before: Marks, now: Marks) -> Iterator[str]:
    """What cannot be read now, and could be when the plan was made, or was not there then.

    What could not be read then has been decided about, by an override.
    """
    known = {unknown.origin for unknown in before.unknown}
    for unknown in now.unknown:
        if unknown.origin not in known:
            yield f"{unknown.origin} could be read before, and cannot now: {unknown.reason}"
    unread = {root.name for root in before.in_state(RootState.INCOMPLETE)}
    for root in now.in_state(RootState.INCOMPLETE):
        if root.name not in unread:
            reasons = "; ".join(root.reasons)
            yield f"{root.name} is new or moved since the plan, and cannot be read: {reasons}"

    yield from _emptied(before, now)


def _emptied(before: Marks, now: Marks) -> Iterator[str]:
    """The sources that listed tables, and list none."""
    there = {root.origin for root in now.roots if root.state is not RootState.ABSENT}
    for origin in sorted({root.origin for root in _gone_marks(before, now)} - there):
        yield f"{origin} listed tables when the plan was made, and lists none now"


def _gone(before: Marks, now: Marks, seen: datetime) -> Iterator[Gone]:
    return (Gone(root.name, root.origin, seen) for root in _gone_marks(before, now))


def _gone_marks(before: Marks, now: Marks) -> Iterator[RootMark]:
    """What was read completely, and is not listed now, under whatever name."""
    there = Census(root for root in now.roots if root.state is not RootState.ABSENT)
    for root in before.in_state(RootState.COMPLETE):
        pointer, uuid = (root.pointer, root.facts.uuid) if root.facts else ("", None)
        if not there.has(root.name, pointer, uuid):
            yield root


def _pointers(marks: Marks) -> set[tuple[str, str, str]]:
    return {(root.name, root.kind.value, root.pointer) for root in marks.roots}
