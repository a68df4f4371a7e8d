"""Ordered maps from byte strings to values, embedded in commit objects and spread over nodes.

An index is an immutable value. Its newest entries are embedded in the commit object; older ones
are in one pending run, and the rest in a tree of stripes. Reads load only what they touch; updates
write only what they change.
"""

from __future__ import annotations

from lakesweep.store.index.index import BYTES, LINKS, Codec, Index, IndexStats, Packed
from lakesweep.store.index.tree import NodeCache
from lakesweep.store.index.update import LIMITS, IndexLimits, IndexUpdate

__all__ = [
    "BYTES",
    "LIMITS",
    "LINKS",
    "Codec",
    "Index",
    "IndexLimits",
    "IndexStats",
    "IndexUpdate",
    "NodeCache",
    "Packed",
]
