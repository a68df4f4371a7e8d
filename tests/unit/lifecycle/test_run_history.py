"""Which runs the next one may build upon."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from lakesweep.errors import FormatError
from lakesweep.lifecycle.run_history import LifecycleHistory, LifecycleRunRecord, LifecycleRunState
from lakesweep.storage.address import parse
from lakesweep.storage.stores import Stores
from tests.lakefs_repositories import NOW
from tests.lifecycle_runs import history_of
from tests.processes import scratch_folder


@pytest.fixture
def history() -> Iterator[LifecycleHistory]:
    with scratch_folder("history") as folder:
        yield history_of(folder)


def record(run_id: str, days: int) -> LifecycleRunRecord:
    return LifecycleRunRecord(
        run_id, NOW - timedelta(days=days), "hash", "", {}, {}, (), "verdicts"
    )


def test_a_home_that_is_not_there_has_no_runs(history: LifecycleHistory) -> None:
    assert history.last() is None
    assert history.last_swept() is None


def test_only_runs_that_swept_are_built_upon(history: LifecycleHistory) -> None:
    states = {
        4: LifecycleRunState.SWEPT,
        3: LifecycleRunState.SWEPT,
        2: LifecycleRunState.PARTIAL,
        1: LifecycleRunState.FAILED,
    }
    for days, state in states.items():
        run = record(f"run-{days}", days)
        history.record(run)
        history.finish(run, state, NOW, {"addresses": 1})
    history.record(record("planned", 0))
    assert history.last() == record("planned", 0)
    assert history.last_swept() == record("run-3", 3)


def test_the_last_word_on_a_run_counts(history: LifecycleHistory) -> None:
    run = record("run", 1)
    history.record(run)
    history.finish(run, LifecycleRunState.PARTIAL, NOW, {})
    assert history.last_swept() is None
    history.finish(run, LifecycleRunState.SWEPT, NOW, {})
    assert history.last_swept() == run


@pytest.mark.parametrize("data", [b"{}", b'{"run_id": "\xb2"}', b'{"x":' + b"[" * 100_000])
def test_a_record_that_is_none_is_an_error(history: LifecycleHistory, data: bytes) -> None:
    place = parse(f"{history.home}{history.runs}20261115T120000.000000Z-x.json")
    Stores().open(place).write(place.key, data)
    with pytest.raises(FormatError, match="no record of a run"):
        history.last_seen()
