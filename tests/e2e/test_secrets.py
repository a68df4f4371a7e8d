"""No command shows a secret of the configuration, whatever goes wrong with the servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import Lakesweep

_SECRET = "hunter2"
_CONFIG = f"""\
engine = "local"
[storage."s3://lake"]
endpoint = "http://me:{_SECRET}@127.0.0.1:1"
access_key_id = "id"
secret_access_key = "{_SECRET}"
region = "eu-central-1"
retries = 0
[lakes.prod]
locations = ["s3://lake/warehouse"]
[[lakes.prod.roots]]
type = "lakefs"
endpoint = "http://me:{_SECRET}@127.0.0.1:1"
repositories = ["analytics"]
[[lakes.prod.roots]]
type = "iceberg-catalog"
name = "rest"
properties = {{ type = "rest", uri = "http://me:{_SECRET}@127.0.0.1:1/?token={_SECRET}" }}
"""


@pytest.fixture
def lakesweep(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Lakesweep:
    """Servers that are not there, and secrets in every place that takes one."""
    monkeypatch.setenv("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", _SECRET)
    config = tmp_path / "lakesweep.toml"
    config.write_text(_CONFIG)
    return Lakesweep(capfd, config)


@pytest.mark.parametrize(
    "words",
    [
        ("doctor",),
        ("plan", "prod", "-v"),
        ("files", "list", "s3://lake/warehouse", "-v"),
        ("lifecycle", "refs", "analytics", "-v"),
        (
            "store",
            "info",
            "--url",
            f"mysql://me:{_SECRET}@127.0.0.1:1/x?ssl_key_password={_SECRET}",
        ),
    ],
)
@pytest.mark.parametrize("json", [True, False])
def test_no_secret_is_shown_or_stored(
    lakesweep: Lakesweep, tmp_path: Path, words: tuple[str, ...], json: bool
) -> None:
    done = lakesweep(*words, json=json)
    assert done.code != 0
    assert _SECRET not in done.out + done.err
    kept = (path for path in (tmp_path / ".lakesweep").rglob("*") if path.is_file())
    assert not [path for path in kept if _SECRET.encode() in path.read_bytes()]


def test_properties_that_are_secret_are_shown_as_such(lakesweep: Lakesweep) -> None:
    assert lakesweep("store", "init").code == 0
    words = ("--property", f"s3.secret-access-key={_SECRET}", "--property", "owner=jane")
    made = lakesweep("catalog", "create", "shop", *words)
    shown = lakesweep("catalog", "show", "shop").document["properties"]
    assert _SECRET not in made.out
    assert shown == {"s3.secret-access-key": "***", "owner": "jane"}
