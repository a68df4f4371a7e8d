"""An expiry finishes what an interrupted one left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakesweep.paimon.expire import expiry
from tests.dict_store import Death
from tests.paimon_tables import File
from tests.unit.operations.tables.test_paimon_protection import expire, open_app, put, write


def test_the_target_of_a_rollback_comes_back_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = put(tmp_path / "t", {}, File("data-1.parquet"))
    data, target = table / "bucket-0" / "data-1.parquet", table / "snapshot" / "snapshot-1"
    write(data)
    app = open_app(tmp_path)
    remove = expiry._remove_owners

    def remove_and_die(*arguments: Any) -> Any:
        (table / "snapshot" / "LATEST").write_text("1")
        (table / "snapshot" / "snapshot-2").unlink()
        remove(*arguments)
        raise Death

    def still_there(_: object) -> bool:
        return True  # it looked right before

    with monkeypatch.context() as patch:
        patch.setattr(expiry, "_remove_owners", remove_and_die)
        patch.setattr(
            "lakesweep.paimon.expire.snapshot_expiry.SnapshotExpiry.may_leave", still_there
        )
        with pytest.raises(Death):
            expire(app, table)
    assert not target.exists()
    expire(app, table)
    assert target.exists()
    assert data.exists()
    assert not list((table / "_lakesweep").glob("owners-*"))
