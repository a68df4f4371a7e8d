"""The same job on local threads, on a cluster of several processes, and over Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.spark.settings import zip_package
from tests.lakefs import RealRepositories
from tests.spark import job
from tests.spark.conftest import HOME, QUICK, archived_java, on_cluster
from tests.spark.job import Expired, Found


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("anywhere") / "lake"
    for number in range(200):
        file = folder / f"t{number % 3}" / f"day={number % 11}" / f"{number} é.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * number)
    return folder


@pytest.fixture(scope="module")
def local(
    spark: SparkSession,
    access: ExecutorAccess,
    lake: Path,
    lakefs_repositories: RealRepositories,
    tmp_path_factory: pytest.TempPathFactory,
) -> Found:
    target = tmp_path_factory.mktemp("local")
    return job.run(spark, access, str(lake), str(target), str(lakefs_repositories.folder))


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has the libraries which we stand on, and not this package."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    # A folder that is named like this is searched, but the .pth files in it are not read, and it
    # is by such a file that this package is installed.
    Path(packages, "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"


def run_job(
    section: dict[str, Any], lake: Path, real: RealRepositories, folder: Path, **variables: str
) -> Found:
    """Run the job in a process of its own, which must not say a word beside its answer."""
    places = {"lake": str(lake), "target": str(folder), "repositories": str(real.folder)}
    given = json.dumps({"section": section, **places})
    environment = {**os.environ, **variables, "PYTHONPATH": str(Path.cwd())}
    stand = folder / "stand"
    stand.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.job", given],
        capture_output=True,
        text=True,
        env=environment,
        cwd=stand,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(stand.iterdir())
    found = json.loads(done.stdout)
    return Found(**{**found, "expired": Expired(**found["expired"])})


def check(found: Found, local: Found) -> None:
    assert found.rows == local.rows
    assert found.committed == 200
    assert found.error == local.error
    assert found.expired == local.expired
    assert all(".zip" in package for package in found.packages)


def test_the_package_is_not_there_without_being_shipped(bare_python: Path) -> None:
    command = [str(bare_python), "-c", "import pyarrow, lakesweep"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "No module named 'lakesweep'" in done.stderr


def test_the_job_finds_all_files_locally(local: Found, lake: Path) -> None:
    files = [path for path in lake.rglob("*") if path.is_file()]
    assert {path: row[0] for path, row in local.rows.items()} == {
        str(file): file.stat().st_size for file in files
    }
    assert local.error.startswith("MissingError: /nowhere/at/all")


def test_the_job_expires_locally_what_one_process_would(
    local: Found, lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    office = job.open_office(str(lakefs_repositories.folder), str(tmp_path))
    assert local.expired == job.expire(office)
    said = local.expired.reasons
    assert local.expired.kept_by_remark == 1
    assert len(local.expired.gone) == local.expired.deleted == [*said.values()].count("expired") - 1


def test_a_cluster_without_the_package_finds_the_same(
    cluster: str,
    lake: Path,
    lakefs_repositories: RealRepositories,
    local: Found,
    bare_python: Path,
    tmp_path: Path,
) -> None:
    section = {"master": cluster, "conf": on_cluster()}
    python = str(bare_python)
    check(run_job(section, lake, lakefs_repositories, tmp_path, PYSPARK_PYTHON=python), local)


def test_spark_connect_without_the_package_finds_the_same(
    lake: Path,
    lakefs_repositories: RealRepositories,
    local: Found,
    bare_python: Path,
    tmp_path: Path,
) -> None:
    section = {"remote": "local[2]", "conf": QUICK}
    python = str(bare_python)
    check(run_job(section, lake, lakefs_repositories, tmp_path, PYSPARK_PYTHON=python), local)


SUBMITTED = """\
import sys

from pyspark.sql import SparkSession

from lakesweep.spark.register import register

spark = SparkSession.builder.getOrCreate()
register(spark, ship=True)
print(spark.read.format("lakesweep.listing").load(sys.argv[1]).count())
spark.stop()
"""


def test_a_job_gets_the_package_by_py_files(lake: Path, bare_python: Path, tmp_path: Path) -> None:
    package = zip_package(tmp_path)
    script = tmp_path / "job.py"
    script.write_text(SUBMITTED)
    settings = {
        "spark.driver.extraJavaOptions": archived_java(),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
    }
    done = subprocess.run(
        [
            *(str(HOME / "bin" / "spark-submit"), "--master", "local[1]"),
            *(word for item in settings.items() for word in ("--conf", "=".join(item))),
            *("--py-files", str(package), str(script), str(lake)),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": str(bare_python), "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "200\n"), done.stderr
