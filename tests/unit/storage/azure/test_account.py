"""Where requests to Azure go, and with which secrets: never to an account that nobody named."""

from __future__ import annotations

import pytest

from lakesweep.errors import ConfigError
from lakesweep.storage.address import identity, parse
from lakesweep.storage.azure.account import AzureAccount, AzureEndpoint, find_endpoint
from lakesweep.storage.options import StorageOptions

PLAIN = StorageOptions()
KEY = "a2V5"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONNECTION_STRING", "ACCOUNT_KEY", "ACCOUNT_NAME", "SAS_TOKEN", "KEY", "ACCOUNT"):
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("lake.dfs.core.windows.net", "https://lake.blob.core.windows.net"),
        ("lake.dfs.core.chinacloudapi.cn", "https://lake.blob.core.chinacloudapi.cn"),
        ("lake.blob.core.usgovcloudapi.net", "https://lake.blob.core.usgovcloudapi.net"),
        ("lake.z12.dfs.storage.azure.net", "https://lake.z12.blob.storage.azure.net"),
        ("onelake.dfs.fabric.microsoft.com", "https://onelake.blob.fabric.microsoft.com"),
    ],
)
def test_a_host_is_used_as_it_is_written(host: str, origin: str) -> None:
    address = parse(f"abfss://data@{host}/t/f")
    container, _, host = address.bucket.partition("@")
    assert find_endpoint(container, host, PLAIN).origin == origin


@pytest.mark.parametrize(
    "host",
    [
        *("lake", "lake.example.org", "localhost:10000", "a b.dfs.x"),
        *("lake.dfs.example.org", "lake.blob.core.windows.net.example.org"),
        *("lake.dfs.core.windows.net.", "lake.dfs.core.windows.net:444", "lake.dfs.windows.net"),
    ],
)
def test_a_host_that_is_not_azures_is_refused(host: str) -> None:
    """It comes from metadata, and would be sent a token."""
    with pytest.raises(ConfigError, match="is not a host of Azure Storage"):
        find_endpoint("data", host, PLAIN)


def test_a_configured_endpoint_is_used_instead_of_any_host() -> None:
    options = StorageOptions(endpoint="http://127.0.0.1:10000/account")
    found = find_endpoint("data", "account.dfs.core.windows.net", options)
    assert found == AzureEndpoint("http://127.0.0.1:10000", "/account/data", "account")


@pytest.mark.parametrize(
    "written",
    [
        "abfss://data@lake.z1.dfs.storage.azure.net/t/f",
        "wasbs://data@lake.z1.blob.storage.azure.net/t/f",
        "https://lake.z1.blob.storage.azure.net/data/t/f",
    ],
)
def test_all_spellings_of_an_account_in_a_zone_are_one(written: str) -> None:
    assert identity(written) == "abfss://data@lake.z1.dfs.storage.azure.net/t/f"


@pytest.mark.parametrize("named", ["lake", "other"])
def test_a_key_in_the_environment_is_sent_to_its_own_account_only(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", named)
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=secret")
    account = AzureAccount(AzureEndpoint("https://x", "/data", "lake"), PLAIN)
    assert bool(account.query) == (named == "lake")


def test_a_connection_string_names_endpoint_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"AccountName=lake;AccountKey={KEY};BlobEndpoint=http://127.0.0.1:1/lake"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    endpoint = find_endpoint("data", "lake.dfs.core.windows.net", PLAIN)
    assert endpoint.origin == "http://127.0.0.1:1"
    headers = AzureAccount(endpoint, PLAIN).authorise("GET", "/lake/data", {})
    assert headers["Authorization"].startswith("SharedKey lake:")
    other = find_endpoint("data", "other.dfs.core.windows.net", PLAIN)
    assert other.origin == "https://other.blob.core.windows.net"


def test_an_anonymous_request_carries_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    endpoint = find_endpoint("data", "lake.dfs.core.windows.net", PLAIN)
    account = AzureAccount(endpoint, StorageOptions(anonymous=True))
    assert account.authorise("GET", "/data", {"a": "b"}) == {"a": "b"}


def test_a_key_that_is_no_key_is_an_error_of_configuration() -> None:
    endpoint = find_endpoint("data", "lake.dfs.core.windows.net", PLAIN)
    with pytest.raises(ConfigError, match="not base64"):
        AzureAccount(endpoint, StorageOptions(account_key="no key!"))
