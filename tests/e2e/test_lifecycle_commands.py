"""The commands over plans by policies, on repositories that a real lakeFS server wrote."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.command import Lakesweep
from tests.lakefs import RealRepositories
from tests.lakefs_server import RecordedServer, recorded_server
from tests.lakefs_working_server import RefusalError, WorkingServer, working_server
from tests.lifecycle_plans import recorded
from tests.servers import S3Server

POLICY = {
    "events": {"prefix": "events", "days": 90, "enabled": True},
    "state": {"prefix": "state", "days": 30, "enabled": True},
}


@pytest.fixture
def lakesweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Lakesweep:
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    (tmp_path / "lakesweep.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    return Lakesweep(capsys, tmp_path / "lakesweep.toml")


@pytest.fixture
def namespace(lakefs_repositories: RealRepositories, tmp_path: Path) -> Path:
    return recorded(lakefs_repositories, "analytics", tmp_path).real.folder


def plan(lakesweep: Lakesweep, repo: str, *words: str) -> dict[str, Any]:
    done = lakesweep(
        *("lifecycle", "plan", repo, "--policy", "policy.json", "--engine", "local", *words)
    )
    assert done.code == 0, done.err
    first, rule = next(iter(json.loads(Path("policy.json").read_text()).items()))
    assert f"{first}: " in done.err
    assert f"{rule['days']} days on all" in done.err
    return done.document


def stored(namespace: Path) -> set[str]:
    return {str(path) for path in (namespace / "data").rglob("*") if path.is_file()}


def test_a_plan_is_shown_explained_applied_and_undone(
    lakesweep: Lakesweep, namespace: Path
) -> None:
    before = stored(namespace)
    document = plan(lakesweep, str(namespace), "--override", "staged")
    name = str(document["plan"])
    assert document["kind"] == "lifecycle"
    guards = [guard["name"] for guard in document["guards"]]
    assert guards == ["first-run", "refs-dump"]

    shown = lakesweep("lifecycle", "show", str(namespace))
    assert shown.document["plan"] == name
    assert {each["name"] for each in shown.document["details"]["refs"]} == {
        "main",
        "quarter-end",
        "v1",
    }
    lines = lakesweep("lifecycle", "show", name, "--verdict", "delete").lines
    doomed = {line["path"] for line in lines}
    assert {line["reason"] for line in lines} == {"expired"}

    [told] = lakesweep("lifecycle", "explain", name, min(doomed)).document["objects"]
    assert told["verdict"] == "delete"
    assert not any(row["keeps"] for row in told["evidence"])
    versions = lakesweep("lifecycle", "explain", name, "state/latest.json").document["objects"]
    assert {each["verdict"] for each in versions} == {"keep", "delete"}

    refused = lakesweep("lifecycle", "apply", str(namespace), "--engine", "local", "--yes")
    assert refused.code == 3  # the repository stands for its newest plan
    assert f"look with lakesweep lifecycle show {name}" in refused.error["hint"]
    assert "--override" not in refused.error["hint"]  # a dump may hide commits: no hint drops that
    applied = lakesweep(
        *("lifecycle", "apply", name, "--engine", "local", "--yes", "--quarantine"),
        *("--override", "first-run", "--override", "refs-dump"),
    )
    assert applied.document["quarantined"] == len(doomed)
    assert stored(namespace) == before - doomed
    again = lakesweep("lifecycle", "apply", name, "--engine", "local", "--yes")
    assert again.code == 3
    assert "a plan is applied once" in again.error["message"]  # and no guard asks for a word

    assert lakesweep("quarantine", "restore", name).code == 0
    assert stored(namespace) == before


def test_an_unattended_lifecycle_waits_for_approval_and_applies_what_was_approved(
    lakesweep: Lakesweep, namespace: Path
) -> None:
    before = stored(namespace)
    words = ("lifecycle", "sweep", str(namespace), "--policy", "policy.json", "--engine", "local")
    waiting = lakesweep(*words, "--override", "staged")
    assert (waiting.code, waiting.document["outcome"]) == (3, "waiting")
    assert "every plan of this lake needs approval" in waiting.document["reasons"]
    assert stored(namespace) == before
    approved = lakesweep("approve", waiting.document["plan"], "--override", "refs-dump")
    assert approved.code == 0, approved.err
    done = lakesweep(*words, "--override", "staged")
    assert (done.code, done.document["outcome"]) == (0, "applied"), done.err
    assert done.document["applied"]["quarantined"] == len(before - stored(namespace)) > 0
    assert lakesweep("quarantine", "restore", waiting.document["plan"]).code == 0
    assert stored(namespace) == before


def test_a_plan_is_shown_by_paths_and_as_a_page(lakesweep: Lakesweep, namespace: Path) -> None:
    name = str(plan(lakesweep, str(namespace), "--override", "staged")["plan"])
    doomed = {
        line["path"] for line in lakesweep("lifecycle", "show", name, "--verdict", "delete").lines
    }
    lines = lakesweep("lifecycle", "show", name, "--paths").lines
    assert {f"{namespace}/{line['address']}" for line in lines} == doomed
    assert all(path.startswith(("state/", "events/")) for each in lines for path in each["paths"])
    text = lakesweep("lifecycle", "show", name, "--paths", json=False).out
    assert f"  {lines[0]['paths'][0]}: " in text
    assert f"  {lines[0]['matched_rules'][0]}  ({lines[0]['address']})" in text

    assert lakesweep("lifecycle", "show", name, "--html", "page.html").code == 0
    assert name in Path("page.html").read_text()
    assert lakesweep("lifecycle", "show", name, "--html", "-", json=False).out.startswith("<!")
    assert not Path("-").exists()
    there = Path("there.html").absolute().as_uri()
    assert lakesweep("lifecycle", "show", name, "--html", there).code == 0
    assert name in Path("there.html").read_text()
    assert lakesweep("lifecycle", "show", name, "--html", "page.html", "--paths").code == 2


def test_what_decides_is_named_first(lakesweep: Lakesweep, namespace: Path) -> None:
    name = str(plan(lakesweep, str(namespace), "--override", "staged")["plan"])
    found = lakesweep("lifecycle", "explain", name, "state/latest.json").document["objects"]
    for each in (each for each in found if each["stored"]):
        assert each["evidence"][0]["why"] == each["reason"]
        assert each["evidence"][0]["keeps"] == (each["verdict"] == "keep")
    text = lakesweep("lifecycle", "explain", name, "state/latest.json", json=False).out
    assert " decided by   head main" in text


#: The example of the requirement, character by character but for white space.
TEXT = """
{"rule1": {"prefix": "foo/bar", "days": 10, "enabled": true, "branch_days": {"b1": 5, "b2": 8}},
 "rule2": {"prefix": "foo/zoo", "enabled": true, "branch_days": {"b1": 5}}}
