from __future__ import annotations

from datetime import timedelta

from lakesweep.clock import ManualClock
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.ids.rows import leased_nodes
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
