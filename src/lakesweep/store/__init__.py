"""The store: what Lakesweep remembers, in any database that can compare and swap one row."""

from __future__ import annotations

from lakesweep.store.commit import Change, Commit
from lakesweep.store.commits import Attempt, Committed
from lakesweep.store.index import BYTES, LINKS, Packed
from lakesweep.store.index.keys import key
from lakesweep.store.indexes import seal
from lakesweep.store.links import NO_INDEX, IndexRoot, Link
from lakesweep.store.objects import Stored
from lakesweep.store.realm import Realm
from lakesweep.store.store import Store

__all__ = [
    "BYTES",
    "LINKS",
    "NO_INDEX",
    "Attempt",
    "Change",
    "Commit",
    "Committed",
    "IndexRoot",
    "Link",
    "Packed",
    "Realm",
    "Store",
    "Stored",
    "key",
    "seal",
]
