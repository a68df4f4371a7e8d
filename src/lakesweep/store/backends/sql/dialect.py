"""How relational databases differ: the base class of all dialects."""

from __future__ import annotations

import select
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeAlias

from sqlalchemy import URL, Insert, Table

from lakesweep.errors import StoreError, UnknownOutcomeError, UnreachableError
from lakesweep.store.backends.head_pages import HeadPage
from lakesweep.store.backends.rows import IdSpan, ObjectHead, ObjectRow, RowKey, sized_batches
from lakesweep.store.backends.sql.tables import OBJECTS, REFERENCE_COLUMNS, REFERENCES, ROW_COLUMNS

_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})
#: So many rows are never too much for one request, however large each is.
_FEW_ROWS = 20


class DriverFailure(NamedTuple):
    """What an error of a driver means, and what to do about it."""

    kind: type[StoreError]
    hint: str | None = None


UNKNOWN = DriverFailure(UnknownOutcomeError)
UNREACHABLE = DriverFailure(UnreachableError)
REFUSED = DriverFailure(StoreError)
BUSY = DriverFailure(UnreachableError, "others kept the database busy; run the same command again")
#: How long a server may be silent before an answer is no longer waited for: longer than it waits
#: for a lock, since its own word says more. What changes a whole realm is given longer.
ANSWER_SECONDS = 75
LONG_ANSWER_SECONDS = 24 * 60 * 60
#: For how long a server keeps the locks of a client that began something and sends no more.
IDLE_SECONDS = 30
FULL = DriverFailure(StoreError, "make room for the database, then run the same command again")

#: Fetches the first heads in a span of a realm, about so many, by a cursor; None if there is none.
FetchHeads: TypeAlias = Callable[[bytes, IdSpan, int, Any], HeadPage | None]


class Condition(NamedTuple):
    """A condition in SQL, and the values of its placeholders."""

    text: str
    values: Sequence[object]


class NewCommit(NamedTuple):
    """What a commit does: `swap` a reference, and if it was there write these rows of a realm."""

    swap: Condition
    upsert: str
    realm: bytes
    rows: Sequence[ObjectRow]

    @property
    def values(self) -> Sequence[object]:
        """All values in one line, for a statement that does both."""
        written = [value for row in self.rows for value in (self.realm, *row)]
        return [*self.swap.values, *written]


