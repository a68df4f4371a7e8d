"""Restoring what belongs together: a folder or a table, and nothing that only looks like it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakesweep.app import App
from lakesweep.config.file import load_config
from lakesweep.errors import NotFoundError, UsageError
from lakesweep.operations.interaction import EngineName
from lakesweep.operations.lakes.apply import ApplyPlanRequest, apply_plan
from lakesweep.operations.lakes.plan import PlanLakeRequest, plan_lake
from lakesweep.operations.lakes.quarantine import restore_quarantine, show_quarantine
from tests.small_lake import SmallLake


def _held(folder: Path) -> tuple[App, SmallLake, str]:
    """A lake of which orphans in a table, and in folders with similar names, are set aside."""
    lake = SmallLake.make(folder / "lake", orphans=2)
    for name in ("old", "older"):
        place = lake.warehouse / name
        place.mkdir()
        (place / "part.parquet").write_bytes(b"x")
        os.utime(place / "part.parquet", (1_700_000_000, 1_700_000_000))
    app = App(load_config(lake.config, {}), folder=lake.folder)
    app.prepare_store()
    plan = plan_lake(app, PlanLakeRequest("prod", engine=EngineName.LOCAL)).plan
    overridden = ("first-run", "share")
    request = ApplyPlanRequest(
        plan, engine=EngineName.LOCAL, quarantine=True, overridden=overridden
    )
    apply_plan(app, request, lambda _: None)
    assert not lake.orphans()
    return app, lake, plan


def test_a_folder_is_restored_without_its_namesakes(tmp_path: Path) -> None:
    app, lake, plan = _held(tmp_path)
    assert restore_quarantine(app, plan, prefix="old").restored == 1
    assert (lake.warehouse / "old" / "part.parquet").exists()
    assert not (lake.warehouse / "older" / "part.parquet").exists()
    assert restore_quarantine(app, plan, table="lake.shop.orders").restored == 2
    assert len(lake.orphans()) == 2
    assert show_quarantine(app, plan).files == 1
    for wrong in ({"prefix": "ol"}, {"table": "lake.shop.order"}):
        with pytest.raises(NotFoundError, match="nothing was restored"):
            restore_quarantine(app, plan, **wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="by path, by folder or by table"):
        restore_quarantine(app, plan, prefix="old", table="lake.shop.orders")
