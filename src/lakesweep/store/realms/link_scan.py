"""Find the links of an object or index node in its bytes alone."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from lakesweep.decoding import convert, msgpack_decoder
from lakesweep.errors import DamagedRowError
from lakesweep.store.backends.rows import EVERY_ID, Ids
from lakesweep.store.index import BYTES, LINKS, Index, NodeCache
from lakesweep.store.index.object_nodes import IndexNode
from lakesweep.store.index.sorted_run import SortedRun
from lakesweep.store.index.tree import children
from lakesweep.store.objects.links import IndexRoot, ValueKind, find_links, unpack


class LinkRole(NamedTuple):
    """The role of a linked object: an object of its own, or a node of an index.

    `height` is the number of index levels below a node, and `values` the kind of its values.
    """

    height: int | None = None
    values: ValueKind = ValueKind.OPAQUE

    def name(self, number: int) -> str:
        """The object in readable form."""
        return f"{'object' if self.height is None else 'index node'} {number}"


WHOLE = LinkRole()

#: Ids by role.
LinkTargets: TypeAlias = Mapping[LinkRole, Sequence[int]]


def scan_links(payload: bytes, role: LinkRole) -> LinkTargets:
    """All links of an object; ids may be repeated.

    A stripe links to everything its values name, even if newer entries of the index override them:
    so it is read only once, however many commits share it.
    """
    found = _Found()
    if role.height is None:
        found.whole(payload)
        return found.ids
    leaf = SortedRun.parse(_node(payload), "index node")
    if role.height:
        found.nodes(leaf, LinkRole(role.height - 1, role.values))
    else:
        found.entries(leaf, role.values)
    return found.ids


class QuickLinks(NamedTuple):
    """The links of all rows that `is_read`; the others need `scan_links`."""

    ids: Ids
    is_read: npt.NDArray[np.bool_]


def scan_rows(values: Sequence[bytes], *, framed: bool = True) -> QuickLinks:
    """The links of many objects, from their rows or, if not `framed`, from their bytes alone."""
    from lakesweep.store.realms.link_kernels import find_links  # imports numba

    bounds = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=bounds[1:])
    bounds.flags.writeable = False
    data = np.frombuffer(b"".join(values), np.uint8)
    links, is_read = np.empty(len(data) // 10 + 1, np.int64), np.empty(len(values), np.bool_)
    count = find_links(data, bounds, links, is_read, framed)
    return QuickLinks(links[:count], is_read)


class CommitLineage(msgspec.Struct, frozen=True):
    """The position of a commit in its log: the previous ids, nearest first, and the time."""

    tail: tuple[int, ...] = ()
    committed_at: int = 0


def commit_lineage(payload: bytes) -> CommitLineage:
    """The position of a commit in its log; no previous ids if it is not a commit."""
    value = msgspec.msgpack.decode(payload, ext_hook=unpack)
    try:
        return convert(value if isinstance(value, dict) else {}, CommitLineage)
    except msgspec.ValidationError as error:
        raise DamagedRowError(f"its previous commits are not ids: {error}") from error


class _Found:
    def __init__(self) -> None:
        self.ids: defaultdict[LinkRole, list[int]] = defaultdict(list)

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
        self.nodes(index.tree.root, LinkRole(index.tree.level - 1, root.values))
        if index.pending:
            self._add(LinkRole(0, root.values), [index.pending.id])
        self.entries(index.embedded, root.values)

    def nodes(self, leaf: SortedRun, role: LinkRole) -> None:
        self._add(role, [child.id for child in children(leaf)])

    def entries(self, leaf: SortedRun, values: ValueKind) -> None:
        if values is ValueKind.OPAQUE:
            return
        for block in leaf.blocks:
            if values is ValueKind.LINKS:
                self._add(WHOLE, _decode_links(block.values))
                continue
            for value in block.values:
                self.whole(value)

    def _add(self, role: LinkRole, ids: Iterable[int]) -> None:
        new = list(ids)
        if new and not EVERY_ID.first <= min(new) <= max(new) <= EVERY_ID.last:
            raise DamagedRowError("it links to a number that is not an id")
        if new:
            self.ids[role] += new


def _decode_links(values: Sequence[bytes]) -> Sequence[int]:
    data = b"".join(values)
    if len(data) == _LINK_BYTES * len(values) and set(map(len, values)) <= {_LINK_BYTES}:
        return struct.unpack(f">{len(values)}Q", data)
    return [LINKS.decode(value) for value in values]  # which raises an error


def _node(payload: bytes) -> bytes:
    try:
        return _decoder.decode(payload).data
    except msgspec.MsgspecError as error:
        raise DamagedRowError(f"it is not an index node: {error}") from error


_LINK_BYTES = 8
_decoder = msgpack_decoder(IndexNode)
_UNLOADED = NodeCache(lambda _: ())
