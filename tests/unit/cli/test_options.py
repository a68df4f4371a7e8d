from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.cli.context import Context, Settings
from lakesweep.cli.options import EngineChoice
from lakesweep.operations.interaction import EngineName

Capture = pytest.CaptureFixture[str]


def warn(folder: Path, spark: str, plans: str, engine: EngineName = EngineName.SPARK) -> None:
    config = folder / "lakesweep.toml"
    config.write_text(
        f'[spark]\n{spark}\n[lakes.prod]\nlocations = ["s3://lake"]\nplans = "{plans}"\n'
    )
    context = Context(Settings(config=config))
    EngineChoice(engine).warn(context, context.app.lake("prod"))


@pytest.mark.parametrize("spark", ['master = "spark://host:7077"', 'remote = "sc://host:15002"'])
def test_plans_on_this_disk_are_out_of_reach_for_a_cluster(
    tmp_path: Path, capsys: Capture, spark: str
) -> None:
    warn(tmp_path, spark, "/plans")
    assert "warning: plans of lake prod go to /plans/prod" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spark", "plans", "engine"),
    [
        ('master = "local[*]"', "/plans", EngineName.SPARK),
        ('remote = "local[2]"', "/plans", EngineName.SPARK),
        ('master = "spark://host:7077"', "s3://lake/plans", EngineName.SPARK),
        ('master = "spark://host:7077"', "/plans", EngineName.LOCAL),
    ],
)
def test_nobody_is_warned_where_all_can_see_the_plans(
    tmp_path: Path, capsys: Capture, spark: str, plans: str, engine: EngineName
) -> None:
    warn(tmp_path, spark, plans, engine)
    assert capsys.readouterr().err == ""
