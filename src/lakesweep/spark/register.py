"""Register Lakesweep's data sources in a user's own Spark session."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from types import MappingProxyType
from typing import Any

from pyspark.sql import SparkSession

from lakesweep.spark.data_source import IcebergFilesSource, ListingSource, bind_access
from lakesweep.spark.datasets import DatasetSource
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.spark.settings import is_in_process, ship_package, suggested_tasks
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.stores import Stores

SOURCES = (ListingSource, IcebergFilesSource, DatasetSource)

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def register(
    spark: SparkSession,
    *,
    storage: Mapping[str, StorageOptions | Mapping[str, Any]] = _NOTHING,
    catalogs: Mapping[str, Mapping[str, str]] = _NOTHING,
    ship: bool | None = None,
) -> ExecutorAccess:
    """Register `lakesweep.listing`, `lakesweep.iceberg-files` and `lakesweep.dataset`.

    `storage` and `catalogs` are as in the configuration: options by bucket, and the properties of
    Iceberg catalogs by name. They travel inside the sources and are shown nowhere. `ship` sends
    this package to the executors; by default if they may run on other machines.
    """
    options = {path: _options(option) for path, option in storage.items()}
    access = ExecutorAccess(Stores(options), dict(catalogs), suggested_tasks(spark))
    if ship or (ship is None and not is_in_process(spark)):
        ship_package(spark, Path(mkdtemp(prefix="lakesweep-package-")))
    register_sources(spark, access)
    return access


def register_sources(spark: SparkSession, access: ExecutorAccess) -> None:
    """Register the data sources with an existing access."""
    for source in SOURCES:
        spark.dataSource.register(bind_access(source, access))


def _options(option: StorageOptions | Mapping[str, Any]) -> StorageOptions:
    return option if isinstance(option, StorageOptions) else StorageOptions(**option)