"""


def test_the_policy_of_the_requirement_runs_as_it_is(lakesweep: Lakesweep, namespace: Path) -> None:
    Path("policy.json").write_text(TEXT)
    for words in ([], ["--as-proposed"]):
        found = plan(lakesweep, str(namespace), "--override", "staged", *words)
        assert found["mode"] == ("requirement" if words else "full")
        assert not found["totals"].get("delete")
    rows = pq.read_table(namespace / "_lakefs/retention/lc/policy").to_pylist()
    told = {(row["rule_id"], row["prefix"], row["branch"], row["days"]) for row in rows}
    assert len(rows) == 8
    assert told == {
        ("rule1", "foo/bar", None, 10),
        ("rule1", "foo/bar", "b1", 5),
        ("rule1", "foo/bar", "b2", 8),
        ("rule2", "foo/zoo", "b1", 5),
    }


def test_few_days_and_the_proposal_must_be_confirmed(lakesweep: Lakesweep, namespace: Path) -> None:
    rule = {"prefix": "sta", "days": 5, "enabled": True}
    Path("policy.json").write_text(json.dumps({"short": rule}))
    before = stored(namespace)
    found = plan(lakesweep, str(namespace), "--override", "staged", "--as-proposed")
    assert found["totals"]["delete"]["expired"]["files"] > 0
    words = (
        *("lifecycle", "apply", str(found["plan"]), "--engine", "local", "--yes"),
        *("--override", "first-run", "--override", "refs-dump", "--override", "share"),
    )
    refused = lakesweep(*words)
    assert refused.code == 3
    assert "short-retention: " in refused.error["message"]
    assert "short.days (5 days)" in refused.error["message"]
    assert "as-proposed: " in refused.error["message"]
    assert stored(namespace) == before

    told = lakesweep("lifecycle", "explain", str(found["plan"]), "state/latest.json").document
    assert any(each.get("verdict") == "delete" for each in told["objects"])
    allowed = ("--override", "short-retention", "--override", "as-proposed")
    assert lakesweep(*words, *allowed).document["deleted"] > 0

    mixed = lakesweep(
        *("lifecycle", "plan", str(namespace), "--policy", "policy.json", "--engine", "local"),
        *("--as-proposed", "--mode", "full"),
    )
    assert mixed.code == 2


def test_roots_of_lakes_keep_objects_and_the_repository_itself_is_none_of_them(
    lakesweep: Lakesweep, namespace: Path, tmp_path: Path
) -> None:
    words = ("--override", "staged")
    name = plan(lakesweep, str(namespace), *words)["plan"]
    lines = lakesweep("lifecycle", "show", str(name), "--verdict", "delete").lines
    doomed = {line["path"] for line in lines}
    (tmp_path / "pins.txt").write_text(f"{min(doomed)}\n")
    (tmp_path / "lakesweep.toml").write_text(
        f"""
