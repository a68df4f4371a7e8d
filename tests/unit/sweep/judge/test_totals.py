from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pyarrow as pa
import pytest

from lakesweep.sweep.guards import DeleteShare
from lakesweep.sweep.judge.reasons import judge
from lakesweep.sweep.judge.totals import (
    TOTALS,
    ClassTotals,
    Dimension,
    FileTotals,
    TableTotals,
    TotalsSum,
    classes_of,
    count_verdicts,
    guesses_of,
    keep_top_tables,
    merge_totals,
    reasons_of,
    shares_of,
    tables_of,
)
from tests.sweep_rows import NOW, OLD, RULES, listing

LIVE, ORPHAN, LOOSE, NEW = (f"s3://b/wh/{name}.parquet" for name in ("t/a", "t/b", "c", "t/d"))
NEWER = NOW - timedelta(hours=1)
MIB = 1 << 20


def rows(*files: tuple[str, datetime | None, int | None], live: tuple[str, ...] = ()) -> pa.Table:
    batch = listing(*((path, modified) for path, modified, _ in files))
    sizes = pa.array([size for *_, size in files], pa.int64())
    batch = batch.set_column(1, batch.schema.field(1), sizes)
    referenced = pa.array([path in live for path, *_ in files])
    return merge_totals(
        [count_verdicts(judge(batch, batch["path"], referenced, RULES), batch["path"], RULES)]
    )


@pytest.fixture
def totals() -> pa.Table:
    return rows(
        (LIVE, OLD, 100), (ORPHAN, OLD, 10), (LOOSE, OLD, None), (NEW, NEWER, 1), live=(LIVE,)
    )


def amount(files: int, size: int) -> FileTotals:
    return FileTotals(files, size)


class TestTally:
    def test_counts_reasons(self, totals: pa.Table) -> None:
        assert reasons_of(totals) == {
            "keep": {"referenced": amount(1, 100), "too-new": amount(1, 1)},
            "delete": {"unreferenced": amount(2, 10)},
        }

    def test_counts_guesses_of_deletes(self, totals: pa.Table) -> None:
        assert guesses_of(totals) == {
            "aborted-write": amount(1, 10), "dropped-table": amount(1, 0),
        }  # fmt: skip

    def test_counts_tables_and_what_lies_in_none(self, totals: pa.Table) -> None:
        assert tables_of(totals) == [
            TableTotals(table="shop.t", keep=amount(2, 101), delete=amount(1, 10)),
            TableTotals(table=None, keep=amount(0, 0), delete=amount(1, 0)),
        ]

    def test_counts_shares_of_locations_and_tables(self, totals: pa.Table) -> None:
        assert shares_of(totals) == [
            DeleteShare("s3://b/wh", 4, 2),
            DeleteShare("shop.t", 3, 1, is_table=True),
        ]

    def test_counts_nothing_of_nothing(self) -> None:
        empty = rows()
        assert empty.schema == TOTALS
        assert reasons_of(empty) == {"keep": {}, "delete": {}}
        assert (tables_of(empty), guesses_of(empty), shares_of(empty)) == ([], {}, [])


class TestClasses:
    @pytest.mark.parametrize(
        ("age", "name"),
        [
            (None, "unknown"),
            (timedelta(microseconds=-1), "in the future"),
            (timedelta(0), "under 1 day"),
            (timedelta(days=1), "1 to 7 days"),
            (timedelta(days=30) - timedelta(microseconds=1), "7 to 30 days"),
            (timedelta(days=365), "over 365 days"),
        ],
    )
    def test_of_ages(self, age: timedelta | None, name: str) -> None:
        found = classes_of(rows((LIVE, None if age is None else NOW - age, 1)), Dimension.AGE)
        assert [each.name for each in found] == [name]

    @pytest.mark.parametrize(
        ("size", "name"),
        [
            (None, "unknown"), (0, "empty"), (1, "under 1 MiB"), (MIB, "1 to 16 MiB"),
            (16 * MIB - 1, "1 to 16 MiB"), (1024 * MIB, "1 GiB and more"),
        ],
    )  # fmt: skip
    def test_of_sizes(self, size: int | None, name: str) -> None:
        found = classes_of(rows((LIVE, OLD, size)), Dimension.SIZE)
        assert [each.name for each in found] == [name]

    def test_come_in_order_with_both_verdicts(self, totals: pa.Table) -> None:
        assert classes_of(totals, Dimension.AGE) == [
            ClassTotals(name="under 1 day", keep=amount(1, 1), delete=amount(0, 0)),
            ClassTotals(name="30 to 90 days", keep=amount(1, 100), delete=amount(2, 10)),
        ]


class TestMerge:
    def test_of_parts_is_the_total_of_all(self, totals: pa.Table) -> None:
        files = ((LIVE, OLD, 100), (ORPHAN, OLD, 10), (LOOSE, OLD, None), (NEW, NEWER, 1))
        parts = [rows(file, live=(LIVE,)) for file in files]
        assert merge_totals(parts) == totals
        assert merge_totals([merge_totals(parts[2:]), merge_totals(parts[:2])]) == totals

    def test_of_nothing_is_nothing(self) -> None:
        assert merge_totals([]) == TOTALS.empty_table()


class TestSum:
    def test_is_that_of_all_that_was_added(self, totals: pa.Table) -> None:
        total = TotalsSum()
        for _ in range(3):
            total.add(totals)
        assert total.total() == merge_totals([totals] * 3)

    def test_holds_no_more_for_more_of_the_same(self) -> None:
        total, many = TotalsSum(), _table_total("t", 1).take(pa.array([0] * 400_000))
        for _ in range(3):
            total.add(many)
        assert total.total().to_pylist()[0]["files"] == 1_200_000
        assert sum(each.num_rows for each in total._waiting) == 1

    def test_of_nothing_is_nothing(self) -> None:
        assert TotalsSum().total() == TOTALS.empty_table()


class TestTopTables:
    def test_are_those_of_most_bytes_to_delete(self) -> None:
        totals = merge_totals([_table_total(f"t{number}", number) for number in range(5)])
        found = tables_of(keep_top_tables(totals, 2))
        assert [each.name for each in found] == ["t4", "t3", None]
        assert found[-1] == TableTotals(others=True, keep=amount(0, 0), delete=amount(3, 3))
        assert msgspec.json.decode(msgspec.json.encode(found[-1])) == {
            "others": True, "keep": {"files": 0, "bytes": 0}, "delete": {"files": 3, "bytes": 3},
        }  # fmt: skip

    def test_are_all_where_there_are_few(self, totals: pa.Table) -> None:
        assert keep_top_tables(totals, 2) == totals


def _table_total(table: str, size: int) -> pa.Table:
    row = {"dimension": "table", "key": table, "verdict": "delete", "reason": "unreferenced"}
    return pa.Table.from_pylist([{**row, "files": 1, "bytes": size}], schema=TOTALS)
