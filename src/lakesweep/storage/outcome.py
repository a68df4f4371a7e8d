"""What became of many deletes, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.storage.store import Outcome

#: So many failures are kept by name; of the others only the number.
MOST_FAILURES = 1_000


@dataclass(frozen=True, slots=True)
class Failure:
    """One file that was not deleted, and why."""

    path: str
    reason: str


@dataclass(slots=True)
class Tally:
    """Counts outcomes. Memory does not grow with their number."""

    deleted: int = 0
    absent: int = 0
    failed: int = 0
    bytes_deleted: int = 0
    failures: list[Failure] = field(default_factory=list)

    @property
    def found(self) -> int:
        """All files whose outcome was counted."""
        return self.deleted + self.absent + self.failed

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch of OUTCOME_SCHEMA."""
        outcome = batch.column("outcome")
        is_deleted = pc.equal(outcome, Outcome.DELETED)
        is_absent = pc.equal(outcome, Outcome.ABSENT)
        self.deleted += pc.sum(is_deleted).as_py() or 0
        self.absent += pc.sum(is_absent).as_py() or 0
        sizes = batch.column("size_bytes").filter(is_deleted)
        self.bytes_deleted += pc.sum(sizes).as_py() or 0
        self._add_failures(batch.filter(pc.invert(pc.or_(is_deleted, is_absent))))

    def fail(self, path: str, reason: str) -> None:
        """Count one file that could not even be tried."""
        self.failed += 1
        if len(self.failures) < MOST_FAILURES:
            self.failures.append(Failure(path, reason))

    def document(self) -> dict[str, object]:
        """The shape that programs read."""
        return {
            "found": self.found,
            "deleted": self.deleted,
            "absent": self.absent,
            "failed": self.failed,
            "bytes_deleted": self.bytes_deleted,
            "failures": [{"path": one.path, "reason": one.reason} for one in self.failures],
            "failures_omitted": self.failed - len(self.failures),
        }

    def _add_failures(self, batch: pa.RecordBatch) -> None:
        self.failed += batch.num_rows
        shown = batch.slice(0, MOST_FAILURES - len(self.failures)).to_pylist()
        self.failures += [Failure(row["path"], _reason(row)) for row in shown]


def _reason(row: dict[str, str | None]) -> str:
    return f"{row['outcome']}: {row['reason']}" if row["reason"] else str(row["outcome"])
