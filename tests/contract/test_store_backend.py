"""The contract of backends, over every backend that there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakesweep.clock import SystemClock
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.contract import CHECKS
from lakesweep.store.backends.faults import BackendFault, FaultyBackend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.sql.backend import SqlBackend
from lakesweep.store.cache.cache import StoreCache
from lakesweep.store.cache.caching_backend import CachingBackend, InvalidatingBackend
from tests.database_servers import DatabaseServer


@pytest.fixture
def memory() -> Backend:
    return MemoryBackend()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Backend]:
    yield from _sql(f"sqlite:///{tmp_path / 'store.db'}")


@pytest.fixture
def postgresql(postgresql_databases: DatabaseServer) -> Iterator[Backend]:
    yield from _sql(postgresql_databases.new_database())


@pytest.fixture
def mariadb(mariadb_databases: DatabaseServer) -> Iterator[Backend]:
    yield from _sql(mariadb_databases.new_database())


@pytest.fixture
def faultless() -> Backend:
    """The wrapper that injects faults, when it injects none."""
    return FaultyBackend(MemoryBackend(), lambda _: BackendFault.NONE, SystemClock())


@pytest.fixture
def telling() -> Backend:
    """The view of a database that only tells the cache."""
    return InvalidatingBackend(MemoryBackend(), StoreCache(2**20, SystemClock()))


@pytest.fixture
def caching() -> Backend:
    """The view that asks the cache first: whatever one process did, it sees at once."""
    return CachingBackend(MemoryBackend(), StoreCache(2**20, SystemClock()))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "kind",
    ["memory", "sqlite", "postgresql", "mariadb", "faultless", "telling", "caching"],
)
def test_backend(
    kind: str, check: Callable[[Backend], None], request: pytest.FixtureRequest
) -> None:
    check(request.getfixturevalue(kind))


def _sql(url: str) -> Iterator[Backend]:
    backend = SqlBackend(url)
    backend.init_schema()
    yield backend
    backend.close()
