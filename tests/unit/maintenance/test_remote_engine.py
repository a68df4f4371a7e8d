from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from lakesweep.clock import ManualClock, SystemClock
from lakesweep.errors import LeaseHeldError
from lakesweep.maintenance.maintained_realms import MaintenanceRunSpec
from lakesweep.maintenance.plugin_api import Collector, Plugin
from lakesweep.maintenance.remote_engine import RemoteEngine, scan_span
from lakesweep.maintenance.row_scan import ScanLease
from lakesweep.maintenance.run_records import MaintenanceRunInformation, MaintenanceRuns
from lakesweep.runs.records import RunStatus
from lakesweep.storage.stores import Stores
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import IdSpan, RowKey
from lakesweep.store.backends.sql.backend import SqlBackend
from lakesweep.store.realms.link_scan import WHOLE
from lakesweep.store.realms.payloads import Payload
from lakesweep.store.realms.reachability import reach
from lakesweep.sweep.engine.local_engine import LocalSweepEngine
from tests.libraries import Page, fill
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


@dataclass(frozen=True)
class Tasks:
    """Runs each task here, and counts them by their kernel."""

    slots: int = 3
    ran: Counter[str] = field(default_factory=Counter)

    def run(self, kernel: Any, items: Sequence[Any], schema: pa.Schema) -> pa.Table:
        self.ran[kernel.func.__name__] += len(items)
        return LocalSweepEngine(Stores({})).run(pickle.loads(pickle.dumps(kernel)), items, schema)


def _by_tasks(url: str, tasks: Tasks | None = None) -> RemoteEngine:
    """Everything in tasks, however little it is."""
    return RemoteEngine(tasks or Tasks(), url, few=0, task_rows=1)


class Recorder:
    """Notes the pages that it is called for, and has each of them retain another object."""

    type = "page"

    def __init__(self, also: int) -> None:
        self.also = also
        self.seen: list[Payload] = []

    def identify(self, collector: Collector, found: Payload) -> None:
        self.seen.append(found)
        collector.retain_objects([self.also])


def test_both_engines_have_the_same_result(maintained: Maintained, url: str) -> None:
    realm = maintained.store.realm("acme")
    also = realm.objects.write(realm.new_id(), Page("named by others")).id
    maintained.pass_grace()
    wanted = {*heads_reach(realm), also}
    tasks, recorders = Tasks(), [Recorder(also), Recorder(also)]
    services = [
        replace(
            maintained.service,
            plugins=[*maintained.plugins, Plugin("recorder", types=[recorder])],
            engine=engine,
        )
        for recorder, engine in zip(recorders, (None, _by_tasks(url, tasks)), strict=True)
    ]
    runs = [each.perform(each.build_spec(), dry_run=True) for each in services]
    here, there = (msgspec.structs.asdict(run) for run in runs)
    for name in ("run", "started_at", "cut_off_at", "finished_at"):
        del here[name], there[name]
    assert here == there
    assert runs[0].identified_objs > runs[0].distinct_objs > 0
    assert sorted(recorders[0].seen) == sorted(recorders[1].seen) != []
    assert tasks.ran["read_links"] > 10
    assert tasks.ran["scan_span"] > 10
    run = services[1].perform(services[1].build_spec())
    assert run.obj_stats.purged == runs[0].obj_stats.unreferenced > 0
    assert stored_ids(maintained.backend, "acme") == wanted


def test_what_cannot_be_read_stops_tasks_as_it_does_here(maintained: Maintained, url: str) -> None:
    realm = maintained.store.realm("acme")
    last = max(each.id for each in reach(realm, list(realm.references.list())))
    maintained.backend.delete("acme", [RowKey(last)])
    before = stored_ids(maintained.backend, "acme")
    here = maintained.maintain(dry_run=True)
    service = replace(maintained.service, engine=_by_tasks(url))
    there = service.perform(service.build_spec())
    assert here.status is there.status is RunStatus.INCOMPLETE
    assert str(last) in here.status_message
    assert here.status_message == there.status_message
    assert stored_ids(maintained.backend, "acme") == before


def test_there_are_spans_for_all_slots_of_a_cluster(maintained: Maintained, url: str) -> None:
    tasks = Tasks(slots=7)
    engine = RemoteEngine(tasks, url)
    service = replace(maintained.service, engine=engine)
    spec = MaintenanceRunSpec(frozenset({"acme"}), include_system_realm=False)
    assert service.perform(spec, dry_run=True).success
    assert tasks.ran["scan_span"] == 7 * 4


def test_all_slots_have_as_many_objects_to_read(
    maintained: Maintained, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With five tasks, the second of two executors would wait for a third of the time."""
    monkeypatch.setattr("lakesweep.maintenance.remote_engine._TASK_OBJECTS", 2)
    realm = maintained.store.realm("acme")
    ids = np.array(sorted(heads_reach(realm))[:9])
    tasks = Tasks(slots=2)
    pages = list(_by_tasks(url, tasks).links(realm, ()).read(WHOLE, ids))
    assert tasks.ran["read_links"] == len(pages) == 6
    assert sorted(number for page in pages for number in page.ids.tolist()) == ids.tolist()


def test_a_run_on_tasks_is_written_down_while_it_goes_on(
    maintained: Maintained, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakesweep.maintenance.run_tally.CHECKPOINT_SECONDS", 0.0)
    saved: list[MaintenanceRunInformation] = []
    put = MaintenanceRuns.put

    def note(runs: MaintenanceRuns, run: MaintenanceRunInformation) -> None:
        saved.append(run)
        put(runs, run)

    monkeypatch.setattr(MaintenanceRuns, "put", note)
    service = replace(maintained.service, engine=_by_tasks(url, Tasks(slots=1)))
    run = service.perform(service.build_spec())
    assert run.success, run.detailed_information
    identified = [each.distinct_objs for each in saved]
    assert identified == sorted(identified)
    assert len(set(identified)) > 5
    left = [sum(map(len, each.remaining.values())) for each in saved]
    assert len(set(left)) > 3
    assert left[-1] == 0


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
            if kernel.func is not scan_span:
                return super().run(kernel, items, schema)
            (job,) = kernel.args
            stale = replace(job, fence=ScanLease(job.fence.lease, job.fence.token - 1))
            list(scan_span(stale, IdSpan()))
            raise AssertionError("it did not notice")

    before = stored_ids(maintained.backend, "acme")
    service = replace(maintained.service, engine=RemoteEngine(Late(Stores({})), url))
    with pytest.raises(LeaseHeldError):
        service.perform(service.build_spec())
    assert stored_ids(maintained.backend, "acme") == before
