"""Warnings about where engines run and where plans are."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.app import App
from lakesweep.config.file import load_config
from lakesweep.operations.interaction import EngineName, Interaction
from lakesweep.operations.lakes.engines import warn_of_local_plans


def notices(
    folder: Path, spark: str, plans: str, engine: EngineName = EngineName.SPARK
) -> list[str]:
    file = folder / "lakesweep.toml"
    file.write_text(
        f'[spark]\n{spark}\n[lakes.prod]\nlocations = ["s3://lake"]\nplans = "{plans}"\n'
    )
    app = App(load_config(file, {}), folder=folder)
    heard: list[str] = []
    warn_of_local_plans(app, engine, app.lake("prod"), Interaction(notify=heard.append))
    return heard


@pytest.mark.parametrize("spark", ['master = "spark://host:7077"', 'remote = "sc://host:15002"'])
def test_a_cluster_cannot_read_plans_on_this_disk(tmp_path: Path, spark: str) -> None:
    [notice] = notices(tmp_path, spark, "/plans")
    assert notice.startswith("warning: plans of lake prod are written to /plans/prod")


@pytest.mark.parametrize(
    ("spark", "plans", "engine"),
    [
        ('master = "local[*]"', "/plans", EngineName.SPARK),
        ('remote = "local[2]"', "/plans", EngineName.SPARK),
        ('master = "spark://host:7077"', "s3://lake/plans", EngineName.SPARK),
        ('master = "spark://host:7077"', "/plans", EngineName.LOCAL),
    ],
)
def test_plans_that_every_executor_can_read_need_no_warning(
    tmp_path: Path, spark: str, plans: str, engine: EngineName
) -> None:
    assert notices(tmp_path, spark, plans, engine) == []
