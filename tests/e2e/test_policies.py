"""`lakesweep policy`: rules of tables, files, Polaris servers and our own realm, carried out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table

from tests.command import Lakesweep
from tests.rest_catalog import WritableRestCatalog, rest_catalog

EXPIRY = "system.snapshot-expiry"
CONFIG = """\
[store]
url = "sqlite:///{folder}/store.db"

[lakes.prod]
locations = ["{folder}/warehouse"]

[[lakes.prod.roots]]
"""
SQL = 'type = "iceberg-catalog"\nname = "local"\nproperties = {{ type = "sql", uri = "{uri}" }}\n'
REST = (
    'type = "iceberg-catalog"\nname = "polaris"\nproperties = {{ type = "rest", uri = "{uri}" }}\n'
)
REALM = 'type = "lakesweep"\n'
ROWS = pa.table({"id": list(range(100))})


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    (tmp_path / "warehouse").mkdir()
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("local", uri=uri, warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("shop")
    return catalog


@pytest.fixture
def lakesweep(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Lakesweep:
    return Lakesweep(capfd, tmp_path / "lakesweep.toml")


def configure(tmp_path: Path, root: str, more: str = "") -> None:
    text = CONFIG.format(folder=tmp_path) + root + more
    (tmp_path / "lakesweep.toml").write_text(text)


def use_sql(tmp_path: Path, more: str = "") -> None:
    configure(tmp_path, SQL.format(uri=f"sqlite:///{tmp_path}/catalog.db"), more)


def written(catalog: SqlCatalog, name: str, **properties: str) -> Table:
    """A table of five snapshots, of which the last one alone is current."""
    table = catalog.create_table(f"shop.{name}", ROWS.schema, properties=properties)
    table.append(ROWS)
    for _ in range(2):
        table.overwrite(ROWS)
    return table


def shown(lakesweep: Lakesweep, table: str, *words: str) -> dict[str, Any]:
    done = lakesweep("policy", "show", table, *words)
    assert done.code == 0, done.err
    return done.document


def values(document: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    return {
        f"{each['key']}{'@' + each['ref'] if each['ref'] else ''}": (each["value"], each["source"])
        for each in document["values"]
    }


def outcomes(lakesweep: Lakesweep, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    done = lakesweep("policy", "run", "--lake", "prod", *(words or ("--yes",)))
    assert done.code == code, done.err
    return {each["table"]: each for each in done.lines}


def test_of_each_value_the_nearest_source_counts(
    catalog: SqlCatalog, lakesweep: Lakesweep, tmp_path: Path
) -> None:
    rules = """
[[lakes.prod.rules]]
tables = ["local.shop.o*"]
min_snapshots = 3
max_snapshot_age = "30d"
expire = true

[[lakes.prod.rules]]
tables = ["local.*"]
min_snapshots = 4
max_ref_age = "90d"

