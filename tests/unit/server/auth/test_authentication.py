from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakesweep.catalog.access.realm_bootstrap import bootstrap_realm
from lakesweep.errors import ConfigError
from lakesweep.operations.catalogs.access import (
    ChangeGrantRequest,
    CreatePrincipalRequest,
    CreateRoleRequest,
    DropPrincipalRequest,
    RotateSecretRequest,
    create_principal,
    create_role,
    drop_principal,
    grant_privileges,
    rotate_secret,
)
from lakesweep.operations.catalogs.views import PrincipalSecretView
from lakesweep.server.application import Service
from tests.service import client_of, make_service

LOGIN, LAKES = "/api/v1/oauth/token", "/api/v1/lakes"


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return make_service(tmp_path)


def _principal(service: Service, name: str, role: str | None) -> PrincipalSecretView:
    made = create_principal(service.app, CreatePrincipalRequest(name))
    if role is not None:
        create_role(service.app, CreateRoleRequest(role))
        request = ChangeGrantRequest(("use-role",), f"role:{role}", f"principal:{name}")
        grant_privileges(service.app, request)
    return made


def _log_in(service: Service, client_id: object, secret: str, **more: str) -> Any:
    form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
    return client_of(service).post(LOGIN, data={**form, **more})


def test_a_principal_logs_in_and_has_the_role_of_that_name(service: Service) -> None:
    made = _principal(service, "etl", "operator")
    answer = _log_in(service, made.client_id, made.secret, scope="whatever")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    session = answer.json()
    assert (session["token_type"], session["expires_in"]) == ("bearer", 3600)
    client = client_of(service, session["access_token"])
    assert client.get(LAKES).status_code == 200
    assert client.get("/api/v1/tokens").status_code == 403


def test_who_may_manage_the_realm_is_an_admin(service: Service) -> None:
    credentials = bootstrap_realm(service.app.runs.realm)
    session = _log_in(service, credentials.client_id, credentials.secret).json()
    assert client_of(service, session["access_token"]).get("/api/v1/store").status_code == 200


def test_a_principal_without_a_role_is_told_so(service: Service) -> None:
    made = _principal(service, "etl", None)
    answer = _log_in(service, made.client_id, made.secret)
    assert answer.status_code == 403
    assert "grant" in answer.json()["hint"]


def test_a_session_ends_with_its_principal(service: Service) -> None:
    made = _principal(service, "etl", "viewer")
    session = _log_in(service, made.client_id, made.secret).json()["access_token"]
    drop_principal(service.app, DropPrincipalRequest("etl"), lambda _: None)
    assert client_of(service, session).get(LAKES).status_code == 401
    create_principal(service.app, CreatePrincipalRequest("etl"))
    assert client_of(service, session).get(LAKES).status_code == 401


def test_failed_logins_have_to_wait(service: Service) -> None:
    made = _principal(service, "etl", "viewer")
    statuses = [_log_in(service, made.client_id, "wrong").status_code for _ in range(6)]
    assert statuses == [401] * 5 + [429]
    assert _log_in(service, made.client_id, made.secret).status_code == 429


def test_the_secret_is_in_no_answer_to_a_failed_login(service: Service) -> None:
    answer = _log_in(service, "someone", "hunter2-hunter2")
    assert "hunter2" not in answer.text
    other = client_of(service).post(
        LOGIN, data={"grant_type": "password", "client_id": "x", "client_secret": "hunter2-x"}
    )
    assert other.status_code == 400
    assert "hunter2" not in other.text


def test_wrong_tokens_have_to_wait_and_right_ones_do_not(service: Service) -> None:
    made = _principal(service, "etl", "viewer")
    session = _log_in(service, made.client_id, made.secret).json()["access_token"]
    wrong = client_of(service, session + "x")
    assert [wrong.get(LAKES).status_code for _ in range(6)] == [401] * 5 + [429]
    assert client_of(service, session).get(LAKES).status_code == 200


def test_a_service_for_other_machines_needs_authentication(tmp_path: Path) -> None:
    service = make_service(tmp_path, host="0.0.0.0")
    with pytest.raises(ConfigError, match="open to everyone") as refused:
        service.authenticator.check_closed()
    assert "lakesweep token create" in refused.value.hint


def test_a_session_ends_when_its_secret_is_revoked(service: Service) -> None:
    made = _principal(service, "etl", "viewer")
    session = _log_in(service, made.client_id, made.secret).json()["access_token"]
    rotate_secret(service.app, RotateSecretRequest("etl"))  # the old one is still good
    assert client_of(service, session).get(LAKES).status_code == 200
    rotate_secret(service.app, RotateSecretRequest("etl", revoke=True))
    assert client_of(service, session).get(LAKES).status_code == 401


@pytest.mark.parametrize("name", ["a" * 30_000, "\x01" * 60])
def test_credentials_that_no_store_can_hold_are_wrong_like_any_other(
    service: Service, name: str
) -> None:
    _log_in(service, "nobody", "knows")
    made = _principal(service, "etl", "viewer")
    assert _log_in(service, made.client_id, made.secret).status_code == 200  # closes the service
    assert _log_in(service, name, "secret").status_code == 401
    assert client_of(service, f"lsw_{name}_x").get(LAKES).status_code == 401


def test_names_that_no_store_can_hold_are_errors_of_the_caller(service: Service) -> None:
    client = client_of(service)
    for path in ("jobs", "runs", "plans", "schedules", "realms", "principals", "lakes"):
        assert client.get(f"/api/v1/{path}/{'a' * 30_000}").status_code in (400, 404)
