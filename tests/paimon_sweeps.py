"""Sweeps over Paimon tables in memory, in this process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count

from lakesweep.clock import Clock, ManualClock
from lakesweep.paimon.orphans.orphan_files import OrphanOutcome
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.options import DeleteRate
from lakesweep.storage.stores import Stores
from lakesweep.sweep.engine.local_engine import LocalSweepEngine
from lakesweep.sweep.paimon_orphans import OrphanSweeper
from tests.paimon_expiry import ROOT, open_table
from tests.paimon_orphans import CUT, run_log

_numbers = count()


def sweeper_of(stores: Stores, path: str = ROOT, clock: Clock | None = None) -> OrphanSweeper:
    """Whoever sweeps the tables of an address; after all that is in memory was written."""
    clock = clock or ManualClock(CUT + timedelta(days=1))
    runs = run_log(clock)
    plans = f"memory://swept-{next(_numbers)}/plans"
    return OrphanSweeper(stores, LocalSweepEngine(stores), runs, clock, plans, path)


def sweep(
    store: ObjectStore, between: Callable[[], object] = lambda: None
) -> tuple[set[str], OrphanOutcome]:
    """What `tests.paimon_orphans.clean` does, by a sweep."""
    stores = Stores(replace={ROOT: store})
    sweeper = sweeper_of(stores)
    found = sweeper.plan([open_table(store)], CUT)
    for failure in found.failures:
        raise failure.error
    paths = [path for batch in found.batches() for path in batch["path"].to_pylist()]
    between()
    outcome = OrphanOutcome()
    with outcome.outcomes:
        sweeper.remove(found, outcome, DeleteRate())
    return {path.removeprefix("memory://bucket/") for path in paths}, outcome
