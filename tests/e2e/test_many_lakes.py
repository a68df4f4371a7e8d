"""Several lakes in one configuration: a plan of one reads only what may reference its files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.command import Lakesweep

_LONG_AGO = 1_700_000_000
_ROWS: Any = pa.table({"id": pa.array([1, 2, 3])})


class Lakes:
    """Lakes `a` and `b`, each with a catalog, a table of one commit and an orphan."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "lakesweep.toml"
        self.config.write_text("\n".join(map(self._section, "ab")))
        self.tables = {name: self._make(name) for name in "ab"}
        self.age()

    def _section(self, name: str) -> str:
        return f"""
[lakes.{name}]
locations = ["{self.folder}/{name}"]
[[lakes.{name}.roots]]
type = "iceberg-catalog"
name = "{name}"
properties = {{ type = "sql", uri = "sqlite:///{self.folder}/{name}.db" }}
"""

    def _make(self, name: str) -> Any:
        (self.folder / name).mkdir()
        uri = f"sqlite:///{self.folder}/{name}.db"
        catalog = SqlCatalog(name, uri=uri, warehouse=f"file://{self.folder}/{name}")
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.orders", _ROWS.schema)
        table.append(_ROWS)
        pq.write_table(_ROWS, self.orphan(name))
        return table

    def orphan(self, name: str) -> Path:
        return self.folder / name / "shop" / "orders" / "data" / "orphan.parquet"

    def metadata(self, name: str) -> Path:
        return Path(self.tables[name].refresh().metadata_location.removeprefix("file://"))

    def age(self) -> None:
        for path in self.folder.rglob("*.*"):
            os.utime(path, (_LONG_AGO, _LONG_AGO), follow_symlinks=False)


@pytest.fixture
def lakes(tmp_path: Path) -> Lakes:
    return Lakes(tmp_path)


@pytest.fixture
def lakesweep(capsys: pytest.CaptureFixture[str], lakes: Lakes) -> Lakesweep:
    return Lakesweep(capsys, lakes.config)


def plan(lakesweep: Lakesweep, lake: str) -> dict[str, Any]:
    return lakesweep("plan", lake, "--engine", "local").document


def doomed(lakesweep: Lakesweep, planned: dict[str, Any]) -> set[str]:
    shown = lakesweep("show", planned["plan"], "--files", "--verdict", "delete")
    return {Path(line["path"]).name for line in shown.lines if "path" in line}


def test_roots_of_other_lakes_are_read_once(lakes: Lakes, lakesweep: Lakesweep) -> None:
    assert plan(lakesweep, "a")["spec"]["roots_unread"] == 0
    # What another lake's plan has read is known here, even on a first plan.
    second = plan(lakesweep, "b")
    assert second["spec"]["roots_unread"] == 1
    assert second["roots"]["complete"] == 2
    assert doomed(lakesweep, second) == {"orphan.parquet"}
    assert plan(lakesweep, "a")["spec"]["roots_unread"] == 1


def test_a_broken_table_of_another_lake_holds_up_only_its_own(
    lakes: Lakes, lakesweep: Lakesweep
) -> None:
    plan(lakesweep, "a")
    lakes.metadata("a").unlink()
    assert lakesweep("plan", "b", "--engine", "local").code == 0
    assert lakesweep("plan", "a", "--engine", "local").code == 4


def test_a_table_that_moved_is_read_again(lakes: Lakes, lakesweep: Lakesweep) -> None:
    plan(lakesweep, "a")
    assert doomed(lakesweep, plan(lakesweep, "b")) == {"orphan.parquet"}
    lakes.tables["a"].add_files([f"file://{lakes.orphan('b')}"])
    lakes.age()
    later = plan(lakesweep, "b")
    assert later["spec"]["roots_unread"] == 0
    assert doomed(lakesweep, later) == set()
    # From now on it is known to reach into the lake, and is read by every plan of it.
    plan(lakesweep, "a")
    later = plan(lakesweep, "b")
    assert (later["spec"]["roots_unread"], doomed(lakesweep, later)) == (0, set())


def test_a_link_of_another_lake_keeps_what_it_leads_to(lakes: Lakes, lakesweep: Lakesweep) -> None:
    plan(lakesweep, "a")
    (data,) = (path for path in lakes.orphan("a").parent.glob("*") if "orphan" not in path.name)
    data.unlink()
    data.symlink_to(lakes.orphan("b"))
    later = plan(lakesweep, "b")
    assert (later["spec"]["roots_unread"], doomed(lakesweep, later)) == (1, set())


def test_marks_that_somebody_changed_are_not_believed(lakes: Lakes, lakesweep: Lakesweep) -> None:
    first = plan(lakesweep, "a")
    (marks,) = lakes.folder.glob(f".lakesweep/plans/a/{first['plan']}/marks/marks.json")
    marks.write_text(marks.read_text().replace('"roots"', '"roofs"', 1))
    assert plan(lakesweep, "b")["spec"]["roots_unread"] == 0


def test_a_purge_reuses_what_plans_have_read(lakes: Lakes, lakesweep: Lakesweep) -> None:
    """Manifests only: the roots themselves are read, right before the first delete too."""
    plan(lakesweep, "a")
    lakes.tables["b"].add_files([f"file://{lakes.orphan('a')}"])
    address = str(lakes.folder / "a" / "shop" / "orders" / "data")
    purged = lakesweep("files", "purge", address, "--yes")
    assert lakes.orphan("a").exists(), purged


def close(lakes: Lakes, name: str) -> None:
    text = lakes.config.read_text()
    lakes.config.write_text(text.replace(f"[lakes.{name}]", f"[lakes.{name}]\nclosed = true"))


def test_a_broken_catalog_of_a_closed_lake_holds_up_only_that_lake(
    lakes: Lakes, lakesweep: Lakesweep
) -> None:
    (lakes.folder / "a.db").write_bytes(b"this is no database at all" * 100)
    held = lakesweep("plan", "b", "--engine", "local")
    assert (held.code, doomed(lakesweep, held.document)) == (4, set())
    close(lakes, "a")
    free = lakesweep("plan", "b", "--engine", "local")
    assert (free.code, doomed(lakesweep, free.document)) == (0, {"orphan.parquet"})
    assert lakesweep("plan", "a", "--engine", "local").code == 4


def test_a_lake_that_was_seen_to_share_is_not_believed_to_be_closed(
    lakes: Lakes, lakesweep: Lakesweep
) -> None:
    close(lakes, "a")
    lakes.tables["a"].add_files([f"file://{lakes.orphan('b')}"])
    lakes.age()
    plan(lakesweep, "a")
    later = lakesweep("plan", "b", "--engine", "local")
    assert "lake a is configured as closed" in later.err
    assert doomed(lakesweep, later.document) == set()
