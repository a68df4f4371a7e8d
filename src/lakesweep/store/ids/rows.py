"""The leases of nodes, in rows of the system realm.

The row of node n has the id that the last millisecond would have for it, so it never meets the id
of an object. Its token is a random number: no ids can be had before there is a lease.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection

import msgspec

from lakesweep.clock import Clock
from lakesweep.errors import DamagedRowError
from lakesweep.store import frames
from lakesweep.store.backend import Backend, ObjectRow, RowKey
from lakesweep.store.ids.leases import LeaseRow
from lakesweep.store.ids.snowflake import (
    LAST_MILLISECOND,
    NODE_COUNT,
    compose,
    decompose,
    millisecond_of,
)
from lakesweep.store.moments import micros
from lakesweep.store.names import SYSTEM_REALM

#: The type of these rows.
NODE_LEASE = "node-lease"

_decoder = msgspec.msgpack.Decoder(LeaseRow)


class SystemRows:
    """Reads and swaps the leases of nodes by compare-and-swap."""

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
        payload = frames.whole(msgspec.msgpack.encode(lease))
        now = micros(self._clock.now())
        return ObjectRow(lease_id(node), 0, NODE_LEASE, now, secrets.randbits(62), payload)


def leased_nodes(backend: Backend, clock: Clock) -> Collection[int]:
    """The nodes that are leased to somebody now."""
    now = millisecond_of(clock.now())
    nodes = {RowKey(lease_id(node)): node for node in range(NODE_COUNT)}
    rows = backend.fetch(SYSTEM_REALM, nodes.keys())
    return [nodes[key] for key, row in rows.items() if _parse(row).end > now]


def lease_id(node: int) -> int:
    """The id of the row of a node."""
    return compose(LAST_MILLISECOND, node, 0)


def _parse(row: ObjectRow) -> LeaseRow:
    try:
        return _decoder.decode(frames.parse(row.value).piece)
    except msgspec.MsgspecError as error:
        raise DamagedRowError(f"{_named(row)}: {error}") from error
    except DamagedRowError as error:
        raise type(error)(f"{_named(row)}: {error.message}", hint=error.hint) from error


def _named(row: ObjectRow) -> str:
    return f"object {row.id}, the lease of node {decompose(row.id).node}"
