"""Watch the roots while files are deleted.

A table may start to reference a file of the plan after the recheck. So a thread of the driver
checks the roots every few seconds and pauses the tasks if any moved; the rest of the plan is
then rechecked. What a table adds between two checks, or while a batch is on its way, can
still be lost; what protects such files is that none of them was referenced for the whole
grace period.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from lakesweep.sweep.mark.marks import Marks, RootMark, RootState
from lakesweep.sweep.roots.iceberg_scan import is_scan
from lakesweep.sweep.roots.root import (
    EmptyRootSource,
    RootProblem,
    RootRow,
    RootSource,
    collect_roots,
)

WATCH_SECONDS = timedelta(seconds=5)
#: Checks keep a catalog busy for no more than about a fifth of the time.
_REST = 4


@dataclass(frozen=True)
class RootWatch:
    """The sources to check, their roots at the last recheck, and how often to check."""

    sources: Iterable[RootSource]
    settled: Marks
    every_seconds: float

    def has_moved(self) -> bool:
        """Whether any root is new, changed or gone, or can no longer be read."""
        known = dict(_pointers(self.settled.roots))
        seen: set[str] = set()
        for found in collect_roots(_current(self.sources)):
            match found:
                case EmptyRootSource():
                    continue
                case RootProblem(name=None):
                    if found.source not in {unknown.origin for unknown in self.settled.unknown}:
                        return True
                case RootProblem() | RootRow():
                    seen.add(str(found.name))
                    if known.get(str(found.name)) != _pointer(found):
                        return True
        return bool(known.keys() - seen)


@contextmanager
def watch_roots(watch: RootWatch, pause: Callable[[], None]) -> Iterator[None]:
    """Check the roots in the background while the block runs; call `pause` once if they change."""
    done = threading.Event()
    thread = threading.Thread(target=_look, args=(watch, pause, done), daemon=True, name="roots")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _look(watch: RootWatch, pause: Callable[[], None], done: threading.Event) -> None:
    rest = watch.every_seconds
    while not done.wait(rest):
        begin = time.monotonic()
        if may_have_moved(watch) and not done.is_set() and _has_paused(pause):
            return
        rest = max(watch.every_seconds, _REST * (time.monotonic() - begin))


def may_have_moved(watch: RootWatch) -> bool:
    """Whether to recheck the plan; also if the check fails, since the recheck reports the error.

    A disk may be full, or the client of a catalog may raise anything.
    """
    try:
        return watch.has_moved()
    except Exception:
        return True


def _has_paused(pause: Callable[[], None]) -> bool:
    """Whether the tasks were paused; if not, the next check tries again."""
    try:
        pause()
    except Exception:
        return False
    return True


def _current(sources: Iterable[RootSource]) -> Iterator[RootSource]:
    """The sources that know the present state; a scan only reads the plan's listing."""
    return (source for source in sources if not is_scan(source.name))


def _pointers(roots: Iterable[RootMark]) -> Iterator[tuple[str, str]]:
    """What tells each root from a later version of itself."""
    for root in roots:
        if root.state is not RootState.ABSENT and not is_scan(root.origin):
            yield root.name, root.pointer


def _pointer(found: RootRow | RootProblem) -> str:
    return found.pointer if isinstance(found, RootRow) else ""
