"""Guards of an expiry."""

from __future__ import annotations

import pytest

from lakesweep.errors import RefusedError
from lakesweep.upkeep.expiry_guards import check_expiry, refuse_expiry
from lakesweep.upkeep.snapshot_retention import RetentionDecision, decide
from tests.unit.upkeep.test_snapshot_retention import ALL_OLD, NOW, chain, table


def decision(rows_before: str, rows_now: str) -> RetentionDecision:
    history = table(*chain(2, s1={"total-records": rows_before}, s2={"total-records": rows_now}))
    return decide(history, ALL_OLD, NOW)


def test_a_table_that_lost_its_rows_is_not_expired_by_itself() -> None:
    (guard,) = check_expiry(decision("1000", "10"), freed=100, reached=200)
    assert guard.name == "live-fell"
    with pytest.raises(RefusedError, match="cannot be rolled back") as refused:
        refuse_expiry([guard], (), "t")
    assert refused.value.overrides == ("live-fell",)
    refuse_expiry([guard], {"live-fell"}, "t")


def test_hardly_a_whole_table_goes_by_itself() -> None:
    assert [each.name for each in check_expiry(decision("9", "9"), freed=96, reached=100)] == [
        "share"
    ]
    assert not [*check_expiry(decision("9", "9"), freed=95, reached=100)]


def test_shares_say_little_of_a_handful_of_files() -> None:
    assert not [*check_expiry(decision("1000", "0"), freed=99, reached=99)]
