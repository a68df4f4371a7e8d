"""Random histories of a table: whatever goes, and however it dies, owners keep their files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakesweep.paimon.removal import Expiry
from lakesweep.paimon.retention import Overrides
from lakesweep.paimon.table import PaimonTable
from lakesweep.paimon.tag_expiry import TagRule, choose_tags
from lakesweep.storage.store import ObjectStore
from lakesweep.storage.wrappers.faults import Call, Fault, Faulty
from tests.dict_store import Death
from tests.moments import NOON
from tests.paimon_expiry import Choose, changelogs_by, expire, journals, keep
from tests.paimon_history import MAIN, History
from tests.paimon_orphans import clean

LATER = NOON + timedelta(days=10_000)
CHANGES = frozenset({"write", "write_new", "delete"})
#: Whether changelogs outlive snapshots, and whether the table writes them.
OPTIONS: tuple[dict[str, str], ...] = (
    {},
    {"changelog-producer": "input", "changelog.num-retained.min": "30"},
    {"changelog.num-retained.min": "30"},
)

at = st.integers(0, 1000)
crashes = st.none() | st.integers(0, 30)


class Expiries(RuleBasedStateMachine):
    """Writers commit, tag, branch and roll back; expiry runs, and dies now and then."""

    @initialize(options=st.sampled_from(OPTIONS))
    def begin(self, options: dict[str, str]) -> None:
        self.history = History(options)
        self.branches = [MAIN]
        self.tags = 0
        self.leaks = False
        self.history.commit(add=self.history.new_files(2))

    @rule(number=st.integers(1, 3), where=at, changelog=st.booleans(), index=st.booleans())
    def append(self, number: int, where: int, changelog: bool, index: bool) -> None:
        files = self.history.new_files(number, extra=index)
        self.history.commit(self._branch(where), files, changelog=changelog, index=index)

    @rule(where=at, which=at, merge=st.booleans(), changelog=st.booleans())
    def compact(self, where: int, which: int, merge: bool, changelog: bool) -> None:
        branch = self._branch(where)
        live = sorted(self.history.latest(branch).live, key=str)
        gone = live[: which % (len(live) + 1)]
        files = self.history.new_files(1)
        self.history.commit(branch, files, gone, merge=merge, changelog=changelog)

    @rule(where=at)
    def upgrade(self, where: int) -> None:
        branch = self._branch(where)
        live = sorted(self.history.latest(branch).live, key=str)[:2]
        files = [replace(file, level=file.level + 1) for file in live]
        self.history.commit(branch, files, live)

    @rule(where=at, which=at)
    def bring_back(self, where: int, which: int) -> None:
        """Add again what an older snapshot or a tag holds and the newest does not."""
        branch = self._branch(where)
        owners = [each for name, each in self.history.owners().items() if "/changelog-" not in name]
        old = self.history.state(owners[which % len(owners)]).live
        latest = self.history.latest(branch).live
        known = {file.name for file in latest}
        self.history.commit(
            branch, [file for file in sorted(old, key=str) if file.name not in known]
        )

    @rule(where=at, which=at)
    def tag(self, where: int, which: int) -> None:
        branch = self._branch(where)
        numbers = self.history.numbers(branch)
        self.tags += 1
        self.history.tag(f"v{self.tags}", branch, numbers[which % len(numbers)])

    @precondition(lambda self: self._main_tags())
    @rule(which=at)
    def forget_tag(self, which: int) -> None:
        """Another program deletes the file of a tag, and nothing else."""
        names = self._main_tags()
        self.history.table.delete(names[which % len(names)])
        self.leaks = True

    @precondition(lambda self: self._main_tags() and len(self.branches) < 3)
    @rule(which=at)
    def make_branch(self, which: int) -> None:
        names = self._main_tags()
        name = f"b{len(self.branches)}"
        self.history.make_branch(name, self.history.owners()[names[which % len(names)]])
        self.branches.append(name)

    @rule(where=at, which=at)
    def roll_back(self, where: int, which: int) -> None:
        branch = self._branch(where)
        numbers = self.history.numbers(branch)
        self.history.roll_back(branch, numbers[which % len(numbers)])
        self.leaks = True

    @rule(where=at, left=st.integers(1, 4), crash=crashes)
    def expire_snapshots(self, where: int, left: int, crash: int | None) -> None:
        self._expire(keep(1, left, self._branch(where) or "main"), crash)

    @rule(left=st.integers(1, 4), crash=crashes)
    def expire_changelogs(self, left: int, crash: int | None) -> None:
        self._expire(changelogs_by(Overrides(1, left, limit=1000)), crash)

    @rule(where=at, crash=crashes)
    def expire_tags(self, where: int, crash: int | None) -> None:
        self._expire(_all_tags(self._branch(where) or "main"), crash)

    @rule(crash=crashes)
    def clean(self, crash: int | None) -> None:
        self._run(crash, clean)

    @invariant()
    def owners_have_all_their_files(self) -> None:
        assert not self.history.missing()

    def teardown(self) -> None:
        """In the end nothing is left but what the newest snapshots need, unless others leaked.

        What was leaked goes when orphans are cleaned: then all that is left is named.
        """
        for branch in self.branches:
            self._expire(_all_tags(branch or "main"), None)
            self._expire(keep(branch=branch or "main"), None)
        assert not self.history.missing()
        assert not journals(self.history.store)
        self._check_leftovers()
        clean(self.history.store)
        assert not self.history.missing()
        assert _names(self.history.stored) <= self.history.named()

    def _check_leftovers(self) -> None:
        if not self.leaks and not self.history.options:
            data = {name for name in self.history.stored if name.startswith(_FILES)}
            assert data == {name for name in self.history.needed() if name.startswith(_FILES)}

    def _branch(self, where: int) -> str:
        return self.branches[where % len(self.branches)]

    def _main_tags(self) -> list[str]:
        return sorted(name for name in self.history.owners() if name.startswith("tag/tag-"))

    def _expire(self, choose: Choose, crash: int | None) -> None:
        self._run(crash, lambda store: expire(store, choose, LATER))

    def _run(self, crash: int | None, work: Callable[[ObjectStore], object]) -> None:
        """Do some work, which dies at a change."""
        faults = [] if crash is None else [Fault(_die, CHANGES, skip=crash)]
        try:
            work(Faulty(self.history.store, faults))
        except Death:
            assert crash is not None


_FILES = ("bucket-0/", "manifest/", "index/")


def _names(stored: set[str]) -> set[str]:
    return {name.rpartition("/")[2] for name in stored if name.startswith(_FILES)}


def _all_tags(branch: str) -> Choose:
    def choose(table: PaimonTable) -> Expiry:
        return choose_tags(table.branch(branch), TagRule(LATER, UTC, cut=LATER))

    return choose


def _die(_: Call) -> None:
    raise Death


TestExpiries = Expiries.TestCase
TestExpiries.settings = settings(
    max_examples=20,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
