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
    RowKey,
)

if TYPE_CHECKING:
    from lakesweep.store.backends.head_pages import HeadPage

#: The version of the tables that this program creates and understands.
SCHEMA_VERSION = 1


#: How many rows a page of a scan holds, unless fewer are asked for: enough that what each page
#: costs is little beside them.
SCAN_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class BackendCapabilities:
    """How one database differs from another. Computed once, when the backend is opened.

    `durable` says that rows outlive the process. With `deletes_realms`, a realm goes by one call;
    otherwise its rows must be found by a scan. `max_value_bytes` is what one row can hold, never
    less than MAX_VALUE_BYTES, which is all that the store asks for. `batch_rows` is how many rows
    one request carries; longer calls are cut inside. With `splits_scans`, the spans of
    `split_rows` are read at once without reading anything twice; threads of one process gain by
    that only if `scans_wait` for a server. With `atomic_commits`, a `commit`
    has written all of its rows or none, and nothing comes between the look of a `delete_realm` at
    its guard and what it deletes.
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

    References are keyed by realm and name, rows of objects by realm, id and part. Realms and names
    are compared by their exact bytes in UTF-8: no blanks, case, accents or normal forms are ever
    folded. An id is at least 0 and below 2**63, and belongs to one object of the realm, whatever
    its type.

    A call on one row is atomic, and what it did is seen by every later call of anybody. Calls on
    many rows take any number of them, also none, and are atomic for each row but not as a whole;
    so they may be repeated, and a failed one may have done part of its work. Rows of objects that
    such a call wrote may be seen late by readers elsewhere, and outlive a power failure no later
    than the next call on one row does.

    Errors are those of `lakesweep.errors`. UnknownOutcomeError says that a write may have taken
    effect or may do so yet; an adapter raises it whenever it cannot rule that out, be it a timeout,
    a broken connection or an answer that it does not understand. UnreachableError says that nothing
    was changed and that the call may be repeated. Any other StoreError says that nothing was
    changed by a call on one row. No adapter repeats a conditional write by itself.
    """

    @property
    def capabilities(self) -> BackendCapabilities: ...

    def init_schema(self) -> None:
        """Create what is missing; change nothing that is there. SchemaError if that is newer."""
        ...

    def check_schema(self) -> None:
        """SchemaError unless the tables are there, in a version that this program understands."""
        ...

    def close(self) -> None:
        """Let go of connections. The backend cannot be used afterwards."""
        ...

    def insert_reference(self, realm: str, reference: Reference) -> bool:
        """Create the row if there is none of that name; otherwise change nothing, and say False."""
        ...

    def insert_references(self, realm: str, references: Collection[Reference]) -> None:
        """Create those rows that are not there yet; the others stay as they are."""
        ...

    def fetch_references(self, realm: str, names: Collection[str]) -> Mapping[str, Reference]:
        """The references of these names, as the last swap left them; missing ones are left out."""
        ...

    def update_reference(self, realm: str, new: Reference, expected: Reference) -> bool:
        """Replace the row if its pointer, version and creation are still the expected ones."""
        ...

    def commit(
        self, realm: str, rows: Collection[ObjectRow], new: Reference, expected: Reference
    ) -> bool:
        """Write rows as `write` does, then swap as `update_reference` does.

        The swap never takes effect before the rows do, nor outlives a power failure without them.
        It may be repeated as it is. Unless `capabilities.atomic_commits`, rows may have been
        written although it says False, or raises; UnreachableError and every other StoreError but
        UnknownOutcomeError still say that there was no swap.
        """
        ...

    def delete_reference(self, realm: str, expected: Reference) -> bool:
        """Delete the row if its pointer, version and creation are still the expected ones."""
        ...

    def fetch(self, realm: str, keys: Collection[RowKey]) -> Mapping[RowKey, ObjectRow]:
        """The rows of these keys; missing ones are left out. One round trip where that is possible.

        A row that a call on many rows wrote may be missing for a while, or come as it was before.
        """
        ...

    def write(self, realm: str, rows: Collection[ObjectRow]) -> None:
        """Create or replace these rows, each of which is named once."""
        ...

    def delete(self, realm: str, keys: Collection[RowKey]) -> None:
        """Delete these rows; those that are not there are no error."""
        ...

    def insert_row(self, realm: str, row: ObjectRow) -> bool:
        """Create the row if there is none of that key; otherwise change nothing, and say False."""
        ...

    def update_row(self, realm: str, row: ObjectRow, expected_token: int) -> bool:
        """Replace the row if it is there and has this token."""
        ...

    def delete_row(self, realm: str, key: RowKey, expected_token: int) -> bool:
        """Delete the row if it is there and has this token."""
        ...

    def delete_expected(self, realm: str, expected: Collection[ObjectHead]) -> int:
        """Delete those of these rows that still have the creation and the token which a scan told.

        Answers how many there were. A row that is gone or was written again since is no error.
        """
        ...

    def realms(self) -> Sequence[str]:
        """Every realm that has a row, in the order of their bytes."""
        ...

    def scan_references(self, realm: str) -> Iterator[Reference]:
        """Every reference of the realm. One that is there all the while comes exactly once."""
        ...

    def scan_rows(self, realm: str, span: IdSpan = EVERY_ID) -> Iterator[ObjectHead]:
        """Every row of the realm whose id is in the span, in ascending order of id and part.

        A row that is there all the while comes exactly once. No lock is held meanwhile: the rows
        may be written and deleted, also by whoever scans.
        """
        ...

    def scan_pages(
        self, realm: str, span: IdSpan = EVERY_ID, rows: int = SCAN_ROWS
    ) -> Iterator[HeadPage]:
        """The same rows in the same order, about so many at a time, for whoever has to be quick.

        No page is empty, and none ends inside an object, however many rows that has.
        """
        ...

    def split_rows(self, realm: str, count: int) -> Sequence[IdSpan]:
        """Up to `count` spans for as many scans at once: they cover every id, none twice.

        It is one span where scans of several would cost more than one of all.
        """
        ...

    def delete_realm(self, realm: str, guard: ReferenceGuard | None = None) -> bool:
        """Delete all rows of the realm. Only where `capabilities.deletes_realms`.

        With a guard, only if its pointer, version and creation are still the expected ones;
        otherwise it says False. With `capabilities.atomic_commits` the look and the deletes are one
        step, and False says that nothing was deleted; elsewhere it is looked at before each request
        that deletes, and somebody may move it in between.
        """
        ...


def write_then_swap(
    backend: Backend, realm: str, rows: Collection[ObjectRow], new: Reference, expected: Reference
) -> bool:
    """A `commit` for databases that can change no two rows together."""
    try:
        backend.write(realm, rows)
    except UnknownOutcomeError as error:
        raise UnreachableError(f"no swap was tried: {error.message}") from error
    return backend.update_reference(realm, new, expected)


def refuse_newer(where: str, version: int) -> None:
    """NewerSchemaError if the tables are newer than this program."""
    if version > SCHEMA_VERSION:
        raise NewerSchemaError(
            f"{where}: the tables have version {version}, this program understands {SCHEMA_VERSION}"
        )
