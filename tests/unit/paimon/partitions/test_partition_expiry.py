from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from lakesweep.errors import UsageError
from lakesweep.paimon.model.binary_row import encode_row
from lakesweep.paimon.model.data_types import parse_type
from lakesweep.paimon.model.options import Options
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.partitions.partition_drop import drop_partitions
from lakesweep.paimon.partitions.partition_expiry import (
    ExpiryRule,
    PartitionVerdict,
    expire_partitions,
    judge_partitions,
)
from lakesweep.paimon.partitions.partition_times import Strategy, clock_lag
from lakesweep.paimon.partitions.snapshot_partitions import list_partitions
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, InterceptedCall, StorageFault
from tests.iceberg_tables import BUCKET
from tests.paimon import JavaWarehouses
from tests.paimon_expiry import ListedStore, in_memory, open_table
from tests.paimon_states import live_files, newest
from tests.paimon_tables import File, Table, encode, entry_schema

NOW = datetime(2021, 3, 4, tzinfo=UTC)
DAY = timedelta(days=1)
#: Ten seconds after the files of made tables were made.
LATER = 1_700_000_010_000


@pytest.fixture
def store(java_tables: JavaWarehouses) -> ListedStore:
    """Four days of 2021, a day far away, null, and what is no day."""
    return in_memory(java_tables.table("append_dt"))


def _judged(store: ObjectStore, rule: ExpiryRule, now: datetime = NOW) -> list[PartitionVerdict]:
    table = open_table(store)
    survey = list_partitions(table.main, newest(table))
    return judge_partitions(survey, table.layout.partitioning, rule, now)


def test_each_partition_has_a_verdict_and_a_reason(store: ListedStore) -> None:
    found = {
        each.partition.path.removeprefix("dt="): (each.expires, each.reason)
        for each in _judged(store, ExpiryRule(DAY))
    }
    assert found == {
        "2021-03-01": (True, "before 2021-03-03 00:00:00"),
        "2021-03-02": (True, "before 2021-03-03 00:00:00"),
        "2021-03-03": (False, "not before 2021-03-03 00:00:00"),
        "2021-03-04": (False, "not before 2021-03-03 00:00:00"),
        "2999-01-01": (False, "not before 2021-03-03 00:00:00"),
        "__DEFAULT_PARTITION__": (False, "dt is null"),
        "not-a-date": (False, "'not-a-date' does not match y-M-d or y-M-d H:m:s"),
    }


def test_a_partition_over_the_limit_says_so(store: ListedStore) -> None:
    found = _judged(store, ExpiryRule(DAY, most=1))
    assert [each.expires for each in found] == [True, *[False] * 6]
    assert found[1].reason == "before 2021-03-03 00:00:00, but at most 1 partition expires"


def test_the_clock_is_that_of_the_zone(store: ListedStore) -> None:
    tokyo = ExpiryRule(DAY, zone=ZoneInfo("Asia/Tokyo"))
    evening = datetime(2021, 3, 2, 15, 30, tzinfo=UTC)
    assert sum(each.expires for each in _judged(store, ExpiryRule(DAY), evening)) == 1
    assert sum(each.expires for each in _judged(store, tokyo, evening)) == 2
    midnight = datetime(2021, 3, 3, 15, 0, 1, tzinfo=UTC)
    assert sum(each.expires for each in _judged(store, ExpiryRule(DAY), midnight)) == 2
    assert sum(each.expires for each in _judged(store, tokyo, midnight)) == 3


def test_ages_beyond_all_calendars_let_nothing_expire(store: ListedStore) -> None:
    assert not any(each.expires for each in _judged(store, ExpiryRule(timedelta.max)))


def test_the_options_of_the_table_are_the_rule() -> None:
    options = Options(
        {
            "partition.expiration-time": "7 d",
            "partition.expiration-strategy": "update-time",
            "partition.timestamp-formatter": "yyyyMMdd",
            "partition.timestamp-pattern": "$dt",
            "partition.expiration-max-num": "5",
            "partition.expiration-batch-size": "2",
        }
    )
    assert ExpiryRule.of(options) == ExpiryRule(
        7 * DAY, Strategy.UPDATE_TIME, "yyyyMMdd", "$dt", most=5, batch=2
    )
    assert ExpiryRule.of(options, DAY).keep == DAY


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "has no expiration time"),
        ({"partition.expiration-strategy": "my.Factory"}, "is not supported"),
        ({"partition.expiration-max-num": "0"}, "at least one partition"),
    ],
)
def test_rules_that_make_no_sense_are_refused(options: dict[str, str], message: str) -> None:
    keep = None if not options else DAY
    with pytest.raises(UsageError, match=message):
        ExpiryRule.of(Options(options), keep)


