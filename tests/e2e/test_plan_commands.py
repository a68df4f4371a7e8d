"""Plans and checks from the command line, on the engine's lake behind a real S3 server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lakesweep.app import App
from lakesweep.config import IcebergCatalogRoot, IcebergMetadataRoot, LakeSection
from lakesweep.config.file import load_config
from lakesweep.runs.fencing import is_stopped
from lakesweep.runs.leases import take_lease
from lakesweep.runs.records import RunKind, run_folder
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.s3.store import S3Store
from lakesweep.storage.stores import Stores
from lakesweep.sweep.inspect.verdict_explanation import explain
from lakesweep.sweep.judge.live_set import MatchMode
from lakesweep.sweep.plan.stored_plan import StoredPlan, open_plan
from tests.command import Lakesweep
from tests.lake import BUCKET, EngineLake
from tests.planned import Desk, deletes
from tests.servers import S3Server

CONFIG = """\
[storage."s3://lake"]
endpoint = "{endpoint}"
region = "us-east-1"
access_key_id = "{key}"
secret_access_key = "{secret}"

[lakes.prod]
locations = ["s3://lake"]
unknown = "{unknown}"

[[lakes.prod.roots]]
type = "iceberg-catalog"
name = "lake"
properties = {{ type = "sql", uri = "{uri}" }}

[[lakes.prod.roots]]
type = "iceberg-metadata"
files = {files}

