"""Whoever waits for a step sees how far it is, long before it ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from lakesweep.config import LakeSection
from lakesweep.progress import SILENT, ProgressTask
from lakesweep.runs import task_progress
from lakesweep.runs.task_progress import TaskCounter, show_progress
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.stores import Stores
from tests.iceberg_tables import BUCKET, Bucket, Names, Table
from tests.planned import Desk

_numbers = count()
_PATIENCE_SECONDS = 60


class Watcher:
    """Progress that remembers what it was told, and lets others wait for that."""

    def __init__(self) -> None:
        self.told: dict[str, int] = {}
        self._news = threading.Condition()

    @contextmanager
    def task(
        self, label: str, *, total: int | None = None, unit: str = "files"
    ) -> Iterator[ProgressTask]:
        yield _Watched(self, label)

    def add(self, label: str, number: int) -> None:
        with self._news:
            self.told[label] = self.told.get(label, 0) + number
            self._news.notify_all()

    def wait_for(self, label: str, number: int) -> None:
        with self._news:
            is_told = self._news.wait_for(
                lambda: self.told.get(label, 0) >= number, _PATIENCE_SECONDS
            )
        assert is_told, f"{self.told} is all that was told"


class _Watched:
    def __init__(self, watcher: Watcher, label: str) -> None:
        self._watcher = watcher
        self._label = label

    def advance(self, count: int, size_bytes: int = 0) -> None:
        self._watcher.add(self._label, count)

    def expect(self, total: int) -> None:
        pass


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_progress, "EVERY_SECONDS", 0.01)


@pytest.fixture
def address() -> str:
    return f"memory://counting-{next(_numbers)}/plan"


def _count_up_to(counter: TaskCounter, number: int) -> None:
    """As a task does: bit by bit, over a while."""
    waiting = threading.Event()
    for _ in range(number):
        waiting.wait(0.02)
        counter.add(1)


def test_the_counts_of_all_tasks_are_seen_while_they_run(address: str) -> None:
    stores, watcher = Stores(), Watcher()
    with show_progress(stores, address, watcher, "listed") as shown:
        for number in (2, 3):
            _count_up_to(TaskCounter(stores, shown.folder), number)
        watcher.wait_for("listed", 5)


def test_the_end_is_told_once(address: str) -> None:
    stores, watcher = Stores(), Watcher()
    with show_progress(stores, address, watcher, "listed") as shown:
        _count_up_to(TaskCounter(stores, shown.folder), 2)
        watcher.wait_for("listed", 2)
        shown.reach(7)
    assert watcher.told == {"listed": 7}


def test_tasks_that_ran_twice_are_not_taken_back(address: str) -> None:
    watcher = Watcher()
    with show_progress(Stores(), address, watcher, "listed") as shown:
        shown.reach(9)
        shown.reach(4)
    assert watcher.told == {"listed": 9}


def test_nothing_is_left_of_it(address: str) -> None:
    stores, watcher = Stores(), Watcher()
    with show_progress(stores, address, watcher, "listed") as shown:
        _count_up_to(TaskCounter(stores, shown.folder), 1)
        watcher.wait_for("listed", 1)
    assert sum(batch.num_rows for batch in list_files(stores, f"{address}/")) == 0


def test_not_even_an_empty_folder_is_left_of_it(tmp_path: Path) -> None:
    stores, watcher = Stores(), Watcher()
    with show_progress(stores, str(tmp_path / "plan"), watcher, "listed") as shown:
        _count_up_to(TaskCounter(stores, shown.folder), 1)
        watcher.wait_for("listed", 1)
    assert list((tmp_path / "plan").iterdir()) == []


def test_nobody_counts_where_nobody_looks(address: str) -> None:
    stores = Stores()
    with show_progress(stores, address, SILENT, "listed") as shown:
        _count_up_to(TaskCounter(stores, shown.folder), 1)
        assert sum(batch.num_rows for batch in list_files(stores, f"{address}/")) == 0


def test_each_phase_of_a_plan_tells_what_it_did() -> None:
    bucket, watcher = Bucket(), Watcher()
    table = Table(bucket, "one")
    table.snapshot(table.manifest("m0.avro", table.data("a.parquet")))
    names = Names({"one": table.commit()})
    desk = Desk(bucket.stores, LakeSection(locations=(BUCKET,)), [names], progress=watcher)
    desk.plan()
    assert watcher.told == {"listed": 3, "marked": 3, "judged": 3}
