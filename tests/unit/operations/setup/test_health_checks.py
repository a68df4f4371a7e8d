from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from lakesweep.app import App
from lakesweep.cli.main import run
from lakesweep.config import Config
from lakesweep.config.file import parse_config
from lakesweep.operations.setup.health_checks import CheckStatus, Finding, check_java, check_store
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.stores import Stores
from lakesweep.store import Store
from lakesweep.store.realms.registry import RealmStatus
from tests.lakefs import RealRepositories
from tests.lakefs_server import SECRET, recorded_server
from tests.scripted import error, http, page, scripted_server

Capture = pytest.CaptureFixture[str]


def _config(text: str) -> Config:
    return parse_config(text, Path("lakesweep.toml"), {})


def _java(folder: Path, answer: str) -> Path:
    """A JAVA_HOME whose java gives this answer."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    java.chmod(0o755)
    return java


def _examine(tmp_path: Path, text: str, capsys: Capture) -> tuple[int, dict[str, Any]]:
    """The exit code, and the findings by the name of their check."""
    file = tmp_path / "lakesweep.toml"
    file.write_text(text)
    code = run(["doctor", "--json", "--config", str(file)])
    checks = json.loads(capsys.readouterr().out)["checks"]
    return code, {check["check"]: check for check in checks}


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ('openjdk version "17.0.1"', CheckStatus.OK),
        ('java version "1.8.0_292"', CheckStatus.FAIL),
        ("what?", CheckStatus.FAIL),
    ],
)
def test_java_must_be_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, status: CheckStatus
) -> None:
    _java(tmp_path, answer)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert [finding.status for finding in check_java(Config())] == [status]


def test_java_that_is_not_there_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    [finding] = check_java(Config())
    assert (finding.status, "JAVA_HOME" in finding.detail) == (CheckStatus.FAIL, True)


def test_java_is_not_needed_where_spark_is_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    [finding] = check_java(_config('[spark]\nremote = "sc://127.0.0.1:15002"\n'))
    assert finding.status is CheckStatus.OK


@pytest.mark.parametrize(
    ("url", "status", "mend"),
    [
        ("sqlite:///new/store.db", CheckStatus.WARN, "lakesweep store init"),
        (f"sqlite:///{__file__}/store.db", CheckStatus.FAIL, "write permission"),
        (f"sqlite:///{__file__}", CheckStatus.FAIL, "another file"),
        ("oracle://db/x", CheckStatus.FAIL, "starts with sqlite"),
        ("postgresql://me:hidden@127.0.0.1:9/x", CheckStatus.FAIL, "database is running"),
    ],
)
def test_a_store_that_cannot_be_used_is_told_with_what_to_do(
    tmp_path: Path, url: str, status: CheckStatus, mend: str
) -> None:
    [finding] = _check_store(tmp_path, url)
    assert (finding.check, finding.status) == ("store", status)
    assert mend in (finding.mend or "")
    assert "hidden" not in finding.detail
    assert not (tmp_path / "new").exists()


def test_a_store_in_memory_is_always_ready(tmp_path: Path) -> None:
    statuses = [finding.status for finding in _check_store(tmp_path, "memory:")]
    assert statuses == [CheckStatus.OK, CheckStatus.OK]


def test_tables_of_a_newer_version_fail(tmp_path: Path) -> None:
    Store.create_tables(f"sqlite:///{tmp_path}/store.db")
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
        connection.execute("UPDATE lakesweep_schema SET version = 99")
    [finding] = _check_store(tmp_path, "sqlite:///store.db")
    assert (finding.status, finding.mend) == (CheckStatus.FAIL, "upgrade Lakesweep")


def test_a_realm_that_is_not_there_is_a_warning(tmp_path: Path) -> None:
    Store.create_tables(f"sqlite:///{tmp_path}/store.db")
    finding = _check_store(tmp_path, "sqlite:///store.db")[1]
    assert (finding.status, finding.mend) == (CheckStatus.WARN, "lakesweep realm create default")


def test_a_realm_that_is_not_active_is_a_warning(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    Store.create_tables(url)
    with Store.open(url) as store:
        store.create_realm("default")
        store.realms.move(store.realms.get("default"), RealmStatus.INACTIVE)
    finding = _check_store(tmp_path, url)[1]
    assert finding.status is CheckStatus.WARN
    assert "activate" in (finding.mend or "")


def test_a_realm_with_an_impossible_name_fails(tmp_path: Path) -> None:
    finding = _check_store(tmp_path, "memory:", realm="::system::")[-1]
    assert finding.status is CheckStatus.FAIL


def _check_store(folder: Path, url: str, realm: str = "default") -> list[Finding]:
    app = App(_config(f'[store]\nurl = "{url}"\nrealm = "{realm}"\n'), folder=folder)
    try:
        return list(check_store(app))
    finally:
        app.close()


def test_all_is_well_without_a_lake(tmp_path: Path, capsys: Capture) -> None:
    code, checks = _examine(tmp_path, "", capsys)
    assert code == 0
    assert {"python", "java", "configuration", "store", "extra spark", "extra google"} <= set(
        checks
    )


def test_a_location_is_listed_and_read(tmp_path: Path, capsys: Capture) -> None:
    text = f'[lakes.a]\nlocations = ["{tmp_path}"]\n'
    code, checks = _examine(tmp_path, text, capsys)
    assert code == 0
    assert "listed and read" in checks[f"location {tmp_path}"]["detail"]


def test_a_location_that_is_not_there_is_a_warning(tmp_path: Path, capsys: Capture) -> None:
    text = f'[lakes.a]\nlocations = ["{tmp_path}/none"]\n'
    code, checks = _examine(tmp_path, text, capsys)
    assert (code, checks[f"location {tmp_path}/none"]["status"]) == (0, "warn")


def test_an_endpoint_that_does_not_answer_fails(tmp_path: Path, capsys: Capture) -> None:
    text = """
        [storage."s3://lake"]
        endpoint = "http://127.0.0.1:9"
        access_key_id = "a"
        secret_access_key = "b"
        [lakes.a]
        locations = ["s3://lake/warehouse", "nonsense://lake"]
    """
    code, checks = _examine(tmp_path, text, capsys)
    assert code == 4
    assert checks["location s3://lake/warehouse"]["status"] == "fail"
    assert "endpoint" in checks["location s3://lake/warehouse"]["mend"]
    assert "not a kind of store" in checks["location nonsense://lake"]["detail"]


def test_a_wrong_configuration_is_wrong_usage(tmp_path: Path, capsys: Capture) -> None:
    code, checks = _examine(tmp_path, "[stor]\n", capsys)
    assert (code, checks["configuration"]["status"]) == (2, "fail")
    assert checks["configuration"]["mend"] == "did you mean store?"


def test_a_catalog_is_listed(tmp_path: Path, capsys: Capture) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = load_catalog("prod", type="sql", uri=uri, warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("shop")
    catalog.close()
    code, checks = _examine(tmp_path, _catalog(f'type = "sql", uri = "{uri}"', tmp_path), capsys)
    assert (code, checks["catalog prod"]["status"]) == (0, "ok")


def test_a_catalog_that_does_not_answer_fails(tmp_path: Path, capsys: Capture) -> None:
    text = _catalog('type = "rest", uri = "http://127.0.0.1:9"', tmp_path)
    code, checks = _examine(tmp_path, text, capsys)
    assert (code, checks["catalog prod"]["status"]) == (4, "fail")


def _catalog(properties: str, location: Path) -> str:
    return f"""
        [lakes.a]
        locations = ["{location}"]
        [[lakes.a.roots]]
        type = "iceberg-catalog"
        name = "prod"
        properties = {{ {properties} }}
    """


@pytest.mark.parametrize(
    ("secret", "found"),
    [(SECRET, (0, "ok", None)), ("wrong", (4, "fail", "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"))],
)
def test_repositories_are_looked_for(
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    lakefs_repositories: RealRepositories,
    secret: str,
    found: tuple[int, str, str | None],
) -> None:
    with recorded_server(lakefs_repositories) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", secret)
        text = f"""
            [lakes.a]
            locations = ["{tmp_path}"]
            [[lakes.a.roots]]
            type = "lakefs"
            endpoint = "{server.endpoint}"
            repositories = ["actions"]
            namespaces = ["{lakefs_repositories.repository("bare").folder}"]
        """
        code, checks = _examine(tmp_path, text, capsys)
    there = checks["repository actions"]
    assert (code, there["status"]) == found[:2]
    assert (found[2] or "") in (there["mend"] or "")
    bare = checks[f"repository {lakefs_repositories.repository('bare').folder}"]
    assert bare["status"] == "warn"
    assert "without_staging = true" in bare["mend"]


def test_people_get_a_table(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "lakesweep.toml"
    file.write_text("[stor]\n")
    run(["doctor", "--config", str(file)])
    lines = capsys.readouterr().out.splitlines()
    assert any("fail" in line and "did you mean store?" in line for line in lines)


_LAKE = """
[lakes.prod]
locations = ["{folder}"]
plans = "{plans}"
"""


def test_plans_go_where_this_user_may_write(tmp_path: Path, capsys: Capture) -> None:
    plans = tmp_path / "new" / "plans"
    code, checks = _examine(tmp_path, _LAKE.format(folder=tmp_path, plans=plans), capsys)
    assert (code, checks["plans of prod"]["status"]) == (0, "ok")
    assert not plans.exists()


def test_plans_that_can_be_written_nowhere_fail(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_text("")
    text = _LAKE.format(folder=tmp_path, plans=tmp_path / "file" / "plans")
    code, checks = _examine(tmp_path, text, capsys)
    assert (code, checks["plans of prod"]["status"]) == (4, "fail")
    assert "cannot write in" in checks["plans of prod"]["detail"]


def test_a_try_in_a_bucket_leaves_nothing(tmp_path: Path, capsys: Capture) -> None:
    text = _LAKE.format(folder=tmp_path, plans="memory://doctor/plans")
    code, checks = _examine(tmp_path, text, capsys)
    assert (code, checks["plans of prod"]["status"]) == (0, "ok")
    assert not [*list_files(Stores(), "memory://doctor/plans/")]


@pytest.mark.parametrize(
    ("answers", "status", "said"),
    [
        ([http(200), http(204)], "ok", "an object of our own written and deleted"),
        ([http(200), error(403, "AccessDenied")], "warn", "s3:DeleteObject"),
        ([error(403, "AccessDenied")], "warn", "write was refused"),
    ],
)
def test_the_right_to_delete_is_tried_with_an_object_of_our_own(
    tmp_path: Path, capsys: Capture, answers: list[Any], status: str, said: str
) -> None:
    with scripted_server() as server:
        read = http(206, b"x", {"Content-Range": "bytes 0-0/1"})
        server.play(page("t/a"), read, *answers)
        text = f"""
            [storage."s3://lake"]
            endpoint = "{server.endpoint}"
            access_key_id = "id"
            secret_access_key = "secret"
            region = "us-east-1"
            delete_batch = 1
            [lakes.a]
            locations = ["s3://lake"]
            plans = "memory://doctor/deletes"
        """
        _, checks = _examine(tmp_path, text, capsys)
    found = checks["location s3://lake"]
    assert found["status"] == status
    assert said in found["detail"]


def test_a_missing_right_is_named_in_the_words_of_its_store(
    tmp_path: Path, capsys: Capture
) -> None:
    with scripted_server() as server:
        server.play(http(403, b'{"error": {"message": "no access"}}'))
        text = f"""
            [storage."gs://lake"]
            endpoint = "{server.endpoint}"
            anonymous = true
            [lakes.a]
            locations = ["gs://lake"]
            plans = "memory://doctor/rights"
        """
        _, checks = _examine(tmp_path, text, capsys)
    found = checks["location gs://lake"]
    assert found["status"] == "fail"
    assert "storage.objects.list" in str(found)
    assert "s3:" not in str(found)
