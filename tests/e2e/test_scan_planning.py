"""Scans planned by the service, beside those that PyIceberg plans itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DoubleType, LongType, NestedField, StringType, TimestampType

from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.demo.position_deletes import delete_rows
from lakesweep.iceberg.scan import planner
from lakesweep.operations.catalogs.views import open_catalogs
from tests.service import make_service, serving, tokens_of

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "at", TimestampType(), required=False),
    NestedField(4, "day", DateType(), required=False),
    NestedField(5, "price", DoubleType(), required=False),
)
SPEC = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "its_day"))
NOON = datetime.fromisoformat("2026-01-03T12:00:00")
FILTERS = (
    "id = 3",
    "id in (1, 7)",
    "id < 2",
    "not id < 6",
    "name like 'b%'",
    "name is null",
    "name is not null",
    "at > '2026-01-03T12:00:00'",
    "day = '2026-01-02'",
    "price > 4.5",
    "at < '2026-01-03T12:00:00' and name like 'a%'",
    "id = 1 or name is null",
)


def _rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": list(numbers),
            "name": [None if number % 4 == 3 else "abc"[number % 3] * 2 for number in numbers],
            "at": [NOON + timedelta(hours=number * 10 - 50) for number in numbers],
            "day": [date(2026, 1, 1 + number % 5) for number in numbers],
            "price": [number * 1.5 for number in numbers],
        },
        schema=SCHEMA.as_arrow(),
    )


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("scans")
    service = make_service(folder)
    open_catalogs(service.app, None).create("shop", location=f"file://{folder}/shop")
    token = tokens_of(service)[ServiceRole.OPERATOR]
    with serving(service) as address:
        yield address, token


def _connect(url: tuple[str, str], mode: str) -> RestCatalog:
    address, token = url
    given = {"scan-planning-mode": mode, "token": token}
    return RestCatalog("shop", uri=f"{address}/iceberg", warehouse="shop", **given)


@pytest.fixture(scope="module")
def tables(url: tuple[str, str]) -> tuple[Table, Table]:
    """One table, seen by a client that plans, and by one that lets the service plan."""
    client = _connect(url, "client")
    client.create_namespace("n")
    table = client.create_table("n.t", SCHEMA, partition_spec=SPEC)
    table.append(_rows(0, 6))
    table.append(_rows(6, 6))
    return client.load_table("n.t"), _connect(url, "server").load_table("n.t")


@pytest.mark.parametrize("row_filter", FILTERS, ids=str)
def test_the_same_files_are_read(tables: tuple[Table, Table], row_filter: str) -> None:
    ours, theirs = (_paths(table, row_filter) for table in reversed(tables))
    assert ours
    # Ours may leave out more, but nothing that has a row.
    assert ours <= theirs
    own, planned = (table.scan(row_filter).to_arrow().sort_by("id") for table in tables)
    assert planned == own
    assert planned.num_rows


def _paths(table: Table, row_filter: str) -> set[str]:
    return {task.file.file_path for task in table.scan(row_filter).plan_files()}


def test_less_is_read_than_there_is(tables: tuple[Table, Table]) -> None:
    everything = _paths(tables[1], "id is not null")
    assert len(_paths(tables[1], "id = 11")) == 1 < len(everything)


def test_a_plan_may_have_many_parts(
    tables: tuple[Table, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _paths(tables[1], "id is not null")
    monkeypatch.setattr(planner, "FILES_A_GROUP", 1)
    assert _paths(tables[1], "id is not null") == before


class _Raw:
    """The endpoints as such."""

    def __init__(self, url: tuple[str, str], table: str) -> None:
        self._base = f"{url[0]}/iceberg/v1/shop/namespaces/n/tables/{table}"
        self._headers = {"authorization": f"Bearer {url[1]}"}

    def __call__(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return httpx.request(method, f"{self._base}/{path}", json=body, headers=self._headers)

    def plan(self, **body: Any) -> dict[str, Any]:
        answer = self("POST", "plan", {key.replace("_", "-"): each for key, each in body.items()})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        assert found["status"] == "completed"
        return found


def test_a_plan_can_be_fetched_again_and_cancelled(
    tables: tuple[Table, Table], url: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = _Raw(url, "t")
    monkeypatch.setattr(planner, "FILES_A_GROUP", 1)
    found = raw.plan(filter={"type": "lt", "term": "ID", "value": 9}, case_sensitive=False)
    assert raw("GET", f"plan/{found['plan-id']}").json() == found
    assert found["plan-tasks"]
    part = raw("POST", "tasks", {"plan-task": found["plan-tasks"][0]}).json()
    assert part["file-scan-tasks"]
    assert not part["plan-tasks"]
    assert raw("DELETE", f"plan/{found['plan-id']}").status_code == 204
    for method, path, body, type_ in (
        ("GET", "plan/x", None, "NoSuchPlanIdException"),
        ("DELETE", "plan/x", None, "NoSuchPlanIdException"),
        ("POST", "tasks", {"plan-task": "x"}, "NoSuchPlanTaskException"),
        ("POST", "tasks", {"plan-task": found["plan-id"]}, "NoSuchPlanTaskException"),
    ):
        answer = raw(method, path, body)
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, type_)


def test_residuals_and_statistics(tables: tuple[Table, Table], url: tuple[str, str]) -> None:
    day = {"type": "lt", "term": "day", "value": "2026-01-02"}
    price = {"type": "gt", "term": "price", "value": 8}
    both = {"type": "and", "left": day, "right": price}
    found = _Raw(url, "t").plan(filter=both, stats_fields=["day", "price"], select=["id"])
    residuals = [task.get("residual-filter") for task in found["file-scan-tasks"]]
    # A day is a partition, so nothing is left of it.
    assert residuals
    assert all(each in (True, price) for each in residuals)
    file = found["file-scan-tasks"][0]["data-file"]
    assert file["partition"][0] == "2026-01-01"
    assert file["value-counts"] == {"keys": [4, 5], "values": [1, 1]}
    assert file["lower-bounds"]["values"][0] == "2026-01-01"


def test_what_was_appended_between_two_snapshots(
    tables: tuple[Table, Table], url: tuple[str, str]
) -> None:
    raw = _Raw(url, "t")
    first, second = (each.snapshot_id for each in tables[0].snapshots())
    some = raw.plan(start_snapshot_id=first, end_snapshot_id=second)["file-scan-tasks"]
    old = raw.plan(snapshot_id=first)["file-scan-tasks"]
    every = raw.plan()["file-scan-tasks"]
    paths = [{task["data-file"]["file-path"] for task in tasks} for tasks in (old, some, every)]
    assert paths[0] | paths[1] == paths[2]
    assert not paths[0] & paths[1]
    wrong = raw("POST", "plan", {"start-snapshot-id": second, "end-snapshot-id": first})
    assert wrong.status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        {"snapshot-id": 1},
        {"select": ["nope"]},
        {"filter": {"type": "eq", "term": "nope", "value": 1}},
        {"filter": {"type": "eq", "term": "id", "value": "x"}},
        {"stats-fields": ["nope"]},
        {"start-snapshot-id": 1},
        {"snapshot-id": "x"},
        {"filter": {"type": "not", "child": 1}},
    ],
)
def test_scans_that_cannot_be_meant(
    tables: tuple[Table, Table], url: tuple[str, str], body: Any
) -> None:
    assert _Raw(url, "t")("POST", "plan", body).status_code == 400


def test_deletes_come_with_their_files(tables: tuple[Table, Table], url: tuple[str, str]) -> None:
    client = _connect(url, "client")
    plain = client.load_table("n.t").location().removeprefix("file://") + "-deleted"
    table = client.create_table("n.deleted", SCHEMA, location=plain)
    table.append(_rows(0, 4))
    delete_rows(table, [1, 2])
    raw = _Raw(url, "deleted")
    found = raw.plan()
    (task,) = found["file-scan-tasks"]
    (delete,) = found["delete-files"]
    assert task["delete-file-references"] == [0]
    assert delete["content"] == "position-deletes"
    rows = _connect(url, "server").load_table("n.deleted").scan().to_arrow()
    assert sorted(rows["id"].to_pylist()) == [0, 3]


def test_manifests_elsewhere_are_not_read(url: tuple[str, str], tmp_path: Path) -> None:
    client = _connect(url, "client")
    client.create_namespace_if_not_exists("n")
    table = client.create_table("n.far", SCHEMA)
    table.append(_rows(0, 1))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    far = {
        "snapshot-id": 5,
        "sequence-number": 9,
        "timestamp-ms": snapshot.timestamp_ms + 1,
        "manifest-list": f"file://{tmp_path}/list.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    raw = _Raw(url, "far")
    update = {"action": "add-snapshot", "snapshot": far}
    done = httpx.post(raw._base, json={"updates": [update]}, headers=raw._headers)
    assert done.status_code == 200, done.text
    answer = raw("POST", "plan", {"snapshot-id": 5})
    assert (answer.status_code, answer.json()["error"]["type"]) == (403, "ForbiddenException")
    assert raw.plan()["file-scan-tasks"]
