"""Ordered maps from byte strings to values, kept inside commit objects and in nodes beside them.

An index is an immutable value. Its newest entries are embedded in the commit object; older ones
wait in one pending run, and the rest lies in a tree of stripes. Reading loads only what it
touches; an update writes only what it changes.
"""

from __future__ import annotations

from lakesweep.store.index.codec import BYTES, LINKS, Codec, Packed
from lakesweep.store.index.index import Index, Stats
from lakesweep.store.index.limits import LIMITS, Limits
from lakesweep.store.index.nodes import Nodes
from lakesweep.store.index.update import Update

__all__ = [
    "BYTES",
    "LIMITS",
    "LINKS",
    "Codec",
    "Index",
    "Limits",
    "Nodes",
    "Packed",
    "Stats",
    "Update",
]
