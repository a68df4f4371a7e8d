"""What tests of all kinds share: real servers, real tables."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from tests.cpu_times import CpuTimes, add_cpu_option
from tests.database_servers import DatabaseServer, mariadb_server, postgresql_server
from tests.forks import preload_forks
from tests.lakefs import RealRepositories
from tests.paimon import JavaWarehouses
from tests.processes import keep_files_in_memory
from tests.random_tests import Budget, Cases, Tally, add_options
from tests.servers import S3Server, moto_server, rclone_server

pytest.register_assert_rewrite("lakesweep.storage.contract", "lakesweep.store.backends.contract")

#: Nobody but whoever runs one can say where a lakeFS server is.
_LAKEFS = "LAKESWEEP_TEST_LAKEFS_ENDPOINT"
_LONGEST_ID = 120
#: When Python looks for garbage in cycles, by generation; as often as by default takes longer.
_COLLECT_AFTER = (50_000, 5, 5)
collect_ignore_glob = [] if os.environ.get(_LAKEFS) else ["e2e/test_lakefs_live*.py"]


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)
    add_cpu_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Preload forks, and limit random tests before their modules are imported."""
    gc.set_threshold(*_COLLECT_AFTER)
    keep_files_in_memory()
    preload_forks()
    budget = Budget.of(config)
    budget.load_profile()
    config.pluginmanager.register(Tally(budget))
    if config.getoption("--cpu-times"):
        config.pluginmanager.register(CpuTimes())


def pytest_collection_finish() -> None:
    """Leave the modules and the tests themselves out of every search for garbage."""
    gc.freeze()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name long texts and all bytes by their size.

    Bytes may differ from one process to the next (gzip writes the time), and pytest-xdist refuses
    to run tests whose names do.
    """
    if isinstance(val, bytes):
        return f"{len(val)} bytes"
    if isinstance(val, str) and len(val) > _LONGEST_ID:
        return f"{val[:40]}… {len(val)} characters"
    return None


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


@pytest.fixture
def cases(request: pytest.FixtureRequest) -> Cases:
    """Random cases for a test that makes its own data; see tests/random_tests.py."""
    return Cases(request.node.nodeid, Budget.of(request.config))
