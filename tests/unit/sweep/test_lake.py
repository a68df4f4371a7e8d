from __future__ import annotations

import pytest

from lakesweep.config import LakeSection, PinnedRoot
from lakesweep.errors import NotFoundError
from lakesweep.sweep.lake import find_lake


def _section(*locations: str, **more: str) -> LakeSection:
    return LakeSection.model_validate({"locations": locations, "roots": (), **more})


LAKES = {
    "all": _section("s3://lake"),
    "part": _section("s3://lake/part", quarantine="s3://lake/trash", plans="s3://lake/plans/"),
}


def test_a_lake_knows_its_neighbours() -> None:
    assert find_lake(LAKES, "all", "/plans").neighbours == {"part": ("s3://lake/part",)}
    assert find_lake(LAKES, "part", "/plans").neighbours == {"all": ("s3://lake",)}


def test_a_lake_knows_the_roots_of_others() -> None:
    root = PinnedRoot(type="pinned", file="s3://keep.txt")
    lakes = {**LAKES, "other": LakeSection(locations=("s3://other",), roots=(root,))}
    assert find_lake(lakes, "all", "/plans").roots_of_others == (root,)
    assert find_lake(lakes, "other", "/plans").roots_of_others == ()


def test_plans_have_a_folder_for_each_lake() -> None:
    assert find_lake(LAKES, "all", "/plans").plans == "/plans/all"
    assert find_lake(LAKES, "part", "/plans").plans == "s3://lake/plans/part"


def test_what_lakesweep_keeps_for_any_lake_is_its_own() -> None:
    """A lake around another one must not sweep away what was set aside there."""
    assert set(find_lake(LAKES, "all", "/plans").own_folders) == {
        "/plans/all",
        "s3://lake/_lakesweep/quarantine",
        "s3://lake/plans/part",
        "s3://lake/trash",
    }


def test_a_lake_that_is_not_configured_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="no lake other in the configuration; there is all"):
        find_lake(LAKES, "other", "/plans")
