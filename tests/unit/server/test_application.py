from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lakesweep.catalog.access.service_tokens import ServiceRole
from lakesweep.operations.catalogs.tokens import revoke_token
from lakesweep.operations.schedules.jobs import command_of
from lakesweep.server.api.call import Route
from lakesweep.server.api.routes import ROUTES
from lakesweep.server.application import Service
from tests.service import ServiceClient, client_of, make_service, tokens_of

_LAKES = "/api/v1/lakes"


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return make_service(tmp_path)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Service, dict[str | None, str]]:
    """A service with a token for each role."""
    service = make_service(tmp_path_factory.mktemp("service"))
    return service, {role.value: text for role, text in tokens_of(service).items()}


def _status(client: ServiceClient, route: Route[Any]) -> int:
    """How a call ends with names of nothing, and a body that is no body."""
    path = route.path.replace("{", "").replace("}", "")
    body = b"[]" if route.has_body else None
    headers = {"content-type": route.takes} if route.has_body else {}
    return client.request(route.method, path, content=body, headers=headers).status_code


def _is_right(route: Route[Any], role: ServiceRole | None, status: int) -> bool:
    if route.role is None:
        return status not in (401, 403)
    if role is None:
        return status == 401
    return (status == 403) is not role.covers(route.role) and status != 401


@pytest.mark.parametrize("role", [None, *ServiceRole])
def test_every_route_lets_in_its_role_and_those_above_it(
    closed: tuple[Service, dict[str | None, str]], role: ServiceRole | None
) -> None:
    service, tokens = closed
    client = client_of(service, None if role is None else tokens[role.value])
    found = {f"{route.method} {route.path}": (route, _status(client, route)) for route in ROUTES}
    assert not {name: status for name, (_, status) in found.items() if status >= 500}
    wrong = {
        n: status for n, (route, status) in found.items() if not _is_right(route, role, status)
    }
    assert not wrong


def test_every_route_with_an_effect_needs_more_than_a_viewer() -> None:
    open_to_viewers = [
        route.path
        for route in ROUTES
        if route.method != "GET" and route.role in (None, ServiceRole.VIEWER)
    ]
    assert open_to_viewers == ["/api/v1/oauth/token"]


def test_without_tokens_it_is_open_to_this_machine_and_the_first_token_closes_it(
    service: Service,
) -> None:
    client = client_of(service)
    assert client.get(_LAKES).json()["lakes"][0]["lake"] == "prod"
    tokens = tokens_of(service)
    assert client.get(_LAKES).status_code == 401
    assert client_of(service, tokens[ServiceRole.VIEWER]).get(_LAKES).status_code == 200


def test_it_stays_closed_when_all_tokens_are_revoked(service: Service) -> None:
    tokens = tokens_of(service)
    for role in tokens:
        revoke_token(service.app, f"a {role}")
    assert client_of(service).get(_LAKES).status_code == 401
    refused = client_of(service, tokens[ServiceRole.ADMIN]).get(_LAKES)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")


def test_an_open_service_answers_only_to_names_of_this_machine(service: Service) -> None:
    assert client_of(service, host="localhost").get(_LAKES).status_code == 200
    assert client_of(service, host="evil.example").get(_LAKES).status_code == 403


