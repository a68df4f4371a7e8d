"""Leases of node numbers, in rows of the system realm that are compared and swapped.

Each lease of a node starts where the previous one ended, by the numbers in its row. So no two
leases of a node share a millisecond, whatever the clocks of their holders. Rows are never deleted,
because the end of the last lease would be lost with them.

The row of node n has the id that the last millisecond would give it, so it never collides with the
id of an object. Its token is random: without a lease there are no ids yet.
"""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from lakesweep.clock import Clock, micros
from lakesweep.decoding import msgpack_decoder
from lakesweep.errors import DamagedRowError, LakesweepError, LeaseHeldError
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.rows import ObjectRow, RowKey
from lakesweep.store.ids.snowflake import (
    LAST_MILLISECOND,
    NODE_COUNT,
    LeasedNode,
    compose,
    decompose,
    millisecond_of,
)
from lakesweep.store.objects import row_format
from lakesweep.store.reserved_names import SYSTEM_REALM

_HOUR = 60 * 60 * 1000
_RETRY = 10 * 1000


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """The last lease of a node; milliseconds count from the epoch of ids."""

    owner: str
    start: int
    end: int


class LeaseRows(Protocol):
    """One row per node. Each call is atomic and sees all earlier writes.

    After an error it is unknown whether a write took effect.
    """

    def get(self, node: int, /) -> LeaseRow | None: ...

    def insert_if_absent(self, node: int, row: LeaseRow, /) -> bool:
        """Insert the row if there is none; returns whether it did."""
        ...

    def swap(self, node: int, expected: LeaseRow, row: LeaseRow, /) -> bool:
        """Replace the row if it is the expected one; returns whether it did."""
        ...


class MemoryLeaseRows:
    """Rows in memory."""

    def __init__(self) -> None:
        self._rows: dict[int, LeaseRow] = {}
        self._lock = threading.Lock()

    def get(self, node: int, /) -> LeaseRow | None:
        return self._rows.get(node)

    def insert_if_absent(self, node: int, row: LeaseRow, /) -> bool:
        with self._lock:
            return self._rows.setdefault(node, row) is row

    def swap(self, node: int, expected: LeaseRow, row: LeaseRow, /) -> bool:
        with self._lock:
            if self._rows.get(node) != expected:
                return False
            self._rows[node] = row
            return True


class NodeLease:
    """The lease of one source of ids: taken when first needed, renewed before it ends.

    A failed renewal is retried every ten seconds while the lease lasts. A lease that has ended is
    still renewed if no one took the node in the meantime; otherwise another node is taken.
    """

    def __init__(
        self,
        rows: LeaseRows,
        chance: random.Random,
        *,
        duration_ms: int = _HOUR,
        renew_ahead_ms: int = _HOUR // 4,
        node_count: int = NODE_COUNT,
    ) -> None:
        if not 0 <= renew_ahead_ms < duration_ms:
            raise ValueError("a lease must last longer than the time in which it is renewed")
        self._rows = rows
        self._chance = chance
        self._duration = duration_ms
        self._ahead = renew_ahead_ms
        self._node_count = node_count
        self._owner = _new_owner()
        self._node = chance.randrange(node_count)
        self._row: LeaseRow | None = None
        self._retry_at = 0

    def lease_at(self, millisecond: int) -> LeasedNode:
        """A lease that covers the millisecond; milliseconds must not decrease between calls."""
        row = self._row
        if row is None or millisecond >= row.end:
            row = self._row = self._obtain(millisecond)
        elif millisecond >= max(row.end - self._ahead, self._retry_at):
            row = self._renew_early(row, millisecond)
        return LeasedNode(self._node, row.start, row.end)

    def release(self, end: int) -> None:
        """Release the node from the millisecond `end` on."""
        row, self._row = self._row, None
        # A released lease is no longer ours to extend, even if we lease again.
        self._owner = _new_owner()
        if row and end < row.end:
            self._rows.swap(self._node, row, replace(row, end=max(end, row.start)))

    def _renew_early(self, row: LeaseRow, millisecond: int) -> LeaseRow:
        """An extended lease; the current one if that fails for now."""
        self._retry_at = millisecond + _RETRY
        try:
            self._row = self._extend(self._node, millisecond) or row
        except LakesweepError:
            return row
        return self._row

    def _obtain(self, millisecond: int) -> LeaseRow:
        self._row = None
        for node in self._candidates():
            self._node = node
            if row := self._try(node, millisecond):
                return row
        raise LeaseHeldError(
            f"all {self._node_count} nodes are leased to others",
            hint="stop processes that use this store, or wait until their leases expire",
        )

    def _try(self, node: int, millisecond: int) -> LeaseRow | None:
        try:
            return self._extend(node, millisecond) or self._occupy(node, millisecond)
        except DamagedRowError:
            return None  # its holder is unknown, and there are other nodes

    def _candidates(self) -> Iterator[int]:
        """All nodes, starting with the last one tried: a lost response may have left it ours."""
        yield self._node
        start = self._chance.randrange(self._node_count)
        yield from ((start + i) % self._node_count for i in range(self._node_count))

    def _extend(self, node: int, millisecond: int) -> LeaseRow | None:
        """Our own lease of the node, extended; None if it is not ours."""
        row = self._rows.get(node)
        if row is None or row.owner != self._owner:
            return None
        longer = replace(row, end=max(row.end, millisecond + self._duration))
        return longer if self._rows.swap(node, row, longer) else None

    def _occupy(self, node: int, millisecond: int) -> LeaseRow | None:
        """A lease of our own if the node is free."""
        mine = LeaseRow(self._owner, millisecond, millisecond + self._duration)
        row = self._rows.get(node)
        if row is None:
            return mine if self._rows.insert_if_absent(node, mine) else None
        # The new lease starts at or after the end in the row, so leases of a node never share a
        # millisecond.
        is_free = row.end <= millisecond
        return mine if is_free and self._rows.swap(node, row, mine) else None


