"""A realm is followed: each commit of each reference once, in pages, over restarts."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lakesweep.app import App
from lakesweep.catalog import Create, Namespace
from lakesweep.cli.main import run
from lakesweep.errors import UsageError
from lakesweep.operations.catalogs.views import open_catalogs
from lakesweep.operations.store.changes import (
    ChangePage,
    ReadChangesRequest,
    read_changes,
)
from lakesweep.server.api.call import Call
from lakesweep.server.api.changes import ChangesQuery, follow_changes
from lakesweep.server.application import Service
from lakesweep.server.auth.authentication import ANYONE
from tests.service import client_of, make_service


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return make_service(tmp_path)


def _everything(
    app: App, since: str | datetime | None = None, limit: int = 100
) -> tuple[list[tuple[str, str]], str]:
    """All pages up to the end; the commits, and the last cursor."""
    found: list[tuple[str, str]] = []
    while True:
        page: ChangePage = read_changes(app, ReadChangesRequest(since, limit))
        found += [(each.reference, each.commit) for each in page.changes]
        since = page.next
        if not page.more:
            return found, since


def test_each_commit_comes_once_in_pages_of_any_size(service: Service) -> None:
    catalogs = open_catalogs(service.app, None)
    shop = catalogs.create("shop")
    for number in range(5):
        shop.apply([Create(f"n{number}", Namespace())])
    catalogs.principals.create("ada")
    every, cursor = _everything(service.app)
    assert len(every) == len(set(every))
    assert {reference for reference, _ in every} >= {"catalogs", "principals", shop.reference}
    assert sum(reference == shop.reference for reference, _ in every) >= 5
    assert _everything(service.app, limit=1)[0] == every
    assert _everything(service.app, cursor)[0] == []
    shop.apply([Create("more", Namespace())])
    catalogs.create("other")
    later, _ = _everything(service.app, cursor)
    assert not set(later) & set(every)
    assert {shop.reference, "catalogs"} <= {reference for reference, _ in later}


def test_a_moment_is_a_beginning(service: Service) -> None:
    open_catalogs(service.app, None).create("shop")
    soon = service.app.clock.now() + timedelta(hours=1)
    assert _everything(service.app, soon)[0] == []
    before = service.app.clock.now() - timedelta(hours=1)
    assert _everything(service.app, before)[0]


@pytest.mark.parametrize("text", ["x", "AAAA", "!"])
def test_what_is_no_cursor_is_refused(service: Service, text: str) -> None:
    with pytest.raises(UsageError, match="no cursor"):
        read_changes(service.app, ReadChangesRequest(text))


def test_the_service_gives_pages(service: Service) -> None:
    open_catalogs(service.app, None).create("shop")
    client, realm = client_of(service), service.app.config.store.realm
    first = client.get(f"/api/v1/realms/{realm}/changes", params={"limit": 1})
    assert first.status_code == 200, first.text
    page = first.json()
    assert len(page["changes"]) == 1
    assert page["more"]
    second = client.get(f"/api/v1/realms/{realm}/changes", params={"since": page["next"]}).json()
    assert page["changes"][0] not in second["changes"]
    recent = client.get(f"/api/v1/realms/{realm}/changes", params={"since": "2020-01-01T00:00:00Z"})
    assert len(recent.json()["changes"]) == len(second["changes"]) + 1
    wrong = client.get(f"/api/v1/realms/{realm}/changes", params={"since": "x"})
    assert wrong.status_code == 400


def test_the_service_sends_events(service: Service) -> None:
    open_catalogs(service.app, None).create("shop")
    looks = iter([False, True])
    around = replace(service._around, is_stopping=lambda: next(looks))
    call = Call(around, ANYONE, {"realm": service.app.config.store.realm}, ChangesQuery())
    pieces = b"".join(follow_changes(call).pieces).decode()
    lines = [line for line in pieces.splitlines() if line]
    assert "event: commit" in lines
    *_, number = [line for line in lines if line.startswith("id: ")]
    assert _everything(service.app, number.removeprefix("id: "))[0] == []
    changes = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    assert "catalogs" in {each["reference"] for each in changes}


def test_the_command_continues_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "lakesweep.toml"
    config.write_text(f'[store]\nurl = "sqlite:///{tmp_path}/store.db"\n')
    common = ["--config", str(config), "--json"]
    assert run([*common, "store", "init"]) == 0
    assert run([*common, "catalog", "create", "shop"]) == 0
    capsys.readouterr()
    assert run([*common, "catalog", "changes", "--since", "1d"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert "catalogs" in {each["reference"] for each in page["changes"]}
    assert run([*common, "catalog", "changes", "--since", page["next"]]) == 0
    assert json.loads(capsys.readouterr().out)["changes"] == []