def test_an_open_service_changes_nothing_for_other_sites_or_for_forms(service: Service) -> None:
    client, path = client_of(service), "/api/v1/tokens"
    body = {"name": "x", "role": "admin"}
    for headers in (
        {"origin": "http://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
    ):
        refused = client.post(path, content=json.dumps(body), headers=headers)
        assert refused.status_code in (403, 415)
    assert service.app.tokens.is_empty
    own = {"origin": "http://127.0.0.1:8080", "sec-fetch-site": "same-origin"}
    assert client.post(path, json=body, headers=own).status_code == 201


def test_an_address_beyond_this_machine_is_never_open(tmp_path: Path) -> None:
    service = make_service(tmp_path, host="0.0.0.0")
    assert client_of(service).get(_LAKES).status_code == 401
    assert client_of(service).get("/health/live").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/api/v1/nothing", None, 404),
        ("GET", "/api/v1/lakes/none", None, 404),
        ("GET", "/api/v1/plans/none", None, 404),
        ("GET", "/api/v1/runs/none", None, 404),
        ("GET", "/api/v1/schedules/none", None, 404),
        ("PATCH", "/api/v1/lakes", None, 405),
        ("GET", "/api/v1/lakes?color=red", None, 400),
        ("GET", "/api/v1/lakes?limit=0", None, 400),
        ("GET", "/api/v1/lakes?limit=5&limit=6", None, 400),
        ("GET", "/api/v1/lakes?limit=a", None, 400),
        ("GET", "/api/v1/lakes?cursor=x", None, 400),
        ("GET", "/api/v1/lakes?cursor=kgEC", None, 400),
        ("GET", "/api/v1/lakes/%ff", None, 400),
        ("GET", "/api/v1/runs?status=odd", None, 400),
        ("GET", "/api/v1/runs?since=yesterday", None, 400),
        ("PUT", "/api/v1/schedules/n", b"{}", 400),
        ("PUT", "/api/v1/schedules/n", b'{"job": "sweep", "odd": 1}', 400),
        ("PUT", "/api/v1/schedules/n", b'{"job": "sweep", "lake": "prod", "every": "x"}', 400),
        ("PUT", "/api/v1/schedules/n?x=1", b'{"job": "sweep"}', 400),
        ("POST", "/api/v1/tokens", b"{", 400),
        ("POST", "/api/v1/tokens", b"[" * 100_000, 400),
        ("POST", "/api/v1/tokens", b'{"name": "n", "role": "king"}', 400),
        ("POST", "/api/v1/tokens", b'{"name": "n", "role": "admin", "expires": "0s"}', 400),
        ("POST", "/api/v1/tokens", b"\xff\xfe", 400),
        ("POST", "/api/v1/tokens", b" " * 1_000_001, 413),
    ],
)
def test_what_is_wrong_with_a_request_is_told_in_a_problem_document(
    service: Service, method: str, path: str, body: bytes | None, status: int
) -> None:
    headers = {"content-type": "application/json"}
    answer = client_of(service).request(method, path, content=body, headers=headers)
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (status, status)
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["type"].startswith("urn:lakesweep:problem:")
    assert problem["title"]
    assert problem["detail"]
    assert problem["hint"]


def test_a_problem_carries_the_type_hint_and_exit_code_of_the_command(service: Service) -> None:
    problem = client_of(service).get("/api/v1/plans/none").json()
    assert problem["type"] == "urn:lakesweep:problem:NotFoundError"
    assert problem["hint"] == "lakesweep runs lists them"
    assert problem["exit_code"] == 6


def test_names_may_hold_whatever_urls_give_a_meaning_to(service: Service) -> None:
    client = client_of(service)
    for name, sent in {
        "a+b": "a+b",
        "50%": "50%25",
        "a:run": "a%3Arun",
        "ü b": "%C3%BC%20b",
    }.items():
        body = {"job": "maintain", "every": "1d"}
        assert client.put(f"/api/v1/schedules/{sent}", json=body).json()["name"] == name
        assert client.get(f"/api/v1/schedules/{sent}").json()["name"] == name
    listed = client.get("/api/v1/schedules").json()["schedules"]
    assert [each["name"] for each in listed] == sorted(["a+b", "50%", "a:run", "ü b"])
    refused = client.put("/api/v1/schedules/a%2Fb", json={"job": "maintain", "every": "1d"})
    assert refused.status_code == 400  # no schedule has a slash; the route was found


