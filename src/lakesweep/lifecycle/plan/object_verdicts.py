"""Give each stored object its verdict, from the verdicts on addresses and the listing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.lifecycle.plan.savings import SAVED, Savings, SavingsSum, savings
from lakesweep.storage.address import identities
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.writer import DatasetWriter, commit_dataset
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.storage.file_batches import FIRST_TIME
from lakesweep.storage.file_identity import resolve_aliases
from lakesweep.sweep.columns import LISTING, VERDICTS
from lakesweep.sweep.engine.protocol import TASK_RESULTS, results_of, task_result
from lakesweep.sweep.judge.live_set import MOST_HOMES, home_folders
from lakesweep.sweep.judge.totals import TOTALS, TotalsSum, count_verdicts, merge_totals
from lakesweep.sweep.verdicts import Reason, Verdict

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.judge.reasons import JudgeRules
    from lakesweep.sweep.mark.marks import Marks


@dataclass(frozen=True)
class ObjectVerdicts:
    """The verdicts on all stored objects, with their totals.

    `homes` are the folders of lakes and repositories among the objects.
    """

    datasets: Mapping[str, Dataset]
    totals: pa.Table
    saved: Savings
    homes: tuple[str, ...] = ()


def judge_objects(
    stores: Stores,
    engine: SweepEngine,
    listing: Dataset,
    said: Dataset,
    marks: Marks,
    rules: JudgeRules,
    address: str,
) -> ObjectVerdicts:
    """Judge stored objects (LISTING) by verdicts on addresses (JUDGED), and write the verdicts.

    What `marks` reference is kept in any case.
    """
    taken, free = _split_referenced(stores, engine, listing, marks, f"{address}/sorted")
    answers = pa.concat_tables(
        engine.pair(
            ObjectVerdictStep(stores, f"{address}/keep", f"{address}/delete", rules, is_taken),
            files,
            said,
            SAID,
            TASK_RESULTS,
        )
        for files, is_taken in ((taken, True), (free, False))
    )
    datasets = {
        verdict.value: commit_dataset(
            stores,
            f"{address}/{verdict}",
            results_of(answers, verdict.value, Part),
            VERDICTS,
        )
        for verdict in Verdict
    }
    remove_folder(stores, f"{address}/sorted")
    totals = pa.Table.from_pylist(list(results_of(answers, "total", dict[str, Any])), schema=TOTALS)
    saved = savings(results_of(answers, SAVED, dict[str, Any]))
    homes = sorted(set(results_of(answers, "home", str)))
    return ObjectVerdicts(datasets, merge_totals([totals]), saved, tuple(homes[:MOST_HOMES]))


def _split_referenced(
    stores: Stores, engine: SweepEngine, listing: Dataset, marks: Marks, folder: str
) -> tuple[Dataset, Dataset]:
    """What something references that the policy did not see, and the rest."""
    step = ReferenceSplitStep(stores, f"{folder}/taken", f"{folder}/free")
    answers = engine.match(step, listing, marks.content, TASK_RESULTS)
    taken, free = (
        commit_dataset(stores, f"{folder}/{name}", results_of(answers, name, Part), LISTING)
        for name in ("taken", "free")
    )
    return taken, free


#: The columns of verdicts on addresses (JUDGED) that stored objects get.
SAID = ("verdict", "reason", "rule", "due_before", "holder", "prefix")


@dataclass(frozen=True)
class ReferenceSplitStep:
    """Writes files (REFERENCED) into datasets of LISTING: referenced ones, and others."""

    stores: Stores
    taken: str
    free: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken = DatasetWriter(self.stores, self.taken, LISTING)
        free = DatasetWriter(self.stores, self.free, LISTING)
        for batch in batches:
            taken.add(batch.filter(batch["referenced"]))
            free.add(batch.filter(pc.invert(batch["referenced"])))
        yield task_result("taken", taken.finish())
        yield task_result("free", free.finish())


@dataclass(frozen=True)
class ObjectVerdictStep:
    """Writes stored objects (LISTING, and SAID of them) into two datasets of VERDICTS.

    The store's own clock counts too: an object that is younger by it than the policy allows is
    kept. Protected objects are kept whatever the policy says, and so is what roots of lakes pin.
    """

    stores: Stores
    keep: str
    delete: str
    rules: JudgeRules
    is_taken: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writers = {
            Verdict.KEEP: DatasetWriter(self.stores, self.keep, VERDICTS),
            Verdict.DELETE: DatasetWriter(self.stores, self.delete, VERDICTS),
        }
        totals, saved = TotalsSum(), SavingsSum()
        homes: set[str] = set()
        for batch in batches:
            names = resolve_aliases(identities(batch["path"]))
            verdicts = self._judge(batch, names)
            totals.add(count_verdicts(verdicts, names, self.rules))
            saved.add(verdicts, batch)
            homes.update(home_folders(batch["path"]))
            for verdict, writer in writers.items():
                writer.add(verdicts.filter(pc.equal(verdicts["verdict"], verdict.value)))
        for verdict, writer in writers.items():
            yield task_result(verdict.value, writer.finish())
        yield task_result("total", totals.total().to_pylist())
        yield task_result(SAVED, saved.rows())
        yield task_result("home", sorted(homes)[:MOST_HOMES])

    def _judge(self, batch: pa.RecordBatch, names: pa.Array) -> pa.RecordBatch:
        is_due = pc.fill_null(pc.equal(batch["verdict"], Verdict.DELETE.value), False)
        said = pc.fill_null(batch["reason"], Reason.UNCOVERED.value)
        reasons = pc.if_else(is_due, self._second_look(batch, names), said)
        is_delete = pc.equal(reasons, Reason.EXPIRED.value)
        columns = {
            "verdict": pc.if_else(is_delete, Verdict.DELETE.value, Verdict.KEEP.value),
            "reason": reasons,
            "rule": batch["rule"],
            "table": batch["holder"],
        }
        arrays = [columns[name] if name in columns else batch[name] for name in VERDICTS.names]
        return pa.RecordBatch.from_arrays(arrays, schema=VERDICTS)

    def _second_look(self, batch: pa.RecordBatch, names: pa.Array) -> pa.Array:
        """The final reasons for objects that the policy expires."""
        if self.is_taken:
            return pa.repeat(Reason.REFERENCED.value, batch.num_rows)
        reasons = self._by_age(batch)
        for folders, reason in (
            (self.rules.opted_out, Reason.OPTED_OUT),
            (self.rules.pinned, Reason.PINNED),
        ):
            inside = pa.array(folders.find_with_self(names) >= 0)
            reasons = pc.if_else(inside, reason.value, reasons)
        return reasons

    def _by_age(self, batch: pa.RecordBatch) -> pa.Array:
        modified, before = batch["modified"], batch["due_before"]
        believed = pc.and_(
            pc.less_equal(modified, pa.scalar(self.rules.now)),
            pc.greater_equal(modified, pa.scalar(FIRST_TIME)),
        )
        aged = pc.if_else(
            pc.fill_null(pc.less(modified, before), False),
            Reason.EXPIRED.value,
            Reason.TOO_NEW.value,
        )
        return pc.if_else(pc.fill_null(believed, False), aged, Reason.AGE_UNKNOWN.value)
