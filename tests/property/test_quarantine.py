"""No step of a quarantine loses a file, in whatever order steps come, and wherever they die."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from lakesweep.storage.deleting.quarantine import empty_quarantine, held_files, quarantine_files
from lakesweep.storage.deleting.quarantine_store import QuarantineFolders
from lakesweep.storage.deleting.restore import restore_files
from lakesweep.storage.file_batches import FILE_SCHEMA
from lakesweep.storage.object_store import Expected, is_expected, micros_of
from tests.by_copy import ByCopy
from tests.dict_store import Death, DictStore, Mortal
from tests.paged_store import OneStore
from tests.random_tests import Machine, examples

BASE = "memory://bucket/"
KEYS = [
    "a",
    "a//b",
    "/a",
    "a/",
    "a%2Fb",
    "a b",
    "a+b",
    "caf\u00e9",
    "cafe\u0301",
    "x/../y",
    "\u2603",
]
#: Few keys at a time, so that they meet.
SOME_KEYS = st.lists(st.sampled_from(KEYS), min_size=2, max_size=3, unique=True)
#: Mostly the last plan.
PLANS = st.sampled_from([-1, -1, -1, -2, 0])
#: After how many calls of the store the process dies, if it does, and on which side of the last.
DEATHS = st.one_of(st.none(), st.tuples(st.integers(0, 12), st.booleans()))


@dataclass
class Plan:
    """Files as they were listed, and where they go."""

    files: pa.RecordBatch
    places: QuarantineFolders
    folder: str

    @property
    def expected(self) -> dict[str, Expected]:
        """All that is known of the files, by their keys."""
        return {
            row["path"].removeprefix(BASE): Expected(
                row["size_bytes"], micros_of(row["modified"]), row["etag"]
            )
            for row in self.files.to_pylist()
        }

    @property
    def listed(self) -> dict[str, str]:
        """The keys of the files, with their etags."""
        rows = self.files.to_pylist()
        return {row["path"].removeprefix(BASE): row["etag"] for row in rows}


class Quarantine(Machine):
    """A lake, somebody who writes into it, and plans that are set aside, restored and emptied."""

    @initialize(way=st.sampled_from(["rename", "copy", "marker"]), keys=SOME_KEYS)
    def begin(self, way: str, keys: list[str]) -> None:
        self.store = DictStore(versioned=way == "marker", renames=way == "rename")
        self.by_copy = way == "copy"
        self.plans: list[Plan] = []
        self.written = 0
        self.keys = [f"lake/{key}" for key in keys]
        for number in range(len(keys)):
            self.write(number)
        self.plan()

    @rule(number=st.integers(0, 2))
    def write(self, number: int) -> None:
        key = self.keys[number % len(self.keys)]
        self.written += 1
        self.store.write(key, f"{key} {self.written}".encode())

    @rule()
    def plan(self) -> None:
        folder = f"lake/_lakesweep/quarantine/plan-{len(self.plans)}/"
        rows = [self._row(key) for key in self.store.current() if "_lakesweep" not in key]
        files = pa.RecordBatch.from_pylist(rows, FILE_SCHEMA)
        places = QuarantineFolders.of([(f"{BASE}lake", BASE + folder)])
        self.plans.append(Plan(files, places, folder))

    @rule(number=PLANS, death=DEATHS)
    def set_aside(self, number: int, death: tuple[int, bool] | None) -> None:
        plan = self._plan(number)
        before, home = self._files(), self.store.current()
        # A file that came back by a copy is as new as one that was written again.
        there = [key for key in plan.expected if key in home]
        rewritten = {k for k in there if not is_expected(self.store.head(k), plan.expected[k])}
        done = self._run(
            death, lambda stores: quarantine_files(stores, [plan.files], plan.places, workers=2)
        )
        assert before <= self._files()
        now = self.store.current()
        for key, etag in plan.listed.items():
            if key in home and (_etag(home[key]) != etag or key in rewritten):
                assert now[key] == home[key]
            elif done:
                assert key not in now

    @rule(number=PLANS, death=DEATHS)
    def restore(self, number: int, death: tuple[int, bool] | None) -> None:
        plan = self._plan(number)
        before, home = self._files(), self.store.current()
        done = self._run(death, lambda stores: restore_files(stores, self._held(plan), workers=2))
        assert before <= self._files()
        now = self.store.current()
        for key, etag in plan.listed.items():
            copy = plan.folder + key
            if key in home:
                assert now[key] == home[key]
            elif key in now:
                assert _etag(now[key]) == etag
            if done and copy in home and home.get(key, home[copy]) == home[copy]:
                assert (now[key], copy in now) == (home[copy], False)

    @rule(number=PLANS, death=DEATHS)
    def empty(self, number: int, death: tuple[int, bool] | None) -> None:
        plan = self._plan(number)
        before = self.store.current()
        done = self._run(death, lambda stores: empty_quarantine(stores, self._held(plan)))
        now = self.store.current()
        kept = {key: data for key, data in before.items() if not key.startswith(plan.folder)}
        assert kept.items() <= now.items()
        if done:
            assert kept == now

    @invariant()
    def nothing_but_lake_and_quarantine(self) -> None:
        if hasattr(self, "store"):
            assert all(key.startswith("lake/") for key in self.store.current())

    def _plan(self, number: int) -> Plan:
        return self.plans[number % len(self.plans)]

    def _held(self, plan: Plan) -> Iterable[pa.RecordBatch]:
        return held_files(OneStore(self.store), [plan.files], plan.places)

    def _run(
        self,
        death: tuple[int, bool] | None,
        kernel: Callable[[OneStore], Iterable[pa.RecordBatch]],
    ) -> bool:
        """Whether the kernel came to its end."""
        calls, after = death or (None, False)
        mortal = Mortal(self.store, calls, after=after)
        stores = OneStore(ByCopy(mortal) if self.by_copy else mortal)
        with suppress(Death):
            outcomes = [one for batch in kernel(stores) for one in batch["outcome"].to_pylist()]
            assert "failed" not in outcomes
            return True
        return False

    def _files(self) -> set[tuple[str, bytes]]:
        """All that is kept anywhere, with the key that it had at home."""
        folders = {plan.folder for plan in self.plans}
        return {
            (next((key.removeprefix(f) for f in folders if key.startswith(f)), key), data)
            for key, data in self.store.versions()
        }

    def _row(self, key: str) -> dict[str, object]:
        info = self.store.head(key)
        return {
            "path": BASE + key,
            "size_bytes": info.size_bytes,
            "modified": info.modified,
            "etag": info.etag,
        }


def _etag(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


TestQuarantine = Quarantine.TestCase
TestQuarantine.settings = examples(25, steps=40)