[[lakes.prod.accept]]
guard = "unlisted-table"
table = "s3://lake/warehouse/shop/dropped"
until = "2100-01-01"
reason = "its catalog dropped it before there was a plan"
"""
#: The lake was written a moment ago.
NOW = ("--engine", "local", "--grace", "0s")


def write_config(
    folder: Path, server: S3Server, lake: EngineLake, *, unknown: str = "delete"
) -> Path:
    unlisted = [t.metadata_path for t in lake.tables() if not t.name.startswith("lake.")]
    config = folder / "lakesweep.toml"
    config.write_text(
        CONFIG.format(
            endpoint=server.endpoint,
            key=server.access_key_id,
            secret=server.secret_access_key,
            uri=lake.catalog_uri,
            files=json.dumps(unlisted),
            unknown=unknown,
        )
    )
    return config


def orphans(lake: EngineLake) -> set[str]:
    """What may go: all that nothing references, but for what tables say to leave alone."""
    found = lake.orphans()
    spared = tuple(f"{each}/" for each in found["locations-with-gc-disabled"])
    return {path for path in found["all-unreferenced"] if not path.startswith(spared)}


@dataclass(frozen=True)
class Planned:
    """A plan that was made by the installed command, for tests that only look at it."""

    config: Path
    document: dict[str, Any]
    talk: str

    @property
    def name(self) -> str:
        return str(self.document["plan"])

    def open(self) -> StoredPlan:
        app = App(load_config(self.config, {}), folder=self.config.parent)
        return open_plan(app.stores, app.runs, self.name)


@pytest.fixture(scope="module")
def planned(
    engine_server: S3Server, engine: EngineLake, tmp_path_factory: pytest.TempPathFactory
) -> Planned:
    engine.fill(S3Store(BUCKET, engine_server.options()))
    folder = tmp_path_factory.mktemp("planned")
    config = write_config(folder, engine_server, engine)
    command = [str(Path(sys.executable).with_name("lakesweep")), "plan", "prod", *NOW, "--json"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=200, check=True
    )
    return Planned(config, json.loads(done.stdout), done.stderr)


@pytest.fixture
def looking(planned: Planned, capfd: pytest.CaptureFixture[str]) -> Lakesweep:
    """Commands that look at the plan."""
    return Lakesweep(capfd, planned.config)


@pytest.fixture
def lakesweep(
    bucket: S3Server, engine: EngineLake, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Lakesweep:
    """Commands with a store of their own."""
    return Lakesweep(capfd, write_config(tmp_path, bucket, engine))


def deleted(lakesweep: Lakesweep, plan: str) -> set[str]:
    return {line["path"] for line in lakesweep("show", plan, "--verdict", "delete").lines}


def test_a_plan_has_the_published_shape(planned: Planned) -> None:
    document = planned.document
    assert document["lake"] == "prod"
    assert document["roots"] == {"complete": 39, "incomplete": 0, "absent": 0, "gone": 0}
    assert document["totals"]["delete"] == {"unreferenced": {"files": 48, "bytes": 79534}}
    assert {*document["totals"]["keep"]} - {"own"} == {"referenced", "opted-out"}
    assert [guard["name"] for guard in document["guards"]] == ["first-run", "grace"]
    assert document["created"].endswith("Z")
    assert document["expires"] > document["created"]
    assert document["filter"] == {}


def test_the_next_commands_are_named_last(planned: Planned) -> None:
    assert planned.talk.splitlines()[-2:] == [
        f"try: lakesweep show {planned.name} --verdict delete",
        f"try: lakesweep apply {planned.name}",
    ]


def test_exactly_the_orphans_would_go(
    looking: Lakesweep, planned: Planned, engine: EngineLake
) -> None:
    assert deleted(looking, planned.name) == orphans(engine)


def test_a_filter_finds_the_same_and_a_second_plan_reads_no_manifest(
    looking: Lakesweep, engine: EngineLake, planned: Planned
) -> None:
    done = looking("plan", "prod", *NOW, "--bloom")
    assert done.code == 0
    assert done.document["filter"]["inserted"] > 400
    spec = done.document["spec"]
    assert spec["manifests"] == spec["manifests_reused"] > 0
    assert deleted(looking, done.document["plan"]) == orphans(engine)


@pytest.mark.parametrize("mode", [MatchMode.EXACT, MatchMode.BLOOM])
def test_exactly_the_orphans_would_go_from_a_local_folder(
    engine: EngineLake, mode: MatchMode
) -> None:
    stores = Stores(replace={"s3://lake": LocalStore(str(engine.bucket), "s3://lake/")})
    unlisted = tuple(t.metadata_path for t in engine.tables() if not t.name.startswith("lake."))
    properties = {"type": "sql", "uri": engine.catalog_uri}
    section = LakeSection(
        locations=("s3://lake",),
        unknown="delete",
        roots=(
            IcebergCatalogRoot(type="iceberg-catalog", name="lake", properties=properties),
            IcebergMetadataRoot(type="iceberg-metadata", files=unlisted),
        ),
    )
    dropped = "unlisted-table=s3://lake/warehouse/shop/dropped"
    plan = Desk(stores, section).plan(mode=mode, overridden=(dropped,))
    assert deletes(plan) == orphans(engine)


def test_show_tells_the_same_as_the_plan_and_its_state(
    looking: Lakesweep, planned: Planned
) -> None:
    shown = looking("show", planned.name).document
    assert (shown.pop("state"), shown.pop("run")) == ("ready", None)
    assert shown == planned.document


def test_the_files_of_a_plan_add_up_to_its_totals(looking: Lakesweep, planned: Planned) -> None:
    lines = looking("show", planned.name, "--files").lines
    assert list(lines[0]) == ["path", "verdict", "reason", "size_bytes", "modified", "rule"]
    files = Counter((line["verdict"], line["reason"]) for line in lines)
    sizes = Counter[tuple[str, str]]()
    for line in lines:
        sizes[line["verdict"], line["reason"]] += line["size_bytes"]
    totals = {
        (verdict, reason): (amount["files"], amount["bytes"])
        for verdict, reasons in planned.document["totals"].items()
        for reason, amount in reasons.items()
    }
    assert {key: (files[key], sizes[key]) for key in files} == totals


def test_files_are_chosen_by_reason_and_table(looking: Lakesweep, planned: Planned) -> None:
    done = looking("show", planned.name, "--reason", "referenced", "--table", "lake.shop.t1")
    assert {line["reason"] for line in done.lines} == {"referenced"}
    assert all("/shop/t1/" in line["path"] for line in done.lines)
    assert len(done.lines) == 5


def test_people_see_tables_and_files_in_columns(looking: Lakesweep, planned: Planned) -> None:
    shown = looking("show", planned.name, json=False).out
    for title in ("verdict", "to delete, probable cause", "table", "age", "size class", "guard"):
        assert f" {title} " in shown
    assert "lake.shop.forgotten" in shown
    files = looking("show", planned.name, "--verdict", "delete", json=False)
    assert len(files.out.splitlines()) == 48
    assert files.err == "48 files, 80 kB\n"


def test_a_page_is_written(looking: Lakesweep, planned: Planned, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    assert looking("show", planned.name, "--html", str(page)).document["written"] == str(page)
    assert "lake.shop.forgotten" in page.read_text()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "nothing"), 6),
        (("show", "prod", "--html", "x.html", "--files"), 2),
        (("show", "prod", "--html", "/nowhere/x.html"), 2),
        (("show", "prod", "--reason", "none"), 2),
        (("show", "prod", "--table", "nowhere"), 6),
        (("plan", "nowhere", "--engine", "local"), 6),
        (("plan", "prod", "--exact", "--bloom"), 2),
        (("plan", "prod", "--grace", "soon"), 2),
        (("plan", "prod", "--inventory-time", "1d"), 2),
        (("plan", "prod", "--inventory", "s3://lake/manifest.json", "--inventory-time", "1d"), 2),
        (("plan", "prod", "--override", "everything"), 2),
        (("check",), 2),
        (("check", "nowhere"), 6),
        (("explain", "prod", "s3://elsewhere/x"), 6),
        (("runs", "nothing"), 6),
        (("runs", "--lake", "nowhere"), 6),
        (("runs", "--status", "odd"), 2),
        (("runs", "--since", "soon"), 2),
        (("runs", "stop"), 2),
        (("runs", "one", "two"), 2),
    ],
)
def test_wrong_words_are_refused(looking: Lakesweep, words: tuple[str, ...], code: int) -> None:
    done = looking(*words)
    assert (done.code, done.error["exit_code"]) == (code, code)


def test_every_orphan_is_explained(planned: Planned, engine: EngineLake) -> None:
    plan = planned.open()
    for path in orphans(engine):
        found = explain(plan, path)
        assert found.row["verdict"] == "delete"
        assert "none of 39 roots references it" in found.evidence[0]


def test_a_live_file_of_every_kind_leads_to_its_table(planned: Planned, engine: EngineLake) -> None:
    plan = planned.open()
    kinds = {kind: (path, t.name) for t in engine.tables() for kind, path in t.referenced()}
    for kind, (path, table) in kinds.items():
        references = {each.root.name: each for each in explain(plan, path).references}
        known = references.get(table) or next(iter(references.values()))
        assert known.kind == kind
        assert known.through[0] == known.root.pointer


def test_explain_takes_any_spelling(
    looking: Lakesweep, planned: Planned, engine: EngineLake
) -> None:
    path = min(orphans(engine))
    done = looking("explain", planned.name, path.replace("s3://", "s3a://"))
    assert done.document["path"] == path
    assert done.document["would_be_kept_by"]
    assert "would be kept by" in looking("explain", "prod", path, json=False).out


def test_check_finds_nothing_missing_in_a_whole_lake(looking: Lakesweep, planned: Planned) -> None:
    done = looking("check", "--plan", planned.name, "--engine", "local")
    assert done.code == 0
    assert done.document["missing"] == 0
    assert done.document["roots"] == {"complete": 39, "incomplete": 0}


def test_runs_tell_what_happened(looking: Lakesweep, planned: Planned) -> None:
    lines = looking("runs", "--lake", "prod", "--limit", "100").lines
    assert planned.name in [line["run"] for line in lines]
    run = looking("runs", planned.name).document
    assert (run["kind"], run["status"], run["plan"]) == ("plan", "done", planned.name)
    assert run["figures"]["delete_files"] == 48
    assert run["spec"]["engine"] == "local"
    assert "found delete_files" in looking("runs", planned.name, json=False).out


def test_a_run_that_ended_cannot_be_stopped(looking: Lakesweep, planned: Planned) -> None:
    done = looking("runs", "stop", planned.name)
    assert (done.code, "is not running" in done.error["message"]) == (2, True)


def test_names_that_say_nothing_are_kept_unless_told(
    bucket: S3Server, engine: EngineLake, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lakesweep = Lakesweep(capfd, write_config(tmp_path, bucket, engine, unknown="keep"))
    plan = lakesweep("plan", "prod", *NOW).document["plan"]
    kept = orphans(engine) - deleted(lakesweep, plan)
    assert {path.rpartition("/")[2] for path in kept} > {"_SUCCESS"}
    assert any("/.hidden-" in path for path in kept)
    assert any("/_temporary/" in path for path in kept)


def test_a_broken_manifest_keeps_all_that_its_table_may_use(
    lakesweep: Lakesweep, bucket: S3Server, engine: EngineLake
) -> None:
    key = min(
        key
        for key in engine.objects
        if "/shop/orders/metadata/" in key
        and key.endswith("-m0.avro")
        and f"s3://{BUCKET}/{key}" not in orphans(engine)
    )
    store = S3Store(BUCKET, bucket.options())
    store.write(key, b"broken")
    try:
        done = lakesweep("plan", "prod", *NOW)
    finally:
        store.write(key, engine.objects[key])
    assert done.code == 4
    assert done.document["roots"]["incomplete"] == 1
    [root] = done.document["incomplete_roots"]
    assert (root["name"], key in root["reason"]) == ("lake.shop.orders", True)
    assert "incomplete" in [guard["name"] for guard in done.document["guards"]]
    assert not any("/shop/orders/" in path for path in deleted(lakesweep, done.document["plan"]))
    [run] = lakesweep("runs").lines
    assert run["status"] == "incomplete"


def test_one_run_a_lake_at_a_time(lakesweep: Lakesweep) -> None:
    assert lakesweep.config is not None
    app = App(load_config(lakesweep.config, {}), folder=lakesweep.config.parent)
    take_lease(
        app.runs.realm, app.clock, "prod", app.runs.lake("prod").lease, "apply-1", "elsewhere"
    )
    for command in ("plan", "check"):
        done = lakesweep(command, "prod", "--engine", "local")
        assert (done.code, done.error["type"]) == (5, "LeaseHeldError")
    app.close()


def test_a_run_that_deletes_is_told_to_stop(looking: Lakesweep, planned: Planned) -> None:
    """One of an earlier version, which only looks for an object in the folder of its plan."""
    app = App(load_config(planned.config, {}), folder=planned.config.parent)
    run = replace(app.runs, board=None).begin("prod", RunKind.APPLY, plan=planned.name, spec={}).run
    asked = looking("runs", "stop", run).document
    assert (asked["run"], asked["stopping"]) == (run, True)
    folder = run_folder(app.runs.plan(planned.name).address, run)
    assert is_stopped(app.stores, folder)
    app.close()


def test_missing_files_are_told_with_their_tables(
    lakesweep: Lakesweep, bucket: S3Server, engine: EngineLake, tmp_path: Path
) -> None:
    gone = {path for kind, path in engine.table("lake.shop.t1").referenced() if kind == "data"}
    S3Store(BUCKET, bucket.options()).delete([path.removeprefix("s3://lake/") for path in gone])
    done = lakesweep("check", "prod", "--engine", "local")
    assert (done.code, done.document["missing"]) == (7, len(gone))
    assert [each["table"] for each in done.document["tables"]] == ["lake.shop.t1"]
    lines = lakesweep("check", "prod", "--engine", "local", "--files").lines
    assert {(line["path"], line["table"]) for line in lines} == {(p, "lake.shop.t1") for p in gone}
    assert list(lines[0]) == ["path", "kind", "size_bytes", "table"]
    assert not [*tmp_path.glob(".lakesweep/plans/prod/*")]


def test_an_inventory_stands_in_for_the_listing(
    lakesweep: Lakesweep, engine: EngineLake, tmp_path: Path
) -> None:
    inventory = tmp_path / "files.csv"
    rows = [f'"{path}",1,2026-01-01T00:00:00Z' for path in sorted(orphans(engine))[:5]]
    inventory.write_text("\n".join(["path,size,modified", *rows]))
    done = lakesweep(
        "plan",
        "prod",
        "--engine",
        "local",
        "--inventory",
        str(inventory),
        "--inventory-time",
        "2026-02-01T00:00:00Z",
    )
    assert done.code == 0
    assert done.document["cut_off"] == "2026-01-25T00:00:00Z"
    assert deleted(lakesweep, "prod") == set(sorted(orphans(engine))[:5])
