"""Folders go when nothing is left in them, and not before."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.storage.local.emptying import remove_empty_folders


def test_an_empty_folder_goes_with_the_parents_that_it_leaves_empty(tmp_path: Path) -> None:
    (tmp_path / "t/k=1/j=2/bucket-0").mkdir(parents=True)
    gone = remove_empty_folders([f"{tmp_path}/t/k=1/j=2/bucket-0/"], f"{tmp_path}/t")
    assert gone == [f"{tmp_path}/t/{name}/" for name in ("k=1/j=2/bucket-0", "k=1/j=2", "k=1")]
    assert list((tmp_path / "t").iterdir()) == []


def test_a_folder_that_holds_something_stays(tmp_path: Path) -> None:
    (tmp_path / "k=1/bucket-0/sub").mkdir(parents=True)
    (tmp_path / "k=1/bucket-1").mkdir()
    (tmp_path / "k=1/_SUCCESS").touch()
    folders = [f"{tmp_path}/k=1/bucket-{number}/" for number in range(3)]
    assert remove_empty_folders(folders, str(tmp_path)) == [f"{tmp_path}/k=1/bucket-1/"]


@pytest.mark.parametrize("root", ["/t1", "memory://bucket/t1"])
def test_nothing_goes_outside_the_root(tmp_path: Path, root: str) -> None:
    outside = tmp_path / "t10/bucket-0"
    outside.mkdir(parents=True)
    top = root if "://" in root else f"{tmp_path}{root}"
    assert remove_empty_folders([f"{outside}/"], top) == []
    assert outside.is_dir()


def test_addresses_of_other_stores_are_passed_over(tmp_path: Path) -> None:
    assert remove_empty_folders(["s3://lake/t/bucket-0/"], str(tmp_path)) == []


def test_folders_may_be_spelled_as_files(tmp_path: Path) -> None:
    (tmp_path / "bucket-0").mkdir()
    assert remove_empty_folders([f"file://{tmp_path}/bucket-0/"], f"file:{tmp_path}/")
    assert not (tmp_path / "bucket-0").exists()
