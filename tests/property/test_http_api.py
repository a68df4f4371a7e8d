"""The HTTP API against its own document: whatever is sent, answers are as it says.

A real server with some content; its jobs are queued and never start.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import schemathesis
import uvicorn
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from lakesweep.catalog.access.realm_bootstrap import bootstrap_realm
from lakesweep.operations.schedules.submitted_jobs import JobRequest, submit_job
from lakesweep.runs.records import RunKind
from lakesweep.runs.schedules import JobKind
from lakesweep.server.api.openapi import openapi_document
from lakesweep.server.api.routes import ROUTES
from tests.service import make_service

_EXAMPLES = 6
_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
#: It would close the service, and nothing else could be tried.
_CLOSES = ("POST", "/api/v1/tokens")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    service = make_service(tmp_path_factory.mktemp("api"))
    app = service.app
    bootstrap_realm(app.runs.realm)
    app.runs.begin("prod", RunKind.CHECK, spec={})
    submit_job(app, JobRequest(JobKind.MAINTAIN))
    config = uvicorn.Config(service, http="httptools", log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("tag", sorted({route.tag for route in ROUTES}))
def test_answers_are_as_the_document_says(url: str, tag: str) -> None:
    schema = schemathesis.openapi.from_dict(openapi_document(ROUTES))
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        is_closing = (operation.method.upper(), operation.path) == _CLOSES
        if operation.definition.raw["tags"] == [tag] and not is_closing:
            _try(operation.as_strategy(), url)


def _try(cases: SearchStrategy[Case[Any]], url: str) -> None:
    @settings(max_examples=_EXAMPLES)
    @given(case=cases)
    def attempt(case: Case[Any]) -> None:
        answer = case.call(base_url=url, timeout=60)
        case.validate_response(answer, checks=_CHECKS)

    attempt()
