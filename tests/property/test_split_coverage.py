"""Whatever the keys are, splits name each of them exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.storage.listing import key_splits
from lakesweep.storage.listing.key_splits import Split, split
from lakesweep.storage.listing.locations import list_files, list_splits
from lakesweep.storage.listing.scan import Scan
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.object_store import ObjectStore
from tests.paged_store import OneStore, PagedStore

#: Around the surrogates, around the slash, the first and the last characters there are.
NASTY = "/ab0!.~\x01\x1f\x7fé\ud7ff\ue000\uffff\U00010000\U0010fffe\U0010ffff"
PREFIXES = ("", "a/", "a//", "b/a/")

nasty_keys = st.builds(
    "{}{}".format,
    st.sampled_from([*PREFIXES, "a", "a/" + "\U0010ffff" * 3, "b/a/0/0/0"]),
    st.text(NASTY, max_size=5),
).filter(bool)
key_sets = st.sets(nasty_keys, max_size=60)
bounds = st.one_of(st.just(""), nasty_keys)


def below(prefix: str, keys: set[str]) -> list[str]:
    return sorted(key for key in keys if key.startswith(prefix))


def paths_of(batches: Iterator[pa.RecordBatch]) -> list[str]:
    return sorted(path for batch in batches for path in batch.column("path").to_pylist())


def listed(store: ObjectStore, splits: Sequence[Split], workers: int = 1) -> list[str]:
    return paths_of(list_splits(store, splits, base="", workers=workers))


@given(
    keys=key_sets,
    late=key_sets,
    prefix=st.sampled_from(PREFIXES),
    parts=st.integers(1, 12),
    page_rows=st.integers(1, 5),
    max_requests=st.integers(1, 200),
    ordered=st.booleans(),
)
def test_splits_name_each_key_once_also_those_that_come_later(
    *,
    keys: set[str],
    late: set[str],
    prefix: str,
    parts: int,
    page_rows: int,
    max_requests: int,
    ordered: bool,
) -> None:
    store = PagedStore(keys, page_rows, ordered)
    splits = split(store, prefix, parts, max_requests=max_requests)
    assert 1 <= len(splits) <= parts
    assert splits[0].after == splits[-1].until == ""
    assert all(left.until == right.after != "" for left, right in pairwise(splits))
    store.keys = keys | late
    assert listed(store, splits) == below(prefix, keys | late)


@given(keys=key_sets, late=key_sets, prefix=st.sampled_from(PREFIXES), page_rows=st.integers(1, 5))
def test_splits_read_together_name_each_key_once(
    keys: set[str], late: set[str], prefix: str, page_rows: int
) -> None:
    store = PagedStore(keys, page_rows)
    splits = split(store, prefix, 4)
    store.keys = keys | late
    assert listed(store, splits, workers=3) == below(prefix, keys | late)


@given(keys=key_sets, page_rows=st.integers(1, 4), workers=st.integers(1, 5))
def test_a_listing_cut_while_it_is_read_names_each_key_once(
    keys: set[str], page_rows: int, workers: int
) -> None:
    stores = OneStore(PagedStore(keys, page_rows))
    found = paths_of(list_files(stores, "memory://bucket/a/", workers=workers))
    assert found == ["memory://bucket/" + key for key in below("a/", keys)]


@given(
    keys=key_sets,
    page_rows=st.integers(1, 4),
    cuts=st.lists(st.tuples(st.integers(0, 9), nasty_keys)),
)
def test_a_scan_and_what_it_gave_away_name_each_key_once(
    keys: set[str], page_rows: int, cuts: list[tuple[int, str]]
) -> None:
    store = PagedStore(keys, page_rows)
    waiting, found = [Scan(store, Split(""))], list[str]()
    while waiting:
        scan = waiting.pop()
        while not scan.is_done:
            given_away = scan.give(cut for page, cut in cuts if page == scan.pages_read)
            waiting += [Scan(store, part) for part in given_away]
            found += scan.next_page().column("key").to_pylist()
    assert sorted(found) == sorted(keys)


@given(keys=key_sets, after=bounds, until=bounds, ordered=st.booleans())
def test_a_split_lists_what_lies_between_its_bounds(
    *, keys: set[str], after: str, until: str, ordered: bool
) -> None:
    part = Split("a/", after, until)
    expected = [key for key in below("a/", keys) if part.holds(key)]
    assert listed(PagedStore(keys, 3, ordered), [part]) == expected


@given(folder=nasty_keys, keys=key_sets, after=bounds, until=bounds)
def test_touching_and_covering_a_folder_agree_with_its_keys(
    folder: str, keys: set[str], after: str, until: str
) -> None:
    part = Split("", after, until)
    inside = [part.holds(folder + "/" + key) for key in keys | {""}]
    if part.covers(folder + "/"):
        assert all(inside)
    if any(inside):
        assert part.touches(folder + "/")


@pytest.mark.parametrize("ordered", [True, False])
def test_the_nasty_alphabet_sorts_as_utf8_does(ordered: bool) -> None:
    store = PagedStore(set(NASTY), 100, ordered)
    keys = store.list("").entries.column("key").to_pylist()
    assert sorted(keys) == sorted(keys, key=str.encode)


names = st.text("ab0!.~\x01\x7fé\ue000\U0010ffff", min_size=1, max_size=3).filter(
    lambda name: name.strip(".")
)
local_keys = st.sets(st.lists(names, min_size=1, max_size=3).map("/".join), max_size=30)


@given(keys=local_keys, late=local_keys, parts=st.integers(2, 12), most=st.integers(0, 4))
def test_splits_of_a_local_folder_name_each_file_once(
    keys: set[str], late: set[str], parts: int, most: int
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_splits, "_MAX_FILES_REREAD", most)
        store = LocalStore(folder, "")
        touch(Path(folder), keys)
        splits = split(store, "", parts)
        touch(Path(folder), late)
        there = [path for path in Path(folder).rglob("*") if path.is_file()]
        assert listed(store, splits) == sorted(str(path.relative_to(folder)) for path in there)


def touch(folder: Path, keys: set[str]) -> None:
    """Make those files whose names are not taken by folders, nor the other way round."""
    for key in sorted(keys):
        with suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            (folder / key).open("x").close()
