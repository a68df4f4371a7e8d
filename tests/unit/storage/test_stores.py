from __future__ import annotations

import pickle
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakesweep.clock import ManualClock
from lakesweep.errors import ConfigError, MissingError, UsageError
from lakesweep.storage.address import parse
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.stores import Stores

AZURE = "container@account.dfs.core.windows.net"


def test_a_store_is_opened_once_for_all_its_spellings() -> None:
    stores = Stores()
    for spellings in (
        ("s3://lake/a", "s3a://lake/b", "S3N://lake"),
        ("/a", "file:/b", "file:///c", "file://localhost/d"),
        ("memory://one/a", "memory://one"),
    ):
        assert len({id(stores.open(spelling)) for spelling in spellings}) == 1
    assert stores.open("memory://one") is not stores.open("memory://two")
    assert stores.open(parse("s3://lake/a")) is stores.open("s3://lake/b")


def test_each_kind_has_its_base() -> None:
    stores = Stores({"gs://": StorageOptions(anonymous=True)})
    addresses = ("s3a://lake/a", "gcs://lake/a", f"abfss://{AZURE}/a", "file:/a", "memory://m/a")
    assert [stores.open(address).base for address in addresses] == [
        "s3://lake/",
        "gs://lake/",
        f"abfss://{AZURE}/",
        "/",
        "memory://m/",
    ]


@pytest.mark.parametrize(
    ("address", "region"),
    [
        ("s3://lake/a", "lake"),
        ("s3n://lake", "lake"),
        ("s3://lake2/a", "any"),
        (f"wasbs://{AZURE.replace('dfs', 'blob')}/a", "azure"),
        ("gs://lake/a", None),
        ("/a", None),
    ],
)
def test_options_are_found_by_the_longest_address(address: str, region: str | None) -> None:
    stores = Stores(
        {
            "s3://": StorageOptions(region="any"),
            "s3a://lake": StorageOptions(region="lake"),
            f"abfss://{AZURE}": StorageOptions(region="azure"),
        }
    )
    assert stores.options(parse(address)).region == region


@pytest.mark.parametrize("address", ["s3://lake/folder", "/folder", f"abfss://{AZURE}/folder/"])
def test_options_for_a_part_of_a_store_are_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="part of a store"):
        Stores({address: StorageOptions()})


def test_defaults_stand_behind_what_is_configured() -> None:
    stores = Stores({"s3://lake": StorageOptions(region="configured")})
    defaults = {"s3a://lake/": StorageOptions(region="no"), "s3://": StorageOptions(region="yes")}
    other = stores.with_defaults(defaults)
    regions = [other.options(parse(f"s3://{name}/")).region for name in ("lake", "other")]
    assert regions == ["configured", "yes"]


def test_ready_stores_stand_in_for_others(tmp_path: Path) -> None:
    ready = LocalStore(str(tmp_path), base="s3://lake/")
    stores = Stores(replace={"s3://lake": ready})
    assert stores.open("s3a://lake/a") is ready
    assert stores.with_defaults({}).open("s3a://lake/a") is ready


def test_limits_of_the_options_hold(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    stores = Stores({"/": StorageOptions(files_per_second=10)}, clock=clock)
    store = stores.open("/")
    for _ in range(3):
        store.delete([f"{tmp_path}/{number}"[1:] for number in range(10)])
    assert clock.monotonic() == pytest.approx(2)
    assert store.capabilities.delete_batch == 10


def test_stores_can_be_pickled(tmp_path: Path) -> None:
    ready = LocalStore(str(tmp_path), base="s3://lake/")
    stores = Stores({"s3://other": StorageOptions(region="r")}, replace={"s3://lake": ready})
    stores.open("s3://lake/").write("a", b"data")
    stores.open("memory://m/")
    other = pickle.loads(pickle.dumps(stores))
    assert other.open("s3n://lake/a").read("a") == b"data"
    assert other.options(parse("s3://other/")).region == "r"
    with pytest.raises(MissingError):
        other.open("memory://m/").read("a")


def test_what_is_no_address_is_wrong_usage() -> None:
    with pytest.raises(UsageError):
        Stores().open("ftp://host/a")
