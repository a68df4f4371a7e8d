"""What tests of all kinds share: real servers."""

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


@pytest.fixture
def rclone() -> Iterator[S3Server]:
    """An S3 server over files, for one test.

    It goes on working long after a delete that emptied folders, and would slow all that follows.
    """
    with rclone_server() as server:
        yield server
