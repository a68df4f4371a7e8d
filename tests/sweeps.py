"""A lake in memory with a catalog and writers, and processes that sweep it and may end anywhere.

Everything that a process does passes its gate, call by call: there the test may let others act, as
if the process were slow, or end it. What it did until then stays.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from io import BytesIO
from itertools import count
from typing import Any

import fastavro

from lakesweep.clock import ManualClock
from lakesweep.config import LakeSection
from lakesweep.errors import DeniedError, MissingError, UnavailableError
from lakesweep.runs.records import TYPES, RunKind, RunStatus
from lakesweep.runs.run_figures import recorded_figures
from lakesweep.runs.run_log import RunLog
from lakesweep.runs.sessions import Session, run_session
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.reader import load_dataset, read_dataset
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals
from lakesweep.storage.deleting.quarantine import QUARANTINE_SCHEMA
from lakesweep.storage.file_batches import OUTCOME_SCHEMA
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.object_store import (
    Deletion,
    Expected,
    ListingPage,
    ObjectInfo,
    ObjectStore,
    is_expected,
)
from lakesweep.storage.options import DeleteRate
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.base import StoreWrapper
from lakesweep.store import Store
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.wrapper import BackendWrapper
from lakesweep.sweep.apply.applier import Applier, ApplyRequest, load_applicable_plan
from lakesweep.sweep.apply.deletion import DeleteRemoval, QuarantineRemoval
from lakesweep.sweep.apply.report import ApplyResult
from lakesweep.sweep.engine.local_engine import LocalSweepEngine
from lakesweep.sweep.holdings import find_holding, quarantine_places
from lakesweep.sweep.judge.live_set import MatchMode
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.plan.document import PlanDocument
from lakesweep.sweep.plan.planner import Planner, PlanRequest
from lakesweep.sweep.quarantine.emptying import EmptyingResult, QuarantineEmptier
from lakesweep.sweep.quarantine.restore import QuarantineRestorer
from lakesweep.sweep.roots.root import RootKind, RootProblem, RootRow
from tests.by_copy import ByCopy
from tests.iceberg_tables import Bucket, File, Table
from tests.moments import NOON
from tests.timed_store import TimedStore

LAKE, PLANS, REALM = "s3://lake", "s3://plans", "acme"
GRACE = timedelta(days=7)
#: What guards say of lakes as small and new as these.
SMALL = ("first-run", "zero-live", "share", "live-fell")

#: Is told of a call, such as `write s3://plans/…`, `catalog collect t`, `database acme`.
Script = Callable[[str], None]


class DiedError(BaseException):
    """The process ended here. Nobody may handle this, as nobody handles a kill."""


@dataclass
class Gate:
    """What a process does, call by call. Before each, `script` is told, and may do anything.

    `watch` is told as well, right when the call takes place.
    """

    script: Script = lambda _: None
    watch: Script = lambda _: None
    calls: list[str] = field(default_factory=list)
    is_dead: bool = False

    def enter(self, call: str) -> None:
        self.check()
        self.calls.append(call)
        self.script(call)
        self.check()
        self.watch(call)

    def check(self) -> None:
        if self.is_dead:
            raise DiedError

    def die(self) -> None:
        self.is_dead = True


def at(what: str, act: Callable[[], object], *, after: int = 0) -> Script:
    """A script that acts once: before a call whose text contains `what`, after so many of them."""
    left = count(after, -1)

    def script(call: str) -> None:
        if what in call and next(left) == 0:
            act()

    return script


class LakeBucket(Bucket):
    """The bucket of the lake as writers see it: no gate, and nothing is denied."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store


@dataclass
class Catalog:
    """Names of tables and where they point. `is_down` after the first rows, as real ones are."""

    pointers: dict[str, str] = field(default_factory=dict)
    is_down: bool = False


