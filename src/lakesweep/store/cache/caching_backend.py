"""Backends with a cache in front: one keeps it up to date, the other also reads from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.rows import ObjectHead, ObjectRow, Reference, ReferenceGuard, RowKey
from lakesweep.store.backends.wrapper import BackendWrapper
from lakesweep.store.cache.cache import CacheKey, StoreCache
from lakesweep.store.cache.peers import RealmGone, deleted, moved, rows_gone


class InvalidatingBackend(BackendWrapper):
    """Informs the cache of writes, deletes and references seen, but never reads from it.

    For callers that need current rows and references, or read too much for a cache to help.
    """

    def __init__(self, backend: Backend, cache: StoreCache) -> None:
        super().__init__(backend)
        self._cache = cache

    def insert_reference(self, realm: str, reference: Reference) -> bool:
        insert = partial(self._backend.insert_reference, realm, reference)
        return self._move(realm, reference, insert)

    def insert_references(self, realm: str, references: Collection[Reference]) -> None:
        with self._cache.changing([(realm, reference.name) for reference in references]):
            self._backend.insert_references(realm, references)

    def fetch_references(self, realm: str, names: Collection[str]) -> Mapping[str, Reference]:
        with self._cache.reading([(realm, name) for name in names]) as call:
            found = self._backend.fetch_references(realm, names)
            call.results = self._cache.reference_entries(call, realm, names, found)
        return found

    def update_reference(self, realm: str, new: Reference, expected: Reference) -> bool:
        swap = partial(self._backend.update_reference, realm, new, expected)
        return self._move(realm, new, swap)

    def commit(
        self, realm: str, rows: Collection[ObjectRow], new: Reference, expected: Reference
    ) -> bool:
        swap = partial(self._backend.commit, realm, rows, new, expected)
        return self._move(realm, new, swap, rows)

    def delete_reference(self, realm: str, expected: Reference) -> bool:
        with self._cache.changing([(realm, expected.name)]):
            done = self._backend.delete_reference(realm, expected)
        if done:
            self._cache.announce([deleted(realm, expected)])
        return done

    def write(self, realm: str, rows: Collection[ObjectRow]) -> None:
        with self._cache.changing([_cache_key(realm, row) for row in rows]) as call:
            self._backend.write(realm, rows)
            call.results = _plain(realm, rows)

    def delete(self, realm: str, keys: Collection[RowKey]) -> None:
        with self._cache.changing([(realm, key.id, key.part) for key in keys]):
            self._backend.delete(realm, keys)
        self._cache.announce(rows_gone(realm, list(keys)))

    def insert_row(self, realm: str, row: ObjectRow) -> bool:
        with self._cache.changing([_cache_key(realm, row)]):
            return self._backend.insert_row(realm, row)

    def update_row(self, realm: str, row: ObjectRow, expected_token: int) -> bool:
        with self._cache.changing([_cache_key(realm, row)]):
            return self._backend.update_row(realm, row, expected_token)

    def delete_row(self, realm: str, key: RowKey, expected_token: int) -> bool:
        with self._cache.changing([(realm, key.id, key.part)]):
            return self._backend.delete_row(realm, key, expected_token)

    def delete_expected(self, realm: str, expected: Collection[ObjectHead]) -> int:
        keys = [RowKey(head.id, head.part) for head in expected]
        with self._cache.changing([(realm, key.id, key.part) for key in keys]):
            deleted = self._backend.delete_expected(realm, expected)
        self._cache.announce(rows_gone(realm, keys))
        return deleted

    def delete_realm(self, realm: str, guard: ReferenceGuard | None = None) -> bool:
        try:
            done = self._backend.delete_realm(realm, guard)
        finally:
            self._cache.forget_realm(realm)
        self._cache.announce([RealmGone(realm)])
        return done

    def _move(
        self,
        realm: str,
        new: Reference,
        move: Callable[[], bool],
        rows: Collection[ObjectRow] = (),
    ) -> bool:
        keys: list[CacheKey] = [*(_cache_key(realm, row) for row in rows), (realm, new.name)]
        done = True  # unless the response says otherwise
        try:
            with self._cache.changing(keys) as call:
                done = move()
                if done:
                    reference_entries = self._cache.reference_entries(
                        call, realm, [new.name], {new.name: new}
                    )
                    call.results = {**_plain(realm, rows), **reference_entries}
        finally:
            if done:
                self._cache.announce([moved(realm, new)])
        return done


class CachingBackend(InvalidatingBackend):
    """Asks the cache before the database, so a reference may be slightly out of date."""

    def fetch_references(self, realm: str, names: Collection[str]) -> Mapping[str, Reference]:
        seen = self._cache.references(realm, names)
        unseen = [name for name in names if name not in seen]
        found = super().fetch_references(realm, unseen) if unseen else {}
        known = {name: reference for name, reference in seen.items() if reference is not None}
        return {**known, **found}

    def fetch(self, realm: str, keys: Collection[RowKey]) -> Mapping[RowKey, ObjectRow]:
        found = self._cache.rows(realm, keys)
        missing = [key for key in keys if key not in found] if found else keys
        if not missing:
            return found
        with self._cache.reading([(realm, key.id, key.part) for key in missing]) as call:
            rows = self._backend.fetch(realm, missing)
            call.results = _plain(realm, rows.values())
        return {**found, **rows} if found else rows


def _cache_key(realm: str, row: ObjectRow) -> CacheKey:
    return realm, row.id, row.part


def _plain(realm: str, rows: Collection[ObjectRow]) -> Mapping[CacheKey, ObjectRow]:
    """The rows that can never change, as a database would return them."""
    return {_cache_key(realm, row): _as_read(row) for row in rows if row.token is None}


def _as_read(row: ObjectRow) -> ObjectRow:
    return row if type(row.id) is int else row._replace(id=int(row.id))
