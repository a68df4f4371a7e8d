"""The process that Spark forks its Python workers from, with all loaded that they need.

Each worker would else load it for itself, which takes more than a second of its core. Spark runs
this by its name, as `spark.python.daemon.module`.
"""

from __future__ import annotations

import gc

from lakesweep.spare_pandas import spare_pandas


def load() -> None:
    """Load what kernels need, and the compiled ones among them."""
    spare_pandas()
    import pyarrow as pa

    import lakesweep.iceberg.marking
    import lakesweep.paimon.marking
    import lakesweep.storage.datasets
    import lakesweep.storage.listing  # noqa: F401
    from lakesweep.storage.file_hashes import file_hashes

    file_hashes(pa.array(["/"]))
    gc.freeze()  # what never goes need not be looked at, nor copied by that, in any worker


if __name__ == "__main__":
    load()
    from pyspark.daemon import manager

    manager()
