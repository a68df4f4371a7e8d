"""Owners of paths against a loop over all folders."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.sweep.paths.folder_map import FolderMap

# Few characters, so that folders meet; names around eight bytes, where words end.
names = st.text("ab/ž", max_size=10) | st.sampled_from(["data", "sevenby", "eightbyt", "ninebytes"])
folders = st.lists(names, max_size=5).map(lambda parts: "s3://b/" + "/".join(parts) + "/")
paths = st.lists(names, max_size=7).map(lambda parts: "s3://b/" + "/".join(parts))


@given(st.lists(folders, max_size=12), st.lists(paths | folders, max_size=12))
def test_the_longest_folder_around_a_path_owns_it(claimed: list[str], asked: list[str]) -> None:
    found = FolderMap(zip(claimed, claimed, strict=True))
    expected = [
        max((each for each in claimed if path.startswith(each)), key=len, default=None)
        for path in asked
    ]
    assert found.labels(found.find(pa.array(asked, pa.string()))).to_pylist() == expected


@given(st.lists(st.tuples(folders, st.sampled_from("xyz")), max_size=12))
def test_owners_meet_somewhere_between_folders_that_hold_each_other(
    claims: list[tuple[str, str]],
) -> None:
    told = [overlap.folder for overlap in FolderMap(claims).overlaps()]
    for inner, name in claims:
        for outer, other in claims:
            if inner.startswith(outer) and name != other:
                assert any(inner.startswith(each) and each.startswith(outer) for each in told)
