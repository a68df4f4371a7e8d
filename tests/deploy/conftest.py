"""What the tests of packages and deployments share: a lake with garbage that may be swept."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.demo.garbage import add_garbage
from lakesweep.demo.lake import DemoLake

_PROJECT = Path(__file__).parents[2]
_LIMITS = """
[lakes.demo.limits]
apply = "within-limits"
quarantine = "7d"
"""


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the project."""
    return _PROJECT


@pytest.fixture(scope="session")
def tools(project: Path) -> Path:
    """Where `scripts/setup-deploy` has put its programs and environments."""
    folder = project / ".deploy"
    assert folder.is_dir(), "run scripts/setup-deploy first, or make test-deploy"
    return folder


@pytest.fixture
def lake(tmp_path: Path) -> DemoLake:
    """The demo's lake, swept by the local engine, so that no environment needs Spark."""
    made = DemoLake(tmp_path / "lake")
    made.create()
    add_garbage(made)
    made.config.write_text(f'engine = "local"\n{made.config.read_text()}{_LIMITS}')
    return made
