"""What tests of all kinds share: real servers, real tables."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.database_servers import DatabaseServer, mariadb_server, postgresql_server
from tests.lakefs import RealRepositories
from tests.paimon import JavaWarehouses
from tests.servers import S3Server, moto_server, rclone_server

pytest.register_assert_rewrite("lakesweep.storage.contract", "lakesweep.store.backends.contract")
# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

#: Nobody but whoever runs one can say where a lakeFS server is.
_LAKEFS = "LAKESWEEP_TEST_LAKEFS_ENDPOINT"
collect_ignore_glob = [] if os.environ.get(_LAKEFS) else ["e2e/test_lakefs_live*.py"]


def pytest_report_header() -> str:
    """Say what is left out, and how to have it."""
    endpoint = os.environ.get(_LAKEFS)
    told = f"on {endpoint}" if endpoint else f"not run, as {_LAKEFS} is not set"
    return f"tests against a lakeFS server: {told}"


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
def lakefs_repositories(tmp_path_factory: pytest.TempPathFactory) -> RealRepositories:
    """lakeFS repositories that a server wrote; whoever changes one takes a copy."""
    return RealRepositories.unpack(tmp_path_factory.mktemp("lakefs"))


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
