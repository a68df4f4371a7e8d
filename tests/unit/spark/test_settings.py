""""""

from __future__ import annotations

import shlex
from pathlib import Path
from zipfile import ZipFile

import pytest

from lakesweep.config import SparkSection
from lakesweep.spark.settings import driver_settings, is_local, session_settings, zip_package

SCRATCH = Path("/scratch")


def settings(master: str, **conf: str) -> dict[str, str]:
    return driver_settings(SparkSection(conf=conf), master, SCRATCH)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,4]", "local[*,4]"])
def test_threads_of_one_process_are_local(master: str) -> None:
    assert is_local(master)


@pytest.mark.parametrize("master", ["spark://h:7077", "yarn", "k8s://h", "local-cluster[2,1,1024]"])
def test_clusters_are_not_local(master: str) -> None:
    assert not is_local(master)


def test_a_local_driver_listens_on_this_machine_only() -> None:
    found = settings("local[2]")
    assert found["spark.driver.bindAddress"] == found["spark.driver.host"] == "127.0.0.1"


def test_a_driver_of_a_cluster_can_be_reached() -> None:
    assert "spark.driver.bindAddress" not in settings("spark://h:7077")


@pytest.mark.parametrize("master", ["local[2]", "spark://h:7077"])
def test_no_driver_shows_a_page_or_a_bar(master: str) -> None:
    found = settings(master)
    assert found["spark.ui.enabled"] == found["spark.ui.showConsoleProgress"] == "false"


def test_what_the_user_sets_counts() -> None:
    found = settings("local[2]", **{"spark.ui.enabled": "true", "spark.driver.memory": "9g"})
    assert (found["spark.ui.enabled"], found["spark.driver.memory"]) == ("true", "9g")


def test_the_user_s_java_options_come_behind_ours() -> None:
    found = settings("local[2]", **{"spark.driver.extraJavaOptions": "-Xss4m"})
    log, *_, own = shlex.split(found["spark.driver.extraJavaOptions"])
    assert log.startswith("-Dlog4j2.configurationFile=file:")
    assert own == "-Xss4m"


def test_a_local_driver_compiles_its_code_once() -> None:
    found = settings("local[2]")["spark.driver.extraJavaOptions"]
    assert "-XX:TieredStopAtLevel=1" in found


def test_a_driver_of_a_cluster_has_java_s_own_ways() -> None:
    assert "-XX:" not in settings("spark://h:7077")["spark.driver.extraJavaOptions"]


def test_the_user_s_collector_is_the_only_one() -> None:
    found = settings("local[2]", **{"spark.driver.extraJavaOptions": "-XX:+UseG1GC"})
    assert found["spark.driver.extraJavaOptions"].count("GC") == 1


def test_local_workers_start_with_our_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert settings("local[2]")["spark.python.daemon.module"] == "lakesweep.spark.daemon"


def test_workers_of_another_python_start_as_spark_starts_them() -> None:
    found = settings("local[2]", **{"spark.pyspark.python": "python3"})
    assert "spark.python.daemon.module" not in found


def test_the_settings_of_java_s_log_are_there() -> None:
    option, *_ = shlex.split(settings("local[2]")["spark.driver.extraJavaOptions"])
    path = option.removeprefix("-Dlog4j2.configurationFile=file:")
    assert "rootLogger.level" in Path(path).read_text()


@pytest.mark.parametrize(("master", "count"), [("local", 16), ("local[2]", 16), ("local[8]", 32)])
def test_small_machines_shuffle_into_few_partitions(master: str, count: int) -> None:
    assert settings(master)["spark.sql.shuffle.partitions"] == str(count)


def test_nothing_is_written_where_the_user_stands() -> None:
    assert settings("local")["spark.sql.warehouse.dir"] == "/scratch/warehouse"


def test_a_session_elsewhere_gets_only_what_can_be_set_there() -> None:
    assert session_settings({"spark.sql.ansi.enabled": "true"}) == {
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
    }


def test_the_same_code_gives_the_same_zip(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    first, second = zip_package(one), zip_package(other)
    assert first is not None
    assert second is not None
    assert (first.name, first.read_bytes()) == (second.name, second.read_bytes())


def test_the_zip_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    path = zip_package(tmp_path)
    assert path is not None
    names = ZipFile(path).namelist()
    assert "lakesweep/spark/kernels.py" in names
    assert all(name.startswith("lakesweep/") and "__pycache__" not in name for name in names)
