"""Folders go when nothing is left in them, and not before."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakesweep.storage.local.empty_folders import find_empty_folders, remove_empty_folders

LEVELS = [re.compile("k=.+"), re.compile("bucket-[0-9]+")]


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


def _empty(root: Path, since: timedelta = timedelta(0)) -> list[str]:
    """What is found of folders that are an hour old."""
    for folder in root.rglob("*"):
        hour_ago = folder.stat().st_ctime - 3600
        os.utime(folder, (hour_ago, hour_ago))
    found = find_empty_folders(str(root), LEVELS, datetime.now(UTC) - since)
    return [path.removeprefix(f"{root}/") for path in found]


def test_empty_folders_are_found_on_every_level(tmp_path: Path) -> None:
    for name in ("k=1/bucket-0", "k=1/bucket-1", "k=2"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "k=1/bucket-1/file").touch()
    assert _empty(tmp_path) == ["k=1/bucket-0/", "k=2/"]


def test_folders_of_other_names_are_not_found(tmp_path: Path) -> None:
    for name in ("manifest", "bucket-0", "k=1/bucket-x", "k=1/j=2", "k=1/bucket-0/sub"):
        (tmp_path / name).mkdir(parents=True)
    assert _empty(tmp_path) == []


def test_an_empty_folder_that_changed_lately_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "k=1").mkdir()
    assert _empty(tmp_path, since=timedelta(hours=2)) == []


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere/bucket-0").mkdir(parents=True)
    (tmp_path / "k=1").symlink_to(tmp_path / "elsewhere")
    assert _empty(tmp_path) == []


@pytest.mark.parametrize("root", ["missing", "memory://bucket/t"])
def test_where_there_are_no_folders_none_is_found(tmp_path: Path, root: str) -> None:
    top = root if "://" in root else f"{tmp_path}/{root}"
    assert list(find_empty_folders(top, LEVELS, datetime.now(UTC))) == []
