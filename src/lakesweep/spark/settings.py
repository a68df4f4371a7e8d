"""The settings of a Spark session, and how many tasks it should run.

Ours are defaults; the user's settings win.

Executors that lack this package, or have another version, are sent it as a zip, first on the path
of Python workers. Its dependencies (pyarrow, numpy, numba and so on) must be installed where the
executors run.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakesweep.config import SparkSection


_LOCAL = re.compile(r"local(\[(?P<cores>\*|\d+)(,\s*(\d+|\*))?\])?")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
#: For any session; the user's own settings override them.
_USUAL = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
#: For a driver that we start.
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
#: For a driver whose executors are all inside it.
_ALONE = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
}
#: For the Java of this driver. Few rows pass through it, so optimised compilation does not pay off,
#: and there is little garbage for several threads to collect. By default it would reserve a share
#: of the memory at once; it still gets more when it needs more.
_BRIEF = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms32m")
_SHIPPED = "spark.lakesweep.shipped"
_SUFFIXES = {".py", ".properties", ".typed"}


def is_local(master: str) -> bool:
    """Whether a master means threads of one process."""
    return _LOCAL.fullmatch(master) is not None


def driver_settings(
    section: SparkSection, master: str, scratch: Path, java_options: Sequence[str] = ()
) -> dict[str, str]:
    """All settings of a driver to start; its files go to `scratch`."""
    settings = {
        **session_settings({}),
        **_QUIET,
        "spark.master": master,
        "spark.app.name": "lakesweep",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    asked = section.conf.get(_JAVA_OPTIONS, "")
    options = [_log_option(), *java_options]
    if is_local(master):
        settings |= _ALONE | {"spark.sql.shuffle.partitions": str(_local_partitions(master))}
        settings |= _own_workers(section.conf)
        options += _brief_options(asked)
    settings |= section.conf
    ours = " ".join(f'"{option}"' for option in options)
    settings[_JAVA_OPTIONS] = f"{ours} {asked}".rstrip()
    return settings


def _brief_options(asked: str) -> list[str]:
    """Options for a short life; without our collector if the user sets one: Java takes only one."""
    has_own = _COLLECTOR.search(asked) is not None
    return [option for option in _BRIEF if not (has_own and _COLLECTOR.match(option))]


def _own_workers(conf: Mapping[str, str]) -> dict[str, str]:
    """Start workers with our libraries loaded, if their Python is ours."""
    if "PYSPARK_PYTHON" in os.environ or "spark.pyspark.python" in conf:
        return {}
    return {"spark.python.daemon.module": "lakesweep.spark.daemon"}


def session_settings(conf: Mapping[str, str]) -> dict[str, str]:
    """What can be set on a session of a running server."""
    return {**_USUAL, **conf}


def _local_partitions(master: str) -> int:
    """Enough for Spark to coalesce small ones, and few enough to cost nothing."""
    found = _LOCAL.fullmatch(master)
    cores = (found and found["cores"]) or "1"
    return max(16, 4 * ((os.cpu_count() or 1) if cores == "*" else int(cores)))


def _log_option() -> str:
    return f"-Dlog4j2.configurationFile=file:{resources.files(__package__) / 'log4j2.properties'}"


#: Enough for a small cluster to have something to do, and few enough to cost little.
_FEWEST_PARTS = 32
_PARTS_A_CORE = 6
#: The cores of one machine are equally fast.
_PARTS_A_CORE_ALONE = 3
_MOST_CORES = 1 << 16


def suggested_tasks(spark: SparkSession) -> int:
    """How many tasks are worthwhile in a session."""
    cores = session_cores(spark)
    if is_in_process(spark):
        return _PARTS_A_CORE_ALONE * cores
    return max(_FEWEST_PARTS, _PARTS_A_CORE * cores)


def session_cores(spark: SparkSession) -> int:
    """How many tasks run at once, as far as Spark knows so far."""
    if not is_remote(spark):
        return spark.sparkContext.defaultParallelism
    # A server does not report it, but splits a range into that many partitions.
    cut = spark.range(_MOST_CORES).selectExpr("spark_partition_id() as part")
    return cut.distinct().count()


def is_in_process(spark: SparkSession) -> bool:
    """Whether all executors run in this process."""
    return not is_remote(spark) and is_local(spark.sparkContext.master or "")


def ship_package(spark: SparkSession, folder: Path) -> None:
    """Let all executors of a session import this package; `folder` must outlive the session.

    A second call does nothing: Spark refuses to add a file twice.
    """
    path = zip_package(folder)
    if path is not None and path.name not in _shipped(spark):
        spark.addArtifacts(str(path), pyfile=True)
        spark.conf.set(_SHIPPED, path.name)


def _shipped(spark: SparkSession) -> set[str]:
    """The names of shipped files: per cluster for all its sessions, else per session."""
    names = {spark.conf.get(_SHIPPED, None) or ""}
    if not is_remote(spark):
        names |= {Path(path).name for path in spark.sparkContext.listFiles}
    return names


def is_remote(spark: SparkSession) -> bool:
    """Whether a session uses Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def zip_package(folder: Path) -> Path | None:
    """The package as a zip in `folder`; the same code gives the same bytes.

    None if the package itself runs from a zip: then it was shipped already.
    """
    package = Path(__file__).parents[1]
    if not package.is_dir():
        return None
    files = sorted(path for path in package.rglob("*") if path.suffix in _SUFFIXES)
    contents = {str(path.relative_to(package.parent)): path.read_bytes() for path in files}
    digest = hashlib.sha256(repr(contents).encode()).hexdigest()[:16]
    target = folder / f"lakesweep-{digest}.zip"
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(ZipInfo(name), data, ZIP_DEFLATED)
    return target
