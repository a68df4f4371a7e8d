"""Remove paths from branches before their objects are deleted.

What a HEAD held when the plan was made is not deleted in this run, whatever happens to its
paths: readers get no error. Once no HEAD holds it any more, the next run deletes it like
anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.lakefs.client.api import MOST_PATHS
from lakesweep.lakefs.client.branch_editor import BranchEdit, BranchEditResult
from lakesweep.lakefs.refs.commit_graph import temporary_name
from lakesweep.lifecycle.plan.head_entries import choose_entries
from lakesweep.lifecycle.plan.object_verdicts import ReferenceSplitStep
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import commit_dataset
from lakesweep.storage.file_batches import coalesce_batches
from lakesweep.sweep.apply.report import BranchReport, ReleaseReport
from lakesweep.sweep.columns import LISTING
from lakesweep.sweep.engine.protocol import TASK_RESULTS, results_of

if TYPE_CHECKING:
    from lakesweep.lakefs.client.branch_editor import BranchEditor
    from lakesweep.lifecycle.plan.head_entries import BranchHeads
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine

#: This many branches are reported by name; all are counted.
_MOST_BRANCHES = 1_000


@dataclass
class HeadRelease:
    """Removes paths from HEADs, once per run. Implements `ReferenceRelease`.

    `heads` and `entries` are those of the plan. A branch that moved since is left to the next plan;
    what its new HEAD holds is kept anyway.
    """

    stores: Stores
    engine: SweepEngine
    editor: BranchEditor
    heads: BranchHeads
    entries: Dataset
    run: str
    metadata: Mapping[str, str]
    waiting: int = 0
    edited: list[BranchEditResult] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    is_done: bool = False

    @property
    def report(self) -> ReleaseReport:
        """What was removed from branches, and what waits."""
        branches = tuple(map(_branch_report, self.edited[:_MOST_BRANCHES]))
        return ReleaseReport(waiting=self.waiting, **self.counts, branches=branches)

    def __call__(self, deletes: Dataset, folder: str, check: Callable[[], None]) -> Dataset | None:
        """The files (VERDICTS) to delete now; None if branches were changed."""
        if not self.is_done:
            self.is_done = True
            if self._take_off(deletes, folder, check):
                return None
        return self._without_held(deletes, folder)

    def _without_held(self, deletes: Dataset, folder: str) -> Dataset:
        if not self.entries.rows:
            return deletes
        step = ReferenceSplitStep(self.stores, f"{folder}/taken", f"{folder}/free")
        answers = self.engine.match(step, deletes, self.entries, TASK_RESULTS)
        held, free = (
            commit_dataset(
                self.stores, f"{folder}/{name}", results_of(answers, name, Part), LISTING
            )
            for name in ("taken", "free")
        )
        self.waiting = held.rows
        return free

    def _take_off(self, deletes: Dataset, folder: str, check: Callable[[], None]) -> bool:
        """Whether any branch was changed."""
        self.editor.remove_left_over()
        if not self.entries.rows:
            return False
        address = f"{folder}/heads"
        entries, counts = choose_entries(self.stores, self.engine, self.entries, deletes, address)
        for edit, ranges in self._edits(counts):
            for each in self.editor.take_off(edit, _pages(self.stores, entries, ranges), check):
                self._add(each)
        return bool(self.counts.get("branches_changed"))

    def _edits(self, counts: Mapping[str, int]) -> Iterator[tuple[BranchEdit, list[str]]]:
        """The edit of each HEAD that has not moved, and the ranges that it concerns."""
        branches: dict[str, list[str]] = {}
        # Branches created since were not judged: other rules may apply to them, or none.
        for branch in self.heads.refs.branches:
            branches.setdefault(branch.commit_id, []).append(branch.name)
        for commit, names in sorted(branches.items()):
            ranges = [range_id for range_id in self.heads.ranges(commit) if range_id in counts]
            if ranges:
                yield self._edit(commit, names), ranges

    def _edit(self, commit: str, branches: list[str]) -> BranchEdit:
        plan, rules = self.metadata["lakesweep-plan"], self.metadata["lakesweep-rules"]
        message = f"Take off what has expired by {rules} ({plan})"
        name = temporary_name(self.run, commit)
        return BranchEdit(commit, sorted(branches), name, message, self.metadata)

    def _add(self, each: BranchEditResult) -> None:
        became = "branches_busy" if each.is_busy else "branches_refused"
        name = "branches_changed" if each.reason is None else became
        self.counts[name] = self.counts.get(name, 0) + 1
        self.counts["taken_off"] = self.counts.get("taken_off", 0) + each.paths
        if len(self.edited) < _MOST_BRANCHES:
            self.edited.append(each)


def _branch_report(each: BranchEditResult) -> BranchReport:
    outcome = "waits" if each.is_busy else "refused"
    outcome = "changed" if each.reason is None else outcome
    return BranchReport(each.branch, outcome, each.paths, each.reason)


def _pages(stores: Stores, entries: Dataset, ranges: list[str]) -> Iterator[list[str]]:
    """The paths of some ranges, page by page. A server takes only paths that are UTF-8."""
    chosen = pc.field("range_id").isin(pa.array(ranges, pa.string()))
    rows = read_dataset(stores, entries, ["path"], chosen)
    for batch in coalesce_batches(rows, MOST_PATHS):
        for start in range(0, batch.num_rows, MOST_PATHS):
            paths = batch["path"][start : start + MOST_PATHS].to_pylist()
            if texts := [text for path in paths for text in _text(path)]:
                yield texts


def _text(path: bytes) -> Iterator[str]:
    try:
        yield path.decode()
    except UnicodeDecodeError:
        return
