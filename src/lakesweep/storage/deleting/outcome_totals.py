"""Totals of delete outcomes, with the first failures by name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.storage.object_store import Outcome

#: Outcomes of files that are still there and should not be.
FAILURES = [
    Outcome.DENIED,
    Outcome.LOCKED,
    Outcome.THROTTLED,
    Outcome.FAILED,
    Outcome.OCCUPIED,
]

#: So many failures are kept by name; of the others only the number.
MOST_FAILURES = 1_000


@dataclass(frozen=True, slots=True)
class FailedFile:
    """One file that was not deleted, and why."""

    path: str
    reason: str


@dataclass(slots=True)
class OutcomeTotals:
    """Counts outcomes. Memory does not grow with their number.

    Whatever is not in `counts` is a failure. What changed since it was listed is none: it was left
    alone on purpose.
    """

    counts: Counter[Outcome] = field(default_factory=Counter)
    sizes: Counter[Outcome] = field(default_factory=Counter)
    failed: int = 0
    failures: list[FailedFile] = field(default_factory=list)

    @property
    def deleted(self) -> int:
        return self.counts[Outcome.DELETED]

    @property
    def absent(self) -> int:
        return self.counts[Outcome.ABSENT]

    @property
    def bytes_deleted(self) -> int:
        return self.sizes[Outcome.DELETED]

    @property
    def found(self) -> int:
        """All files whose outcome was counted."""
        return self.counts.total() + self.failed

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch of OUTCOME_SCHEMA."""
        outcome, sizes = batch.column("outcome"), batch.column("size_bytes")
        for found in map(Outcome, outcome.unique().to_pylist()):
            if found not in FAILURES:
                chosen = pc.equal(outcome, found)
                self.counts[found] += pc.sum(chosen).as_py()
                self.sizes[found] += pc.sum(sizes.filter(chosen)).as_py() or 0
        self._add_failures(batch.filter(pc.is_in(outcome, pa.array(FAILURES))))

    def fail(self, path: str, reason: str) -> None:
        """Count one file that could not even be tried."""
        self.failed += 1
        if len(self.failures) < MOST_FAILURES:
            self.failures.append(FailedFile(path, reason))

    def document(self) -> dict[str, object]:
        """The shape that programs read. Outcomes that few commands know come if there are any.

        So do their bytes, such as `bytes_quarantined`.
        """
        others = [one for one in self.counts if one not in (Outcome.DELETED, Outcome.ABSENT)]
        return {
            "found": self.found,
            "deleted": self.deleted,
            "absent": self.absent,
            "failed": self.failed,
            "bytes_deleted": self.bytes_deleted,
            "failures": [{"path": one.path, "reason": one.reason} for one in self.failures],
            "failures_omitted": self.failed - len(self.failures),
            **{one.value: self.counts[one] for one in others},
            **{f"bytes_{one}": self.sizes[one] for one in others},
        }

    def _add_failures(self, batch: pa.RecordBatch) -> None:
        self.failed += batch.num_rows
        shown = batch.slice(0, MOST_FAILURES - len(self.failures)).to_pylist()
        self.failures += [FailedFile(row["path"], _reason(row)) for row in shown]


def _reason(row: dict[str, str | None]) -> str:
    return f"{row['outcome']}: {row['reason']}" if row["reason"] else str(row["outcome"])
