"""The process that Spark forks its Python workers from, with all loaded that they need.

Each worker would else load it for itself, which takes more than a second of its core. Spark runs
this by its name, as `spark.python.daemon.module`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from lakesweep.spare_pandas import spare_pandas

#: What every worker begins with, and what most tasks run, which stands above this package.
_BY_NAME = ("pyspark.worker", "lakesweep.sweep.spark_engine")


def load() -> None:
    """Load what kernels need, and the compiled ones among them."""
    spare_pandas()
    import pyarrow as pa

    import lakesweep.iceberg.marking
    import lakesweep.paimon.marking
    import lakesweep.storage.datasets
    import lakesweep.storage.listing  # noqa: F401
    from lakesweep.storage.file_hashes import file_hashes

    for name in _BY_NAME:
        import_module(name)
    file_hashes(pa.array(["/"]))
    gc.freeze()  # what never goes need not be looked at, nor copied by that, in any worker


def without_copies(path: Iterable[str]) -> list[str]:
    """A path of Python without the zips that pyspark has of itself, where it is installed.

    Spark puts them in front. What comes from there is compiled each time, and every worker reads
    the list of their files again for each of their folders: half a second of its core.
    """
    entries = list(path)
    copies = {Path(entry, "pyspark", "python", "lib") for entry in entries}
    return [entry for entry in entries if Path(entry).parent not in copies]


if __name__ == "__main__":
    sys.path[:] = without_copies(sys.path)
    sys.path_importer_cache.clear()
    load()
    from pyspark.daemon import manager

    manager()
