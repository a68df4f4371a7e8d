"""Lakesweep's data sources in a user's own Spark session."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from types import MappingProxyType
from typing import Any

from pyspark.sql import SparkSession

from lakesweep.spark.access import Access
from lakesweep.spark.datasets import DatasetSource
from lakesweep.spark.iceberg_files import IcebergFilesSource
from lakesweep.spark.listing import ListingSource
from lakesweep.spark.settings import is_local
from lakesweep.spark.shipping import is_remote, ship_package
from lakesweep.spark.sources import bind
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.stores import Stores

SOURCES = (ListingSource, IcebergFilesSource, DatasetSource)

_NOTHING: Mapping[str, Any] = MappingProxyType({})
#: Enough for a small cluster to have something to do, and few enough to cost little.
_FEWEST_PARTS = 32
_PARTS_A_CORE = 6
_MOST_CORES = 1 << 16


def register(
    spark: SparkSession,
    *,
    storage: Mapping[str, StorageOptions | Mapping[str, Any]] = _NOTHING,
    catalogs: Mapping[str, Mapping[str, str]] = _NOTHING,
    ship: bool | None = None,
) -> Access:
    """Make `lakesweep.listing`, `lakesweep.iceberg-files` and `lakesweep.dataset` known to Spark.

    `storage` and `catalogs` are as in the configuration: options by bucket, and the properties of
    Iceberg catalogs by name. They travel inside the sources, and are shown nowhere. `ship` brings
    this package to the executors; by default wherever they may be on other machines.
    """
    options = {path: _options(option) for path, option in storage.items()}
    access = Access(Stores(options), dict(catalogs), parts_for(spark))
    if ship or (ship is None and not is_alone(spark)):
        ship_package(spark, Path(mkdtemp(prefix="lakesweep-package-")))
    register_sources(spark, access)
    return access


def register_sources(spark: SparkSession, access: Access) -> None:
    """Make the data sources known to Spark, with an access that is there already."""
    for source in SOURCES:
        spark.dataSource.register(bind(source, access))


def parts_for(spark: SparkSession) -> int:
    """How many tasks are worth having in a session."""
    wanted = _PARTS_A_CORE * cores_of(spark)
    return wanted if is_alone(spark) else max(_FEWEST_PARTS, wanted)


def cores_of(spark: SparkSession) -> int:
    """How many tasks run at once, as far as Spark knows by now."""
    if not is_remote(spark):
        return spark.sparkContext.defaultParallelism
    # A server does not say it, but cuts a range into as many parts.
    cut = spark.range(_MOST_CORES).selectExpr("spark_partition_id() as part")
    return cut.distinct().count()


def is_alone(spark: SparkSession) -> bool:
    """Whether all executors are in this very process."""
    return not is_remote(spark) and is_local(spark.sparkContext.master or "")


def _options(option: StorageOptions | Mapping[str, Any]) -> StorageOptions:
    return option if isinstance(option, StorageOptions) else StorageOptions(**option)
