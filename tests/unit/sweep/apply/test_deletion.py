from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesweep.clock import ManualClock, micros
from lakesweep.runs.fencing import CONTROL, FenceRecord, RunFence, request_stop
from lakesweep.storage.datasets.manifest import Part
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import commit_dataset, write_dataset
from lakesweep.storage.deleting.quarantine import QUARANTINE_SCHEMA
from lakesweep.storage.deleting.quarantine_store import QuarantineFolders
from lakesweep.storage.file_batches import OUTCOME_SCHEMA
from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.object_store import ObjectStore, Outcome
from lakesweep.storage.options import DeleteRate
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, InterceptedCall, StorageFault, refuse
from lakesweep.sweep.apply.deletion import (
    DeleteRemoval,
    DeleteStep,
    QuarantineRemoval,
    RemainingStep,
    Removal,
    first_rows,
    fitting_rows,
    outcome_parts,
    write_finished,
)
from lakesweep.sweep.columns import LISTING
from lakesweep.sweep.engine.local_engine import LocalSweepEngine
from lakesweep.sweep.engine.protocol import TASK_RESULTS, results_of
from tests.dict_store import Death, Mortal
from tests.moments import NOON

KEY = b"of the driver"
COUNT = 7


@dataclass
class Sweep:
    """Files to delete, and the folder of the run that is to do it."""

    root: Path

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def outcomes(self) -> str:
        return f"{self.root}/outcomes"

    @property
    def places(self) -> QuarantineFolders:
        return QuarantineFolders.of([(str(self.lake), f"{self.lake}/_lakesweep/quarantine/plan-1")])

    def step(self, store: ObjectStore | None = None, removal: Removal | None = None) -> DeleteStep:
        stores = Stores(replace={"/": store or LocalStore()})
        removal = removal or DeleteRemoval()
        schema = QUARANTINE_SCHEMA if isinstance(removal, QuarantineRemoval) else OUTCOME_SCHEMA
        control = RunFence(stores, str(self.root), "r1", 1, ManualClock(NOON), key=KEY)
        return DeleteStep(
            stores, control, self.outcomes, removal, DeleteRate(), schema, batch_rows=3
        )

    def files(self) -> pa.RecordBatch:
        """All files of the lake, as a listing describes them."""
        table = pa.Table.from_batches(list_files(Stores(), f"{self.lake}/"))
        table = table.drop_columns("kind").combine_chunks()
        (files,) = table.sort_by("path").to_batches()
        h1, h2 = hash_columns(file_hashes(files["path"]))
        return pa.RecordBatch.from_arrays([*files.columns, h1, h2], schema=LISTING)

    def left(self) -> list[str]:
        """The names of the files that are in their place."""
        return sorted(path.name for path in self.lake.iterdir() if path.is_file())

    def rest(self, files: pa.RecordBatch) -> pa.Table:
        """The files that the outcomes so far do not settle, as an apply finds them."""
        attempt = self.root / f"attempt-{uuid4().hex}"
        planned = write_dataset(Stores(), f"{attempt}/delete", LISTING, [files])
        settled = write_finished(Stores(), self.outcomes, f"{attempt}/settled")
        step = RemainingStep(Stores(), f"{attempt}/rest")
        answers = LocalSweepEngine(Stores()).match(step, planned, settled, TASK_RESULTS)
        parts = results_of(answers, "part", Part)
        rest = commit_dataset(Stores(), f"{attempt}/rest", parts, LISTING)
        return pa.Table.from_batches(read_dataset(Stores(), rest), LISTING).combine_chunks()

    def told(self) -> list[dict[str, Any]]:
        """All outcomes that were stored, by path."""
        parts = [pq.read_table(path) for path in outcome_parts(Stores(), self.outcomes)]
        rows = pa.concat_tables(parts).to_pylist() if parts else []
        return sorted(rows, key=lambda row: str(row["path"]))


def make_sweep(root: Path) -> Sweep:
    sweep = Sweep(root)
    sweep.lake.mkdir(parents=True)
    for number in range(COUNT):
        (sweep.lake / f"{number}.parquet").write_bytes(b"x" * number)
    leash = FenceRecord("r1", 1, micros(NOON) + 1).signed(KEY)
    (root / CONTROL).write_bytes(msgspec.json.encode(leash))
    return sweep


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return make_sweep(tmp_path)