class World:
    """What all processes share: the clock, the buckets, the database, the catalog."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOON)
        self.lake = TimedStore(f"{LAKE}/", self.clock)
        self.plans = TimedStore(f"{PLANS}/", self.clock)
        self.database = MemoryBackend()
        with Store(self.database, types=TYPES, clock=self.clock) as store:
            store.create_realm(REALM)
        self.catalog = Catalog()
        self.denied: set[str] = set()
        #: Whether the lake cannot rename: what is moved is copied, and deleted then.
        self.by_copy = False
        self.bucket = LakeBucket(self.lake)
        self._numbers = count(1)

    def files(self) -> set[str]:
        """The addresses of all that is stored in the lake, apart from what was set aside."""
        return {f"{LAKE}/{key}" for key in self.lake.objects if not key.startswith("_lakesweep/")}

    def put(self, path: str, *, old: bool = False) -> str:
        """Store a file of no format."""
        self.bucket.write(path, b"content")
        if old:
            self.age(path)
        return path

    def age(self, *paths: str) -> None:
        """Have files written long before the grace began; all that there are if none is named."""
        for path in paths or self.files():
            moment = self.clock.now() - 3 * GRACE
            self.lake.age(path.removeprefix(f"{LAKE}/"), moment)

    def new_path(self, folder: str) -> str:
        return f"{LAKE}/{folder}/data/{next(self._numbers):03}.parquet"

    def create(self, name: str, folder: str | None = None, **document: Any) -> str:
        """A table without snapshots; its folder is of its name, unless it is told."""
        self._commit(name, Table(self.bucket, folder or name, document))
        return self.catalog.pointers[name]

    def append(self, name: str, *paths: str, replaces: bool = False) -> str:
        """A snapshot with these files, and with those before it unless it replaces them."""
        table = self.table(name)
        files = [File(path) for path in paths]
        manifest = table.manifest(f"{next(self._numbers):03}-m0.avro", *files)
        kept = () if replaces else manifests_of(self.bucket, table.document)
        table.snapshot(*kept, manifest)
        self._commit(name, table)
        return self.catalog.pointers[name]

    def expire(self, name: str) -> str:
        """Leave only the last snapshot."""
        table = self.table(name)
        table.document["snapshots"] = table.document["snapshots"][-1:]
        self._commit(name, table)
        return self.catalog.pointers[name]

    def change(self, name: str, **document: Any) -> str:
        """Write other things into the table's metadata."""
        table = self.table(name)
        table.document |= document
        self._commit(name, table)
        return self.catalog.pointers[name]

    def table(self, name: str) -> Table:
        document = json.loads(self.bucket.read(self.catalog.pointers[name]))
        folder = document["location"].removeprefix(f"{LAKE}/")
        return Table(self.bucket, folder, document)

    def live(self) -> set[str]:
        """All that is referenced now."""
        return set().union(*(reach(self.bucket, each) for each in self.catalog.pointers.values()))

    def _commit(self, name: str, table: Table) -> None:
        table.version = next(self._numbers)
        before = self.catalog.pointers.get(name)
        if before is not None:
            log = [*table.document.get("metadata-log", ()), {"metadata-file": before}]
            table.document["metadata-log"] = log[-2:]
        self.catalog.pointers[name] = table.commit()


def manifests_of(bucket: Bucket, document: Mapping[str, Any]) -> list[str]:
    """The manifests of the last snapshot."""
    lists = [snapshot["manifest-list"] for snapshot in document["snapshots"][-1:]]
    return [row["manifest_path"] for path in lists for row in _rows(bucket, path)]


def reach(bucket: Bucket, pointer: str) -> frozenset[str]:
    """All that a metadata file keeps alive: the oracle."""
    document = json.loads(bucket.read(pointer))
    found = {pointer, *(each["metadata-file"] for each in document.get("metadata-log", ()))}
    for snapshot in document["snapshots"]:
        found.add(snapshot["manifest-list"])
        for manifest in _rows(bucket, snapshot["manifest-list"]):
            found.add(manifest["manifest_path"])
            entries = _rows(bucket, manifest["manifest_path"])
            found |= {each["data_file"]["file_path"] for each in entries if each["status"] != 2}
    return frozenset(found)


def _rows(bucket: Bucket, path: str) -> Iterator[dict[str, Any]]:
    rows: Iterator[Any] = fastavro.reader(BytesIO(bucket.read(path)))
    yield from rows


@dataclass
class GatedSource:
    """The catalog, as one process asks it. `looked` is what it was told last of each name."""

    catalog: Catalog
    gate: Gate
    looked: dict[str, str] = field(default_factory=dict)
    name: str = "catalog names"

    def collect(self) -> Iterator[RootRow | RootProblem]:
        self.looked.clear()
        for name in list(self.catalog.pointers):
            self.gate.enter(f"catalog collect {name}")
            if name in self.catalog.pointers:
                yield self._row(name)
        self._check()

    def look(self, root: RootRow) -> RootRow | None:
        self.gate.enter(f"catalog look {root.name}")
        self._check()
        return self._row(root.name) if root.name in self.catalog.pointers else None

    def _row(self, name: str) -> RootRow:
        pointer = self.looked[name] = self.catalog.pointers[name]
        return RootRow(name, RootKind.ICEBERG_TABLE, pointer, self.name)

    def _check(self) -> None:
        if self.catalog.is_down:
            raise UnavailableError("catalog", "does not answer")


