"""A run that deletes is told to stop, by another process, and gone on with."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

from lakesweep.clock import ManualClock, SystemClock
from lakesweep.maintenance.run_records import TYPES
from lakesweep.runs.records import LeaseRecord
from lakesweep.store import Store
from tests.forks import run_command, started
from tests.lakefs import RealRepositories
from tests.lifecycle_plans import recorded
from tests.small_lake import SmallLake

ORPHANS = 2_000
LOCAL = ("--engine", "local", "--json")
APPLY = (*LOCAL, "--yes", "--override", "first-run", "--override", "share")
#: A batch takes a second at first, so that there is time to stop it.
SLOWLY = ("--files-per-second", "40")
_PATIENCE_SECONDS = 60


def _run(lake: SmallLake, *words: str) -> dict[str, Any]:
    return _document(lake.folder, *words)


def _document(folder: Path, *words: str) -> dict[str, Any]:
    done = run_command(folder, *words)
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
    left = len(lake.orphans())
    assert 0 < left < ORPHANS
    assert (ORPHANS - left) % 10 == 0
    assert "Traceback" not in done.err


def test_sigterm_stops_a_lifecycle_between_two_batches(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    data = recorded(lakefs_repositories, "analytics", tmp_path).real.folder / "data"
    policy = {"state": {"prefix": "state", "days": 30, "enabled": True}}
    (tmp_path / "lakesweep.toml").touch()
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    words = ("lifecycle", "plan", str(data.parent), "--policy", "policy.json", *LOCAL)
    plan = _document(tmp_path, *words, "--override", "staged")["plan"]
    doomed = [data.parent / line["path"] for line in _doomed(tmp_path, plan)]
    apply = ("lifecycle", "apply", plan, *LOCAL, "--yes", "--override", "first-run,refs-dump,share")
    with started(tmp_path, *apply, "--files-per-second", "1") as applying:
        _wait_until(lambda: _left(doomed) < len(doomed))
        os.kill(applying.pid, signal.SIGTERM)
        done = applying.finish()
    assert done.code == 143, done.err
    left = _left(doomed)
    assert left > 0
    assert done.document["deleted"] == len(doomed) - left
    record = _document(tmp_path, "runs", done.document["run"], "--json")
    assert (record["status"], record["figures"]["deleted"]) == ("stopped", len(doomed) - left)
    assert _document(tmp_path, *apply)["deleted"] == left
    assert _left(doomed) == 0


def _doomed(folder: Path, plan: str) -> list[dict[str, Any]]:
    return run_command(folder, "lifecycle", "show", plan, "--verdict", "delete", "--json").lines


def _left(files: list[Path]) -> int:
    return sum(path.exists() for path in files)


def test_sigterm_stops_a_maintenance_run_that_the_next_one_goes_on_with(tmp_path: Path) -> None:
    url, config = f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "lakesweep.toml"
    settings = f'[store]\nurl = "{url}"\n[maintenance]\ndelete_batch_size = 20\n'
    config.write_text(f"{settings}object_scan_rate_limit_per_second = 100\n")
    assert run_command(tmp_path, "store", "init").code == 0
    clock = ManualClock(SystemClock().now() - timedelta(days=1))
    with Store.open(url, types=TYPES, clock=clock) as store:
        realm = store.realm("default")
        nothing = LeaseRecord(token=0, run="", holder="", expires_at=0)
        realm.objects.write_many({realm.new_id(): nothing for _ in range(ORPHANS)})
    maintain = ("store", "maintain", "--yes", "--realm", "default", "--json")
    with started(tmp_path, *maintain) as maintaining:
        _wait_until(lambda: _objects(tmp_path) < ORPHANS)
        os.kill(maintaining.pid, signal.SIGTERM)
        done = maintaining.finish()
    assert done.code == 143, done.err
    assert 0 < _objects(tmp_path) < ORPHANS
    [record] = run_command(tmp_path, "runs", "--json").lines
    assert (record["status"], record["message"]) == ("stopped", "ended by SIGTERM")
    config.write_text(settings)
    rest = _document(tmp_path, *maintain)  # nothing waits for a lease
    assert rest["resumes"] == record["run"]
    assert _objects(tmp_path) == 0


def _objects(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "store.db")) as database:
        counted = "SELECT count(*) FROM lakesweep_objects WHERE realm = ?"
        return int(database.execute(counted, (b"default",)).fetchone()[0])


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
