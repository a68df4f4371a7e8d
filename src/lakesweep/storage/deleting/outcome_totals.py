"""Totals of delete outcomes, with the first failures by name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.storage.object_store import Outcome

#: Outcomes of files that should be gone and are still there.
FAILURES = [
    Outcome.DENIED,
    Outcome.LOCKED,
    Outcome.THROTTLED,
    Outcome.FAILED,
    Outcome.OCCUPIED,
    Outcome.UNSENT,
]

#: This many failures are kept by name; the others are only counted.
MOST_FAILURES = 1_000

#: Outcomes that every report has; the others are reported only if they occurred.
_ALWAYS = (Outcome.DELETED, Outcome.ABSENT)


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file that was not deleted, and why."""

    path: str
    reason: str


class OutcomeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of files, in the shape that programs read.

    `failures` are the first failures by name. The outcomes at the end are UNSET, and therefore not
    in the JSON, unless they occurred.
    """

    found: int = 0
    deleted: int = 0
    absent: int = 0
    failed: int = 0
    bytes_deleted: int = 0
    failures: list[FailedFile] = []
    failures_omitted: int = 0
    changed: int | msgspec.UnsetType = msgspec.UNSET
    quarantined: int | msgspec.UnsetType = msgspec.UNSET
    restored: int | msgspec.UnsetType = msgspec.UNSET
    held: int | msgspec.UnsetType = msgspec.UNSET
    referenced: int | msgspec.UnsetType = msgspec.UNSET
    bytes_changed: int | msgspec.UnsetType = msgspec.UNSET
    bytes_quarantined: int | msgspec.UnsetType = msgspec.UNSET
    bytes_restored: int | msgspec.UnsetType = msgspec.UNSET
    bytes_held: int | msgspec.UnsetType = msgspec.UNSET
    bytes_referenced: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_complete(self) -> bool:
        return not self.failed


@dataclass(slots=True)
class OutcomeTotals:
    """Counts outcomes; its memory does not grow with the number of files.

    Every outcome that is not in `counts` is a failure. A file that changed since it was listed is
    not one: it was left alone on purpose.
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
        """How many files were counted."""
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
        """Count a file whose delete could not even be tried."""
        self.failed += 1
        if len(self.failures) < MOST_FAILURES:
            self.failures.append(FailedFile(path, reason))

    def report(self) -> OutcomeReport:
        """What was counted so far; outcomes that did not occur stay UNSET."""
        others = [each for each in self.counts if each not in _ALWAYS]
        return OutcomeReport(
            found=self.found,
            deleted=self.deleted,
            absent=self.absent,
            failed=self.failed,
            bytes_deleted=self.bytes_deleted,
            failures=list(self.failures),
            failures_omitted=self.failed - len(self.failures),
            **{each.value: self.counts[each] for each in others},
            **{f"bytes_{each}": self.sizes[each] for each in others},
        )

    def _add_failures(self, batch: pa.RecordBatch) -> None:
        self.failed += batch.num_rows
        shown = batch.slice(0, MOST_FAILURES - len(self.failures)).to_pylist()
        self.failures += [FailedFile(row["path"], _reason(row)) for row in shown]


def _reason(row: dict[str, str | None]) -> str:
    return f"{row['outcome']}: {row['reason']}" if row["reason"] else str(row["outcome"])
