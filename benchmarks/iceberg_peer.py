"""Iceberg's own upkeep of one table; run by the Python of `.peers`, which has its Spark.

    python benchmarks/iceberg_peer.py JAR WAREHOUSE CORES orphans|orphans-dry|expire

Works on `db.t`: `remove_orphan_files`, or `expire_snapshots` down to one snapshot. Prints as JSON
the seconds until Spark was ready, those of the call, and how many files it found or deleted.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import SparkSession

_EXPIRE = (
    "CALL lake.system.expire_snapshots(table => 'db.t', older_than => TIMESTAMP '{}',"
    " retain_last => 1, max_concurrent_deletes => 8)"
)
_ORPHANS = (
    "CALL lake.system.remove_orphan_files(table => 'db.t', dry_run => {}, "
    "older_than => TIMESTAMP '{}')"
)
_DAY_SECONDS = 86_400


def main() -> None:
    jar, warehouse, cores, task = sys.argv[1:]
    begin = time.perf_counter()
    spark = _session(jar, warehouse, cores)
    started = time.perf_counter()
    files = _expire(spark) if task == "expire" else _orphans(spark, task)
    done = time.perf_counter()
    spark.stop()
    print(json.dumps({"files": files, "start": started - begin, "call": done - started}))


def _expire(spark: SparkSession) -> int:
    (row,) = spark.sql(_EXPIRE.format(_moment(0))).collect()
    return int(row[0])


def _orphans(spark: SparkSession, task: str) -> int:
    dry = str(task == "orphans-dry").lower()
    return spark.sql(_ORPHANS.format(dry, _moment(7 * _DAY_SECONDS))).count()


def _moment(age_seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() - age_seconds))


def _session(jar: str, warehouse: str, cores: str) -> SparkSession:
    settings = {
        "spark.jars": jar,
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "16",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": warehouse,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master(f"local[{cores}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main()
