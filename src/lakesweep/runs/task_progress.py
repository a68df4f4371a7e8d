"""Progress of the tasks of a step, wherever they run.

Each task writes the number of files it has processed into a small object every few seconds.
The driver reads these objects and shows the sum. Tasks that run twice count twice until the
step ends. Progress is only shown, nothing depends on it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4

from lakesweep.errors import LakesweepError
from lakesweep.progress import SILENT, Progress, ProgressTask
from lakesweep.storage.address import parse
from lakesweep.storage.deleting.bulk_delete import remove_folder
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.object_store import StoreOpener

EVERY_SECONDS = 3.0
#: The first counts come sooner: short steps are watched too.
_FIRST_SECONDS = 0.5
#: Other names are those of files in the making.
_ENDING = ".count"


class TaskCounter:
    """Counts for one task. Without a folder its counts are not shown."""

    def __init__(self, stores: StoreOpener, folder: str | None) -> None:
        self._stores = stores
        self._place = None if folder is None else parse(f"{folder}/{uuid4().hex}{_ENDING}")
        self._due = time.monotonic() + min(_FIRST_SECONDS, EVERY_SECONDS)
        self._count = 0

    def add(self, count: int) -> None:
        """Count what has been done since the last call."""
        self._count += count
        if self._place is not None and time.monotonic() >= self._due:
            with suppress(LakesweepError):
                self._stores.open(self._place).write(self._place.key, str(self._count).encode())
            self._due = time.monotonic() + EVERY_SECONDS


@dataclass
class StepProgress:
    """A step whose progress is shown. `folder` is where its tasks count, if they need to."""

    task: ProgressTask
    folder: str | None = None
    seen: int = 0

    def reach(self, count: int) -> None:
        """Set the total, unless more were seen already."""
        if count > self.seen:
            self.task.advance(count - self.seen)
            self.seen = count


@contextmanager
def show_progress(
    stores: StoreOpener,
    address: str,
    progress: Progress,
    label: str,
    *,
    total: int | None = None,
    unit: str = "files",
) -> Iterator[StepProgress]:
    """Show how far a step is that writes below an address."""
    with progress.task(label, total=total, unit=unit) as task:
        if progress is SILENT:
            yield StepProgress(task)
            return
        shown = StepProgress(task, f"{address}/counts-{uuid4().hex}")
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


def _watch(stores: StoreOpener, shown: StepProgress, done: threading.Event) -> None:
    assert shown.folder is not None
    rest = min(2 * _FIRST_SECONDS, EVERY_SECONDS)
    while not done.wait(rest):
        rest = min(2 * rest, EVERY_SECONDS)
        with suppress(LakesweepError, ValueError):
            shown.reach(sum(_counts(stores, shown.folder)))
    remove_folder(stores, shown.folder)


def _counts(stores: StoreOpener, folder: str) -> Iterator[int]:
    for path in _paths(stores, folder):
        place = parse(path)
        yield int(stores.open(place).read(place.key))


def _paths(stores: StoreOpener, folder: str) -> Iterator[str]:
    for batch in list_files(stores, f"{folder}/"):
        yield from (path for path in batch["path"].to_pylist() if path.endswith(_ENDING))