class GatedStore(StoreWrapper):
    """A store behind a gate. Reads of tables pass unseen: they come from many threads at once."""

    def __init__(
        self,
        store: ObjectStore,
        gate: Gate,
        denied: set[str],
        on_delete: Callable[[Sequence[str]], None],
    ) -> None:
        super().__init__(store)
        self._gate = gate
        self._denied = denied
        self._on_delete = on_delete

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        self._enter("list", prefix)
        return self.store.list(prefix, one_level=one_level, after=after, cursor=cursor)

    def head(self, key: str) -> ObjectInfo:
        self._gate.check()
        return self.store.head(key)

    def read(self, key: str) -> bytes:
        if self.base.startswith(PLANS):
            self._enter("read", key)
        self._gate.check()
        if self.base + key in self._denied:
            raise DeniedError(self.base + key, "denied")
        return self.store.read(key)

    def write(self, key: str, data: bytes) -> None:
        self._enter("write", key)
        self.store.write(key, data)

    def write_new(self, key: str, data: bytes) -> None:
        self._enter("write", key)
        self.store.write_new(key, data)

    def delete(
        self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
    ) -> Sequence[Deletion]:
        self._enter("delete", *keys)
        wanted = expected or [None] * len(keys)
        self._on_delete([*self._going(zip(keys, wanted, strict=True))])
        return self.store.delete(keys, expected)

    def copy(self, source: str, target: str) -> None:
        self._enter("copy", source)
        self.store.copy(source, target)

    def move(self, source: str, target: str, expected: Expected | None = None) -> None:
        self._enter("delete", source)
        self._on_delete([*self._going([(source, expected)])])
        self.store.move(source, target, expected)

    def _going(self, files: Iterable[tuple[str, Expected | None]]) -> Iterator[str]:
        """What is about to go: what is there, and still what was listed."""
        for key, expected in files:
            with suppress(MissingError):
                if is_expected(self.store.head(key), expected):
                    yield self.base + key

    def _enter(self, method: str, *keys: str) -> None:
        self._gate.enter(f"{method} {self.base}{' '.join(keys)}")


class GatedDatabase(BackendWrapper):
    """The database behind a gate."""

    def __init__(self, backend: Backend, gate: Gate) -> None:
        super().__init__(backend)
        self._gate = gate

    def _enter(self, realm: str) -> None:
        self._gate.enter(f"database {realm}")


