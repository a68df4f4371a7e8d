"""A folder in memory for runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import scratch_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch_folder("lifecycle") as path:
        yield path
