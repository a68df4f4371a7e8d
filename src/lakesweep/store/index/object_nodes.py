"""Indexes whose nodes are objects of a realm: opened from one commit, updated by the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from lakesweep.errors import DamagedRowError
from lakesweep.store.index import Codec, Index, IndexUpdate, NodeCache
from lakesweep.store.objects.links import IndexRoot
from lakesweep.store.objects.objects import Objects, Stored

V = TypeVar("V")


class IndexNode(msgspec.Struct, frozen=True, array_like=True):
    """One stripe, or one page of descriptors."""

    data: bytes


class Indexes:
    """Opens the indexes of one realm. Nodes that were read are shared, since they never change."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._nodes = NodeCache(self._load)

    def open(self, root: IndexRoot, codec: Codec[V]) -> Index[V]:
        """The index that an object embeds. Nothing is loaded yet."""
        if not root:
            return Index.empty(codec, self._nodes)
        if root.values != codec.values:
            raise ValueError(f"the index has {root.values.name} values, not {codec.values.name}")
        return Index.parse(root.data, codec, self._nodes)

    def update(
        self, root: IndexRoot, codec: Codec[V], write: Callable[[msgspec.Struct], int]
    ) -> IndexUpdate[V]:
        """Start changes; `write` takes the nodes that `seal` creates."""
        return IndexUpdate(self.open(root, codec), lambda data: write(IndexNode(data)))

    def _load(self, ids: Sequence[int]) -> Sequence[bytes]:
        nodes = self._objects.fetch_many(ids, IndexNode)
        return [_data(number, node) for number, node in zip(ids, nodes, strict=True)]


def seal(update: IndexUpdate[V]) -> IndexRoot:
    """The index with all changes, as the next commit embeds it."""
    return IndexRoot.of(update.finish().to_bytes(), update.codec.values)


def _data(number: int, node: Stored[IndexNode] | None) -> bytes:
    if node is None:
        raise DamagedRowError(f"object {number}, a part of an index, is missing")
    return node.value.data
