"""The store in a relational database."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Row, Table, and_, bindparam, func, or_, select, update
from sqlalchemy import delete as delete_from

from lakesweep.errors import SchemaError
from lakesweep.store.backend import (
    EVERY_ID,
    SCHEMA_VERSION,
    Capabilities,
    IdSpan,
    ObjectHead,
    ObjectRow,
    Reference,
    RowKey,
)
from lakesweep.store.backends.connection import Database
from lakesweep.store.backends.tables import METADATA, OBJECTS, REFERENCES, SCHEMA
from lakesweep.store.spans import split_span

Item = TypeVar("Item")

#: How many rows one statement names, and how many one page of a scan holds.
BATCH_ROWS = 1_000

_OBJECT = OBJECTS.c
_REFERENCE = REFERENCES.c
_ROW_COLUMNS = [_OBJECT[name] for name in ObjectRow._fields]
_HEAD_COLUMNS = [_OBJECT[name] for name in ObjectHead._fields]

_FETCH_REFERENCES = select(REFERENCES).where(
    _REFERENCE.realm == bindparam("in_realm"),
    _REFERENCE.name.in_(bindparam("names", expanding=True)),
)
_FETCH_PART = select(*_ROW_COLUMNS).where(
    _OBJECT.realm == bindparam("in_realm"),
    _OBJECT.part == bindparam("in_part"),
    _OBJECT.id.in_(bindparam("ids", expanding=True)),
)
_THIS_REFERENCE = and_(
    _REFERENCE.realm == bindparam("in_realm"),
    _REFERENCE.name == bindparam("in_name"),
    _REFERENCE.pointer.is_not_distinct_from(bindparam("in_pointer")),
    _REFERENCE.version == bindparam("in_version"),
    _REFERENCE.created_at == bindparam("in_created_at"),
)
_THIS_ROW = and_(
    _OBJECT.realm == bindparam("in_realm"),
    _OBJECT.id == bindparam("in_id"),
    _OBJECT.part == bindparam("in_part"),
)
_WITH_TOKEN = _OBJECT.token == bindparam("in_token")
_UPDATE_REFERENCE = update(REFERENCES).where(_THIS_REFERENCE)
_DELETE_REFERENCE = delete_from(REFERENCES).where(_THIS_REFERENCE)
_UPDATE_ROW = update(OBJECTS).where(_THIS_ROW, _WITH_TOKEN)
_DELETE_TOKEN = delete_from(OBJECTS).where(_THIS_ROW, _WITH_TOKEN)
_DELETE_ROW = delete_from(OBJECTS).where(_THIS_ROW)


class SqlBackend:
    """Keeps the rows in two tables. SQLite needs no server; see `DIALECTS` for what else works."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        dialect = self._database.dialect
        self._insert_references = dialect.insert_new(REFERENCES)
        self._insert_rows = dialect.insert_new(OBJECTS)
        self._upsert_rows = dialect.upsert(OBJECTS)
        self.capabilities = Capabilities(
            durable=True,
            deletes_realms=True,
            max_value_bytes=dialect.max_value_bytes,
            batch_rows=BATCH_ROWS,
            splits_scans=True,
        )

    def init_schema(self) -> None:
        with self._database.writing() as connection:
            for statement in self._database.dialect.on_init:
                connection.exec_driver_sql(statement)
        with self._database.transaction() as connection:
            SCHEMA.create(connection, checkfirst=True)
            version = connection.scalar(select(func.max(SCHEMA.c.version)))
            self._refuse_newer(version or 0)
            METADATA.create_all(connection)
            if version is None:
                connection.execute(SCHEMA.insert().values(version=SCHEMA_VERSION))

    def check_schema(self) -> None:
        with self._database.reading() as connection:
            version = connection.scalar(select(func.max(SCHEMA.c.version)))
        if version is None:
            raise SchemaError(f"{self._database.url!r}: the tables were not created completely")
        self._refuse_newer(version)

    def close(self) -> None:
        self._database.close()

    def insert_reference(self, realm: str, reference: Reference) -> bool:
        return self._change(self._insert_references, _reference_values(realm, reference))

    def insert_references(self, realm: str, references: Collection[Reference]) -> None:
        values = [_reference_values(realm, reference) for reference in references]
        if values:
            with self._database.transaction() as connection:
                connection.execute(self._insert_references, values)

    def fetch_references(self, realm: str, names: Collection[str]) -> Mapping[str, Reference]:
        found: dict[str, Reference] = {}
        with self._database.reading() as connection:
            for some in _chunks([name.encode() for name in names]):
                parameters = {"in_realm": realm.encode(), "names": some}
                rows = connection.execute(_FETCH_REFERENCES, parameters)
                found.update((row.name.decode(), _reference(row)) for row in rows)
        return found

    def update_reference(self, realm: str, new: Reference, expected: Reference) -> bool:
        values = _reference_values(realm, new) | _reference_condition(realm, expected)
        return self._change(_UPDATE_REFERENCE, values)

    def delete_reference(self, realm: str, expected: Reference) -> bool:
        return self._change(_DELETE_REFERENCE, _reference_condition(realm, expected))

    def fetch(self, realm: str, keys: Collection[RowKey]) -> Mapping[RowKey, ObjectRow]:
        found: dict[RowKey, ObjectRow] = {}
        with self._database.reading() as connection:
            for some in _chunks(keys):
                rows = connection.execute(*_fetch(realm, some)).all()
                found.update((row.key, row) for row in map(ObjectRow._make, rows))
        return found

    def write(self, realm: str, rows: Collection[ObjectRow]) -> None:
        self._change_many(self._upsert_rows, [_row_values(realm, row) for row in rows])

    def delete(self, realm: str, keys: Collection[RowKey]) -> None:
        self._change_many(_DELETE_ROW, [_row_condition(realm, key) for key in keys])

    def insert_row(self, realm: str, row: ObjectRow) -> bool:
        return self._change(self._insert_rows, _row_values(realm, row))

    def update_row(self, realm: str, row: ObjectRow, expected_token: int) -> bool:
        condition = _row_condition(realm, row.key) | {"in_token": expected_token}
        return self._change(_UPDATE_ROW, _row_values(realm, row) | condition)

    def delete_row(self, realm: str, key: RowKey, expected_token: int) -> bool:
        condition = _row_condition(realm, key) | {"in_token": expected_token}
        return self._change(_DELETE_TOKEN, condition)

    def realms(self) -> Sequence[str]:
        found = {realm for table in (REFERENCES, OBJECTS) for realm in self._realms_of(table)}
        return [realm.decode() for realm in sorted(found)]

    def scan_references(self, realm: str) -> Iterator[Reference]:
        rest: ColumnElement[bool] = _REFERENCE.realm == realm.encode()
        query = select(REFERENCES).where(rest).order_by(_REFERENCE.name).limit(BATCH_ROWS)
        page = self._page(query)
        while page:
            yield from map(_reference, page)
            page = self._page(query.where(_REFERENCE.name > page[-1].name))

    def scan_rows(self, realm: str, span: IdSpan = EVERY_ID) -> Iterator[ObjectHead]:
        inside = and_(_OBJECT.realm == realm.encode(), _OBJECT.id <= span.last)
        query = select(*_HEAD_COLUMNS).where(inside).order_by(_OBJECT.id, _OBJECT.part)
        page = self._page(query.where(_OBJECT.id >= span.first).limit(BATCH_ROWS))
        while page:
            yield from map(ObjectHead._make, page)
            page = self._page(query.where(_behind(page[-1])).limit(BATCH_ROWS))

    def split_rows(self, realm: str, count: int) -> Sequence[IdSpan]:
        # Two statements: each end of the index is found at once, both together by a full scan.
        lowest, highest = (
            self._page(select(end(_OBJECT.id)).where(_OBJECT.realm == realm.encode()))[0][0]
            for end in (func.min, func.max)
        )
        return split_span(lowest or 0, highest or 0, count)

    def delete_realm(self, realm: str) -> None:
        with self._database.transaction() as connection:
            for table in (REFERENCES, OBJECTS):
                connection.execute(delete_from(table).where(table.c.realm == realm.encode()))

    def _change(self, statement: Any, values: Mapping[str, object]) -> bool:
        with self._database.writing() as connection:
            return bool(connection.execute(statement, values).rowcount == 1)

    def _change_many(self, statement: Any, values: Sequence[Mapping[str, object]]) -> None:
        # Objects mean nothing until a reference leads to them, and its swap makes them durable.
        if values:
            with self._database.transaction(relaxed=True) as connection:
                connection.execute(statement, values)

    def _page(self, query: Any) -> Sequence[Row[Any]]:
        with self._database.reading() as connection:
            return connection.execute(query).all()

    def _realms_of(self, table: Table) -> Iterator[bytes]:
        # One look into the index a realm, instead of one at every row.
        (realm,) = self._page(select(func.min(table.c.realm)))[0]
        while realm is not None:
            yield bytes(realm)
            (realm,) = self._page(select(func.min(table.c.realm)).where(table.c.realm > realm))[0]

    def _refuse_newer(self, version: int) -> None:
        if version > SCHEMA_VERSION:
            raise SchemaError(
                f"{self._database.url!r}: the tables have version {version}, "
                f"this program understands {SCHEMA_VERSION}",
                hint="use a newer lakesweep",
            )


