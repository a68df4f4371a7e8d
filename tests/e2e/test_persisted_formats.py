"""What an earlier Lakesweep wrote is read by this one: its store, plans, caches, journals, exports.

`data/format-1.tar.xz` was written by the commands of version 0.1.0, on 2026-11-15 by their clock: a
store, and the buckets behind rclone's S3 server as folders, in which objects keep their times and
etags. It is never written anew. Whoever changes a format adds a reader of the old one, and beside
this set another one.
"""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command import Done, Lakesweep
from tests.servers import S3Server, rclone_server

ARCHIVE = Path(__file__).parents[1] / "data" / "format-1.tar.xz"

#: Applied into quarantine, and one of its files restored; then a plan that nobody applied.
PROD, PROD_NEWER = "plan-20261115T120026-8c740899", "plan-20261115T131042-99034e41"
#: By a Bloom filter; not applied.
PAIMON = "plan-20261115T131047-20b0ac01"
#: Its apply was stopped.
REPOS = "plan-20261115T131052-56617f4d"
#: Its apply died.
SCRATCH = "plan-20261115T131105-62abd37b"
#: Incomplete; then one that was set aside and emptied.
ATTIC, ATTIC_NEWER = "plan-20261115T131111-ddad8c0c", "plan-20261115T131114-60c5c59a"
#: Of a repository: set aside, deleted, and not applied.
ASIDE, SWEPT, ANALYTICS = (
    "plan-20261115T141121-490d91f8",
    "plan-20261115T161125-1d780c0f",
    "plan-20261115T161129-6bc189e7",
)
MAINTAINED = "maintain-20261115T181138-f504b705"

#: What an export of each realm amounts to.
HASHES = {
    "acme": "ee1a3ecaae64b3310ec00a67cff83c4c77ded8c5f3a3332a810cb21a4099485c",
    "default": "1d7900cb80d4135adf9bbbfb67240e41fbd73f25c43e887c23092d5d423fc785",
}
ROWS = "45750d93eb0fd8142813603b23bf7edb29cc48abc0bbaa06a059bacb9c8a262b"

REPOSITORY = "s3://lake/repos/analytics"
SHOP = "s3://lake/warehouse/shop"
LOST = f"{SHOP}/t1/data/00000-0-lost-0.parquet"
LOCAL = ("--engine", "local")


class Home:
    """The unpacked set, and the server of its buckets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(folder, filter="data")

    @property
    def buckets(self) -> Path:
        return self.folder / "buckets"

    def is_stored(self, address: str) -> bool:
        return (self.buckets / address.removeprefix("s3://")).is_file()

    def stored(self, address: str) -> set[str]:
        """The addresses of all files below one."""
        folder = self.buckets / address.removeprefix("s3://")
        found = (path for path in folder.rglob("*") if path.is_file())
        return {f"s3://{path.relative_to(self.buckets)}" for path in found}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, S3Server]]:
    """A set that nobody changes."""
    home = Home(tmp_path_factory.mktemp("format"))
    with rclone_server(home.buckets, cached=True) as server:
        yield home, server


@pytest.fixture
def reader(
    shared: tuple[Home, S3Server],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Lakesweep:
    """The commands on a set that they only read."""
    return _commands(*shared, capsys, monkeypatch)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A set of one test's own."""
    return Home(tmp_path)


@pytest.fixture
def lakesweep(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lakesweep]:
    """The commands on that set."""
    with rclone_server(home.buckets, cached=True) as server:
        yield _commands(home, server, capsys, monkeypatch)


