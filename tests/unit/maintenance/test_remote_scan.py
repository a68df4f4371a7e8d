from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.clock import ManualClock, SystemClock
from lakesweep.errors import LeaseHeldError
from lakesweep.maintenance.remote_scan import RemoteScan, scan_span
from lakesweep.maintenance.row_scan import ScanLease
from lakesweep.runs.records import RunStatus
from lakesweep.storage.stores import Stores
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import IdSpan
from lakesweep.store.backends.sql.backend import SqlBackend
from lakesweep.sweep.engine.local_engine import LocalSweepEngine
from tests.libraries import fill
from tests.maintained import Maintained, heads_reach, stored_ids


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def maintained(url: str) -> Iterator[Maintained]:
    """A store that was filled a day ago; tasks go by the clock of the machine."""
    backend = SqlBackend(url)
    backend.init_schema()
    maintained = Maintained(backend, clock=ManualClock(SystemClock().now() - timedelta(days=1)))
    fill(maintained.store)
    maintained.clock.sleep(24 * 3600)
    yield maintained
    maintained.store.close()


def _by_tasks(url: str) -> RemoteScan:
    return RemoteScan(LocalSweepEngine(Stores({})), url)


def test_tasks_find_and_delete_the_same(maintained: Maintained, url: str) -> None:
    realm = maintained.store.realm("acme")
    wanted = heads_reach(realm)
    here = maintained.maintain(dry_run=True)
    service = replace(maintained.service, engine=_by_tasks(url))
    dry = service.perform(service.build_spec(), dry_run=True)
    assert dry.per_realm_per_obj_type_stats == here.per_realm_per_obj_type_stats
    run = service.perform(service.build_spec())
    assert run.success, run.detailed_information
    assert run.obj_stats.purged == dry.obj_stats.unreferenced > 0
    assert stored_ids(maintained.backend, "acme") == heads_reach(realm) == wanted


def test_a_store_in_memory_cannot_be_scanned_elsewhere() -> None:
    maintained = Maintained(MemoryBackend())
    maintained.store.create_realm("acme")
    service = replace(maintained.service, engine=_by_tasks("memory:"))
    run = service.perform(service.build_spec(), dry_run=True)
    assert run.status is RunStatus.INCOMPLETE
    assert "no other process can reach this store" in run.status_message


def test_a_task_of_a_run_that_lost_its_lease_deletes_nothing(
    maintained: Maintained, url: str
) -> None:
    class Late(LocalSweepEngine):
        """Its tasks begin when another run has the lease."""

        def run(self, kernel: Any, items: Sequence[Any], schema: pa.Schema) -> pa.Table:
            del items, schema
            (job,) = kernel.args
            stale = replace(job, fence=ScanLease(job.fence.lease, job.fence.token - 1))
            list(scan_span(stale, IdSpan()))
            raise AssertionError("it did not notice")

    before = stored_ids(maintained.backend, "acme")
    service = replace(maintained.service, engine=RemoteScan(Late(Stores({})), url))
    with pytest.raises(LeaseHeldError):
        service.perform(service.build_spec())
    assert stored_ids(maintained.backend, "acme") == before
