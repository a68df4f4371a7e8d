from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.pandas import functions as pandas_functions

from lakesweep.errors import SparkLostError, SparkSetupError
from lakesweep.spark.driver import PANDAS_CHECK, _property, _start_error

SAID = """WARNING: Using incubator modules: jdk.incubator.vector
Exception in thread "main" org.apache.spark.SparkException: Could not parse 'x'
\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)
"""


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("spark.a", "b", "spark.a=b\n"),
        ("spark.a", "x=y:z # é", "spark.a=x=y:z # é\n"),
        ("spark.a", "C:\\x", "spark.a=C:\\\\x\n"),
        ("spark.a", "  led", "spark.a=\\  led\n"),
        ("spark.a", "two\nlines", "spark.a=two\\nlines\n"),
        ("spark.a b=c:d", "", "spark.a\\ b\\=c\\:d=\n"),
    ],
)
def test_settings_are_written_as_java_reads_them(key: str, value: str, line: str) -> None:
    assert _property((key, value)) == line


def test_why_java_did_not_start_is_found_in_what_it_said(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(SAID)
    found = _start_error(RuntimeError("the gateway is gone"), tmp_path / "log")
    assert (type(found), found.message) == (
        SparkSetupError,
        "Spark did not start: Could not parse 'x'",
    )


def test_where_java_said_nothing_the_error_itself_is_told(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    found = _start_error(RuntimeError("All masters are unresponsive! Giving up."), tmp_path / "log")
    assert (type(found), "Giving up" in found.message) == (SparkLostError, True)


def test_what_pyspark_looks_at_pandas_with_is_what_the_driver_takes_away() -> None:
    assert callable(vars(pandas_functions)[PANDAS_CHECK])
