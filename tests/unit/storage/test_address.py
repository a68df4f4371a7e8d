from __future__ import annotations

import pytest

from lakesweep.errors import UsageError
from lakesweep.storage.address import StoreKind, folder_identity, identity, parse

AZURE = "c@acc.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("path", "kind", "bucket", "key", "base"),
    [
        ("s3://b/k", StoreKind.S3, "b", "k", "s3://b/"),
        ("s3a://b/a//b/", StoreKind.S3, "b", "a//b/", "s3a://b/"),
        ("S3N://b//lead", StoreKind.S3, "b", "/lead", "S3N://b/"),
        ("s3://b", StoreKind.S3, "b", "", "s3://b/"),
        ("s3://b/a%2Fb?c#d", StoreKind.S3, "b", "a%2Fb?c#d", "s3://b/"),
        ("gs://b/k", StoreKind.GCS, "b", "k", "gs://b/"),
        ("gcs://b/k", StoreKind.GCS, "b", "k", "gcs://b/"),
        ("memory://m/k", StoreKind.MEMORY, "m", "k", "memory://m/"),
        ("/a/b", StoreKind.FILE, "", "a/b", "/"),
        ("file:/a", StoreKind.FILE, "", "a", "file:/"),
        ("file:///a", StoreKind.FILE, "", "a", "file:///"),
        ("file://localhost/a", StoreKind.FILE, "", "a", "file://localhost/"),
        (f"abfss://{AZURE}/k", StoreKind.AZURE, AZURE, "k", f"abfss://{AZURE}/"),
        (f"abfs://{AZURE}", StoreKind.AZURE, AZURE, "", f"abfs://{AZURE}/"),
        (
            "wasbs://c@acc.blob.core.windows.net/a//k",
            *(StoreKind.AZURE, AZURE, "a//k", "wasbs://c@acc.blob.core.windows.net/"),
        ),
        (
            "https://acc.blob.core.windows.net/c/k",
            *(StoreKind.AZURE, AZURE, "k", "https://acc.blob.core.windows.net/c/"),
        ),
        (
            "https://acc.blob.core.windows.net/c",
            *(StoreKind.AZURE, AZURE, "", "https://acc.blob.core.windows.net/c/"),
        ),
    ],
)
def test_addresses_are_split_exactly(
    path: str, kind: StoreKind, bucket: str, key: str, base: str
) -> None:
    address = parse(path)
    assert (address.kind, address.bucket, address.key, address.base) == (kind, bucket, key, base)


@pytest.mark.parametrize(
    "path",
    ["", "a/b", "s3://", "s3:///k", "ftp://host/a", "hdfs://n/a", "file://host/a", "https://x/c/k"],
)
def test_what_names_no_store_is_refused(path: str) -> None:
    with pytest.raises(UsageError):
        parse(path)


@pytest.mark.parametrize(
    "spellings",
    [
        ("s3://b/k", "s3a://b/k", "s3n://b/k", "S3A://b/k"),
        ("gs://b/k", "gcs://b/k"),
        ("/k", "file:/k", "file:///k", "file://localhost/k", "FILE:/k"),
        (
            f"abfss://{AZURE}/k",
            f"abfs://{AZURE}/k",
            "wasbs://c@acc.blob.core.windows.net/k",
            "wasb://c@acc.blob.core.windows.net/k",
            "https://acc.blob.core.windows.net/c/k",
            "https://acc.dfs.core.windows.net/c/k",
        ),
    ],
)
def test_spellings_of_one_object_are_equal(spellings: tuple[str, ...]) -> None:
    assert len({identity(path) for path in spellings}) == 1
    assert len({parse(path).store_id for path in spellings}) == 1


def test_different_objects_stay_different() -> None:
    keys = ("a/b", "a//b", "a%2Fb", "/a/b", "a/b/", "A/b", "a/./b", "a b", "a+b", "a%20b")
    assert len({identity(f"s3a://b/{key}") for key in keys}) == len(keys)


def test_stores_of_one_name_and_different_kinds_stay_different() -> None:
    paths = ("s3://b/k", "gs://b/k", "memory://b/k", "/b/k", f"abfss://{AZURE}/b/k")
    assert len({parse(path).store_id for path in paths}) == len(paths)


@pytest.mark.parametrize("bucket", ["b?x", "b#", "..", ".", "a%2Fb", "b c", "b\x01"])
def test_a_bucket_is_called_only_what_buckets_are_called(bucket: str) -> None:
    with pytest.raises(UsageError, match="does not name a bucket"):
        parse(f"s3://{bucket}/key")


def test_a_folder_ends_in_a_slash() -> None:
    assert folder_identity("s3a://b/t") == folder_identity("s3://b/t/") == "s3://b/t/"
    folders = [parse(path).folder for path in ("s3://b", "s3://b/t", "s3://b/t/")]
    assert folders == ["", "t/", "t/"]


def test_a_child_keeps_the_spelling() -> None:
    assert parse("s3a://b/t").child("u//v").path == "s3a://b/u//v"
