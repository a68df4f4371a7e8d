"""The examples for Airflow and Dagster, run by those schedulers on a small lake."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import lakesweep
from lakesweep.demo.lake import DemoLake

_AIRFLOW = "from sweep_lakes import dag_of_lakes; run = dag_of_lakes.test(); print(run.state)"
_DAGSTER = """
from sweep_lakes import defs, sweep_lakes
assert defs.get_repository_def().schedule_defs
result = sweep_lakes.execute_in_process(raise_on_error=False)
print("success" if result.success else "failed")
"""


def _run(environment: Path, example: Path, code: str, lake: DemoLake, home: Path) -> str:
    home.mkdir(exist_ok=True)
    variables = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__CORE__DAGS_FOLDER": str(example),
        "DAGSTER_HOME": str(home),
        "LAKESWEEP_CONFIG": str(lake.config),
        "PYTHONPATH": str(example),
    }
    variables.pop("PYTHONWARNINGS", None)
    if environment.name == "airflow":
        migrate: list[str | Path] = [environment / "bin" / "airflow", "db", "migrate"]
        subprocess.run(migrate, env=variables, check=True, capture_output=True, timeout=300)
    done = subprocess.run(
        [environment / "bin" / "python", "-c", code],
        env=variables,
        cwd=home,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    return done.stdout


@pytest.mark.parametrize(("name", "code"), [("airflow", _AIRFLOW), ("dagster", _DAGSTER)])
def test_a_sweep_waits_for_approval_and_then_runs(
    name: str, code: str, lake: DemoLake, project: Path, tools: Path, tmp_path: Path
) -> None:
    example = project / "deploy" / name
    told = _run(tools / name, example, code, lake, tmp_path / "home")
    assert told.rstrip().endswith("failed"), told
    assert "waits:" in told
    with lakesweep.open(lake.config) as session:
        plan = session.open_plan("demo")
        session.approve(plan.name, why="seen")
    before = lake.files()
    told = _run(tools / name, example, code, lake, tmp_path / "home")
    assert told.rstrip().endswith("success"), told
    assert lake.files() < before
    assert all(len(table.scan().to_arrow()) for table in lake.tables().values())