def run(step: DeleteStep, *batches: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches(step(batches))


def tally(answers: pa.Table) -> dict[str, Any]:
    (found,) = results_of(answers, "tally", dict[str, Any])
    return found


def test_files_go_and_each_has_an_outcome(sweep: Sweep) -> None:
    files = sweep.files()
    found = tally(run(sweep.step(), files))
    assert sweep.left() == []
    assert [(row["path"], row["outcome"]) for row in sweep.told()] == [
        (path, "deleted") for path in files["path"].to_pylist()
    ]
    assert (found["found"], found["deleted"], found["bytes_deleted"]) == (7, 7, sum(range(7)))


def test_small_batches_are_put_together(sweep: Sweep) -> None:
    files = sweep.files()
    run(sweep.step(), *(files.slice(row, 1) for row in range(COUNT)))
    assert len(list(outcome_parts(Stores(), sweep.outcomes))) == 3


def test_files_can_be_set_aside_instead(sweep: Sweep) -> None:
    files = sweep.files()
    found = tally(run(sweep.step(removal=QuarantineRemoval(sweep.places)), files))
    assert (found["quarantined"], found["bytes_quarantined"], found["deleted"]) == (7, 21, 0)
    told = sweep.told()
    assert all(Path(row["moved_to"]).is_file() and row["way"] == "rename" for row in told)


def test_a_file_that_changed_stays_and_is_no_failure(sweep: Sweep) -> None:
    files = sweep.files()
    (sweep.lake / "3.parquet").write_bytes(b"something else")
    found = tally(run(sweep.step(), files))
    assert (sweep.left(), found["changed"], found["failed"]) == (["3.parquet"], 1, 0)


def test_a_run_that_may_not_go_on_touches_nothing(sweep: Sweep) -> None:
    files = sweep.files()
    request_stop(Stores(), str(sweep.root))
    answers = run(sweep.step(), files)
    assert list(results_of(answers, "stopped", str)) == ["r1 was told to stop"]
    assert (tally(answers)["found"], len(sweep.left()), sweep.told()) == (0, COUNT, [])


@pytest.mark.parametrize("stop", [lambda s: request_stop(Stores(), str(s.root)), "take over"])
def test_a_stop_is_seen_before_the_next_batch(sweep: Sweep, stop: Any) -> None:
    files = sweep.files()

    def effect(call: InterceptedCall) -> Any:
        if callable(stop):
            stop(sweep)
        else:
            other = msgspec.json.encode(FenceRecord("r2", 2, micros(NOON) + 1))
            (sweep.root / CONTROL).write_bytes(other)
        return call.proceed()

    store = Faulty(LocalStore(), [StorageFault(effect, frozenset({"delete"}), times=1)])
    answers = run(sweep.step(store), files)
    assert len(list(results_of(answers, "stopped", str))) == 1
    assert (len(sweep.left()), len(sweep.told())) == (COUNT - 3, 3)


def test_failures_are_told_by_name(sweep: Sweep) -> None:
    denied = refuse(Outcome.DENIED, lambda key: key.endswith("/2.parquet"))
    store = Faulty(LocalStore(), [StorageFault(denied, frozenset({"delete"}))])
    found = tally(run(sweep.step(store), sweep.files()))
    assert (found["failed"], [one["path"] for one in found["failures"]]) == (
        1,
        [f"{sweep.lake}/2.parquet"],
    )


def test_a_step_travels_to_tasks(sweep: Sweep) -> None:
    step: DeleteStep = pickle.loads(pickle.dumps(sweep.step()))
    run(step, sweep.files())
    assert sweep.left() == []


def test_what_was_settled_is_not_tried_again(sweep: Sweep) -> None:
    files = sweep.files()
    run(sweep.step(), files.slice(0, 4))
    assert sweep.rest(files)["path"].to_pylist() == files["path"].to_pylist()[4:]


def test_what_failed_is_tried_again(sweep: Sweep) -> None:
    files = sweep.files()
    denied = refuse(Outcome.DENIED, lambda key: key.endswith("/2.parquet"))
    run(sweep.step(Faulty(LocalStore(), [StorageFault(denied, frozenset({"delete"}))])), files)
    assert sweep.rest(files)["path"].to_pylist() == [f"{sweep.lake}/2.parquet"]


def test_nothing_is_settled_where_no_run_came_to_an_outcome(sweep: Sweep) -> None:
    assert sweep.rest(sweep.files()).num_rows == COUNT


def test_a_part_that_cannot_be_read_settles_nothing(sweep: Sweep) -> None:
    files = sweep.files()
    run(sweep.step(), files)
    damaged, *_ = outcome_parts(Stores(), sweep.outcomes)
    Path(damaged).write_bytes(Path(damaged).read_bytes()[:-8])
    (Path(sweep.outcomes) / ".lakesweep-tmp-1").write_bytes(b"PAR1")
    assert 0 < sweep.rest(files).num_rows < COUNT


REMOVALS: list[Callable[[Sweep], Removal]] = [
    lambda _: DeleteRemoval(),
    lambda s: QuarantineRemoval(s.places),
]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("removal", REMOVALS, ids=["delete", "set-aside"])
def test_a_run_that_dies_anywhere_can_be_resumed(
    tmp_path: Path, removal: Callable[[Sweep], Removal], after: bool
) -> None:
    """Killed before or after each call of the store in turn, until a run comes to its end."""
    died, calls = True, 0
    while died:
        sweep = make_sweep(tmp_path / f"{calls}")
        files = sweep.files()
        with suppress(Death):
            run(sweep.step(Mortal(LocalStore(), calls, after=after), removal(sweep)), files)
            died = False
        run(sweep.step(removal=removal(sweep)), *sweep.rest(files).to_batches())
        assert sweep.left() == []
        assert {row["path"] for row in sweep.told()} == set(files["path"].to_pylist())
        if isinstance(removal(sweep), QuarantineRemoval):
            assert _in_quarantine(sweep) == [b"x" * number for number in range(COUNT)]
        calls += 1
    assert calls > 10


def _in_quarantine(sweep: Sweep) -> list[bytes]:
    folder = sweep.lake / "_lakesweep"
    return sorted(path.read_bytes() for path in folder.rglob("*.parquet"))


@pytest.mark.parametrize(
    ("pace", "rows"),
    [
        (DeleteRate(), 200),
        (DeleteRate(files_per_second=10), 50),
        (DeleteRate(files_per_second=1000, batches_per_second=2), 10),
        (DeleteRate(files_per_second=0.01), 1),
    ],
)
def test_the_first_batch_takes_a_few_seconds_at_most(pace: DeleteRate, rows: int) -> None:
    assert first_rows(pace) == rows


@pytest.mark.parametrize(
    ("rows", "seconds", "fitting"), [(200, 0.0, 400), (200, 5.0, 200), (400, 50.0, 40), (3, 99, 1)]
)
def test_batches_grow_and_shrink_with_the_time_that_they_take(
    rows: int, seconds: float, fitting: int
) -> None:
    assert fitting_rows(rows, seconds) == fitting
