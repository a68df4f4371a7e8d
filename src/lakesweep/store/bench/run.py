"""A whole measurement, in a realm of its own that is gone afterwards."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from lakesweep.clock import Clock, SystemClock
from lakesweep.errors import RealmMissingError
from lakesweep.progress import SILENT, Progress
from lakesweep.store.bench.checking import log_is_complete
from lakesweep.store.bench.load import BENCH_TYPES, Load
from lakesweep.store.bench.processes import work_in_processes
from lakesweep.store.bench.result import BenchResult, summarize
from lakesweep.store.bench.threads import work_in_threads
from lakesweep.store.purging import Purging
from lakesweep.store.realm import Realm
from lakesweep.store.realms import RealmStatus
from lakesweep.store.store import Store


def run_bench(
    url: str,
    load: Load,
    *,
    threads: bool = False,
    clock: Clock | None = None,
    progress: Progress = SILENT,
) -> BenchResult:
    """Measure commits in processes, or in threads of this one; a store in memory knows no other."""
    clock = clock or SystemClock()
    with (
        Store.open(url, types=BENCH_TYPES, clock=clock) as store,
        _own_realm(store, clock) as realm,
    ):
        realm.references.ensure([load.reference(writer) for writer in range(load.writers)])
        if threads or not store.backend.capabilities.durable:
            works, seconds = work_in_threads(realm, load, clock, progress)
        else:
            works, seconds = work_in_processes(url, realm.name, load, clock, progress)
        return summarize(load, works, seconds, log_complete=log_is_complete(realm, load))


@contextmanager
def _own_realm(store: Store, clock: Clock) -> Iterator[Realm]:
    """A realm that nobody else knows, and that is deleted whatever happens."""
    name = f"bench-{secrets.token_hex(6)}"
    try:
        yield store.create_realm(name)
    finally:
        _end(store, name, clock)


def _end(store: Store, name: str, clock: Clock) -> None:
    try:
        realm = store.realms.get(name)
    except RealmMissingError:
        return
    if realm.status is RealmStatus.ACTIVE:
        realm = store.realms.move(realm, RealmStatus.INACTIVE)
    # All writers have ended, so nobody goes by an old view of the realm.
    purging = Purging(store.realms, store.backend, clock, settle_seconds=0)
    purging.delete(purging.purge(realm))
