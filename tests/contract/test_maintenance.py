"""Maintenance beside a writer that never rests, on every database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.dynamo.backend import DynamoBackend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.sql.backend import SqlBackend
from lakesweep.store.realms.registry import RealmStatus
from tests.database_servers import DatabaseServer
from tests.maintained import HEADS_ONLY, Maintained, prove_beside_a_writer
from tests.servers import S3Server


@pytest.fixture
def memory() -> Backend:
    return MemoryBackend()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Backend]:
    yield from _ready(SqlBackend(f"sqlite:///{tmp_path / 'store.db'}"))


@pytest.fixture
def postgresql(postgresql_databases: DatabaseServer) -> Iterator[Backend]:
    yield from _ready(SqlBackend(postgresql_databases.new_database()))


@pytest.fixture
def mariadb(mariadb_databases: DatabaseServer) -> Iterator[Backend]:
    yield from _ready(SqlBackend(mariadb_databases.new_database()))


@pytest.fixture
def dynamo(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", moto.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", moto.secret_access_key)
    url = f"dynamodb://maintained?region={moto.region}&endpoint={moto.endpoint}"
    yield from _ready(DynamoBackend(url))


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql", "mariadb"])
def test_nothing_in_use_goes_while_somebody_commits(
    kind: str, request: pytest.FixtureRequest
) -> None:
    prove_beside_a_writer(request.getfixturevalue(kind), every=1 if kind == "memory" else 3)


def test_the_same_in_dynamodb_by_one_client_and_a_realm_goes_row_by_row(dynamo: Backend) -> None:
    one = replace(HEADS_ONLY, scan_workers=1)
    prove_beside_a_writer(dynamo, every=10, config=one)
    maintained = Maintained(dynamo, one)
    realms = maintained.store.realms
    maintained.store.create_realm("other")
    inactive = realms.move(realms.get("acme"), RealmStatus.INACTIVE)
    realms.move(inactive, RealmStatus.PURGING)
    run = maintained.maintain()
    assert (run.purged_realms, run.realms_purged) == (0, ("acme",))
    assert run.per_realm_per_obj_type_stats["acme"]["*"].purged > 0
    assert realms.get("acme").status is RealmStatus.PURGED


def _ready(backend: Backend) -> Iterator[Backend]:
    backend.init_schema()
    yield backend
    backend.close()
