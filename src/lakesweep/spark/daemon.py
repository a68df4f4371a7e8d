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

#: Loaded by every worker and most tasks; by name, because they are in higher layers.
_BY_NAME = ("pyspark.worker", "lakesweep.sweep.engine.spark_engine")


def load() -> None:
    """Load what kernels need, compiled ones included."""
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
    gc.freeze()  # workers need not traverse these objects, which would copy their pages


def without_copies(path: Iterable[str]) -> list[str]:
    """`sys.path` without the zips of itself that pyspark adds, where it is installed.

    Spark puts them first. Modules in them are compiled on every import, and every worker reads
    their directories again: half a second of CPU time each.
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
