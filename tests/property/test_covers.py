"""Folders that cover random paths: nothing ever lies outside."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.marks.covers import Cover, FolderUsage, add_covers, collapse, collapse_cover, cover
from lakesweep.storage.address import identity

STORES = st.sampled_from(["s3://a/", "s3a://a/", "s3://b/", "gs://b/", "/", "memory://m/"])
KEYS = st.lists(st.sampled_from(["", "x", "xy", "y", "p=1", "\u017e"]), min_size=1, max_size=5).map(
    "/".join
)
PATHS = st.lists(st.builds("{}{}".format, STORES, KEYS), min_size=1, max_size=30)


def covered(paths: list[str], most: int, *cuts: int) -> list[Cover]:
    sizes = pa.array([len(path) for path in paths], pa.int64())
    return cover(pa.array(paths, pa.string()), sizes, [0, *cuts, len(paths)], most)


@given(PATHS, st.integers(1, 8))
def test_every_path_lies_in_a_folder_that_covers_it(paths: list[str], most: int) -> None:
    (folders,) = covered(paths, most)
    assert all(folder.endswith("/") for folder in folders)
    assert all(any(identity(path).startswith(folder) for folder in folders) for path in paths)


@given(PATHS, st.integers(1, 8))
def test_every_path_is_counted_once(paths: list[str], most: int) -> None:
    (folders,) = covered(paths, most)
    assert sum(amount.files for amount in folders.values()) == len(paths)
    assert sum(amount.bytes for amount in folders.values()) == sum(map(len, paths))


@given(PATHS, st.lists(st.integers(0, 30), max_size=4), st.integers(1, 8))
def test_runs_of_paths_are_covered_as_if_each_stood_alone(
    paths: list[str], cuts: list[int], most: int
) -> None:
    inside = sorted(min(cut, len(paths)) for cut in cuts)
    alone = [covered(paths[a:b], most)[0] for a, b in pairwise([0, *inside, len(paths)])]
    assert covered(paths, most, *inside) == alone


@given(PATHS, st.integers(1, 8))
def test_what_lies_in_collapsed_folders_is_what_lay_in_them(paths: list[str], most: int) -> None:
    folders = [identity(path).rpartition("/")[0] + "/" for path in paths]
    before = add_covers({folder: FolderUsage(1, 2)} for folder in folders)
    after = collapse_cover(before, most)
    assert all(any(folder.startswith(outer) for outer in after) for folder in folders)
    if len(before) > most:
        assert after == {
            outer: FolderUsage(n := sum(f.startswith(outer) for f in folders), 2 * n)
            for outer in after
        }


@given(PATHS, st.integers(1, 8))
def test_folders_collapse_into_few_that_hold_them_all(paths: list[str], most: int) -> None:
    folders = {identity(path).rpartition("/")[0] + "/" for path in paths}
    kept = collapse(folders, most)
    stores = {
        folder[: len(folder) - len(folder.partition("://")[2].partition("/")[2])]
        if "://" in folder
        else "/"
        for folder in folders
    }
    assert len(kept) <= max(most, len(stores))
    assert all(any(folder.startswith(outer) for outer in kept) for folder in folders)