[lakes.all]
locations = ["{namespace}"]
[[lakes.all.roots]]
type = "lakefs"
namespaces = ["{namespace}"]
[[lakes.all.roots]]
type = "pinned"
file = "{tmp_path}/pins.txt"
"""
    )
    again = plan(lakesweep, str(namespace), *words)["plan"]
    lines = lakesweep("lifecycle", "show", str(again), "--verdict", "delete").lines
    assert {line["path"] for line in lines} == doomed - {min(doomed)}

    (tmp_path / "pins.txt").unlink()
    done = lakesweep(
        *("lifecycle", "plan", str(namespace), "--policy", "policy.json", "--engine", "local"),
        *words,
    )
    assert (done.code, "pins.txt could not be read" in done.error["message"]) == (4, True)


def set_aside(lakesweep: Lakesweep, namespace: Path) -> str:
    """The plan by which objects were set aside."""
    name = str(plan(lakesweep, str(namespace), "--override", "staged")["plan"])
    applied = lakesweep(
        *("lifecycle", "apply", name, "--engine", "local", "--yes", "--quarantine"),
        *("--override", "first-run", "--override", "refs-dump"),
    )
    assert applied.document["quarantined"] > 0
    return name


def trash(namespace: Path) -> set[str]:
    found = (namespace / "_lakefs/retention/lc/trash").rglob("*")
    return {str(path) for path in found if path.is_file()}


def test_the_hold_of_objects_ends(lakesweep: Lakesweep, namespace: Path) -> None:
    name = set_aside(lakesweep, namespace)
    before = trash(namespace)
    emptied = lakesweep("quarantine", "empty", name, "--engine", "local", "--yes")
    assert (emptied.code, emptied.document["deleted"]) == (0, len(before)), emptied.err
    assert not trash(namespace)


def test_another_policy_asks_for_a_word(lakesweep: Lakesweep, namespace: Path) -> None:
    """It may want for longer what was set aside."""
    name = set_aside(lakesweep, namespace)
    longer = {**POLICY, "events": {**POLICY["events"], "days": 900}}
    Path("policy.json").write_text(json.dumps(longer))
    later = str(plan(lakesweep, str(namespace), "--override", "staged")["plan"])
    words = ("--override", "policy-changed", "--override", "refs-dump")
    assert lakesweep("lifecycle", "apply", later, "--engine", "local", "--yes", *words).code == 0
    before = trash(namespace)

    empty = ("quarantine", "empty", name, "--engine", "local", "--yes")
    refused = lakesweep(*empty)

    assert refused.code == 3
    assert refused.error["hint"].endswith("--override policy-changed")
    assert f"quarantine empty {name} --engine local --yes" in refused.error["hint"]
    assert trash(namespace) == before
    assert lakesweep(*empty, "--override", "policy-changed").document["deleted"] == len(before)


def test_a_plan_that_is_gone_asks_for_a_word(lakesweep: Lakesweep, namespace: Path) -> None:
    name = set_aside(lakesweep, namespace)
    shutil.rmtree(namespace / "_lakefs/retention/lc/plans")
    before = trash(namespace)
    words = ("quarantine", "empty", name, "--engine", "local", "--yes")
    refused = lakesweep(*words)
    assert refused.code == 3
    assert refused.error["hint"].endswith("restore the folder of the plan")
    assert trash(namespace) == before
    config = f'[lakes.all]\nlocations = ["{namespace.parent}/none"]\n'
    config += f'roots = [{{type = "lakefs", namespaces = ["{namespace}"]}}]\n'
    Path("lakesweep.toml").write_text(config)
    emptied = lakesweep(*words, "--override", "plan-gone", "--override", "staged")
    assert (emptied.code, emptied.document["deleted"]) == (0, len(before)), emptied.err


def test_refs_that_cannot_be_read_keep_a_hold_from_ending(
    lakesweep: Lakesweep, namespace: Path
) -> None:
    name = set_aside(lakesweep, namespace)
    before = trash(namespace)
    (namespace / "_lakefs/refs_manifest.json").unlink()
    assert lakesweep("quarantine", "empty", name, "--engine", "local", "--yes").code == 4
    assert trash(namespace) == before


def test_a_namespace_that_cannot_tell_what_is_staged_is_refused(
    lakesweep: Lakesweep, namespace: Path
) -> None:
    done = lakesweep(
        *("lifecycle", "plan", str(namespace), "--policy", "policy.json", "--engine", "local")
    )
    assert done.code == 3
    assert "staged" in done.error["message"]
    assert not (namespace / "_lakefs/retention/lc").exists()  # nothing was listed for it


def test_a_namespace_that_is_not_there_is_not_found(lakesweep: Lakesweep) -> None:
    """In place of a word on what is staged, which sends people to the wrong option."""
    done = lakesweep(
        *("lifecycle", "plan", "no/such", "--policy", "policy.json", "--engine", "local")
    )
    assert done.code == 6
    assert "holds no refs dump" in done.error["message"]


@pytest.mark.parametrize("command", ["show", "explain", "apply"])
def test_plans_of_one_kind_are_no_plans_of_another(
    lakesweep: Lakesweep, namespace: Path, command: str
) -> None:
    name = str(plan(lakesweep, str(namespace), "--override", "staged")["plan"])
    words = ["--override", "first-run", "--override", "refs-dump"] if command == "apply" else []
    done = lakesweep(command, name, *(["x"] if command == "explain" else []), *words)
    assert done.code == 2
    assert done.error["hint"] == f"lakesweep lifecycle show {name}"


def test_what_nobody_planned_is_not_found(lakesweep: Lakesweep, namespace: Path) -> None:
    name = str(plan(lakesweep, str(namespace), "--override", "staged")["plan"])
    assert lakesweep("lifecycle", "explain", name, "no/such/path").code == 6
    assert lakesweep("lifecycle", "show", "plan-20200101T000000-00000000").code == 6


def test_plans_may_lie_elsewhere(lakesweep: Lakesweep, namespace: Path, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    document = plan(lakesweep, str(namespace), "--override", "staged", "--place", str(place))
    done = lakesweep(
        *("lifecycle", "apply", str(document["plan"]), "--engine", "local", "--yes"),
        *("--quarantine", "--override", "first-run", "--override", "refs-dump"),
    )
    assert done.document["quarantined"] > 0
    left = [path for path in (namespace / "_lakefs/retention/lc").rglob("*") if path.is_file()]
    assert not left  # only a lock was there for a while
    tables = {"policy", "current_rule", "commits", "cache", "addresses", "stats"}
    assert tables <= {folder.name for folder in place.iterdir()}
    assert len(list((place / "trash").rglob("*"))) > done.document["quarantined"]


@pytest.fixture
def server(lakefs_repositories: RealRepositories) -> Iterator[RecordedServer]:
    with recorded_server(lakefs_repositories) as server:
        yield server


def test_a_server_and_its_bucket_are_read_and_nothing_young_goes(
    lakesweep: Lakesweep,
    server: RecordedServer,
    lakefs_repositories: RealRepositories,
    moto: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {**moto.environment(), **server.environment}.items():
        monkeypatch.setenv(name, value)
    folder = lakefs_repositories.repository("objects").folder
    client = moto.boto3()
    client.create_bucket(Bucket="lake")
    for path in (path for path in folder.rglob("*") if path.is_file()):
        key = f"repos/objects/{path.relative_to(folder)}"
        client.put_object(Bucket="lake", Key=key, Body=path.read_bytes())
    Path("policy.json").write_text(
        json.dumps({"all": {"prefix": "foo", "days": 1, "enabled": True}})
    )
    done = lakesweep(
        *("lifecycle", "plan", "objects", "--policy", "policy.json", "--floor", "1"),
        *("--engine", "local"),
    )
    assert done.code == 0, done.err
    assert not done.document["totals"].get("delete")
    assert done.document["totals"]["keep"]["head"]["files"] > 0

    assert lakesweep.config is not None
    lakesweep.config.write_text(
        f"""
