"""Expiring snapshots of tables that Iceberg expired itself, with all steps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakesweep.storage.address import identity, parse
from tests.expiry_lake import ExpiryCase, expiry_cases
from tests.iceberg_expiries import AtticApp, ref_of
from tests.unit.upkeep.test_file_index import deletable
from tests.unit.upkeep.test_retention import answered, arguments_of

OVERRIDES = frozenset({"outside"})


#: Each with files of a kind of its own, or shared with other tables. What is decided and freed is
#: tested for all cases in tests/unit/upkeep; `LAKESWEEP_TEST_ALL=1` takes all of them here, too.
CHOSEN = {
    "attic.odd.nolog.all-old",
    "attic.shop.equality.head-only",
    "attic.shop.hashed.head-only",
    "attic.shop.registered.head-only",
    "attic.shop.source.head-only",
    "attic.shop.stats_shared.cut-at-s2",
    "attic.shop.vectors.head-only",
    "attic.shop.v1.head-only",
    "hdp.old.gz.all-old",
}


def done(case: ExpiryCase) -> bool:
    is_chosen = case.name in CHOSEN or "LAKESWEEP_TEST_ALL" in os.environ
    return is_chosen and answered(case) and not case.answer.get("snapshots_broken_by_that")


@pytest.mark.parametrize("case", [*filter(done, expiry_cases())], ids=str)
def test_what_the_engine_expires_is_expired(case: ExpiryCase, tmp_path: Path) -> None:
    attic = AtticApp(tmp_path, case.now_ms)
    for path in case.answer.get("removed_before_the_call", ()):
        address = parse(path)
        attic.buckets[address.base.rstrip("/")].delete([address.key])
    before = attic.stored()
    result = attic.expire(
        ref_of(case),
        arguments_of(case),
        clean=bool(case.answer["arguments"]["clean_expired_metadata"]),
        overrides=OVERRIDES,
    )
    after = attic.stored()
    assert result.metadata_after is None or result.metadata_after in after
    answer = {**case.answer, **case.answer["rule"]}
    assert set(result.retained_snapshots) >= set(answer["snapshots_retained"])
    gone = {identity(path) for path in before - after}
    assert gone == deletable(case) & {identity(path) for path in before}, result
    assert not any("_lakesweep" in path for path in after)
    assert result.failures == []
