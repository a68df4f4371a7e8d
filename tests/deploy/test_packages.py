"""The wheel and the source archive, built and installed in new environments with every extra."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from lakesweep.demo.lake import DemoLake

_EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
#: What each extra must make importable.
_MODULES = {
    "azure": "azure.identity",
    "glue": "boto3",
    "google": "google.auth",
    "hive": "thrift",
    "lakefs": "lakefs_sdk",
    "mongodb": "pymongo",
    "mysql": "pymysql",
    "postgresql": "psycopg",
    "spark": "pyspark",
    "all": "pyspark",
}


def _python(*words: str | Path, python: str | Path = sys.executable) -> str:
    done = subprocess.run(
        [python, *words],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="session")
def packages(project: Path, tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("packages")
    builder = tools / "builder" / "bin" / "python"
    _python("-m", "build", "--outdir", folder, project, python=builder)
    return folder


def test_the_source_archive_builds_and_holds_no_tests(packages: Path) -> None:
    (archive,) = packages.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = [name.partition("/")[2] for name in files.getnames()]
    assert {"pyproject.toml", "README.md", "LICENSE"} <= set(names)
    assert "src/lakesweep/py.typed" in names


def test_the_wheel_holds_the_package_alone(packages: Path) -> None:
    (wheel,) = packages.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"lakesweep"}
    assert "lakesweep/py.typed" in names
    assert not [name for name in names if "__pycache__" in name]


@pytest.mark.parametrize("extra", [None, *_EXTRAS])
def test_it_installs_and_plans(
    extra: str | None, packages: Path, project: Path, lake: DemoLake, tmp_path: Path
) -> None:
    (wheel,) = packages.glob("*.whl")
    environment = tmp_path / "environment"
    _python("-m", "venv", environment)
    python = environment / "bin" / "python"
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    constraints = project / "constraints.txt"
    _python("-m", "pip", "--quiet", "install", "-c", constraints, wanted, python=python)
    if extra:
        _python("-c", f"import {_MODULES[extra]}", python=python)
    told = _python("-m", "lakesweep", "--config", lake.config, "plan", "demo", python=python)
    assert "plan-" in told


def test_every_extra_is_tried() -> None:
    assert set(_MODULES) == set(_EXTRAS)
