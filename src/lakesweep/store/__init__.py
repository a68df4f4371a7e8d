"""The store: Lakesweep's own state, in any database that can compare and swap one row."""

from __future__ import annotations

from lakesweep.store.commits.commit import Change, Commit
from lakesweep.store.commits.committer import Attempt, Committed
from lakesweep.store.index import BYTES, LINKS, Packed
from lakesweep.store.index.keys import key
from lakesweep.store.index.object_nodes import seal
from lakesweep.store.objects.links import NO_INDEX, IndexRoot, Link
from lakesweep.store.objects.objects import Stored
from lakesweep.store.realms.realm import Realm
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
