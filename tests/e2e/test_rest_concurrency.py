"""Many writers through two servers over one database, with servers killed in between.

`LAKESWEEP_WRITERS` and `LAKESWEEP_APPENDS` make it larger: 16 and 200 are a night's work.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from lakesweep.cli.main import run
from tests.database_servers import DatabaseServer
from tests.processes import free_port, running

_WRITERS = int(os.environ.get("LAKESWEEP_WRITERS", "3"))
_APPENDS = int(os.environ.get("LAKESWEEP_APPENDS", "3"))
_SECONDS = 120 + _WRITERS * _APPENDS
_WRITER = Path(__file__).with_name("rest_writer.py")


@dataclass
class _Servers:
    """Servers over one database, each on a port that it keeps when it is started again."""

    config: Path
    ports: Sequence[int] = field(default_factory=lambda: [free_port(), free_port()])
    starts: int = 0

    @property
    def urls(self) -> Sequence[str]:
        return [f"http://127.0.0.1:{port}/iceberg" for port in self.ports]

    @contextmanager
    def started(self, number: int) -> Iterator[None]:
        """One server; the end of the block kills it."""
        self.starts += 1
        log = self.config.with_name(f"serve-{number}-{self.starts}.log")
        words = ["--config", str(self.config), "serve", "--port", str(self.ports[number])]
        command = [sys.executable, "-m", "lakesweep", *words]
        with running(command, log, r"listening on (\S+)", stop=signal.SIGKILL):
            yield


@pytest.fixture
def servers(tmp_path: Path, postgresql_databases: DatabaseServer) -> _Servers:
    config = tmp_path / "lakesweep.toml"
    config.write_text(f'[store]\nurl = "{postgresql_databases.new_database()}"\n')
    lake = f"file://{tmp_path}/lake"
    assert run(["--config", str(config), "store", "init"]) == 0
    assert run(["--config", str(config), "catalog", "create", "shop", "--location", lake]) == 0
    return _Servers(config)


@pytest.mark.parametrize("tables", [1, _WRITERS])
def test_no_append_is_lost_or_made_twice(servers: _Servers, tables: int) -> None:
    done = threading.Event()
    with servers.started(1):
        catalog = RestCatalog("shop", uri=servers.urls[1], warehouse="shop")
        catalog.create_namespace("n")
        for number in range(tables):
            catalog.create_table(f"n.t{number}", pa.schema([("id", pa.int64())]))
        killing = threading.Thread(target=_kill_again_and_again, args=(servers, done))
        killing.start()
        try:
            _append(servers, tables)
        finally:
            done.set()
            killing.join()
        found = [_ids(catalog.load_table(f"n.t{number}")) for number in range(tables)]
    assert sorted(number for ids in found for number in ids) == list(range(_WRITERS * _APPENDS))


def _kill_again_and_again(servers: _Servers, done: threading.Event) -> None:
    """Start the first server and kill it in the middle of its work, until nobody writes."""
    while not done.is_set():
        with servers.started(0):
            done.wait(2.0)


def _append(servers: _Servers, tables: int) -> None:
    """Let processes append, each its own numbers, one in each snapshot."""
    with ExitStack() as stack:
        started = []
        for writer in range(_WRITERS):
            first = writer * _APPENDS
            words = [str(first), str(_APPENDS), f"n.t{writer % tables}", *servers.urls]
            command = [sys.executable, str(_WRITER), *words]
            started.append(stack.enter_context(subprocess.Popen(command)))
        assert [each.wait(_SECONDS) for each in started] == [0] * _WRITERS


def _ids(table: Table) -> list[int]:
    """The numbers of a table; each of its snapshots added one."""
    ids = sorted(table.scan().to_arrow()["id"].to_pylist())
    assert len(table.metadata.snapshots) == len(ids)
    return ids
