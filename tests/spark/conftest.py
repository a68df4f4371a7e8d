"""One Spark for all tests of this folder, on one worker of the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakesweep.config import SparkSection
from lakesweep.spark.access import Access
from lakesweep.spark.register import register
from lakesweep.spark.session import open_session

_HERE = Path(__file__).parent

#: Java that compiles little: tests are short.
QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes down all that it does, for its page of history."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(events: Path) -> Iterator[SparkSession]:
    """A local session that repeats a failed task, as clusters do."""
    logged = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(events),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    with open_session(SparkSection(master="local[2,2]", conf=QUICK | logged)) as session:
        yield session


@pytest.fixture(scope="session")
def access(spark: SparkSession) -> Access:
    """What tasks reach: local folders and memory. The data sources are registered."""
    return register(spark)