[lakes.prod]
locations = ["s3://lake/repos/objects"]
grace = "0s"

[[lakes.prod.roots]]
type = "lakefs"
endpoint = "{server.endpoint}"
repositories = ["objects"]
"""
    )
    swept = lakesweep("plan", "prod", "--engine", "local")
    assert swept.code == 0, swept.err
    lines = lakesweep("show", "prod", "--verdict", "delete").lines
    uploads = lakefs_repositories.repository("objects").answer("repository")["abandoned_uploads"]
    assert set(uploads) <= {line["path"] for line in lines}


@pytest.fixture
def working(
    lakesweep: Lakesweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WorkingServer]:
    """Old logs on two branches, something staged on one of them, and a policy that expires them."""
    rule = {"prefix": "logs", "days": 30, "enabled": True, "expire_heads": True}
    Path("policy.json").write_text(json.dumps({"logs": rule}))
    with working_server(tmp_path / "objects") as server:
        for name in ("a", "b"):
            server.put("main", f"logs/{name}", days=100)
        server.put("main", "keep/c", days=100)
        server.commit("main", days=100)
        server.branch("dev")
        server.put("dev", "work/mine")
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        assert lakesweep.config is not None
        lakesweep.config.write_text(
            f"""
[lakes.prod]
locations = ["{server.namespace}"]

