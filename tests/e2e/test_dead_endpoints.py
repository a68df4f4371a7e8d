"""An endpoint that is down, or whose host does not exist: every command says so, and soon.

How soon is counted in attempts, by what Python says of its own sockets, and for libpq by a server
that hangs up on whoever calls. Nobody waits between two attempts: the clock is put forward instead.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakesweep.clock import SystemClock
from tests.command import Lakesweep

DEAD = "http://127.0.0.1:{port}"
LOST = "http://no-such-host.invalid:{port}"
#: Of all threads together. A retry every 0.2 seconds for a minute would be 300.
MOST_ATTEMPTS = 60
_EVENTS = ("socket.connect", "socket.getaddrinfo")
_STORAGE = """
engine = "local"
[storage."s3://lake"]
endpoint = "{endpoint}"
region = "us-east-1"
[lakes.prod]
locations = ["s3://lake/warehouse"]
"""
_REST = """
engine = "local"
[lakes.prod]
locations = ["{folder}"]
[[lakes.prod.roots]]
type = "iceberg-catalog"
name = "rest"
properties = {{ type = "rest", uri = "{endpoint}" }}
"""
_LAKEFS = """
engine = "local"
[lakes.prod]
locations = ["{folder}"]
[[lakes.prod.roots]]
type = "lakefs"
endpoint = "{endpoint}"
repositories = ["analytics"]
"""


class Attempts:
    """Counts connections and lookups that this process tries, while it is switched on."""

    def __init__(self) -> None:
        self.is_on = False
        self.seen: Counter[str] = Counter()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.is_on and event in _EVENTS and "/" not in str(arguments[-1]):
            self.seen[event] += 1


#: An audit hook stays for the life of a process, so there is one.
_attempts: list[Attempts] = []


@pytest.fixture
def attempts() -> Iterator[Attempts]:
    if not _attempts:
        _attempts.append(Attempts())
    found = _attempts[0]
    found.seen.clear()
    found.is_on = True
    yield found
    found.is_on = False


@pytest.fixture
def port() -> Iterator[int]:
    """A port that nobody listens on: it is bound, so that nobody else gets it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


class ImpatientClock(SystemClock):
    """The machine's clock, which is put forward in place of every pause between two attempts."""

    def __init__(self) -> None:
        self._skipped = 0.0
        self._turn = threading.Lock()

    def monotonic(self) -> float:
        return super().monotonic() + self._skipped

    def sleep(self, seconds: float) -> None:
        with self._turn:
            self._skipped += max(0.0, seconds)


@pytest.fixture
def lakesweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Lakesweep:
    monkeypatch.setattr("lakesweep.cli.context.SystemClock", ImpatientClock)
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    for name in ("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    (tmp_path / "files").mkdir()
    return Lakesweep(capsys, tmp_path / "lakesweep.toml")


S3_COMMANDS = (
    ("files", "list", "s3://lake/warehouse"),
    ("files", "purge", "s3://lake/warehouse", "--yes"),
    ("iceberg", "files", "s3://lake/warehouse/t/metadata/00001-a.metadata.json"),
    ("paimon", "files", "s3://lake/warehouse/db.db/t"),
    ("paimon", "orphans", "s3://lake/warehouse/db.db/t", "--dry-run"),
    ("lifecycle", "refs", "s3://lake/repository"),
    ("plan", "prod"),
)


@pytest.mark.parametrize("endpoint", [DEAD, LOST])
@pytest.mark.parametrize("words", S3_COMMANDS, ids=" ".join)
def test_a_bucket(
    lakesweep: Lakesweep, attempts: Attempts, port: int, endpoint: str, words: tuple[str, ...]
) -> None:
    address = endpoint.format(port=port)
    _configure(lakesweep, _STORAGE, address)
    done = lakesweep(*words)
    assert done.code == 4, done.err
    assert address in done.error["message"]
    assert "check the endpoint" in done.error["hint"]
    assert 0 < attempts.seen.total() <= MOST_ATTEMPTS


@pytest.mark.parametrize("endpoint", [DEAD, LOST])
@pytest.mark.parametrize(
    ("words", "template"),
    [
        (("plan", "prod"), _REST),
        (("check", "prod"), _REST),
        (("plan", "prod"), _LAKEFS),
        (("doctor",), _REST),
        (("doctor",), _LAKEFS),
    ],
    ids=["rest plan", "rest check", "lakefs plan", "rest doctor", "lakefs doctor"],
)
def test_a_server_of_roots(
    lakesweep: Lakesweep,
    attempts: Attempts,
    port: int,
    endpoint: str,
    words: tuple[str, ...],
    template: str,
) -> None:
    address = endpoint.format(port=port)
    _configure(lakesweep, template, address)
    done = lakesweep(*words)
    assert done.code == 4, done.err
    assert address.removeprefix("http://").split(":")[0] in done.out
    assert 0 < attempts.seen.total() <= MOST_ATTEMPTS


@pytest.mark.parametrize("endpoint", [DEAD, LOST])
@pytest.mark.parametrize(
    ("words", "template"),
    [
        (("iceberg", "files", "rest.shop.orders"), _REST),
        (("lifecycle", "refs", "analytics"), _LAKEFS),
    ],
    ids=["rest", "lakefs"],
)
def test_a_server_that_one_command_asks(
    lakesweep: Lakesweep,
    attempts: Attempts,
    port: int,
    endpoint: str,
    words: tuple[str, ...],
    template: str,
) -> None:
    _configure(lakesweep, template, endpoint.format(port=port))
    done = lakesweep(*words)
    assert done.code == 4, done.err
    assert done.error["hint"].startswith(("check the uri", "check that a lakeFS server answers"))
    assert 0 < attempts.seen.total() <= MOST_ATTEMPTS


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
@pytest.mark.parametrize("words", [("runs",), ("store", "info"), ("plan", "prod")], ids=" ".join)
def test_a_database(lakesweep: Lakesweep, port: int, host: str, words: tuple[str, ...]) -> None:
    url = f"postgresql://lakesweep@{host}:{port}/lakesweep"
    _configure(lakesweep, f'{_REST}[store]\nurl = "{url}"\n', DEAD)
    done = lakesweep(*words)
    assert done.code == 4, done.err
    assert url in done.error["message"]
    assert "check that the database is running" in done.error["hint"]


def test_a_database_is_called_a_few_times_only(lakesweep: Lakesweep) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        calls = Counter[str]()
        threading.Thread(target=_hang_up, args=(server, calls), daemon=True).start()
        url = f"postgresql://lakesweep@127.0.0.1:{server.getsockname()[1]}/lakesweep"
        _configure(lakesweep, f'[store]\nurl = "{url}"\n', "")
        done = lakesweep("runs")
        assert done.code == 4, done.err
        assert 0 < calls["calls"] <= 10


def _hang_up(server: socket.socket, calls: Counter[str]) -> None:
    while True:
        try:
            caller, _ = server.accept()
        except OSError:
            return
        calls["calls"] += 1
        caller.close()


def _configure(lakesweep: Lakesweep, template: str, endpoint: str) -> None:
    assert lakesweep.config
    folder = lakesweep.config.parent / "files"
    lakesweep.config.write_text(template.format(endpoint=endpoint, folder=folder))
