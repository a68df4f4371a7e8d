"""Random histories of a Paimon table, swept: the same files go as in one process, and no others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.paimon_orphans import clean
from tests.paimon_sweeps import sweep
from tests.property.test_paimon_expiry import Expiries, at, crashes
from tests.random_tests import examples


class Sweeps(Expiries):
    """Writers and expiries as before; sweeps run between them, and die now and then."""

    @rule(where=at, which=at, change=st.integers(0, 4), crash=crashes)
    def sweep_while_others_write(
        self, where: int, which: int, change: int, crash: int | None
    ) -> None:
        """Between plan and apply somebody takes up old files, or lets go of some."""
        changes: list[Callable[[], object]] = [
            lambda: None,
            partial(self.bring_back, where, which),
            partial(self.roll_back, where, which),
            partial(self.upgrade, where),
            partial(self.expire_snapshots, where, 1, None),
        ]
        self._run(crash, lambda store: sweep(store, changes[change]))

    @rule()
    def find_the_same_in_both_ways(self) -> None:
        store = self.history.store
        assert clean(store.copy_all())[0] == sweep(store.copy_all())[0]

    def teardown(self) -> None:
        sweep(self.history.store)
        assert not self.history.missing()
        super().teardown()


TestSweeps = Sweeps.TestCase
TestSweeps.settings = examples(4, steps=12)
