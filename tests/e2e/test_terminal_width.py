"""Every command on a terminal of 80 columns, with names as long as real ones.

A line may be wider only if it is a single address: a file's own line is never cut.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.command import Lakesweep
from tests.lakefs import RealRepositories
from tests.lifecycle_plans import recorded
from tests.paimon import JavaWarehouses

WIDTH = 80
LAKE = "customer-analytics-production-europe"
CATALOG = "production_analytics_warehouse"
TABLES = (
    "customer_relationship_management.orders_and_returns_by_region",
    "customer_relationship_management.orders_and_returns_by_country",
)
NAMES = (LAKE, *(f"{CATALOG}.{table}" for table in TABLES))
_LONG_AGO = 1_700_000_000
_COLOUR = re.compile(r"\x1b\[(\d*)m")
_CONFIG = """\
engine = "local"
[lakes.{lake}]
locations = ["{folder}/warehouse"]
[[lakes.{lake}.roots]]
type = "iceberg-catalog"
name = "{catalog}"
properties = {{ type = "sql", uri = "sqlite:///{folder}/catalog.db" }}
[schedules.every-night-at-two-in-the-morning]
job = "sweep"
lake = "{lake}"
cron = "0 2 * * *"
zone = "America/Argentina/ComodRivadavia"
"""


@dataclass
class Screen:
    """Runs commands whose stdout is a terminal of 80 columns, and looks at each line."""

    lakesweep: Lakesweep
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *words: str, code: int = 0) -> str:
        with self.monkeypatch.context() as patch:
            patch.setattr(sys.stdout, "isatty", lambda: True)
            done = self.lakesweep(*words, json=False)
        assert done.code == code, done.err
        shown = _COLOUR.sub("", done.out)
        assert [line for line in shown.splitlines() if _is_too_wide(line)] == []
        squashed = "".join(shown.split())
        for name in NAMES:
            assert squashed.count(name) == shown.count(name), f"{name} is split:\n{shown}"
        return done.out


def _is_too_wide(line: str) -> bool:
    return len(line) > WIDTH and len(line.split()) > 1


@pytest.fixture
def lakesweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Lakesweep:
    folder = tmp_path / "department-of-customer-analytics"
    folder.mkdir()
    config = folder / "lakesweep.toml"
    config.write_text(_CONFIG.format(lake=LAKE, folder=folder, catalog=CATALOG))
    monkeypatch.chdir(folder)
    return Lakesweep(capsys, config)


@pytest.fixture
def screen(lakesweep: Lakesweep, monkeypatch: pytest.MonkeyPatch) -> Screen:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Screen(lakesweep, monkeypatch)


@pytest.fixture
def folder(lakesweep: Lakesweep) -> Path:
    """A lake whose two tables share a folder, with orphans and a table that no catalog lists."""
    assert lakesweep.config
    folder = lakesweep.config.parent
    catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{folder}/catalog.db")
    warehouse = folder / "warehouse"
    rows: Any = pa.table({"id": pa.array([1, 2, 3])})
    catalog.create_namespace(TABLES[0].split(".")[0])
    for table in TABLES:
        catalog.create_table(table, rows.schema, f"file://{warehouse}/orders").append(rows)
    forgotten = f"{TABLES[0]}_of_the_last_decade"
    catalog.create_table(forgotten, rows.schema, f"file://{warehouse}/{forgotten}").append(rows)
    catalog.drop_table(forgotten)
    (warehouse / "orders" / "data" / "orphan-of-a-writer-that-crashed.parquet").write_bytes(b"x")
    for path in warehouse.rglob("*"):
        os.utime(path, (_LONG_AGO, _LONG_AGO))
    return folder


def test_the_commands_of_a_lake_fit_a_terminal(
    screen: Screen, lakesweep: Lakesweep, folder: Path
) -> None:
    shown = screen("plan", LAKE)
    assert "folders that tables share" in shown
    assert "unlisted-table" in shown
    [line] = lakesweep("show", LAKE, "--verdict", "delete").lines
    plan = lakesweep("show", LAKE).document["plan"]
    for words in (
        ("show", LAKE),
        ("show", LAKE, "--files"),
        ("explain", LAKE, line["path"]),
        ("lakes",),
        ("runs",),
        ("runs", plan),
        ("doctor",),
        ("schedule", "list"),
        ("schedule", "show", "every-night-at-two-in-the-morning"),
        ("files", "list", str(folder / "warehouse")),
        ("store", "info"),
        ("store", "log"),
        ("store", "maintain", "--yes"),
        ("realm", "list"),
    ):
        screen(*words)
    override = ("--override", "first-run,share", "--yes", "--quarantine")
    screen("apply", plan, *override, code=4)
    screen("quarantine", "list")
    screen("quarantine", "restore", plan)


def test_missing_files_fit_a_terminal(screen: Screen, folder: Path) -> None:
    for path in (folder / "warehouse" / "orders" / "data").glob("0*.parquet"):
        path.unlink()
    for words in (("check", LAKE), ("check", LAKE, "--files")):
        assert f"{CATALOG}.{TABLES[0]}" in screen(*words, code=7)


def test_the_commands_of_paimon_fit_a_terminal(
    screen: Screen, folder: Path, java_tables: JavaWarehouses, tmp_path: Path
) -> None:
    del folder  # the roots of the configuration are read too
    table = str(java_tables.table("pk_dv").copy_to(tmp_path / "department-of-paimon-tables").folder)
    screen("paimon", "files", table)
    screen("paimon", "expire-snapshots", table, "--retain-max", "1", "--retain-min", "1", "--yes")
    screen("paimon", "orphans", table, "--yes")


def test_the_commands_of_a_lifecycle_fit_a_terminal(
    screen: Screen, folder: Path, lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    del folder  # the roots of the configuration are read too
    policy = {"state-of-the-customers": {"prefix": "state", "days": 30, "enabled": True}}
    Path("policy.json").write_text(json.dumps(policy))
    repository = str(recorded(lakefs_repositories, "analytics", tmp_path).real.folder)
    screen("lifecycle", "refs", repository)
    screen("lifecycle", "entries", repository, "main")
    screen("lifecycle", "plan", repository, "--policy", "policy.json", "--override", "staged")
    screen("lifecycle", "show", repository)
    screen("lifecycle", "show", repository, "--paths")
    screen("lifecycle", "explain", repository, "state/latest.json")


def test_what_goes_is_red_and_what_holds_it_up_is_yellow(screen: Screen, folder: Path) -> None:
    del folder
    shown = screen("plan", LAKE)
    assert re.search(r"\x1b\[31mdelete\x1b\[0m", shown)
    assert re.search(r"\x1b\[33mfirst-run\x1b\[0m", shown)
    screen.monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in screen("show", LAKE)


def test_a_blank_line_stands_between_two_tables(lakesweep: Lakesweep, folder: Path) -> None:
    del folder
    lines = lakesweep("plan", LAKE, json=False).out.splitlines()
    titles = [number - 1 for number, line in enumerate(lines) if line.startswith(" ──")]
    assert [lines[number - 1] for number in titles[1:]] == [""] * (len(titles) - 1)
    assert len(titles) > 3
