"""A pool of listing threads that rebalance: idle threads take over part of the largest scan."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import partial

import pyarrow as pa

from lakesweep.errors import UnsupportedError
from lakesweep.storage.listing.key_splits import divide
from lakesweep.storage.listing.scan import Scan
from lakesweep.storage.object_store import ObjectStore

#: A scan that took this many pages probably has as many ahead, so cutting it is worth the requests.
_PAGES_BEFORE_CUT = 8


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
