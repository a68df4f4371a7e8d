"""Cleaning orphans of Paimon tables in memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Protocol

from lakesweep.clock import Clock, ManualClock
from lakesweep.paimon.model.external_paths import TableGroup
from lakesweep.paimon.orphans.orphan_files import OrphanOutcome, plan_orphans
from lakesweep.runs.records import TYPES
from lakesweep.runs.run_log import RunLog
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.options import DeleteRate
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.sweep.local_orphans import OrphanRemover
from tests.moments import NOON
from tests.paimon_expiry import ROOT, open_table

#: All that a store in memory holds was written before.
CUT = NOON + timedelta(days=1)
_numbers = count()


class Clean(Protocol):
    """Plans and deletes, with something that happens in between; the keys that were planned."""

    def __call__(
        self, store: ObjectStore, between: Callable[[], object] = ...
    ) -> tuple[set[str], OrphanOutcome]: ...


def run_log(clock: Clock) -> RunLog:
    """Where runs are recorded, in memory."""
    return RunLog(Store(MemoryBackend(), types=TYPES, clock=clock).create_realm("acme"), clock)


def clean(
    store: ObjectStore, between: Callable[[], object] = lambda: None
) -> tuple[set[str], OrphanOutcome]:
    """Plan and delete, with something that happens in between; the keys that were planned."""
    clock = ManualClock(CUT + timedelta(days=1))
    table = open_table(store, clock.now())
    outcome = OrphanOutcome()
    with outcome.outcomes, plan_orphans(TableGroup((table,)), CUT) as plan:
        paths = [path for batch in plan.batches() for path in batch["path"].to_pylist()]
        between()
        plans = f"memory://cleaned-{next(_numbers)}/plans"
        remover = OrphanRemover(
            table.stores, lambda: run_log(clock), clock, plans, ROOT, DeleteRate()
        )
        for failure in remover.remove([plan], outcome):
            raise failure.error
    return {path.removeprefix("memory://bucket/") for path in paths}, outcome
