"""The store in a relational database."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, cast

from lakesweep.errors import DamagedRowError, SchemaError
from lakesweep.store.backends.backend import (
    SCAN_ROWS,
    SCHEMA_VERSION,
    BackendCapabilities,
    refuse_newer,
)
from lakesweep.store.backends.rows import (
    EVERY_ID,
    HeadFields,
    HeadPage,
    IdSpan,
    ObjectHead,
    ObjectRow,
    Reference,
    ReferenceGuard,
    RowFields,
    RowKey,
    batches,
    object_rows,
    pack_pointers,
    row_keys,
    sized_batches,
    split_span,
    unpack_pointers,
    whole_pages,
)
from lakesweep.store.backends.sql.database import SqlDatabase
from lakesweep.store.backends.sql.dialect import Condition, NewCommit, fetch_all
from lakesweep.store.backends.sql.statements import Statement
from lakesweep.store.backends.sql.tables import REFERENCES

_BEFORE_PARTS = -1
_key_of = itemgetter(0, 1)
# Like ObjectHead._make, but faster for many.
_as_head: Callable[[Iterable[Any]], ObjectHead] = partial(tuple.__new__, ObjectHead)


class SqlBackend:
    """Keeps the rows in two tables. SQLite needs no server; see `DIALECTS` for the others."""

    def __init__(self, url: str) -> None:
        self._database = SqlDatabase(url)
        self._statements = self._database.statements
        self._dialect = self._database.dialect
        self.capabilities = BackendCapabilities(
            durable=True,
            deletes_realms=True,
            max_value_bytes=self._dialect.max_value_bytes,
            batch_rows=self._dialect.batch_rows,
            splits_scans=True,
            scans_wait=self._dialect.has_server,
            atomic_commits=True,
        )

    def init_schema(self) -> None:
        self._database.prepare()
        self._database.check_server()
        self._database.in_transaction(self._create_tables)

    def check_schema(self) -> None:
        self._database.check_server()
        ((version,),) = self._database.query(self._statements.schema_version)
        if version is None:
            raise SchemaError(f"{self._database}: the tables were not created completely")
        refuse_newer(str(self._database), version)

    def close(self) -> None:
        self._database.close()

    def insert_reference(self, realm: str, reference: Reference) -> bool:
        values = _reference_values(realm, reference)
        return self._database.change(self._statements.insert_reference, **values)

    def insert_references(self, realm: str, references: Collection[Reference]) -> None:
        statement = self._statements.insert_references
        values = [statement.values(**_reference_values(realm, each)) for each in references]
        for some in batches(values, self._dialect.batch_rows):
            self._database.change_many(partial(_execute_many, statement, some))

    def fetch_references(self, realm: str, names: Collection[str]) -> Mapping[str, Reference]:
        found: dict[str, Reference] = {}
        sizes = (self._dialect.batch_rows, len, self._dialect.names_bytes)
        for some in sized_batches([name.encode() for name in names], *sizes):
            fetch = partial(self._dialect.fetch_references, realm.encode(), some)
            found.update(
                (each.name, each) for each in map(_as_reference, self._database.read(fetch))
            )
        return found

    def update_reference(self, realm: str, new: Reference, expected: Reference) -> bool:
        values = _reference_values(realm, new) | _expected_reference(realm, expected)
        return self._database.change(self._statements.update_reference, **values)

    def commit(
        self, realm: str, rows: Collection[ObjectRow], new: Reference, expected: Reference
    ) -> bool:
        if not rows:
            return self.update_reference(realm, new, expected)
        values = _reference_values(realm, new) | _expected_reference(realm, expected)
        text, names = self._statements.update_reference
        swap = Condition(text, [values[name] for name in names])
        upsert = self._statements.upsert_rows.text
        commit = NewCommit(swap, upsert, realm.encode(), list(rows))
        return self._database.commit(partial(self._dialect.commit, commit))

    def delete_reference(self, realm: str, expected: Reference) -> bool:
        condition = _expected_reference(realm, expected)
        return self._database.change(self._statements.delete_reference, **condition)

    def fetch(self, realm: str, keys: Collection[RowKey]) -> Mapping[RowKey, ObjectRow]:
        found: dict[RowKey, ObjectRow] = {}
        for some in batches(keys, self._dialect.batch_rows):
            rows = self._database.read(partial(self._dialect.fetch_rows, realm.encode(), some))
            found.update(zip(row_keys(map(_key_of, rows)), object_rows(rows), strict=True))
        return found

    def fetch_first_rows(self, realm: str, ids: Sequence[int]) -> Sequence[RowFields]:
        found: list[RowFields] = []
        for some in batches(ids, self._dialect.batch_rows):
            found += self._database.read(
                partial(self._dialect.fetch_first_rows, realm.encode(), some)
            )
        return found

    def write(self, realm: str, rows: Collection[ObjectRow]) -> None:
        # Objects mean nothing until a reference points to them, and the swap of that makes them
        # durable.
        for values in self._dialect.row_batches(realm.encode(), rows):
            upsert = partial(_execute_many, self._statements.upsert_rows, values)
            self._database.change_many(upsert, relaxed=True)

    def delete(self, realm: str, keys: Collection[RowKey]) -> None:
        for some in batches(keys, self._dialect.batch_rows):
            delete = partial(self._dialect.delete_rows, realm.encode(), some)
            self._database.change_many(delete, relaxed=True)

    def insert_row(self, realm: str, row: ObjectRow) -> bool:
        values = {"realm": realm.encode(), **row._asdict()}
        return self._database.change(self._statements.insert_row, **values)

    def update_row(self, realm: str, row: ObjectRow, expected_token: int) -> bool:
        values = row._asdict() | _expected_row(realm, row.key, expected_token)
        return self._database.change(self._statements.update_row, **values)

    def delete_row(self, realm: str, key: RowKey, expected_token: int) -> bool:
        condition = _expected_row(realm, key, expected_token)
        return self._database.change(self._statements.delete_row, **condition)

    def delete_expected(self, realm: str, expected: Collection[ObjectHead]) -> int:
        deleted = 0
        statement = self._statements.delete_expected.text
        for some in batches(expected, self._dialect.batch_rows):
            delete = partial(self._dialect.delete_expected, statement, realm.encode(), some)
            deleted += self._database.change_many(delete, relaxed=True)
        return deleted

    def realms(self) -> Sequence[str]:
        statements = self._statements.next_realm
        found = {realm for statement in statements for realm in self._realms(statement)}
        return [realm.decode() for realm in sorted(found)]

    def scan_references(self, realm: str) -> Iterator[Reference]:
        statement, name = self._statements.scan_references, b""
        while page := self._database.query(statement, old_realm=realm.encode(), from_name=name):
            yield from map(_as_reference, page)
            name = _next_after(page[-1][0])

    def scan_rows(self, realm: str, span: IdSpan = EVERY_ID) -> Iterator[ObjectHead]:
        return map(_as_head, self._scan(realm, span))

    def scan_pages(
        self, realm: str, span: IdSpan = EVERY_ID, rows: int = SCAN_ROWS
    ) -> Iterator[HeadPage]:
        fetch = self._dialect.heads_fetcher()
        if fetch is None:
            return whole_pages(self._scan(realm, span), rows)
        return self._scan_columns(partial(fetch, realm.encode()), span, rows)

    def _scan_columns(
        self, fetch: Callable[[IdSpan, int, Any], HeadPage | None], span: IdSpan, rows: int
    ) -> Iterator[HeadPage]:
        while span.first <= span.last:
            page = self._database.read(partial(fetch, span, rows))
            if page is None:
                return
            yield page
            span = IdSpan(int(page.ids[-1]) + 1, span.last)

    def _scan(self, realm: str, span: IdSpan) -> Iterator[HeadFields]:
        statement, (number, part) = self._statements.scan_rows, (span.first, _BEFORE_PARTS)
        inside = {"old_realm": realm.encode(), "last_id": span.last}
        while page := self._database.query(statement, **inside, from_id=number, behind_part=part):
            yield from cast(Sequence[HeadFields], page)
            number, part, *_ = page[-1]

    def split_rows(self, realm: str, count: int) -> Sequence[IdSpan]:
        # Two statements: each end of the index is found directly, both together by a full scan.
        ends = (self._statements.lowest_id, self._statements.highest_id)
        lowest, highest = (
            self._database.query(end, old_realm=realm.encode())[0][0] for end in ends
        )
        return split_span(lowest or 0, highest or 0, count)

    def delete_realm(self, realm: str, guard: ReferenceGuard | None = None) -> bool:
        done: list[bool] = []

        def delete(cursor: Any) -> None:
            done.append(guard is None or self._lock_reference(guard, cursor))
            for statement in self._statements.delete_realm if done[-1] else ():
                cursor.execute(statement.text, statement.values(old_realm=realm.encode()))

        self._database.in_transaction(delete)
        return done[-1]

    def _lock_reference(self, guard: ReferenceGuard, cursor: Any) -> bool:
        """Lock the reference until the transaction ends; False if it has moved."""
        hold = self._statements.lock_reference
        values = hold.values(**_expected_reference(*guard))
        return bool(fetch_all(hold.text, values, cursor))

    def _create_tables(self, cursor: Any) -> None:
        schema, *others = self._statements.create_tables
        for text in (*self._dialect.on_create, schema.text):
            cursor.execute(text)
        ((version,),) = fetch_all(self._statements.schema_version.text, (), cursor)
        refuse_newer(str(self._database), version or 0)
        for statement in others:
            cursor.execute(statement.text)
        # Last, because it marks the schema as complete.
        insert = self._statements.insert_schema
        cursor.execute(insert.text, insert.values(version=version or SCHEMA_VERSION))

    def _realms(self, statement: Statement) -> Iterator[bytes]:
        # One index lookup per realm, instead of reading every row.
        after = b""
        while found := self._database.query(statement, from_realm=after):
            ((realm,),) = found
            yield realm
            after = _next_after(realm)


def _execute_many(statement: Statement, values: Sequence[Sequence[object]], cursor: Any) -> None:
    cursor.executemany(statement.text, values)


def _reference_values(realm: str, reference: Reference) -> dict[str, object]:
    return {
        "realm": realm.encode(),
        "name": reference.name.encode(),
        "pointer": reference.pointer,
        "version": reference.version,
        "created_at": reference.created_at,
        "recent": pack_pointers(reference.recent),
    }


def _expected_reference(realm: str, expected: Reference) -> dict[str, object]:
    return {
        "old_realm": realm.encode(),
        "old_name": expected.name.encode(),
        "old_pointer": expected.pointer,
        "old_version": expected.version,
        "old_created_at": expected.created_at,
    }


def _as_reference(row: Sequence[Any]) -> Reference:
    name, pointer, version, created_at, recent = row
    try:
        return Reference(name.decode(), pointer, version, created_at, unpack_pointers(recent))
    except (UnicodeDecodeError, struct.error) as error:
        raise DamagedRowError(
            f"the row of reference {name.decode(errors='backslashreplace')!r} is damaged: {error}",
            hint=f"restore this row of {REFERENCES.name} from a backup",
        ) from error


def _expected_row(realm: str, key: RowKey, token: int) -> dict[str, object]:
    return {"old_realm": realm.encode(), "old_id": key.id, "old_part": key.part, "old_token": token}


def _next_after(key: bytes) -> bytes:
    """The next larger byte string."""
    return key + b"\0"
