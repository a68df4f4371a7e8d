"""The contract between the store and a database."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lakesweep.errors import NewerSchemaError, UnknownOutcomeError, UnreachableError
from lakesweep.store.backends.rows import (
    EVERY_ID,
    IdSpan,
    ObjectHead,
    ObjectRow,
    Reference,
    ReferenceGuard,
    RowFields,
    RowKey,
)

if TYPE_CHECKING:
    from lakesweep.store.backends.rows import HeadPage

#: The version of the tables that this program creates and understands.
SCHEMA_VERSION = 1


#: The default page size of a scan: large enough to make the overhead of a page negligible.
SCAN_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class BackendCapabilities:
    """What a database can do. Computed once, when the backend is opened.

    `durable` says that rows outlive the process. With `deletes_realms`, one call deletes a realm;
    otherwise its rows must be found by a scan. `max_value_bytes` is the capacity of one row, at
    least MAX_VALUE_BYTES, which is all that the store needs. `batch_rows` is the number of rows in
    one request; longer calls are split internally. With `splits_scans`, the spans of `split_rows`
    can be read in parallel without reading anything twice; threads of one process benefit only if
    `scans_wait` for a server. With `atomic_commits`, a `commit` has written all of its rows or
    none, and no change can come between the guard check of `delete_realm` and its deletes.
    """

    durable: bool
    deletes_realms: bool
    max_value_bytes: int
    batch_rows: int
    splits_scans: bool
    scans_wait: bool = True
    atomic_commits: bool = False


class Backend(Protocol):
    """Two tables of one database. Safe to share between threads, and between processes if durable.

    References are keyed by realm and name, object rows by realm, id and part. Realms and names are
    compared by their exact UTF-8 bytes: blanks, case, accents and normal forms all matter. An id is
    at least 0 and below 2**63, and belongs to one object of the realm, whatever its type.

    A call on one row is atomic, and every later call by anyone sees its effect. Calls on many rows
    take any number of them, including none, and are atomic for each row but not as a whole; so they
    may be repeated, and a failed one may have done part of its work. Object rows written by such a
    call may become visible elsewhere with a delay, but they survive a power failure no later than
    the next call on one row does.

    Errors are those of `lakesweep.errors`. UnknownOutcomeError means that a write may have taken
    effect or may still do so; an adapter raises it whenever it cannot rule that out: after a
    timeout, a broken connection or a response that it does not understand. UnreachableError means
    that nothing changed and that the call may be repeated. Any other StoreError means that a call
    on one row changed nothing. No adapter retries a conditional write by itself.
    """

    @property
    def capabilities(self) -> BackendCapabilities: ...

    def init_schema(self) -> None:
        """Create what is missing, changing nothing that exists. SchemaError if it is newer."""
        ...

    def check_schema(self) -> None:
        """SchemaError unless the tables exist, in a version that this program understands."""
        ...

    def close(self) -> None:
        """Close connections. The backend cannot be used afterwards."""
        ...

    def insert_reference(self, realm: str, reference: Reference) -> bool:
        """Create the row if that name is free; otherwise change nothing and return False."""
        ...

    def insert_references(self, realm: str, references: Collection[Reference]) -> None:
        """Create the rows that do not exist yet; the others stay unchanged."""
        ...

    def fetch_references(self, realm: str, names: Collection[str]) -> Mapping[str, Reference]:
        """The references of these names, as the last swap left them; missing ones are left out."""
        ...

    def update_reference(self, realm: str, new: Reference, expected: Reference) -> bool:
        """Replace the row if its pointer, version and creation time are still as expected."""
        ...

    def commit(
        self, realm: str, rows: Collection[ObjectRow], new: Reference, expected: Reference
    ) -> bool:
        """Write rows as `write` does, then swap as `update_reference` does.

        The swap never takes effect before the rows do, nor survives a power failure without them.
        The same call may be repeated. Unless `capabilities.atomic_commits`, rows may have been
        written even if it returns False or raises; UnreachableError and every other StoreError
        except UnknownOutcomeError still mean that there was no swap.
        """
        ...

    def delete_reference(self, realm: str, expected: Reference) -> bool:
        """Delete the row if its pointer, version and creation time are still as expected."""
        ...

    def fetch(self, realm: str, keys: Collection[RowKey]) -> Mapping[RowKey, ObjectRow]:
        """The rows of these keys, in one round trip if possible; missing ones are left out.

        A row written by a call on many rows may be missing for a while, or be outdated.
        """
        ...

    def fetch_first_rows(self, realm: str, ids: Sequence[int]) -> Sequence[RowFields]:
        """The first rows of these objects, each named once, in any order, for speed.

        Missing ones are left out, and what `fetch` says about new rows applies.
        """
        ...

    def write(self, realm: str, rows: Collection[ObjectRow]) -> None:
        """Create or replace these rows, each named once."""
        ...

    def delete(self, realm: str, keys: Collection[RowKey]) -> None:
        """Delete these rows; missing rows are not an error."""
        ...

    def insert_row(self, realm: str, row: ObjectRow) -> bool:
        """Create the row if that key is free; otherwise change nothing and return False."""
        ...

    def update_row(self, realm: str, row: ObjectRow, expected_token: int) -> bool:
        """Replace the row if it exists and has this token."""
        ...

    def delete_row(self, realm: str, key: RowKey, expected_token: int) -> bool:
        """Delete the row if it exists and has this token."""
        ...

    def delete_expected(self, realm: str, expected: Collection[ObjectHead]) -> int:
        """Delete those of these rows that still have the creation time and token that a scan saw.

        Returns their number. A row that is gone or was written again is not an error.
        """
        ...

    def realms(self) -> Sequence[str]:
        """Every realm that has a row, in byte order."""
        ...

    def scan_references(self, realm: str) -> Iterator[Reference]:
        """Every reference of the realm. One that exists throughout is returned exactly once."""
        ...

    def scan_rows(self, realm: str, span: IdSpan = EVERY_ID) -> Iterator[ObjectHead]:
        """Every row of the realm with an id in the span, in ascending order of id and part.

        A row that exists throughout is returned exactly once. No lock is held: rows may be written
        and deleted during the scan, also by its caller.
        """
        ...

    def scan_pages(
        self, realm: str, span: IdSpan = EVERY_ID, rows: int = SCAN_ROWS
    ) -> Iterator[HeadPage]:
        """The same rows in the same order, in pages of about `rows` rows, for speed.

        No page is empty, and no object spans two pages, however many rows it has.
        """
        ...

    def split_rows(self, realm: str, count: int) -> Sequence[IdSpan]:
        """Up to `count` spans for parallel scans: they cover every id exactly once.

        Returns one span if several scans would cost more than one.
        """
        ...

    def delete_realm(self, realm: str, guard: ReferenceGuard | None = None) -> bool:
        """Delete all rows of the realm. Only if `capabilities.deletes_realms`.

        With a guard, only if the guard's pointer, version and creation time are still as expected;
        otherwise returns False. With `capabilities.atomic_commits` check and deletes are one step,
        and False means that nothing was deleted; otherwise the guard is checked before each request
        that deletes, and may be moved in between.
        """
        ...


def write_then_swap(
    backend: Backend, realm: str, rows: Collection[ObjectRow], new: Reference, expected: Reference
) -> bool:
    """A `commit` for databases that cannot change two rows together."""
    # Rows first: a crash in between leaves rows that no reference points to, never a reference to
    # missing rows.
    try:
        backend.write(realm, rows)
    except UnknownOutcomeError as error:
        raise UnreachableError(f"no swap was attempted: {error.message}") from error
    return backend.update_reference(realm, new, expected)


def refuse_newer(where: str, version: int) -> None:
    """NewerSchemaError if the tables are newer than this program."""
    if version > SCHEMA_VERSION:
        raise NewerSchemaError(
            f"{where}: the tables have version {version}, this program understands {SCHEMA_VERSION}"
        )
