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
    from lakesweep.iceberg.targets import IcebergTargets
    from lakesweep.lakefs.addresses import Namespace
    from lakesweep.lakefs.finding import ServerPlace
    from lakesweep.lakefs.repository import Repository
    from lakesweep.lifecycle.engine import LifecycleEngine
    from lakesweep.maintenance.engine import ScanEngine
    from lakesweep.maintenance.runs import MaintenanceRuns
    from lakesweep.maintenance.service import MaintenanceService
    from lakesweep.storage.options import StorageOptions
    from lakesweep.storage.stores import Stores
    from lakesweep.store import Store
    from lakesweep.sweep.engine import SweepEngine
    from lakesweep.sweep.holding import Holding
    from lakesweep.sweep.lake import Lake
    from lakesweep.sweep.records import PlanRecord
    from lakesweep.sweep.root_sources import Sources
    from lakesweep.sweep.runs import Runs

Root = TypeVar("Root")


class App:
    """The components of one process. Each is made on first use, so no command pays for others.

    Relative files in the configuration are those of `folder`: its own, or else the present one.
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
        from lakesweep.store.urls import anchored

        return anchored(self.config.store.url, self.folder)

    @cached_property
    def store(self) -> Store:
        """What Lakesweep remembers. SchemaError before `lakesweep store init`."""
        store = self._open_store(self.store_url)
        if not store.backend.capabilities.durable:
            store.create_realm(self.config.store.realm)  # nobody else could have done it
        return store

    def _open_store(self, url: str) -> Store:
        from lakesweep.catalog.heads import TYPES as CATALOG_TYPES
        from lakesweep.maintenance.records import TYPES as MAINTENANCE_TYPES
        from lakesweep.store import Store
        from lakesweep.sweep.records import TYPES

        types = {**TYPES, **CATALOG_TYPES, **MAINTENANCE_TYPES}
        return Store.open(url, types=types, clock=self.clock)

    def open_realm(self, root: LakesweepRoot) -> Catalogs:
        """What the realm of a root holds. It may be inactive: its tables keep their files."""
        from lakesweep.catalog import Catalogs
        from lakesweep.store.realms import RealmStatus
        from lakesweep.store.urls import anchored

        url = self.store_url if root.url is None else anchored(root.url, self.folder)
        if url != self.store_url and url not in self._other_stores:
            self._other_stores[url] = self._open_store(url)
        store = self._other_stores.get(url) or self.store
        name = root.realm or self.config.store.realm
        return Catalogs(store.realm_in(name, {RealmStatus.ACTIVE, RealmStatus.INACTIVE}))

    @property
    def root_sources(self) -> Sources:
        """Who is asked for the roots of a lake."""
        from lakesweep.sweep.root_sources import root_sources

        return partial(root_sources, open_realm=self.open_realm)

    def prepare_store(self) -> Path | None:
        """Create the embedded store where its file is not there yet; databases are left alone.

        The file, if it was created.
        """
        from lakesweep.store import Store
        from lakesweep.store.urls import sqlite_file

        file = sqlite_file(self.store_url)
        if file is None or file.exists():
            return None
        Store.create_tables(self.store_url)
        self.store.create_realm(self.config.store.realm)
        return file

    @cached_property
    def runs(self) -> Runs:
        """The record of runs and plans, in the configured realm."""
        from lakesweep.sweep.runs import Runs

        self.prepare_store()
        return Runs(self.store.realm(self.config.store.realm), self.clock)

    @cached_property
    def maintenance_runs(self) -> MaintenanceRuns:
        """The log of maintenance runs."""
        from lakesweep.maintenance.runs import MaintenanceRuns

        retained = self.config.maintenance.retained_runs
        return MaintenanceRuns(self.store.system, self.clock, retained)

    @cached_property
    def maintenance(self) -> MaintenanceService:
        """What keeps the store small."""
        from lakesweep.maintenance.config import MaintenanceConfig, Retention
        from lakesweep.maintenance.service import MaintenanceService

        section = self.config.maintenance
        kept = {name: Retention(**each.model_dump()) for name, each in section.history.items()}
        config = MaintenanceConfig(**{**section.model_dump(), "history": kept})
        return MaintenanceService(self.store, config, self.clock, self.progress)

    @contextmanager
    def scan_engine(self, name: str, *, verbose: bool = False) -> Iterator[ScanEngine]:
        """Where rows of the store are scanned: `local` in this process, `spark` on executors."""
        from lakesweep.maintenance.engine import LocalScan
        from lakesweep.maintenance.remote_scan import RemoteScan

        if name == "local":
            yield LocalScan(self.config.maintenance.scan_workers)
            return
        with self.engine(name, verbose=verbose) as engine:
            yield RemoteScan(engine, self.store_url)

    def lake(self, name: str) -> Lake:
        """A lake of the configuration, or a repository that a plan was made for."""
        from lakesweep.lifecycle.lakes import find_repository_lake
        from lakesweep.sweep.lake import find_lake
        from lakesweep.sweep.lake_names import is_repository

        if is_repository(name):
            return self._beside_lakes(find_repository_lake(name))
        return find_lake(self.config.lakes, name, self.plans)

    def lake_of(self, plan: PlanRecord) -> Lake:
        """The lake that a plan was made for."""
        from lakesweep.lifecycle.lakes import find_repository_lake, home_of
        from lakesweep.sweep.lake_names import is_repository

        if is_repository(plan.lake):
            return self._beside_lakes(find_repository_lake(plan.lake, home_of(plan.address)))
        return self.lake(plan.lake)

    def repository_lake(self, namespace: Namespace, home: str | None = None) -> Lake:
        """A repository as a lake, beside those of the configuration."""
        from lakesweep.lifecycle.lakes import repository_lake

        return self._beside_lakes(repository_lake(namespace, home))

    def _beside_lakes(self, lake: Lake) -> Lake:
        """A repository that roots of lakes may reach into. Others of its kind are asked apart."""
        roots = (root for each in self.config.lakes.values() for root in each.roots)
        others = tuple(root for root in roots if not isinstance(root, LakefsRoot))
        return replace(lake, roots_of_others=others)

    def lake_of_holding(self, holding: Holding) -> Lake:
        """The lake that files were set aside from, as far as it is known where it is not any more.

        NotFoundError where nothing tells that.
        """
        from lakesweep.sweep.lake import former_lake
        from lakesweep.sweep.lake_names import is_repository

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
        """Where plans go that have no place of their own."""
        return str(self.folder / ".lakesweep" / "plans")

    @contextmanager
    def engine(self, name: str, *, verbose: bool = False) -> Iterator[SweepEngine]:
        """Where a sweep runs: `local` in this process, `spark` in a session that ends with it."""
        if name == "local":
            from lakesweep.sweep.engine import LocalEngine

            yield LocalEngine(self.stores)
            return
        from lakesweep.spark.access import Access
        from lakesweep.spark.cores import parts_for
        from lakesweep.spark.session import open_session
        from lakesweep.sweep.spark_engine import SparkEngine

        # Java takes its time to start, and most of it another core's.
        threading.Thread(target=_load_kernels, daemon=True).start()
        with ExitStack() as stack:
            with self.progress.task("starting Spark", unit=""):
                spark = stack.enter_context(open_session(self.config.spark, verbose=verbose))
            yield SparkEngine(spark, Access(self.stores, self.catalogs, parts_for(spark)))

    def close(self) -> None:
        """Let go of the stores that somebody used."""
        for store in self._other_stores.values():
            store.close()
        if "store" in self.__dict__:
            self.store.close()

    @cached_property
    def stores(self) -> Stores:
        """Every object store that addresses may name."""
        from lakesweep.storage.batches import keep_memory_flat
        from lakesweep.storage.stores import Stores

        keep_memory_flat()
        return Stores(self.storage_options, clock=self.clock)

    @cached_property
    def catalogs(self) -> Mapping[str, Mapping[str, str]]:
        """The PyIceberg properties of each Iceberg catalog of all lakes, by the catalog's name."""
        return {root.name: root.properties for root in self._roots(IcebergCatalogRoot)}

    @cached_property
    def iceberg(self) -> IcebergTargets:
        """Iceberg tables and views, by name or address."""
        from lakesweep.iceberg.targets import IcebergTargets, Strangers
        from lakesweep.sweep.realm_roots import RealmTables

        files = [path for root in self._roots(IcebergMetadataRoot) for path in root.files]
        realms = RealmTables([partial(self.open_realm, r) for r in self._roots(LakesweepRoot)])
        pins = [root.file for root in self._roots(PinnedRoot)]
        strangers = Strangers(
            (*(root.path for root in self._roots(PaimonWarehouseRoot)), *realms.folders()),
            tuple(f"lakefs {root.called}" for root in self._roots(LakefsRoot)),
        )
        return IcebergTargets(
            self.stores,
            self.catalogs,
            realms.beside(files),
            pins,
            strangers,
            progress=self.progress,
        )

    def repository(self, name: str) -> Repository:
        """A lakeFS repository by its name on a configured server, or by its address."""
        from lakesweep.lakefs.finding import open_repository

        return open_repository(name, self.stores, self._lakefs_servers, os.environ)

    def repository_alone(self, name: str) -> Repository:
        """The same; IncompleteError where another repository has come to its folder."""
        from lakesweep.lakefs.finding import open_alone

        return open_alone(name, self.stores, self._lakefs_servers, os.environ)

    def siblings(self, repository: str) -> Mapping[str, Namespace]:
        """All other repositories of the server of one, configured or not."""
        from lakesweep.lakefs.finding import siblings_of

        return siblings_of(repository, self._lakefs_servers, os.environ)

    @property
    def _lakefs_servers(self) -> tuple[ServerPlace, ...]:
        from lakesweep.lakefs.finding import ServerPlace

        return tuple(
            ServerPlace(root.endpoint, root.repositories, root.local_root)
            for root in self._roots(LakefsRoot)
            if root.endpoint is not None
        )

    @property
    def repository_names(self) -> list[str]:
        """What the configured lakeFS repositories are called."""
        roots = self._roots(LakefsRoot)
        names = (name for root in roots for name in (*root.repositories, *root.namespaces))
        return list(dict.fromkeys(names))

    def judges(self, engine: SweepEngine) -> LifecycleEngine:
        """Where policies are judged: where the engine runs."""
        from lakesweep.lifecycle.engine import LocalEngine

        if engine.name == "local":
            return LocalEngine(self.stores)
        from lakesweep.lifecycle.spark_engine import SparkLifecycle
        from lakesweep.sweep.spark_engine import SparkEngine

        assert isinstance(engine, SparkEngine)
        return SparkLifecycle(engine.spark, engine.access)

    def _roots(self, kind: type[Root]) -> Iterator[Root]:
        for lake in self.config.lakes.values():
            yield from (root for root in lake.roots if isinstance(root, kind))

    @cached_property
    def storage_options(self) -> Mapping[str, StorageOptions]:
        """How each configured store is reached."""
        from lakesweep.storage.options import StorageOptions

        sections = self.config.storage.items()
        return {address: StorageOptions(**section.model_dump()) for address, section in sections}


def _load_kernels() -> None:
    """Load what compares files, which takes most of a second; whoever needs it sooner waits."""
    import pyarrow as pa

    from lakesweep.storage.file_hashes import file_hashes

    file_hashes(pa.array(["/"]))
