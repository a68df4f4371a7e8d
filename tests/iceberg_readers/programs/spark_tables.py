"""Writes tables with Iceberg on Spark, or reads every snapshot; run by the Python of `.peers`.

    python spark_tables.py JAR WAREHOUSE write|read

Prints as JSON the rows of each snapshot of each table.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

_MERGE_ON_READ = (
    "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read',"
    " 'commit.manifest-merge.enabled'='false'"
)
_TABLES = {
    "one": "PARTITIONED BY (p) TBLPROPERTIES ('format-version'='1',"
    " 'commit.manifest-merge.enabled'='false')",
    "two": f"PARTITIONED BY (days(at)) TBLPROPERTIES ('format-version'='2', {_MERGE_ON_READ})",
    "three": f"PARTITIONED BY (days(at)) TBLPROPERTIES ('format-version'='3', {_MERGE_ON_READ})",
    "upgraded": "TBLPROPERTIES ('format-version'='1', 'commit.manifest-merge.enabled'='false')",
}


def main() -> None:
    jar, warehouse, what = sys.argv[1:]
    spark = _session(jar, warehouse)
    if what == "write":
        for name in _TABLES:
            _write(spark, name)
    sys.stdout.write(json.dumps({name: _read(spark, name) for name in _TABLES}) + "\n")
    spark.stop()


def _write(spark: SparkSession, name: str) -> None:
    table = f"lake.db.{name}"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, p STRING, at TIMESTAMP) USING iceberg {_TABLES[name]}"
    )
    for day in range(1, 6):
        values = ", ".join(
            f"({day * 10 + each}, '{'ab'[each % 2]}', TIMESTAMP '2026-01-0{day} 0{each}:00:00')"
            for each in range(4)
        )
        spark.sql(f"INSERT INTO {table} VALUES {values}")
    if name == "upgraded":
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version'='3')")
        spark.sql(f"INSERT INTO {table} VALUES (99, 'a', TIMESTAMP '2026-01-09 00:00:00')")
    if name in ("two", "three"):
        spark.sql(f"DELETE FROM {table} WHERE id IN (11, 21, 31)")
        spark.sql(f"UPDATE {table} SET p = 'c' WHERE id = 42")
    spark.sql(f"ALTER TABLE {table} CREATE TAG middle")
    spark.sql(f"INSERT INTO {table} VALUES (77, 'b', TIMESTAMP '2026-01-05 07:00:00')")


def _read(spark: SparkSession, name: str) -> dict[str, list[str]]:
    table = f"lake.db.{name}"
    ids = [row[0] for row in spark.sql(f"SELECT snapshot_id FROM {table}.snapshots").collect()]
    version = spark.sql(f"SHOW TBLPROPERTIES {table}").collect()
    has_rows = any(row[0] == "format-version" and row[1] == "3" for row in version)
    # One query for all snapshots: planning takes far longer than reading a few rows.
    reads = (f"SELECT {each} AS s, * FROM {table} VERSION AS OF {each}" for each in ids)
    found: dict[str, list[str]] = {str(each): [] for each in ids}
    for snapshot, *row in spark.sql(" UNION ALL ".join(reads)).collect():
        found[str(snapshot)].append(str(tuple(row)))
    columns = "id, _row_id, _last_updated_sequence_number" if has_rows else "id"
    rows = spark.sql(f"SELECT {columns} FROM {table}").collect()
    found["head"] = sorted(str(tuple(row)) for row in rows)
    files = spark.sql(f"SELECT count(*) FROM {table}.manifests").collect()
    found["manifests"] = [str(files[0][0])]
    return found


def _session(jar: str, warehouse: str) -> SparkSession:
    settings = {
        "spark.jars": jar,
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": warehouse,
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main()
