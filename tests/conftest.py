"""What tests of all kinds share: real servers, started once a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import S3Server, moto_server, rclone_server

pytest.register_assert_rewrite("lakesweep.storage.contract")


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    """An S3 server that keeps every key exactly."""
    with moto_server() as server:
        yield server


@pytest.fixture(scope="session")
def rclone() -> Iterator[S3Server]:
    """An S3 server over files."""
    with rclone_server() as server:
        yield server
