"""Random histories of a table: whatever goes, and however it dies, owners keep their files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, timedelta
from typing import TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from lakesweep.errors import ChangedError
from lakesweep.paimon.expire.expiry import Expiry
from lakesweep.paimon.expire.retention import RetentionOverrides
from lakesweep.paimon.expire.tag_expiry import TagRule, choose_tags
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.partitions.partition_drop import drop_partitions
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.wrappers.faults import Faulty, InterceptedCall, StorageFault
from tests.dict_store import Death
from tests.moments import NOON
from tests.paimon_expiry import (
    Choose,
    MemoryJournals,
    changelogs_by,
    expire,
    journals,
    keep,
    open_table,
)
from tests.paimon_history import MAIN, History
from tests.paimon_orphans import clean
from tests.paimon_tables import NO_PARTITION
from tests.random_tests import Machine, examples

LATER = NOON + timedelta(days=10_000)
CHANGES = frozenset({"write", "write_new", "delete"})
#: Whether changelogs outlive snapshots, and whether the table writes them.
OPTIONS: tuple[dict[str, str], ...] = (
    {},
    {"changelog-producer": "input", "changelog.num-retained.min": "30"},
    {"changelog.num-retained.min": "30"},
)

Work: TypeAlias = Callable[[ObjectStore], object]
#: Who does what while another does something. Files of a commit that is under way are young, and no
#: clean-up looks at them; here all files are old, so none runs during a drop.
PAIRS = (
    ("expire", "expire more"),
    ("expire more", "expire"),
    ("expire more", "tags"),
    ("tags", "expire more"),
    ("expire more", "clean"),
    ("clean", "expire more"),
    ("clean", "drop"),
    ("drop", "expire more"),
    ("drop", "drop"),
)

at = st.integers(0, 1000)
crashes = st.none() | st.integers(0, 30)


class Expiries(Machine):
    """Writers commit, tag, branch and roll back; expiry runs, and dies now and then."""

    @initialize(options=st.sampled_from(OPTIONS))
    def begin(self, options: dict[str, str]) -> None:
        self.history = History(options)
        self.branches = [MAIN]
        self.tags = 0
        self.leaks = False
        self.log = MemoryJournals()
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
        self._expire(changelogs_by(RetentionOverrides(1, left, limit=1000)), crash)

    @rule(where=at, crash=crashes)
    def expire_tags(self, where: int, crash: int | None) -> None:
        self._expire(_all_tags(self._branch(where) or "main"), crash)

    @rule(crash=crashes)
    def clean(self, crash: int | None) -> None:
        self._run(crash, clean)

    @rule(where=at, crash=crashes)
    def drop(self, where: int, crash: int | None) -> None:
        """Drop the only partition that there is, with all files."""
        self._run(crash, self._drop(self._branch(where)))
        self.leaks |= crash is not None

    @rule(where=at, pair=st.sampled_from(PAIRS), moment=st.integers(0, 60))
    def work_at_once(self, where: int, pair: tuple[str, str], moment: int) -> None:
        """One begins and ends while another is under way, between any two of its calls."""
        works = self._works(self._branch(where))
        first, second = (works[name] for name in pair)

        def step_in(call: InterceptedCall) -> object:
            second(self.history.store)
            return call.proceed()

        with suppress(ChangedError):
            first(Faulty(self.history.store, [StorageFault(step_in, skip=moment, times=1)]))
        self.leaks |= "drop" in pair

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
        self._run(crash, lambda store: expire(store, choose, LATER, self.log))

    def _works(self, branch: str) -> dict[str, Work]:
        name = branch or "main"
        return {
            "expire": lambda store: expire(store, keep(1, 2, name), LATER),
            "expire more": lambda store: expire(store, keep(branch=name), LATER),
            "tags": lambda store: expire(store, _all_tags(name), LATER),
            "clean": clean,
            "drop": self._drop(branch),
        }

    def _drop(self, branch: str) -> Work:
        def work(store: ObjectStore) -> None:
            before = self.history.numbers(branch)[-1]
            try:
                everything = [NO_PARTITION]
                drop_partitions(open_table(store).branch(branch or "main"), lambda _: everything)
            finally:
                if self.history.numbers(branch)[-1] > before:
                    self.history.adopt(branch)

        return work

    def _run(self, crash: int | None, work: Work) -> None:
        """Do some work, which dies at a change."""
        faults = [] if crash is None else [StorageFault(_die, CHANGES, skip=crash)]
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


def _die(_: InterceptedCall) -> None:
    raise Death


TestExpiries = Expiries.TestCase
TestExpiries.settings = examples(10, steps=15)
