"""One level of a folder, in stores with and without real folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.errors import DeniedError
from lakesweep.storage.address import parse
from lakesweep.storage.listing.folder_level import info_batch, list_level
from lakesweep.storage.object_store import ListingPage
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.base import StoreWrapper
from tests.iceberg_tables import BUCKET, Bucket


def test_a_level_has_files_and_folders() -> None:
    bucket = Bucket()
    for name in ("t/a", "t/b/c", "t/b/d", "t10/e"):
        bucket.write(f"{BUCKET}/{name}", name.encode())
    level = list_level(bucket.stores, parse(f"{BUCKET}/t"))
    assert (list(level.files), level.folders) == (["a"], ("b",))
    assert (level.files["a"].key, level.files["a"].size_bytes) == ("t/a", 3)


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    level = list_level(Stores(), parse(str(tmp_path / "nothing")))
    assert (dict(level.files), level.folders) == ({}, ())


def test_all_pages_count(tmp_path: Path) -> None:
    for number in range(2500):
        (tmp_path / f"{number}").touch()
    assert len(list_level(Stores(), parse(str(tmp_path))).files) == 2500


class Denying(StoreWrapper):
    """A store that lists nothing."""

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        raise DeniedError(prefix, "no right to list")


def test_a_folder_that_may_not_be_listed_is_an_error() -> None:
    stores = Stores(replace={BUCKET: Denying(Bucket().store)})
    with pytest.raises(DeniedError):
        list_level(stores, parse(f"{BUCKET}/t"))


def test_files_of_a_level_become_rows() -> None:
    bucket = Bucket()
    bucket.write(f"{BUCKET}/t/a", b"abc")
    level = list_level(bucket.stores, parse(f"{BUCKET}/t/"))
    (row,) = info_batch("hint", f"{BUCKET}/", level.files.values()).to_pylist()
    assert (row["path"], row["kind"], row["size_bytes"]) == (f"{BUCKET}/t/a", "hint", 3)


def test_no_files_are_no_rows() -> None:
    assert info_batch("hint", f"{BUCKET}/", ()).num_rows == 0
