"""The SQL statements of the store, compiled once per database."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import (
    ClauseElement,
    ColumnElement,
    Table,
    and_,
    bindparam,
    func,
    or_,
    select,
    update,
)
from sqlalchemy import delete as delete_from
from sqlalchemy.engine import Dialect as Compiler
from sqlalchemy.schema import CreateTable

from lakesweep.store.backends.rows import ObjectHead
from lakesweep.store.backends.sql.dialect import Dialect
from lakesweep.store.backends.sql.tables import (
    OBJECTS,
    REFERENCE_COLUMNS,
    REFERENCES,
    SCHEMA,
    other_columns,
)

#: The number of references in a page.
_PAGE_ROWS = 1_000
#: The number of row heads in a page.
_SCAN_ROWS = 2_000


class Statement(NamedTuple):
    """The text for a driver, and the order of its values."""

    text: str
    names: tuple[str, ...]

    def values(self, **named: object) -> list[object]:
        """The values in the order of the text."""
        return [named[name] for name in self.names]


class Statements:
    """All statements on the tables. Values are named like columns, with `old_` in conditions."""

    def __init__(self, dialect: Dialect, compiler: Compiler) -> None:
        self._compiler = compiler
        self.create_tables = [self._ddl(table) for table in (SCHEMA, REFERENCES, OBJECTS)]
        self.schema_version = self._compile(select(func.max(SCHEMA.c.version)))
        self.insert_schema = self._compile(dialect.insert_new_many(SCHEMA))

        self.insert_reference = self._compile(dialect.insert_new(REFERENCES))
        self.insert_references = self._compile(dialect.insert_new_many(REFERENCES))
        self.update_reference = self._compile(_update(REFERENCES, _THIS_REFERENCE))
        hold = select(REFERENCES.c.version).where(_THIS_REFERENCE).with_for_update()
        self.lock_reference = self._compile(hold)
        self.delete_reference = self._compile(delete_from(REFERENCES).where(_THIS_REFERENCE))
        self.scan_references = self._page(_scan_references())

        self.insert_row = self._compile(dialect.insert_new(OBJECTS))
        self.upsert_rows = self._compile(dialect.upsert(OBJECTS))
        self.update_row = self._compile(_update(OBJECTS, _THIS_ROW))
        self.delete_row = self._compile(delete_from(OBJECTS).where(_THIS_ROW))
        self.delete_expected = self._compile(delete_from(OBJECTS).where(_AS_SCANNED))
        self.scan_rows = self._page(_scan_rows(), _SCAN_ROWS)
        self.lowest_id = self._compile(_end_of_ids(func.min))
        self.highest_id = self._compile(_end_of_ids(func.max))

        tables = (REFERENCES, OBJECTS)
        self.next_realm = [self._page(_next_realm(table), 1) for table in tables]
        self.delete_realm = [self._compile(_delete_realm(table)) for table in tables]

    def _ddl(self, table: Table) -> Statement:
        text = str(CreateTable(table, if_not_exists=True).compile(dialect=self._compiler))
        return Statement(text, ())

    def _compile(self, statement: ClauseElement) -> Statement:
        compiled: Any = statement.compile(dialect=self._compiler)
        return Statement(str(compiled), tuple(compiled.positiontup or ()))

    def _page(self, query: ClauseElement, most: int = _PAGE_ROWS) -> Statement:
        text, names = self._compile(query)
        return Statement(f"{text} LIMIT {most}", names)


def _old(table: Table, *names: str) -> list[ColumnElement[bool]]:
    return [table.c[name] == bindparam(f"old_{name}") for name in names]


_POINTER = REFERENCES.c.pointer
_THIS_REFERENCE = and_(
    *_old(REFERENCES, "realm", "name", "version", "created_at"),
    _POINTER.is_not_distinct_from(bindparam("old_pointer", type_=_POINTER.type)),
)
_TOKEN = OBJECTS.c.token
_AS_SCANNED = and_(
    *_old(OBJECTS, "realm", "id", "part", "created_at"),
    _TOKEN.is_not_distinct_from(bindparam("old_token", type_=_TOKEN.type)),
)
_THIS_ROW = and_(*_old(OBJECTS, "realm", "id", "part", "token"))


def _update(table: Table, condition: ColumnElement[bool]) -> Any:
    new: dict[str, Any] = {each.name: bindparam(each.name) for each in other_columns(table)}
    return update(table).where(condition).values(new)


def _scan_references() -> Any:
    name = REFERENCES.c.name
    columns = [REFERENCES.c[name] for name in REFERENCE_COLUMNS]
    rest = and_(*_old(REFERENCES, "realm"), name >= bindparam("from_name"))
    return select(*columns).where(rest).order_by(name)


def _scan_rows() -> Any:
    """The rows after a given id and part, up to another id."""
    row = OBJECTS.c
    columns = [row[name] for name in ObjectHead._fields]
    inside = and_(
        *_old(OBJECTS, "realm"),
        row.id >= bindparam("from_id"),
        or_(row.id > bindparam("from_id"), row.part > bindparam("behind_part")),
        row.id <= bindparam("last_id"),
    )
    return select(*columns).where(inside).order_by(row.id, row.part)


def _end_of_ids(end: Any) -> Any:
    return select(end(OBJECTS.c.id)).where(*_old(OBJECTS, "realm"))


def _next_realm(table: Table) -> Any:
    realm = table.c.realm
    return select(realm).where(realm >= bindparam("from_realm")).order_by(realm)


def _delete_realm(table: Table) -> Any:
    return delete_from(table).where(*_old(table, "realm"))
