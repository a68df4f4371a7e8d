"""Java's tables, before and after our commits."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.command import Lakesweep
from tests.paimon import JavaWarehouses


@pytest.fixture
def warehouse(java_tables: JavaWarehouses, tmp_path: Path) -> Path:
    """A copy of all tables, in which every newest snapshot has a tag."""
    folder = tmp_path / "warehouse"
    shutil.copytree(java_tables.warehouse, folder)
    for table in folder.glob("*.db/*"):
        names = [path.name.partition("-")[2] for path in table.glob("snapshot/snapshot-*")]
        numbers = [int(name) for name in names if name.isdigit()]
        if numbers:
            (table / "tag").mkdir(exist_ok=True)
            newest = table / "snapshot" / f"snapshot-{max(numbers)}"
            shutil.copy(newest, table / "tag" / "tag-before")
    return folder


@pytest.fixture
def lakesweep(capsys: pytest.CaptureFixture[str]) -> Lakesweep:
    """The command line."""
    return Lakesweep(capsys)
