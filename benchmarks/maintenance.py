"""Maintenance of a store of a million objects: `python -m benchmarks.maintenance`.

Half of the objects hang in an index, to the other half nothing leads. Identification reads all that
is used, the scan all keys; the bare SELECT reads the columns of the scan in one statement and
leaves them as they come. Rates are by the CPU time of a process of its own for each size, which may
have to share its cores; its peak memory is told as well.

`--cluster` instead lets one and then two executors of a standalone cluster do the work, with one
core each, and compares how long the reading of objects and the scan took.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from sqlalchemy import make_url

from lakesweep.clock import ManualClock, SystemClock
from lakesweep.config import SparkSection
from lakesweep.maintenance.config import MaintenanceConfig
from lakesweep.maintenance.engine import LocalEngine, ScanReport
from lakesweep.maintenance.maintained_realms import MaintenanceRunSpec
from lakesweep.maintenance.remote_engine import RemoteEngine
from lakesweep.maintenance.row_scan import RowScan
from lakesweep.maintenance.run_records import TYPES as RECORDS
from lakesweep.maintenance.run_records import MaintenanceRunInformation
from lakesweep.maintenance.service import MaintenanceService
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.spark.session import open_session
from lakesweep.storage.stores import Stores
from lakesweep.store import LINKS, NO_INDEX, Attempt, Commit, IndexRoot, Store, key, seal
from lakesweep.sweep.engine.spark_engine import SparkSweepEngine
from tests.database_servers import connect, postgresql_server
from tests.spark.conftest import on_cluster, standalone_cluster

SIZES = (100_000, 1_000_000)
_AT_ONCE = 5_000
_REALM = "acme"
_SELECT = (
    "SELECT id, part, type, created_at, token FROM lakesweep_objects WHERE realm = {}"
    " ORDER BY id, part"
)
_PAGE = 10_000


class Recipe(msgspec.Struct, frozen=True):
    text: str


class Cookbook(Commit, frozen=True, kw_only=True):
    recipes: IndexRoot = NO_INDEX


TYPES: dict[str, type[msgspec.Struct]] = {"recipe": Recipe, "cookbook": Cookbook, **RECORDS}
_CONFIG = MaintenanceConfig(keep_commits=1, keep_age=timedelta(0))
_ONE_REALM = MaintenanceRunSpec(frozenset({_REALM}), include_system_realm=False)


class TimedScan(LocalEngine):
    """Remembers how long scans took."""

    seconds = 0.0

    def scan(self, scan: RowScan, spans: Any, report: ScanReport) -> None:
        start = time.process_time()
        super().scan(scan, spans, report)
        TimedScan.seconds += time.process_time() - start


def _fill(url: str, objects: int) -> None:
    """Write objects a day ago, every other one of them unreachable."""
    Store.create_tables(url)
    clock = ManualClock(SystemClock().now() - timedelta(days=1))
    with Store.open(url, types=TYPES, clock=clock) as store:
        realm = store.create_realm(_REALM)
        realm.references.create("main")
        for start in range(0, objects // 2, _AT_ONCE):
            clock.sleep(2)  # no node gives out more ids in a moment than it has

            def add(attempt: Attempt[Cookbook], start: int = start) -> Cookbook:
                recipes = attempt.index((attempt.head or Cookbook()).recipes, LINKS)
                for number in range(start, start + _AT_ONCE):
                    recipes.put(key(number), attempt.write(Recipe("x" * 240)))
                return Cookbook(recipes=seal(recipes))

            realm.commit("main", add, Cookbook)
            rubbish = {realm.new_id(): Recipe("x" * 240) for _ in range(_AT_ONCE)}
            realm.objects.write_many(rubbish)


def _bare_select(url: str) -> int:
    """The columns of a scan, by the driver alone."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        connection = sqlite3.connect(str(parsed.database))
        rows: Any = connection.execute(_SELECT.format("?"), (_REALM.encode(),))
    else:
        rows = connect(url).cursor("scan", binary=True, withhold=True)
        rows.execute(_SELECT.format("%s"), (_REALM.encode(),))
    count = 0
    while page := rows.fetchmany(_PAGE):
        count += len(page)
    return count


