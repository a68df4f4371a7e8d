"""Whether everything that was committed is in the log, once and in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from lakesweep.store.bench.load import Load
from lakesweep.store.commit import Commit
from lakesweep.store.index.keys import decode
from lakesweep.store.objects import Stored
from lakesweep.store.realm import Realm


def log_is_complete(realm: Realm, load: Load) -> bool:
    """Whether the logs, read in both directions, hold each commit of each writer in its order."""
    of_writer: dict[Any, list[Any]] = defaultdict(list)
    for reference in sorted({load.reference(writer) for writer in range(load.writers)}):
        forth = _read(realm.log(reference, oldest_first=True))
        back = _read(realm.log(reference))
        if back[::-1] != forth or [seq for seq, *_ in forth] != [*range(1, len(forth) + 1)]:
            return False
        for _, writer, number in forth:
            of_writer[writer].append(number)
    expected = [*range(1, load.commits + 1)]
    return of_writer == dict.fromkeys(range(load.writers), expected)


def _read(log: Iterable[Stored[Commit]]) -> list[tuple[Any, ...]]:
    """The place of each commit, its writer, and its number."""
    return [(commit.value.seq, *decode(commit.value.changes[0].key)) for commit in log]
