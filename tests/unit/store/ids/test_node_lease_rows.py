from __future__ import annotations

from datetime import timedelta

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import DamagedRowError
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import ObjectRow
from lakesweep.store.ids.node_leases import NODE_LEASE, lease_id, leased_nodes
from lakesweep.store.objects import row_format
from lakesweep.store.reserved_names import SYSTEM_REALM
from tests.moments import NOON


def test_nodes_are_leased_from_the_first_id_to_the_end_of_their_store() -> None:
    backend, clock = MemoryBackend(), ManualClock(NOON)
    first, second = Store(backend, clock=clock), Store(backend, clock=clock)
    assert len(leased_nodes(backend, clock)) == 0
    first.create_realm("a")
    second.create_realm("b")
    assert len(leased_nodes(backend, clock)) == 2
    first.close()
    second.close()
    clock.sleep(0.001)
    assert len(leased_nodes(backend, clock)) == 0


def test_the_node_of_a_process_that_died_is_free_again_after_its_lease() -> None:
    backend, clock = MemoryBackend(), ManualClock(NOON)
    Store(backend, clock=clock).create_realm("a")
    clock.sleep(timedelta(hours=2).total_seconds())
    assert len(leased_nodes(backend, clock)) == 0


def _damaged(node: int, value: bytes) -> ObjectRow:
    return ObjectRow(lease_id(node), 0, NODE_LEASE, 5, 7, value)


@pytest.mark.parametrize("value", [b"", b"\1garbage", row_format.encode_whole(b"garbage")])
def test_a_damaged_lease_is_named(value: bytes) -> None:
    backend = MemoryBackend()
    backend.write(SYSTEM_REALM, [_damaged(5, value)])
    with pytest.raises(DamagedRowError, match="the lease of node 5: "):
        leased_nodes(backend, ManualClock(NOON))


def test_a_node_whose_lease_is_damaged_is_left_alone() -> None:
    backend = MemoryBackend()
    damaged = [_damaged(node, b"garbage") for node in range(1, 1024)]
    backend.write(SYSTEM_REALM, damaged)
    Store(backend, clock=ManualClock(NOON)).create_realm("a")
    keys = [row.key for row in damaged]
    assert list(backend.fetch(SYSTEM_REALM, keys).values()) == damaged
