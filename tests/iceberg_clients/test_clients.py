"""Other clients of the Iceberg REST catalog, each a program in an environment of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from lakesweep.cli.main import run
from tests.processes import running

_PROJECT = Path(__file__).parents[2]
_PROGRAMS = Path(__file__).parent / "programs"
_SECONDS = 500


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server whose catalog has a table that PyIceberg wrote: n.theirs."""
    config = tmp_path / "lakesweep.toml"
    config.write_text(f'[store]\nurl = "sqlite:///{tmp_path}/store.db"\n')
    lake = f"file://{tmp_path}/lake"
    assert run(["--config", str(config), "store", "init"]) == 0
    assert run(["--config", str(config), "catalog", "create", "shop", "--location", lake]) == 0
    command = [sys.executable, "-m", "lakesweep", "--config", str(config), "serve", "--port", "0"]
    log = tmp_path / "serve.log"
    with running(command, log, r"listening on (\S+)", stop=signal.SIGTERM) as found:
        catalog = RestCatalog("shop", uri=f"{found[1]}/iceberg", warehouse="shop")
        catalog.create_namespace("n")
        table = catalog.create_table("n.theirs", pa.schema([("id", pa.int64())]))
        table.append(pa.table({"id": [1, 2, 3]}))
        yield found[1]


def _lines(python: Path, program: str, *words: str) -> list[str]:
    assert python.exists(), "scripts/setup-iceberg-clients has not been run"
    done = subprocess.run(
        [str(python), str(_PROGRAMS / program), *words],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout.splitlines()


def test_duckdb(url: str) -> None:
    python = _PROJECT / ".iceberg-clients" / "duckdb" / "bin" / "python"
    assert _lines(python, "duckdb_client.py", url) == ["(6, 3)", "(45, 9)"]
    catalog = RestCatalog("shop", uri=f"{url}/iceberg", warehouse="shop")
    ids = catalog.load_table("duck.t").scan().to_arrow()["id"].to_pylist()
    assert sorted(ids) == list(range(1, 10))
