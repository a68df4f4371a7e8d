"""Processes that fight for nodes, with clocks that jump and a database that fails at any step."""

from __future__ import annotations

import contextlib
import random
from datetime import datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from lakesweep.errors import LakesweepError
from lakesweep.store.ids import EPOCH, LeaseRow, MemoryLeaseRows, NodeLease, SnowflakeIds, decompose
from tests.random_tests import Machine, examples

DURATION_MS = 100
NODES = 2
START = EPOCH + timedelta(days=500)


class JumpingClock:
    """A clock whose wall time anybody may set; its steady time only grows."""

    def __init__(self, skew_ms: int) -> None:
        self.wall = START + timedelta(milliseconds=skew_ms)
        self.steady = 0.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    def sleep(self, seconds: float) -> None:
        self.steady += seconds
        self.wall += timedelta(seconds=seconds)


class FailingRows:
    """Rows whose next calls may fail, with or without effect. Remembers every lease there was."""

    def __init__(self) -> None:
        self._rows = MemoryLeaseRows()
        self.faults: list[str] = []
        self.leases: set[tuple[int, LeaseRow]] = set()

    def get(self, node: int, /) -> LeaseRow | None:
        if self._fault():
            raise LakesweepError("no answer")
        return self._rows.get(node)

    def insert_if_absent(self, node: int, row: LeaseRow, /) -> bool:
        return self._write(node, row, None)

    def swap(self, node: int, expected: LeaseRow, row: LeaseRow, /) -> bool:
        return self._write(node, row, expected)

    def _write(self, node: int, row: LeaseRow, expected: LeaseRow | None) -> bool:
        fault = self._fault()
        if fault == "lost":
            raise LakesweepError("the request was lost")
        if expected is None:
            is_done = self._rows.insert_if_absent(node, row)
        else:
            is_done = self._rows.swap(node, expected, row)
        if is_done:
            self.leases.add((node, row))
        if fault == "unanswered":
            raise LakesweepError("the answer was lost")
        return is_done

    def _fault(self) -> str:
        return self.faults.pop(0) if self.faults else ""


class Fight(Machine):
    """Three processes, two nodes, short leases."""

    @initialize(skews=st.lists(st.integers(-500, 500), min_size=3, max_size=3))
    def begin(self, skews: list[int]) -> None:
        self.rows = FailingRows()
        self.seen: set[int] = set()
        self.clocks = [JumpingClock(skew) for skew in skews]
        self.sources = [self._start(clock) for clock in self.clocks]

    def _start(self, clock: JumpingClock) -> SnowflakeIds:
        chance = random.Random(1)
        lease = NodeLease(
            self.rows, chance, duration_ms=DURATION_MS, renew_ahead_ms=25, node_count=NODES
        )
        return SnowflakeIds(clock, lease)

    @rule(who=st.integers(0, 2), count=st.integers(1, 3) | st.just(4096) | st.just(5000))
    def take(self, who: int, count: int) -> None:
        source = self.sources[who]
        try:
            ids = source.take(count) if count > 1 else [source.next()]
        except LakesweepError:
            return
        assert len(ids) == count
        assert ids == sorted(ids)
        assert self.seen.isdisjoint(ids)
        self.seen.update(ids)
        assert all(self._is_leased(id_) for id_ in (ids[0], ids[-1]))

    def _is_leased(self, id_: int) -> bool:
        parts = decompose(id_)
        return any(
            node == parts.node and row.start <= parts.millisecond < row.end
            for node, row in self.rows.leases
        )

    @rule(who=st.integers(0, 2), milliseconds=st.integers(0, 3) | st.integers(0, 400))
    def pass_time(self, who: int, milliseconds: int) -> None:
        self.clocks[who].sleep(milliseconds / 1000)

    @rule(milliseconds=st.integers(0, 150))
    def pass_time_for_all(self, milliseconds: int) -> None:
        for clock in self.clocks:
            clock.sleep(milliseconds / 1000)

    @rule(who=st.integers(0, 2), milliseconds=st.integers(-1000, 1000) | st.integers(-3, 3))
    def jump(self, who: int, milliseconds: int) -> None:
        self.clocks[who].wall += timedelta(milliseconds=milliseconds)

    @rule(faults=st.lists(st.sampled_from(["", "lost", "unanswered"]), max_size=6))
    def fail(self, faults: list[str]) -> None:
        self.rows.faults = faults

    @rule(who=st.integers(0, 2))
    def crash(self, who: int) -> None:
        self.sources[who] = self._start(self.clocks[who])

    @rule(who=st.integers(0, 2))
    def close(self, who: int) -> None:
        with contextlib.suppress(LakesweepError):
            self.sources[who].close()
        self.crash(who)


TestFight = Fight.TestCase
TestFight.settings = examples(40, steps=40)
