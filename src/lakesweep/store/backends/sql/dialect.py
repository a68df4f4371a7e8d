"""How relational databases differ: the base class of all dialects."""

from __future__ import annotations

import select
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeAlias

from sqlalchemy import URL, Insert, Table

from lakesweep.errors import StoreError, UnknownOutcomeError, UnreachableError
from lakesweep.store.backends.rows import (
    HeadPage,
    IdSpan,
    ObjectHead,
    ObjectRow,
    RowKey,
    sized_batches,
)
from lakesweep.store.backends.sql.tables import OBJECTS, REFERENCE_COLUMNS, REFERENCES, ROW_COLUMNS

_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})
#: This many rows always fit in one request, however large each is.
_FEW_ROWS = 20


class DriverFailure(NamedTuple):
    """The meaning of a driver error, and what to do about it."""

    kind: type[StoreError]
    hint: str | None = None


UNKNOWN = DriverFailure(UnknownOutcomeError)
UNREACHABLE = DriverFailure(UnreachableError)
REFUSED = DriverFailure(StoreError)
BUSY = DriverFailure(UnreachableError, "the database was busy; run the command again")
#: How long to wait for a response: longer than the server waits for a lock, since its own error
#: says more. Changes to a whole realm get more time.
ANSWER_SECONDS = 75
LONG_ANSWER_SECONDS = 24 * 60 * 60
#: How long a server keeps the locks of a client that started a transaction and went silent.
IDLE_SECONDS = 30
FULL = DriverFailure(StoreError, "free disk space for the database, then run the command again")

#: Fetches about the given number of first heads in a span, by a cursor; None if there are none.
FetchHeads: TypeAlias = Callable[[bytes, IdSpan, int, Any], HeadPage | None]


class Condition(NamedTuple):
    """A condition in SQL, and the values of its placeholders."""

    text: str
    values: Sequence[object]


class NewCommit(NamedTuple):
    """A commit: `swap` a reference and, if that succeeded, write these rows of a realm."""

    swap: Condition
    upsert: str
    realm: bytes
    rows: Sequence[ObjectRow]

    @property
    def values(self) -> Sequence[object]:
        """All values in order, for a statement that does both."""
        written = [value for row in self.rows for value in (self.realm, *row)]
        return [*self.swap.values, *written]


