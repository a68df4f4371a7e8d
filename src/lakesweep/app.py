"""All wiring: configuration in, components out."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lakesweep.clock import Clock, SystemClock
from lakesweep.config import (
    Config,
    IcebergCatalogRoot,
    IcebergMetadataRoot,
    LakefsRoot,
    LakesweepRoot,
    PaimonWarehouseRoot,
    PinnedRoot,
)
from lakesweep.progress import SILENT, Progress

if TYPE_CHECKING:
    from lakesweep.catalog import Catalogs
    from lakesweep.iceberg.known_tables import IcebergTables
    from lakesweep.lakefs.addresses import StorageNamespace
    from lakesweep.lakefs.repository.interface import Repository
    from lakesweep.lakefs.server.access import ConfiguredServer
    from lakesweep.lifecycle.judge.engine import LifecycleEngine
    from lakesweep.maintenance.row_scan import ScanEngine
    from lakesweep.maintenance.run_log import MaintenanceRuns
    from lakesweep.maintenance.service import MaintenanceService
    from lakesweep.runs.records import PlanRecord
    from lakesweep.runs.run_log import RunLog
    from lakesweep.storage.options import StorageOptions
    from lakesweep.storage.stores import Stores
    from lakesweep.store import Store
    from lakesweep.sweep.engine.protocol import SweepEngine
    from lakesweep.sweep.holdings import Holding
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.roots.sources import RootSourceFactory

Root = TypeVar("Root")


class App:
    """The components of one process. Each is created on first use, so no command pays for others.

    Relative files in the configuration are relative to `folder`: that of the configuration file, or
    else the current one.
    """

    def __init__(
        self,
        config: Config,
        *,
        folder: Path | None = None,
        clock: Clock | None = None,
        progress: Progress = SILENT,
    ) -> None:
        self.config = config
        self.folder = (folder or Path.cwd()).absolute()
        self.clock = clock or SystemClock()
        self.progress = progress
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
        from lakesweep.maintenance.run_records import TYPES as MAINTENANCE_TYPES
        from lakesweep.runs.records import TYPES
        from lakesweep.store import Store

        types = {**TYPES, **CATALOG_TYPES, **MAINTENANCE_TYPES}
        return Store.open(url, types=types, clock=self.clock)

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
        from lakesweep.sweep.roots.sources import root_sources

        return partial(root_sources, open_realm=self.open_realm)

    def prepare_store(self) -> Path | None:
        """Create the embedded store if its file does not exist; databases are not touched.

        Returns the file, if it was created.
        """
        from lakesweep.store import Store
        from lakesweep.store.backends.urls import sqlite_file

        file = sqlite_file(self.store_url)
        if file is None or file.exists():
            return None
        Store.create_tables(self.store_url)
        self.store.create_realm(self.config.store.realm)
        return file

    @cached_property
    def runs(self) -> RunLog:
        """The record of runs and plans, in the configured realm."""
        from lakesweep.runs.run_log import RunLog

        self.prepare_store()
        return RunLog(self.store.realm(self.config.store.realm), self.clock)

    @cached_property
    def maintenance_runs(self) -> MaintenanceRuns:
        """The log of maintenance runs."""
        from lakesweep.maintenance.run_log import MaintenanceRuns

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
        return MaintenanceService(self.store, config, self.clock, self.progress)

    @contextmanager
    def scan_engine(self, name: str, *, verbose: bool = False) -> Iterator[ScanEngine]:
        """Where rows of the store are scanned: `local` in this process, `spark` on executors."""
        from lakesweep.maintenance.remote_scan import RemoteScan
        from lakesweep.maintenance.row_scan import LocalScan

        if name == "local":
            yield LocalScan(self.config.maintenance.scan_workers)
            return
        with self.engine(name, verbose=verbose) as engine:
            yield RemoteScan(engine, self.store_url)

    def lake(self, name: str) -> Lake:
        """A lake from the configuration, or a repository that a plan was made for."""
        from lakesweep.lifecycle.repository_lake import find_repository_lake
        from lakesweep.runs.run_names import is_repository
        from lakesweep.sweep.lake import find_lake

        if is_repository(name):
            return self._beside_lakes(find_repository_lake(name))
        return find_lake(self.config.lakes, name, self.plans)

    def lake_of(self, plan: PlanRecord) -> Lake:
        """The lake that a plan was made for."""
        from lakesweep.lifecycle.repository_lake import find_repository_lake, home_of
        from lakesweep.runs.run_names import is_repository

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
        return replace(lake, roots_of_others=others)

    def lake_of_holding(self, holding: Holding) -> Lake:
        """The lake that files were quarantined from, even if it is no longer configured.

        NotFoundError if that is unknown.
        """
        from lakesweep.runs.run_names import is_repository
        from lakesweep.sweep.lake import former_lake

        plan = self.runs.plan(holding.plan)
        if (
            is_repository(holding.lake)
            or holding.lake in self.config.lakes
            or not holding.locations
        ):
            return self.lake_of(plan)
        folder = plan.address.rstrip("/").rpartition("/")[0]
        return former_lake(self.config.lakes, holding.lake, holding.locations, folder)

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
        from lakesweep.spark.settings import suggested_tasks
        from lakesweep.sweep.engine.spark_engine import SparkSweepEngine

        # Starting Java takes long and leaves a core idle, so kernels are loaded meanwhile.
        threading.Thread(target=_load_kernels, daemon=True).start()
        with ExitStack() as stack:
            with self.progress.task("starting Spark", unit=""):
                spark = stack.enter_context(open_session(self.config.spark, verbose=verbose))
            yield SparkSweepEngine(
                spark, ExecutorAccess(self.stores, self.catalogs, suggested_tasks(spark))
            )

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

        # Before the first store is used: memory allocated earlier would stay in the old pool.
        use_system_allocator()
        return Stores(self.storage_options, clock=self.clock)

    @cached_property
    def catalogs(self) -> Mapping[str, Mapping[str, str]]:
        """The PyIceberg properties of every Iceberg catalog in all lakes, by catalog name."""
        return {root.name: root.properties for root in self._roots(IcebergCatalogRoot)}

    @cached_property
    def iceberg(self) -> IcebergTables:
        """Iceberg tables and views, by name or address."""
        from lakesweep.iceberg.known_tables import ForeignFiles, IcebergTables
        from lakesweep.sweep.roots.own_catalog import RealmTables

        files = [path for root in self._roots(IcebergMetadataRoot) for path in root.files]
        realms = RealmTables([partial(self.open_realm, r) for r in self._roots(LakesweepRoot)])
        pins = [root.file for root in self._roots(PinnedRoot)]
        strangers = ForeignFiles(
            (*(root.path for root in self._roots(PaimonWarehouseRoot)), *realms.folders()),
            tuple(f"lakefs {root.called}" for root in self._roots(LakefsRoot)),
        )
        return IcebergTables(
            self.stores,
            self.catalogs,
            realms.beside(files),
            pins,
            strangers,
            progress=self.progress,
        )

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
        from lakesweep.lakefs.server.access import ConfiguredServer

        return tuple(
            ConfiguredServer(root.endpoint, root.repositories, root.local_root)
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
