from __future__ import annotations

import random

import pytest

from lakesweep.errors import LakesweepError, LeaseHeldError
from lakesweep.store.ids import LeasedNode, LeaseRow, MemoryLeaseRows, NodeLease

HOUR = 3_600_000
NOW = 10 * HOUR


class Rows(MemoryLeaseRows):
    """Rows that can stop answering, before or after a swap took effect."""

    is_deaf = False
    is_mute = False

    def get(self, node: int, /) -> LeaseRow | None:
        if self.is_deaf:
            raise LakesweepError("no connection")
        return super().get(node)

    def insert_if_absent(self, node: int, row: LeaseRow, /) -> bool:
        return self._answer(super().insert_if_absent(node, row))

    def swap(self, node: int, expected: LeaseRow, row: LeaseRow, /) -> bool:
        return self._answer(super().swap(node, expected, row))

    def _answer(self, is_done: bool) -> bool:
        if self.is_mute:
            raise LakesweepError("the answer was lost")
        return is_done


def node_lease(rows: MemoryLeaseRows, *, nodes: int = 1) -> NodeLease:
    return NodeLease(rows, random.Random(3), node_count=nodes)


class TestLeasing:
    def test_lasts_an_hour_from_when_it_is_taken(self) -> None:
        assert node_lease(Rows()).lease_at(NOW) == LeasedNode(0, NOW, NOW + HOUR)

    def test_gives_1024_processes_a_node_each_and_no_more(self) -> None:
        rows, chance = Rows(), random.Random(3)
        leases = [NodeLease(rows, chance).lease_at(NOW) for _ in range(1024)]
        assert {lease.node for lease in leases} == set(range(1024))
        with pytest.raises(LeaseHeldError, match="all 1024 nodes"):
            NodeLease(rows, chance).lease_at(NOW)

    def test_takes_a_node_over_when_its_lease_has_ended_by_the_numbers(self) -> None:
        rows = Rows()
        node_lease(rows).lease_at(NOW)
        with pytest.raises(LeaseHeldError):
            node_lease(rows).lease_at(NOW + HOUR - 1)
        assert node_lease(rows).lease_at(NOW + HOUR).start == NOW + HOUR

    def test_refuses_to_renew_over_more_than_the_lease(self) -> None:
        with pytest.raises(ValueError, match="longer"):
            NodeLease(Rows(), random.Random(3), duration_ms=10, renew_ahead_ms=10)


class TestRenewal:
    def test_happens_in_the_last_quarter_and_not_before(self) -> None:
        leasing = node_lease(Rows())
        first = leasing.lease_at(NOW)
        assert leasing.lease_at(NOW + HOUR * 3 // 4 - 1) == first
        renewed = leasing.lease_at(NOW + HOUR * 3 // 4)
        assert renewed == LeasedNode(0, NOW, NOW + HOUR * 7 // 4)

    def test_that_fails_keeps_the_lease_as_long_as_it_lasts(self) -> None:
        rows = Rows()
        leasing = node_lease(rows)
        first = leasing.lease_at(NOW)
        rows.is_deaf = True
        assert leasing.lease_at(NOW + HOUR - 1) == first
        with pytest.raises(LakesweepError, match="no connection"):
            leasing.lease_at(NOW + HOUR)

    def test_that_fails_is_tried_again_after_ten_seconds(self) -> None:
        rows = Rows()
        leasing = node_lease(rows)
        first = leasing.lease_at(NOW)
        late = NOW + HOUR - 60_000
        rows.is_deaf = True
        leasing.lease_at(late)
        rows.is_deaf = False
        assert leasing.lease_at(late + 9_999) == first
        assert leasing.lease_at(late + 10_000).end == late + 10_000 + HOUR

    def test_whose_answer_is_lost_is_found_to_be_done(self) -> None:
        rows = Rows()
        leasing = node_lease(rows)
        leasing.lease_at(NOW)
        late = NOW + HOUR - 60_000
        rows.is_mute = True
        assert leasing.lease_at(late).end == NOW + HOUR
        rows.is_mute = False
        assert leasing.lease_at(late + 10_000) == LeasedNode(0, NOW, late + 10_000 + HOUR)

    def test_works_after_the_end_where_nobody_took_the_node(self) -> None:
        leasing = node_lease(Rows())
        leasing.lease_at(NOW)
        assert leasing.lease_at(NOW + 5 * HOUR) == LeasedNode(0, NOW, NOW + 6 * HOUR)

    def test_leads_to_another_node_where_somebody_took_this_one(self) -> None:
        rows = Rows()
        sleeper = node_lease(rows, nodes=2)
        lost = sleeper.lease_at(NOW)
        others = [node_lease(rows, nodes=2) for _ in range(2)]
        taken = [other.lease_at(NOW + HOUR) for other in others]
        with pytest.raises(LeaseHeldError):
            sleeper.lease_at(NOW + HOUR)
        others[0].release(NOW + HOUR + 1)
        found = sleeper.lease_at(NOW + HOUR + 1)
        assert (found.node, found.start) == (taken[0].node, NOW + HOUR + 1)
        assert lost.node in {lease.node for lease in taken}

    def test_finds_a_node_again_whose_lease_was_granted_without_an_answer(self) -> None:
        rows = Rows()
        leasing = node_lease(rows, nodes=2)
        rows.is_mute = True
        with pytest.raises(LakesweepError):
            leasing.lease_at(NOW)
        rows.is_mute = False
        leasing.lease_at(NOW + 1)
        assert sum(rows.get(node) is not None for node in range(2)) == 1


class TestRelease:
    def test_lets_others_have_the_node_from_the_next_millisecond_on(self) -> None:
        rows = Rows()
        leasing = node_lease(rows)
        leasing.lease_at(NOW)
        leasing.release(NOW + 51)
        with pytest.raises(LeaseHeldError):
            node_lease(rows).lease_at(NOW + 50)
        assert node_lease(rows).lease_at(NOW + 51) == LeasedNode(0, NOW + 51, NOW + 51 + HOUR)

    def test_is_not_undone_by_leasing_again_with_a_clock_behind(self) -> None:
        leasing = node_lease(Rows())
        leasing.lease_at(NOW)
        leasing.release(NOW + 51)
        with pytest.raises(LeaseHeldError):
            leasing.lease_at(NOW + 50)
        assert leasing.lease_at(NOW + 51).start == NOW + 51

    def test_of_what_was_never_leased_does_nothing(self) -> None:
        rows = Rows()
        node_lease(rows).release(NOW)
        assert rows.get(0) is None

    def test_takes_nothing_from_a_later_lessee(self) -> None:
        rows = Rows()
        old, new = node_lease(rows), node_lease(rows)
        old.lease_at(NOW)
        new.lease_at(NOW + HOUR)
        row = rows.get(0)
        old.release(NOW + 10)
        assert rows.get(0) == row
