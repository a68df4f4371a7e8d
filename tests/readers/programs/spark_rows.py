"""Prints what Java's Paimon reads of tables on Spark: the rows of each snapshot and each tag.

Runs in an environment of its own: `spark_rows.py JAR WAREHOUSE STATEMENTS DATABASE.TABLE…`, where
the statements, parted by semicolons, are run before reading.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

_EXTENSIONS = "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions"


def session(jar: str, warehouse: str) -> SparkSession:
    settings = {
        "spark.jars": jar,
        "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.paimon.warehouse": warehouse,
        "spark.sql.extensions": _EXTENSIONS,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def rows(spark: SparkSession, query: str) -> list[dict[str, str]]:
    found = spark.sql(query).collect()
    return [{name: str(value) for name, value in row.asDict().items()} for row in found]


def owners(spark: SparkSession, full_name: str) -> dict[str, list[dict[str, str]]]:
    database, _, name = full_name.partition(".")
    table = f"paimon.{database}.{name}"
    numbers = rows(spark, f"SELECT snapshot_id AS it FROM paimon.{database}.`{name}$snapshots`")
    tags = rows(spark, f"SELECT tag_name AS it FROM paimon.{database}.`{name}$tags`")
    versions = {f"snapshot-{row['it']}": row["it"] for row in numbers}
    versions |= {f"tag-{row['it']}": f"'{row['it']}'" for row in tags}
    return {
        owner: rows(spark, f"SELECT * FROM {table} VERSION AS OF {version}")
        for owner, version in versions.items()
    }


def main(jar: str, warehouse: str, statements: str, names: list[str]) -> None:
    spark = session(jar, warehouse)
    for statement in filter(str.strip, statements.split(";")):
        spark.sql(statement)
    sys.stdout.write(json.dumps({name: owners(spark, name) for name in names}))


main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
