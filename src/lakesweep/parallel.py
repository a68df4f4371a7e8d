"""Work on several items at a time, in order and in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_ordered(
    work: Callable[[Item], Result], items: Iterable[Item], *, workers: int
) -> Iterator[Result]:
    """`map` on threads: results in the order of the items, at most twice `workers` of them ahead.

    The first error is raised in its turn; what has not begun by then is not begun any more.
    The same holds when the iterator is closed early; what is under way then ends by itself.
    """
    pool = ThreadPoolExecutor(max_workers=workers)
    ahead: deque[Future[Result]] = deque()
    try:
        for item in items:
            ahead.append(pool.submit(work, item))
            if len(ahead) >= 2 * workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    except (GeneratorExit, KeyboardInterrupt):
        # Nobody wants the results any more, nor to wait for answers that may never come.
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    except Exception:
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown(wait=True)
