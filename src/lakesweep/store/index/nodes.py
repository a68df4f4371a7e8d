"""The nodes of indexes, loaded in batches and kept for a while."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from lakesweep.store.index.leaf import Leaf

#: Reads nodes: one call is one round trip. Answers the bytes of each id in the order asked, and
#: raises where one is missing.
Load: TypeAlias = Callable[[Sequence[int]], Sequence[bytes]]

_KEPT_BYTES = 16 * 2**20


class Nodes:
    """Nodes by id. They never change, so all versions of an index may share them."""

    def __init__(self, load: Load, kept_bytes: int = _KEPT_BYTES) -> None:
        self._load = load
        self._kept_bytes = kept_bytes
        self._kept: OrderedDict[int, Leaf] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def fetch(self, ids: Sequence[int]) -> list[Leaf]:
        """Some nodes, in the order asked; those not at hand come in one round trip."""
        found = self._find(ids)
        missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in found]
        if missing:
            for id_, data in zip(missing, self._load(missing), strict=True):
                found[id_] = Leaf.parse(data, f"index node {id_}")
                self.keep(id_, found[id_])
        return [found[id_] for id_ in ids]

    def keep(self, id_: int, leaf: Leaf) -> None:
        """Hold on to a node, and let the longest unused ones go."""
        with self._lock:
            if id_ not in self._kept:
                self._size += leaf.size
            self._kept[id_] = leaf
            while self._size > self._kept_bytes:
                self._size -= self._kept.popitem(last=False)[1].size

    def _find(self, ids: Iterable[int]) -> dict[int, Leaf]:
        found = {}
        with self._lock:
            for id_ in ids:
                if id_ in self._kept:
                    self._kept.move_to_end(id_)
                    found[id_] = self._kept[id_]
        return found
