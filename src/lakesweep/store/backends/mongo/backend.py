"""The store in MongoDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Collection as Items
from functools import cached_property
from typing import NamedTuple

from lakesweep.errors import ConfigError, SchemaError
from lakesweep.store.backends.backend import (
    SCAN_ROWS,
    SCHEMA_VERSION,
    BackendCapabilities,
    refuse_newer,
    write_then_swap,
)
from lakesweep.store.backends.rows import (
    EVERY_ID,
    HeadPage,
    IdSpan,
    ObjectHead,
    ObjectRow,
    Reference,
    ReferenceGuard,
    RowFields,
    RowKey,
    batches,
    first_keys,
    split_span,
    whole_pages,
)

try:
    from pymongo import DeleteOne, ReplaceOne
    from pymongo.collection import Collection
    from pymongo.errors import BulkWriteError, DuplicateKeyError

    from lakesweep.store.backends.mongo.database import (
        ANSWER_MILLIS,
        Document,
        MongoDatabase,
        between,
        head_state,
        last_reference,
        last_row,
        read_head,
        read_reference,
        read_row,
        read_version,
        reference_document,
        reference_key,
        reference_state,
        row_document,
        row_key,
        row_state,
    )
except ImportError as error:
    raise ConfigError(
        "a store in MongoDB needs the package pymongo", hint="pip install 'lakesweep[mongodb]'"
    ) from error

SCHEMA = "lakesweep_schema"
REFERENCES = "lakesweep_references"
OBJECTS = "lakesweep_objects"
#: The number of rows in one request, and in one page of a scan.
BATCH_ROWS = 1_000
#: The number of rows of a realm that one request deletes.
DELETE_ROWS = 10_000

_SCHEMA_KEY = {"_id": "schema"}
_IN_ORDER = [("_id", 1)]
_BACKWARDS = [("_id", -1)]
_DUPLICATE_KEY = 11000


class _Collections(NamedTuple):
    references: Collection[Document]
    fresh_references: Collection[Document]
    objects: Collection[Document]


class MongoBackend:
    """Keeps the rows in two collections.

    The `_id` of a row is its whole key, a document of realm and name, or of realm, id and part.
    Such documents sort field by field, so the built-in index of a collection serves exact reads,
    pages of a scan and the range of a realm. Realms and names are bytes there, so no collation
    applies. A document of 16 MB holds any row.
    """

    def __init__(self, url: str) -> None:
        self._database = MongoDatabase(url)
        self.capabilities = BackendCapabilities(
            durable=True,
            deletes_realms=True,
            max_value_bytes=16_000_000,
            batch_rows=BATCH_ROWS,
            splits_scans=True,
        )

    def init_schema(self) -> None:
        refuse_newer(self._database.label, self._version() or 0)
        for name in (REFERENCES, OBJECTS, SCHEMA):
            self._database.create_collection(name)
        document = {**_SCHEMA_KEY, "version": SCHEMA_VERSION}
        self._insert(self._database.collection(SCHEMA), document)
        self.check_schema()

    def check_schema(self) -> None:
        version = self._version()
        if version is None:
            raise SchemaError(f"{self._database.label}: this database does not contain a store")
        refuse_newer(self._database.label, version)

    def close(self) -> None:
        self._database.close()

    def insert_reference(self, realm: str, reference: Reference) -> bool:
        return self._insert(self._store.references, reference_document(realm, reference))

    def insert_references(self, realm: str, references: Items[Reference]) -> None:
        for some in batches(references, BATCH_ROWS):
            documents = [reference_document(realm, reference) for reference in some]
            with self._database.writing():
                try:
                    self._store.references.insert_many(documents, ordered=False)
                except BulkWriteError as error:
                    # Rows that exist already are fine; any other error in the batch is not.
                    if not _is_only_duplicates(error):
                        raise

    def fetch_references(self, realm: str, names: Items[str]) -> Mapping[str, Reference]:
        keys = [reference_key(realm, name.encode()) for name in names]
        found = map(read_reference, self._find(self._store.fresh_references, keys))
        return {reference.name: reference for reference in found}

    def update_reference(self, realm: str, new: Reference, expected: Reference) -> bool:
        document = reference_document(realm, new)
        return self._replace(self._store.references, reference_state(realm, expected), document)

    def commit(
        self, realm: str, rows: Items[ObjectRow], new: Reference, expected: Reference
    ) -> bool:
        return write_then_swap(self, realm, rows, new, expected)

    def delete_reference(self, realm: str, expected: Reference) -> bool:
        return self._delete(self._store.references, reference_state(realm, expected))

    def fetch(self, realm: str, keys: Items[RowKey]) -> Mapping[RowKey, ObjectRow]:
        found = map(
            read_row, self._find(self._store.objects, [row_key(realm, *key) for key in keys])
        )
        return {row.key: row for row in found}

    def fetch_first_rows(self, realm: str, ids: Sequence[int]) -> Sequence[RowFields]:
        return list(self.fetch(realm, first_keys(ids)).values())

    def write(self, realm: str, rows: Items[ObjectRow]) -> None:
        for some in batches(rows, BATCH_ROWS):
            documents = [row_document(realm, row) for row in some]
            requests = [ReplaceOne({"_id": each["_id"]}, each, upsert=True) for each in documents]
            with self._database.writing():
                self._store.objects.bulk_write(requests, ordered=False)

    def delete(self, realm: str, keys: Items[RowKey]) -> None:
        for some in batches(keys, BATCH_ROWS):
            wanted = {"_id": {"$in": [row_key(realm, *key) for key in some]}}
            with self._database.writing():
                self._store.objects.delete_many(wanted)

    def insert_row(self, realm: str, row: ObjectRow) -> bool:
        return self._insert(self._store.objects, row_document(realm, row))

    def update_row(self, realm: str, row: ObjectRow, expected_token: int) -> bool:
        state = row_state(realm, row.key, expected_token)
        return self._replace(self._store.objects, state, row_document(realm, row))

    def delete_row(self, realm: str, key: RowKey, expected_token: int) -> bool:
        return self._delete(self._store.objects, row_state(realm, key, expected_token))

    def delete_expected(self, realm: str, expected: Items[ObjectHead]) -> int:
        deleted = 0
        for some in batches(expected, BATCH_ROWS):
            requests = [DeleteOne(head_state(realm, head)) for head in some]
            with self._database.writing():
                result = self._store.objects.bulk_write(requests, ordered=False)
            deleted += result.deleted_count
        return deleted

    def realms(self) -> Sequence[str]:
        referring = self._realms_of(self._store.references, last_reference)
        holding = self._realms_of(self._store.objects, last_row)
        return [realm.decode() for realm in sorted({*referring, *holding})]

    def scan_references(self, realm: str) -> Iterator[Reference]:
        first, last = reference_key(realm, b""), last_reference(realm.encode())
        return map(read_reference, self._scan(self._store.references, first, last))

    def scan_rows(self, realm: str, span: IdSpan = EVERY_ID) -> Iterator[ObjectHead]:
        first, last = row_key(realm, span.first), last_row(realm.encode(), span.last)
        return map(read_head, self._scan(self._store.objects, first, last))

    def scan_pages(
        self, realm: str, span: IdSpan = EVERY_ID, rows: int = SCAN_ROWS
    ) -> Iterator[HeadPage]:
        return whole_pages(self.scan_rows(realm, span), rows)

    def split_rows(self, realm: str, count: int) -> Sequence[IdSpan]:
        inside = {"_id": between(row_key(realm, 0), last_row(realm.encode()))}
        with self._database.reading():
            ends = [
                self._store.objects.find_one(inside, {"_id": True}, sort=order)
                for order in (_IN_ORDER, _BACKWARDS)
            ]
        lowest, highest = (end["_id"]["id"] if end else 0 for end in ends)
        return split_span(lowest, highest, count)

    def delete_realm(self, realm: str, guard: ReferenceGuard | None = None) -> bool:
        # References first: objects without a reference are unreachable, so a crash leaves only
        # garbage.
        first, last = reference_key(realm, b""), last_reference(realm.encode())
        if not self._delete_range(self._store.references, first, last, guard):
            return False
        first, last = row_key(realm, 0), last_row(realm.encode())
        return self._delete_range(self._store.objects, first, last, guard)

    @cached_property
    def _store(self) -> _Collections:
        # MongoDB creates a missing collection with the first write to it, which would hide a URL
        # that names the wrong database.
        self.check_schema()
        return _Collections(
            references=self._database.collection(REFERENCES),
            # A primary that was cut off and replaced keeps answering for some seconds. Only a
            # linearizable read detects that; a standalone server has nothing to be replaced by.
            fresh_references=self._database.collection(
                REFERENCES, linearizable=self._database.is_replicated
            ),
            objects=self._database.collection(OBJECTS),
        )

    def _version(self) -> int | None:
        with self._database.reading():
            found = self._database.collection(SCHEMA).find_one(_SCHEMA_KEY)
        return None if found is None else read_version(found)

    def _insert(self, collection: Collection[Document], document: Document) -> bool:
        with self._database.writing():
            try:
                collection.insert_one(document)
            except DuplicateKeyError:
                return False
        return True

    def _replace(self, collection: Collection[Document], state: Document, new: Document) -> bool:
        with self._database.writing():
            return collection.replace_one(state, new).matched_count == 1

    def _delete(self, collection: Collection[Document], state: Document) -> bool:
        with self._database.writing():
            return collection.delete_one(state).deleted_count == 1

    def _delete_range(
        self,
        collection: Collection[Document],
        first: Document,
        last: Document,
        guard: ReferenceGuard | None,
    ) -> bool:
        # In parts, because one request for all rows of a large realm would exceed any timeout.
        every = {"_id": between(first, last)}
        cut: Document | None = {}
        while cut is not None:
            with self._database.writing():
                cut = collection.find_one(every, {"_id": True}, sort=_IN_ORDER, skip=DELETE_ROWS)
            # Checked before every part: once the guard moves, the realm may be in use again.
            if guard is not None and not self._is_unmoved(guard):
                return False
            some = every if cut is None else {"_id": {"$gte": first, "$lt": cut["_id"]}}
            with self._database.writing():
                collection.delete_many(some)
        return True

    def _is_unmoved(self, guard: ReferenceGuard) -> bool:
        name = guard.reference.name
        return self.fetch_references(guard.realm, [name]).get(name) == guard.reference

    def _find(
        self, collection: Collection[Document], keys: Sequence[Document]
    ) -> Iterator[Document]:
        for some in batches(keys, BATCH_ROWS):
            wanted = {"_id": {"$in": some}}
            with self._database.reading():
                yield from collection.find(wanted, batch_size=BATCH_ROWS, max_time_ms=ANSWER_MILLIS)

    def _scan(
        self, collection: Collection[Document], first: Document, last: Document
    ) -> Iterator[Document]:
        # Each page is its own request, so no cursor can time out between two of them.
        inside = between(first, last)
        while page := self._page(collection, inside):
            yield from page
            inside = {"$gt": page[-1]["_id"], "$lte": last}

    def _page(self, collection: Collection[Document], inside: Document) -> Sequence[Document]:
        with self._database.reading():
            found = collection.find({"_id": inside}, {"value": False}, sort=_IN_ORDER)
            return list(found.limit(BATCH_ROWS).batch_size(BATCH_ROWS))

    def _realms_of(
        self, collection: Collection[Document], last: Callable[[bytes], Document]
    ) -> Iterator[bytes]:
        # One index lookup per realm, instead of reading every row.
        behind: Document = {"realm": b""}
        while (found := self._first_behind(collection, behind)) is not None:
            yield found["_id"]["realm"]
            behind = last(found["_id"]["realm"])

    def _first_behind(self, collection: Collection[Document], behind: Document) -> Document | None:
        with self._database.reading():
            return collection.find_one({"_id": {"$gt": behind}}, {"_id": True}, sort=_IN_ORDER)


def _is_only_duplicates(error: BulkWriteError) -> bool:
    codes = {each["code"] for each in error.details["writeErrors"]}
    return codes == {_DUPLICATE_KEY} and not error.details["writeConcernErrors"]
