"""How many tasks a session runs at once, and how many are worth having."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesweep.spark.settings import is_local
from lakesweep.spark.shipping import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Enough for a small cluster to have something to do, and few enough to cost little.
_FEWEST_PARTS = 32
_PARTS_A_CORE = 6
#: Cores of one machine are about as fast as each other.
_PARTS_A_CORE_ALONE = 3
_MOST_CORES = 1 << 16


def parts_for(spark: SparkSession) -> int:
    """How many tasks are worth having in a session."""
    cores = cores_of(spark)
    if is_alone(spark):
        return _PARTS_A_CORE_ALONE * cores
    return max(_FEWEST_PARTS, _PARTS_A_CORE * cores)


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
