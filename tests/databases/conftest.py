"""An empty database for each test, on a server of its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.databases.servers import dynalite_server, mongo_server

_NUMBERS = count()


@pytest.fixture(scope="session")
def mongodb() -> Iterator[Callable[[], str]]:
    with mongo_server() as address:
        yield lambda: f"{address}/test-{next(_NUMBERS)}"


@pytest.fixture(scope="session")
def dynamodb() -> Iterator[Callable[[], str]]:
    with dynalite_server() as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "id")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        options = f"region=us-east-1&endpoint={endpoint}"
        yield lambda: f"dynamodb://test-{next(_NUMBERS)}?{options}"


@pytest.fixture(params=["mongodb", "dynamodb"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a database in which there is nothing."""
    make: Callable[[], str] = request.getfixturevalue(request.param)
    return make()
