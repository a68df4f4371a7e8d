"""128-bit hashes of string columns, and sets of them.

Two of n different strings share a hash with a probability of about n²/2¹²⁹, so a set of hashes
can stand for a set of strings at 16 bytes each.
"""

from __future__ import annotations

from lakesweep.hashing.hash_set import HashSet
from lakesweep.hashing.strings import Hashes, hash128, hash_names, hash_order

__all__ = ["HashSet", "Hashes", "hash128", "hash_names", "hash_order"]
