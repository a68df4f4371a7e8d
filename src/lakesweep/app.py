"""All wiring: configuration in, components out."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lakesweep.clock import Clock, SystemClock
from lakesweep.config import (
    Config,
    IcebergCatalogRoot,
    IcebergMetadataRoot,
    LakefsRoot,
    PaimonWarehouseRoot,
    PinnedRoot,
)
from lakesweep.progress import SILENT, Progress

if TYPE_CHECKING:
    from lakesweep.iceberg.targets import IcebergTargets
    from lakesweep.storage.options import StorageOptions
    from lakesweep.storage.stores import Stores
    from lakesweep.store import Store
    from lakesweep.sweep.engine import SweepEngine
    from lakesweep.sweep.lake import Lake
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
        self.folder = folder or Path.cwd()
        self.clock = clock or SystemClock()
        self.progress = progress

    @cached_property
    def store_url(self) -> str:
        """The database of the store; the same one from every folder."""
        from lakesweep.store.urls import anchored

        return anchored(self.config.store.url, self.folder)

    @cached_property
    def store(self) -> Store:
        """What Lakesweep remembers. SchemaError before `lakesweep store init`."""
        from lakesweep.store import Store
        from lakesweep.sweep.records import TYPES

        store = Store.open(self.store_url, types=TYPES, clock=self.clock)
        if not store.backend.capabilities.durable:
            store.create_realm(self.config.store.realm)  # nobody else could have done it
        return store

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

    def lake(self, name: str) -> Lake:
        """A lake of the configuration."""
        from lakesweep.sweep.lake import find_lake

        return find_lake(self.config.lakes, name, str(self.folder / ".lakesweep" / "plans"))

    @contextmanager
    def engine(self, name: str, *, verbose: bool = False) -> Iterator[SweepEngine]:
        """Where a sweep runs: `local` in this process, `spark` in a session that ends with it."""
        if name == "local":
            from lakesweep.sweep.engine import LocalEngine

            yield LocalEngine(self.stores)
            return
        from lakesweep.spark.access import Access
        from lakesweep.spark.register import parts_for
        from lakesweep.spark.session import open_session
        from lakesweep.sweep.spark_engine import SparkEngine

        # Java takes its time to start, and most of it another core's.
        threading.Thread(target=_load_kernels, daemon=True).start()
        with ExitStack() as stack:
            with self.progress.task("starting Spark", unit=""):
                spark = stack.enter_context(open_session(self.config.spark, verbose=verbose))
            yield SparkEngine(spark, Access(self.stores, self.catalogs, parts_for(spark)))

    def close(self) -> None:
        """Let go of the store, if anybody used it."""
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

        files = [path for root in self._roots(IcebergMetadataRoot) for path in root.files]
        pins = [root.file for root in self._roots(PinnedRoot)]
        strangers = Strangers(
            tuple(root.path for root in self._roots(PaimonWarehouseRoot)),
            tuple(f"lakefs {root.endpoint}" for root in self._roots(LakefsRoot)),
        )
        return IcebergTargets(
            self.stores, self.catalogs, files, pins, strangers, progress=self.progress
        )

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
