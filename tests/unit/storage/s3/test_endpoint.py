"""Where a bucket is asked for, by its name and by the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.errors import ConfigError
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.s3.endpoint import Endpoint, S3Account, S3Transport


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without any settings of AWS."""
    names = ("PROFILE", "ENDPOINT_URL", "ENDPOINT_URL_S3", "REGION", "DEFAULT_REGION")
    for name in names:
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return monkeypatch


def endpoint(bucket: str, **options: str | None) -> Endpoint:
    return S3Account(bucket, StorageOptions(**options)).endpoint()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bucket", "options", "origin", "root"),
    [
        ("lake", {}, "https://lake.s3.us-east-1.amazonaws.com", ""),
        ("lake", {"region": "eu-west-1"}, "https://lake.s3.eu-west-1.amazonaws.com", ""),
        ("lake", {"region": "cn-north-1"}, "https://lake.s3.cn-north-1.amazonaws.com.cn", ""),
        ("my.lake", {}, "https://s3.us-east-1.amazonaws.com", "/my.lake"),
        ("My_Lake", {}, "https://s3.us-east-1.amazonaws.com", "/My_Lake"),
        ("lake", {"addressing": "path"}, "https://s3.us-east-1.amazonaws.com", "/lake"),
        ("lake", {"endpoint": "http://127.0.0.1:9000"}, "http://127.0.0.1:9000", "/lake"),
        ("lake", {"endpoint": "https://h/s3/"}, "https://h", "/s3/lake"),
        ("lake", {"endpoint": "https://h", "addressing": "virtual"}, "https://lake.h", ""),
    ],
)
def test_a_bucket_is_part_of_the_host_or_of_the_path(
    bucket: str, options: dict[str, str], origin: str, root: str
) -> None:
    found = endpoint(bucket, **options)
    assert (found.origin, found.root) == (origin, root)


def test_amazon_is_known_by_its_name() -> None:
    assert endpoint("lake").is_amazon
    assert endpoint("lake", endpoint="https://bucket.vpce-1.s3.eu-west-1.amazonaws.com").is_amazon
    assert not endpoint("lake", endpoint="https://amazonaws.com.example.org").is_amazon
    assert not endpoint("lake", endpoint="http://notamazonaws.com").is_amazon


def test_the_region_of_the_options_wins_then_that_of_the_environment(
    bare: pytest.MonkeyPatch,
) -> None:
    bare.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    assert endpoint("lake").region == "eu-north-1"
    bare.setenv("AWS_REGION", "eu-west-3")
    assert endpoint("lake").region == "eu-west-3"
    assert endpoint("lake").origin == "https://lake.s3.eu-west-3.amazonaws.com"
    assert endpoint("lake", region="eu-south-1").region == "eu-south-1"


def test_the_endpoint_of_the_options_wins(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("AWS_ENDPOINT_URL", "http://all")
    assert endpoint("lake").origin == "http://all"
    bare.setenv("AWS_ENDPOINT_URL_S3", "http://s3-only")
    assert endpoint("lake").origin == "http://s3-only"
    assert endpoint("lake", endpoint="http://mine").origin == "http://mine"
    bare.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    assert endpoint("lake").is_amazon


def test_a_profile_may_name_an_endpoint(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[profile lake]\nendpoint_url = http://by-profile\n")
    assert endpoint("lake", profile="lake").origin == "http://by-profile"


def test_settings_of_the_sdk_choose_the_kind_of_endpoint(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("AWS_USE_DUALSTACK_ENDPOINT", "true")
    assert endpoint("lake").origin == "https://lake.s3.dualstack.us-east-1.amazonaws.com"


@pytest.mark.parametrize("address", ["127.0.0.1:9000", "ftp://host", "https://"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="not a valid endpoint"):
        endpoint("lake", endpoint=address)


def test_an_unknown_region_is_refused() -> None:
    with pytest.raises(ConfigError, match="mars-1"):
        endpoint("lake", region="mars-1")


def test_a_proxy_that_sees_keys_is_refused(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("HTTP_PROXY", "http://proxy:3128")
    bare.setenv("NO_PROXY", "")
    with pytest.raises(ConfigError, match="proxy") as caught:
        S3Transport("lake", StorageOptions(endpoint="http://store:9000", anonymous=True))
    assert "NO_PROXY" in (caught.value.hint or "")
    bare.setenv("NO_PROXY", "store")
    S3Transport("lake", StorageOptions(endpoint="http://store:9000", anonymous=True))
