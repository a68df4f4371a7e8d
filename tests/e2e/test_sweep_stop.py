"""A run that deletes is told to stop, by another process, and gone on with."""

from __future__ import annotations

import os
import signal
import socket
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
        followed = started(lake.folder, "runs", "--follow", run, "--json")
        with followed as follow:
            asked = _run(lake, "runs", run, "--cancel", "--json")
            assert (asked["run"], asked["stopping"]) == (run, True)
            events = follow.finish()
        done = apply.finish()
    stopped = done.document
    assert done.code == 4, done.err
    left = len(lake.orphans())
    assert 0 < left < ORPHANS
    assert (stopped["run"], stopped["deleted"]) == (run, ORPHANS - left)
    assert stopped["stopped"] == f"{run} was told to stop"
    record = _run(lake, "runs", run, "--json")
    assert (record["status"], record["figures"]["deleted"]) == ("cancelled", ORPHANS - left)
    assert record["message"] == f"cancelled by {asked['cancelled_by']}"
    assert events.code == 4, events.err
    assert events.lines[-1]["end"]["status"] == "cancelled"
    [*_, told] = [each["progress"] for each in events.lines if each["event"] == "progress"]
    [deleted] = [stage for stage in told["stages"] if stage["stage"] == "deleted"]
    assert (deleted["count"], deleted["total"]) == (ORPHANS - left, ORPHANS)
    assert _run(lake, "show", plan, "--json")["state"] == "applying"

    # A service goes on with the same plan and the same decisions.
    job = _run(lake, "runs", run, "--resume", "--json")["job"]
    with started(lake.folder, "serve", "--port", "0"):
        _wait_until(lambda: _run(lake, "schedule", "jobs", job, "--json")["status"] == "done")
    resumed = _run(lake, "runs", "--limit", "1", "--json")
    assert (resumed["job"], resumed["figures"]["deleted"]) == (job, left)
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


def test_a_run_that_ended_is_followed_to_its_end_at_once(tmp_path: Path) -> None:
    lake = SmallLake.make(tmp_path / "lake", orphans=3)
    plan = _run(lake, "plan", "prod", *LOCAL)["plan"]
    done = run_command(lake.folder, "runs", "--follow", plan, "--json")
    assert (done.code, done.lines[-1]["event"], done.lines[-1]["end"]["status"]) == (
        0,
        "end",
        "done",
    )
    assert done.lines[0]["progress"]["stages"]
    shown = run_command(lake.folder, "runs", "--follow", plan)
    assert (shown.code, "done" in shown.out) == (0, True)
    assert run_command(lake.folder, "runs", "--follow", "plan-none").code == 6


def test_a_run_that_deletes_nothing_is_cancelled_too(tmp_path: Path) -> None:
    lake = SmallLake.make(tmp_path / "lake", orphans=3)
    silent = socket.create_server(("127.0.0.1", 0))  # a catalog that takes requests and is quiet
    uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
    lake.config.write_text(
        f"{lake.config.read_text()}\n[[lakes.prod.roots]]\n"
        f'type = "iceberg-catalog"\nname = "silent"\n'
        f'properties = {{ type = "rest", uri = "{uri}" }}\n'
    )
    with silent, started(lake.folder, "plan", "prod", *LOCAL) as planning:
        _wait_until(lambda: "run" in run_command(lake.folder, "runs", "--json").out)
        run = str(_run(lake, "runs", "--limit", "1", "--json")["run"])
        _run(lake, "runs", run, "--cancel", "--json")
        done = planning.finish()
    assert done.code == 4
    assert "cancelled by" in done.err
    assert _run(lake, "runs", run, "--json")["status"] == "cancelled"
