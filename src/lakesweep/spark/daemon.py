"""The process that Spark forks its Python workers from, with our libraries preloaded.

Otherwise each worker would load them itself, at more than a second of CPU time. Spark starts
this module by name, as `spark.python.daemon.module`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from lakesweep.no_pandas import disable_pandas

#: What every worker begins with, and what most tasks run, which stands above this package.
_BY_NAME = ("pyspark.worker", "lakesweep.sweep.engine.spark_engine")


def load() -> None:
    """Load what kernels need, and the compiled ones among them."""
    disable_pandas()
    import pyarrow as pa

    import lakesweep.iceberg.mark_levels
    import lakesweep.paimon.reach.mark_levels
    import lakesweep.storage.datasets.writer
    import lakesweep.storage.listing.locations  # noqa: F401
    from lakesweep.storage.file_identity import file_hashes

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
