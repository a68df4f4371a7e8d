"""The dialect of SQLite: a database in a file, without a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from sqlalchemy import URL, Insert, Table
from sqlalchemy.dialects import sqlite

from lakesweep.errors import SchemaError, StoreError
from lakesweep.private_folders import create_private
from lakesweep.store.backends.sql.dialect import (
    BUSY,
    FULL,
    REFUSED,
    UNKNOWN,
    Dialect,
    DriverFailure,
)
from lakesweep.store.backends.sql.tables import new_values

_OPTIONS = frozenset({"timeout", "cached_statements"})
_READ_ONLY = DriverFailure(StoreError, "give this user write access to the file and its folder")
# The file that cannot be created may also be one beside it.
_NOT_OPENED = DriverFailure(StoreError, "let this user read and write the file and its folder")
_FOREIGN = DriverFailure(StoreError, "use another file, or restore this one from a backup")
_MISSING = DriverFailure(SchemaError, "lakesweep store init creates the file and its tables")
# SQLite rolls back a statement, or the whole transaction, before it reports one of these. A failed
# write has not written the end of the transaction, without which the rest does not count.
_UNCHANGED: Mapping[str, DriverFailure] = {
    **dict.fromkeys(("BUSY", "LOCKED", "SCHEMA"), BUSY),
    **dict.fromkeys(("PERM", "READONLY", "AUTH"), _READ_ONLY),
    "CANTOPEN": _NOT_OPENED,
    **dict.fromkeys(("NOTADB", "CORRUPT"), _FOREIGN),
    **dict.fromkeys(("FULL", "IOERR_WRITE"), FULL),
    **dict.fromkeys(("NOMEM", "TOOBIG", "CONSTRAINT", "MISMATCH", "RANGE"), REFUSED),
}


class Sqlite(Dialect):
    """The log is written in order: syncing it also syncs all earlier writes of others."""

    name = "sqlite"
    driver = "pysqlite"
    example = "sqlite:///folder/store.db"
    placeholder = "?"
    has_server = False
    # A transaction that reads first and writes later fails for good if another one wrote in
    # between; one that takes the lock immediately just waits.
    begin = "BEGIN IMMEDIATE"
    groups_writes = True
    on_connect = ("PRAGMA synchronous = FULL",)
    on_relaxed = ("PRAGMA synchronous = NORMAL",)
    on_init = ("PRAGMA journal_mode = WAL",)
    connect_options: ClassVar[Mapping[str, Any]] = {
        "timeout": 60.0,  # how long a writer waits for others
        "isolation_level": None,
        "check_same_thread": False,
    }
    max_value_bytes = 1_000_000_000

    def check_url(self, url: URL) -> str | None:
        if url.host:
            return "the file name comes after three slashes"
        if url.database in {None, "", ":memory:"}:
            return "it does not name a file; use memory: for a store in memory"
        if "uri" in url.query and not str(url.database).startswith("file:"):
            return "with the option uri, the file is written as file:/folder/store.db"
        strange = set() if "uri" in url.query else url.query.keys() - _OPTIONS
        return f"SQLite has no option {min(strange)}" if strange else None

    def connect_arguments(
        self, url: URL, arguments: Sequence[Any], options: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        # A command that only reads must not create a missing file.
        if "uri" not in url.query:
            arguments = [f"{Path(str(url.database)).absolute().as_uri()}?mode=rw"]
        elif "mode" not in url.query:
            arguments = [f"{arguments[0]}{'&' if '?' in arguments[0] else '?'}mode=rw"]
        return super().connect_arguments(url, arguments, {**options, "uri": True})

    def prepare(self, url: URL) -> None:
        if "mode" not in url.query:
            file = _file(url)
            try:
                # SQLite gives the files that it creates beside a database the same mode.
                create_private(file)
            except OSError as error:
                raise StoreError(
                    f"{file}: {error.strerror}", hint="use a file in a writable folder"
                ) from error

    def insert_new(self, table: Table) -> Insert:
        return sqlite.insert(table).on_conflict_do_nothing()

    def upsert(self, table: Table) -> Insert:
        insert, key = sqlite.insert(table), table.primary_key.columns
        new = new_values(table, insert.excluded)
        return insert.on_conflict_do_update(index_elements=key, set_=new)

    def refused(self, error: Exception, url: URL) -> DriverFailure:
        failure = self.failed(error)
        return _MISSING if failure is _NOT_OPENED and not _file(url).exists() else failure

    def failed(self, error: Exception) -> DriverFailure:
        name = getattr(error, "sqlite_errorname", None)
        if name is None:
            return REFUSED  # the driver refused the statement before running it
        if name == "SQLITE_ERROR":
            return DriverFailure(SchemaError) if "no such table" in str(error) else REFUSED
        code = name.removeprefix("SQLITE_")
        return _UNCHANGED.get(code) or _UNCHANGED.get(code.split("_")[0], UNKNOWN)


def _file(url: URL) -> Path:
    name = str(url.database)
    return Path(unquote(urlsplit(name).path) if "uri" in url.query else name)