def test_negative_ages_are_refused() -> None:
    with pytest.raises(UsageError, match="is negative"):
        ExpiryRule(-DAY)


def test_a_table_without_partitions_is_told_so(java_tables: JavaWarehouses) -> None:
    with pytest.raises(UsageError, match="not partitioned"):
        _judged(in_memory(java_tables.table("append_plain")), ExpiryRule(DAY))


def test_a_partition_that_became_newer_meanwhile_stays() -> None:
    made = Table(partition_keys=["k"])
    partition = encode_row(["a"], [parse_type("STRING")])
    old = File("old", partition=partition)
    first = made.manifest(old)
    made.snapshot(1, first)
    newer = old.row() | {"_FILE": old.row()["_FILE"] | {"_FILE_NAME": "b", "_CREATION_TIME": LATER}}
    second = made.manifest(File("b"), data=encode(entry_schema(), [newer]))

    def commit_first(call: InterceptedCall) -> Any:
        made.snapshot(2, second, base=[first])
        return call.proceed()

    fault = StorageFault(commit_first, frozenset({"write_new"}), times=1)
    stores = Stores(replace={BUCKET: Faulty(made.bucket.store, [fault])})
    table = PaimonTable.open(stores, made.address)
    survey = list_partitions(table.main, newest(table))
    rule = ExpiryRule(timedelta(), Strategy.UPDATE_TIME)
    now = datetime.fromtimestamp(LATER / 1000, UTC)
    chosen = list(survey.partitions.values())
    (done,) = expire_partitions(table.main, rule, now, chosen, known=survey)
    assert done.snapshot is None
    assert table.main.snapshot_ids() == [1, 2]
    assert len(live_files(table, newest(table))) == 2


MADE = 1_700_000_000_123
EIGHT_HOURS = timedelta(hours=8)
CALIFORNIA = timezone(-EIGHT_HOURS)


def _committed(*delays: timedelta) -> PaimonTable:
    """A table with a partition, and commits so much later than their files look in UTC."""
    made = Table(partition_keys=["k"])
    for number, delay in enumerate(delays, start=1):
        at = MADE + int(delay.total_seconds() * 1000)
        file = File(f"f{number}", partition=encode_row(["a"], [parse_type("STRING")]))
        made.snapshot(number, made.manifest(file), timeMillis=at)
    return PaimonTable.open(made.bucket.stores, made.address)


@pytest.mark.parametrize(
    ("delays", "lag"),
    [
        ([], timedelta()),
        ([timedelta(seconds=-40)], timedelta()),
        ([timedelta(minutes=14)], timedelta()),
        ([EIGHT_HOURS + timedelta(seconds=59)], EIGHT_HOURS + timedelta(minutes=1)),
        ([EIGHT_HOURS, timedelta(days=9)], EIGHT_HOURS),  # one commit was late
        ([timedelta(days=9)], timedelta(hours=26)),
    ],
)
def test_clocks_behind_their_commits_are_found(delays: list[timedelta], lag: timedelta) -> None:
    assert clock_lag(_committed(*delays).main, UTC) == lag


def test_no_clock_is_behind_in_the_zone_where_files_were_written() -> None:
    assert clock_lag(_committed(EIGHT_HOURS).main, CALIFORNIA) == timedelta()


def test_commits_that_add_nothing_tell_nothing() -> None:
    table = _committed(EIGHT_HOURS)
    drop_partitions(table.main, lambda survey: survey.partitions)
    assert table.main.latest_id() == 2
    assert clock_lag(table.main, UTC) == EIGHT_HOURS


def test_a_partition_is_as_young_as_its_commits_say() -> None:
    table = _committed(EIGHT_HOURS)
    survey = list_partitions(table.main, newest(table))
    made = datetime.fromtimestamp(MADE / 1000, UTC)
    rule = ExpiryRule(timedelta(hours=1), Strategy.UPDATE_TIME)

    def expires(rule: ExpiryRule, now: datetime) -> bool:
        (verdict,) = judge_partitions(survey, table.layout.partitioning, rule, now)
        return verdict.expires

    lagging = replace(rule, lag=clock_lag(table.main, UTC))
    there = replace(rule, zone=CALIFORNIA)
    for hours, expected in ((2, False), (8, False), (10, True)):
        now = made + timedelta(hours=hours)
        assert expires(rule, now)  # as UTC would have it
        assert [expires(each, now) for each in (lagging, there)] == [expected, expected]
