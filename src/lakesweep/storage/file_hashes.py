"""Hashes by which files are told apart: equal for all names of one file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakesweep.hashing import Hashes, hash128
from lakesweep.storage.address import identities
from lakesweep.storage.local.aliases import resolve


def file_hashes(paths: pa.Array | pa.ChunkedArray) -> Hashes:
    """The hashes of what paths stand for: their identities, with all local links resolved."""
    return hash128(resolve(identities(paths)))


def hash_columns(hashes: Hashes) -> tuple[pa.Array, pa.Array]:
    """Hashes as columns of signed words, which Arrow and Spark can both join on."""
    low, high = hashes
    return pa.array(low.view(np.int64)), pa.array(high.view(np.int64))


def source_numbers(hashes: Hashes) -> pa.Array:
    """The numbers by which files that name others are known: the low 63 bits of their hashes."""
    return pa.array((hashes[0] & np.uint64(2**63 - 1)).view(np.int64))
