"""Read one split page by page, so that the unread rest can be handed to another thread."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import MissingError, StorageError
from lakesweep.storage.listing.key_splits import Split, local_store_of
from lakesweep.storage.object_store import ListingPage, ObjectStore


class Scan:
    """A split of a store that lists in order, read by one thread.

    Another thread may cut off what has not been read yet (`give`). Both synchronise on a lock: a
    page is clipped to the bounds at the time it is accepted, and afterwards only keys after that
    page can be given away. So each key belongs to exactly one of the two.
    """

    def __init__(self, store: ObjectStore, split: Split) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._split = split
        self._cursor: object | None = None
        self._position = split.after
        self._is_ordered = True
        self.pages_read = 0
        self.is_done = False

    def pages(self) -> Iterator[pa.RecordBatch]:
        """The remaining entries of the split, page by page."""
        while not self.is_done:
            yield self.next_page()

    def next_page(self) -> pa.RecordBatch:
        """The entries of the next page that belong to the split."""
        # The lower bound of a scan never changes, so its cursor stays valid.
        prefix, after = self._split.prefix, self._split.after
        page = self._store.list(prefix, after=after, cursor=self._cursor)
        with self._lock:
            self.pages_read += 1
            self._cursor = page.next
            entries, reaches_end = self._accept(page.entries)
            self.is_done = reaches_end or page.next is None
        return entries

    def rest(self) -> Split:
        """What has not been read yet."""
        with self._lock:
            return Split(self._split.prefix, self._position, self._split.until)

    def give(self, bounds: Iterable[str]) -> list[Split]:
        """Cut off and return everything after the first of the bounds that is still ahead."""
        with self._lock:
            if self.is_done or not self._is_ordered:
                return []
            rest = Split(self._split.prefix, self._position, self._split.until)
            kept, *given = rest.cut(bounds)
            self._split = Split(self._split.prefix, self._split.after, kept.until)
            return given

    def _accept(self, entries: pa.RecordBatch) -> tuple[pa.RecordBatch, bool]:
        """The entries within the bounds, and whether there can be no more."""
        if not entries.num_rows:
            return entries, False
        keys = entries.column("key")
        self._check(keys)
        last = keys[-1].as_py()
        self._position = max(self._position, last)
        until = self._split.until
        if not until or last < until:
            return entries, False
        return entries.filter(pc.less_equal(keys, until)), True

    def _check(self, keys: pa.Array) -> None:
        check_prefix(self._store, self._split.prefix, keys)
        first = keys[0].as_py()
        pairs = keys[:-1], keys[1:]
        repeated = keys[1:].filter(pc.equal(*pairs))
        # A repeated key means that paging is broken, and then others may be missing.
        if len(repeated) or (self.pages_read > 1 and first == self._position):
            key = repeated[0].as_py() if len(repeated) else first
            raise StorageError(self._store.base + key, "is listed twice")
        if self._is_ordered:
            self._check_order(first, keys, pc.less(*pairs))

    def _check_order(self, first: str, keys: pa.Array, ascending: pa.Array) -> None:
        behind_previous = first > self._position or not self._position
        if behind_previous and pc.all(ascending, min_count=0).as_py():
            return
        if self._split.is_bounded:
            key = _first(keys[1:], pc.invert(ascending)) if behind_previous else first
            raise StorageError(
                self._store.base + key,
                "is listed out of order or outside the requested range, "
                "so the store cannot be listed in parts",
                hint="list the location with one worker",
            )
        self._is_ordered = False


def walk(store: ObjectStore, split: Split) -> Iterator[pa.RecordBatch]:
    """The entries of a split on a store without order, which cannot list key ranges."""
    if split.is_bounded:
        return _walk_level(store, split, split.prefix)
    return _walk_all(store, split.prefix)


def check_prefix(store: ObjectStore, prefix: str, keys: pa.Array) -> None:
    """Refuse a response that lists keys outside the requested prefix."""
    inside = pc.starts_with(keys, prefix)
    if not pc.all(inside, min_count=0).as_py():
        key = _first(keys, pc.invert(inside))
        raise StorageError(store.base + key, f"is listed below {prefix!r} but is not there")


def _walk_all(store: ObjectStore, prefix: str) -> Iterator[pa.RecordBatch]:
    cursor = None
    while True:
        page = store.list(prefix, cursor=cursor)
        check_prefix(store, prefix, page.entries.column("key"))
        yield page.entries
        if page.next is None:
            return
        cursor = page.next


def _walk_level(store: ObjectStore, split: Split, folder: str) -> Iterator[pa.RecordBatch]:
    cursor = None
    while True:
        page = _level_page(store, split, folder, cursor)
        check_prefix(store, folder, page.entries.column("key"))
        yield page.entries.filter(_within(page.entries.column("key"), split))
        for name in page.folders:
            yield from _walk_folder(store, split, name)
        if page.next is None:
            return
        cursor = page.next


def _level_page(
    store: ObjectStore, split: Split, folder: str, cursor: object | None
) -> ListingPage:
    local = local_store_of(store)
    if local is None:
        return store.list(folder, one_level=True, cursor=cursor)
    return local.list_level(folder, split.after, split.until, cursor)


def _walk_folder(store: ObjectStore, split: Split, folder: str) -> Iterator[pa.RecordBatch]:
    try:
        if split.covers(folder):
            yield from _walk_all(store, folder)
        elif split.touches(folder):
            yield from _walk_level(store, split, folder)
    except MissingError:
        return  # removed after its name was read: nothing in it existed throughout


def _within(keys: pa.Array, split: Split) -> pa.Array:
    inside = pc.greater(keys, split.after)
    return pc.and_(inside, pc.less_equal(keys, split.until)) if split.until else inside


def _first(keys: pa.Array, mask: pa.Array) -> str:
    return str(keys.filter(mask)[0].as_py())
