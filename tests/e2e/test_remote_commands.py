"""The command line over a service: what it prints is what the local command prints."""

from __future__ import annotations

import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command import Done, Lakesweep
from tests.processes import running
from tests.small_lake import SmallLake
from tests.tls import write_certificate

_ORPHAN = "shop/orders/data/orphan-00001.parquet"
#: What differs between two runs of one command: names, moments and how long things took.
_VARYING = re.compile(
    r'-\d{8}T\d{6}-[0-9a-f]{8}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|"nodes_leased": ?\d+'
)

#: Members that differ, too: hashes of datasets, durations, and rows that every command adds.
_FLEETING = frozenset(
    {"sha256", "seconds", "spec", "obj_stats", "per_realm_per_obj_type_stats"}
    | {"identified_objs", "distinct_objs"}
)


@contextmanager
def serving(config: Path, *words: str) -> Iterator[str]:
    """A service on a free port; yields its address."""
    command = [sys.executable, "-m", "lakesweep", "--config", str(config), "serve", "--port", "0"]
    log = config.with_name("serve.log")
    with running([*command, *words], log, r"listening on (\S+)", stop=signal.SIGTERM) as found:
        yield found[1]


@dataclass
class BothWays:
    """Runs a command on this machine and through a service."""

    local: Lakesweep
    remote: Lakesweep
    url: str

    def here(self, *words: str, json: bool = True) -> Done:
        return self.local(*words, json=json)

    def there(self, *words: str, json: bool = True) -> Done:
        return self.remote("--server", self.url, *words, json=json)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> SmallLake:
    from lakesweep.cli.main import run

    lake = SmallLake.make(tmp_path_factory.mktemp("remote") / "lake", orphans=3)
    lake.config.write_text(f'engine = "local"\n{lake.config.read_text()}')
    for words in (
        ["plan", "prod"],
        ["schedule", "add", "nightly", "--job", "sweep", "--lake", "*", "--cron", "0 2 * * *"],
        ["catalog", "principal", "create", "jane"],
        ["catalog", "role", "create", "analyst"],
        ["catalog", "grant", "create", "use-role", "--on=role:analyst", "--to=principal:jane"],
    ):
        assert run(["--config", str(lake.config), *words, "--json"]) == 0
    return lake


@pytest.fixture(scope="module")
def url(lake: SmallLake) -> Iterator[str]:
    with serving(lake.config) as url:
        yield url


