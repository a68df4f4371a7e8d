"""Work in other processes: tasks that open the store themselves, such as Spark's.

Each task is a job of its own, so that none waits for the slowest of a round, and the run learns
of each as soon as it ends. Objects are read level by level: tasks read what the levels above link
to, and return what it links to in turn. What was reached is known here only, 8 bytes an object;
so the filters are filled here too, which takes a twentieth of the time of reading.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import repeat
from math import ceil
from sys import maxsize
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from lakesweep.clock import SystemClock, micros
from lakesweep.decoding import typed_msgpack
from lakesweep.errors import LeaseHeldError, StoreError, UsageError
from lakesweep.hashing.bloom_file import dump_bloom, load_bloom
from lakesweep.hashing.bloom_filter import BloomFilter
from lakesweep.maintenance.concurrent_commits import ConcurrentCommits, SeenPointers
from lakesweep.maintenance.engine import ScanReport
from lakesweep.maintenance.maintained_realms import OpenRealm, open_realm, open_system
from lakesweep.maintenance.row_scan import RowScan, ScanLease, ScanPage
from lakesweep.maintenance.row_verdicts import RowDeleter, RowRules
from lakesweep.maintenance.run_records import NOTHING, TYPES, MaintenanceStats
from lakesweep.parallel import map_ordered
from lakesweep.runs.records import LeaseRecord
from lakesweep.storage.wrappers.rate_limit import TokenBucket
from lakesweep.store import Realm, Store
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.rows import Ids, IdSpan
from lakesweep.store.objects.links import ValueKind
from lakesweep.store.realms.link_reader import LinkPage, LinkReader, LocalLinks
from lakesweep.store.realms.link_scan import WHOLE, LinkRole
from lakesweep.store.realms.payloads import Payload
from lakesweep.store.realms.purge import StateCheck
from lakesweep.store.reserved_names import SYSTEM_REALM

#: Fewer objects are read here sooner than a task starts.
_FEW_OBJECTS = 5_000
#: How much one task does: seconds of work, so that starting it costs little and a lost one too.
_TASK_OBJECTS = 100_000
#: About how many objects an index node links to.
_OBJECTS_A_NODE = 1_000
_TASK_ROWS = 1_000_000
#: Sending a filter of this size takes a tenth of the time in which a row is scanned.
_FILTER_BYTES_A_ROW = 40
#: A task answers with one message.
_ANSWER = pa.schema([pa.field("answer", pa.binary(), nullable=False)])

T = TypeVar("T", bound=msgspec.Struct)


class TaskRunner(Protocol):
    """Runs kernels on items, several at once; an engine of sweeps is one. Threads may share it."""

    @property
    def slots(self) -> int: ...

    def run(
        self,
        kernel: Callable[[Any], Iterator[pa.RecordBatch]],
        items: Sequence[Any],
        schema: pa.Schema,
    ) -> pa.Table: ...


@dataclass(frozen=True)
class RemoteEngine:
    """Works in a runner's tasks, which reach the database at `url`.

    A task that is repeated counts rows once more that its first try scanned, and finds those gone
    that this deleted. Up to `few` objects are read here.
    """

    runner: TaskRunner
    url: str
    few: int = _FEW_OBJECTS
    task_rows: int = _TASK_ROWS

    @cached_property
    def slots(self) -> int:
        return self.runner.slots

    def links(self, realm: Realm, types: Collection[str]) -> LinkReader:
        _check_reachable(realm.backend)
        return _RemoteLinks(self, realm, LinkJob(self.url, realm.name, frozenset(types)))

    def scan(self, scan: RowScan, spans: Sequence[IdSpan], report: ScanReport) -> None:
        _check_reachable(scan.backend)
        work = partial(self._scan_one, self._scan_job(scan), report)
        for _ in map_ordered(work, spans, workers=self.slots):
            pass

    def ask(
        self,
        kernel: Callable[[Any], Iterator[pa.RecordBatch]],
        item: Any,
        kind: type[T],
    ) -> T:
        """The answer of one task."""
        [row] = self.runner.run(kernel, [item], _ANSWER)["answer"].to_pylist()
        return typed_msgpack(row, kind)

    def _scan_one(self, job: ScanJob, report: ScanReport, span: IdSpan) -> None:
        rest: IdSpan | None = span
        while rest is not None:
            found = self.ask(partial(scan_span, job), rest, ScanAnswer)
            rest = None if found.rest is None else IdSpan(*found.rest)
            report.page(span, ScanPage(found.stats, found.rows, rest))
            if found.error is not None:
                report.fail(span, StoreError(found.error))
                return
        report.end(span)

    def _scan_job(self, scan: RowScan) -> ScanJob:
        rules, limit = scan.rules, scan.limit
        filters = tuple(map(dump_bloom, rules.filters))
        return ScanJob(
            url=self.url,
            realm=rules.realm,
            cut_off_at=rules.cut_off_at,
            filters=filters,
            types=rules.types,
            delete_rows=None if scan.deleter is None else scan.deleter.batch_rows,
            page_rows=scan.page_rows,
            task_rows=max(self.task_rows, sum(map(len, filters)) // _FILTER_BYTES_A_ROW),
            rows_per_second=None if limit is None else limit.per_second / self.slots,
            fence=scan.fence,
            seen=scan.concurrent.seen,
        )


def _check_reachable(backend: Backend) -> None:
    if not backend.capabilities.durable:
        raise UsageError(
            "no other process can reach this store", hint="maintain it with --engine local"
        )


@dataclass(frozen=True, slots=True)
class LinkJob:
    """What a task needs to know that reads objects; it is pickled."""

    url: str
    realm: str
    types: frozenset[str]


class RoleLinks(msgspec.Struct, frozen=True, array_like=True):
    """Distinct ids of one role, 8 bytes each."""

    height: int | None
    values: int
    ids: bytes


class LinkAnswer(msgspec.Struct, frozen=True, array_like=True):
    """What a task found in the objects that it read: see LinkPage."""

    links: Sequence[RoleLinks]
    link_count: int
    payloads: Sequence[Payload]
    broken: Sequence[int]


@dataclass(frozen=True, slots=True)
class _RemoteLinks:
    engine: RemoteEngine
    realm: Realm
    job: LinkJob

    def most(self, role: LinkRole) -> int:
        del role
        return maxsize  # a whole level

    def read(self, role: LinkRole, ids: Ids) -> Iterator[LinkPage]:
        worth = 1 if role == WHOLE else _OBJECTS_A_NODE
        if len(ids) * worth <= self.engine.few:
            yield from LocalLinks(self.realm, self.job.types).read(role, ids)
            return
        shares = np.array_split(ids, min(len(ids), self._tasks(len(ids) * worth)))
        yield from map_ordered(self._ask, zip(repeat(role), shares), workers=self.engine.slots)

    def _tasks(self, objects: int) -> int:
        """As many for each slot: five equal tasks take two slots as long as six."""
        slots = self.engine.slots
        return slots * ceil(objects / (_TASK_OBJECTS * slots))

    def _ask(self, share: tuple[LinkRole, Ids]) -> LinkPage:
        role, ids = share
        found = self.engine.ask(partial(read_links, self.job, role), ids.tobytes(), LinkAnswer)
        return LinkPage(
            role,
            np.setdiff1d(ids, found.broken) if found.broken else ids,
            {
                LinkRole(each.height, ValueKind(each.values)): np.frombuffer(each.ids, np.int64)
                for each in found.links
            },
            found.link_count,
            found.payloads,
            found.broken,
        )


def read_links(job: LinkJob, role: LinkRole, ids: bytes) -> Iterator[pa.RecordBatch]:
    """Read some objects for their links, in a process of its own."""
    links: defaultdict[LinkRole, list[Ids]] = defaultdict(list)
    payloads: list[Payload] = []
    broken: list[int] = []
    count = 0
    with Store.open(job.url, types=TYPES, cache_bytes=0) as store:
        opened = _open(store, job.realm, None)
        reader = LocalLinks(opened.realm, job.types)
        for page in reader.read(role, np.frombuffer(ids, np.int64)):
            opened.look()
            count += page.link_count
            payloads += page.payloads
            broken += page.broken
            for to, found in page.links.items():
                links[to].append(found)
    distinct = [
        RoleLinks(to.height, to.values, np.unique(np.concatenate(found)).tobytes())
        for to, found in links.items()
    ]
    yield _answer(LinkAnswer(distinct, count, payloads, broken))


@dataclass(frozen=True, slots=True)
class ScanJob:
    """What a task needs to know that scans rows; it is pickled."""

    url: str
    realm: str
    cut_off_at: int
    filters: tuple[bytes, ...]
    types: frozenset[str]
    #: How many rows are deleted at a time; None for a dry run.
    delete_rows: int | None
    page_rows: int
    #: After about this many rows, the rest of a span is left to another task.
    task_rows: int
    rows_per_second: float | None
    fence: ScanLease | None
    seen: SeenPointers


class ScanAnswer(msgspec.Struct, frozen=True):
    """What a task found in its span, what is left of it, and what went wrong."""

    stats: dict[str, MaintenanceStats]
    rows: int
    rest: tuple[int, int] | None
    error: str | None = None


def scan_span(job: ScanJob, span: IdSpan) -> Iterator[pa.RecordBatch]:
    """Scan one span, or the beginning of a long one, in a process of its own."""
    stats: defaultdict[str, MaintenanceStats] = defaultdict(lambda: NOTHING)
    rows, rest, error = 0, None, None
    with Store.open(job.url, types=TYPES, cache_bytes=0) as store:
        opened = _open(store, job.realm, job.fence)
        try:
            for page in _scan_of(job, opened).pages(span):
                opened.look()
                rows, rest = rows + page.rows, page.rest
                for name, each in page.stats.items():
                    stats[name] += each
                if rows >= job.task_rows:
                    break
            else:
                rest = None
        except StoreError as failure:
            error = failure.message
    yield _answer(ScanAnswer(dict(stats), rows, rest, error))


def _answer(found: msgspec.Struct) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"answer": [msgspec.msgpack.encode(found)]}, _ANSWER)


def _open(store: Store, realm: str, fence: ScanLease | None) -> OpenRealm:
    clock = SystemClock()
    look = StateCheck(clock, partial(_verify, store, fence)).refresh
    if realm == SYSTEM_REALM:
        return open_system(store, look)
    return open_realm(store, realm, clock, look)


def _verify(store: Store, fence: ScanLease | None) -> None:
    """LeaseHeldError unless the run still holds its lease; what only reads needs none."""
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
    concurrent = ConcurrentCommits(opened.realm, job.seen, job.cut_off_at)
    return RowScan(backend, rules, clock, concurrent, deleter, limit, job.page_rows)


@lru_cache(maxsize=1)
def _filters(dumped: tuple[bytes, ...]) -> Sequence[BloomFilter]:
    return [load_bloom("marks", data) for data in dumped]
