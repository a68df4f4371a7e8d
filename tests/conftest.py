"""What tests of all kinds share: real servers, real tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.database_servers import DatabaseServer, mariadb_server, postgresql_server
from tests.paimon import JavaWarehouses
from tests.servers import S3Server, moto_server, rclone_server

pytest.register_assert_rewrite("lakesweep.storage.contract", "lakesweep.store.contract")


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    """An S3 server that keeps every key exactly."""
    with moto_server() as server:
        yield server


@pytest.fixture
def rclone() -> Iterator[S3Server]:
    """An S3 server over files, for one test.

    It goes on working long after a delete that emptied folders, and would slow all that follows.
    """
    with rclone_server() as server:
        yield server


@pytest.fixture(scope="session")
def java_tables(tmp_path_factory: pytest.TempPathFactory) -> JavaWarehouses:
    """Paimon tables that Java wrote; whoever changes one takes a copy."""
    return JavaWarehouses.unpack(tmp_path_factory.mktemp("paimon"))


@pytest.fixture(scope="session")
def postgresql_databases() -> Iterator[DatabaseServer]:
    """PostgreSQL, in which each test makes databases of its own."""
    with postgresql_server() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_databases() -> Iterator[DatabaseServer]:
    """MariaDB, in which each test makes databases of its own."""
    with mariadb_server() as server:
        yield server