class Process:
    """One process that sweeps: its own gate, and its own ways to all that is shared."""

    def __init__(
        self,
        world: World,
        script: Script = lambda _: None,
        *,
        on_delete: Callable[[Sequence[str]], None] = lambda _: None,
        neighbours: Mapping[str, tuple[str, ...]] | None = None,
        **section: Any,
    ) -> None:
        self.world = world
        self.gate = Gate()
        lake, plans = (
            GatedStore(store, self.gate, world.denied, on_delete)
            for store in (world.lake, world.plans)
        )
        self.stores = Stores(replace={LAKE: ByCopy(lake) if world.by_copy else lake, PLANS: plans})
        self.source = GatedSource(world.catalog, self.gate)
        database = GatedDatabase(world.database, self.gate)
        self.store = Store(database, types=TYPES, clock=world.clock)
        self.runs = RunLog(self.store.realm(REALM), world.clock)
        section = {"locations": (LAKE,), "unknown": "delete", "roots": (), **section}
        self.lake = Lake("prod", LakeSection(**section), f"{PLANS}/prod", neighbours or {})
        self.session: Session | None = None
        #: Histories are told by calls alone; nothing happens because time passes outside of them.
        self.look_every = timedelta(days=1)
        self.gate.calls.clear()
        self.gate.script = script

    def planner(self) -> Planner:
        engine = LocalSweepEngine(self.stores)
        return Planner(
            self.stores, engine, self.runs, self.world.clock, sources=lambda *_: [self.source]
        )

    def applier(self) -> Applier:
        engine = LocalSweepEngine(self.stores)
        return Applier(
            self.stores,
            engine,
            self.runs,
            self.world.clock,
            sources=lambda *_: [self.source],
            look_every=self.look_every,
        )

    def plan(
        self,
        *,
        grace: timedelta = GRACE,
        mode: MatchMode = MatchMode.EXACT,
        overridden: Sequence[str] = (),
    ) -> PlanDocument:
        order = PlanRequest(self.lake, grace, mode, tuple(overridden))
        with self.running(RunKind.PLAN) as session:
            return self.planner().plan(order, session.started, session.lease)

    def order(
        self, plan: str, overridden: Sequence[str] = SMALL, *, aside: bool = False
    ) -> ApplyRequest:
        return ApplyRequest(
            self.runs.plan(plan),
            self.lake,
            QuarantineRemoval(quarantine_places(self.lake, plan)) if aside else DeleteRemoval(),
            QUARANTINE_SCHEMA if aside else OUTCOME_SCHEMA,
            DeleteRate(),
            tuple(overridden),
            batch_rows=4,
        )

    def apply(
        self,
        plan: str,
        overridden: Sequence[str] = SMALL,
        *,
        aside: bool = False,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> ApplyResult:
        """Apply a plan; `meanwhile` is what happens while somebody is asked to confirm."""
        applier, order = self.applier(), self.order(plan, overridden, aside=aside)
        document = load_applicable_plan(self.stores, self.runs, order, self.world.clock.now())
        meanwhile()
        spec = {"quarantine": aside, **order.removal.spec}
        with self.running(RunKind.APPLY, plan, spec) as session:
            return applier.apply(order, document, session)

    def restore(self, plan: str) -> OutcomeTotals:
        holding = find_holding(self.runs, plan)
        with self.running(RunKind.RESTORE, plan) as session:
            return QuarantineRestorer(self.stores, self.runs, self.lake).restore(holding, session)

    def empty(
        self, plan: str, overridden: Sequence[str] = (), *, batch_rows: int = 1
    ) -> EmptyingResult:
        """End the hold of what a plan set aside, file by file unless told."""
        releaser = QuarantineEmptier(
            self.stores,
            LocalSweepEngine(self.stores),
            self.runs,
            self.world.clock,
            sources=lambda *_: [self.source],
            look_every=self.look_every,
            batch_rows=batch_rows,
        )
        with self.running(RunKind.EMPTY, plan) as session:
            holding = find_holding(self.runs, plan)
            released = releaser.release(self.lake, holding, session, overridden)
            session.figures = recorded_figures(released.tally.report())
            if released.kept:
                session.status = RunStatus.INCOMPLETE
        return released

    @contextmanager
    def running(
        self, kind: RunKind, plan: str | None = None, spec: Mapping[str, Any] | None = None
    ) -> Iterator[Session]:
        with run_session(self.runs, "prod", kind, plan=plan, spec=spec or {}) as session:
            self.session = session
            yield session


def plan(world: World, **how: Any) -> PlanDocument:
    """A plan, by a process of its own."""
    return Process(world).plan(**how)


def apply(world: World, plan: str, overridden: Sequence[str] = SMALL) -> ApplyResult:
    """Apply a plan, by a process of its own."""
    return Process(world).apply(plan, overridden)


def verdicts(world: World, plan: PlanDocument) -> dict[str, str]:
    """Reasons by path, of all that was listed."""
    found = {}
    for verdict in ("keep", "delete"):
        for row in rows(world, f"{PLANS}/prod/{plan.plan}/{verdict}"):
            found[row["path"]] = row["reason"]
    return found


def deletes(world: World, plan: PlanDocument) -> set[str]:
    """What a plan would delete."""
    return {row["path"] for row in rows(world, f"{PLANS}/prod/{plan.plan}/delete")}


def outcomes(world: World, plan: str) -> dict[str, list[str]]:
    """What became of each file of a plan, in all its runs."""
    stores = _stores(world)
    found: defaultdict[str, list[str]] = defaultdict(list)
    folder = f"{PLANS}/prod/{plan}/outcomes/"
    for batch in list_files(stores, folder):
        for path in batch["path"].to_pylist():
            import pyarrow.parquet as pq

            data = world.plans.read(path.removeprefix(f"{PLANS}/"))
            for row in pq.read_table(BytesIO(data)).to_pylist():
                found[row["path"]].append(row["outcome"])
    return found


def rows(world: World, address: str) -> list[dict[str, Any]]:
    """The rows of a dataset of plans."""
    stores = _stores(world)
    dataset: Dataset = load_dataset(stores, address)
    return [row for batch in read_dataset(stores, dataset) for row in batch.to_pylist()]


def _stores(world: World) -> Stores:
    return Stores(replace={LAKE: world.lake, PLANS: world.plans})
