"""The contract of object stores, over every store that there is."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from lakesweep.storage.contract import CHECKS, EXACT_KEYS, Subject
from lakesweep.storage.local import listing
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.memory import open_memory
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.s3.store import S3Store
from lakesweep.storage.stores import Stores
from tests.servers import S3Server

_NUMBERS = count()

KINDS = ["local", "memory", "s3_on_moto", "s3_versioned", "s3_on_rclone", "opened"]

# File systems cannot hold these, and must say so.
_INEXACT = {"a//b", "/lead", "trail/", "x/./y", "x/../y", "x/y/"}
_CONTROL = {"tab\there", "line\nfeed"}


def _without(*keys: str) -> Sequence[str]:
    return [key for key in EXACT_KEYS if key not in keys]


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Subject:
    monkeypatch.setattr(listing, "PAGE_ROWS", 100)
    return Subject(
        LocalStore(str(tmp_path)),
        keys=_without(*_INEXACT),
        nests=False,
        has_folders=True,
        many=350,
        fill=partial(_touch, tmp_path),
    )


@pytest.fixture
def memory() -> Subject:
    return Subject(open_memory(f"contract-{next(_NUMBERS)}"))


@pytest.fixture
def s3_on_moto(moto: S3Server) -> Subject:
    # The server itself cannot take a line feed in a path.
    store = S3Store(_bucket(moto), moto.options())
    return Subject(store, keys=_without("line\nfeed"), loses_keys=True)


@pytest.fixture
def s3_versioned(moto: S3Server) -> Subject:
    """A bucket that keeps versions."""
    bucket = _bucket(moto)
    status = {"Status": "Enabled"}
    moto.boto3().put_bucket_versioning(Bucket=bucket, VersioningConfiguration=status)
    store = S3Store(bucket, moto.options())
    return Subject(store, keys=_without("line\nfeed"), loses_keys=True)


@pytest.fixture
def s3_on_rclone(rclone: S3Server) -> Iterator[Subject]:
    assert rclone.folder is not None
    folder = rclone.folder / _bucket(rclone)
    yield Subject(
        S3Store(folder.name, rclone.options()),
        keys=_without(*_INEXACT, *_CONTROL),
        loses_keys=True,
        nests=False,
        fill=partial(_touch, folder),
        # It finds a key by another Unicode form of it.
        movable=_without(*_INEXACT, *_CONTROL, "cafe\u0301"),
    )
    # The server gets slower with every file that it has.
    shutil.rmtree(folder)


@pytest.fixture
def opened() -> Subject:
    """What programs get: the store behind an address, with all that is wrapped round it."""
    options = StorageOptions(files_per_second=1e9, batches_per_second=1e9)
    store = Stores({"memory://": options}).open(f"memory://contract-{next(_NUMBERS)}/")
    return Subject(store)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_store(kind: str, check: Callable[[Subject], None], request: pytest.FixtureRequest) -> None:
    check(request.getfixturevalue(kind))


def _bucket(server: S3Server) -> str:
    return server.make_bucket(f"contract-{next(_NUMBERS)}")


def _touch(folder: Path, keys: Sequence[str]) -> None:
    for parent in {(folder / key).parent for key in keys}:
        parent.mkdir(parents=True, exist_ok=True)
    for key in keys:
        (folder / key).touch()
