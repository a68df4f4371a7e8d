"""The contract of backends, over every backend that there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakesweep.clock import SystemClock
from lakesweep.store.backend import Backend
from lakesweep.store.backends.faulty import Fault, FaultyBackend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.sql import SqlBackend
from lakesweep.store.contract import CHECKS


@pytest.fixture
def memory() -> Backend:
    return MemoryBackend()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Backend]:
    backend = SqlBackend(f"sqlite:///{tmp_path / 'store.db'}")
    backend.init_schema()
    yield backend
    backend.close()


@pytest.fixture
def faultless() -> Backend:
    """The wrapper that injects faults, when it injects none."""
    return FaultyBackend(MemoryBackend(), lambda _: Fault.NONE, SystemClock())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", ["memory", "sqlite", "faultless"])
def test_backend(
    kind: str, check: Callable[[Backend], None], request: pytest.FixtureRequest
) -> None:
    check(request.getfixturevalue(kind))
