"""Tables that cannot be expired, or not as asked: what is said, and that nothing changes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lakesweep.errors import (
    DamagedError,
    DeniedError,
    LakesweepError,
    NotFoundError,
    RefusedError,
    TruncatedError,
    UnreadableError,
)
from lakesweep.storage.address import parse
from lakesweep.storage.wrappers.faults import Faulty, StorageFault, fail
from lakesweep.upkeep.snapshot_retention import RetentionArguments
from tests.iceberg_expiries import AtticApp
from tests.manifest_oracle import listed
from tests.unit.operations.upkeep.test_iceberg_expiry import case_named
from tests.unit.upkeep.test_snapshot_retention import arguments_of

CASE = case_named("attic.shop.cow.head-only")
BUCKET = "s3://attic"


class BadTable:
    """The table of the case, to be made bad."""

    def __init__(self, folder: Path) -> None:
        self.attic = AtticApp(folder, CASE.now_ms)
        self.document: dict[str, Any] = json.loads(self.read(CASE.metadata_before))

    def read(self, path: str) -> bytes:
        return self.attic.buckets[BUCKET].read(parse(path).key)

    def write(self, path: str, data: bytes) -> None:
        self.attic.buckets[BUCKET].write(parse(path).key, data)

    def lose(self, path: str) -> None:
        list(self.attic.buckets[BUCKET].delete([parse(path).key]))

    def edit(self, **changes: Any) -> None:
        edited = {**self.document, **{key.replace("_", "-"): each for key, each in changes.items()}}
        self.write(CASE.metadata_before, json.dumps(edited).encode())

    def deny(self, *methods: str, path: str = "") -> None:
        """Have the store refuse calls for keys that contain a text."""
        fault = StorageFault(
            fail(DeniedError, "no rights"), frozenset(methods), key=lambda key: path in key
        )
        self.attic.buckets[BUCKET] = Faulty(self.attic.buckets[BUCKET], [fault])
        self.attic.app = self.attic.open()

    @property
    def head(self) -> dict[str, Any]:
        current = self.document["current-snapshot-id"]
        return next(each for each in self.document["snapshots"] if each["snapshot-id"] == current)

    @property
    def manifest(self) -> str:
        """A manifest that the current snapshot added: no other one names it."""
        path: str = listed(self.read, self.head)[0]["manifest_path"]
        return path

    def pointers(self) -> list[Any]:
        with sqlite3.connect(self.attic.folder / "catalog.db") as database:
            return database.execute("SELECT * FROM iceberg_tables").fetchall()


@dataclass(frozen=True)
class Bad:
    """What is wrong, and what is said of it."""

    name: str
    error: type[LakesweepError]
    words: str
    spoil: Callable[[BadTable], None] = lambda _: None
    arguments: Callable[[BadTable, RetentionArguments], RetentionArguments] = lambda _, each: each

    def __str__(self) -> str:
        return self.name


def naming(*ids: int) -> Callable[[BadTable, RetentionArguments], RetentionArguments]:
    return lambda _, given: replace(given, snapshot_ids=ids, only_ids=True)


def cut(table: BadTable, path: str) -> None:
    table.write(path, table.read(path)[:-40])


REF = {"snapshot-id": 4711, "type": "branch"}
BAD = [
    Bad("no metadata", NotFoundError, "not there", lambda t: t.lose(CASE.metadata_before)),
    Bad("no JSON", DamagedError, "complete JSON", lambda t: t.write(CASE.metadata_before, b"{no")),
    Bad(
        "cut metadata",
        TruncatedError,
        "complete JSON",
        lambda t: cut(t, CASE.metadata_before),
    ),
    Bad(
        "a branch to nothing",
        DamagedError,
        "'dev' points to snapshot 4711, which does not exist",
        lambda t: t.edit(refs={**t.document["refs"], "dev": REF}),
    ),
    Bad(
        "main to nothing",
        DamagedError,
        "points to snapshot 4711",
        lambda t: t.edit(current_snapshot_id=4711, refs={"main": REF}),
    ),
    Bad(
        "a cut list that stays",
        UnreadableError,
        "truncated|damaged",
        lambda t: cut(t, t.head["manifest-list"]),
    ),
    Bad(
        "an empty list that stays",
        UnreadableError,
        "truncated|damaged",
        lambda t: t.write(t.head["manifest-list"], b""),
    ),
    Bad(
        "a cut manifest that stays",
        UnreadableError,
        "truncated|damaged",
        lambda t: cut(t, t.manifest),
    ),
    Bad(
        "a manifest that stays and may not be read",
        UnreadableError,
        "denied",
        lambda t: t.deny("read", "read_range", path=parse(t.manifest).key),
    ),
    Bad(
        "the head of main",
        RefusedError,
        "it is the head of main",
        arguments=lambda t, given: replace(
            given, snapshot_ids=(t.document["current-snapshot-id"],), only_ids=True
        ),
    ),
    Bad(
        "gc.enabled=false",
        RefusedError,
        r"gc\.enabled",
        lambda t: t.edit(properties={**t.document["properties"], "gc.enabled": "false"}),
    ),
    Bad(
        "no rights to write",
        DeniedError,
        "no rights",
        lambda t: t.deny("write", "write_new"),
    ),
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_nothing_changes(bad: Bad, tmp_path: Path) -> None:
    table = BadTable(tmp_path)
    arguments = bad.arguments(table, arguments_of(CASE))
    bad.spoil(table)
    before = table.attic.stored(), table.pointers()
    with pytest.raises(bad.error, match=bad.words) as caught:
        table.attic.expire(CASE.table, arguments)
    assert caught.value.exit_code
    assert (table.attic.stored(), table.pointers()) == before


def test_ids_that_do_not_exist_expire_nothing(tmp_path: Path) -> None:
    table = BadTable(tmp_path)
    before = table.attic.stored(), table.pointers()
    result = table.attic.expire(CASE.table, naming(4711)(table, arguments_of(CASE)))
    assert (result.expired_snapshots, result.metadata_after) == ([], None)
    assert (table.attic.stored(), table.pointers()) == before


@pytest.mark.parametrize("what", ["list", "manifest"])
def test_what_a_damaged_file_of_an_expiring_snapshot_named_stays(what: str, tmp_path: Path) -> None:
    table = BadTable(tmp_path)
    first = table.document["snapshots"][0]
    path = first["manifest-list"]
    if what == "manifest":
        kept = {row["manifest_path"] for row in listed(table.read, table.head)}
        paths = [row["manifest_path"] for row in listed(table.read, first)]
        path = next(each for each in paths if each not in kept)
    cut(table, path)
    rows = table.attic.expire(CASE.table, arguments_of(CASE))
    assert [each.path for each in rows.failures] == [path]
    assert rows.expired_snapshots
    left = table.attic.stored()
    assert table.head["manifest-list"] in left
    assert {row["manifest_path"] for row in listed(table.read, table.head)} <= left
