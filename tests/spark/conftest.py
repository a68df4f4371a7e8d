"""One Spark for all tests of this folder, on one worker of the run; one cluster, one server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from re import Match

import pyspark
import pytest
from pyspark.sql import SparkSession

from lakesweep.config import SparkSection
from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.spark.java import find_java
from lakesweep.spark.register import register
from lakesweep.spark.session import find_archive, open_session
from tests.processes import free_port, running, scratch_folder

_HERE = Path(__file__).parent
HOME = Path(pyspark.__file__).parent

#: Java that compiles little: tests are short.
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK = {"spark.driver.extraJavaOptions": _QUICK_JAVA}


#: Where the commands of these tests cache what they make; it outlives a run.
CACHE = _HERE.parents[1] / ".pytest_cache" / "lakesweep"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if item.path.is_relative_to(_HERE)]
    for item in here:
        item.add_marker(pytest.mark.xdist_group("spark"))
    # The doctor makes an archive of Java's classes, with which all later drivers start faster.
    places = [place for place, item in enumerate(items) if item in here]
    for place, item in zip(places, sorted(here, key=_is_later), strict=True):
        items[place] = item


def _is_later(item: pytest.Item) -> bool:
    return item.get_closest_marker("first") is None


@pytest.fixture(scope="session", autouse=True)
def _cache() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(CACHE))
        yield


def archived_java() -> str:
    """Options for a Java that is not started by us, with the archive if the doctor made one."""
    return " ".join([_QUICK_JAVA, *find_archive(find_java()[0]).reading])


def on_cluster() -> dict[str, str]:
    """What a driver needs to use the cluster of these tests."""
    return {
        **QUICK,
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": archived_java(),
    }


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
def access(spark: SparkSession) -> ExecutorAccess:
    """What tasks reach: local folders and memory. The data sources are registered."""
    return register(spark)


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    with standalone_cluster() as master:
        yield master


@contextmanager
def standalone_cluster() -> Iterator[str]:
    """A master and two workers, each a process of its own; gives the master's address."""
    with scratch_folder("spark") as scratch, ExitStack() as servers:
        port = free_port()
        master = f"spark://127.0.0.1:{port}"
        servers.enter_context(_daemon(scratch, "master.Master", "--port", str(port)))
        for number in (1, 2):
            arguments = ["--cores", "1", "--memory", "1g", "--work-dir", f"{scratch}/{number}"]
            servers.enter_context(_daemon(scratch, "worker.Worker", *arguments, master))
        yield master


@pytest.fixture(scope="session")
def connect_server() -> Iterator[str]:
    """A server of Spark Connect that knows nothing of us; gives its address."""
    port = free_port()
    settings = {
        "spark.driver.extraJavaOptions": archived_java(),
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    command = [
        *("env", "SPARK_LOCAL_IP=127.0.0.1", f"PYSPARK_PYTHON={sys.executable}"),
        *(str(HOME / "bin" / "spark-submit"), "--master", "local[2]"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *(word for item in settings.items() for word in ("--conf", "=".join(item))),
        "spark-internal",
    ]
    with (
        scratch_folder("connect") as scratch,
        running(command, scratch / "log", "Spark Connect server started"),
    ):
        yield f"sc://127.0.0.1:{port}"


def _daemon(scratch: Path, name: str, *arguments: str) -> AbstractContextManager[Match[str]]:
    started = {"master.Master": "I have been elected leader", "worker.Worker": "registered with"}
    command = [
        *("env", "SPARK_LOCAL_IP=127.0.0.1", f"SPARK_DAEMON_JAVA_OPTS={archived_java()}"),
        *(str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"),
        *("--host", "127.0.0.1", "--webui-port", "0", *arguments),
    ]
    log = scratch / f"{name}-{free_port()}.log"
    return running(command, log, rf"(?i){started[name]}")
