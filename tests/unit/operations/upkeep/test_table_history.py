"""The history of tables: what stays and why, what would go, and what each snapshot alone holds."""

from __future__ import annotations

from pathlib import Path

from lakesweep.app import App
from lakesweep.config.file import load_config
from lakesweep.operations.upkeep.table_history import (
    TableFormat,
    TableHistoryRequest,
    table_history,
)
from tests.paimon_tables import File
from tests.small_lake import SmallLake
from tests.unit.operations.tables.test_paimon_protection import open_app, put, write


def test_an_iceberg_table_says_why_each_snapshot_stays(tmp_path: Path) -> None:
    lake = SmallLake.make(tmp_path / "lake", orphans=0)
    app = App(load_config(lake.config, {}), folder=lake.folder)
    asked = TableHistoryRequest("lake.shop.orders", TableFormat.ICEBERG)
    history = table_history(app, asked)
    first, second = history.snapshots
    assert first.committed < second.committed
    assert (first.bytes, history.is_measured) == (None, False)
    assert second.why[0] == "head of main"
    assert not first.expires  # it is minutes old
    assert [(ref.name, ref.type, ref.snapshot) for ref in history.refs] == [
        ("main", "branch", second.snapshot)
    ]
    measured = table_history(
        app, TableHistoryRequest("lake.shop.orders", TableFormat.ICEBERG, measure=True)
    )
    # The second snapshot alone has the data file of the second commit and its manifest and list.
    assert [each.files for each in measured.snapshots] == [1, 3]
    assert all(each.bytes for each in measured.snapshots)


def test_a_paimon_table_says_what_retention_lets_go(tmp_path: Path) -> None:
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table = put(tmp_path / "t", options, File("data-1.parquet"))
    write(table / "bucket-0" / "data-1.parquet")
    app = open_app(tmp_path)
    asked = TableHistoryRequest(str(table), TableFormat.PAIMON, measure=True)
    history = table_history(app, asked)
    assert [each.snapshot for each in history.snapshots] == [1, 2]
    assert [each.expires for each in history.snapshots] == [True, False]
    assert history.snapshots[0].why == ("past its retention",)
    assert "the newest" in history.snapshots[1].why
    assert [each.files for each in history.snapshots] == [1, 0]
    assert history.retention[0].startswith("main: keeps at least")
    assert history.expiring_bytes == history.snapshots[0].bytes
