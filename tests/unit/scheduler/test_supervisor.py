"""Commands that do not end when asked, and names that look like options."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from lakesweep.app import App
from lakesweep.config.file import load_config
from lakesweep.operations.schedules.jobs import command_of
from lakesweep.runs.job_records import JobStatus
from lakesweep.runs.schedules import JobKind
from lakesweep.scheduler.service import SchedulerService
from lakesweep.scheduler.supervisor import Supervisor

_DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
_PRIORITY = "import os, sys; print(os.getpriority(os.PRIO_PROCESS, 0), file=sys.stderr)"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    file = tmp_path / "lakesweep.toml"
    file.write_text("")
    made = App(load_config(file, {}), folder=tmp_path, config_file=file)
    yield made
    made.close()


def test_a_command_that_does_not_stop_is_killed(app: App) -> None:
    job = app.schedules.submit(JobKind.MAINTAIN, "", (), "me")
    app.schedules.change_job(job, lambda each: msgspec.structs.replace(each, timeout=1))
    supervisor = Supervisor(
        app.schedules, [sys.executable, "-c", _DEAF], look_seconds=0.1, kill_seconds=0.5
    )
    assert supervisor.run(job.name) is JobStatus.CANCELLED
    assert "timeout of 1 s" in app.schedules.job(job.name).message


def test_a_command_gives_way_to_the_service(app: App) -> None:
    job = app.schedules.submit(JobKind.MAINTAIN, "", (), "me")
    supervisor = Supervisor(app.schedules, [sys.executable, "-c", _PRIORITY], look_seconds=0.1)
    assert supervisor.run(job.name) is JobStatus.DONE
    assert int(app.schedules.job(job.name).output[-1]) > os.getpriority(os.PRIO_PROCESS, 0)


def test_a_target_is_no_option(app: App) -> None:
    job = app.schedules.submit(JobKind.PAIMON_ORPHANS, "--help", (), "me")
    assert command_of(job)[-2:] == ["--", "--help"]
    supervisor = Supervisor(app.schedules, [sys.executable, "-m", "lakesweep"])
    assert supervisor.run(job.name) is JobStatus.FAILED


def test_the_name_of_a_job_is_no_option(app: App) -> None:
    service = SchedulerService(app, app.schedules, 1, app.config_file, lambda _: None)
    process = service._start("--config=elsewhere")
    assert isinstance(process, subprocess.Popen)
    assert process.wait() == 1  # there is no such job; options that are wrong would be 2