def _timed(action: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    return action(), time.process_time() - start


def _measure(url: str) -> dict[str, float]:
    """One dry run, one that deletes, and one with nothing to do."""
    selects = [_timed(lambda: _bare_select(url)) for _ in range(3)]
    rows, select = min(selects, key=lambda each: each[1])
    with Store.open(url, types=TYPES) as store:
        scan = TimedScan(_CONFIG.scan_workers)
        service = MaintenanceService(store, _CONFIG, engine=scan)

        def perform(**options: Any) -> MaintenanceRunInformation:
            TimedScan.seconds = 0.0
            return service.perform(_ONE_REALM, **options)

        perform(dry_run=True)  # compiles kernels
        dry, whole = _timed(lambda: perform(dry_run=True))
        scanned = TimedScan.seconds
        real, first = _timed(perform)
        assert real.success, real.detailed_information
        again, second = _timed(perform)
        # What a filter took for used the first time.
        assert again.obj_stats.unreferenced < real.obj_stats.purged / 1_000
    return {
        "rows": rows,
        "select_rate": rows / select,
        "identified": dry.identified_objs,
        "identify_rate": dry.identified_objs / (whole - scanned),
        "scan_rate": dry.obj_stats.scanned / scanned,
        "purged": real.obj_stats.purged,
        "first_seconds": first,
        "second_seconds": second,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


class TimedRemote(RemoteEngine):
    """Remembers how long scans took by the clock on the wall."""

    seconds = 0.0

    def scan(self, scan: RowScan, spans: Any, report: ScanReport) -> None:
        start = time.monotonic()
        super().scan(scan, spans, report)
        TimedRemote.seconds = time.monotonic() - start


def _measure_cluster(url: str, master: str, executors: int) -> dict[str, float]:
    """Dry runs on some executors; the second one finds Python there already."""
    conf = on_cluster() | {"spark.cores.max": str(executors), "spark.executor.cores": "1"}
    with (
        Store.open(url, types=TYPES) as store,
        open_session(SparkSection(master=master, conf=conf)) as session,
    ):
        session.range(executors * 4).repartition(executors * 4).count()  # all have registered
        runner = SparkSweepEngine(session, ExecutorAccess(Stores({})))
        service = MaintenanceService(store, _CONFIG, engine=TimedRemote(runner, url))
        service.perform(_ONE_REALM, dry_run=True)  # starts Python and loads kernels
        start = time.monotonic()
        run = service.perform(_ONE_REALM, dry_run=True)
        whole = time.monotonic() - start
        assert run.success, run.detailed_information
    return {
        "executors": executors,
        "identified": run.identified_objs,
        "identify_seconds": whole - TimedRemote.seconds,
        "scanned": run.obj_stats.scanned,
        "scan_seconds": TimedRemote.seconds,
    }


def _compare_executors(size: int, url: str | None) -> None:
    with ExitStack() as stack:
        master = stack.enter_context(standalone_cluster())
        if url is None:
            url = stack.enter_context(_postgresql())()
            _fill(url, size)
        one, two = (_show(_measure_cluster(url, master, executors)) for executors in (1, 2))
    for name in ("identify_seconds", "scan_seconds"):
        print(f"  {name:18}{two[name] / one[name]:>14.2f} of one executor's on two")


def _show(found: dict[str, float]) -> dict[str, float]:
    for name, value in found.items():
        print(f"  {name:18}{value:>14,.1f}", flush=True)
    return found


def _measure_elsewhere(url: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.maintenance", "--measure", url]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


@contextmanager
def _sqlite() -> Iterator[Callable[[], str]]:
    with TemporaryDirectory() as folder:
        numbers = iter(range(100))
        yield lambda: f"sqlite:///{Path(folder) / f'{next(numbers)}.db'}"


@contextmanager
def _postgresql() -> Iterator[Callable[[], str]]:
    with postgresql_server() as server:
        yield server.new_database


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--measure", metavar="URL")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--url", help="a filled store for --cluster")
    options = parser.parse_args()
    if options.cluster:
        _compare_executors(max(options.sizes), options.url)
        return
    if options.measure:
        print(json.dumps(_measure(options.measure)))
        return
    with ExitStack() as stack:
        for title, server in (("SQLite", _sqlite), ("PostgreSQL", _postgresql)):
            new_url = stack.enter_context(server())
            for size in options.sizes:
                url = new_url()
                _fill(url, size)
                found = _measure_elsewhere(url)
                print(f"\n{title}, {size:,} objects")
                for name, value in found.items():
                    print(f"  {name:16}{value:>14,.0f}")
                print(f"  scan to SELECT  {found['scan_rate'] / found['select_rate']:>13.2f}x")


if __name__ == "__main__":
    main()
