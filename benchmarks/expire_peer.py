"""Iceberg's `expire_snapshots` on one table; run by the Python of `.peers`, which has its Spark.

    python benchmarks/expire_peer.py JAR WAREHOUSE CORES

Keeps one snapshot of `db.t`. Prints as JSON the seconds until Spark was ready, those of the call,
and how many data files it deleted.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import SparkSession

_CALL = (
    "CALL lake.system.expire_snapshots(table => 'db.t', older_than => TIMESTAMP '{}',"
    " retain_last => 1, max_concurrent_deletes => 8)"
)


def main() -> None:
    jar, warehouse, cores = sys.argv[1:]
    begin = time.perf_counter()
    spark = _session(jar, warehouse, cores)
    ready = time.perf_counter()
    now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    (row,) = spark.sql(_CALL.format(now)).collect()
    call = time.perf_counter() - ready
    spark.stop()
    print(json.dumps({"start": ready - begin, "call": call, "data_files": row[0]}))


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
