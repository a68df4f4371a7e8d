"""Iceberg's `remove_orphan_files` on one table; run by the Python of `.peers`, which has its Spark.

    python benchmarks/sweep_peer.py JAR WAREHOUSE CORES dry|real

Prints seconds and the number of files as JSON.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import SparkSession

_CALL = (
    "CALL lake.system.remove_orphan_files(table => 'db.t', dry_run => {}, "
    "older_than => TIMESTAMP '{}')"
)
_DAY_SECONDS = 86_400


def main() -> None:
    jar, warehouse, cores, how = sys.argv[1:]
    begin = time.perf_counter()
    spark = _session(jar, warehouse, cores)
    started = time.perf_counter()
    moment = time.gmtime(time.time() - 7 * _DAY_SECONDS)
    older_than = time.strftime("%Y-%m-%d %H:%M:%S", moment)
    answer = spark.sql(_CALL.format(str(how == "dry").lower(), older_than))
    files = answer.count()
    done = time.perf_counter()
    spark.stop()
    print(json.dumps({"files": files, "start": started - begin, "call": done - started}))


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
