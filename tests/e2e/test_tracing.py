"""Traces: what a receiver of OpenTelemetry gets of a run and of a request."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.processes import running
from tests.small_lake import SmallLake


@pytest.fixture
def received() -> Iterator[tuple[str, list[Any]]]:
    """The address of a receiver of OTLP over HTTP, and the spans that it got."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    spans: list[Any] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found = ExportTraceServiceRequest.FromString(body)
            for each in found.resource_spans:
                for scope in each.scope_spans:
                    spans.extend(scope.spans)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quietly."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", spans
        server.shutdown()
        thread.join()


def test_runs_stages_commits_and_requests_are_traced(
    tmp_path: Path, received: tuple[str, list[Any]]
) -> None:
    address, spans = received
    lake = SmallLake.make(tmp_path / "lake", orphans=1)
    environment = {
        **os.environ,
        "OTEL_EXPORTER_OTLP_ENDPOINT": address,
        "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
    }
    command = [sys.executable, "-m", "lakesweep", "--config", str(lake.config)]
    plan = [*command, "plan", "prod", "--engine", "local", "--quiet"]
    subprocess.run(plan, env=environment, check=True, stdout=subprocess.DEVNULL)
    named = {span.name: span for span in spans}
    assert {"run plan", "stage listed", "store commit"} <= named.keys()
    run = named["run plan"]
    assert named["stage listed"].trace_id == run.trace_id
    assert [each.value.string_value for each in run.attributes if each.key == "lake"] == ["prod"]
    spans.clear()
    serve = [*command, "serve", "--port", "0"]
    log = tmp_path / "serve.log"
    with running(
        serve, log, r"listening on (\S+)", stop=signal.SIGTERM, environment=environment
    ) as found:
        assert httpx.get(f"{found[1]}/api/v1/lakes", timeout=60).status_code == 200
    assert "GET /api/v1/lakes" in {span.name for span in spans}


def test_nothing_of_it_is_loaded_unless_it_is_wanted(tmp_path: Path) -> None:
    code = (
        "import sys; from lakesweep.cli.main import run; run(['lakes', '--json']);"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=clean, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr
