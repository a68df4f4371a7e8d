from __future__ import annotations

from collections.abc import Sequence

import pytest

from lakesweep.iceberg.catalog_entries import CatalogEntry
from lakesweep.iceberg.claims import TableClaim, claims, holds, is_same_table, overlaps
from lakesweep.iceberg.metadata import ViewMetadata
from lakesweep.storage.stores import Stores


def claim(location: str, path: str = "s3://lake/other/metadata/v1.metadata.json") -> TableClaim:
    return TableClaim("lake.shop.other", path, ViewMetadata(path, 1, 1, "x", location, True))


@pytest.mark.parametrize(
    ("theirs", "mine", "expected"),
    [
        ("s3://lake/t", ["s3://lake/t"], True),
        ("s3a://lake/t/", ["s3://lake/t"], True),
        ("s3://lake/t/data/inner", ["s3://lake/t"], True),
        ("s3://lake", ["s3://lake/t"], True),
        ("s3://lake/t1", ["s3://lake/t"], False),
        ("s3://lake/t", ["s3://lake/t1", "s3://lake/x"], False),
        ("s3://lake/t", ["s3://elsewhere/t", "s3://lake/t/w"], True),
        ("s3://lake", ["s3://lakes"], False),
        ("s3://lake/t_bak/x", ["s3://lake/t"], False),
        ("https://acc.blob.core.windows.net/c", ["abfss://c@acc.dfs.core.windows.net/t"], True),
    ],
)
def test_folders_overlap_as_folders(theirs: str, mine: Sequence[str], expected: bool) -> None:
    assert overlaps(claim(theirs), mine) is expected


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [("s3://lake/t", True), ("s3://lake", True), ("s3://lake/t/in", False), ("s3://lake/u", False)],
)
def test_a_table_holds_the_folders_at_and_below_its_own(theirs: str, expected: bool) -> None:
    assert holds(claim(theirs), "s3://lake/t") is expected


def test_the_same_metadata_file_is_the_same_table_in_any_spelling() -> None:
    one = ViewMetadata("s3a://lake/v/m.metadata.json", 1, 1, "x", "s3://lake/v", True)
    assert is_same_table(claim("s3://lake/v", "s3://lake/v/m.metadata.json"), one)
    assert not is_same_table(claim("s3://lake/v", "s3://lake/v/n.metadata.json"), one)


def test_a_table_that_cannot_be_read_is_a_claim_on_its_folder_all_the_same() -> None:
    path = "memory://claims/t/metadata/v1.metadata.json"
    (found,) = claims(Stores(), [CatalogEntry("lake", ("shop", "t"), False, path)])
    assert found.metadata is None
    assert found.error
    assert overlaps(found, ["memory://claims/t"])
    assert not overlaps(found, ["memory://claims/t1"])
