"""Process several items at a time, in order and in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_ordered(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    workers: int,
    weigh: Callable[[Item], int] = lambda _: 0,
    most: int = 0,
) -> Iterator[Result]:
    """`map` on threads: results in the order of items, at most twice `workers` of them ahead.

    If items have a weight, at most `most` of it is ahead, unless a single item weighs more. The
    first error is raised in order; items not started by then are not started any more. The same
    applies when the iterator is closed early; running items then finish by themselves. With one
    worker, or for one item, no thread is started: that would cost more than short work.
    """
    queue = iter(items)
    first = list(islice(queue, 2)) if workers > 1 else []
    if len(first) < 2:  # nothing to run in parallel
        yield from map(work, chain(first, queue))
        return
    yield from _map_on_threads(work, chain(first, queue), workers, weigh, most)


def _map_on_threads(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int,
    weigh: Callable[[Item], int],
    most: int,
) -> Iterator[Result]:
    pool = ThreadPoolExecutor(max_workers=workers)
    ahead: deque[tuple[Future[Result], int]] = deque()
    load = 0
    try:
        for item in items:
            weight = weigh(item)
            # Results are taken before more work is submitted: that bounds memory, not only threads.
            while ahead and (load + weight > most or len(ahead) >= 2 * workers - 1):
                future, lighter = ahead.popleft()
                yield future.result()
                load -= lighter
            ahead.append((pool.submit(work, item), weight))
            load += weight
        while ahead:
            yield ahead.popleft()[0].result()
    except (GeneratorExit, KeyboardInterrupt):
        # The results are no longer wanted, so do not wait for responses that may never come.
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    except Exception:
        # Running work may still write, so it must end before the caller handles the error.
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown(wait=True)
