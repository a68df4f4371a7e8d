"""Cleaning orphans of Paimon tables in memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from lakesweep.paimon.model.external_paths import TableGroup
from lakesweep.paimon.orphans.orphan_files import OrphanOutcome, plan_orphans, remove_orphans
from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.object_store import ObjectStore
from tests.moments import NOON
from tests.paimon_expiry import open_table

#: All that a store in memory holds was written before.
CUT = NOON + timedelta(days=1)


class Clean(Protocol):
    """Plans and deletes, with something that happens in between; the keys that were planned."""

    def __call__(
        self, store: ObjectStore, between: Callable[[], object] = ...
    ) -> tuple[set[str], OrphanOutcome]: ...


def clean(
    store: ObjectStore, between: Callable[[], object] = lambda: None
) -> tuple[set[str], OrphanOutcome]:
    """Plan and delete, with something that happens in between; the keys that were planned."""
    table = open_table(store, CUT + timedelta(days=1))
    outcome = OrphanOutcome()
    with outcome.outcomes, plan_orphans(TableGroup((table,)), CUT) as plan:
        paths = [path for batch in plan.batches() for path in batch["path"].to_pylist()]
        between()
        remove_orphans(plan, lambda batches: delete_files(table.stores, batches), outcome)
    return {path.removeprefix("memory://bucket/") for path in paths}, outcome
