"""Where requests to Google Cloud go, and with which credentials: none that were not given."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from lakesweep.errors import ConfigError, DeniedError
from lakesweep.storage.google.account import GoogleAccount, GoogleEndpoint, find_endpoint
from lakesweep.storage.google.store import GoogleStore
from lakesweep.storage.options import StorageOptions
from tests.scripted import ScriptedServer, http, scripted_server

PLAIN = StorageOptions()
GOOGLE = GoogleEndpoint("https://storage.googleapis.com")
TOKEN = http(
    200,
    b'{"access_token": "token-1", "expires_in": 3600, "token_type": "Bearer"}',
    {"Content-Type": "application/json"},
)
EMPTY_PAGE = http(200, b"{}")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


def service_account(folder: Path, token_uri: str) -> str:
    """The file of a service account whose tokens come from a server of ours."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    file = folder / "account.json"
    account = {"type": "service_account", "client_email": "sweeper@project", "token_uri": token_uri}
    file.write_text(json.dumps({**account, "private_key": pem, "private_key_id": "1"}))
    return str(file)


def test_without_settings_requests_go_to_google() -> None:
    assert find_endpoint(PLAIN) == GOOGLE
    assert GOOGLE.is_google
    assert GoogleEndpoint("https://storage-lake.p.googleapis.com").is_google
    assert not GoogleEndpoint("https://storage.googleapis.com.example.org").is_google
    assert not GoogleEndpoint("http://127.0.0.1:4443").is_google


@pytest.mark.parametrize("written", ["127.0.0.1:4443", "http://127.0.0.1:4443"])
def test_an_emulator_in_the_environment_is_used(
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", written)
    assert find_endpoint(PLAIN).origin == "http://127.0.0.1:4443"
    configured = StorageOptions(endpoint="https://example.org/gcs/")
    assert find_endpoint(configured) == GoogleEndpoint("https://example.org", "/gcs")


def test_an_endpoint_that_is_none_is_an_error_of_configuration() -> None:
    with pytest.raises(ConfigError, match="is not a valid endpoint"):
        find_endpoint(StorageOptions(endpoint="storage"))


def test_an_emulator_gets_no_credentials(
    monkeypatch: pytest.MonkeyPatch, scripted: ScriptedServer, tmp_path: Path
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", scripted.endpoint)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", service_account(tmp_path, "http://x"))
    scripted.play(EMPTY_PAGE)
    GoogleStore("bucket", PLAIN).list("")
    (request,) = scripted.requests
    assert b"authorization" not in request.lower()


def test_a_file_of_credentials_buys_a_token_which_is_used_until_it_expires(
    scripted: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = service_account(tmp_path, f"{scripted.endpoint}/token")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", path)
    # Only the server that the file names may be asked.
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:1")
    scripted.play(TOKEN)
    account = GoogleAccount("gs://bucket/", GOOGLE, PLAIN)
    first, second = account.headers(), account.headers()
    assert first == second == {"Authorization": "Bearer token-1"}
    assert scripted.targets == ["POST /token"]
    assert b"assertion" in parse_qs(scripted.requests[0].partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize("kind", ["authorized_user", "external_account"])
def test_users_and_workloads_of_other_clouds_are_known(kind: str, tmp_path: Path) -> None:
    user = {"client_id": "id", "client_secret": "secret", "refresh_token": "refresh"}
    workload = {
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/x",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
        "credential_source": {"file": str(tmp_path / "token")},
    }
    file = tmp_path / "account.json"
    file.write_text(json.dumps({"type": kind, **user, **workload}))
    GoogleAccount("gs://bucket/", GOOGLE, StorageOptions(service_account=str(file)))


def test_a_configured_account_wins_and_is_sent_with_each_request(
    scripted: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file")
    path = service_account(tmp_path, f"{scripted.endpoint}/token")
    options = StorageOptions(endpoint=scripted.endpoint, service_account=path)
    scripted.play(TOKEN, EMPTY_PAGE)
    GoogleStore("bucket", options).list("")
    assert b"Authorization: Bearer token-1\r\n" in scripted.requests[1]


def test_a_refused_account_is_told_without_its_secrets(
    scripted: ScriptedServer, tmp_path: Path
) -> None:
    path = service_account(tmp_path, f"{scripted.endpoint}/token")
    scripted.play(http(400, b'{"error": "invalid_grant"}', {"Content-Type": "application/json"}))
    options = StorageOptions(endpoint=scripted.endpoint, service_account=path)
    with pytest.raises(DeniedError, match="no credentials were obtained") as caught:
        GoogleStore("bucket", options).list("")
    assert "assertion" not in str(caught.value)


@pytest.mark.parametrize("content", [None, "no JSON", "{}", '{"type": "service_account"}'])
def test_a_file_that_is_none_is_an_error_of_configuration(
    content: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "account.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=r"account\.json cannot be used"):
        GoogleStore("bucket", StorageOptions(service_account=str(file)))


def test_anonymous_requests_need_no_library_and_ask_nobody() -> None:
    code = (
        "import sys; sys.modules['google.auth'] = None\n"
        "from lakesweep.errors import ConfigError\n"
        "from lakesweep.storage.google.account import GoogleAccount, find_endpoint\n"
        "from lakesweep.storage.options import StorageOptions\n"
        "options = StorageOptions(anonymous=True)\n"
        "print(GoogleAccount('gs://b/', find_endpoint(options), options).headers())\n"
        "other = StorageOptions(service_account='f')\n"
        "try: GoogleAccount('gs://b/', find_endpoint(other), other)\n"
        "except ConfigError as error: print(error.hint)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert answer.stdout == b"{}\npip install 'lakesweep[google]'\n"
