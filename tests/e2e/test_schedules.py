"""Schedules from the command line, and services that run them as real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.command import Lakesweep
from tests.small_lake import SmallLake
from tests.webhook_server import webhook_server

_PATIENCE_SECONDS = 120
_OFTEN = """
[lakes.prod.limits]
max_share = 1
max_table_share = 1

[schedules.often]
job = "sweep"
lake = "*"
every = "3s"
"""


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    lake = SmallLake.make(tmp_path / "lake", orphans=3)
    lake.config.write_text(f'engine = "local"\n{lake.config.read_text()}')
    return lake


@pytest.fixture
def lakesweep(lake: SmallLake, capsys: pytest.CaptureFixture[str]) -> Lakesweep:
    return Lakesweep(capsys, lake.config)


@contextmanager
def _service(lake: SmallLake) -> Iterator[subprocess.Popen[bytes]]:
    words = [
        sys.executable,
        "-m",
        "lakesweep",
        "--config",
        str(lake.config),
        "serve",
        "--port",
        "0",
    ]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def _until(found: Callable[[], Any]) -> Any:
    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.2)
    raise AssertionError("it did not happen in time")


def _jobs(lakesweep: Lakesweep, *statuses: str) -> list[dict[str, Any]]:
    jobs = lakesweep("schedule", "show", "often").document["jobs"]
    return [job for job in jobs if not statuses or job["status"] in statuses]


def test_schedules_are_added_listed_paused_and_removed(
    lake: SmallLake, lakesweep: Lakesweep
) -> None:
    assert lakesweep("schedule", "list").document == {"schedules": []}
    assert not (lake.folder / ".lakesweep").exists()
    added = lakesweep(
        "schedule", "add", "n", "--job", "sweep", "--lake", "*", "--cron", "0 2 * * *"
    )
    assert (added.code, len(added.document["next_due"])) == (0, 5)
    paused = lakesweep("schedule", "pause", "n").document
    assert paused["paused_by"]
    assert paused["next_due"] == []
    assert lakesweep("schedule", "resume", "n").document["paused_by"] is None
    assert lakesweep("schedule", "remove", "n").code == 0
    assert lakesweep("schedule", "show", "n").code == 6
    log = "".join(json.dumps(line) for line in lakesweep("store", "log", "schedules").lines)
    assert "schedule n is paused" in log


@pytest.mark.parametrize(
    "words",
    [
        ("--job", "sweep", "--lake", "prod"),
        ("--job", "sweep", "--lake", "prod", "--every", "1h", "--cron", "0 2 * * *"),
        ("--job", "sweep", "--lake", "prod", "--cron", "0 25 * * *"),
        ("--job", "sweep", "--lake", "prod", "--cron", "0 2 * * *", "--zone", "Moon/Base"),
        ("--job", "sweep", "--lake", "nope", "--every", "1h"),
        ("--job", "swap", "--lake", "prod", "--every", "1h"),
        ("--job", "paimon-orphans", "--every", "1h"),
        ("--job", "sweep", "--lake", "prod", "--every", "0s"),
        ("--job", "check", "--lake", "prod", "--every", "auto"),
        ("--job", "sweep", "--lake", "prod", "--every", "auto", "--shortest", "8d"),
        ("--job", "iceberg-expire", "--every", "1h"),
        ("--job", "policy", "--every", "1h"),
        ("--job", "lifecycle", "--target", "repo", "--every", "1h"),
        ("--job", "apply", "--target", "plan-1", "--every", "1h"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused_with_advice(
    lakesweep: Lakesweep, words: tuple[str, ...]
) -> None:
    refused = lakesweep("schedule", "add", "n", *words)
    assert refused.code == 2
    assert refused.error["hint"]


def test_a_service_sweeps_when_due_waits_for_approval_and_applies_what_was_approved(
    lake: SmallLake, lakesweep: Lakesweep
) -> None:
    lake.config.write_text(lake.config.read_text() + _OFTEN)
    lakesweep("store", "init")
    with _service(lake):
        _until(lambda: _jobs(lakesweep))
        lakesweep("schedule", "pause", "often")
        _until(lambda: not _jobs(lakesweep, "queued", "running"))
        waiting = _jobs(lakesweep)[0]
        assert waiting["status"] == "waiting"
        assert waiting["message"].startswith("needs approval: ")
        output = lakesweep("schedule", "jobs", waiting["job"], "--output").document["lines"]
        assert waiting["message"] in output
        assert lakesweep("approve", "prod").code == 0
        lakesweep("schedule", "run", "often")
        _until(lambda: not lake.orphans())
        _until(lambda: not _jobs(lakesweep, "queued", "running"))
    assert _jobs(lakesweep)[0]["status"] == "done"
    held = lakesweep("quarantine", "list").document["held"]
    assert [each["files"] for each in held] == [3]


def test_a_service_maintains_the_store_when_due(lake: SmallLake, lakesweep: Lakesweep) -> None:
    schedule = '\n[schedules.often]\njob = "maintain"\nevery = "1s"\n'
    lake.config.write_text(lake.config.read_text() + schedule)
    lakesweep("store", "init")
    with _service(lake):
        _until(lambda: lakesweep("runs", "--status", "done").lines)
    [run, *_] = lakesweep("runs", "--status", "done").lines
    assert run["run"].startswith("maintain-")


def test_a_job_goes_on_when_its_service_is_killed_and_no_due_time_runs_twice(
    lake: SmallLake, lakesweep: Lakesweep
) -> None:
    lake.config.write_text(lake.config.read_text() + _OFTEN)
    lakesweep("store", "init")
    with _service(lake) as first:
        _until(lambda: _jobs(lakesweep, "running"))
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        lakesweep("schedule", "pause", "often")
    _until(lambda: not _jobs(lakesweep, "running"))
    lakesweep("schedule", "resume", "often")
    with _service(lake), _service(lake):
        before = len(_jobs(lakesweep))
        _until(lambda: len(_jobs(lakesweep)) > before)
        lakesweep("schedule", "pause", "often")
        _until(lambda: not _jobs(lakesweep, "queued", "running"))
    jobs = _jobs(lakesweep)
    assert len({job["due"] for job in jobs}) == len(jobs)
    assert {job["attempt"] for job in jobs if job["status"] != "skipped"} == {1}


def test_a_service_tells_a_webhook_that_a_plan_needs_approval(
    lake: SmallLake, lakesweep: Lakesweep
) -> None:
    with webhook_server(503) as server:
        hook = f'[[webhooks]]\nurl = "{server.url}"\nsecret = "a long secret"\n'
        lake.config.write_text(f"{lake.config.read_text()}\n{hook}")
        assert lakesweep("sweep", "prod", "--engine", "local").code == 3
        with _service(lake):
            assert server.came.wait(_PATIENCE_SECONDS)
    first, *_ = (json.loads(body) for _, _, body in server.requests)
    assert first["type"] == "io.lakesweep.approval.needed"
    assert first["data"]["reasons"]
