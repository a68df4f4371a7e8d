from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from lakesweep.clock import ManualClock, SystemClock
from lakesweep.errors import LeaseHeldError, StoreError
from lakesweep.store.ids import EPOCH, LeasedNode, SnowflakeIds, decompose
from lakesweep.store.ids.snowflake import (
    LAST_MILLISECOND,
    SEQUENCE_COUNT,
    millisecond_of,
    moment_of,
)

START = EPOCH + timedelta(days=100)
FIRST = millisecond_of(START)
AN_HOUR = LeasedNode(7, FIRST, FIRST + 3_600_000)


@dataclass
class Held:
    """A lease that nobody renews."""

    lease: LeasedNode = AN_HOUR
    released: list[int] = field(default_factory=list)
    asked: int = 0

    def lease_at(self, _millisecond: int) -> LeasedNode:
        self.asked += 1
        return self.lease

    def release(self, end: int) -> None:
        self.released.append(end)


class SetClock(ManualClock):
    """A clock whose wall time can be set while its steady time runs on."""

    offset = timedelta()

    def now(self) -> datetime:
        return super().now() + self.offset


class TestIds:
    def test_carry_the_time_the_node_and_a_sequence(self) -> None:
        clock = ManualClock(START)
        ids = SnowflakeIds(clock, Held())
        assert [decompose(ids.next()) for _ in range(2)] == [(FIRST, 7, 0), (FIRST, 7, 1)]
        clock.sleep(0.002)
        assert decompose(ids.next()) == (FIRST + 2, 7, 0)

    def test_are_4096_a_millisecond(self) -> None:
        ids = SnowflakeIds(ManualClock(START), Held())
        taken = [ids.next() for _ in range(SEQUENCE_COUNT + 1)]
        assert {decompose(id_).millisecond for id_ in taken[:-1]} == {FIRST}
        assert decompose(taken[-1]) == (FIRST + 1, 7, 0)

    def test_in_blocks_go_on_where_single_ones_stopped(self) -> None:
        ids = SnowflakeIds(ManualClock(START), Held())
        taken = [ids.next(), *ids.take(10_000), ids.next()]
        assert taken == sorted(set(taken))
        assert decompose(taken[-1]) == (FIRST + 2, 7, 10_001 - 2 * SEQUENCE_COUNT)

    def test_only_grow_when_the_clock_is_set_back(self) -> None:
        clock = SetClock(START)
        ids = SnowflakeIds(clock, Held())
        taken = ids.take(5000)
        clock.offset = timedelta(hours=-3)
        taken += ids.take(5000)
        assert clock.monotonic() < 0.01, "nobody waits until the clock has caught up"
        clock.sleep(0.5)
        taken += ids.take(5000)
        assert taken == sorted(set(taken))
        assert decompose(taken[-1]).millisecond >= FIRST + 500

    def test_follow_a_clock_that_jumps_ahead(self) -> None:
        clock = SetClock(START)
        ids = SnowflakeIds(clock, Held())
        ids.next()
        clock.offset = timedelta(minutes=5)
        clock.sleep(0.001)
        assert decompose(ids.next()).millisecond == FIRST + 300_001

    @pytest.mark.parametrize("start", [FIRST + 1, FIRST - 5000])
    def test_are_refused_outside_the_lease(self, start: int) -> None:
        ids = SnowflakeIds(ManualClock(START), Held(LeasedNode(7, start, start + 5000)))
        with pytest.raises(LeaseHeldError, match="node 7 has ended"):
            ids.next()

    def test_stop_at_the_very_end_of_the_lease(self) -> None:
        clock = ManualClock(START)
        ids = SnowflakeIds(clock, Held(LeasedNode(7, FIRST, FIRST + 2)))
        with pytest.raises(LeaseHeldError):
            ids.take(3 * SEQUENCE_COUNT)
        clock.sleep(600)
        with pytest.raises(LeaseHeldError):
            ids.next()

    def test_end_with_the_milliseconds_and_no_node_is_leased_for_later(self) -> None:
        held = Held(LeasedNode(7, 0, 2**50))
        ids = SnowflakeIds(ManualClock(moment_of(LAST_MILLISECOND - 1)), held)
        last = ids.take(SEQUENCE_COUNT)[-1]
        assert decompose(last) == (LAST_MILLISECOND - 1, 7, SEQUENCE_COUNT - 1)
        for _ in range(2):
            with pytest.raises(StoreError, match="past November 2094") as caught:
                ids.next()
            assert "correct the clock" in caught.value.hint
        assert held.asked == 1

    def test_are_unique_among_threads(self) -> None:
        now = millisecond_of(SystemClock().now())
        ids = SnowflakeIds(SystemClock(), Held(LeasedNode(1, now, now + 3_600_000)))
        taken: list[int] = []

        def work() -> None:
            taken.extend([ids.next() for _ in range(5000)] + ids.take(5000))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(taken)) == 40_000


class TestClose:
    def test_gives_the_node_back_from_the_millisecond_after_the_last_id(self) -> None:
        leasing = Held()
        ids = SnowflakeIds(ManualClock(START), leasing)
        ids.take(SEQUENCE_COUNT + 1)
        ids.close()
        ids.close()
        assert leasing.released == [FIRST + 2]

    def test_ends_the_ids(self) -> None:
        ids = SnowflakeIds(ManualClock(START), Held())
        ids.next()
        ids.close()
        with pytest.raises(LeaseHeldError, match="closed"):
            ids.next()


def test_a_forked_process_gets_no_ids_from_the_source_of_its_parent() -> None:
    ids = SnowflakeIds(ManualClock(START), Held())
    ids.next()
    child = os.fork()
    if not child:
        try:
            ids.next()
        except LeaseHeldError:
            os._exit(42)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    ids.next()
