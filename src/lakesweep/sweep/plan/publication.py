"""Publish a plan, and remove old ones: the last steps of every planner.

The order survives a crash. Datasets are complete before the document names them, and the store
learns of the plan last, so a plan that it knows can be read. Learning and pruning come after
that: without them the plan is still valid.

Plans are as large as listings, so not all are kept. Kept are the last ones and all younger
ones, those whose marks the next plan can reuse, and those with files in quarantine: they are
needed to restore these. The record of a plan is removed before its files. A crash in between
leaves an unknown folder, never a plan with missing parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakesweep.clock import Clock, micros
from lakesweep.errors import LakesweepError
from lakesweep.runs.leases import HeldLease
from lakesweep.runs.records import PlanRecord, RunStatus
from lakesweep.runs.run_log import RunLog
from lakesweep.storage.address import parse
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.storage.listing.folder_level import list_level
from lakesweep.storage.stores import Stores
from lakesweep.sweep.holdings import holdings
from lakesweep.sweep.lake import STATES, Lake
from lakesweep.sweep.mark.marks import Marks
from lakesweep.sweep.plan.document import DOCUMENT, DatasetRef, PlanDocument, dataset_ref
from lakesweep.sweep.plan.stored_plan import publish_plan

if TYPE_CHECKING:
    from lakesweep.runs.run_log import RunLog
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.lake import Lake


#: This many plans of a lake are kept, however old they are.
KEPT_PLANS = 10
#: Unfinished folders are left alone for this long.
UNFINISHED_FOR = timedelta(days=2)
_OWN_NAME = re.compile(r"(plan|check|empty)-(?P<begun>\d{8}T\d{6})-[0-9a-f]{8}")


@dataclass(frozen=True)
class PlanPruner:
    """Removes the plans of a lake that are no longer useful. The caller holds the lake's lease."""

    stores: Stores
    runs: RunLog
    lake: Lake
    now: datetime

    def prune(self) -> None:
        """Remove old plans; what cannot be removed now is tried again the next time."""
        for plan in list(self._useless()):
            self.runs.forget_plan(plan)
            remove_folder(self.stores, plan.address)
        for address in list(self._unfinished()):
            remove_folder(self.stores, address)
        # Marking reads the states of repositories once and writes the ones it needs.
        remove_folder(self.stores, f"{self.lake.plans}/{STATES}")

    def _useless(self) -> Iterator[PlanRecord]:
        held = set(self._held())
        marks = self.runs.lake(self.lake.name).marks or ""
        oldest = micros(self.now - self.lake.section.keep_plans)
        for plan in self.runs.plans(self.lake.name)[KEPT_PLANS:]:
            is_old = max(plan.created_at, plan.expires_at) < oldest
            if is_old and plan.plan not in held and not marks.startswith(f"{plan.address}/"):
                yield plan

    def _held(self) -> Iterator[str]:
        """The plans with files in quarantine, unless it was emptied successfully."""
        for holding in holdings(self.runs, self.lake.name):
            ended = holding.ended
            if ended is None or self.runs.get(ended).status is not RunStatus.DONE:
                yield holding.plan

    def _unfinished(self) -> Iterator[str]:
        """Folders of runs that died. One with a document may be a plan of another store."""
        known = {plan.plan for plan in self.runs.plans(self.lake.name)}
        folder = parse(self.lake.plans)
        for name in list_level(self.stores, folder).folders:
            if name not in known and self._is_long_dead(name):
                address = f"{self.lake.plans}/{name}"
                if DOCUMENT not in list_level(self.stores, parse(address)).files:
                    yield address

    def _is_long_dead(self, name: str) -> bool:
        found = _OWN_NAME.fullmatch(name)
        if found is None:
            return False
        begun = datetime.strptime(found["begun"], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
        return begun < self.now - UNFINISHED_FOR


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
