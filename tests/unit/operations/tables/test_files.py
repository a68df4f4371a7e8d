"""List and purge files, without a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.app import App
from lakesweep.config import Config
from lakesweep.errors import RefusedError, UsageError
from lakesweep.operations.tables.files import (
    FileFilters,
    ListFilesRequest,
    PurgeFilesPreview,
    PurgeFilesRequest,
    list_files,
    purge_files,
)


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(Config(), folder=tmp_path)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for name in ("a.parquet", "b.parquet", "c.tmp"):
        (tmp_path / "lake").mkdir(exist_ok=True)
        (tmp_path / "lake" / name).write_bytes(b"12345")
    return tmp_path / "lake"


def agree(preview: PurgeFilesPreview) -> None:
    del preview


def refuse(preview: PurgeFilesPreview) -> None:
    raise RefusedError("confirmation", f"{preview.files} files are too many")


def names(lake: Path) -> list[str]:
    return sorted(path.name for path in lake.iterdir())


def test_filters_select_what_is_listed(app: App, lake: Path) -> None:
    request = ListFilesRequest((str(lake),), FileFilters(globs=("*.tmp",)))
    paths = [path for batch in list_files(app, request) for path in batch["path"].to_pylist()]
    assert paths == [str(lake / "c.tmp")]


def test_exactly_what_was_confirmed_is_deleted(app: App, lake: Path) -> None:
    shown: list[PurgeFilesPreview] = []
    request = PurgeFilesRequest((str(lake),), FileFilters(globs=("*.parquet",)))
    result = purge_files(app, request, shown.append)
    assert shown == [PurgeFilesPreview(2, 10)]
    assert (result.found, result.deleted, result.bytes_deleted, result.is_complete) == (
        2, 2, 10, True,
    )  # fmt: skip
    assert names(lake) == ["c.tmp"]


def test_nothing_is_deleted_when_the_caller_refuses(app: App, lake: Path) -> None:
    with pytest.raises(RefusedError, match="3 files are too many"):
        purge_files(app, PurgeFilesRequest((str(lake),)), refuse)
    assert names(lake) == ["a.parquet", "b.parquet", "c.tmp"]


def test_a_dry_run_deletes_nothing(app: App, lake: Path) -> None:
    result = purge_files(app, PurgeFilesRequest((str(lake),), dry_run=True), agree)
    assert (result.found, result.bytes_found, result.deleted) == (3, 15, 0)
    assert len(names(lake)) == 3


def test_overlapping_locations_count_a_file_once(app: App, lake: Path) -> None:
    request = PurgeFilesRequest((str(lake), str(lake.parent)), dry_run=True)
    assert purge_files(app, request, agree).found == 3


def test_the_root_of_the_file_system_is_refused_however_it_is_written(
    app: App, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("/")
    for path in ("/", "//", "/.", "file:///", "/tmp/..", str(tmp_path / "link")):
        with pytest.raises(RefusedError, match="the whole file system"):
            purge_files(app, PurgeFilesRequest((path,)), refuse)


def test_an_unknown_kind_is_refused_with_the_nearest_one(app: App, lake: Path) -> None:
    request = ListFilesRequest((str(lake),), FileFilters(kinds=("manifests",)))
    with pytest.raises(UsageError, match="there is no kind 'manifests'") as caught:
        list(list_files(app, request))
    assert caught.value.hint == "did you mean manifest?"
