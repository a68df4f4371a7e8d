"""What Spark itself does with rows in a lifecycle run: it chooses ranges, and moves packed rows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812


def each_once(edges: DataFrame) -> DataFrame:
    """The ranges of metaranges (EDGES), each once."""
    return edges.groupBy("range_id").agg(
        F.min("min_key").alias("min_key"), F.max("count").alias("count")
    )


def not_parsed(ranges: DataFrame, parsed: DataFrame) -> DataFrame:
    """The ranges that were not parsed yet (PARSED)."""
    return ranges.join(parsed.select("range_id"), "range_id", "left_anti")


def beside_neighbours(ranges: DataFrame, parts: int) -> DataFrame:
    """Ranges in so many parts, next to those that begin with the same keys."""
    return ranges.repartitionByRange(parts, "min_key", "range_id").sortWithinPartitions(
        "min_key", "range_id"
    )


def bring_together(packed: DataFrame, parts: int) -> DataFrame:
    """Packed rows (PACKED) in so many parts: all of a bucket in one."""
    return packed.repartition(parts, "bucket")
