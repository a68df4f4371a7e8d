"""Folders that cover random paths: nothing ever lies outside."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.storage.address import identity
from lakesweep.storage.covers import collapse, cover, cover_runs

STORES = st.sampled_from(["s3://a/", "s3a://a/", "s3://b/", "gs://b/", "/", "memory://m/"])
KEYS = st.lists(st.sampled_from(["", "x", "xy", "y", "p=1", "\u017e"]), min_size=1, max_size=5).map(
    "/".join
)
PATHS = st.lists(st.builds("{}{}".format, STORES, KEYS), min_size=1, max_size=30)


@settings(deadline=None)
@given(PATHS, st.integers(1, 8))
def test_every_path_lies_in_a_folder_that_covers_it(paths: list[str], most: int) -> None:
    folders = cover(pa.array(paths), most)
    assert all(folder.endswith("/") for folder in folders)
    assert all(any(identity(path).startswith(folder) for folder in folders) for path in paths)


@settings(deadline=None)
@given(PATHS, st.lists(st.integers(0, 30), max_size=4), st.integers(1, 8))
def test_runs_of_paths_are_covered_as_if_each_stood_alone(
    paths: list[str], cuts: list[int], most: int
) -> None:
    bounds = [0, *sorted(min(cut, len(paths)) for cut in cuts), len(paths)]
    alone = [cover(pa.array(paths[a:b], pa.string()), most) for a, b in pairwise(bounds)]
    assert cover_runs(pa.array(paths), bounds, most) == alone


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
