"""Publish a plan: the last steps of every planner, whatever found what may be deleted.

The order survives a crash. Datasets are complete before the document names them, and the store
learns of the plan last, so a plan that it knows can be read. Learning and pruning come after
that: without them the plan is still valid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from lakesweep.clock import Clock
from lakesweep.errors import LakesweepError
from lakesweep.runs.leases import HeldLease
from lakesweep.runs.run_log import RunLog
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.stores import Stores
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.mark.marks import Marks
from lakesweep.sweep.plan.document import DatasetRef, PlanDocument, dataset_ref
from lakesweep.sweep.plan.plan_retention import PlanPruner
from lakesweep.sweep.plan.stored_plan import publish_plan


def plan_datasets(own: Mapping[str, Dataset], marks: Marks) -> dict[str, DatasetRef]:
    """The datasets of a plan: its own, each in a folder of its name, and those of its marks."""
    refs = {name: dataset_ref(name, dataset) for name, dataset in own.items()}
    return refs | {
        name: dataset_ref(f"marks/{name}", dataset) for name, dataset in marks.datasets.items()
    }


@dataclass(frozen=True)
class PlanPublisher:
    """Publishes the plans of a lake for the holder of its lease."""

    stores: Stores
    runs: RunLog
    clock: Clock
    lake: Lake
    lease: HeldLease

    def publish(self, address: str, document: PlanDocument, learn: Callable[[], None]) -> None:
        """Publish a plan whose datasets are complete, `learn` from it, and prune old plans."""
        self.lease.check()
        publish_plan(self.stores, self.runs, address, document, self.lease.token)
        learn()
        with suppress(LakesweepError):  # the plan is published; the next one prunes
            self.lease.check()
            PlanPruner(self.stores, self.runs, self.lake, self.clock.now()).prune()