class Dialect(ABC):
    """What one kind of database needs, and how it handles many rows best.

    Statements stand alone unless a transaction is started. `on_connect` runs once per connection
    and makes its writes survive a power failure. `on_relaxed` prepares a connection whose writes
    need not survive one by themselves, but do so together with the next write of any other
    connection.
    """

    #: The name of the database in the URLs of SQLAlchemy, and that of its driver.
    name: ClassVar[str]
    driver: ClassVar[str]
    #: The extra that installs the driver, if Python does not include it.
    extra: ClassVar[str | None] = None
    example: ClassVar[str]
    placeholder: ClassVar[str] = "%s"
    #: Whether another process does the work, and this one waits for it.
    has_server: ClassVar[bool] = True
    begin: ClassVar[str] = "BEGIN"
    #: Whether many statements are slow outside of a transaction.
    groups_writes: ClassVar[bool] = False
    on_connect: ClassVar[tuple[str, ...]] = ()
    on_relaxed: ClassVar[tuple[str, ...]] = ()
    #: What runs before the first table is created: by itself, and in the same transaction.
    on_init: ClassVar[tuple[str, ...]] = ()
    on_create: ClassVar[tuple[str, ...]] = ()
    connect_options: ClassVar[Mapping[str, Any]] = _NO_OPTIONS
    #: Additional options for a connection with statements that may take very long.
    long_running_options: ClassVar[Mapping[str, Any]] = _NO_OPTIONS
    cursor_options: ClassVar[Mapping[str, Any]] = _NO_OPTIONS
    #: Options of a URL that name files, and options that no text can stand for, or that we set.
    file_options: ClassVar[frozenset[str]] = frozenset()
    refused_options: ClassVar[frozenset[str]] = frozenset()
    max_value_bytes: ClassVar[int]
    #: How many rows one statement names, and how many bytes of values it carries.
    batch_rows: ClassVar[int] = 1_000
    batch_bytes: ClassVar[int] = 8_000_000
    #: How many bytes of names one query carries.
    names_bytes: ClassVar[int] = 8_000_000
    #: Up to this many rows and bytes, a commit is one request; 0 if that gains nothing.
    at_once_rows: ClassVar[int] = 0
    at_once_bytes: ClassVar[int] = 0

    def check_url(self, url: URL) -> str | None:
        """What is wrong with the URL, if anything."""
        if not url.database:
            return "it does not name a database"
        refused = sorted(self.refused_options & url.query.keys())
        if refused:
            return f"the option {refused[0]} cannot be set in a URL"
        names = sorted(self.file_options & url.query.keys())
        problems = (file_problem(name, str(url.query[name])) for name in names)
        return next((problem for problem in problems if problem), None)

    def prepare(self, url: URL) -> None:
        """Create what must exist before connecting, when a store is created."""
        del url

    def connect_arguments(
        self, url: URL, arguments: Sequence[Any], options: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments for the driver, derived from the URL."""
        del url
        return arguments, {**self.connect_options, **options}

    def connect(self, driver: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """A new connection."""
        return driver.connect(*arguments, **options)

    def setting_problem(self, cursor: Any) -> str | None:
        """The setting of the server that must change before it can hold a store, if any."""
        del cursor
        return None

    @abstractmethod
    def insert_new(self, table: Table) -> Insert:
        """A statement that inserts a row, or changes nothing if its key exists."""

    def insert_new_many(self, table: Table) -> Insert:
        """The same for many rows at once, if the count of changed rows does not matter."""
        return self.insert_new(table)

    @abstractmethod
    def upsert(self, table: Table) -> Insert:
        """A statement that inserts a row, or replaces the one with its key."""

    def is_duplicate(self, error: Exception) -> bool:
        """Whether the error only says that the key exists."""
        del error
        return False

    def is_silent(self, connection: Any) -> bool:
        """Whether an idle connection has received nothing; otherwise it may have been closed."""
        del connection
        return True

    def message_of(self, error: Exception) -> str:
        """The driver's message, in one line."""
        said = error.args[-1] if error.args else error
        return " ".join(str(said).split())

    @abstractmethod
    def refused(self, error: Exception, url: URL) -> DriverFailure:
        """The meaning of an error while connecting, when nothing has changed yet."""

    @abstractmethod
    def failed(self, error: Exception) -> DriverFailure:
        """The meaning of an error for a write: UNKNOWN unless surely nothing changed."""

    def commit(self, new: NewCommit, cursor: Any) -> bool:
        """Swap a reference and write rows, together, if the swap succeeds."""
        few = len(new.rows) <= self.at_once_rows
        if few and sum(len(row.value) for row in new.rows) <= self.at_once_bytes:
            return self.commit_at_once(new, cursor)
        return self.commit_in_steps(new, cursor)

    def commit_in_steps(self, new: NewCommit, cursor: Any) -> bool:
        """The same for any number of rows, in a transaction of several requests."""
        # Swap first, although rows must not be visible later than the swap: the transaction makes
        # both
        # visible together, and a lost swap then costs no writing of rows.
        cursor.execute(self.begin)
        cursor.execute(*new.swap)
        swapped = bool(cursor.rowcount == 1)
        if swapped:
            for values in self.row_batches(new.realm, new.rows):
                cursor.executemany(new.upsert, values)
        cursor.execute("COMMIT" if swapped else "ROLLBACK")
        return swapped

    def commit_at_once(self, new: NewCommit, cursor: Any) -> bool:
        """The same for a few small rows, in one request."""
        return self.commit_in_steps(new, cursor)

    def row_batches(
        self, realm: bytes, rows: Collection[ObjectRow]
    ) -> Iterator[Sequence[tuple[object, ...]]]:
        """The values of rows, as many at a time as one request carries."""
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
        """Object rows by key, in any order."""
        where = self.has_key(realm, keys)
        text = f"SELECT {ROW_COLUMNS} FROM {OBJECTS.name} WHERE {where.text}"  # noqa: S608
        return fetch_all(text, where.values, cursor)

    def fetch_first_rows(
        self, realm: bytes, ids: Sequence[int], cursor: Any
    ) -> Sequence[tuple[Any, ...]]:
        """The first rows of objects, in any order."""
        listed = self.is_among(ids)
        text = (
            f"SELECT {ROW_COLUMNS} FROM {OBJECTS.name}"  # noqa: S608
            f" WHERE realm = {self.placeholder} AND part = 0 AND id IN ({listed.text})"
        )
        return fetch_all(text, [realm, *listed.values], cursor)

    def heads_fetcher(self) -> FetchHeads | None:
        """What fetches row heads as columns; None if single rows are just as fast."""
        return None

    def fetch_references(
        self, realm: bytes, names: Sequence[bytes], cursor: Any
    ) -> Sequence[tuple[Any, ...]]:
        """Reference rows by name, in any order."""
        listed = self.is_among(names)
        text = (
            f"SELECT {', '.join(REFERENCE_COLUMNS)} FROM {REFERENCES.name}"  # noqa: S608
            f" WHERE realm = {self.placeholder} AND name IN ({listed.text})"
        )
        return fetch_all(text, [realm, *listed.values], cursor)

    def delete_rows(self, realm: bytes, keys: Sequence[RowKey], cursor: Any) -> None:
        """Delete object rows by key."""
        where = self.has_key(realm, keys)
        cursor.execute(f"DELETE FROM {OBJECTS.name} WHERE {where.text}", where.values)  # noqa: S608

    def delete_expected(
        self, statement: str, realm: bytes, expected: Sequence[ObjectHead], cursor: Any
    ) -> int:
        """Delete rows that are still as scanned, with a statement for one; returns their number."""
        values = [(realm, each.id, each.part, each.created_at, each.token) for each in expected]
        cursor.executemany(statement, values)
        return int(cursor.rowcount)

    def has_key(self, realm: bytes, keys: Sequence[RowKey]) -> Condition:
        """The condition that an object row is one of these."""
        groups: list[str] = []
        values: list[object] = [realm]
        for part, ids in by_part(keys):
            listed = self.is_among(ids)
            groups.append(f"part = {self.placeholder} AND id IN ({listed.text})")
            values += [part, *listed.values]
        return Condition(f"realm = {self.placeholder} AND ({' OR '.join(groups)})", values)

    def is_among(self, values: Sequence[object]) -> Condition:
        """The list for `IN`."""
        return Condition(",".join([self.placeholder] * len(values)), values)


def file_problem(option: str, name: str) -> str | None:
    """Why the file of an option cannot be used. Drivers would not name it, or not notice at all."""
    try:
        if not Path(name).is_dir():
            Path(name).open("rb").close()
    except OSError as error:
        return f"the option {option} names {name}, which cannot be read: {error.strerror}"
    return None


def by_part(keys: Sequence[RowKey]) -> Iterable[tuple[int, Sequence[int]]]:
    """The ids for each part."""
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
    """Whether there is something to read: on an idle connection, that is usually its end."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN | select.POLLPRI)
    return bool(poll.poll(0))
