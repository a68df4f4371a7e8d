"""Random commits, realms, clocks, crashes and runs of maintenance over one store.

At every moment all that a head leads to is there, and all that was a head within the grace time. In
the end, once nothing is new any more, nothing else is there.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from lakesweep.errors import LeaseHeldError
from lakesweep.runs.leases import CLOCK_MARGIN, LEASE_TERM
from lakesweep.store import Realm
from lakesweep.store.backends.rows import Reference
from lakesweep.store.commits.log import LogRetention
from lakesweep.store.realms.reachability import ReachabilityWalk
from lakesweep.store.realms.registry import RealmStatus
from tests.libraries import Page, Shelf, commit, shelve
from tests.maintained import HEADS_ONLY, Killed, Maintained, Mortal, heads_reach, stored_ids
from tests.random_tests import Machine, examples

_CONFIG = replace(HEADS_ONLY, scan_workers=1, delete_batch_size=3)
_NAMES = ("acme", "other")
_USABLE = {RealmStatus.ACTIVE, RealmStatus.INACTIVE}


class Stores(Machine):
    """One store, to which several things happen."""

    @initialize()
    def begin(self) -> None:
        self.maintained = Maintained(config=_CONFIG)
        self.titles = 0
        self.replaced: dict[str, list[tuple[int, datetime]]] = {name: [] for name in _NAMES}
        for name in _NAMES:
            self.maintained.store.create_realm(name).references.create("main")

    @rule(name=st.sampled_from(_NAMES), books=st.integers(1, 6))
    def shelve(self, name: str, books: int) -> None:
        """Put books up, in indexes that spill."""
        if self._status(name) is RealmStatus.ACTIVE:
            self.titles += books
            titles = [f"{self.titles - number}" for number in range(books)]
            self._note(name)
            shelve(self.maintained.store.realm(name), "main", titles)

    @rule(name=st.sampled_from(_NAMES))
    def begin_anew(self, name: str) -> None:
        """Take away all that there was, and put up something large."""
        if self._status(name) is RealmStatus.ACTIVE:
            realm = self.maintained.store.realm(name)
            self._note(name)
            large = Page("x" * 400_000)
            commit(realm, "main", lambda attempt: Shelf(first=attempt.write(large)))

    @rule(name=st.sampled_from(_NAMES), size=st.sampled_from([1, 800_000]))
    def litter(self, name: str, size: int) -> None:
        """Write what nothing leads to, as an interrupted commit does."""
        if self._status(name) is RealmStatus.ACTIVE:
            realm = self.maintained.store.realm(name)
            realm.objects.write(realm.new_id(), Page("x" * size))

    @rule(minutes=st.sampled_from([1, 4, 100, 200]))
    def wait(self, minutes: int) -> None:
        """Time passes."""
        self.maintained.clock.sleep(60 * minutes)

    @rule(name=st.sampled_from(_NAMES), status=st.sampled_from(list(RealmStatus)))
    def move(self, name: str, status: RealmStatus) -> None:
        """A realm is closed, opened, or is to go; all processes notice."""
        ways = {
            RealmStatus.ACTIVE: {RealmStatus.INACTIVE},
            RealmStatus.INACTIVE: {RealmStatus.ACTIVE, RealmStatus.PURGING},
        }
        if status in ways.get(self._status(name), ()):
            realms = self.maintained.store.realms
            realms.move(realms.get(name), status)
            self.maintained.clock.sleep(6)

    @rule(commits=st.integers(1, 3))
    def maintain(self, commits: int) -> None:
        """A run, if none seems to be under way."""
        self.maintained.config = replace(_CONFIG, keep_commits=commits)
        try:
            run = self.maintained.maintain()
        except LeaseHeldError:
            return
        assert run.success, run.detailed_information

    @rule(calls=st.integers(0, 250))
    def die(self, calls: int) -> None:
        """A run that is killed somewhere, or not."""
        mortal = Mortal(self.maintained.backend, calls)
        try:
            Maintained(mortal, _CONFIG, self.maintained.clock).maintain()
        except (Killed, LeaseHeldError):
            return

    @precondition(lambda self: hasattr(self, "maintained"))
    @invariant()
    def all_that_was_a_head_of_late_is_there(self) -> None:
        for name in _NAMES:
            if self._status(name) not in _USABLE:
                continue
            realm, since = self._realm(name), self.maintained.clock.now() - _CONFIG.grace
            heads_reach(realm)  # which fails where anything is missing
            old = [head for head, moment in self.replaced[name] if moment > since]
            walk = ReachabilityWalk(realm, lambda _: LogRetention(1))
            for _ in walk.reach([Reference("old", each, 0, 0) for each in old]):
                pass

    def teardown(self) -> None:
        if not hasattr(self, "maintained"):
            return
        self.maintained.clock.sleep((LEASE_TERM + CLOCK_MARGIN).total_seconds() + 1)
        self.maintained.pass_grace()
        self.maintained.config = _CONFIG
        assert self.maintained.maintain().success
        self.maintained.clock.sleep(1)
        assert self.maintained.maintain().success  # the first may have gone on with another one
        for name in _NAMES:
            stored = stored_ids(self.maintained.backend, name)
            status = self._status(name)
            assert stored == (heads_reach(self._realm(name)) if status in _USABLE else set())
            assert status in _USABLE | {RealmStatus.PURGED}

    def _note(self, name: str) -> None:
        """Remember which commit is about to be replaced."""
        head = self._realm(name).references.fetch_for_update("main").pointer
        if head is not None:
            self.replaced[name].append((head, self.maintained.clock.now()))

    def _status(self, name: str) -> RealmStatus:
        return self.maintained.store.realms.get(name).status

    def _realm(self, name: str) -> Realm:
        return self.maintained.store.realm_in(name, _USABLE)


TestStores = Stores.TestCase
TestStores.settings = examples(6, steps=20)
