"""The service as a real process: its API, its access, and what is wrong with its start."""

from __future__ import annotations

import json
import re
import signal
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.command import Lakesweep
from tests.processes import running
from tests.small_lake import SmallLake
from tests.tls import write_certificate

_DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "lakesweep.json"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> SmallLake:
    lake = SmallLake.make(tmp_path_factory.mktemp("service") / "lake", orphans=3)
    lake.config.write_text(f'engine = "local"\n{lake.config.read_text()}')
    return lake


@pytest.fixture
def lakesweep(lake: SmallLake, capsys: pytest.CaptureFixture[str]) -> Lakesweep:
    return Lakesweep(capsys, lake.config)


def _command(config: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "lakesweep", "--config", str(config), "serve", *words]


@contextmanager
def _serving(config: Path, *words: str) -> Iterator[str]:
    """A service on a free port; yields its address."""
    command = _command(config, "--port", "0", *words)
    log = config.with_name("serve.log")
    with running(command, log, r"listening on (\S+)", stop=signal.SIGTERM) as found:
        yield found[1]


@pytest.fixture(scope="module")
def url(lake: SmallLake) -> Iterator[str]:
    from lakesweep.cli.main import run

    assert run(["--config", str(lake.config), "plan", "prod", "--json"]) == 0
    with _serving(lake.config) as url:
        yield url


