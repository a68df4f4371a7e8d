"""A run that deletes is told to stop, by another process, and gone on with."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.forks import run_command, started
from tests.small_lake import SmallLake

ORPHANS = 2_000
LOCAL = ("--engine", "local", "--json")
APPLY = (*LOCAL, "--yes", "--override", "first-run", "--override", "share")
#: A batch takes a second at first, so that there is time to stop it.
SLOWLY = ("--files-per-second", "40")
_PATIENCE_SECONDS = 60


def _run(lake: SmallLake, *words: str) -> dict[str, Any]:
    done = run_command(lake.folder, *words)
    assert done.code == 0, done.err
    return done.document


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def test_a_run_is_stopped_between_two_batches_and_gone_on_with(tmp_path: Path) -> None:
    lake = SmallLake.make(tmp_path / "lake", orphans=ORPHANS)
    live = lake.files() - lake.orphans()
    plan = _run(lake, "plan", "prod", *LOCAL)["plan"]
    with started(lake.folder, "apply", plan, *APPLY, *SLOWLY) as apply:
        _wait_until(lambda: len(lake.orphans()) < ORPHANS)
        run = str(_run(lake, "runs", "--limit", "1", "--json")["run"])
        assert _run(lake, "runs", "stop", run, "--json") == {"run": run, "stopping": True}
        done = apply.finish()
    stopped = done.document
    assert done.code == 4, done.err
    left = len(lake.orphans())
    assert 0 < left < ORPHANS
    assert (stopped["run"], stopped["deleted"]) == (run, ORPHANS - left)
    assert stopped["stopped"] == f"{run} was told to stop"
    record = _run(lake, "runs", run, "--json")
    assert (record["status"], record["figures"]["deleted"]) == ("stopped", ORPHANS - left)
    assert _run(lake, "show", plan, "--json")["state"] == "applying"

    resumed = _run(lake, "apply", plan, *APPLY)
    assert (resumed["found"], resumed["deleted"], resumed["failed"]) == (left, left, 0)
    assert lake.files() == live
    assert _run(lake, "show", plan, "--json")["state"] == "applied"


def test_sigterm_stops_a_run_between_two_batches(tmp_path: Path) -> None:
    lake = SmallLake.make(tmp_path / "lake", orphans=ORPHANS)
    plan = _run(lake, "plan", "prod", *LOCAL)["plan"]
    with started(lake.folder, "apply", plan, *APPLY, *SLOWLY) as apply:
        _wait_until(lambda: len(lake.orphans()) < ORPHANS)
        os.kill(apply.pid, signal.SIGTERM)
        done = apply.finish()
    assert done.code == 143, done.err
    left = len(lake.orphans())
    assert 0 < left < ORPHANS
    assert done.document["deleted"] == ORPHANS - left
    record = _run(lake, "runs", done.document["run"], "--json")
    assert (record["status"], record["figures"]["deleted"]) == ("stopped", ORPHANS - left)
    # The lease was given back, so the rest can be deleted at once.
    assert _run(lake, "apply", plan, *APPLY)["deleted"] == left


def test_sigterm_stops_a_purge_between_two_requests(tmp_path: Path) -> None:
    lake = SmallLake.make(tmp_path / "lake", orphans=ORPHANS)
    glob = ("--glob", "**/orphan*", "--yes", "--json")
    purge = ("files", "purge", str(lake.data), *glob, *SLOWLY, "--batch-size", "10")
    with started(lake.folder, *purge) as purging:
        _wait_until(lambda: len(lake.orphans()) < ORPHANS)
        os.kill(purging.pid, signal.SIGTERM)
        done = purging.finish()
    assert done.code == 143, done.err
    assert (ORPHANS - len(lake.orphans())) % 10 == 0
    assert "Traceback" not in done.err
