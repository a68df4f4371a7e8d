"""Every command of the README and of the documents, run for real."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.lake import EngineLake
from tests.lakefs import RealRepositories
from tests.lifecycle_plans import recorded
from tests.paimon import JavaWarehouses
from tests.servers import S3Server
from tests.transcript import steps

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_COMMANDS = [path for path in DOCUMENTS if any(steps(path.read_text()))]

CONFIG = """\
[lakes.prod]
locations = ["s3://lake/warehouse"]

[[lakes.prod.roots]]
type = "iceberg-catalog"
name = "lake"
properties = {{ type = "sql", uri = "{uri}" }}
"""


@pytest.fixture
def environment(tmp_path: Path, bucket: S3Server, engine: EngineLake) -> dict[str, str]:
    """A folder with a configuration, and the engine's lake in a bucket on a real server."""
    (tmp_path / "lakesweep.toml").write_text(CONFIG.format(uri=engine.copy_catalog(tmp_path)))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    clean = {"PATH": path, "HOME": str(tmp_path), "COLUMNS": "100", "NO_COLOR": "1"}
    return {**clean, **bucket.environment(), "LANG": "C.UTF-8"}


@pytest.mark.parametrize("document", WITH_COMMANDS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_does_what_the_document_says(
    document: Path,
    tmp_path: Path,
    environment: dict[str, str],
    java_tables: JavaWarehouses,
    lakefs_repositories: RealRepositories,
) -> None:
    if document.name == "paimon.md":
        shutil.copytree(java_tables.warehouse, tmp_path / "warehouse")
    if document.name == "lakefs.md":
        shutil.copytree(lakefs_repositories.folder / "namespaces", tmp_path / "repos")
    if document.name == "lifecycle.md":
        recorded(lakefs_repositories, "analytics", tmp_path / "repos")
        (tmp_path / "policy.json").write_text(first_json(document.read_text()))
    for step in steps(document.read_text()):
        done = step.run(tmp_path, environment)
        assert done.returncode == step.exit_code, f"$ {step.command}\n{done.stdout}"
        assert step.matches(done.stdout), f"$ {step.command}\n{done.stdout}"


def first_json(text: str) -> str:
    """The first block of JSON in a document."""
    found = re.search(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_readme_shows_commands() -> None:
    assert ROOT / "README.md" in WITH_COMMANDS
