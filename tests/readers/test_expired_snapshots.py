"""Java reads of each snapshot and tag that stays what it read before others expired."""

from __future__ import annotations

from pathlib import Path

from tests.command import Lakesweep
from tests.readers.readers import java_rows

#: Plain, tagged, with changelogs that stay, deletion vectors, dynamic buckets, a path of their own.
TABLES = ["append_dt", "tagged", "pk_decoupled", "pk_dv", "pk_dynamic", "data_dir", "row_tracking"]
NAMES = [f"shop.{name}" for name in TABLES]


def test_all_that_stays_is_read_as_before(lakesweep: Lakesweep, warehouse: Path) -> None:
    before = java_rows(warehouse, NAMES)
    keep = ["--retain-min", "1", "--retain-max", "1", "--limit", "1000", "--settle", "0s"]
    for name in TABLES:
        table = str(warehouse / "shop.db" / name)
        assert lakesweep("paimon", "expire-snapshots", table, *keep, "--yes").code == 0
        assert lakesweep("paimon", "orphans", table, "--yes").code == 0
    after = java_rows(warehouse, NAMES)
    for name in NAMES:
        assert len(after[name]) < len(before[name])
        assert after[name] == {owner: before[name][owner] for owner in after[name]}
        assert {owner for owner in before[name] if owner.startswith("tag-")} <= after[name].keys()