[lakes.prod.upkeep]
min_snapshots = 5
clean_expired_metadata = true
"""
    use_sql(tmp_path, rules)
    day = str(24 * 3600 * 1000)
    table = written(catalog, "orders", **{"history.expire.max-snapshot-age-ms": day})
    found = values(shown(lakesweep, "local.shop.orders"))
    assert found["max-snapshot-age"] == (int(day), "table property")
    assert found["min-snapshots"] == (3, "rule")
    assert found["max-ref-age"] == (90 * int(day), "rule")
    assert found["clean-expired-metadata"] == (True, "lake default")
    assert found["expire"] == (True, "rule")
    with table.transaction() as change:
        change.set_properties({"lakesweep.max-snapshot-age": "2d", "lakesweep.oddity": "1"})
    document = shown(lakesweep, "local.shop.orders")
    assert values(document)["max-snapshot-age"] == (2 * int(day), "lakesweep property")
    assert "lakesweep.oddity" in document["notes"][0]
    given = shown(lakesweep, "local.shop.orders", "--max-snapshot-age", "1h")
    assert values(given)["max-snapshot-age"] == (3600 * 1000, "command line")


def test_a_veto_counts_whatever_is_nearer(
    catalog: SqlCatalog, lakesweep: Lakesweep, tmp_path: Path
) -> None:
    use_sql(tmp_path, '\n[[lakes.prod.rules]]\ntables = ["*"]\nexpire = false\n')
    written(catalog, "orders", **{"lakesweep.expire": "true", "gc.enabled": "false"})
    document = shown(lakesweep, "local.shop.orders")
    assert document["jobs"]["expire"] is False
    assert {each["source"] for each in document["vetoes"]} == {"rule", "table property"}
    assert outcomes(lakesweep)["local.shop.orders"]["status"] == "skipped"


def test_floors_only_keep_more(catalog: SqlCatalog, lakesweep: Lakesweep, tmp_path: Path) -> None:
    upkeep = (
        '\n[lakes.prod.upkeep]\nexpire = true\nmin_snapshots = 1\nmin_keep = 2\nmin_age = "{}"\n'
    )
    use_sql(tmp_path, upkeep.format("1h"))
    table = written(catalog, "orders", **{"lakesweep.max-snapshot-age": "0s"})
    found = values(shown(lakesweep, "local.shop.orders"))
    assert found["max-snapshot-age"] == (3600 * 1000, "floor")
    assert found["min-snapshots"] == (2, "floor")
    assert outcomes(lakesweep)["local.shop.orders"]["expired_snapshots"] == 0
    use_sql(tmp_path, upkeep.format("0s"))
    snapshots = len(table.refresh().snapshots())
    done = outcomes(lakesweep)["local.shop.orders"]
    assert done["expired_snapshots"] == snapshots - 2
    assert len(table.refresh().snapshots()) == 2


def test_rules_are_carried_out_where_one_switches_them_on_and_a_bad_table_stops_no_other(
    catalog: SqlCatalog, lakesweep: Lakesweep, tmp_path: Path
) -> None:
    rule = 'tables = ["local.shop.[a-c]*"]\nexpire = true\nmax_snapshot_age = "0s"\n'
    use_sql(tmp_path, f"\n[[lakes.prod.rules]]\n{rule}")
    wrong = written(catalog, "a_wrong", **{"lakesweep.min-snapshots": "many"})
    good, other = written(catalog, "b_good"), written(catalog, "other")
    dry = outcomes(lakesweep, "--dry-run", code=4)["local.shop.b_good"]
    assert dry["expired_snapshots"] == len(good.refresh().snapshots()) - 1 == 4
    found = outcomes(lakesweep, code=4)
    done, failed = found["local.shop.b_good"], found["local.shop.a_wrong"]
    assert (done["status"], done["bytes_deleted"]) == ("done", dry["bytes_deleted"])
    assert len(good.refresh().snapshots()) == 1
    assert good.scan().to_arrow().num_rows == 100
    assert failed["status"] == "failed"
    assert "lakesweep.min-snapshots" in failed["why"]
    assert found["local.shop.other"]["status"] == "skipped"
    assert len(wrong.refresh().snapshots()) == len(other.refresh().snapshots()) == 5


def test_a_root_that_cannot_be_read_forbids_every_delete(
    catalog: SqlCatalog, lakesweep: Lakesweep, tmp_path: Path
) -> None:
    use_sql(tmp_path, '\n[lakes.prod.upkeep]\nexpire = true\nmax_snapshot_age = "0s"\n')
    good, broken = written(catalog, "good"), written(catalog, "broken")
    Path(broken.metadata_location.removeprefix("file://")).write_text("{")
    found = outcomes(lakesweep, code=4)
    assert found["local.shop.good"]["status"] == "refused"
    assert found["local.shop.broken"]["status"] == "failed"
    assert len(good.refresh().snapshots()) == 5


def test_what_a_branch_says_itself_comes_first(
    catalog: SqlCatalog, lakesweep: Lakesweep, tmp_path: Path
) -> None:
    use_sql(tmp_path, '\n[lakes.prod.upkeep]\nexpire = true\nmax_snapshot_age = "0s"\n')
    table = written(catalog, "orders")
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(
        head.snapshot_id, "audit", min_snapshots_to_keep=4
    ).commit()
    found = values(shown(lakesweep, "local.shop.orders"))
    assert found["min-snapshots@audit"] == (4, "ref")
    outcomes(lakesweep)
    assert len(table.refresh().snapshots()) == 4


def policy(days: float | str = 0, **more: Any) -> str:
    return json.dumps({"enable": True, "config": {"max_snapshot_age_days": days}, **more})


@pytest.fixture
def polaris(catalog: SqlCatalog, tmp_path: Path) -> Iterator[WritableRestCatalog]:
    server = WritableRestCatalog(policies={})
    for name in ("a", "b"):
        server.tables["shop", name] = written(catalog, name).metadata_location
    with rest_catalog(server):
        configure(tmp_path, REST.format(uri=server.uri))
        yield server


def snapshots(server: WritableRestCatalog, name: str) -> int:
    return len(StaticTable.from_metadata(server.tables["shop", name]).snapshots())


def test_policies_of_a_polaris_server_are_carried_out(
    polaris: WritableRestCatalog, lakesweep: Lakesweep
) -> None:
    assert polaris.policies is not None
    polaris.policies[()] = {EXPIRY: policy("0")}
    polaris.policies["shop", "b"] = {
        EXPIRY: json.dumps({"enable": False}),
        "system.orphan-file-removal": json.dumps({"enable": True}),
    }
    found = values(shown(lakesweep, "polaris.shop.a"))
    assert found["max-snapshot-age"] == (0, "policy")
    document = shown(lakesweep, "polaris.shop.b")
    # The nearer policy replaces the farther one whole, and an absent age is not 0.
    assert values(document)["max-snapshot-age"] == (5 * 24 * 3600 * 1000, "default")
    assert "orphan-age" not in values(document)
    assert document["jobs"] == {"expire": False, "rewrite-manifests": False, "remove-orphans": True}
    done = outcomes(lakesweep)
    assert done["polaris.shop.a"]["status"] == "done"
    assert done["polaris.shop.b"]["status"] == "skipped"
    assert (snapshots(polaris, "a"), snapshots(polaris, "b")) == (1, 5)


def test_policies_that_a_server_does_not_tell_are_not_taken_for_none(
    polaris: WritableRestCatalog, lakesweep: Lakesweep, tmp_path: Path
) -> None:
    upkeep = '\n[lakes.prod.upkeep]\nexpire = true\nmax_snapshot_age = "0s"\n'
    configure(tmp_path, REST.format(uri=polaris.uri), upkeep)
    polaris.policy_failure = HTTPStatus.FORBIDDEN
    assert outcomes(lakesweep, code=4)["polaris.shop.a"]["status"] == "failed"
    assert snapshots(polaris, "a") == 5
    polaris.policies = None  # not advertised: this server knows no policies
    assert outcomes(lakesweep)["polaris.shop.a"]["status"] == "done"


def test_a_policy_that_cannot_be_read_refuses_the_table(
    polaris: WritableRestCatalog, lakesweep: Lakesweep
) -> None:
    assert polaris.policies is not None
    polaris.policies["shop", "a"] = {EXPIRY: policy("soon")}
    polaris.policies["shop", "b"] = {EXPIRY: '{"enable": "yes"}'}
    found = outcomes(lakesweep, code=4)
    assert "max_snapshot_age_days" in found["polaris.shop.a"]["why"]
    assert "enable" in found["polaris.shop.b"]["why"]
    assert (snapshots(polaris, "a"), snapshots(polaris, "b")) == (5, 5)


@pytest.fixture
def realm(catalog: SqlCatalog, lakesweep: Lakesweep, tmp_path: Path) -> Lakesweep:
    configure(tmp_path, REALM)
    lakesweep("store", "init")
    lakesweep("catalog", "create", "shop")
    lakesweep("catalog", "namespace", "create", "shop.sales")
    for name in ("a", "b"):
        path = written(catalog, name).metadata_location
        done = lakesweep("catalog", "table", "create", f"shop.sales.{name}", "--metadata", path)
        assert done.code == 0, done.err
    return lakesweep


def write_policy(realm: Lakesweep, name: str, content: str, target: str) -> None:
    made = realm("catalog", "policy", "create", name, "--type", EXPIRY, "--content", content)
    assert made.code == 0, made.err
    assert realm("catalog", "policy", "attach", name, target).code == 0


def test_policies_of_our_own_realm_are_inherited_and_carried_out(realm: Lakesweep) -> None:
    write_policy(realm, "shop.all", policy(0), "shop")
    write_policy(realm, "shop.sales.off", json.dumps({"enable": False}), "shop.sales.b")
    (found,) = realm("catalog", "policy", "applicable", "shop.sales.a").lines
    assert (found["name"], found["type"]) == ("shop.all", EXPIRY)
    (nearer,) = realm("catalog", "policy", "applicable", "shop.sales.b").lines
    assert nearer["content"]["enable"] is False
    document = shown(realm, "shop.sales.a")
    assert values(document)["max-snapshot-age"] == (0, "policy")
    done = outcomes(realm)
    assert done["default:shop.sales.a"]["status"] == "done", done
    assert done["default:shop.sales.a"]["deleted_files"] > 0
    assert done["default:shop.sales.b"]["status"] == "skipped"
    table = realm("catalog", "table", "show", "shop.sales.a").document
    now = StaticTable.from_metadata(table["metadata_location"])
    assert len(now.snapshots()) == 1
    assert now.scan().to_arrow().num_rows == 100
    # Nothing is left of a policy that was detached.
    realm("catalog", "policy", "detach", "shop.sales.off", "shop.sales.b")
    assert outcomes(realm)["default:shop.sales.b"]["status"] == "done"


@pytest.mark.parametrize(
    ("type_", "content"),
    [
        (EXPIRY, "keep: 7d"),
        (EXPIRY, '{"config": {}}'),
        (EXPIRY, '{"enable": "true"}'),
        (EXPIRY, '{"enable": true, "max_age": 7}'),
        (EXPIRY, '{"enable": true, "version": "2024-01-01"}'),
        (EXPIRY, '{"enable": true, "config": {"a": [1]}}'),
        ("system.orphan-file-removal", '{"enable": true, "max_orphan_file_age_in_days": -1}'),
        ("system.snapshot-expiration", '{"enable": true}'),
    ],
)
def test_a_policy_that_does_not_fit_the_schema_is_refused(
    realm: Lakesweep, type_: str, content: str
) -> None:
    words = ("catalog", "policy", "create", "shop.p", "--type", type_, "--content", content)
    assert realm(*words).code == 2
    assert realm("catalog", "policy", "show", "shop.p").code == 6


def test_a_policy_of_metadata_compaction_rewrites_manifests(
    catalog: SqlCatalog, realm: Lakesweep
) -> None:
    table = catalog.create_table("shop.many", ROWS.schema)
    for _ in range(4):
        table.append(ROWS)
    words = ("--metadata", table.metadata_location)
    assert realm("catalog", "table", "create", "shop.sales.many", *words).code == 0
    kind, content = "system.metadata-compaction", json.dumps({"enable": True})
    realm("catalog", "policy", "create", "shop.m", "--type", kind, "--content", content)
    realm("catalog", "policy", "attach", "shop.m", "shop.sales.many")
    done = outcomes(realm)["default:shop.sales.many"]
    assert (done["status"], done["manifests_created"], done["expired_snapshots"]) == ("done", 1, 0)
    now = realm("catalog", "table", "show", "shop.sales.many").document["metadata_location"]
    head = StaticTable.from_metadata(now)
    assert head.inspect.manifests().num_rows == 1
    assert head.scan().to_arrow().num_rows == 400


def test_a_policy_job_can_be_scheduled(
    catalog: SqlCatalog, lakesweep: Lakesweep, tmp_path: Path
) -> None:
    use_sql(tmp_path)
    made = lakesweep("schedule", "add", "n", "--job", "policy", "--lake", "prod", "--every", "1d")
    assert made.code == 0, made.err


def test_orphan_files_are_left_to_a_sweep_that_keeps_what_any_table_wants_kept(
    catalog: SqlCatalog, lakesweep: Lakesweep, tmp_path: Path
) -> None:
    rule = "\n[lakes.prod.upkeep]\nremove_orphans = true\n"
    use_sql(tmp_path, rule)
    for name, age in (("a", "2d"), ("b", "30d")):
        catalog.create_table(f"shop.{name}", ROWS.schema, properties={"lakesweep.orphan-age": age})
    done = lakesweep("policy", "run", "--lake", "prod", "--dry-run")
    assert done.code == 0, done.err
    assert "orphan files of 2 tables: lakesweep plan prod --grace 30d" in done.err
