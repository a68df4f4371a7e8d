"""The components of one process, made from the configuration."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
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
from lakesweep.errors import ContendedError, LakesweepError, RealmExistsError
from lakesweep.progress import SILENT, Progress
from lakesweep.progress_board import ProgressBoard
from lakesweep.redaction import masked

if TYPE_CHECKING:
    from lakesweep.app.configured_lakes import ConfiguredLakes
    from lakesweep.catalog import Catalogs
    from lakesweep.catalog.access.service_tokens import TokenBook
    from lakesweep.iceberg.catalogs import IcebergCatalog
    from lakesweep.iceberg.table_identifier import IcebergTables
    from lakesweep.lakefs.addresses import StorageNamespace
    from lakesweep.lakefs.client.access import ConfiguredServer
    from lakesweep.lakefs.repository.interface import Repository
    from lakesweep.lifecycle.judge.engine import LifecycleEngine
    from lakesweep.maintenance.engine import MaintenanceEngine
    from lakesweep.maintenance.run_records import MaintenanceRuns
    from lakesweep.maintenance.service import MaintenanceService
    from lakesweep.runs.records import RootMemory
    from lakesweep.runs.run_log import RunLog
    from lakesweep.runs.schedule_book import ScheduleBook
    from lakesweep.storage.options import StorageOptions
    from lakesweep.storage.stores import Stores
    from lakesweep.store import Store
    from lakesweep.sweep.engine.protocol import SweepEngine
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
        from lakesweep.app.own_store import open_own_store

        return open_own_store(url, self.clock, self._notify)

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
        # Another command may be the first one, too, and have begun a moment earlier.
        with suppress(RealmExistsError, ContendedError):
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
        from lakesweep.catalog.access.service_tokens import TokenBook

        return TokenBook(self.runs.realm, self.clock)

    @cached_property
    def known_tokens(self) -> TokenBook:
        """The same for commands that only read: they create no store."""
        from lakesweep.catalog.access.service_tokens import TokenBook

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
    def lakes(self) -> ConfiguredLakes:
        """The lakes of the configuration, and what else plans were made for."""
        from lakesweep.app.configured_lakes import ConfiguredLakes

        return ConfiguredLakes(
            self.config,
            self.plans,
            self.own_files,
            self._remembered_roots,
            self._notify,
            self._searched,
        )

    def lake(self, name: str) -> Lake:
        """A lake from the configuration, or a repository that a plan was made for."""
        return self.lakes.find(name)

    def _remembered_roots(self, lake: str) -> list[RootMemory]:
        """What earlier plans of a lake saw of its own roots."""
        from lakesweep.sweep.lake import find_lake

        record = None if self.is_new_store else self.known_runs.find_lake(lake)
        if record is None:
            return []
        alone = find_lake({lake: self.config.lakes[lake]}, lake, self.plans)
        own = {source.name for source in self.root_sources(self.stores, alone, lambda: iter(()))}
        known = self.known_runs.known_folders(record).values()
        return [each for each in known if each.origin in own]

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
