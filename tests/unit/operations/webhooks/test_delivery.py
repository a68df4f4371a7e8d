from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.app import App
from lakesweep.clock import ManualClock, micros
from lakesweep.config.file import config_from_values
from lakesweep.errors import NotFoundError, UnreachableError
from lakesweep.operations.store.store import MaintainStoreRequest, maintain_store
from lakesweep.operations.webhooks.delivery import (
    SIGNATURE,
    deliver_events,
    list_webhooks,
    pause_after,
    try_webhooks,
)
from lakesweep.runs.records import Approval, ApprovalState, PlanRecord, RunKind, RunStatus
from tests.moments import NOON
from tests.webhook_server import WebhookServer, webhook_server

SECRET = "a long secret"
EVERYTHING = ["run.done", "run.failed", "approval.needed", "limit.reached"]
EVERYTHING += ["root.unreadable", "files.missing"]


@pytest.fixture
def server() -> Iterator[WebhookServer]:
    with webhook_server() as server:
        yield server


@pytest.fixture
def app(server: WebhookServer, tmp_path: Path) -> Iterator[App]:
    hook = {"url": f"{server.url}/hook", "secret": SECRET, "events": EVERYTHING}
    values = {"store": {"url": "memory:"}, "webhooks": [hook]}
    app = App(config_from_values(values), folder=tmp_path, clock=ManualClock(NOON))
    yield app
    app.close()


def _finish(app: App, kind: RunKind, status: RunStatus, **figures: int) -> str:
    run = app.runs.begin("prod", kind, spec={})
    app.runs.finish(run, status, figures, "no disk; token=abcdefgh")
    return run.run


def _types(server: WebhookServer) -> list[str]:
    return [json.loads(body)["type"] for _, _, body in server.requests]


def test_an_event_is_a_signed_cloud_event(app: App, server: WebhookServer) -> None:
    run = _finish(app, RunKind.APPLY, RunStatus.FAILED, deleted=3)
    assert list(deliver_events(app)) == []
    [(path, headers, body)] = server.requests
    event = json.loads(body)
    assert path == "/hook"
    assert headers["Content-Type"].startswith("application/cloudevents+json")
    assert (event["specversion"], event["id"]) == ("1.0", f"{run}/run.failed")
    assert (event["type"], event["subject"]) == ("io.lakesweep.run.failed", "prod")
    assert event["time"] == "2026-06-01T12:00:00Z"
    assert (event["data"]["run"], event["data"]["deleted"]) == (run, 3)
    seconds, digest = (part.partition("=")[2] for part in headers[SIGNATURE].split(","))
    signed = f"{seconds}.".encode() + body
    assert digest == hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert list(deliver_events(app)) == []
    assert len(server.requests) == 1
    assert app.runs.outbox() == []


def test_what_is_refused_is_told_again_after_growing_pauses_with_the_same_id(
    app: App, server: WebhookServer
) -> None:
    server.refusals += [500, 503, 307]
    _finish(app, RunKind.APPLY, RunStatus.DONE)
    [said] = deliver_events(app)
    assert "it answered 500; trying again" in said
    assert list(deliver_events(app)) == []
    assert len(server.requests) == 1
    for seconds in (7, 13, 25):
        app.clock.sleep(seconds)
        list(deliver_events(app))
    assert len({json.loads(body)["id"] for _, _, body in server.requests}) == 1
    assert [path for path, _, _ in server.requests] == ["/hook"] * 4  # no redirect is followed
    assert app.runs.outbox() == []


def test_each_kind_of_event_comes_from_what_is_recorded(app: App, server: WebhookServer) -> None:
    _finish(app, RunKind.PLAN, RunStatus.INCOMPLETE, roots_incomplete=1)
    _finish(app, RunKind.CHECK, RunStatus.INCOMPLETE, missing=2)
    plan = PlanRecord(
        plan="plan-1", lake="prod", address="/p", sha256="", created_at=0, expires_at=2**60
    )
    app.runs.add_plan(plan)
    reasons = ("9 files, more than max_files = 1",)
    waits = Approval(state=ApprovalState.WAITING, at=micros(NOON), by="me", reasons=reasons)
    app.runs.decide("plan-1", waits)
    list(deliver_events(app))
    prefix = "io.lakesweep."
    assert {each.removeprefix(prefix) for each in _types(server)} == {
        *("run.done", "root.unreadable", "files.missing", "approval.needed", "limit.reached")
    }


def test_maintenance_of_the_store_is_told(
    app: App, server: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.prepare_store()
    done = maintain_store(app, MaintainStoreRequest(), lambda _: None)
    maintain_store(app, MaintainStoreRequest(dry_run=True), lambda _: None)  # leaves no record
    app.clock.sleep(60)

    def fail(*_: object) -> None:
        raise UnreachableError("the database is away")

    monkeypatch.setattr("lakesweep.maintenance.run.MaintenanceRun.go", fail)
    with pytest.raises(UnreachableError):
        maintain_store(app, MaintainStoreRequest(), lambda _: None)
    assert list(deliver_events(app)) == []
    told = [json.loads(body) for _, _, body in server.requests]
    assert [each["type"] for each in told] == ["io.lakesweep.run.done", "io.lakesweep.run.failed"]
    assert (told[0]["subject"], told[0]["data"]["run"]) == ("store", done.run)


def test_a_webhook_is_told_only_what_it_asks_for_and_one_that_is_gone_nothing(
    app: App, server: WebhookServer
) -> None:
    section = app.config.webhooks[0].model_copy(update={"events": ("run.failed",)})
    app.config = app.config.model_copy(update={"webhooks": (section,)})
    _finish(app, RunKind.APPLY, RunStatus.DONE)
    _finish(app, RunKind.APPLY, RunStatus.FAILED)
    assert [each.waiting for each in list_webhooks(app)] == [1]
    app.config = app.config.model_copy(update={"webhooks": ()})
    assert list(deliver_events(app)) == []
    assert (server.requests, app.runs.outbox()) == ([], [])


def test_an_address_that_takes_nothing_for_days_is_given_up(
    app: App, server: WebhookServer
) -> None:
    server.refusals += [500] * 9
    _finish(app, RunKind.APPLY, RunStatus.DONE)
    list(deliver_events(app))
    assert list_webhooks(app)[0].error == "it answered 500"
    app.clock.sleep(timedelta(days=4).total_seconds())
    [said] = deliver_events(app)
    assert "never took" in said
    assert app.runs.outbox() == []


def test_another_service_does_not_send_what_one_is_sending(app: App) -> None:
    _finish(app, RunKind.APPLY, RunStatus.DONE)
    [entry] = app.runs.outbox()
    assert app.runs.change_entry(entry, None)
    assert not app.runs.change_entry(entry, None)


def test_pauses_grow_up_to_about_an_hour() -> None:
    pauses = [pause_after(attempts).total_seconds() for attempts in (1, 3, 5, 100)]
    assert pauses == sorted(pauses)
    assert 4 <= pauses[0] <= 6
    assert pauses[-1] <= 1.2 * 3600


def test_a_test_event_is_sent_at_once(app: App, server: WebhookServer) -> None:
    server.refusals.append(404)
    [refused] = try_webhooks(app)
    assert (refused.delivered, refused.error) == (False, "it answered 404")
    [taken] = try_webhooks(app)
    assert taken.delivered
    assert _types(server) == ["io.lakesweep.test"] * 2
    app.config = app.config.model_copy(update={"webhooks": ()})
    with pytest.raises(NotFoundError):
        try_webhooks(app)
