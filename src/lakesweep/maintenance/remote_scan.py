"""Scan rows in other processes: tasks that open the store themselves, such as Spark's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from lakesweep.clock import SystemClock, micros
from lakesweep.errors import LeaseHeldError, StoreError, UsageError
from lakesweep.hashing.bloom_file import dump_bloom, load_bloom
from lakesweep.hashing.bloom_filter import BloomFilter
from lakesweep.maintenance.concurrent_commits import ConcurrentCommits, SeenPointers
from lakesweep.maintenance.maintained_realms import OpenRealm, open_realm, open_system
from lakesweep.maintenance.row_deletion import RowDeleter
from lakesweep.maintenance.row_scan import RowScan, ScanLease, ScanPage, ScanReport, TypeStats
from lakesweep.maintenance.row_verdicts import RowRules
from lakesweep.maintenance.run_records import NOTHING, TYPES, MaintenanceStats
from lakesweep.runs.records import LeaseRecord
from lakesweep.storage.wrappers.rate_limit import TokenBucket
from lakesweep.store import Store
from lakesweep.store.backends.rows import IdSpan
from lakesweep.store.realms.purge import StateCheck
from lakesweep.store.reserved_names import SYSTEM_REALM

_COUNTS = MaintenanceStats.__struct_fields__
#: What a task tells of its span: a row a type, or one with what went wrong.
SCHEMA = pa.schema(
    [
        pa.field("first", pa.int64(), nullable=False),
        pa.field("type", pa.string()),
        *(pa.field(name, pa.int64()) for name in _COUNTS),
        pa.field("error", pa.string()),
    ]
)


class TaskRunner(Protocol):
    """Runs kernels on items, several at once; an engine of sweeps is one."""

    @property
    def slots(self) -> int: ...

    def run(
        self,
        kernel: Callable[[Any], Iterator[pa.RecordBatch]],
        items: Sequence[Any],
        schema: pa.Schema,
    ) -> pa.Table: ...


@dataclass(frozen=True, slots=True)
class ScanJob:
    """All that a task needs to know; it is pickled."""

    url: str
    realm: str
    cut_off_at: int
    filters: tuple[bytes, ...]
    types: frozenset[str]
    #: How many rows are deleted at a time; None for a dry run.
    delete_rows: int | None
    page_rows: int
    rows_per_second: float | None
    fence: ScanLease | None
    seen: SeenPointers


@dataclass(frozen=True)
class RemoteScan:
    """Scans by a runner's tasks, which reach the database at `url`.

    A span whose task is repeated counts rows once more that its first try scanned, and finds those
    gone that this deleted.
    """

    runner: TaskRunner
    url: str

    def scan(self, scan: RowScan, spans: Sequence[IdSpan], report: ScanReport) -> None:
        if not scan.backend.capabilities.durable:
            raise UsageError(
                "no other process can reach this store", hint="scan it with --engine local"
            )
        table = self.runner.run(partial(scan_span, self._job(scan)), list(spans), SCHEMA)
        rows = table.to_pylist()
        for span in spans:
            _tell(span, [row for row in rows if row["first"] == span.first], report)

    def _job(self, scan: RowScan) -> ScanJob:
        rules, limit = scan.rules, scan.limit
        return ScanJob(
            url=self.url,
            realm=rules.realm,
            cut_off_at=rules.cut_off_at,
            filters=tuple(map(dump_bloom, rules.filters)),
            types=rules.types,
            delete_rows=None if scan.deleter is None else scan.deleter.batch_rows,
            page_rows=scan.page_rows,
            rows_per_second=None if limit is None else limit.per_second / self.runner.slots,
            fence=scan.fence,
            seen=scan.newcomers.seen,
        )


def scan_span(job: ScanJob, span: IdSpan) -> Iterator[pa.RecordBatch]:
    """Scan one span, in a process of its own."""
    stats: dict[str, MaintenanceStats] = {}
    error = None
    with Store.open(job.url, types=TYPES, cache_bytes=0) as store:
        opened = _open(store, job)
        try:
            for page in _scan_of(job, opened).pages(span):
                opened.look()
                _add(stats, page.stats)
        except StoreError as failure:
            error = failure.message
    rows = [
        {"first": span.first, "type": name, **msgspec.structs.asdict(each)}
        for name, each in stats.items()
    ]
    yield pa.RecordBatch.from_pylist([*rows, {"first": span.first, "error": error}], SCHEMA)


def _open(store: Store, job: ScanJob) -> OpenRealm:
    clock = SystemClock()
    look = StateCheck(clock, partial(_verify, store, job.fence)).refresh
    if job.realm == SYSTEM_REALM:
        return open_system(store, look)
    return open_realm(store, job.realm, clock, look)


def _verify(store: Store, fence: ScanLease | None) -> None:
    """LeaseHeldError unless the run still holds its lease; a dry run needs none."""
    if fence is None:
        return
    found = store.system.stored.fetch(fence.lease, LeaseRecord)
    now = micros(SystemClock().now())
    if found is None or found.value.token != fence.token or found.value.expires_at <= now:
        raise LeaseHeldError("the run that began this task no longer holds the lease of the store")


def _scan_of(job: ScanJob, opened: OpenRealm) -> RowScan:
    clock, backend = SystemClock(), opened.realm.backend
    rules = RowRules(job.realm, job.cut_off_at, _filters(job.filters), job.types)
    deletes, rate = job.delete_rows, job.rows_per_second
    deleter = (
        None if deletes is None else RowDeleter(backend, job.realm, deletes, clock, opened.look)
    )
    limit = None if rate is None else TokenBucket(clock, rate)
    newcomers = ConcurrentCommits(opened.realm, job.seen, job.cut_off_at)
    return RowScan(backend, rules, clock, newcomers, deleter, limit, job.page_rows)


@cache
def _filters(dumped: tuple[bytes, ...]) -> Sequence[BloomFilter]:
    return [load_bloom("marks", data) for data in dumped]


def _add(stats: dict[str, MaintenanceStats], found: TypeStats) -> None:
    for name, each in found.items():
        stats[name] = stats.get(name, NOTHING) + each


def _tell(span: IdSpan, rows: Sequence[dict[str, Any]], report: ScanReport) -> None:
    counted = {row["type"]: _counts(row) for row in rows if row["type"] is not None}
    report.page(span, ScanPage(counted, sum(each.scanned for each in counted.values()), None))
    errors = [row["error"] for row in rows if row["error"] is not None]
    if errors:
        report.fail(span, StoreError(errors[0]))
    else:
        report.end(span)


def _counts(row: dict[str, Any]) -> MaintenanceStats:
    return MaintenanceStats(*(row[name] for name in _COUNTS))