def _json(url: str) -> Any:
    answer = httpx.get(url, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_api_tells_what_the_commands_tell(url: str, lakesweep: Lakesweep) -> None:
    api = f"{url}/api/v1"
    assert _json(f"{api}/lakes")["lakes"] == lakesweep("lakes").document["lakes"]
    assert _json(f"{api}/runs")["runs"] == lakesweep("runs").lines
    plan = lakesweep("show", "prod").document
    assert _json(f"{api}/plans/prod") == plan
    assert _json(f"{api}/plans")["plans"][0]["plan"] == plan["plan"]
    files = httpx.get(f"{api}/plans/prod/files", timeout=60)
    assert [json.loads(line) for line in files.text.splitlines()] == lakesweep(
        "show", "prod", "--files"
    ).lines
    orphan = "shop/orders/data/orphan-00001.parquet"
    explained = httpx.get(f"{api}/plans/prod/explain", params={"path": orphan}, timeout=60)
    assert explained.json() == lakesweep("explain", "prod", orphan).document
    assert _json(f"{api}/store") == lakesweep("store", "info").document
    assert _json(f"{api}/realms")["realms"] == lakesweep("realm", "list").document["realms"]
    assert _json(f"{api}/schedules")["schedules"] == []
    assert _json(f"{api}/quarantine")["held"] == lakesweep("quarantine", "list").document["held"]


def test_files_are_filtered_limited_and_come_as_arrow_too(url: str, lake: SmallLake) -> None:
    files = f"{url}/api/v1/plans/prod/files"
    deleted = httpx.get(files, params={"verdict": "delete"}, timeout=60).text.splitlines()
    assert {json.loads(line)["path"] for line in deleted} == lake.orphans()
    assert len(httpx.get(files, params={"limit": 2}, timeout=60).text.splitlines()) == 2
    one = min(lake.orphans())
    assert len(httpx.get(files, params={"path": one}, timeout=60).text.splitlines()) == 1
    folder = httpx.get(files, params={"path": str(lake.data) + "/"}, timeout=60)
    assert len(folder.text.splitlines()) == len([*lake.data.iterdir()])
    assert httpx.get(files, params={"path": one[:-1]}, timeout=60).text == ""
    arrow = {"accept": "application/vnd.apache.arrow.stream"}
    answer = httpx.get(files, params={"verdict": "delete"}, headers=arrow, timeout=60)
    table = pa.ipc.open_stream(answer.content).read_all()
    assert set(table["path"].to_pylist()) == lake.orphans()
    assert httpx.get(files, headers={"accept": "image/png"}, timeout=60).status_code == 406
    assert httpx.get(files, params={"table": "no.such"}, timeout=60).status_code == 404


def test_metrics_tell_of_lakes_runs_and_the_store(url: str) -> None:
    text = httpx.get(f"{url}/metrics", timeout=60).text
    for line in (
        'lakesweep_runs{kind="plan",status="done"} 1.0',
        'lakesweep_found_files{lake="prod"} 3.0',
        'lakesweep_found_bytes{lake="prod"} 18.0',
        'lakesweep_stage_files{kind="plan",lake="prod",stage="listed"} 12.0',
        'lakesweep_stage_seconds{kind="plan",lake="prod",stage="listed"}',
        'lakesweep_roots_incomplete{lake="prod"} 0.0',
        'lakesweep_deleted_bytes_total{lake="prod"} 0.0',
        'lakesweep_quarantined_bytes{lake="prod"} 0.0',
        "lakesweep_due_times_late 0.0",
    ):
        assert line in text
    for name in ("store_commits_total", "store_conflicts_total", "cache_hits_total"):
        assert f"lakesweep_{name}" in text


def test_the_dashboard_asks_for_metrics_that_exist(url: str) -> None:
    _json(f"{url}/health/live")  # the first request is counted
    text = httpx.get(f"{url}/metrics", timeout=60).text
    told = set(re.findall(r"^lakesweep_\w+", text, re.MULTILINE))
    asked = set(re.findall(r"lakesweep_\w+", _DASHBOARD.read_text()))
    assert asked
    assert asked <= told


def test_requests_that_are_no_http_do_not_stop_it(url: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    for sent in (b"\x00\xff\xfe\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"a" * 100_000):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1_000)
    assert _json(f"{url}/health/ready") == {"status": "ready"}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "lakesweep.toml"
    file.write_text("")
    return file


def test_it_does_not_start_beyond_this_machine_without_authentication(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lakesweep = Lakesweep(capsys, config)
    refused = lakesweep("serve", "--host", "0.0.0.0", "--port", "0")
    assert refused.code == 2
    assert "open to everyone" in refused.error["message"]
    assert "lakesweep token create" in refused.error["hint"]
    made = lakesweep("token", "create", "ci", "--role", "viewer").document
    with _serving(config, "--host", "0.0.0.0") as address:
        url = address.replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(f"{url}/api/v1/lakes").status_code == 401
        headers = {"authorization": f"Bearer {made['text']}"}
        assert httpx.get(f"{url}/api/v1/lakes", headers=headers).json()["lakes"] == []
        lakesweep("token", "revoke", "ci")
        assert httpx.get(f"{url}/api/v1/lakes", headers=headers).status_code == 401
    assert made["text"] not in config.with_name("serve.log").read_text()


def test_it_speaks_tls_and_logs_json(config: Path) -> None:
    write_certificate(config.parent)
    config.write_text('[server]\ncertificate = "cert.pem"\nkey = "key.pem"\nlog = "json"\n')
    with _serving(config) as url:
        assert url.startswith("https://")
        context = ssl.create_default_context(cafile=str(config.with_name("cert.pem")))
        answer = httpx.get(f"{url}/api/v1/lakes?limit=7", verify=context)
        assert answer.status_code == 200
        assert "strict-transport-security" in answer.headers
    lines = config.with_name("serve.log").read_text().splitlines()
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    assert logged[0]["route"] == "/api/v1/lakes"
    assert logged[0]["status"] == 200
    assert "limit=7" not in "".join(lines)
    assert lines[-1] == "stopped; jobs that run go on"


def _finished(url: str, job: httpx.Response) -> dict[str, Any]:
    """A job that was accepted, once it has ended."""
    assert job.status_code == 202, job.text
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        found: dict[str, Any] = _json(f"{url}{job.headers['location']}")
        if found["status"] not in ("queued", "running"):
            return found
        time.sleep(0.2)
    raise AssertionError("the job did not end in time")


def test_a_lake_is_planned_applied_and_restored_over_http(
    url: str, lake: SmallLake, lakesweep: Lakesweep
) -> None:
    api, orphans = f"{url}/api/v1", lake.orphans()
    planned = _finished(url, httpx.post(f"{api}/plans", json={"lake": "prod"}, timeout=60))
    assert planned["status"] == "done"
    assert planned["claimed_by"] == "anyone on this machine"
    plan = planned["run"]
    with httpx.stream("GET", f"{api}/runs/{plan}/events", timeout=60) as events:
        assert events.headers["content-type"].startswith("text/event-stream")
        lines = [*events.iter_lines()]
    assert "event: end" in lines
    end = json.loads(next(line for line in reversed(lines) if line.startswith("data: "))[6:])
    assert (end["status"], end["exit_code"]) == ("done", 0)

    refused = _finished(url, httpx.post(f"{api}/plans/{plan}:apply", json={}, timeout=60))
    assert refused["status"] == "refused"  # the first apply of a lake needs a look
    assert lake.orphans() == orphans
    override = {"override": ["first-run"]}
    applied = _finished(url, httpx.post(f"{api}/plans/{plan}:apply", json=override, timeout=60))
    assert applied["status"] == "done", applied
    assert lake.orphans() == set()
    run = _json(f"{api}/runs/{applied['run']}")
    assert (run["job"], run["figures"]["quarantined"]) == (applied["job"], 3)
    assert run == lakesweep("runs", applied["run"]).document
    assert _json(f"{api}/quarantine")["held"][0]["files"] == 3

    one = {"paths": ["shop/orders/data/orphan-00001.parquet"]}
    held = f"{api}/quarantine/{plan}"
    assert _finished(url, httpx.post(f"{held}:restore", json=one, timeout=60))["exit_code"] == 0
    assert len(lake.orphans()) == 1
    assert _finished(url, httpx.post(f"{held}:empty", json={}, timeout=60))["status"] == "done"
    assert _json(f"{api}/quarantine")["held"][0]["emptied_by"]
    jobs = _json(f"{api}/jobs?limit=2")
    assert [job["kind"] for job in jobs["jobs"]] == ["quarantine-release", "quarantine-restore"]
    assert jobs["next"]
    for body in ({"lake": "--help"}, {"lake": "none"}):
        assert httpx.post(f"{api}/plans", json=body, timeout=60).status_code == 404
