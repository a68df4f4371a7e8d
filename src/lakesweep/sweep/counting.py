"""How far the tasks of a step have come, wherever they run.

Each task keeps a small object that says how many files it has dealt with, and writes it again every
few seconds. Whoever waits for the tasks reads these objects as often, and shows the sum. Tasks that
run twice count twice, until the step ends: all of this is for people, and none of it is needed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4

from lakesweep.errors import LakesweepError
from lakesweep.progress import SILENT, Progress, Task
from lakesweep.storage.address import parse
from lakesweep.storage.listing import list_files
from lakesweep.storage.store import StoreOpener
from lakesweep.sweep.tidying import remove_folder

EVERY_SECONDS = 3.0
#: Other names are those of files in the making.
_ENDING = ".count"


class Counter:
    """Counts for one task. Without a folder it counts for nobody."""

    def __init__(self, stores: StoreOpener, folder: str | None) -> None:
        self._stores = stores
        self._place = None if folder is None else parse(f"{folder}/{uuid4().hex}{_ENDING}")
        self._told = time.monotonic()
        self._count = 0

    def add(self, count: int) -> None:
        """Count what has been done since the last call."""
        self._count += count
        if self._place is not None and time.monotonic() - self._told >= EVERY_SECONDS:
            with suppress(LakesweepError):
                self._stores.open(self._place).write(self._place.key, str(self._count).encode())
            self._told = time.monotonic()


@dataclass
class Shown:
    """A step that somebody watches. `folder` is where its tasks count, if they need to."""

    task: Task
    folder: str | None = None
    seen: int = 0

    def reach(self, count: int) -> None:
        """Show so many in all, unless more were seen already."""
        if count > self.seen:
            self.task.advance(count - self.seen)
            self.seen = count


@contextmanager
def showing(
    stores: StoreOpener,
    address: str,
    progress: Progress,
    label: str,
    *,
    total: int | None = None,
    unit: str = "files",
) -> Iterator[Shown]:
    """Show how far a step is that writes below an address."""
    with progress.task(label, total=total, unit=unit) as task:
        if progress is SILENT:
            yield Shown(task)
            return
        shown = Shown(task, f"{address}/counts-{uuid4().hex}")
        done = threading.Event()
        watch = threading.Thread(
            target=_watch, args=(stores, shown, done), daemon=True, name="counts"
        )
        watch.start()
        try:
            yield shown
        finally:
            done.set()
            watch.join()


def _watch(stores: StoreOpener, shown: Shown, done: threading.Event) -> None:
    assert shown.folder is not None
    while not done.wait(EVERY_SECONDS):
        with suppress(LakesweepError):
            shown.reach(sum(_counts(stores, shown.folder)))
    remove_folder(stores, shown.folder)


def _counts(stores: StoreOpener, folder: str) -> Iterator[int]:
    for path in _paths(stores, folder):
        place = parse(path)
        yield int(stores.open(place).read(place.key))


def _paths(stores: StoreOpener, folder: str) -> Iterator[str]:
    for batch in list_files(stores, f"{folder}/"):
        yield from (path for path in batch["path"].to_pylist() if path.endswith(_ENDING))
