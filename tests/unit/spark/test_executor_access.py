from __future__ import annotations

import pickle

import pytest

from lakesweep.spark.executor_access import ExecutorAccess
from lakesweep.storage.address import parse
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.stores import Stores


def elsewhere(
    access: ExecutorAccess, monkeypatch: pytest.MonkeyPatch, **variables: str
) -> ExecutorAccess:
    """The access as a process on another machine gets it, which has these variables."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found: ExecutorAccess = pickle.loads(pickle.dumps(access))
    return found


@pytest.fixture
def access(monkeypatch: pytest.MonkeyPatch) -> ExecutorAccess:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "driver")
    monkeypatch.setenv("AWS_PROFILE", "only-here")
    return ExecutorAccess(Stores({"s3://lake": StorageOptions(secret_access_key="hidden")}))


def test_the_options_of_stores_travel(
    access: ExecutorAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = elsewhere(access, monkeypatch)
    assert found.stores.options(parse("s3://lake/x")).secret_access_key == "hidden"


def test_nothing_secret_is_shown(access: ExecutorAccess) -> None:
    assert "hidden" not in repr(access)
    assert "driver" not in repr(access)


def test_a_machine_without_credentials_gets_those_of_the_driver(
    access: ExecutorAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = elsewhere(access, monkeypatch)
    environment = {"AWS_CA_BUNDLE": "/its/own"}
    monkeypatch.setattr("os.environ", environment)
    assert found.stores is not None
    assert environment == {"AWS_CA_BUNDLE": "/its/own", "AWS_ACCESS_KEY_ID": "driver"}


def test_a_machine_with_credentials_keeps_its_own(
    access: ExecutorAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = elsewhere(access, monkeypatch)
    environment = {"AWS_ROLE_ARN": "its own"}
    monkeypatch.setattr("os.environ", environment)
    assert found.stores is not None
    assert environment == {"AWS_ROLE_ARN": "its own"}
