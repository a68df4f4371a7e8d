"""What an object or a part of an index leads to, found in its bytes alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from lakesweep.errors import DamagedRowError
from lakesweep.store.backend import EVERY_ID
from lakesweep.store.index import BYTES, LINKS, Index, Nodes
from lakesweep.store.index.block import REMOVED
from lakesweep.store.index.leaf import Leaf
from lakesweep.store.index.tree import children
from lakesweep.store.indexes import IndexNode
from lakesweep.store.links import IndexRoot, Values, find_links, unpack


class Role(NamedTuple):
    """What an object is to whatever leads to it: whole by itself, or a node of an index.

    `height` is how many levels of its index lie below a node, and `values` what those are.
    """

    height: int | None = None
    values: Values = Values.OPAQUE

    def name(self, number: int) -> str:
        """The object, for people."""
        return f"{'object' if self.height is None else 'index node'} {number}"


WHOLE = Role()

#: Ids, by what they are.
Leads: TypeAlias = Mapping[Role, Sequence[int]]


def leads_of(payload: bytes, role: Role) -> Leads:
    """All that an object leads to; ids may come several times.

    A stripe leads to whatever its values name, also where newer entries of the index override them:
    so it need be read once only, however many commits share it.
    """
    found = _Found()
    if role.height is None:
        found.whole(payload)
        return found.ids
    leaf = Leaf.parse(_node(payload), "index node")
    if role.height:
        found.nodes(leaf, Role(role.height - 1, role.values))
    else:
        found.entries(leaf, role.values)
    return found.ids


class Lineage(msgspec.Struct, frozen=True):
    """Where a commit stands in its log: the ids of those before it, nearest first, and when."""

    tail: tuple[int, ...] = ()
    committed_at: int = 0


def lineage_of(payload: bytes) -> Lineage:
    """Where a commit stands in its log, with none before it if it is no commit."""
    value = msgspec.msgpack.decode(payload, ext_hook=unpack)
    try:
        return msgspec.convert(value if isinstance(value, dict) else {}, Lineage)
    except msgspec.ValidationError as error:
        raise DamagedRowError(f"the commits before it are not ids: {error}") from error


class _Found:
    def __init__(self) -> None:
        self.ids: defaultdict[Role, list[int]] = defaultdict(list)

    def whole(self, payload: bytes) -> None:
        links = find_links(payload)
        if links.objects:
            self._add(WHOLE, links.objects)
        for root in links.indexes:
            self.index(root)

    def index(self, root: IndexRoot) -> None:
        if not root:
            return
        index = Index.parse(root.data, BYTES, _UNLOADED)
        self.nodes(index.tree.root, Role(index.tree.level - 1, root.values))
        if index.pending:
            self._add(Role(0, root.values), [index.pending.id])
        self.entries(index.embedded, root.values)

    def nodes(self, leaf: Leaf, role: Role) -> None:
        self._add(role, [child.id for child in children(leaf)])

    def entries(self, leaf: Leaf, values: Values) -> None:
        if values is Values.OPAQUE:
            return
        for block in leaf.blocks:
            stored = [value for value in block.entries[1] if value is not REMOVED]
            if values is Values.LINKS:
                self._add(WHOLE, map(LINKS.decode, stored))
                continue
            for value in stored:
                self.whole(value)

    def _add(self, role: Role, ids: Iterable[int]) -> None:
        new = list(ids)
        if new and not EVERY_ID.first <= min(new) <= max(new) <= EVERY_ID.last:
            raise DamagedRowError("it leads to a number that is no id")
        if new:
            self.ids[role] += new


def _node(payload: bytes) -> bytes:
    try:
        return _decoder.decode(payload).data
    except msgspec.MsgspecError as error:
        raise DamagedRowError(f"it is no node of an index: {error}") from error


_decoder = msgspec.msgpack.Decoder(IndexNode)
_UNLOADED = Nodes(lambda _: ())
