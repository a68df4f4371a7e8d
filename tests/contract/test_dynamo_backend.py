"""The contract of backends over DynamoDB, as moto plays it.

One client at a time: moto forgets updates where several compete. dynalite does not, and has its
turn in `tests/databases`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.contract import (
    CHECKS,
    lets_one_of_many_commits_win,
    lets_one_of_many_writers_win,
)
from lakesweep.store.backends.dynamo.backend import DynamoBackend
from lakesweep.store.backends.rows import MAX_VALUE_BYTES, ObjectRow
from tests.servers import S3Server

ONE_CLIENT = frozenset({lets_one_of_many_writers_win, lets_one_of_many_commits_win})
ALONE = [check for check in CHECKS if check not in ONE_CLIENT]
_NUMBERS = count()


@pytest.fixture
def dynamo(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    """A table of its own."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", moto.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", moto.secret_access_key)
    url = f"dynamodb://table-{next(_NUMBERS)}?region={moto.region}&endpoint={moto.endpoint}"
    backend = DynamoBackend(url)
    backend.init_schema()
    yield backend
    backend.close()


@pytest.mark.parametrize("check", ALONE, ids=lambda check: check.__name__)
def test_dynamo(check: Callable[[Backend], None], dynamo: Backend) -> None:
    check(dynamo)


def test_a_scan_goes_on_where_a_page_of_large_rows_ended(dynamo: Backend) -> None:
    rows = [ObjectRow(n, 0, "thing", 5, None, bytes(MAX_VALUE_BYTES)) for n in range(10)]
    dynamo.write("acme", rows)
    assert [head.id for head in dynamo.scan_rows("acme")] == list(range(10))


def test_a_realm_without_rows_is_not_told(dynamo: Backend) -> None:
    row = ObjectRow(1, 0, "thing", 5, None, b"")
    for realm in ("acme", "other"):
        dynamo.write(realm, [row])
    dynamo.delete("acme", [row.key])
    assert list(dynamo.realms()) == ["other"]