def _fetch(realm: str, keys: Sequence[RowKey]) -> tuple[Any, Mapping[str, object]]:
    by_part = defaultdict(list)
    for key in keys:
        by_part[key.part].append(key.id)
    if len(by_part) == 1:
        ((part, ids),) = by_part.items()
        return _FETCH_PART, {"in_realm": realm.encode(), "in_part": part, "ids": ids}
    wanted = or_(
        *(and_(_OBJECT.part == part, _OBJECT.id.in_(ids)) for part, ids in by_part.items())
    )
    return select(*_ROW_COLUMNS).where(_OBJECT.realm == realm.encode(), wanted), {}


def _behind(row: Row[Any]) -> ColumnElement[bool]:
    return and_(_OBJECT.id >= row.id, or_(_OBJECT.id > row.id, _OBJECT.part > row.part))


def _reference_values(realm: str, reference: Reference) -> dict[str, object]:
    return {
        "realm": realm.encode(),
        "name": reference.name.encode(),
        "pointer": reference.pointer,
        "version": reference.version,
        "created_at": reference.created_at,
        "recent": struct.pack(f">{len(reference.recent)}q", *reference.recent),
    }


def _reference_condition(realm: str, expected: Reference) -> dict[str, object]:
    return {
        "in_realm": realm.encode(),
        "in_name": expected.name.encode(),
        "in_pointer": expected.pointer,
        "in_version": expected.version,
        "in_created_at": expected.created_at,
    }


def _reference(row: Row[Any]) -> Reference:
    recent = struct.unpack(f">{len(row.recent) // 8}q", row.recent)
    return Reference(row.name.decode(), row.pointer, row.version, row.created_at, recent)


def _row_values(realm: str, row: ObjectRow) -> dict[str, object]:
    return {"realm": realm.encode(), **row._asdict()}


def _row_condition(realm: str, key: RowKey) -> dict[str, object]:
    return {"in_realm": realm.encode(), "in_id": key.id, "in_part": key.part}


def _chunks(items: Collection[Item]) -> Iterator[list[Item]]:
    rest = iter(items)
    while some := list(islice(rest, BATCH_ROWS)):
        yield some
