"""Stores that are maintained, and proof of what is left of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from lakesweep.clock import ManualClock
from lakesweep.maintenance.config import MaintenanceConfig
from lakesweep.maintenance.plugin_api import Plugin
from lakesweep.maintenance.plugins import OURS
from lakesweep.maintenance.run_records import TYPES as RECORDS
from lakesweep.maintenance.run_records import MaintenanceRunInformation
from lakesweep.maintenance.service import MaintenanceService
from lakesweep.store import Realm, Store
from lakesweep.store.backends.backend import Backend
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.wrapper import BackendWrapper
from lakesweep.store.commits.log import LogRetention
from lakesweep.store.realms.reachability import ReachabilityWalk
from tests.libraries import TYPES, Page, Shelf, commit, shelve
from tests.moments import NOON

#: Only heads are kept beyond the grace time.
HEADS_ONLY = MaintenanceConfig(keep_commits=1, keep_age=timedelta(0))
GRACE_SECONDS = HEADS_ONLY.grace.total_seconds()


@dataclass
class Maintained:
    """A store in which time passes as a test wants, and its maintenance."""

    backend: Backend = field(default_factory=MemoryBackend)
    config: MaintenanceConfig = HEADS_ONLY
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOON))
    #: Behind the references of catalogs, these tests have something else.
    plugins: Sequence[Plugin] = field(default_factory=lambda: [OURS["store"]()])

    def __post_init__(self) -> None:
        self.store = self.open()

    def open(self) -> Store:
        """The store, as a process of its own sees it."""
        return Store(self.backend, types={**TYPES, **RECORDS}, clock=self.clock)

    @property
    def service(self) -> MaintenanceService:
        return MaintenanceService(self.store, self.config, self.clock, plugins=self.plugins)

    def maintain(self, **options: Any) -> MaintenanceRunInformation:
        """One run over all realms."""
        return self.service.perform(self.service.build_spec(), **options)

    def pass_grace(self) -> None:
        """Let so much time pass that nothing is new any more."""
        self.clock.sleep(GRACE_SECONDS + 1)


def heads_reach(realm: Realm) -> set[int]:
    """All that the heads of a realm lead to, found by a walk of its own."""
    walk = ReachabilityWalk(realm, lambda _: LogRetention(1))
    return {found.id for found in walk.reach(list(realm.references.list()))}


def stored_ids(backend: Backend, realm: str) -> set[int]:
    """The ids of all rows of a realm."""
    return {head.id for head in backend.scan_rows(realm)}


class Interleaved(BackendWrapper):
    """Before each call, something else happens: what others do while maintenance runs."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.meanwhile: Callable[[], object] | None = None

    def _enter(self, realm: str) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            try:
                meanwhile()
            finally:
                self.meanwhile = meanwhile


class Killed(BaseException):
    """The process ends here, without another word to the database."""


class Mortal(BackendWrapper):
    """Dies before its n-th call, and stays dead."""

    def __init__(self, backend: Backend, calls: int) -> None:
        super().__init__(backend)
        self._left = calls

    def _enter(self, realm: str) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed


@dataclass
class BusyWriter:
    """Commits all the time, in a process of its own: puts books up, takes all away, begins anew."""

    store: Store
    every: int = 1
    calls: int = 0
    commits: int = 0

    def __call__(self) -> None:
        """Commit something, at every so many calls."""
        self.calls += 1
        if self.calls % self.every:
            return
        self.commits += 1
        realm = self.store.realm("acme")
        match self.commits % 5:
            case 0:
                commit(realm, "main", lambda _: Shelf())
            case 1:
                large = Page("x" * 500_000)
                commit(realm, "root", lambda attempt: Shelf(first=attempt.write(large)))
            case _:
                titles = [f"{self.commits} {number}" for number in range(4)]
                shelve(realm, "main", titles)


def prove_beside_a_writer(
    backend: Backend, *, every: int = 1, config: MaintenanceConfig = HEADS_ONLY
) -> None:
    """Maintain a store while somebody commits all the time; nothing that is used may go."""
    interleaved = Interleaved(backend)
    maintained = Maintained(interleaved, config)
    with Maintained(backend, config, maintained.clock).store as own, maintained.store:
        writer = BusyWriter(own, every)
        realm = own.create_realm("acme")
        realm.references.create("main")
        shelve(realm, "main", [f"book {number:03d}" for number in range(30)])
        for _ in range(2):
            maintained.pass_grace()
            before = heads_reach(realm)
            interleaved.meanwhile = writer
            run = maintained.maintain()
            interleaved.meanwhile = None
            assert run.success, run.detailed_information
            assert before <= stored_ids(backend, "acme")
            assert heads_reach(realm) <= stored_ids(backend, "acme")
        assert writer.commits > 5
        maintained.pass_grace()
        last = maintained.maintain()
        assert last.obj_stats.purged > 0
        assert stored_ids(backend, "acme") == heads_reach(realm)
