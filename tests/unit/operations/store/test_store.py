from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from lakesweep.app import App
from lakesweep.catalog.catalogs import Catalogs
from lakesweep.config import Config, StoreSection
from lakesweep.errors import RefusedError, UsageError
from lakesweep.operations.store.log import ReadLogRequest, list_references, read_log
from lakesweep.operations.store.realm_transfer import (
    ExportRealmRequest,
    ImportRealmRequest,
    export_realm,
    import_realm,
)
from lakesweep.operations.store.realms import (
    CreateRealmRequest,
    RemovedRealm,
    RemoveRealmRequest,
    create_realm,
    deactivate_realm,
    list_realms,
    purge_realm,
    show_realm,
)
from lakesweep.operations.store.store import (
    MaintainStoreRequest,
    MaintenancePreview,
    RecoverReferenceRequest,
    init_store,
    maintain_store,
    recover_reference,
    store_info,
)
from lakesweep.store.realms.registry import RealmStatus
from lakesweep.store.transfer import ExportKind


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    section = StoreSection(url=f"sqlite:///{tmp_path}/store.db")
    app = App(Config(store=section), folder=tmp_path)
    yield app
    app.close()


def refuse(preview: object) -> None:
    raise RefusedError("confirmation", f"not confirmed: {preview}")


def test_init_creates_what_is_missing_once(app: App) -> None:
    assert init_store(app).created == ("tables", "realm default")
    assert init_store(app).created == ()


def test_the_configured_realm_is_active_without_a_login_that_no_one_saw(app: App) -> None:
    init_store(app)
    assert app.store.realms.get("default").status is RealmStatus.ACTIVE
    catalogs = Catalogs(app.store.realm("default"))
    assert list(catalogs.principals.snapshot().all()) == []
    assert list(catalogs.principal_roles.snapshot().all()) == []


def test_info_counts_references(app: App) -> None:
    init_store(app)
    found = store_info(app)
    assert [realm.name for realm in found.realms] == ["default"]
    assert found.realms[0].references == 7
    assert found.maintenance is None


def test_a_realm_without_a_count_encodes_without_it(app: App) -> None:
    init_store(app)
    created = create_realm(app, CreateRealmRequest("acme", {"a": "b"}))
    assert list(msgspec.to_builtins(created)) == [
        "name",
        "status",
        "created",
        "updated",
        "properties",
        "principal",
        "client_id",
        "secret",
    ]
    assert list(msgspec.to_builtins(show_realm(app, "acme")))[2] == "references"
    assert [realm.name for realm in list_realms(app).realms] == ["acme", "default"]


def test_nothing_is_purged_unless_the_caller_agrees(app: App) -> None:
    init_store(app)
    deactivate_realm(app, "default")
    with pytest.raises(RefusedError, match="not confirmed"):
        purge_realm(app, RemoveRealmRequest("default"), refuse)
    assert show_realm(app, "default").status == "inactive"


def test_a_dry_run_shows_its_preview_and_deletes_nothing(app: App) -> None:
    init_store(app)
    deactivate_realm(app, "default")
    shown: list[RemovedRealm] = []
    result = purge_realm(app, RemoveRealmRequest("default", dry_run=True), shown.append)
    assert shown == [result]
    assert show_realm(app, "default").references == result.references == 7


def test_maintenance_asks_before_it_begins(app: App) -> None:
    init_store(app)
    with pytest.raises(RefusedError, match="not confirmed"):
        maintain_store(app, MaintainStoreRequest(), refuse)
    assert store_info(app).maintenance is None
    shown: list[MaintenancePreview] = []
    run = maintain_store(app, MaintainStoreRequest(), shown.append)
    assert [preview.realms_to_process for preview in shown] == [("default",)]
    assert store_info(app).maintenance == run


def test_a_healthy_reference_needs_no_confirmation(app: App) -> None:
    init_store(app)
    result = recover_reference(app, RecoverReferenceRequest("catalogs"), refuse)
    assert (result.healthy, result.recovered) == (True, False)


def test_the_log_is_read_from_any_realm(app: App) -> None:
    init_store(app)
    request = ReadLogRequest("realms", realm="::system::", oldest_first=True, limit=1)
    assert [commit.seq for commit in read_log(app, request)] == [1]
    assert "catalogs" in {each.reference for each in list_references(app)}
    with pytest.raises(UsageError, match="name of a reference"):
        read_log(app, ReadLogRequest(""))


def test_a_realm_goes_to_a_file_and_back(app: App, tmp_path: Path) -> None:
    init_store(app)
    file = tmp_path / "default.ndjson"
    written = export_realm(app, ExportRealmRequest("default", file))
    assert written.file_bytes == file.stat().st_size
    made = import_realm(app, ImportRealmRequest(file, name="copy", active=False))
    assert (made.realm, made.status, made.hash) == ("copy", "inactive", written.hash)


def test_all_rows_come_with_all_history(app: App) -> None:
    init_store(app)
    lines: list[bytes] = []
    written = export_realm(app, ExportRealmRequest("default", lines.append, ExportKind.ROWS))
    assert (written.file, written.objects) == (msgspec.UNSET, msgspec.UNSET)
    assert b'"line":"end"' in lines[-1]
    with pytest.raises(UsageError, match="every row"):
        export_realm(app, ExportRealmRequest("default", lines.append, ExportKind.ROWS, history=1))
