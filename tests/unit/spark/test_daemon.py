from __future__ import annotations

from lakesweep.spark.daemon import without_copies


def test_workers_take_pyspark_from_where_it_is_installed() -> None:
    lib = "/venv/site-packages/pyspark/python/lib"
    path = ["", f"{lib}/pyspark.zip", f"{lib}/py4j-0.10.9.9-src.zip", "/venv/site-packages"]
    assert without_copies(path) == ["", "/venv/site-packages"]


def test_a_spark_that_is_not_installed_as_a_package_stays() -> None:
    path = ["/opt/spark/python/lib/pyspark.zip", "/job/pyspark/python/lib/a.zip", "/venv/lib"]
    assert without_copies(path) == path
