"""What a listing promises to those who read it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from lakesweep.errors import DeniedError, MissingError, StorageError, UnavailableError, UsageError
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.listing.key_splits import Split, split
from lakesweep.storage.listing.locations import list_files, list_splits
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.object_store import ListingPage, ObjectInfo, ObjectStore
from tests.paged_store import ListCall, OneStore, PagedStore, entries_of

MANY = {f"t/{number:04d}" for number in range(3_000)}


def paths(batches: Iterable[pa.RecordBatch]) -> list[str]:
    return [path for batch in batches for path in batch.column("path").to_pylist()]


def listed(store: ObjectStore, location: str, workers: int = 4) -> list[str]:
    base = "memory://bucket/"
    found = paths(list_files(OneStore(store), base + location, workers=workers))
    assert all(path.startswith(base) for path in found)
    return sorted(path.removeprefix(base) for path in found)


@dataclass
class Scripted(PagedStore):
    """Answers with pages that were written beforehand, right or wrong."""

    pages: list[list[str]] = field(default_factory=list)

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        self.list_calls.append(ListCall(prefix, one_level, after, cursor))
        number = cursor if isinstance(cursor, int) else 0
        following = number + 1 if number + 1 < len(self.pages) else None
        return ListingPage(entries_of(self.pages[number]), (), following)


def test_batches_have_the_schema_of_files_and_paths_as_the_location_was_written() -> None:
    (batch,) = list_files(OneStore(PagedStore({"t/a"})), "s3a://bucket/t/")
    assert batch.schema == FILE_SCHEMA
    assert batch.to_pylist() == [
        {
            "path": "s3a://bucket/t/a",
            "kind": None,
            "size_bytes": 3,
            "modified": None,
            "etag": None,
        }
    ]


def test_a_location_is_a_folder_and_no_string_prefix() -> None:
    store = PagedStore({"t1/a", "t10/a", "t1_bak/a", "t1a"})
    assert listed(store, "t1") == listed(store, "t1/") == ["t1/a"]


def test_a_location_without_a_slash_names_the_object_too_and_it_comes_first() -> None:
    store = PagedStore({"t1", "t1/", "t1/!", "t1//x", "t10"})
    assert paths(list_files(OneStore(store), "memory://bucket/t1"))[0] == "memory://bucket/t1"
    assert listed(store, "t1") == ["t1", "t1/", "t1/!", "t1//x"]
    assert listed(store, "t1/") == ["t1/", "t1/!", "t1//x"]


def test_a_whole_bucket_is_a_location() -> None:
    assert listed(PagedStore({"a", "b/c", "/d"}), "") == ["/d", "a", "b/c"]


def test_a_location_of_no_known_store_is_refused_at_once() -> None:
    with pytest.raises(UsageError):
        list_files(OneStore(PagedStore(set())), "nowhere")


def test_a_location_of_one_page_costs_one_request_and_no_thread() -> None:
    store = PagedStore({"t/a", "t/b", "t/c"}, page_rows=3)
    before = threading.active_count()
    batches = list_files(OneStore(store), "memory://bucket/t/")
    assert len(paths(batches)) == 3
    assert (len(store.list_calls), threading.active_count()) == (1, before)


def test_small_pages_are_gathered_into_large_batches() -> None:
    store = PagedStore({f"t/{number:05d}" for number in range(12_000)}, page_rows=1_000)
    batches = list_files(OneStore(store), "memory://bucket/t/")
    assert [batch.num_rows >= 10_000 for batch in batches][:1] == [True]


def test_a_long_flat_listing_is_shared_between_the_workers() -> None:
    store = PagedStore(set(MANY), page_rows=50)
    assert listed(store, "t/") == sorted(MANY)
    starts = {call.after for call in store.list_calls if call.cursor is not None}
    assert len(starts) > 1


def test_one_worker_reads_page_after_page() -> None:
    store = PagedStore(set(MANY), page_rows=500)
    assert listed(store, "t/", workers=1) == sorted(MANY)
    assert len(store.list_calls) == 6


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("failing", [0, 1, 17, 40])
def test_one_failing_page_fails_the_listing(failing: int, workers: int) -> None:
    store = PagedStore(set(MANY), page_rows=50)

    def fail(_: ListCall) -> None:
        if len(store.list_calls) > failing:
            raise UnavailableError(store.base, "gone")

    store.before_list = fail
    with pytest.raises(UnavailableError):
        listed(store, "t/", workers)


def test_a_defect_in_a_worker_reaches_the_consumer() -> None:
    store = PagedStore(set(MANY), page_rows=50)

    def fail(call: ListCall) -> None:
        if call.cursor is not None:
            raise ZeroDivisionError

    store.before_list = fail
    with pytest.raises(ZeroDivisionError):
        listed(store, "t/")


def test_a_slow_consumer_holds_the_workers_back() -> None:
    store = PagedStore({f"t/{number:06d}" for number in range(60_000)}, page_rows=20)
    quiet = threading.Event()
    batches = list_files(OneStore(store), "memory://bucket/t/", workers=4)
    next(batches)
    quiet.wait(0.2)
    taken = 10_000 // 20
    # The buffer, one page in the hands of each worker, and the search for cuts.
    assert len(store.list_calls) <= taken + 3 * 4 + 60
    assert sum(batch.num_rows for batch in batches) == 60_000 - 10_000


def test_closing_the_iterator_stops_the_workers() -> None:
    store = PagedStore({f"t/{number:06d}" for number in range(20_000)}, page_rows=20)
    batches = list_files(OneStore(store), "memory://bucket/t/", workers=4)
    next(batches)
    workers = _list_threads()
    assert isinstance(batches, Iterator)
    batches.close()  # type: ignore[attr-defined]
    for worker in workers:
        worker.join(10)
    assert not _list_threads()


def _list_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("lakesweep-list")]


def test_a_key_named_twice_is_an_error() -> None:
    within_a_page = Scripted(set(), pages=[["t/a", "t/a"]])
    across_pages = Scripted(set(), pages=[["t/a"], ["t/a", "t/b"]])
    for store in (within_a_page, across_pages):
        with pytest.raises(StorageError, match="t/a: is listed twice"):
            listed(store, "t/", workers=1)


def test_a_key_outside_the_location_is_an_error() -> None:
    with pytest.raises(StorageError, match="t10/a: is listed below 't/'"):
        listed(Scripted(set(), pages=[["t10/a"]]), "t/")


@pytest.mark.parametrize("pages", [[["t/b", "t/a"]], [["t/b"], ["t/a"]], [["t/0"]], [["t/5"]]])
def test_a_range_listed_out_of_order_is_an_error(pages: list[list[str]]) -> None:
    store = Scripted(set(), pages=pages)
    with pytest.raises(StorageError, match="cannot be listed in parts"):
        list(list_splits(store, [Split("t/", "t/5", "t/z")], base=""))


def test_a_store_that_breaks_its_order_is_still_listed_in_one_go() -> None:
    store = Scripted(set(), pages=[["t/c", "t/a"], ["t/b"], ["t/d"]])
    assert listed(store, "t/", workers=4) == ["t/a", "t/b", "t/c", "t/d"]
    assert {call.after for call in store.list_calls if call.cursor is not None} == {""}


def test_empty_pages_in_between_do_not_end_a_listing() -> None:
    store = Scripted(set(), pages=[[], ["t/a"], [], ["t/b"]])
    assert listed(store, "t/", workers=1) == ["t/a", "t/b"]


def test_a_denied_look_at_the_object_says_how_to_list_the_folder() -> None:
    class Denying(PagedStore):
        def head(self, key: str) -> ObjectInfo:
            raise DeniedError(self.base + key, "no right to read")

    with pytest.raises(DeniedError) as caught:
        listed(Denying({"t/a"}), "t")
    assert caught.value.hint == "end the location with / to list only the folder"
    assert listed(Denying({"t/a"}), "t/") == ["t/a"]


def test_a_local_folder_a_file_and_neither(tmp_path: Path) -> None:
    (tmp_path / "t1" / "deep").mkdir(parents=True)
    for name in ("t1/a", "t1/deep/b", "t10"):
        (tmp_path / name).write_text("x")
    stores = OneStore(LocalStore())
    assert sorted(paths(list_files(stores, f"{tmp_path}/t1"))) == [
        f"{tmp_path}/t1/a",
        f"{tmp_path}/t1/deep/b",
    ]
    assert paths(list_files(stores, f"file://{tmp_path}/t10")) == [f"file://{tmp_path}/t10"]
    with pytest.raises(MissingError):
        list(list_files(stores, f"{tmp_path}/t"))


def test_splits_of_a_local_folder_list_each_file_once(tmp_path: Path) -> None:
    expected = sorted(f"{day}/{number}" for day in "abcde" for number in range(20))
    for name in expected:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    store = LocalStore(str(tmp_path))
    splits = split(store, "", 3)
    assert len(splits) == 3
    assert sorted(paths(list_splits(store, splits, base=""))) == expected
