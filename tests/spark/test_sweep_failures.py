"""What goes wrong on Spark while a plan is applied: one error, nothing live lost, and a way on."""

from __future__ import annotations

import os
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakesweep.sweep.apply.deletion import outcome_parts
from tests.command import Lakesweep
from tests.forks import Command
from tests.process_tree import await_end, await_that, descendants
from tests.small_lake import SmallLake
from tests.spark.conftest import QUICK, on_cluster
from tests.spark.installed import Installed, talk

_ORPHANS = 96
#: It takes seconds, so there is a middle to it.
_SLOWLY = ("--files-per-second", "12")
_APPLY = ("--yes", "--override", "first-run", "--override", "share")


class Shore:
    """A small lake with a plan, and all that can be told from outside of how it is applied."""

    def __init__(self, lake: SmallLake, lakesweep: Lakesweep) -> None:
        self.lake = lake
        self.lakesweep = lakesweep
        self.installed = Installed(lake.config)
        self.orphans = lake.orphans()
        self.live = lake.files() - self.orphans
        self.plan = str(lakesweep("plan", "prod", "--engine", "local").document["plan"])

    @property
    def apply(self) -> tuple[str, ...]:
        return ("apply", self.plan, *_SLOWLY, *_APPLY)

    @property
    def announcement(self) -> str:
        return f"plan {self.plan} of lake prod: 96 files, 576 B to delete"

    def outcomes(self) -> Counter[tuple[str, str]]:
        """How often each outcome of each file was written down."""
        app = self.installed.app
        parts = outcome_parts(app.stores, f"{app.runs.plan(self.plan).address}/outcomes")
        tables = (pq.read_table(part) for part in parts)
        return Counter((row["path"], row["outcome"]) for t in tables for row in t.to_pylist())

    def await_middle(self, process: Command) -> None:
        """Wait until a command has deleted some files, and most of them not."""

        def is_middle() -> bool:
            assert process.is_running(), process.finish()
            return len(self.lake.orphans()) <= _ORPHANS - 8

        await_that(is_middle, "deletes")

    def check_gone(self) -> None:
        """All that was planned has gone, nothing else, and each file is written down."""
        assert self.lake.files() == self.live
        outcomes = self.outcomes()
        assert {path for path, _ in outcomes} == self.orphans
        assert {outcome for _, outcome in outcomes} <= {"deleted", "absent"}
        assert all(times == 1 for (_, how), times in outcomes.items() if how == "deleted")

    def resume(self) -> None:
        """Apply the same plan again, in this process, to its end."""
        done = self.lakesweep("apply", self.plan, "--engine", "local", *_APPLY)
        assert done.code == 0
        self.check_gone()


@pytest.fixture
def shore(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Shore:
    lake = SmallLake.make(tmp_path / "lake", orphans=_ORPHANS)
    return Shore(lake, Lakesweep(capfd, lake.config))


def test_an_apply_outlives_an_executor_that_is_killed(shore: Shore, cluster: str) -> None:
    shore.installed.use(master=cluster, conf=on_cluster())
    with shore.installed.start(*shore.apply, "--json") as process:
        shore.await_middle(process)
        os.kill(max(descendants(os.getpid(), "CoarseGrainedExecutorBackend")), signal.SIGKILL)
        done = process.finish()
    assert (done.code, talk(done)) == (0, [shore.announcement])
    document = done.document
    assert document["found"] == document["deleted"] + document["absent"] == _ORPHANS
    shore.check_gone()


def kill_workers(process: Command) -> None:
    """Kill the Python workers of Spark, but not the daemon that starts them."""
    for worker in list(descendants(process.pid, "pyspark.worker"))[1:]:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def test_an_apply_without_second_tries_ends_with_one_error_and_is_resumed(shore: Shore) -> None:
    shore.installed.use(master="local[2]", conf=QUICK)
    with shore.installed.start(*shore.apply) as process:
        shore.await_middle(process)
        # One that has nothing to do at the moment is not missed.
        while process.is_running():
            kill_workers(process)
        done = process.finish()
    assert (done.code, done.out) == (4, "")
    announcement, error, hint = talk(done)
    assert announcement == shore.announcement
    assert error.startswith("error: Spark lost one of its processes: ")
    assert hint == (
        "try: check that the cluster is running and has memory, then run the command again"
    )
    shore.resume()


def interrupted(shore: Shore) -> list[str]:
    return [shore.announcement, "error: interrupted; it is safe to run the same command again"]


def test_an_interrupt_ends_all_that_runs_for_a_command(shore: Shore) -> None:
    shore.installed.use(master="local[2]", conf=QUICK)
    with shore.installed.start(*shore.apply) as process:
        shore.await_middle(process)
        started = descendants(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        done = process.finish()
    assert any("java" in command for command in started.values())
    assert (done.code, talk(done)) == (130, interrupted(shore))
    await_end(started)
    shore.resume()


def test_an_interrupt_over_spark_connect_leaves_no_task_that_deletes(
    shore: Shore, connect_server: str
) -> None:
    shore.installed.use(remote=connect_server)
    with shore.installed.start(*shore.apply) as process:
        shore.await_middle(process)
        os.killpg(process.pid, signal.SIGINT)
        done = process.finish()
    assert (done.code, talk(done)) == (130, interrupted(shore))
    shore.resume()


def test_a_failure_of_spark_itself_is_told_in_one_line_and_whole_when_asked(shore: Shore) -> None:
    shore.installed.use(master="local[2]", conf={**QUICK, "spark.driver.maxResultSize": "1"})
    done = shore.installed("-v", "plan", "prod")
    assert (done.code, done.out) == (1, "")
    *_, error, hint = talk(done)
    assert error.startswith("error: a job failed inside Spark: Total size of serialized results")
    assert hint.startswith("try: ")
    assert "Traceback (most recent call last)" in done.err
    assert set(shore.lake.files()) == shore.live | shore.orphans
