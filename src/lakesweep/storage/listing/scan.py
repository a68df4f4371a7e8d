"""Scan a location page by page, by a pool of threads that rebalance.

An idle thread takes over the unread rest of the largest scan.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import MissingError, StorageError, UnsupportedError
from lakesweep.storage.listing.key_splits import Split, divide, local_store_of
from lakesweep.storage.object_store import ListingPage, ObjectStore

#: A scan that took this many pages probably has as many ahead, so cutting it is worth the requests.
_PAGES_BEFORE_CUT = 8


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


class ListPool:
    """Reads scans of one store on `workers` threads, for one consumer.

    Pages wait for the consumer in a buffer of one page per worker; while it is full, the workers
    wait. The first error stops everything and is raised in the consumer. When workers are idle, one
    of them cuts the scan with the most pages so far; the very first cut comes early, because a
    single scan keeps all workers but one idle.
    """

    def __init__(self, store: ObjectStore, workers: int) -> None:
        self._store = store
        self._workers = workers
        lock = threading.RLock()
        self._work_changed = threading.Condition(lock)
        self._page_added = threading.Condition(lock)
        self._page_taken = threading.Condition(lock)
        self._waiting: deque[Scan] = deque()
        #: The scans being read, and how many pages each must have read before it may be cut.
        self._cut_from: dict[Scan, float] = {}
        self._idle = 0
        self._is_cutting = False
        self._was_cut = False
        self._buffer: deque[pa.RecordBatch] = deque()
        self._error: BaseException | None = None
        self._is_closed = False

    def run(self, scans: Iterable[Scan]) -> Generator[pa.RecordBatch, None, None]:
        """The pages of all scans, in any order. Closing the iterator stops the workers."""
        self._waiting.extend(scans)
        try:
            for number in range(self._workers):
                name = f"lakesweep-list-{number}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
            while (page := self._take_page()) is not None:
                yield page
        finally:
            self._close()

    def _work(self) -> None:
        try:
            while (task := self._next_task()) is not None:
                task()
        except BaseException as error:  # raised again in the consumer
            self._close(error)

    def _next_task(self) -> Callable[[], None] | None:
        """The next task of a worker; None when everything is done."""
        with self._work_changed:
            self._idle += 1
            try:
                while not self._is_finished():
                    if (task := self._find_task()) is not None:
                        return task
                    self._work_changed.wait()
            finally:
                self._idle -= 1
        return None

    def _find_task(self) -> Callable[[], None] | None:
        if self._waiting:
            scan = self._waiting.popleft()
            self._cut_from[scan] = _PAGES_BEFORE_CUT if self._was_cut else 1
            return partial(self._read, scan)
        ripe = [scan for scan, pages in self._cut_from.items() if scan.pages_read >= pages]
        if self._is_cutting or not ripe:
            return None
        longest = max(ripe, key=lambda scan: scan.pages_read)
        # Not to be cut twice at the same time.
        self._cut_from[longest] = math.inf
        self._is_cutting = self._was_cut = True
        return partial(self._cut, longest, self._workers - len(self._cut_from))

    def _read(self, scan: Scan) -> None:
        while not scan.is_done and not self._is_closed:
            self._put_page(scan, scan.next_page())
        with self._work_changed:
            del self._cut_from[scan]
            self._work_changed.notify_all()
            self._page_added.notify()

    def _cut(self, scan: Scan, free_workers: int) -> None:
        bounds = self._find_bounds(scan, free_workers)
        with self._work_changed:
            given = scan.give(bounds)
            self._waiting.extend(Scan(self._store, split) for split in given)
            if given:
                self._cut_from[scan] = scan.pages_read + _PAGES_BEFORE_CUT
            self._is_cutting = False
            self._work_changed.notify_all()

    def _find_bounds(self, scan: Scan, free_workers: int) -> list[str]:
        """Where to cut; rather soon than evenly, because uneven parts are cut again."""
        try:
            splits = divide(
                self._store,
                scan.rest(),
                parts=1 + (free_workers + 1) // 2,
                max_parts=4 * self._workers,
                max_requests=16 + 2 * free_workers,
                is_stopped=lambda: self._is_closed or scan.is_done,
            )
        except UnsupportedError:
            return []  # the store does not list in order after all: the scan stays whole
        return [split.until for split in splits[:-1]]

    def _put_page(self, scan: Scan, page: pa.RecordBatch) -> None:
        with self._page_taken:
            while len(self._buffer) >= self._workers and not self._is_closed:
                self._page_taken.wait()
            self._buffer.append(page)
            self._page_added.notify()
            if self._idle and scan.pages_read >= self._cut_from[scan]:
                self._work_changed.notify()

    def _take_page(self) -> pa.RecordBatch | None:
        with self._page_added:
            while not self._buffer and not self._is_finished():
                self._page_added.wait()
            if self._error is not None:
                raise self._error
            if not self._buffer:
                return None
            self._page_taken.notify()
            return self._buffer.popleft()

    def _is_finished(self) -> bool:
        # Only a scan that is being read can be cut, so nothing can be added after this.
        return self._is_closed or not (self._waiting or self._cut_from)

    def _close(self, error: BaseException | None = None) -> None:
        with self._work_changed:
            # The first error is the cause; later ones are consequences of stopping.
            self._error = self._error or error
            self._is_closed = True
            self._work_changed.notify_all()
            self._page_added.notify_all()
            self._page_taken.notify_all()
