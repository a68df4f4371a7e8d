"""Which of the files that entries add and delete are live in the end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import Hashes


def identities(paths: pa.Array, entries: pa.RecordBatch) -> pa.Array:
    """What an ADD and a DELETE must have in common to be of one file, as texts.

    Partition, bucket, name and external path are in the file's own path.
    """
    parts = [
        paths.cast(pa.binary()),
        entries["level"].cast(pa.string()).cast(pa.binary()),
        pc.binary_join(entries["extra_files"].fill_null([]), "\n").cast(pa.binary()),
        entries["embedded_index"].fill_null(b""),
    ]
    joined = pc.binary_join_element_wise(*parts, pa.scalar(b"\0", pa.binary()))
    return joined.view(pa.string())  # only its bytes matter: it goes straight to be hashed


def live_places(identities: Hashes, is_added: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Of each identity that is added more often than deleted, a place where it is added."""
    if not len(is_added):
        return np.empty(0, np.int64)
    order = np.lexsort((~is_added, *identities))
    low, high = identities[0][order], identities[1][order]
    firsts = np.flatnonzero(np.r_[True, (low[1:] != low[:-1]) | (high[1:] != high[:-1])])
    signs = np.where(is_added, 1, -1)[order]
    return order[firsts[np.add.reduceat(signs, firsts) > 0]]