def _commands(
    home: Home,
    server: S3Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Lakesweep:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(home.folder)
    return Lakesweep(capsys, home.folder / "lakesweep.toml")


def _well(done: Done) -> Done:
    assert done.code == 0, done.err
    return done


def _overriding(*guards: str) -> list[str]:
    return [word for guard in guards for word in ("--override", guard)]


# ── runs


def test_all_runs_are_listed_with_how_they_ended(reader: Lakesweep) -> None:
    lines = _well(reader("runs", "--limit", "50")).lines
    assert [(line["kind"], line["status"], line["lake"], line["plan"]) for line in lines] == [
        ("maintain", "done", "-", None),
        ("plan", "done", f"lakefs:{REPOSITORY}", ANALYTICS),
        ("apply", "done", f"lakefs:{REPOSITORY}", SWEPT),
        ("plan", "done", f"lakefs:{REPOSITORY}", SWEPT),
        ("apply", "done", f"lakefs:{REPOSITORY}", ASIDE),
        ("plan", "done", f"lakefs:{REPOSITORY}", ASIDE),
        ("empty", "done", "attic", ATTIC_NEWER),
        ("apply", "done", "attic", ATTIC_NEWER),
        ("plan", "done", "attic", ATTIC_NEWER),
        ("plan", "incomplete", "attic", ATTIC),
        ("apply", "running", "scratch", SCRATCH),  # as far as anybody knows
        ("plan", "done", "scratch", SCRATCH),
        ("apply", "stopped", "repos", REPOS),
        ("plan", "done", "repos", REPOS),
        ("plan", "done", "paimon", PAIMON),
        ("plan", "done", "prod", PROD_NEWER),
        ("check", "done", "prod", None),
        ("restore", "done", "prod", PROD),
        ("apply", "done", "prod", PROD),
        ("plan", "done", "prod", PROD),
    ]


def test_a_run_is_shown_in_full(reader: Lakesweep) -> None:
    assert _well(reader("runs", "apply-20261115T121035-0a63d1d5")).document == {
        "run": "apply-20261115T121035-0a63d1d5",
        "lake": "prod",
        "kind": "apply",
        "status": "done",
        "started": "2026-11-15T12:10:35.301065Z",
        "finished": "2026-11-15T12:10:36.559202Z",
        "seconds": 1.258137,
        "plan": PROD,
        "message": "",
        "subject": "prod",
        "user": "",
        "host": "",
        "job": None,
        "files": 14,
        "bytes": 17856,
        "spec": {
            "engine": "local",
            "overridden": ["first-run", "missing"],
            "quarantine": True,
            "places": {
                "places": [
                    {
                        "location": "s3://lake/warehouse",
                        "folder": f"s3://lake/warehouse/_lakesweep/quarantine/{PROD}",
                    }
                ]
            },
        },
        "figures": {
            "found": 14,
            "deleted": 0,
            "absent": 0,
            "failed": 0,
            "bytes_deleted": 0,
            "failures_omitted": 0,
            "quarantined": 14,
            "bytes_quarantined": 17856,
            "kept_by_remark": 0,
        },
    }


def test_the_figures_of_a_maintenance_run_are_shown(reader: Lakesweep) -> None:
    shown = _well(reader("runs", MAINTAINED)).document
    assert (shown["status"], shown["dry_run"]) == ("done", False)
    assert shown["cut_off"] == "2026-11-15T18:06:38.464040Z"
    assert shown["obj_stats"] == {
        "scanned": 288,
        "retained": 136,
        "newer": 8,
        "unreferenced": 144,
        "purged": 144,
        "failed": 0,
    }
    by_type = shown["per_realm_per_obj_type_stats"]["default"]
    assert {name: by_type[name]["retained"] for name in ("iceberg-table", "grants")} == {
        "iceberg-table": 3,
        "grants": 3,
    }


# ── plans


@pytest.mark.parametrize(
    ("plan", "state", "guards", "totals"),
    [
        (
            PROD,
            "applied",
            ["first-run"],
            {
                "delete": {"unreferenced": (14, 17856)},
                "keep": {"pinned": (1, 6), "referenced": (36, 117084)},
            },
        ),
        (
            PROD_NEWER,
            "expired",
            [],
            {
                "delete": {"unreferenced": (1, 4)},
                "keep": {"own": (13, 17852), "pinned": (1, 6), "referenced": (36, 117084)},
            },
        ),
        (
            PAIMON,
            "expired",
            ["first-run"],
            {
                "delete": {"unreferenced": (36, 9243)},
                "keep": {
                    "hidden": (6, 240),
                    "referenced": (101, 122125),
                    "unknown-kind": (10, 400),
                },
            },
        ),
        (
            ATTIC,
            "expired",
            ["first-run", "zero-live", "incomplete"],
            {"delete": {}, "keep": {"incomplete-root": (2, 10)}},
        ),
    ],
)
def test_a_plan_is_shown(
    reader: Lakesweep, plan: str, state: str, guards: list[str], totals: dict[str, Any]
) -> None:
    shown = _well(reader("show", plan)).document
    assert (shown["plan"], shown["state"], shown["version"]) == (plan, state, 1)
    assert [guard["name"] for guard in shown["guards"]] == guards
    found = {
        verdict: {reason: (each["files"], each["bytes"]) for reason, each in reasons.items()}
        for verdict, reasons in shown["totals"].items()
    }
    assert found == totals


def test_what_a_plan_learned_is_shown(reader: Lakesweep) -> None:
    shown = _well(reader("show", PAIMON)).document
    assert (shown["mode"], shown["roots"]["complete"]) == ("bloom", 11)
    assert shown["filter"] == {
        "bits": 2967040,
        "capacity": 100000,
        "expected_fpp": 6.382041315701863e-22,
        "functions": 14,
        "inserted": 223,
        "rebuilt": False,
        "shards": 1,
    }
    assert shown["guesses"]["aborted-write"] == {"files": 16, "bytes": 8443}
    assert shown["tables"][0] == {
        "table": "s3://lake/paimon/shop.db/pk_lookup",
        "delete": {"files": 19, "bytes": 7247},
        "keep": {"files": 81, "bytes": 94109},
    }
    incomplete = _well(reader("show", ATTIC)).document["incomplete_roots"]
    assert incomplete == [
        {"name": "pinned s3://lake/pins.txt", "reason": "s3://lake/pins.txt: is not there"}
    ]


def test_the_files_of_a_plan_are_shown(reader: Lakesweep) -> None:
    lines = _well(reader("show", PROD, "--files")).lines
    counts = Counter((line["verdict"], line["reason"], line["rule"]) for line in lines)
    assert counts == {
        ("delete", "unreferenced", "expired-snapshot"): 10,
        ("delete", "unreferenced", "failed-commit"): 1,
        ("delete", "unreferenced", "old-metadata"): 3,
        ("keep", "pinned", "s3://lake/pins.txt"): 1,
        ("keep", "referenced", None): 36,
    }
    newer = _well(reader("show", PROD_NEWER, "--files", "--verdict", "delete")).lines
    assert newer == [
        {
            "path": LOST,
            "verdict": "delete",
            "reason": "unreferenced",
            "size_bytes": 4,
            "modified": "2026-06-01T00:00:00Z",
            "rule": "expired-snapshot",
        }
    ]


def test_a_file_that_is_kept_is_explained(reader: Lakesweep) -> None:
    metadata = f"{SHOP}/orders/metadata"
    manifest = f"{metadata}/49ecd568-142b-4ac6-ae88-477ca51da5aa-m0.avro"
    snapshot = "snap-5458338100955251194-1-49ecd568-142b-4ac6-ae88-477ca51da5aa.avro"
    newest = "00004-3104679e-8c3c-4159-85fe-8ddc4d5793ae.metadata.json"
    assert _well(reader("explain", PROD, manifest)).document == {
        "plan": PROD,
        "path": manifest,
        "verdict": "keep",
        "reason": "referenced",
        "rule": None,
        "size_bytes": 8051,
        "modified": "2026-06-01T00:00:00Z",
        "etag": "b8f03bb6b911ba79f6596fab5882ef59",
        "table": "default:shop.archive.orders",
        "references": [
            {
                "root": "default:shop.archive.orders",
                "root_kind": "iceberg-table",
                "kind": "manifest",
                "path": manifest,
                "through": [f"{metadata}/{newest}", f"{metadata}/{snapshot}", manifest],
            }
        ],
        "evidence": ["1 root keeps it alive"],
        "would_be_kept_by": [],
    }


def test_a_file_that_would_go_is_explained(reader: Lakesweep) -> None:
    told = _well(reader("explain", PROD_NEWER, LOST)).document
    assert (told["verdict"], told["reason"], told["rule"]) == (
        "delete",
        "unreferenced",
        "expired-snapshot",
    )
    assert told["evidence"][:2] == [
        "none of 11 roots references it; together they name files 434 times",
        "it was written 2026-06-01T00:00:00Z, 160d before the cut-off",
    ]


def test_a_file_of_a_paimon_table_is_explained(reader: Lakesweep) -> None:
    table = "s3://lake/paimon/shop.db/append_plain"
    told = _well(reader("explain", PAIMON, f"{table}/snapshot/snapshot-1")).document
    [reference] = told["references"]
    assert (reference["root_kind"], reference["through"]) == (
        "paimon-table",
        [f"{table}/schema/schema-0", f"{table}/snapshot/snapshot-1"],
    )


# ── carrying out


def test_old_plans_are_refused_and_carried_out_on_a_word(lakesweep: Lakesweep, home: Home) -> None:
    before = home.stored("s3://lake")
    refused = lakesweep("apply", PROD_NEWER, *LOCAL, "--yes")
    assert refused.code == 3
    assert "stale-plan: the plan expired at 2026-11-16T13:10:42Z" in refused.error["message"]
    assert home.stored("s3://lake") == before

    words = (*LOCAL, "--yes", "--override", "stale-plan")
    applied = _well(lakesweep("apply", PROD_NEWER, *words)).document

    assert (applied["found"], applied["deleted"], applied["bytes_deleted"]) == (1, 1, 4)
    assert before - home.stored("s3://lake") == {LOST}
    assert lakesweep("show", PROD_NEWER).document["state"] == "applied"

    before = home.stored("s3://lake")
    doomed = {line["path"] for line in lakesweep("show", PAIMON, "--verdict", "delete").lines}
    applied = _well(lakesweep("apply", PAIMON, *words, "--override", "first-run")).document
    assert (applied["deleted"], applied["bytes_deleted"]) == (36, 9243)
    assert before - home.stored("s3://lake") == doomed


def test_a_plan_that_was_applied_is_not_applied_again(reader: Lakesweep) -> None:
    refused = reader("apply", PROD, *LOCAL, "--yes")
    assert refused.code == 3
    assert refused.error["message"] == (
        f"plan {PROD} was applied by apply-20261115T121035-0a63d1d5; a plan is applied once"
    )


def test_runs_that_were_cut_short_are_gone_on_with(lakesweep: Lakesweep, home: Home) -> None:
    """One was stopped behind three files of five, one died behind two of six."""
    uploads, scratch = "s3://lake/repos/frozen/data/abandoned", "s3://lake/scratch"
    assert (len(home.stored(uploads)), len(home.stored(scratch))) == (2, 4)
    words = (*LOCAL, "--yes", *_overriding("stale-plan", "first-run", "zero-live"))
    applied = _well(lakesweep("apply", REPOS, *words)).document
    assert (applied["found"], applied["deleted"]) == (2, 2)
    _well(lakesweep("apply", SCRATCH, *words))
    assert not home.stored(uploads) | home.stored(scratch)
    lines = lakesweep("runs", "--lake", "scratch").lines
    assert [(line["kind"], line["status"]) for line in lines] == [
        ("apply", "done"),
        ("apply", "dead"),
        ("plan", "done"),
    ]


def test_the_next_plan_reads_no_manifest_again(lakesweep: Lakesweep) -> None:
    """All marks of the last one are known; a Paimon table has lost snapshots since."""
    plan = _well(lakesweep("plan", "prod", *LOCAL)).document
    assert plan["roots"] == {"complete": 11, "incomplete": 0, "absent": 0, "gone": 0}
    assert (plan["spec"]["manifests"], plan["spec"]["manifests_reused"]) == (48, 48)
    assert plan["guards"] == []
    assert plan["totals"]["delete"] == {"unreferenced": {"files": 1, "bytes": 4}}
    assert plan["totals"]["keep"]["own"] == {"files": 13, "bytes": 17852}


# ── quarantine


def test_what_is_held_is_listed(reader: Lakesweep) -> None:
    assert _well(reader("quarantine", "list")).document == {
        "held": [
            {
                "plan": ASIDE,
                "lake": f"lakefs:{REPOSITORY}",
                "since": "2026-11-15T14:11:24Z",
                "files": 7,
                "size_bytes": 68,
                "restored": 0,
                "runs": ["apply-20261115T141124-b77c46e7"],
                "emptied_by": None,
                "hold_until": None,
            },
            {
                "plan": ATTIC_NEWER,
                "lake": "attic",
                "since": "2026-11-15T13:11:18Z",
                "files": 0,
                "size_bytes": 0,
                "restored": 0,
                "runs": ["apply-20261115T131118-d7fef68b"],
                "emptied_by": "empty-20261115T131118-826bb52b",
                "hold_until": None,
            },
            {
                "plan": PROD,
                "lake": "prod",
                "since": "2026-11-15T12:10:35Z",
                "files": 13,
                "size_bytes": 17852,
                "restored": 1,
                "runs": ["apply-20261115T121035-0a63d1d5"],
                "emptied_by": None,
                "hold_until": None,
            },
        ]
    }


def test_what_was_set_aside_comes_back(lakesweep: Lakesweep, home: Home) -> None:
    """One of them is back already, and counts as well."""
    before = home.stored("s3://lake")
    shown = lakesweep("show", PROD, "--verdict", "delete").lines
    shown += lakesweep("lifecycle", "show", ASIDE, "--verdict", "delete").lines
    paths = {line["path"] for line in shown}
    assert (len(paths), len(paths - before)) == (14 + 7, 13 + 7)
    for plan, restored, size_bytes in ((PROD, 14, 17856), (ASIDE, 7, 68)):
        done = _well(lakesweep("quarantine", "restore", plan)).document
        assert (done["restored"], done["bytes_restored"]) == (restored, size_bytes)
    after = home.stored("s3://lake")
    assert paths <= after
    assert len(before - after) == 13 + 7  # they do not lie in quarantine as well


def test_a_hold_ends(lakesweep: Lakesweep, home: Home) -> None:
    done = _well(lakesweep("quarantine", "empty", PROD, *LOCAL, "--yes")).document
    assert (done["deleted"], done["bytes_deleted"]) == (14, 17856)  # S3 tells of none that is gone
    assert not home.stored("s3://lake/warehouse/_lakesweep")
    assert home.is_stored(LOST)


# ── lifecycles


def test_a_plan_by_a_policy_is_shown(reader: Lakesweep) -> None:
    shown = _well(reader("lifecycle", "show", ANALYTICS)).document
    assert (shown["kind"], shown["state"], shown["mode"]) == ("lifecycle", "expired", "full")
    assert shown["totals"] == {
        "delete": {"expired": {"files": 2, "bytes": 18}},
        "keep": {
            "head": {"files": 27, "bytes": 485},
            "not-due": {"files": 2, "bytes": 18},
            "tagged": {"files": 5, "bytes": 76},
        },
    }
    assert [guard["name"] for guard in shown["guards"]] == ["policy-changed", "refs-dump"]
    names = {each["name"] for each in shown["details"]["refs"]}
    assert names == {"main", "quarter-end", "v1"}
    lines = _well(reader("lifecycle", "show", ANALYTICS, "--files", "--verdict", "delete")).lines
    folder = f"{REPOSITORY}/data/ftaa4b9ksduculm4uor0"
    assert [(line["path"], line["modified"], line["rule"]) for line in lines] == [
        (f"{folder}/da1ffg1ksduculm4uprg", "2026-08-17T12:00:00Z", "state"),
        (f"{folder}/dal89g1ksduculm4upug", "2026-09-16T12:00:00Z", "state"),
    ]


def test_an_object_is_explained(reader: Lakesweep) -> None:
    told = _well(reader("lifecycle", "explain", ANALYTICS, "state/latest.json")).document
    assert Counter(each.get("verdict") for each in told["objects"]) == {
        None: 8,  # earlier plans took them
        "keep": 5,
        "delete": 2,
    }
    [found] = [each for each in told["objects"] if "dal89g" in each["address"]]
    assert found["evidence"] == [
        {
            "path": "state/latest.json",
            "commit_id": "d0a9561ba48656bd52c8c56ac8467d9954bef49b8498e3de1944b080007dd485",
            "created": "2026-09-16T12:00:00.158506Z",
            "ref_kind": "branch",
            "ref": "main",
            "rule": "state",
            "before": "2026-10-16T00:00:00Z",
            "age": "2026-09-16T12:00:00Z",
            "keeps": False,
            "why": "expired",
        }
    ]


def test_a_plan_by_a_policy_is_carried_out(lakesweep: Lakesweep, home: Home) -> None:
    words = ("lifecycle", "apply", ANALYTICS, *LOCAL, "--yes")
    refused = lakesweep(*words)
    assert refused.code == 3
    guards = ("policy-changed", "refs-dump", "stale-plan")
    assert all(f"{guard}: " in refused.error["message"] for guard in guards)
    before = home.stored(f"{REPOSITORY}/data")

    applied = _well(lakesweep(*words, *_overriding(*guards))).document

    assert (applied["deleted"], applied["bytes_deleted"], applied["kept_by_remark"]) == (2, 18, 0)
    assert len(before - home.stored(f"{REPOSITORY}/data")) == 2


def test_a_cache_that_the_store_does_not_vouch_for_is_parsed_once_more(
    lakesweep: Lakesweep,
) -> None:
    words = ("--policy", "policy.json", *LOCAL, "--override", "staged")
    for mode, parsed in (("full", 25), ("incremental", 0)):
        plan = _well(lakesweep("lifecycle", "plan", REPOSITORY, "--mode", mode, *words)).document
        assert (plan["spec"]["ranges"], plan["spec"]["ranges_parsed"]) == (25, parsed)
        assert plan["spec"]["entries"] == 45


# ── journals


def test_an_expiry_that_died_is_not_finished_if_no_store_vouches_for_it(
    lakesweep: Lakesweep, home: Home
) -> None:
    """Stores did not record journals then. What it left behind is found as orphan files."""
    table = "s3://lake/paimon/shop.db/pk_lookup"
    words = ("paimon", "expire-snapshots", table, "--retain-min", "2", "--retain-max", "2")
    before = home.stored(table)
    journal = {path for path in before if "/_lakesweep/" in path}
    assert len(journal) == 3

    done = _well(lakesweep(*words, "--yes"))

    assert (done.document["deleted"], home.stored(table)) == ({}, before)
    (ignored,) = done.document["ignored_journals"]
    assert all(path.startswith(ignored["address"]) for path in journal)
    assert f"warning: {ignored['address']} is not carried out" in done.err
    assert f"try: lakesweep paimon orphans {table}/" in done.err
    young = ("--older-than", "1s", "--settle", "0s", *_overriding("grace"))
    cleaned = _well(lakesweep("paimon", "orphans", table, *young, "--yes")).document
    gone = before - home.stored(table)
    assert gone == {file["path"] for file in cleaned["files"]}
    assert len([path for path in gone if "/manifest/" in path]) >= 24
    checked = _well(lakesweep("check", "paimon", *LOCAL)).document
    assert checked["missing"] == 0


# ── the store


def test_the_store_tells_of_itself(reader: Lakesweep) -> None:
    told = _well(reader("store", "info")).document
    assert told["schema_version"] == 1
    assert [(each["name"], each["status"], each["references"]) for each in told["realms"]] == [
        ("acme", "active", 10),
        ("default", "active", 14),
        ("past", "purged", 0),
        ("resting", "inactive", 7),
    ]
    assert told["maintenance"]["run"] == MAINTAINED


def test_a_realm_is_shown(reader: Lakesweep) -> None:
    assert _well(reader("realm", "show", "acme")).document == {
        "name": "acme",
        "status": "active",
        "references": 10,
        "created": "2026-11-15T12:00:16.568541Z",
        "updated": "2026-11-15T12:00:16.595566Z",
        "properties": {"owner": "jane", "tier": "gold"},
    }


def test_the_logs_are_read(reader: Lakesweep) -> None:
    lines = _well(reader("store", "log")).lines
    assert not any(line["problem"] for line in lines)
    assert {line["reference"]: line["seq"] for line in lines} == {
        "cat/226311314392506368/grants": 2,
        "cat/226311314392506368/heads/main": 11,
        "cat/226311314392506368/roles": 1,
        "cat/226311321161560064/grants": None,
        "cat/226311321161560064/heads/main": 3,
        "cat/226311321161560064/roles": None,
        "catalogs": 11,
        "grants": 1,
        "immediate-tasks": 4,
        "policy-mappings": 1,
        "principal-roles": 1,
        "principals": 1,
        "root": None,
        "sweeps": 77,
    }
    newest, *_ = _well(reader("store", "log", "sweeps", "--limit", "1")).lines
    assert newest == {
        "commit": "226374532358615041",
        "seq": 77,
        "committed": "2026-11-15T16:11:34.349944Z",
        "author": "",
        "message": f"{ANALYTICS} is done",
        "changes": [
            {
                "action": "update",
                "key": f"run/{ANALYTICS}",
                "key_hex": f"0272756e0002{ANALYTICS.encode().hex()}00",
                "before": None,
            }
        ],
    }
    told = _well(reader("store", "log", "catalogs"))
    assert [line["seq"] for line in told.lines] == [11, 10, 9]
    assert "those before seq 9 are gone" in told.err


def test_an_export_of_the_store_is_what_it_was(reader: Lakesweep, tmp_path: Path) -> None:
    for realm, told in HASHES.items():
        exported = reader("store", "export", realm, str(tmp_path / f"{realm}.ndjson"))
        assert _well(exported).document["hash"] == told


def test_exports_are_imported(lakesweep: Lakesweep) -> None:
    files = (("acme.ndjson.gz", "live", HASHES["acme"]), ("acme-rows.ndjson", "rows", ROWS))
    for file, kind, told in files:
        imported = _well(lakesweep("store", "import", file, "--realm", kind)).document
        assert (imported["kind"], imported["status"]) == (kind, "active")
        assert (imported["references"], imported["hash"]) == (10, told)
        listed = _well(lakesweep("catalog", "namespace", "list", "books", "--realm", kind))
        assert [line["name"] for line in listed.lines] == ["books.sold"]

    imported = _well(lakesweep("store", "import", "default.ndjson.zst", "--realm", "copy")).document
    assert (imported["references"], imported["objects"]) == (14, 78)
    assert (imported["bytes"], imported["hash"]) == (53856, HASHES["default"])
    config = lakesweep.config
    assert config is not None
    config.write_text(config.read_text().replace("[store]\n", '[store]\nrealm = "copy"\n'))
    assert len(_well(lakesweep("runs", "--limit", "50")).lines) == 20
    assert _well(lakesweep("show", PROD_NEWER)).document["state"] == "expired"


def test_maintenance_goes_on(lakesweep: Lakesweep) -> None:
    done = _well(lakesweep("store", "maintain", "--yes")).document
    assert (done["success"], done["obj_stats"]["failed"]) == (True, 0)
    by_type = done["per_realm_per_obj_type_stats"]["default"]
    assert (by_type["sweep-run"]["retained"], by_type["iceberg-table"]["retained"]) == (20, 3)
    assert len(_well(lakesweep("runs", "--limit", "50")).lines) == 21
    for realm, told in HASHES.items():
        assert lakesweep("store", "export", realm, f"{realm}.out").document["hash"] == told


# ── catalogs


def test_catalogs_are_listed(reader: Lakesweep) -> None:
    found = _well(reader("catalog", "list")).document["catalogs"]
    assert [(each["name"], each["status"], each["version"]) for each in found] == [
        ("shop", "active", 6),
        ("closing", "purging", 2),
    ]
    shop = _well(reader("catalog", "show", "shop")).document
    assert (shop["properties"], shop["keep_dropped"]) == (
        {"owner": "jane", "round": "4"},
        "36500d",
    )
    kinds = ("namespace", "table", "view", "generic_table", "policy", "dropped")
    assert [shop[kind] for kind in kinds] == [2, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("words", "name", "details"),
    [
        (
            ("table", "list", "shop.archive"),
            "shop.archive.orders",
            {
                "metadata_location": f"{SHOP}/orders/metadata/"
                "00004-3104679e-8c3c-4159-85fe-8ddc4d5793ae.metadata.json",
                "location": f"{SHOP}/orders",
            },
        ),
        (
            ("view", "list", "shop.archive"),
            "shop.archive.big_orders",
            {
                "metadata_location": f"{SHOP}/big_orders/metadata/"
                "00003-efd8180a-15a0-4a7b-9189-2a288011bf62.gz.metadata.json",
                "location": f"{SHOP}/big_orders",
            },
        ),
        (
            ("generic-table", "list", "shop.archive"),
            'shop.archive."raw.csv"',
            {"format": "csv", "location": "s3://lake/raw", "description": "as it came"},
        ),
        (
            ("policy", "list", "shop"),
            "shop.weekly",
            {"type": "retention", "content": "keep: 7d"},
        ),
        (("namespace", "list", "shop.archive"), "shop.archive.eu", {}),
        (("principal", "list"), "jane", None),
        (("role", "list"), "analyst", {}),
        (("role", "list", "--catalog", "shop"), "reader", {}),
    ],
)
def test_what_a_catalog_holds_is_listed(
    reader: Lakesweep, words: tuple[str, ...], name: str, details: dict[str, str] | None
) -> None:
    [line] = _well(reader("catalog", *words)).lines
    assert line["name"] == name
    assert line["details"] == details or details is None


def test_what_is_known_of_a_table_is_shown(reader: Lakesweep) -> None:
    told = _well(reader("catalog", "table", "show", "shop.archive.orders")).document
    assert (told["id"], told["version"], told["properties"]) == (
        "226311316000821248",
        2,
        {"owner": "jim"},
    )
    assert (told["uuid"], told["format_version"], told["snapshots"]) == (
        "3102113a-d55d-4b80-82eb-78545ed8b2d7",
        2,
        4,
    )
    [found] = _well(reader("catalog", "find", "shop", f"{SHOP}/orders/data/x.parquet")).lines
    assert found["name"] == "shop.archive.orders"


def test_grants_and_mappings_hold(reader: Lakesweep) -> None:
    allowed = _well(reader("catalog", "grant", "effective", "jane", "shop.archive.orders")).document
    assert [each["privilege"] for each in allowed["allowed"]] == [
        "list",
        "read-data",
        "read-metadata",
    ]
    assert {each["through"] for each in allowed["allowed"]} == {"catalog role reader"}
    [mapping] = _well(reader("catalog", "policy", "attached", "shop.archive")).lines
    assert mapping == {
        "policy": "shop.weekly",
        "type": "retention",
        "target": "shop.archive",
        "parameters": {"strict": "yes"},
    }


def test_what_was_dropped_comes_back(lakesweep: Lakesweep) -> None:
    [dropped] = _well(lakesweep("catalog", "dropped", "shop")).lines
    assert (dropped["name"], dropped["until"]) == (
        "shop.sales.eu.t1",
        "2126-10-22T12:00:22.650298Z",
    )
    _well(lakesweep("catalog", "namespace", "rename", "shop.archive", "shop.sales"))
    _well(lakesweep("catalog", "undrop", "shop.sales.eu.t1"))
    [table] = _well(lakesweep("catalog", "table", "list", "shop.sales.eu")).lines
    assert table["id"] == "226311316835459072"
