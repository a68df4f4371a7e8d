"""Paimon's own clean-up by Java on Spark; run by the Python of `.paimon-readers/spark`.

    python benchmarks/paimon_peer.py JAR WAREHOUSE CORES dry|real|expire

Calls the procedure on `db.t`, and prints as JSON the seconds until Spark was ready and those of the
call.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import SparkSession

_DAY_SECONDS = 86_400
_ORPHANS = (
    "CALL paimon.sys.remove_orphan_files(table => 'db.t', older_than => '{cut}', dry_run => {dry})"
)
_EXPIRE = (
    "CALL paimon.sys.expire_snapshots(table => 'db.t', retain_max => 1, retain_min => 1, "
    "max_deletes => 100000)"
)


def main() -> None:
    jar, warehouse, cores, how = sys.argv[1:]
    begin = time.perf_counter()
    spark = _session(jar, warehouse, cores)
    spark.sql("SHOW DATABASES IN paimon").collect()
    ready = time.perf_counter()
    spark.sql(_EXPIRE if how == "expire" else _orphans(how)).collect()
    call = time.perf_counter() - ready
    spark.stop()
    print(json.dumps({"start": ready - begin, "call": call}))


def _orphans(how: str) -> str:
    moment = time.localtime(time.time() - 7 * _DAY_SECONDS)
    return _ORPHANS.format(cut=time.strftime("%Y-%m-%d %H:%M:%S", moment), dry=how == "dry")


def _session(jar: str, warehouse: str, cores: str) -> SparkSession:
    settings = {
        "spark.jars": jar,
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.paimon.warehouse": warehouse,
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master(f"local[{cores}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main()