def test_the_rules_of_a_lake_are_carried_out_by_a_job(service: Service) -> None:
    client = client_of(service)
    body = {"max_snapshot_age": "7d", "min_snapshots": 3, "dry_run": True, "batch_size": 10}
    queued = client.post("/api/v1/lakes/prod:policy", json=body)
    assert queued.status_code == 202
    job = service.app.schedules.job(queued.json()["job"])
    assert command_of(job) == [
        *("policy", "run", "--yes", "--max-snapshot-age=7d", "--min-snapshots=3"),
        *("--batch-size=10", "--dry-run", "--lake=prod"),
    ]
    for path, wrong in (("none", {}), ("prod", {"max_snapshot_age": "soon"})):
        answer = client.post(f"/api/v1/lakes/{path}:policy", json=wrong)
        assert answer.status_code in (400, 404)
    schedule = {"job": "policy", "lake": "*", "every": "1d"}
    assert client.put("/api/v1/schedules/upkeep", json=schedule).json()["job"] == "policy"


def test_lists_come_in_pages_that_miss_nothing(service: Service) -> None:
    client = client_of(service)
    for number in range(5):
        client.put(f"/api/v1/schedules/n{number}", json={"job": "maintain", "every": "1d"})
    names: list[str] = []
    cursor: str | None = None
    while True:
        given = {"limit": "2", **({"cursor": cursor} if cursor else {})}
        page = client.get("/api/v1/schedules", params=given).json()
        names += [each["name"] for each in page["schedules"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert names == [f"n{number}" for number in range(5)]


def test_who_changed_a_schedule_is_the_caller(service: Service) -> None:
    tokens = tokens_of(service)
    admin = client_of(service, tokens[ServiceRole.ADMIN])
    made = admin.put("/api/v1/schedules/n", json={"job": "maintain", "every": "1d"}).json()
    assert made["changed_by"] == "a admin"
    operator = client_of(service, tokens[ServiceRole.OPERATOR])
    assert operator.post("/api/v1/schedules/n:pause").json()["paused_by"] == "a operator"
    assert operator.post("/api/v1/schedules/n:resume").json()["paused_by"] is None
    assert operator.delete("/api/v1/schedules/n").status_code == 403
    assert admin.delete("/api/v1/schedules/n").status_code == 204


def test_answers_have_security_headers_and_no_server_name(service: Service) -> None:
    for path in (_LAKES, "/api/docs", "/nothing"):
        headers = client_of(service).get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "server" not in headers


def test_the_document_and_the_page_show_every_route(service: Service) -> None:
    client = client_of(service)
    document = client.get("/api/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    found = {(m.upper(), path) for path, calls in document["paths"].items() for m in calls}
    assert found == {(route.method, route.path) for route in ROUTES}
    page = client.get("/api/docs").text
    assert all(route.summary in page for route in ROUTES)
    assert "<script" not in page


def test_requests_are_counted_by_route_and_never_by_path(service: Service) -> None:
    client = client_of(service)
    client.get("/api/v1/lakes/secret-name")
    client.request("BREW", "/coffee")
    text = client.get("/metrics").text
    assert 'route="/api/v1/lakes/{lake}",status="404"} 1.0' in text
    assert 'method="other",route="unknown"' in text
    assert "secret-name" not in text
    assert "coffee" not in text
    assert "lakesweep_store_up 1.0" in text
    assert "lakesweep_approvals_waiting 0.0" in text


def test_applications_can_be_mounted_and_see_paths_as_they_were_sent(tmp_path: Path) -> None:
    from starlette.responses import PlainTextResponse
    from starlette.types import Receive, Scope, Send

    from lakesweep.server.application import ServiceOptions, create_app

    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(scope["raw_path"])(scope, receive, send)

    app = make_service(tmp_path).app
    service = create_app(app, ServiceOptions(mounts={"/iceberg": echo, "/": echo}))
    client = client_of(service)
    assert client.get("/iceberg/v1/a%2Fb").text == "/iceberg/v1/a%2Fb"
    assert client.get("/").text == "/"
    assert client.get("/api/v1/nothing").status_code == 404


def test_structs_of_requests_refuse_what_they_do_not_know() -> None:
    lax = [
        route.request.__name__
        for route in ROUTES
        if not route.request.__struct_config__.forbid_unknown_fields
    ]
    assert lax == ["LoginForm"]  # OAuth 2: unknown parameters must be ignored
    assert all(issubclass(answer, msgspec.Struct) for route in ROUTES for answer in route.answers)