class Dialect(ABC):
    """What one kind of database needs, and how it does best what many rows ask for.

    Statements stand alone unless a transaction is begun. `on_connect` runs once a connection, and
    makes its writes outlive a power failure. `on_relaxed` makes a connection whose writes need not
    do so by themselves, but do with the next write of any other connection.
    """

    #: The name of the database in the URLs of SQLAlchemy, and that of its driver.
    name: ClassVar[str]
    driver: ClassVar[str]
    #: What installs the driver, where it does not come with Python.
    extra: ClassVar[str | None] = None
    example: ClassVar[str]
    placeholder: ClassVar[str] = "%s"
    #: Whether another process does the work, for which this one waits.
    has_server: ClassVar[bool] = True
    begin: ClassVar[str] = "BEGIN"
    #: Whether many statements are slow unless a transaction is begun round them.
    groups_writes: ClassVar[bool] = False
    on_connect: ClassVar[tuple[str, ...]] = ()
    on_relaxed: ClassVar[tuple[str, ...]] = ()
    #: What comes before the first table is created: by itself, and in the transaction that does it.
    on_init: ClassVar[tuple[str, ...]] = ()
    on_create: ClassVar[tuple[str, ...]] = ()
    connect_options: ClassVar[Mapping[str, Any]] = _NO_OPTIONS
    #: What a connection is made with besides, if one of its statements may take very long.
    patient_options: ClassVar[Mapping[str, Any]] = _NO_OPTIONS
    cursor_options: ClassVar[Mapping[str, Any]] = _NO_OPTIONS
    max_value_bytes: ClassVar[int]
    #: How many rows one statement names, and how many bytes of values it carries.
    batch_rows: ClassVar[int] = 1_000
    batch_bytes: ClassVar[int] = 8_000_000
    #: How many bytes of names one statement asks for.
    names_bytes: ClassVar[int] = 8_000_000
    #: Up to how many rows and bytes a commit is one request; none where that would gain nothing.
    at_once_rows: ClassVar[int] = 0
    at_once_bytes: ClassVar[int] = 0

    def check_url(self, url: URL) -> str | None:
        """What is wrong with the URL, if anything."""
        return None if url.database else "it names no database"

    def prepare(self, url: URL) -> None:
        """Make what must be there before anybody can connect, for somebody who creates a store."""
        del url

    def arrange(
        self, url: URL, arguments: Sequence[Any], options: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """What the driver is given to connect with, from what the URL says."""
        del url
        return arguments, {**self.connect_options, **options}

    def connect(self, driver: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """A new connection."""
        return driver.connect(*arguments, **options)

    def misfit(self, cursor: Any) -> str | None:
        """Which setting of the server must change before it can hold a store, if any."""
        del cursor
        return None

    @abstractmethod
    def insert_new(self, table: Table) -> Insert:
        """A statement that inserts a row, or changes no row if there is one of its key."""

    def insert_new_many(self, table: Table) -> Insert:
        """The same for many rows at once, where the count of changed rows means nothing."""
        return self.insert_new(table)

    @abstractmethod
    def upsert(self, table: Table) -> Insert:
        """A statement that inserts a row, or replaces the one of its key."""

    def is_duplicate(self, error: Exception) -> bool:
        """Whether the error only says that there is a row of that key."""
        del error
        return False

    def is_silent(self, connection: Any) -> bool:
        """Whether nothing came over an idle connection; else it may have been closed."""
        del connection
        return True

    def words(self, error: Exception) -> str:
        """What the driver says, in one line."""
        said = error.args[-1] if error.args else error
        return " ".join(str(said).split())

    @abstractmethod
    def refused(self, error: Exception, url: URL) -> DriverFailure:
        """What an error means that came while connecting, when nothing was changed yet."""

    @abstractmethod
    def failed(self, error: Exception) -> DriverFailure:
        """What an error means for a write: UNKNOWN unless certainly nothing was changed."""

    def commit(self, new: NewCommit, cursor: Any) -> bool:
        """Swap a reference and write rows, together, if there is one to swap."""
        few = len(new.rows) <= self.at_once_rows
        if few and sum(len(row.value) for row in new.rows) <= self.at_once_bytes:
            return self.commit_at_once(new, cursor)
        return self.commit_in_steps(new, cursor)

    def commit_in_steps(self, new: NewCommit, cursor: Any) -> bool:
        """The same for any number of rows, in a transaction of several requests."""
        cursor.execute(self.begin)
        cursor.execute(*new.swap)
        swapped = bool(cursor.rowcount == 1)
        if swapped:
            for values in self.row_batches(new.realm, new.rows):
                cursor.executemany(new.upsert, values)
        cursor.execute("COMMIT" if swapped else "ROLLBACK")
        return swapped

    def commit_at_once(self, new: NewCommit, cursor: Any) -> bool:
        """The same for few rows that are not large, in one request."""
        return self.commit_in_steps(new, cursor)

    def row_batches(
        self, realm: bytes, rows: Collection[ObjectRow]
    ) -> Iterator[Sequence[tuple[object, ...]]]:
        """The values of rows, so many at a time as one request carries."""
        if len(rows) <= _FEW_ROWS:
            yield [(realm, *row) for row in rows]
            return

        def size(row: ObjectRow) -> int:
            return len(row.value)

        for some in sized_batches(rows, self.batch_rows, size, self.batch_bytes):
            yield [(realm, *row) for row in some]

    def fetch_rows(
        self, realm: bytes, keys: Sequence[RowKey], cursor: Any
    ) -> Sequence[tuple[Any, ...]]:
        """The rows of objects by their keys, in any order."""
        where = self.has_key(realm, keys)
        text = f"SELECT {ROW_COLUMNS} FROM {OBJECTS.name} WHERE {where.text}"  # noqa: S608
        return fetch_all(text, where.values, cursor)

    def heads_fetcher(self) -> FetchHeads | None:
        """What fetches heads of rows as columns; None where rows come as fast one by one."""
        return None

    def fetch_references(
        self, realm: bytes, names: Sequence[bytes], cursor: Any
    ) -> Sequence[tuple[Any, ...]]:
        """The rows of references by their names, in any order."""
        listed = self.is_among(names)
        text = (
            f"SELECT {', '.join(REFERENCE_COLUMNS)} FROM {REFERENCES.name}"  # noqa: S608
            f" WHERE realm = {self.placeholder} AND name IN ({listed.text})"
        )
        return fetch_all(text, [realm, *listed.values], cursor)

    def delete_rows(self, realm: bytes, keys: Sequence[RowKey], cursor: Any) -> None:
        """Delete rows of objects by their keys."""
        where = self.has_key(realm, keys)
        cursor.execute(f"DELETE FROM {OBJECTS.name} WHERE {where.text}", where.values)  # noqa: S608

    def delete_expected(
        self, statement: str, realm: bytes, expected: Sequence[ObjectHead], cursor: Any
    ) -> int:
        """Delete rows that are as a scan told, by a statement for one; how many there were."""
        values = [(realm, each.id, each.part, each.created_at, each.token) for each in expected]
        cursor.executemany(statement, values)
        return int(cursor.rowcount)

    def has_key(self, realm: bytes, keys: Sequence[RowKey]) -> Condition:
        """That a row of an object is one of these."""
        groups: list[str] = []
        values: list[object] = [realm]
        for part, ids in by_part(keys):
            listed = self.is_among(ids)
            groups.append(f"part = {self.placeholder} AND id IN ({listed.text})")
            values += [part, *listed.values]
        return Condition(f"realm = {self.placeholder} AND ({' OR '.join(groups)})", values)

    def is_among(self, values: Sequence[object]) -> Condition:
        """The list behind `IN`."""
        return Condition(",".join([self.placeholder] * len(values)), values)


def by_part(keys: Sequence[RowKey]) -> Iterable[tuple[int, Sequence[int]]]:
    """The ids of each part."""
    ids, parts = zip(*keys, strict=True)
    if len(set(parts)) == 1:
        return [(parts[0], ids)]
    groups = defaultdict(list)
    for number, part in keys:
        groups[part].append(number)
    return groups.items()


def fetch_all(text: str, values: Sequence[object], cursor: Any) -> Sequence[tuple[Any, ...]]:
    """All rows of one statement."""
    cursor.execute(text, values)
    rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
    return rows


def is_readable(descriptor: int) -> bool:
    """Whether something waits to be read: on an idle connection it is mostly its end."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN | select.POLLPRI)
    return bool(poll.poll(0))
