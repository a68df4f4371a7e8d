"""All wiring: configuration in, components out."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lakesweep.clock import Clock, SystemClock
from lakesweep.config import (
    Config,
    IcebergCatalogRoot,
    LakefsRoot,
    LakesweepRoot,
)
from lakesweep.config import Root as AnyRoot
from lakesweep.errors import LakesweepError, NotFoundError
from lakesweep.progress import SILENT, Progress
from lakesweep.progress_board import ProgressBoard
from lakesweep.redaction import masked

if TYPE_CHECKING:
    from lakesweep.catalog import Catalogs
    from lakesweep.catalog.service_tokens import TokenBook
    from lakesweep.iceberg.catalogs import IcebergCatalog
    from lakesweep.iceberg.table_identifier import IcebergTables
    from lakesweep.lakefs.addresses import StorageNamespace
    from lakesweep.lakefs.client.access import ConfiguredServer
    from lakesweep.lakefs.repository.interface import Repository
    from lakesweep.lifecycle.judge.engine import LifecycleEngine
    from lakesweep.maintenance.engine import MaintenanceEngine
    from lakesweep.maintenance.run_records import MaintenanceRuns
    from lakesweep.maintenance.service import MaintenanceService
    from lakesweep.runs.records import PlanRecord, RootMemory
    from lakesweep.runs.run_log import RunLog
    from lakesweep.runs.schedule_book import ScheduleBook
    from lakesweep.storage.options import StorageOptions
    from lakesweep.storage.stores import Stores
    from lakesweep.store import Store
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.holdings import Holding
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.roots.root_kinds import RootSourceFactory

Root = TypeVar("Root")
#: Names the scheduled job that a command carries out.
JOB_VARIABLE = "LAKESWEEP_JOB"


def _ignore(notice: str) -> None:
    """Drop the notice."""
    del notice


class App:
    """The components of one process. Each is created on first use, so no command pays for others.

    Relative files in the configuration are relative to `folder`: that of the configuration file, or
    else the current one. `notify` gets what users must know, one sentence at a time, and `inform`
    what they may want to know. `searched` is where a configuration file was looked for, if none was
    found.
    """

    def __init__(
        self,
        config: Config,
        *,
        folder: Path | None = None,
        config_file: Path | None = None,
        clock: Clock | None = None,
        progress: Progress = SILENT,
        notify: Callable[[str], object] = _ignore,
        inform: Callable[[str], object] = _ignore,
        searched: str | None = None,
    ) -> None:
        self.config = config
        self._searched = searched
        self._notify = notify
        self._inform = inform
        self.config_file = config_file
        self.folder = (folder or Path.cwd()).absolute()
        self.clock = clock or SystemClock()
        #: What this process does and says: its runs tell the store.
        self.board = ProgressBoard(self.clock)
        self.progress = self.board.watched(progress)
        self._other_stores: dict[str, Store] = {}

    @cached_property
    def store_url(self) -> str:
        """The database of the store; the same one from every folder."""
        from lakesweep.store.backends.urls import anchored

        return anchored(self.config.store.url, self.folder)

    @cached_property
    def store(self) -> Store:
        """Lakesweep's own state. SchemaError before `lakesweep store init`."""
        store = self._open_store(self.store_url)
        if not store.backend.capabilities.durable:
            store.create_realm(self.config.store.realm)  # a store in memory has no other creator
        return store

    def _open_store(self, url: str) -> Store:
        from lakesweep.catalog.commits import TYPES as CATALOG_TYPES
        from lakesweep.catalog.service_tokens import TYPES as TOKEN_TYPES
        from lakesweep.maintenance.run_records import TYPES as MAINTENANCE_TYPES
        from lakesweep.runs.job_records import TYPES as JOB_TYPES
        from lakesweep.runs.records import TYPES
        from lakesweep.store import Store
        from lakesweep.store.objects.object_types import with_offered_types
        from lakesweep.store.store import OWN_TYPES

        self._close_store_to_others(url)
        own = {**OWN_TYPES, **TYPES, **JOB_TYPES, **CATALOG_TYPES, **TOKEN_TYPES}
        types = with_offered_types({**own, **MAINTENANCE_TYPES})
        return Store.open(url, types=types, clock=self.clock)

    def _close_store_to_others(self, url: str) -> None:
        """Narrow the rights on an embedded store that was created with a wide umask."""
        from lakesweep.private_folders import close_to_others
        from lakesweep.store.backends.urls import sqlite_file

        file = sqlite_file(url)
        if file is None:
            return
        files = [file, *(file.with_name(f"{file.name}-{end}") for end in ("wal", "shm", "journal"))]
        # Other folders are not ours to change; in this one lie our plans and caches, too.
        folders = [file.parent] if file.parent.name == ".lakesweep" else []
        if [path for path in (*files, *folders) if close_to_others(path)]:
            self._notify(
                f"other users had access to the store {file}; now only you have."
                " To share a store, use a database server"
            )

    def open_realm(self, root: LakesweepRoot) -> Catalogs:
        """The catalogs in the realm of a root. It may be inactive: its tables keep their files."""
        from lakesweep.catalog import Catalogs
        from lakesweep.store.backends.urls import anchored
        from lakesweep.store.realms.registry import RealmStatus

        url = self.store_url if root.url is None else anchored(root.url, self.folder)
        if url != self.store_url and url not in self._other_stores:
            self._other_stores[url] = self._open_store(url)
        store = self._other_stores.get(url) or self.store
        name = root.realm or self.config.store.realm
        return Catalogs(store.realm_in(name, {RealmStatus.ACTIVE, RealmStatus.INACTIVE}))

    @property
    def root_sources(self) -> RootSourceFactory:
        """The factory for the root sources of a lake."""
        from lakesweep.sweep.roots.root_kinds import root_sources

        return partial(root_sources, open_realm=self.open_realm)

    def prepare_store(self) -> Path | None:
        """Create the embedded store if its file does not exist; databases are not touched.

        Returns the file, if it was created.
        """
        from lakesweep.store import Store
        from lakesweep.store.backends.urls import sqlite_file

        if not self.is_new_store:
            return None
        Store.create_tables(self.store_url)
        self.store.create_realm(self.config.store.realm)
        file = sqlite_file(self.store_url)
        self._inform(f"created a new store: {file}")
        return file

    @cached_property
    def runs(self) -> RunLog:
        """The record of runs and plans, in the configured realm."""
        from lakesweep.runs.outbox import WebhookTarget
        from lakesweep.runs.run_log import RunLog

        self.prepare_store()
        return RunLog(
            self.store.realm(self.config.store.realm),
            self.clock,
            lambda: self.stores.load,
            self.board,
            self._job,
            self._announce,
            tuple(WebhookTarget.of(each.url, each.events) for each in self.config.webhooks),
        )

    @property
    def _job(self) -> str | None:
        """The scheduled job that this process carries out."""
        return os.environ.get(JOB_VARIABLE) or None

    def _announce(self, run: str) -> None:
        """Tell the job of this process which run it makes."""
        if self._job is not None:
            with suppress(LakesweepError):  # a store away must not fail the run
                self.schedules.note_run(self._job, run)

    @cached_property
    def known_runs(self) -> RunLog:
        """The same for commands that only read: they create no store, and find an empty log."""
        from lakesweep.runs.run_log import RunLog

        if not self.is_new_store:
            return self.runs
        self._inform(f"there is no store yet: {masked(self.store_url)}; the first plan creates it")
        name = self.config.store.realm
        return RunLog(self._open_store("memory:").create_realm(name), self.clock)

    @property
    def is_new_store(self) -> bool:
        """Whether the store is embedded, and its file does not exist yet."""
        from lakesweep.store.backends.urls import sqlite_file

        file = sqlite_file(self.store_url)
        return file is not None and not file.exists()

    @cached_property
    def schedules(self) -> ScheduleBook:
        """Schedules and their jobs, in the configured realm and the configuration file."""
        return self._schedule_book(self.runs)

    @cached_property
    def known_schedules(self) -> ScheduleBook:
        """The same for commands that only read: they create no store."""
        return self._schedule_book(self.known_runs)

    def _schedule_book(self, runs: RunLog) -> ScheduleBook:
        from lakesweep.runs.schedule_book import ScheduleBook, filed_schedules
        from lakesweep.runs.schedules import schedule_of

        filed = filed_schedules(
            schedule_of(name, section) for name, section in self.config.schedules.items()
        )
        return ScheduleBook(runs.realm, self.clock, filed)

    @cached_property
    def tokens(self) -> TokenBook:
        """The tokens of the service, in the configured realm."""
        from lakesweep.catalog.service_tokens import TokenBook

        return TokenBook(self.runs.realm, self.clock)

    @cached_property
    def known_tokens(self) -> TokenBook:
        """The same for commands that only read: they create no store."""
        from lakesweep.catalog.service_tokens import TokenBook

        return TokenBook(self.known_runs.realm, self.clock)

    @cached_property
    def maintenance_runs(self) -> MaintenanceRuns:
        """The log of maintenance runs."""
        from lakesweep.maintenance.run_records import MaintenanceRuns

        retained = self.config.maintenance.retained_runs
        return MaintenanceRuns(self.store.system, self.clock, retained)

    @cached_property
    def maintenance(self) -> MaintenanceService:
        """The service that keeps the store small."""
        from lakesweep.maintenance.config import LogRetentionRule, MaintenanceConfig
        from lakesweep.maintenance.service import MaintenanceService

        section = self.config.maintenance
        kept = {
            name: LogRetentionRule(**each.model_dump()) for name, each in section.history.items()
        }
        config = MaintenanceConfig(**{**section.model_dump(), "history": kept})
        return MaintenanceService(
            self.store,
            config,
            self.clock,
            self.progress,
            board=self.board,
            job=self._job,
            announce=self._announce,
        )

    @contextmanager
    def maintenance_engine(
        self, name: str, *, verbose: bool = False
    ) -> Iterator[MaintenanceEngine]:
        """Where maintenance works: `local` in this process, `spark` on executors."""
        from lakesweep.maintenance.engine import LocalEngine
        from lakesweep.maintenance.remote_engine import RemoteEngine

        if name == "local":
            yield LocalEngine(self.config.maintenance.scan_workers)
            return
        with self.engine(name, verbose=verbose) as engine:
            yield RemoteEngine(engine, self.store_url)

    @cached_property
    def own_files(self) -> tuple[str, ...]:
        """What no command deletes, wherever it lies: see `sweep.own_files`."""
        from lakesweep.sweep.own_files import own_files

        return own_files(self.config, self.folder, self.config_file)

    @cached_property
    def kept_folders(self) -> tuple[str, ...]:
        """The same, with what Lakesweep keeps in or near all lakes."""
        from lakesweep.sweep.lake import find_lake

        lakes = self.config.lakes
        own = (each for name in lakes for each in find_lake(lakes, name, self.plans).own_folders)
        return tuple(dict.fromkeys((*self.own_files, *own)))

    def lake(self, name: str) -> Lake:
        """A lake from the configuration, or a repository that a plan was made for."""
        from lakesweep.lifecycle.repository_lake import find_repository_lake
        from lakesweep.runs.records import is_repository
        from lakesweep.sweep.lake import find_lake

        if is_repository(name):
            return self._beside_lakes(find_repository_lake(name))
        if self._searched is not None and name not in self.config.lakes:
            raise NotFoundError(
                f"there is no lake {name}, because no configuration was found:"
                f" looked for {self._searched}",
                hint="lakesweep init writes a configuration; --config FILE names another one",
            )
        lake = find_lake(self.config.lakes, name, self.plans, self._open_lakes)
        return replace(lake, kept=(*lake.kept, *self.own_files))

    def roots_reaching(self, places: Iterable[str]) -> tuple[AnyRoot, ...]:
        """The roots of all lakes that may reference files in some places."""
        from lakesweep.sweep.lake import reaching_roots

        return tuple(reaching_roots(self.config.lakes, places, self._open_lakes))

    @cached_property
    def _open_lakes(self) -> frozenset[str]:
        """Lakes that are configured as closed, but were seen to reference files elsewhere."""
        from lakesweep.sweep.lake import folder_outside

        found: set[str] = set()
        for name, section in self.config.lakes.items():
            if section.closed and not self.is_new_store:
                outside = folder_outside(section, self._known_roots(name))
                if outside is not None:
                    self._notify(
                        f"warning: lake {name} is configured as closed, but its roots reference"
                        f" files in {outside}; plans of other lakes read its roots even so"
                    )
                    found.add(name)
        return frozenset(found)

    def _known_roots(self, lake: str) -> list[RootMemory]:
        """What earlier plans of a lake saw of its own roots."""
        from lakesweep.sweep.lake import find_lake

        record = self.known_runs.find_lake(lake)
        if record is None:
            return []
        alone = find_lake({lake: self.config.lakes[lake]}, lake, self.plans)
        own = {source.name for source in self.root_sources(self.stores, alone, lambda: iter(()))}
        known = self.known_runs.known_folders(record).values()
        return [each for each in known if each.origin in own]

    def lake_of(self, plan: PlanRecord) -> Lake:
        """The lake that a plan was made for."""
        from lakesweep.lifecycle.repository_lake import find_repository_lake, home_of
        from lakesweep.runs.records import is_repository

        if is_repository(plan.lake):
            return self._beside_lakes(find_repository_lake(plan.lake, home_of(plan.address)))
        return self.lake(plan.lake)

    def repository_lake(self, namespace: StorageNamespace, home: str | None = None) -> Lake:
        """A repository as a lake, beside those of the configuration."""
        from lakesweep.lifecycle.repository_lake import repository_lake

        return self._beside_lakes(repository_lake(namespace, home))

    def _beside_lakes(self, lake: Lake) -> Lake:
        """A repository that roots of lakes may reference. Other repositories are separate."""
        roots = (root for each in self.config.lakes.values() for root in each.roots)
        others = tuple(root for root in roots if not isinstance(root, LakefsRoot))
        section = lake.section.model_copy(update={"limits": self.config.lifecycle.limits})
        own = (*lake.kept, *self.own_files)
        return replace(lake, section=section, roots_of_others=others, kept=own)

    def lake_of_holding(self, holding: Holding) -> Lake:
        """The lake that files were quarantined from, even if it is no longer configured.

        NotFoundError if that is unknown.
        """
        from lakesweep.runs.records import is_repository
        from lakesweep.sweep.lake import former_lake

        plan = self.runs.plan(holding.plan)
        if (
            is_repository(holding.lake)
            or holding.lake in self.config.lakes
            or not holding.locations
        ):
            return self.lake_of(plan)
        folder = plan.address.rstrip("/").rpartition("/")[0]
        lake = former_lake(self.config.lakes, holding.lake, holding.locations, folder)
        return replace(lake, kept=(*lake.kept, *self.own_files))

    @property
    def plans(self) -> str:
        """The default location of plans."""
        return str(self.folder / ".lakesweep" / "plans")

    @contextmanager
    def engine(self, name: str, *, verbose: bool = False) -> Iterator[SweepEngine]:
        """Where a sweep runs: `local` in this process, `spark` in a session that ends with it."""
        if name == "local":
            from lakesweep.sweep.engine.local_engine import LocalSweepEngine

            yield LocalSweepEngine(self.stores)
            return
        from lakesweep.spark.executor_access import ExecutorAccess
        from lakesweep.spark.session import open_session
        from lakesweep.spark.settings import session_cores, suggested_tasks
        from lakesweep.sweep.engine.spark_engine import SparkSweepEngine

        # Starting Java takes long and leaves a core idle, so kernels are loaded meanwhile.
        threading.Thread(target=_load_kernels, daemon=True).start()
        with ExitStack() as stack:
            with self.progress.task("starting Spark", unit=""):
                spark = stack.enter_context(open_session(self.config.spark, verbose=verbose))
            access = ExecutorAccess(self.stores, self.catalogs, suggested_tasks(spark))
            access.limit_tasks(session_cores(spark))
            yield SparkSweepEngine(spark, access)

    def close(self) -> None:
        """Close all stores that were opened."""
        for store in self._other_stores.values():
            store.close()
        # Only if it was opened: closing must not open it.
        if "store" in self.__dict__:
            self.store.close()

    @cached_property
    def stores(self) -> Stores:
        """All object stores that addresses may name."""
        from lakesweep.storage.file_batches import use_system_allocator
        from lakesweep.storage.stores import Stores
        from lakesweep.storage.wrappers.run_load import RunLoad

        # Before the first store is used: memory allocated earlier would stay in the old pool.
        use_system_allocator()
        limits = self.config.limits.read_limits
        load = RunLoad(self.clock, self._catalog_rates)
        stores = Stores(self.storage_options, clock=self.clock, limits=limits, load=load)
        lakes = self.config.lakes.values()
        plans = [self.plans, *(lake.plans for lake in lakes if lake.plans)]
        locations = [location for lake in lakes for location in lake.locations]
        quarantines = [lake.quarantine for lake in lakes if lake.quarantine]
        return stores.within(*plans, *locations, *quarantines, private=plans)

    @property
    def _catalog_rates(self) -> Mapping[str, float]:
        """Requests a second, by the name of a catalog or the endpoint of a server; the lowest."""
        found: dict[str, float] = {}
        catalogs, servers = self._roots(IcebergCatalogRoot), self._roots(LakefsRoot)
        rates = [
            *((root.name, root.catalog_requests_per_second) for root in catalogs),
            *((root.endpoint, root.catalog_requests_per_second) for root in servers),
        ]
        for name, rate in rates:
            if name is not None and rate is not None:
                found[name] = min(rate, found.get(name, rate))
        return found

    @cached_property
    def catalogs(self) -> Mapping[str, Mapping[str, str]]:
        """The PyIceberg properties of every Iceberg catalog in all lakes, by catalog name."""
        return {root.name: root.properties for root in self._roots(IcebergCatalogRoot)}

    @property
    def realm_roots(self) -> tuple[LakesweepRoot, ...]:
        """The realms of our own store that lakes name as roots, each once."""
        return tuple(dict.fromkeys(self._roots(LakesweepRoot)))

    @cached_property
    def iceberg(self) -> IcebergTables:
        """Iceberg tables and views, by name or address."""
        from lakesweep.iceberg.table_identifier import IcebergTables

        return IcebergTables(self.stores, self.catalogs, self._own_catalog)

    def _own_catalog(self, name: str) -> IcebergCatalog | None:
        """A catalog in a realm that is a root: `shop`, or with the name of its realm `prod:shop`.

        Of other realms, nobody would ask the tables before files are deleted.
        """
        from lakesweep.catalog.realm_adapter import find_catalog

        for root in self.realm_roots:
            found = find_catalog(partial(self.open_realm, root), root, name)
            if found is not None:
                return found
        return None

    def repository(self, name: str) -> Repository:
        """A lakeFS repository by its name on a configured server, or by its address."""
        from lakesweep.lakefs.repository.lookup import open_repository

        return open_repository(name, self.stores, self._lakefs_servers, os.environ)

    def repository_alone(self, name: str) -> Repository:
        """The same; IncompleteError if another repository uses its folder."""
        from lakesweep.lakefs.repository.lookup import open_alone

        return open_alone(name, self.stores, self._lakefs_servers, os.environ)

    def siblings(self, repository: str) -> Mapping[str, StorageNamespace]:
        """All other repositories on the server of one, configured or not."""
        from lakesweep.lakefs.repository.lookup import siblings_of

        return siblings_of(repository, self._lakefs_servers, os.environ)

    @property
    def _lakefs_servers(self) -> tuple[ConfiguredServer, ...]:
        from lakesweep.lakefs.client.access import ConfiguredServer

        return tuple(
            ConfiguredServer(
                root.endpoint,
                root.repositories,
                root.local_root,
                self.stores.load.catalog(root.endpoint),
            )
            for root in self._roots(LakefsRoot)
            if root.endpoint is not None
        )

    @property
    def repository_names(self) -> list[str]:
        """The names of the configured lakeFS repositories."""
        roots = self._roots(LakefsRoot)
        names = (name for root in roots for name in (*root.repositories, *root.namespaces))
        return list(dict.fromkeys(names))

    def judges(self, engine: SweepEngine) -> LifecycleEngine:
        """The lifecycle engine that runs where the sweep engine runs."""
        from lakesweep.lifecycle.judge.engine import LocalLifecycleEngine

        if engine.name == "local":
            return LocalLifecycleEngine(self.stores)
        from lakesweep.lifecycle.judge.spark_engine import SparkLifecycleEngine
        from lakesweep.sweep.engine.spark_engine import SparkSweepEngine

        assert isinstance(engine, SparkSweepEngine)
        return SparkLifecycleEngine(engine.spark, engine.access)

    def _roots(self, kind: type[Root]) -> Iterator[Root]:
        for lake in self.config.lakes.values():
            yield from (root for root in lake.roots if isinstance(root, kind))

    @cached_property
    def storage_options(self) -> Mapping[str, StorageOptions]:
        """The options of each configured store."""
        from lakesweep.storage.options import StorageOptions

        sections = self.config.storage.items()
        return {address: StorageOptions(**section.model_dump()) for address, section in sections}


def _load_kernels() -> None:
    """Load the kernels that compare files, which takes most of a second."""
    import pyarrow as pa

    from lakesweep.storage.file_identity import file_hashes

    file_hashes(pa.array(["/"]))
