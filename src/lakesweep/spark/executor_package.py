"""Ship this package to executors that lack it or have another version.

The package goes as a zip, first on the path of Python workers. Its dependencies (pyarrow,
numpy, numba and so on) must be installed where the executors run.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHIPPED = "spark.lakesweep.shipped"
_SUFFIXES = {".py", ".properties", ".typed"}


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
