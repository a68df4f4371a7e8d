"""List and purge files, without a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.app import App
from lakesweep.config import Config, LakeSection
from lakesweep.errors import LeaseHeldError, RefusedError, UsageError
from lakesweep.operations.lakes.runs import RunFilter, list_runs
from lakesweep.operations.tables.files import (
    FileFilters,
    ListFilesRequest,
    PurgeFilesPreview,
    PurgeFilesRequest,
    list_files,
    purge_files,
)
from lakesweep.runs.records import RunKind
from lakesweep.runs.sessions import run_session
from lakesweep.storage.deleting.outcome_totals import OutcomeTotals


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


def test_a_file_that_is_written_again_before_it_goes_stays(app: App, lake: Path) -> None:
    """The filters chose what was there before, by its age for example."""

    def write_again(_: PurgeFilesPreview) -> None:
        (lake / "a.parquet").write_bytes(b"54321")

    request = PurgeFilesRequest((str(lake),), FileFilters(globs=("*.parquet",)))
    result = purge_files(app, request, write_again)
    assert (result.found, result.deleted, result.changed) == (2, 1, 1)
    assert names(lake) == ["a.parquet", "c.tmp"]


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


def lakes(lake: Path) -> Config:
    return Config(lakes={"prod": LakeSection(locations=(str(lake),))})


def test_a_purge_is_a_run_of_the_lake_that_it_deletes_in(tmp_path: Path, lake: Path) -> None:
    app = App(lakes(lake), folder=tmp_path)
    request = PurgeFilesRequest((str(lake),), FileFilters(globs=("*.parquet",)))
    purge_files(app, request, agree)
    [run] = list_runs(app, RunFilter("prod"))
    assert (run.kind, run.status, run.files, run.bytes) == ("purge", "done", 2, 10)
    assert run.user
    assert run.host
    assert run.subject == str(lake)
    assert [name for name in names(lake) if name != "_lakesweep"] == ["c.tmp"]


def test_a_purge_outside_of_all_lakes_is_recorded_too(app: App, lake: Path) -> None:
    purge_files(app, PurgeFilesRequest((str(lake),)), agree)
    [run] = list_runs(app)
    assert (run.kind, run.files, run.subject) == ("purge", 3, str(lake))


def test_a_dry_run_leaves_no_record(app: App, lake: Path) -> None:
    purge_files(app, PurgeFilesRequest((str(lake),), dry_run=True), agree)
    assert list_runs(app) == []


def test_no_purge_deletes_in_a_lake_while_another_run_works_there(
    tmp_path: Path, lake: Path
) -> None:
    app = App(lakes(lake), folder=tmp_path)
    with (
        run_session(app.runs, "prod", RunKind.APPLY, spec={}),
        pytest.raises(LeaseHeldError),
    ):
        purge_files(app, PurgeFilesRequest((f"{lake}/",)), agree)
    assert names(lake) == ["a.parquet", "b.parquet", "c.tmp"]


def test_a_purge_that_is_interrupted_records_what_it_deleted(
    tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    app = App(lakes(lake), folder=tmp_path)
    monkeypatch.setattr(OutcomeTotals, "add", interrupt)
    with pytest.raises(KeyboardInterrupt):
        purge_files(app, PurgeFilesRequest((str(lake),)), agree)
    [run] = list_runs(app, RunFilter("prod"))
    assert (run.status, run.files) == ("stopped", 0)
