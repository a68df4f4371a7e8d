"""The steps of a plan that touch every stored object of a repository, for any engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.lifecycle.insight import SAVED, Saved
from lakesweep.storage.address import identities
from lakesweep.storage.datasets import DatasetWriter
from lakesweep.storage.files import FIRST_TIME
from lakesweep.storage.local.aliases import resolve
from lakesweep.sweep.answers import answer
from lakesweep.sweep.columns import LISTING, VERDICTS
from lakesweep.sweep.totals import Sum, tally
from lakesweep.sweep.verdicts import Reason, Verdict

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.judging import Rules

#: What verdicts on addresses (JUDGED) say of stored objects.
SAID = ("verdict", "reason", "rule", "due_before", "holder", "prefix")


@dataclass(frozen=True)
class SortStep:
    """Writes files (REFERENCED) into datasets of LISTING: those that are referenced, and others."""

    stores: Stores
    taken: str
    free: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken = DatasetWriter(self.stores, self.taken, LISTING)
        free = DatasetWriter(self.stores, self.free, LISTING)
        for batch in batches:
            taken.add(batch.filter(batch["referenced"]))
            free.add(batch.filter(pc.invert(batch["referenced"])))
        yield answer("taken", taken.finish())
        yield answer("free", free.finish())


@dataclass(frozen=True)
class VerdictStep:
    """Writes stored objects (LISTING, and SAID of them) into two datasets of VERDICTS.

    The store's own clock has a say: an object that it calls younger than the policy wants stays.
    What is taken stays whatever the policy says, and so does what roots of lakes pin.
    """

    stores: Stores
    keep: str
    delete: str
    rules: Rules
    is_taken: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writers = {
            Verdict.KEEP: DatasetWriter(self.stores, self.keep, VERDICTS),
            Verdict.DELETE: DatasetWriter(self.stores, self.delete, VERDICTS),
        }
        totals, saved = Sum(), Saved()
        for batch in batches:
            names = resolve(identities(batch["path"]))
            verdicts = self._judge(batch, names)
            totals.add(tally(verdicts, names, self.rules))
            saved.add(verdicts, batch)
            for verdict, writer in writers.items():
                writer.add(verdicts.filter(pc.equal(verdicts["verdict"], verdict.value)))
        for verdict, writer in writers.items():
            yield answer(verdict.value, writer.finish())
        yield answer("total", totals.total().to_pylist())
        yield answer(SAVED, saved.rows())

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
        """What becomes of objects that the policy lets go."""
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