def _new_owner() -> str:
    """A unique name, independent of any seed."""
    return secrets.token_hex(16)


#: The object type of these rows.
NODE_LEASE = "node-lease"

_decoder = msgpack_decoder(LeaseRow)


class StoredLeaseRows:
    """Lease rows in the store, changed by compare-and-swap."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock

    def get(self, node: int, /) -> LeaseRow | None:
        row = self._fetch(node)
        return None if row is None else _parse(row)

    def insert_if_absent(self, node: int, row: LeaseRow, /) -> bool:
        return self._backend.insert_row(SYSTEM_REALM, self._row(node, row))

    def swap(self, node: int, expected: LeaseRow, row: LeaseRow, /) -> bool:
        stored = self._fetch(node)
        if stored is None or stored.token is None or _parse(stored) != expected:
            return False
        return self._backend.update_row(SYSTEM_REALM, self._row(node, row), stored.token)

    def _fetch(self, node: int) -> ObjectRow | None:
        key = RowKey(lease_id(node))
        return self._backend.fetch(SYSTEM_REALM, [key]).get(key)

    def _row(self, node: int, lease: LeaseRow) -> ObjectRow:
        payload = row_format.encode_whole(msgspec.msgpack.encode(lease))
        now = micros(self._clock.now())
        return ObjectRow(lease_id(node), 0, NODE_LEASE, now, secrets.randbits(62), payload)


def leased_nodes(backend: Backend, clock: Clock) -> Collection[int]:
    """The nodes that are currently leased."""
    now = millisecond_of(clock.now())
    nodes = {RowKey(lease_id(node)): node for node in range(NODE_COUNT)}
    rows = backend.fetch(SYSTEM_REALM, nodes.keys())
    return [nodes[key] for key, row in rows.items() if _parse(row).end > now]


def lease_id(node: int) -> int:
    """The row id for a node."""
    return compose(LAST_MILLISECOND, node, 0)


def _parse(row: ObjectRow) -> LeaseRow:
    try:
        return _decoder.decode(row_format.parse_frame(row.value).piece)
    except msgspec.MsgspecError as error:
        raise DamagedRowError(f"{_named(row)}: {error}") from error
    except DamagedRowError as error:
        raise type(error)(f"{_named(row)}: {error.message}", hint=error.hint) from error


def _named(row: ObjectRow) -> str:
    return f"object {row.id}, the lease of node {decompose(row.id).node}"
