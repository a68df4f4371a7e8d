"""Open and publish plans: the record in the store together with the folder of datasets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.clock import micros
from lakesweep.errors import NotFoundError
from lakesweep.runs.records import PlanRecord, PlanStatus
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.reader import read_dataset, skim_dataset
from lakesweep.sweep.mark.marks import Marks, load_marks
from lakesweep.sweep.plan.document import PlanDocument, load_plan, open_dataset, write_plan
from lakesweep.sweep.verdicts import Verdict

if TYPE_CHECKING:
    from pyarrow.compute import Expression

    from lakesweep.runs.run_log import RunLog
    from lakesweep.storage.object_store import StoreOpener
    from lakesweep.storage.stores import Stores


class PlanState(StrEnum):
    """Whether a plan can be applied."""

    READY = "ready"
    APPLYING = "applying"
    APPLIED = "applied"
    REJECTED = "rejected"
    EXPIRED = "expired"


@dataclass(frozen=True)
class StoredPlan:
    """A plan with its record and its datasets."""

    stores: Stores
    record: PlanRecord
    document: PlanDocument

    def state(self, now: datetime) -> PlanState:
        """Whether the plan can be applied now."""
        if self.record.status is PlanStatus.READY and now >= self.document.expires:
            return PlanState.EXPIRED
        return PlanState(self.record.status.value)

    def dataset(self, name: str) -> Dataset:
        """One of its datasets, as it was when the plan was made."""
        return open_dataset(self.stores, self.record.address, self.document.datasets, name)

    def marks(self) -> Marks:
        """Everything that was referenced when the plan was made."""
        return load_marks(self.stores, f"{self.record.address}/marks")

    def rows(
        self,
        verdict: Verdict | None = None,
        *,
        reason: str | None = None,
        table: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The selected verdicts (VERDICTS); deletes come first."""
        wanted = _selection(reason, table)
        for each in _in_order(verdict):
            yield from read_dataset(self.stores, self.dataset(each.value), None, wanted)

    def first_rows(
        self,
        verdict: Verdict | None = None,
        *,
        reason: str | None = None,
        table: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The same in small batches, for callers that stop early and decide nothing by them."""
        wanted = _selection(reason, table)
        for each in _in_order(verdict):
            yield from skim_dataset(self.stores, self.dataset(each.value), wanted)


def _in_order(verdict: Verdict | None) -> tuple[Verdict, ...]:
    return (Verdict.DELETE, Verdict.KEEP) if verdict is None else (verdict,)


def _selection(reason: str | None, table: str | None) -> Expression | None:
    wanted = None if reason is None else pc.field("reason") == reason
    if table is None:
        return wanted
    of_table = pc.field("table") == table
    return of_table if wanted is None else wanted & of_table


def open_plan(stores: Stores, runs: RunLog, name: str) -> StoredPlan:
    """The plan of a name, or the newest plan of a lake of that name."""
    record = find_plan(runs, name)
    return StoredPlan(stores, record, load_plan(stores, record))


def publish_plan(
    stores: StoreOpener, runs: RunLog, address: str, document: PlanDocument, token: int
) -> None:
    """Store the document of a plan whose datasets are complete, and record it in the store."""
    runs.add_plan(
        PlanRecord(
            plan=document.plan,
            lake=document.lake,
            address=address,
            sha256=write_plan(stores, address, document),
            created_at=micros(document.created),
            expires_at=micros(document.expires),
            token=token,
        )
    )


def find_plan(runs: RunLog, name: str) -> PlanRecord:
    """The record of a plan by its name or its beginning, or of the newest plan of a lake."""
    named = runs.named_plan(name)
    if named is not None:
        return named
    try:
        return runs.newest_plan(name)
    except NotFoundError:
        return runs.plan(name)
