"""`lakesweep catalog` from the command line, and its tables as roots of a sweep."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from lakesweep.catalog import TYPES
from lakesweep.catalog.principals import Principals
from lakesweep.store import Store
from tests.command import Done, Lakesweep

CONFIG = """\
[store]
url = "{url}"

[lakes.prod]
locations = ["{lake}"]
plans = "{plans}"

[[lakes.prod.roots]]
type = "lakesweep"
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/store.db"
    Store.create_tables(url)
    with Store.open(url, types=TYPES) as store:
        store.create_realm("default")
    return url


@pytest.fixture
def lakesweep(
    tmp_path: Path, url: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Lakesweep:
    monkeypatch.delenv("LAKESWEEP_CONFIG", raising=False)
    config = tmp_path / "lakesweep.toml"
    lake, plans = tmp_path / "lake", tmp_path / "plans"
    lake.mkdir()
    config.write_text(CONFIG.format(url=url, lake=lake, plans=plans))
    return Lakesweep(capfd, config)


@pytest.fixture
def shop(lakesweep: Lakesweep) -> Lakesweep:
    """A catalog with a namespace in it."""
    assert lakesweep("catalog", "create", "shop", "--keep-dropped", "1h").code == 0
    assert lakesweep("catalog", "namespace", "create", "shop.sales").code == 0
    return lakesweep


def write_table(folder: Path, name: str) -> str:
    """The metadata file of an empty table, with a stray file beside it; both are old."""
    metadata = folder / name / "metadata" / "00000-a.metadata.json"
    metadata.parent.mkdir(parents=True)
    document = {
        "format-version": 2,
        "table-uuid": f"uuid-{name}",
        "location": str(folder / name),
        "snapshots": [],
    }
    metadata.write_text(json.dumps(document))
    stray = folder / name / "data" / "00000-0-stray-00001.parquet"
    stray.parent.mkdir()
    stray.write_bytes(b"PAR1")
    old = time.time() - 30 * 86400
    for file in (metadata, stray):
        os.utime(file, (old, old))
    return str(metadata)


def enter(shop: Lakesweep, name: str, metadata: str, *more: str) -> Done:
    return shop("catalog", "table", "create", f"shop.{name}", "--metadata", metadata, *more)


def plan(shop: Lakesweep) -> set[str]:
    """The names of all files that a sweep would delete now."""
    overrides = ("--override", "first-run", "--override", "share", "--override", "roots-gone")
    made = shop("plan", "prod", "--engine", "local", "--exact", *overrides)
    assert made.code == 0, made.err
    found = shop("show", made.document["plan"], "--files", "--verdict", "delete")
    return {Path(line["path"]).name for line in found.lines}


def test_tables_are_roots_and_stay_so_while_they_are_dropped(
    shop: Lakesweep, tmp_path: Path
) -> None:
    orders, lost = (write_table(tmp_path / "lake", name) for name in ("orders", "lost"))
    assert enter(shop, "sales.orders", orders).code == 0
    assert plan(shop) == {"00000-0-stray-00001.parquet"}  # and nothing of the table not entered
    assert enter(shop, "sales.lost", lost).code == 0
    assert plan(shop) == {"00000-0-stray-00001.parquet"}
    assert shop("catalog", "table", "drop", "shop.sales.lost", "--yes").code == 0
    assert plan(shop) == {"00000-0-stray-00001.parquet"}
    assert shop("catalog", "purge", "shop", "--yes").document["status"] == "purging"
    assert plan(shop) == {"00000-0-stray-00001.parquet"}


def test_a_table_is_entered_moved_and_dropped(shop: Lakesweep, tmp_path: Path) -> None:
    metadata = write_table(tmp_path / "lake", "orders")
    made = enter(shop, "sales.orders", metadata, "--property", "owner=jane").document
    assert (made["name"], made["version"], made["status"]) == ("shop.sales.orders", 1, "created")
    shown = shop("catalog", "table", "show", "shop.sales.orders").document
    assert (shown["uuid"], shown["location"]) == ("uuid-orders", str(tmp_path / "lake/orders"))
    assert shown["properties"] == {"owner": "jane"}
    again = shop("catalog", "table", "update", "shop.sales.orders", "--metadata", metadata)
    assert again.document["status"] == "unchanged"
    moved = shop("catalog", "table", "rename", "shop.sales.orders", "shop.o", "--version", "1")
    assert (moved.document["name"], moved.document["version"]) == ("shop.o", 2)
    assert shop("catalog", "table", "drop", "shop.o", "--version", "1", "--yes").code == 4
    assert shop("catalog", "table", "drop", "shop.o", "--dry-run").document["version"] == 2
    refused = shop("catalog", "table", "drop", "shop.o")
    assert (refused.code, refused.error["type"]) == (3, "RefusedError")
    assert shop("catalog", "table", "drop", "shop.o", "--yes").code == 0
    assert shop("catalog", "table", "show", "shop.o").code == 6
    assert shop("catalog", "show", "shop").document["dropped"] == 1


def test_what_is_said_of_anything_can_be_changed(shop: Lakesweep, tmp_path: Path) -> None:
    old, new = (write_table(tmp_path / "lake", name) for name in ("old", "new"))
    enter(shop, "t", old, "--property", "owner=jane", "--property", "team=a")
    words = ("--unset", "team", "--property", "owner=joe", "--version", "1")
    changed = shop("catalog", "table", "update", "shop.t", *words).document
    assert (changed["version"], changed["metadata_location"]) == (2, old)
    assert changed["properties"] == {"owner": "joe"}
    moved = shop("catalog", "table", "update", "shop.t", "--metadata", new).document
    assert (moved["version"], moved["location"]) == (3, str(tmp_path / "lake/new"))
    assert moved["properties"] == {"owner": "joe"}
    policy = ("catalog", "policy", "create", "shop.p", "--type", "retention", "--content", "7d")
    assert shop(*policy, "--description", "weekly").code == 0
    rule = shop("catalog", "policy", "update", "shop.p", "--content", "8d").document
    assert (rule["type"], rule["content"], rule["description"]) == ("retention", "8d", "weekly")
    said = shop("catalog", "namespace", "update", "shop.sales", "--location", "/lake/s").document
    assert (said["status"], said["location"]) == ("updated", "/lake/s")
    settings = ("--keep-dropped", "2d", "--allow-overlaps", "--property", "owner=jane")
    catalog = shop("catalog", "update", "shop", *settings).document
    assert (catalog["keep_dropped"], catalog["allow_overlaps"]) == ("2d", True)
    assert (catalog["properties"], catalog["status"]) == ({"owner": "jane"}, "updated")
    assert shop("catalog", "update", "shop", *settings).document["status"] == "unchanged"


def test_a_dropped_table_is_brought_back(shop: Lakesweep, tmp_path: Path) -> None:
    made = enter(shop, "sales.orders", write_table(tmp_path / "lake", "orders")).document
    shop("catalog", "table", "drop", "shop.sales.orders", "--yes")
    (line,) = shop("catalog", "dropped", "shop").lines
    assert (line["name"], line["kind"], line["id"]) == ("shop.sales.orders", "table", made["id"])
    words = ("catalog", "undrop", "shop.sales.orders", "--as", "shop.orders")
    assert shop(*words, "--id", "1").code == 6
    back = shop(*words, "--id", line["id"]).document
    assert (back["id"], back["name"], back["status"]) == (made["id"], "shop.orders", "undropped")
    shown = shop("catalog", "table", "show", "shop.orders").document
    assert (shown["uuid"], shown["version"]) == ("uuid-orders", 2)
    assert shop("catalog", "dropped", "shop").lines == []


WRONG: list[tuple[tuple[str, ...], int]] = [
    (("table", "create", "shop.t", "--metadata", "/nowhere/x.metadata.json"), 6),
    (("table", "create", "shop.t", "--metadata", "nowhere", "--unread"), 2),
    (("table", "create", "shop", "--metadata", "/x", "--unread"), 2),
    (("table", "create", "none.t", "--metadata", "/x", "--unread"), 6),
    (("table", "create", "shop..t", "--metadata", "/x", "--unread"), 2),
    (("table", "rename", "shop.sales", "other.sales"), 2),
    (("table", "drop", "shop.sales", "--yes"), 6),
    (("namespace", "create", "shop.sales"), 4),
    (("namespace", "create", "shop.a.b"), 6),
    (("namespace", "list", "shop", "--token", "x"), 2),
    (("namespace", "list", "shop", "--page-size", "0"), 2),
    (("policy", "create", "shop.p", "--type", "x", "--file", "/nowhere"), 2),
    (("policy", "attach", "shop.sales", "shop"), 6),
    (("namespace", "update", "shop.sales"), 2),
    (("namespace", "update", "shop.sales", "--unset", "a", "--version", "7"), 4),
    (("table", "update", "shop.sales", "--property", "a=b"), 6),
    (("update", "shop", "--location", "nowhere"), 2),
    (("undrop", "shop.sales"), 6),
    (("undrop", "shop.sales", "--id", "one"), 2),
    (("undrop", "shop.sales", "--as", "other.sales"), 2),
    (("dropped", "none"), 6),
    (("create", "shop"), 4),
    (("create", "web", "--keep-dropped", "soon"), 2),
    (("create", "web", "--location", "nowhere"), 2),
    (("drop", "none", "--yes"), 6),
    (("drop", "shop", "--yes"), 3),
    (("grant", "create", "fly", "--on", "shop", "--to", "role:x"), 2),
    (("grant", "create", "list", "--on", "shop", "--to", "shop.sales"), 2),
    (("grant", "create", "list", "--on", "king:x", "--to", "role:x"), 2),
    (("grant", "effective", "nobody"), 6),
    (("principal", "show", "nobody"), 6),
    (("role", "drop", "nobody", "--yes"), 6),
]


def test_what_is_wrong_is_told(shop: Lakesweep) -> None:
    for words, code in WRONG:
        done = shop("catalog", *words)
        assert (words, done.code, done.out) == (words, code, "")
        assert done.error["hint"]


def test_a_grant_to_a_bare_name_asks_what_it_is(shop: Lakesweep) -> None:
    done = shop("catalog", "grant", "create", "list", "--on", "shop", "--to", "jane")
    assert done.code == 2
    assert "principal or a role" in done.error["message"]
    assert "--to principal:jane" in done.error["hint"]
    missing = shop("catalog", "grant", "create", "list", "--on", "shop", "--to", "principal:none")
    assert missing.code == 6
    assert "principal none" in missing.error["message"]


def test_all_kinds_are_listed(shop: Lakesweep) -> None:
    metadata = ("--metadata", "/lake/v/metadata/1.json", "--unread")
    shop("catalog", "view", "create", "shop.v", *metadata)
    shop("catalog", "generic-table", "create", "shop.g", "--format", "csv", "--location", "/g")
    shop("catalog", "policy", "create", "shop.p", "--type", "retention", "--content", "7d")
    kinds = ("namespace", "view", "generic-table", "policy")
    found = [shop("catalog", kind, "list", "shop").lines for kind in kinds]
    assert [[line["name"] for line in lines] for lines in found] == [
        ["shop.sales"],
        ["shop.v"],
        ["shop.g"],
        ["shop.p"],
    ]
    shop("catalog", "policy", "attach", "shop.p", "shop.sales", "--parameter", "days=3")
    assert shop("catalog", "policy", "attached", "shop.sales").lines == [
        {
            "policy": "shop.p",
            "type": "retention",
            "target": "shop.sales",
            "parameters": {"days": "3"},
        }
    ]
    assert shop("catalog", "policy", "detach", "shop.p", "shop.sales").document["changed"]
    counted = shop("catalog", "show", "shop").document
    assert (counted["namespace"], counted["generic_table"], counted["policy"]) == (1, 1, 1)


def test_pages_follow_each_other(shop: Lakesweep) -> None:
    for name in ("a", "b", "c"):
        shop("catalog", "namespace", "create", f"shop.{name}")
    words = ("catalog", "namespace", "list", "shop", "--page-size", "2")
    first = shop(*words).document
    shop("catalog", "namespace", "drop", "shop.c", "--yes")
    second = shop(*words, "--token", first["token"]).document
    assert [line["name"] for page in (first, second) for line in page["entities"]] == [
        *("shop.a", "shop.b", "shop.c", "shop.sales"),
    ]
    assert second["token"] is None


def test_grants_say_what_is_allowed(shop: Lakesweep, url: str) -> None:
    made = shop("catalog", "principal", "create", "jane").document
    rotated = shop("catalog", "principal", "rotate", "jane", "--revoke").document
    with Store.open(url, types=TYPES) as store:
        principals = Principals(store.realm("default"))
        assert principals.login(made["client_id"], rotated["secret"]).name == "jane"
    assert "secret" not in shop("catalog", "principal", "show", "jane").document
    shop("catalog", "role", "create", "analyst")
    shop("catalog", "role", "create", "reader", "--catalog", "shop")
    grant = ("catalog", "grant", "create")
    shop(*grant, "use-role", "--on", "role:analyst", "--to", "principal:jane")
    shop(*grant, "use-role", "--on", "role:shop.reader", "--to", "role:analyst")
    shop(*grant, "read-data", "--on", "shop.sales", "--to", "role:shop.reader")
    shop(*grant, "create-catalog", "--on", "realm", "--to", "role:analyst")
    found = shop("catalog", "grant", "effective", "jane", "shop.sales").document["allowed"]
    assert {each["privilege"] for each in found} == {
        *("create-catalog", "list", "read-data", "read-metadata"),
    }
    assert shop("catalog", "role", "drop", "reader", "--catalog", "shop", "--yes").code == 0
    listed = [line["to"] for line in shop("catalog", "grant", "list", "--catalog", "shop").lines]
    assert any("which is gone" in name for name in listed)
    words = ("--on", "realm", "--to", "role:analyst")
    assert shop("catalog", "grant", "revoke", "create-catalog", *words).document["changed"]
    assert shop("catalog", "grant", "effective", "jane", "shop.sales").document["allowed"] == []
    assert [line["name"] for line in shop("catalog", "principal", "list").lines] == ["jane"]
    assert [line["name"] for line in shop("catalog", "role", "list").lines] == ["analyst"]
    assert shop("catalog", "principal", "drop", "jane", "--yes").code == 0
