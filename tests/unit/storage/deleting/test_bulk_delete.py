"""What deleting many files promises."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from lakesweep.clock import ManualClock, SystemClock
from lakesweep.errors import (
    ConfigError,
    DeniedError,
    LakesweepError,
    ThrottledError,
    UnavailableError,
)
from lakesweep.storage.address import Address
from lakesweep.storage.deleting.bulk_delete import delete_files
from lakesweep.storage.deleting.outcome_totals import MOST_FAILURES, FailedFile, OutcomeTotals
from lakesweep.storage.file_batches import FILE_SCHEMA, OUTCOME_SCHEMA
from lakesweep.storage.object_store import Deletion, Expected, ObjectStore, Outcome
from lakesweep.storage.options import DeleteRate
from lakesweep.storage.wrappers.faults import Faulty, StorageFault, fail, lose, refuse
from lakesweep.storage.wrappers.rate_limit import DeleteLimiter
from lakesweep.termination import TerminatedError
from tests.dict_store import DictStore
from tests.paged_store import OneStore, PagedStore

BASE = "memory://bucket/"


class ByBucket:
    """Opens one store for each bucket that it knows."""

    def __init__(self, stores: Mapping[str, ObjectStore]) -> None:
        self._stores = stores

    def open(self, address: Address) -> ObjectStore:
        if address.bucket not in self._stores:
            raise ConfigError(f"no secret for {address.bucket}")
        return self._stores[address.bucket]


def files(paths: Iterable[str | None], size: int | None = 7) -> pa.RecordBatch:
    rows = [{"path": path, "size_bytes": size} for path in paths]
    return pa.RecordBatch.from_pylist(
        rows, pa.schema([("path", pa.string()), ("size_bytes", pa.int64())])
    )


def outcomes(batches: Iterable[pa.RecordBatch]) -> list[tuple[str, str, str | None]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [(row["path"], row["outcome"], row["reason"]) for row in rows]


def delete(store: ObjectStore, keys: Iterable[str]) -> dict[str, str]:
    batch = files(BASE + key for key in keys)
    found = outcomes(delete_files(OneStore(store), [batch]))
    return {path.removeprefix(BASE): outcome for path, outcome, _ in found}


def batches_of(size: int) -> DeleteLimiter:
    return DeleteLimiter(SystemClock(), DeleteRate(batch_size=size))


def keys_of(count: int) -> list[str]:
    return [f"t/{number:05d}" for number in range(count)]


def test_each_file_has_one_outcome_in_the_order_of_the_input() -> None:
    store = PagedStore({"a", "c"})
    (batch,) = delete_files(OneStore(store), [files([BASE + "c", BASE + "b", BASE + "a"])])
    assert batch.schema == OUTCOME_SCHEMA
    assert outcomes([batch]) == [
        (BASE + "c", "deleted", None),
        (BASE + "b", "absent", None),
        (BASE + "a", "deleted", None),
    ]
    assert batch.column("size_bytes").to_pylist() == [7, 7, 7]


def test_files_as_they_are_listed_can_be_deleted() -> None:
    row = {"path": BASE + "a", "kind": "data", "size_bytes": None}
    listed = pa.RecordBatch.from_pylist([row], schema=FILE_SCHEMA)
    assert outcomes(delete_files(OneStore(PagedStore({"a"})), [listed])) == [
        (BASE + "a", "deleted", None)
    ]


def test_nothing_to_delete_asks_nothing() -> None:
    store = PagedStore({"a"})
    assert list(delete_files(OneStore(store), [])) == []
    assert list(delete_files(OneStore(store), [files([])])) == []
    assert store.delete_calls == []


def test_keys_are_deleted_exactly_as_they_are_written() -> None:
    looks_alike = {"a//b", "a/b", "/a/b", "a/b/", "a/./b", "a%2Fb", "A/b", "a/b\t", "a/b?", "a/b#"}
    store = PagedStore(looks_alike)
    assert delete(store, ["a//b"]) == {"a//b": "deleted"}
    assert store.keys == looks_alike - {"a//b"}


def test_requests_are_as_large_as_the_store_takes_and_begin_in_order() -> None:
    store = PagedStore(set(keys_of(10)), delete_batch=4)
    batches = [files([BASE + key]) for key in keys_of(10)]
    list(delete_files(OneStore(store), batches, workers=1))
    assert store.delete_calls == [keys_of(10)[:4], keys_of(10)[4:8], keys_of(10)[8:]]


def test_a_smaller_batch_size_is_kept_and_a_larger_one_is_not() -> None:
    small, large = (PagedStore(set(keys_of(10)), delete_batch=4) for _ in range(2))
    list(
        delete_files(
            OneStore(small), [files(BASE + key for key in keys_of(10))], limiter=batches_of(3)
        )
    )
    list(
        delete_files(
            OneStore(large), [files(BASE + key for key in keys_of(10))], limiter=batches_of(99)
        )
    )
    assert {len(keys) for keys in small.delete_calls} == {3, 1}
    assert {len(keys) for keys in large.delete_calls} == {4, 2}


def test_several_requests_are_under_way_at_once_and_outcomes_stay_in_order() -> None:
    together = threading.Barrier(4, timeout=60)
    store = PagedStore(set(keys_of(16)), delete_batch=4)

    def meet(_: Sequence[str]) -> None:
        together.wait()

    store.before_delete = meet
    batch = files(BASE + key for key in keys_of(16))
    found = outcomes(delete_files(OneStore(store), [batch], workers=4))
    assert [path for path, _, _ in found] == [BASE + key for key in keys_of(16)]


def test_a_path_named_twice_is_one_outcome_and_one_key() -> None:
    store = PagedStore({"a", "b"})
    paths = [BASE + "a", BASE + "b", BASE + "a"]
    found = outcomes(delete_files(OneStore(store), [files(paths), files(paths)]))
    assert found == [(BASE + "a", "deleted", None), (BASE + "b", "deleted", None)]
    assert store.delete_calls == [["a", "b"]]


def test_another_spelling_of_a_key_is_not_counted_as_deleted_twice() -> None:
    store = PagedStore({"a"}, base="s3://bucket/")
    found = outcomes(delete_files(OneStore(store), [files(["s3://bucket/a", "s3a://bucket/a"])]))
    assert found == [
        ("s3://bucket/a", "deleted", None),
        ("s3a://bucket/a", "absent", "deleted under another spelling of its address"),
    ]
    assert store.delete_calls == [["a"]]


def test_addresses_of_several_stores_are_told_apart() -> None:
    one, two = PagedStore({"a", "b"}), PagedStore({"a", "b"})
    paths = ["s3://one/a", "s3://two/b", "s3a://one/b", "s3://three/a"]
    stores = ByBucket({"one": one, "two": two})
    assert outcomes(delete_files(stores, [files(paths)])) == [
        ("s3://one/a", "deleted", None),
        ("s3://two/b", "deleted", None),
        ("s3a://one/b", "deleted", None),
        ("s3://three/a", "failed", "the store cannot be opened: no secret for three"),
    ]
    assert (one.keys, two.keys) == (set(), {"a"})


@pytest.mark.parametrize(
    "path", ["", None, "garbage", "s3://", "s3:///x", "s3://bucket", "s3://bucket/", "ftp://h/x"]
)
def test_an_address_that_names_no_object_is_an_outcome(path: str | None) -> None:
    store = PagedStore({"a"}, base="s3://bucket/")
    batch = files([path, "s3://bucket/a"])
    (bad, good) = outcomes(delete_files(OneStore(store), [batch]))
    assert bad[:2] == (path or "", "failed")
    assert bad[2]
    assert good == ("s3://bucket/a", "deleted", None)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(ThrottledError, "throttled"), (DeniedError, "denied"), (UnavailableError, "failed")],
)
def test_a_request_that_failed_is_unknown_for_each_key_and_the_others_go_on(
    error: type[LakesweepError], outcome: str
) -> None:
    plan = [StorageFault(fail(error), frozenset({"delete"}), key="t/00005".__eq__)]
    store = PagedStore(set(keys_of(12)), delete_batch=4)
    batch = files(BASE + key for key in keys_of(12))
    found = outcomes(delete_files(OneStore(Faulty(store, plan)), [batch]))
    assert [row[1] for row in found] == ["deleted"] * 4 + [outcome] * 4 + ["deleted"] * 4
    assert {row[2] for row in found[4:8]} == {f"outcome unknown: {BASE}t/00004: injected fault"}


def test_a_lost_answer_is_never_called_deleted() -> None:
    store = PagedStore(set(keys_of(4)))
    lossy = Faulty(store, [StorageFault(lose, frozenset({"delete"}))])
    assert set(delete(lossy, keys_of(4)).values()) == {"failed"}
    assert store.keys == set()


def test_a_defect_of_a_store_is_an_unknown_outcome() -> None:
    store = PagedStore(set(keys_of(8)))

    def break_first(keys: Sequence[str]) -> None:
        if keys[0] == "t/00000":
            raise ZeroDivisionError("oops")

    store.before_delete = break_first
    batch = files(BASE + key for key in keys_of(8))
    found = outcomes(delete_files(OneStore(store), [batch]))
    assert found[0][1:] == ("failed", "outcome unknown: ZeroDivisionError('oops')")
    assert found[4][1:] == ("deleted", None)


def test_an_answer_for_other_keys_is_not_believed() -> None:
    class Confused(PagedStore):
        def delete(
            self, keys: Sequence[str], expected: Sequence[Expected | None] | None = None
        ) -> Sequence[Deletion]:
            return [Deletion(key, Outcome.DELETED) for key in keys[1:]]

    assert set(delete(Confused({"a", "b"}), ["a", "b"]).values()) == {"failed"}


def test_what_the_store_says_of_single_keys_is_passed_on() -> None:
    effect = refuse(Outcome.LOCKED, "b".__eq__)
    store = Faulty(PagedStore({"a", "b"}), [StorageFault(effect, frozenset({"delete"}))])
    assert delete(store, ["a", "b"]) == {"a": "deleted", "b": "locked"}


def test_an_error_of_the_input_is_raised_after_the_outcomes_of_what_it_gave() -> None:
    def listing() -> Iterator[pa.RecordBatch]:
        yield files([BASE + "a"])
        raise UnavailableError(BASE, "the listing broke")

    batches = delete_files(OneStore(PagedStore({"a"})), listing())
    assert outcomes([next(batches)]) == [(BASE + "a", "deleted", None)]
    with pytest.raises(UnavailableError, match="the listing broke"):
        next(batches)


def test_an_error_of_the_input_before_the_first_file_is_raised() -> None:
    def listing() -> Iterator[pa.RecordBatch]:
        yield from ()
        raise UnavailableError(BASE, "the listing broke")

    with pytest.raises(UnavailableError):
        list(delete_files(OneStore(PagedStore(set())), listing()))


def test_both_limits_hold_for_all_requests_together() -> None:
    for rate, seconds in (
        (DeleteRate(files_per_second=2), 4.0),
        (DeleteRate(batches_per_second=0.5), 4.0),
        (DeleteRate(files_per_second=1, batches_per_second=0.1), 90.0),
    ):
        clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        store = PagedStore(set(keys_of(10)), delete_batch=4)
        batch = files(BASE + key for key in keys_of(10))
        list(delete_files(OneStore(store), [batch], limiter=DeleteLimiter(clock, rate)))
        assert (clock.monotonic(), store.keys) == (seconds, set())


def test_limits_go_on_from_one_call_to_the_next() -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    store = OneStore(PagedStore(set(keys_of(3)), delete_batch=4))
    limiter = DeleteLimiter(clock, DeleteRate(files_per_second=0.5))
    for key in keys_of(3):
        list(delete_files(store, [files([BASE + key])], limiter=limiter))
    assert clock.monotonic() == 4.0


def test_a_process_that_is_told_to_end_waits_for_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    store = PagedStore(set(keys_of(10)), delete_batch=4)
    deleted = store.delete

    def delete(*words: Any) -> Sequence[Deletion]:
        monkeypatch.setattr("lakesweep.termination._state.is_requested", True)
        return deleted(*words)

    monkeypatch.setattr(store, "delete", delete)
    batch = files(BASE + key for key in keys_of(10))
    limiter = DeleteLimiter(clock, DeleteRate(files_per_second=0.01))
    done: list[pa.RecordBatch] = []
    with pytest.raises(TerminatedError):
        done.extend(delete_files(OneStore(store), [batch], workers=1, limiter=limiter))
    assert [outcome for _, outcome, _ in outcomes(done)] == ["deleted"] + ["unsent"] * 9
    assert clock.monotonic() == 0.0


def test_a_long_input_is_taken_in_piece_by_piece() -> None:
    taken = 0

    def listing() -> Iterator[pa.RecordBatch]:
        nonlocal taken
        for number in range(200):
            taken += 1
            yield files(f"{BASE}{number}/{key}" for key in range(1_000))

    batches = delete_files(OneStore(PagedStore(set(), delete_batch=1_000)), listing(), workers=2)
    assert next(batches).num_rows == 8_000
    assert taken < 50
    assert sum(batch.num_rows for batch in batches) == 192_000


def test_the_tally_counts_bytes_of_deleted_files_only() -> None:
    tally = OutcomeTotals()
    store = Faulty(
        PagedStore({"a", "b"}),
        [StorageFault(refuse(Outcome.DENIED, "b".__eq__), frozenset({"delete"}))],
    )
    batch = files([BASE + "a", BASE + "b", BASE + "gone"], size=10)
    for outcome in delete_files(OneStore(store), [batch, files([BASE + "x"], size=None)]):
        tally.add(outcome)
    assert msgspec.to_builtins(tally.report()) == {
        "found": 4,
        "deleted": 1,
        "absent": 2,
        "failed": 1,
        "bytes_deleted": 10,
        "failures": [{"path": BASE + "b", "reason": "denied: injected fault"}],
        "failures_omitted": 0,
    }


def test_the_tally_keeps_some_failures_and_counts_the_others() -> None:
    tally = OutcomeTotals()
    tally.fail("first", "unreadable")
    for outcome in delete_files(ByBucket({}), [files(f"s3://b/{n}" for n in range(1_500))]):
        tally.add(outcome)
    assert (tally.failed, len(tally.failures)) == (1_501, MOST_FAILURES)
    assert tally.failures[0] == FailedFile("first", "unreadable")
    assert msgspec.to_builtins(tally.report())["failures_omitted"] == 501


def listed(store: ObjectStore, *keys: str) -> pa.RecordBatch:
    """Files as a listing describes them."""
    infos = [store.head(key) for key in keys]
    rows = [
        {"path": BASE + i.key, "size_bytes": i.size_bytes, "modified": i.modified, "etag": i.etag}
        for i in infos
    ]
    return pa.RecordBatch.from_pylist(rows, FILE_SCHEMA)


def test_a_verified_delete_leaves_what_changed() -> None:
    store = DictStore()
    for key in ("same", "changed", "gone"):
        store.write(key, b"data")
    files = listed(store, "same", "changed", "gone")
    store.write("changed", b"newer")
    store.delete(["gone"])
    (outcomes,) = delete_files(OneStore(store), [files], verify=True)
    assert outcomes["outcome"].to_pylist() == ["deleted", "changed", "absent"]
    assert outcomes["reason"].to_pylist() == [None, "has changed since it was listed", None]
    assert store.current() == {"changed": b"newer"}


def test_nothing_is_compared_unless_asked() -> None:
    store = DictStore()
    store.write("changed", b"data")
    files = listed(store, "changed")
    store.write("changed", b"newer")
    (outcomes,) = delete_files(OneStore(store), [files])
    assert outcomes["outcome"].to_pylist() == ["deleted"]


def test_only_what_the_input_says_is_compared() -> None:
    store = DictStore()
    for key in ("a", "b"):
        store.write(key, b"data")
    rows = {"path": [BASE + "a", BASE + "b"], "size_bytes": [4, 5]}
    (outcomes,) = delete_files(OneStore(store), [pa.RecordBatch.from_pydict(rows)], verify=True)
    assert outcomes["outcome"].to_pylist() == ["deleted", "changed"]


def test_each_key_is_compared_with_its_own_row() -> None:
    """Also where rows are put together into requests in another order, and keys come twice."""
    store = DictStore()
    for number in range(9):
        store.write(f"{number}", b"x" * number)
    files = listed(store, *(f"{number}" for number in (8, 1, 5, 1, 0, 7, 2, 6, 3, 8, 4)))
    store.write("5", b"changed")
    batches = [files.slice(row, 1) for row in range(files.num_rows)]
    outcomes = pa.Table.from_batches(delete_files(OneStore(store), batches, verify=True))
    assert outcomes["outcome"].to_pylist().count("deleted") == 8
    assert store.current() == {"5": b"changed"}


def test_what_is_no_failure_is_counted_by_itself() -> None:
    names = ["deleted", "quarantined", "changed", "changed", "denied", "occupied"]
    rows = [{"path": name, "outcome": name, "size_bytes": 3} for name in names]
    tally = OutcomeTotals()
    tally.add(pa.RecordBatch.from_pylist(rows, OUTCOME_SCHEMA))
    found = msgspec.to_builtins(tally.report())
    assert (found["quarantined"], found["bytes_quarantined"], found["changed"]) == (1, 3, 2)
    assert (found["found"], found["failed"]) == (6, 2)