@pytest.fixture
def both(
    lake: SmallLake,
    url: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> BothWays:
    monkeypatch.chdir(tmp_path)  # no configuration is near: the service has it
    return BothWays(Lakesweep(capsys, lake.config), Lakesweep(capsys), url)


@pytest.mark.parametrize(
    "words",
    [
        "lakes",
        "show prod",
        "show prod --files",
        "show prod --verdict delete --reason unreferenced",
        "show prod --table lake.shop.orders",
        f"explain prod {_ORPHAN}",
        "runs",
        "runs --lake prod --limit 1 --status done --since 1d",
        "quarantine list",
        "schedule list",
        "schedule show nightly",
        "schedule jobs",
        "token list",
        "store info",
        "store log",
        "store log schedules",
        "store log schedules --oldest-first --limit 1",
        "realm list",
        "realm show default",
        "catalog principal list",
        "catalog principal show jane",
        "catalog role list",
        "catalog role show analyst",
        "catalog grant list",
        "catalog grant effective jane",
        "catalog principal drop jane --dry-run",
        "catalog role drop analyst --dry-run",
    ],
)
def test_a_command_prints_the_same_here_and_there(both: BothWays, words: str) -> None:
    here, there = both.here(*words.split()), both.there(*words.split())
    assert there.err == here.err
    assert _scrubbed(there.out) == _scrubbed(here.out)
    assert (there.code, here.code) == (0, 0)


@pytest.mark.parametrize(
    "words",
    [
        "show nothing",
        "show prod --table no.such",
        "explain prod no/such/file",
        "plan nothing",
        "apply nothing --yes",
        "runs nothing",
        "runs nothing --cancel",
        "runs nothing --follow",
        "reject prod",
        "schedule show nothing",
        "schedule add bad --job sweep --lake prod --cron 61",
        "schedule add bad --job sweep --lake nothing --every 6h",
        "schedule jobs nothing --output",
        "realm show nothing",
        "realm activate nothing",
        "realm create default",
        "quarantine restore nothing",
        "token revoke nothing",
        "store log nothing",
        "catalog principal show nobody",
        "catalog grant create nonsense --on realm --to principal:jane",
    ],
)
def test_an_error_is_the_same_here_and_there(both: BothWays, words: str) -> None:
    here, there = both.here(*words.split()), both.there(*words.split())
    assert there.error == here.error
    assert there.code == here.code != 0
    assert there.out == here.out


@pytest.mark.parametrize("words", ["lakes", "show prod", "show prod --files", "runs"])
def test_people_read_the_same_tables(both: BothWays, words: str) -> None:
    here, there = (way(*words.split(), json=False) for way in (both.here, both.there))
    assert (there.out, there.err, there.code) == (here.out, here.err, here.code)


def test_small_changes_are_the_same_here_and_there(both: BothWays) -> None:
    add = ["schedule", "add", "hourly", "--job", "check", "--lake", "prod", "--every", "1h"]
    for words in (
        add,
        ["schedule", "pause", "hourly"],
        ["schedule", "resume", "hourly"],
        ["schedule", "add", "own", "--job", "sweep", "--lake", "prod", "--every", "auto"],
        ["realm", "create", "acme"],
        ["realm", "deactivate", "acme"],
        ["realm", "activate", "acme"],
        ["catalog", "role", "create", "reader"],
        ["catalog", "role", "drop", "reader", "--yes"],
        ["catalog", "principal", "create", "joe"],
        ["catalog", "principal", "rotate", "joe", "--revoke"],
        ["catalog", "grant", "create", "use-role", "--on", "role:analyst", "--to", "principal:joe"],
        ["catalog", "grant", "revoke", "use-role", "--on", "role:analyst", "--to", "principal:joe"],
        ["catalog", "principal", "drop", "joe", "--yes"],
    ):
        there = both.there(*words)
        assert there.code == 0, there.err
        here = both.here(
            *[{"acme": "other", "joe": "jim", "reader": "r2"}.get(w, w) for w in words]
        )
        if "to" not in words and "acme" not in words:
            assert there.document.keys() == here.document.keys()
    removed = both.there("schedule", "remove", "hourly")
    assert (removed.out, removed.code) == ("", 0)
    assert both.there("schedule", "show", "hourly").code == 6


def test_long_work_is_the_same_here_and_there(both: BothWays, lake: SmallLake) -> None:
    """Each command once here and once there, over the same lake in the same state."""

    def compare(*words: str, code: int = 0) -> Done:
        here = both.here(*words)
        there = both.there(*words)
        assert there.code == here.code == code, there.err
        assert _numbers(there) == _numbers(here)
        return there

    compare("check", "prod")
    compare("plan", "prod")
    refused = compare("apply", "prod", "--yes", code=3)
    assert "--override first-run" in refused.error["hint"]
    assert f"--server {both.url}" in refused.error["hint"]
    compare("apply", "prod", "--override", "first-run", "--dry-run")
    compare("sweep", "prod", "--dry-run")
    compare("store", "maintain", "--dry-run")
    options = ["--quarantine", "--override", "first-run", "--yes"]
    here = both.here("apply", "prod", *options)
    assert both.here("quarantine", "restore", here.document["plan"]).code == 0
    assert both.there("plan", "prod").code == 0
    there = both.there("apply", "prod", *options)
    assert _numbers(there) == _numbers(here)
    assert not lake.orphans()
    run = there.document["run"]
    assert both.there("runs", run).document == both.here("runs", run).document
    assert (
        both.there("runs", run, "--output").document == both.here("runs", run, "--output").document
    )
    followed = both.there("runs", run, "--follow")
    assert followed.lines[-1]["end"] == both.here("runs", run, "--follow").lines[-1]["end"]
    plan = there.document["plan"]
    restored = both.there("quarantine", "restore", plan, "--path", _ORPHAN)
    assert restored.document["restored"] == 1
    emptied = both.there("quarantine", "empty", plan, "--yes")
    assert (emptied.code, emptied.document["deleted"]) == (0, 2)
    (lake.data / "orphan-00000.parquet").write_bytes(b"orphan")


def test_a_decision_names_who_made_it(both: BothWays) -> None:
    assert both.here("plan", "prod").code == 0
    approved = both.there("approve", "prod", "--why", "seen")
    assert approved.document["by"] == "anyone on this machine"
    rejected = both.there("reject", "prod", "--why", "no")
    assert rejected.document["state"] == "rejected"


@pytest.mark.parametrize(
    "words",
    [
        "init",
        "doctor",
        "demo",
        "serve",
        "files list /tmp",
        "iceberg files lake.shop.orders",
        "paimon files /tmp",
        "lifecycle refs analytics",
        "store init",
        "store export default -",
        "catalog list",
        "webhook test all",
    ],
)
def test_what_works_only_here_says_so(both: BothWays, words: str) -> None:
    done = both.there(*words.split())
    assert (done.code, done.error["type"]) == (2, "UsageError")
    if "No such command" not in done.error["message"]:
        assert "works on this machine only" in done.error["message"]
        assert "--server" in done.error["hint"]


def test_a_service_may_be_named_by_a_variable(
    both: BothWays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKESWEEP_SERVER", both.url)
    assert both.remote("lakes").document == both.there("lakes").document
    assert "unset LAKESWEEP_SERVER" in both.remote("doctor").error["hint"]


def test_a_dead_service_is_named(both: BothWays) -> None:
    with socket.socket() as taken:  # bound, and listening to nobody
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        done = both.remote("--server", address, "lakes")
    assert (done.code, done.error["type"]) == (4, "ServiceUnreachableError")
    assert f"{address} does not answer" in done.error["message"]


@pytest.mark.parametrize("address", ["nonsense", "ftp://host", "http://jane:secret@host"])
def test_an_address_that_is_none_is_refused(both: BothWays, address: str) -> None:
    done = both.remote("--server", address, "lakes")
    assert (done.code, done.error["type"]) == (2, "UsageError")
    assert "secret" not in done.err


def test_a_closed_service_wants_a_token_over_tls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_certificate(tmp_path)
    (tmp_path / "lake").mkdir()
    config = tmp_path / "lakesweep.toml"
    config.write_text(
        '[server]\ncertificate = "cert.pem"\nkey = "key.pem"\n'
        f'[lakes.prod]\nlocations = ["{tmp_path}/lake"]\nroots = []\n'
    )
    local, remote = Lakesweep(capsys, config), Lakesweep(capsys)
    viewer = local("token", "create", "jane", "--role", "viewer").document
    with serving(config) as url:
        untrusted = remote("--server", url, "lakes")
        assert (untrusted.code, untrusted.error["type"]) == (4, "ServiceUnreachableError")
        assert "LAKESWEEP_CA_FILE" in untrusted.error["hint"]
        monkeypatch.setenv("LAKESWEEP_CA_FILE", str(tmp_path / "cert.pem"))
        nobody = remote("--server", url, "lakes")
        assert (nobody.code, nobody.error["type"]) == (2, "ServiceAccessError")
        assert "LAKESWEEP_TOKEN" in nobody.error["hint"]
        monkeypatch.setenv("LAKESWEEP_TOKEN", viewer["text"])
        assert remote("--server", url, "lakes").document == local("lakes").document
        low = remote("--server", url, "plan", "prod")
        assert (low.code, low.error["type"]) == (2, "ServiceAccessError")
        assert "needs the role operator" in low.error["message"]
        assert local("token", "revoke", viewer["token"]).code == 0
        ended = remote("--server", url, "lakes")
        assert "not valid, or has ended" in ended.error["message"]
        assert viewer["text"] not in ended.err


def _scrubbed(text: str) -> str:
    return _VARYING.sub("#", text)


def _numbers(done: Done) -> Any:
    """The result without what differs from run to run."""
    if not done.out:
        return {name: done.error[name] for name in ("type", "exit_code")}
    return _lasting(done.document)


def _lasting(value: Any) -> Any:
    match value:
        case dict():
            return {name: _lasting(each) for name, each in value.items() if name not in _FLEETING}
        case list():
            return [_lasting(each) for each in value]
        case str():
            return _scrubbed(value)
        case _:
            return value
