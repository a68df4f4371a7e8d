from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lakesweep.errors import CommitConflictError, InvalidUpdateError
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.document.requirements import (
    AssertCreate,
    check_requirements,
    decode_table_requirements,
    decode_view_requirements,
)

TABLE = {
    "format-version": 2,
    "table-uuid": "ABC",
    "last-column-id": 3,
    "current-schema-id": 1,
    "last-partition-id": 1000,
    "default-spec-id": 2,
    "default-sort-order-id": 0,
    "current-snapshot-id": 7,
    "refs": {"main": {"snapshot-id": 7, "type": "branch"}, "t": {"snapshot-id": 5, "type": "tag"}},
}


def _document(content: dict[str, Any]) -> RawDocument:
    return RawDocument.parse("t.metadata.json", msgspec.json.encode(content))


def _check(document: RawDocument | None, *requirements: dict[str, Any]) -> None:
    check_requirements(document, decode_table_requirements(msgspec.json.encode(requirements)))


@pytest.mark.parametrize(
    "requirement",
    [
        {"type": "assert-table-uuid", "uuid": "abc"},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7},
        {"type": "assert-ref-snapshot-id", "ref": "t", "snapshot-id": 5},
        {"type": "assert-ref-snapshot-id", "ref": "new", "snapshot-id": None},
        {"type": "assert-ref-snapshot-id", "ref": "new"},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 3},
        {"type": "assert-current-schema-id", "current-schema-id": 1},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1000},
        {"type": "assert-default-spec-id", "default-spec-id": 2},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
    ],
)
def test_a_requirement_that_holds(requirement: dict[str, Any]) -> None:
    _check(_document(TABLE), requirement)


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        ({"type": "assert-create"}, "table already exists"),
        ({"type": "assert-table-uuid", "uuid": "x"}, "UUID does not match"),
        ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 5}, "branch main has ch"),
        ({"type": "assert-ref-snapshot-id", "ref": "t", "snapshot-id": 6}, "tag t has changed"),
        ({"type": "assert-ref-snapshot-id", "ref": "t"}, "tag t was created concurrently"),
        ({"type": "assert-ref-snapshot-id", "ref": "u", "snapshot-id": 5}, "u is missing"),
        (
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 4},
            "last assigned field id changed",
        ),
        (
            {"type": "assert-current-schema-id", "current-schema-id": 0},
            "current schema changed: expected id 0 != 1",
        ),
        (
            {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 9},
            "last assigned partition id changed",
        ),
        (
            {"type": "assert-default-spec-id", "default-spec-id": 0},
            "default partition spec changed",
        ),
        (
            {"type": "assert-default-sort-order-id", "default-sort-order-id": 1},
            "default sort order changed",
        ),
    ],
)
def test_a_requirement_that_fails(requirement: dict[str, Any], words: str) -> None:
    with pytest.raises(CommitConflictError, match=f"Requirement failed: .*{words}"):
        _check(_document(TABLE), requirement)


def test_a_table_that_is_not_there() -> None:
    _check(None, {"type": "assert-create"})
    with pytest.raises(CommitConflictError, match="does not exist"):
        _check(None, {"type": "assert-table-uuid", "uuid": "x"})


def test_main_of_an_old_document_is_its_current_snapshot() -> None:
    old = _document({"current-snapshot-id": 7})
    _check(old, {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7})
    with pytest.raises(CommitConflictError, match="created concurrently"):
        _check(old, {"type": "assert-ref-snapshot-id", "ref": "main"})


def test_a_view_has_one_kind() -> None:
    view = _document({"view-uuid": "ABC"})
    check_requirements(
        view, decode_view_requirements(b'[{"type":"assert-view-uuid","uuid":"abc"}]')
    )
    with pytest.raises(CommitConflictError, match="view UUID does not match"):
        check_requirements(
            view, decode_view_requirements(b'[{"type":"assert-view-uuid","uuid":"x"}]')
        )
    with pytest.raises(InvalidUpdateError):
        decode_view_requirements(b'[{"type":"assert-create"}]')


def test_malformed_requirements_are_refused() -> None:
    for wrong in (b'[{"type":"assert-nothing"}]', b'[{"type":"assert-table-uuid"}]', b"[", b"1"):
        with pytest.raises(InvalidUpdateError):
            decode_table_requirements(wrong)
    with pytest.raises(InvalidUpdateError, match="only requirement"):
        check_requirements(None, (AssertCreate(), AssertCreate()))
