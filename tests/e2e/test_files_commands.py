"""`lakesweep files` from the command line."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.command import Lakesweep
from tests.scripted import error, http, page, scripted_server
from tests.servers import S3Server

KEYS = (
    "t1/a.parquet",
    "t1/b/_tmp/c.parquet",
    "t1/metadata/v1.metadata.json",
    "t10/a.parquet",
    "t1_bak/x",
)


@pytest.fixture
def lakesweep(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Lakesweep:
    for name in list(os.environ):
        if name.startswith(("AWS_", "LAKESWEEP_")):
            monkeypatch.delenv(name)
    return Lakesweep(capfd)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, key in enumerate(KEYS):
        path = tmp_path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 10**number)
    return tmp_path


def left(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def names(lakesweep: Lakesweep, *words: str) -> set[str]:
    done = lakesweep("files", "list", *words)
    assert done.code == 0, done.err
    return {line["path"].rpartition("/")[2] for line in done.lines}


def test_a_folder_never_means_another_that_begins_like_it(
    lakesweep: Lakesweep, folder: Path
) -> None:
    done = lakesweep("files", "list", str(folder / "t1"))
    assert {line["path"] for line in done.lines} == {str(folder / key) for key in KEYS[:3]}


@pytest.mark.parametrize("scheme", ["file://", "file:", ""])
def test_paths_are_spelled_as_the_address_was(
    scheme: str, lakesweep: Lakesweep, folder: Path
) -> None:
    done = lakesweep("files", "list", f"{scheme}{folder}/t10")
    assert [line["path"] for line in done.lines] == [f"{scheme}{folder}/t10/a.parquet"]


def test_a_relative_folder_is_taken_from_here(
    lakesweep: Lakesweep, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    done = lakesweep("files", "list", "./t10", "t1_bak/")
    assert {line["path"] for line in done.lines} == {str(folder / key) for key in KEYS[3:]}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--glob", "*.parquet"], {"a.parquet", "c.parquet"}),
        (["--glob", "t1/*.parquet"], {"a.parquet"}),
        (["--glob", "**/_tmp/**"], {"c.parquet"}),
        (["--exclude", "**/_tmp/**", "--glob", "t1/**"], {"a.parquet", "v1.metadata.json"}),
        (["--regex", "^t1_"], {"x"}),
        (["--min-size", "100"], {"v1.metadata.json", "a.parquet", "x"}),
        (["--max-size", "10B"], {"a.parquet", "c.parquet"}),
        (["--kind", "metadata"], {"v1.metadata.json"}),
        (["--older-than", "1h"], {"x"}),
        (["--newer-than", "1h", "--kind", "metadata"], {"v1.metadata.json"}),
    ],
)
def test_filters_select(
    words: list[str], expected: set[str], lakesweep: Lakesweep, folder: Path
) -> None:
    yesterday = (datetime.now(UTC) - timedelta(days=1)).timestamp()
    os.utime(folder / "t1_bak/x", (yesterday, yesterday))
    assert names(lakesweep, str(folder), *words) == expected


def test_a_single_object_is_seen_from_its_folder(lakesweep: Lakesweep, folder: Path) -> None:
    path = str(folder / "t10/a.parquet")
    assert names(lakesweep, path, "--glob", "*.parquet") == {"a.parquet"}
    assert names(lakesweep, path, "--exclude", "*.parquet") == set()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--older-than", "2099-01-01T00:00:00Z"], 2, "future"),
        (["--older-than", "yesterday"], 2, "not a point in time"),
        (["--min-size", "big"], 2, "not a size"),
        (["--regex", "("], 2, "regular expression"),
        (["--regex", ""], 2, "empty"),
        (["--kind", "manifests"], 2, "there is no kind"),
        (["--glob", "[", "--glob", "a"], 2, ""),
    ],
)
def test_wrong_words_are_refused_before_anything_happens(
    words: list[str], code: int, message: str, lakesweep: Lakesweep, folder: Path
) -> None:
    done = lakesweep("files", "purge", str(folder), "--yes", *words)
    assert done.code == code
    assert message in done.error["message"]
    assert left(folder) == set(KEYS)


def test_a_missing_folder_is_not_an_empty_one(lakesweep: Lakesweep, folder: Path) -> None:
    assert lakesweep("files", "list", str(folder / "nowhere")).code == 6


def test_purge_deletes_what_list_shows(lakesweep: Lakesweep, folder: Path) -> None:
    words = [str(folder / "t1"), "--glob", "*.parquet"]
    shown = {line["path"] for line in lakesweep("files", "list", *words).lines}
    done = lakesweep("files", "purge", *words, "--yes")
    assert done.code == 0
    assert done.document["deleted"] == len(shown) == 2
    assert done.document["bytes_deleted"] == 11
    assert left(folder) == set(KEYS) - {"t1/a.parquet", "t1/b/_tmp/c.parquet"}


def test_a_file_under_two_addresses_goes_once(lakesweep: Lakesweep, folder: Path) -> None:
    words = [str(folder / "t1"), f"file://{folder}/t1/a.parquet", str(folder)]
    done = lakesweep("files", "purge", *words, "--glob", "a.parquet", "--yes")
    assert done.document["found"] == done.document["deleted"] == 2
    assert done.document["absent"] == 0


def test_what_cannot_be_deleted_is_told_and_the_rest_goes(
    lakesweep: Lakesweep, tmp_path: Path
) -> None:
    answer = (
        b"<DeleteResult><Deleted><Key>t/a</Key></Deleted>"
        b"<Error><Key>t/b</Key><Code>AccessDenied</Code></Error></DeleteResult>"
    )
    listed = {"ETag": '"e"', "Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT"}
    seen = http(200, b"", {**listed, "Content-Length": "1"})
    no_probe = error(403, "AccessDenied")
    with scripted_server() as server:
        server.play(page("t/a", "t/b"), seen, seen, no_probe, http(200, answer))
        lakesweep.config = tmp_path / "lakesweep.toml"
        lakesweep.config.write_text(
            f'[storage."s3://bucket"]\nendpoint = "{server.endpoint}"\n'
            'access_key_id = "id"\nsecret_access_key = "secret"\nregion = "us-east-1"\n'
        )
        done = lakesweep("files", "purge", "s3://bucket/t/", "--yes")
    assert done.code == 4
    assert (done.document["deleted"], done.document["failed"]) == (1, 1)
    (failure,) = done.document["failures"]
    assert failure["path"] == "s3://bucket/t/b"
    assert failure["reason"].startswith("denied")


@pytest.mark.parametrize("uri", ["/", "file:///", "file:/", "FILE:///", "file://localhost/", "."])
def test_the_whole_file_system_is_refused(
    uri: str, lakesweep: Lakesweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    assert lakesweep("files", "purge", uri, "--glob", "no-such-*", "--yes").code == 3


def test_s3_is_reached_with_the_variables_of_its_sdks(
    moto: S3Server, lakesweep: Lakesweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = moto.make_bucket("files-commands")
    for key in KEYS:
        moto.boto3().put_object(Bucket=bucket, Key=key, Body=b"x")
    for name, value in moto.environment().items():
        monkeypatch.setenv(name, value)
    done = lakesweep("files", "list", f"s3a://{bucket}/t1")
    assert {line["path"] for line in done.lines} == {f"s3a://{bucket}/{key}" for key in KEYS[:3]}
    assert all(line["etag"] and line["modified"].endswith("Z") for line in done.lines)
    done = lakesweep("files", "purge", f"s3://{bucket}/t1", "--yes")
    assert done.document["deleted"] == 3
    assert names(lakesweep, f"s3://{bucket}") == {"a.parquet", "x"}


def test_a_bucket_that_is_not_there_is_not_found(
    moto: S3Server, lakesweep: Lakesweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in moto.environment().items():
        monkeypatch.setenv(name, value)
    done = lakesweep("files", "list", "s3://no-such-bucket-here/")
    assert done.code == 6
    assert "no-such-bucket-here" in done.error["message"]


@pytest.fixture
def warehouse(lakesweep: Lakesweep, tmp_path: Path) -> Path:
    """A lake with a catalog and one table, and a file that nothing references."""
    place = tmp_path / "lake"
    catalog = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(place))
    catalog.create_namespace("shop")
    rows = pa.table({"id": pa.array(range(10), pa.int64())})
    catalog.create_table("shop.a", rows.schema).append(rows)
    (place / "scratch.parquet").write_bytes(b"scratch")
    lakesweep.config = tmp_path / "lakesweep.toml"
    lakesweep.config.write_text(
        f'[lakes.prod]\nlocations = ["{place}"]\n[[lakes.prod.roots]]\ntype = "iceberg-catalog"\n'
        f'name = "prod"\nproperties = {{ type = "sql", uri = "sqlite:///{tmp_path}/catalog.db" }}\n'
    )
    return place


def test_a_purge_keeps_what_a_root_references(lakesweep: Lakesweep, warehouse: Path) -> None:
    live = left(warehouse) - {"scratch.parquet"}
    done = lakesweep("files", "purge", str(warehouse), "--yes")
    assert (done.code, done.document["deleted"], done.document["protected"]) == (0, 1, len(live))
    assert left(warehouse) == live
    assert "kept: referenced" in done.err
    words = ["--yes", "--override", "referenced"]
    assert lakesweep("files", "purge", str(warehouse), *words).document["deleted"] == len(live)


def test_a_purge_beside_a_root_that_cannot_be_read_is_refused(
    lakesweep: Lakesweep, warehouse: Path
) -> None:
    newest = max((warehouse / "shop/a/metadata").glob("*.metadata.json"))
    newest.write_text("{")
    done = lakesweep("files", "purge", str(warehouse), "--glob", "scratch.*", "--yes")
    assert (done.code, "prod.shop.a" in done.error["message"]) == (3, True)
    assert (warehouse / "scratch.parquet").exists()


def test_no_purge_takes_lakesweeps_own_files(lakesweep: Lakesweep, warehouse: Path) -> None:
    lakesweep("store", "init")
    folder = warehouse.parent
    words = ["--yes", "--override", "referenced", "--glob", "*.{toml,db}"]
    done = lakesweep("files", "purge", str(folder), *words)
    assert (done.document["found"], done.document["protected"]) == (0, 3), done.err
    assert {"lakesweep.toml", "catalog.db", ".lakesweep/store.db"} <= left(folder)