[[lakes.prod.roots]]
type = "lakefs"
endpoint = "{server.endpoint}"
repositories = ["repo"]
local_root = "{server.folder}"
"""
        )
        yield server


_APPLY = ("lifecycle", "apply", "repo", "--engine", "local")
_WORDS = ("--override", "first-run", "--override", "share", "--override", "zero-live")


def _plan_logs(lakesweep: Lakesweep) -> None:
    done = lakesweep(*("lifecycle", "plan", "repo", "--policy", "policy.json", "--engine", "local"))
    assert done.code == 0, done.err


def test_other_repositories_of_the_server_are_told_and_must_lie_apart(
    lakesweep: Lakesweep, working: WorkingServer
) -> None:
    words = ("lifecycle", "plan", "repo", "--policy", "policy.json", "--engine", "local")
    assert "have imported" not in lakesweep(*words).err

    working.others = [
        {"id": "apart", "storage_namespace": "local://apart"},
        {"id": "passing", "storage_namespace": "mem://passing"},
    ]
    assert re.search("imported from this one, .*: apart$", lakesweep(*words).err, re.MULTILINE)

    working.others = [{"id": "inside", "storage_namespace": "local://repo/data/inside"}]
    refused = lakesweep(*words)
    assert refused.code == 3
    assert "shares its folder" in refused.err


def test_a_server_that_does_not_list_its_repositories_is_not_believed(
    lakesweep: Lakesweep, working: WorkingServer
) -> None:
    working.lists_repositories = False
    done = lakesweep("lifecycle", "plan", "repo", "--policy", "policy.json", "--engine", "local")
    assert done.code == 4
    assert "grant fs:ListRepositories" in done.err


def test_a_repository_that_came_to_the_folder_since_stops_an_apply(
    lakesweep: Lakesweep, working: WorkingServer
) -> None:
    _plan_logs(lakesweep)
    working.others = [{"id": "new", "storage_namespace": "local://repo"}]
    before = working.stored()

    done = lakesweep(*_APPLY, *_WORDS, "--yes", "--bytes-at-once")

    assert done.code == 4
    assert "in one folder with new" in done.err
    assert working.stored() == before


def test_what_expires_on_heads_is_taken_off_first(
    lakesweep: Lakesweep, working: WorkingServer
) -> None:
    before, staged = working.stored(), dict(working.staged["dev"])
    _plan_logs(lakesweep)
    dry = lakesweep(*_APPLY, *_WORDS, "--dry-run")
    assert dry.document["to_take_off"] == {"dev": 2, "main": 2}
    assert (dry.document["waiting"], dry.document["deleted"]) == (2, 0)
    assert "0 files, 0 B to delete" in dry.err
    assert "2 paths to remove from branch main, by a commit" in dry.err
    assert "2 files, 12 B wait for the next run" in dry.err

    done = lakesweep(*_APPLY, *_WORDS, "--yes")

    assert done.code == 0  # whoever works on a branch is no failure
    assert (done.document["taken_off"], done.document["waiting"]) == (2, 2)
    assert "branch dev was not changed: it has staged changes" in done.err
    assert set(working.shown("main")) == {"keep/c"}
    assert working.staged["dev"] == staged
    assert working.stored() == before

    working.commit("dev")
    _plan_logs(lakesweep)
    shown = lakesweep(*_APPLY, *_WORDS, "--yes", json=False)
    assert re.search(r"dev +2$", shown.out, re.MULTILINE)
    _plan_logs(lakesweep)
    assert lakesweep(*_APPLY, *_WORDS, "--yes").document["deleted"] == 2
    assert set(working.shown("dev")) == {"keep/c", "work/mine"}
    assert working.readable()


def test_a_branch_that_refuses_is_told_by_the_exit_code(
    lakesweep: Lakesweep, working: WorkingServer
) -> None:
    def refuse() -> None:
        raise RefusalError(412, "pre-merge hook aborted")

    working.before["merge/main"] = refuse
    _plan_logs(lakesweep)
    done = lakesweep(*_APPLY, *_WORDS, "--yes")
    assert done.code == 4
    assert "pre-merge hook aborted" in done.err
    assert done.document["branches_refused"] == 1


def test_bytes_may_go_at_once(lakesweep: Lakesweep, working: WorkingServer) -> None:
    _plan_logs(lakesweep)
    dry = lakesweep(*_APPLY, *_WORDS, "--bytes-at-once", "--dry-run")
    assert "2 files, 12 B to delete" in dry.err
    done = lakesweep(*_APPLY, *_WORDS, "--bytes-at-once", "--yes")
    assert done.document["deleted"] == 2
    assert "logs/a" in working.shown("main")
