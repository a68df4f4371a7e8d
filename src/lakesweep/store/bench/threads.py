"""Writers that are threads of this process, and share one store."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lakesweep.clock import Clock
from lakesweep.progress import Progress
from lakesweep.store.bench.load import Load, Work, warm_up, work
from lakesweep.store.realm import Realm


class _StoppedError(Exception):
    """Nobody waits for the work any more."""


def work_in_threads(
    realm: Realm, load: Load, clock: Clock, progress: Progress
) -> tuple[Sequence[Work], float]:
    """What each writer did, and in how many seconds all of them were done."""
    stop = threading.Event()
    with ThreadPoolExecutor(load.writers) as pool:
        list(pool.map(partial(warm_up, realm), range(load.writers)))
        with progress.task("committed", total=load.total, unit="commits") as task:

            def report() -> None:
                if stop.is_set():
                    raise _StoppedError
                task.advance(1)

            began = clock.monotonic()
            try:
                write = partial(work, realm, load, clock=clock, report=report)
                works = list(pool.map(write, range(load.writers)))
            finally:
                stop.set()
            return works, clock.monotonic() - began
