"""Hashes of 128 bits over columns of strings, and sets of them.

Two different strings share a hash with a probability of about n²/2¹²⁹ among n strings: a set of
hashes may stand for a set of strings, at 16 bytes each.
"""

from __future__ import annotations

from lakesweep.hashing.hashset import HashSet
from lakesweep.hashing.order import hash_order
from lakesweep.hashing.strings import Hashes, hash128, hash_names

__all__ = ["HashSet", "Hashes", "hash128", "hash_names", "hash_order"]
