"""Plans by policies: made, looked at again, carried out and undone by the sweep's machinery."""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesweep.clock import ManualClock
from lakesweep.config import PinnedRoot
from lakesweep.errors import IncompleteError, NotFoundError, RefusedError, UnavailableError
from lakesweep.lakefs.refs.commit_graph import RepositoryBranch, RepositoryCommit, RepositoryTag
from lakesweep.lakefs.repository.interface import DumpAge
from lakesweep.lifecycle.apply.applier import plan_sources, record_dry_run
from lakesweep.lifecycle.inspect.explanation import ObjectExplainer
from lakesweep.lifecycle.judge.commit_selection import Selection
from lakesweep.lifecycle.run_history import LifecycleHistory
from lakesweep.runs.records import RunKind, RunStatus
from lakesweep.runs.sessions import run_session
from lakesweep.storage.datasets.reader import load_dataset, read_dataset
from lakesweep.storage.stores import Stores
from lakesweep.sweep.roots.root import RootProblem
from tests.lakefs import AS_OF, RealRepositories
from tests.lifecycle_plans import SMALL, Around, Office, opener_of, recorded
from tests.planned import deletes, reasons
from tests.timed_store import TimedStore

#: Lets old states go, and some events.
RULES = {"events": {"prefix": "events", "days": 90}, "state": {"prefix": "state", "days": 30}}


@pytest.fixture
def office(lakefs_repositories: RealRepositories, tmp_path: Path) -> Office:
    return Office(recorded(lakefs_repositories, "analytics", tmp_path))


def keys(office: Office, paths: set[str]) -> set[str]:
    return {path.removeprefix(f"{office.repository.real.folder}/") for path in paths}


def holding(office: Office, key: str) -> RepositoryCommit:
    """A commit that holds an object, which nothing else does by now."""
    entries = office.repository.real.entries
    names = {key, f"{office.repository.real.namespace}/{key}"}
    return next(
        commit
        for commit in office.repository.commits.values()
        if any(entry["address"] in names for entry in entries[commit.id])
    )


def history(office: Office) -> LifecycleHistory:
    namespace = office.repository.namespace
    return LifecycleHistory(
        office.stores,
        namespace.address("_lakefs/retention/lc"),
        namespace.location,
        office.documents,
    )


def test_what_every_rule_lets_go_is_deleted_and_nothing_else(office: Office) -> None:
    plan = office.plan(RULES)
    doomed, before = keys(office, deletes(plan)), office.stored()
    assert set(reasons(plan).values()) == {"expired", "head", "tagged", "not-due"}

    applied = office.apply(plan)

    assert applied.report.deleted == len(doomed) == 11
    assert office.stored() == before - doomed
    swept = history(office).last_swept()
    assert swept is not None
    assert swept.run_id == plan.document.plan
    results = load_dataset(office.stores, plan.document.details["results"])
    assert f"/addresses/dt=2026-11-15/{swept.run_id}/" in results.address
    listed = [row for batch in read_dataset(office.stores, results) for row in batch.to_pylist()]
    assert sorted(row["address"] for row in listed) == sorted(doomed)


def lc(office: Office) -> Path:
    return office.repository.real.folder / "_lakefs/retention/lc"


def test_the_table_of_addresses_says_what_plans_delete(office: Office) -> None:
    """Not what a policy expires: an object may be gone, or something else may reference it."""
    first = office.plan(RULES)
    office.apply(first)
    office.clock.sleep(timedelta(days=40).total_seconds())
    pin = min(deletes(office.plan(RULES)))
    (office.repository.real.folder / "pins.txt").write_text(f"{pin}\n")
    office.roots = (PinnedRoot(type="pinned", file=f"{office.repository.real.folder}/pins.txt"),)
    office.clock.sleep(60)
    last = office.plan(RULES)
    rows = pq.read_table(lc(office) / "addresses").to_pylist()
    for plan in (first, last):
        found = [row for row in rows if row["run_id"] == plan.document.plan]
        assert {row["address"] for row in found} == keys(office, deletes(plan))
        assert all(row["paths"] and len(row["matched_rules"]) >= 1 for row in found)
        assert {row["dt"] for row in found} == {f"{plan.document.created:%Y-%m-%d}"}
    assert pin not in deletes(last)


@pytest.mark.parametrize("name", ["policy", "addresses", "commits", "current_rule", "branch_last"])
def test_a_table_of_all_runs_is_one_table_for_plain_readers(office: Office, name: str) -> None:
    for _ in range(2):  # the second deletes nothing, so that one of its tables is empty
        office.apply(office.plan(RULES))
        office.clock.sleep(60)
    rows = pq.read_table(lc(office) / name)
    files = f"{lc(office)}/{name}/**/*.parquet"
    with duckdb.connect() as database:
        read = f"select count(*) from read_parquet('{files}', hive_partitioning = true)"
        assert database.sql(read).fetchall() == [(rows.num_rows,)]
    assert rows.num_rows > 0
    assert {"dt", "run_id"} <= set(rows.column_names)


def test_the_statistics_of_a_day_have_a_line_a_run(office: Office) -> None:
    plan = office.plan(RULES)
    now = office.clock.now()
    record_dry_run(office.stores, office.runs, plan.document, now, 0)
    assert history(office).last_swept() is None
    office.clock.sleep(60)
    office.apply(plan)
    (lc(office) / "stats/dt=2026-11-15/torn.json").write_text("{")
    office.clock.sleep(60)
    office.apply(office.plan(RULES))
    with (lc(office) / "stats/2026-11-15.csv").open() as file:
        lines = list(csv.DictReader(file))
    told = [(each["state"], each["dry_run"], each["found"], each["deleted"]) for each in lines]
    assert told == [
        ("dry-run", "true", "11", "0"),
        ("swept", "false", "11", "11"),
        ("swept", "false", "0", "0"),
    ]
    assert {each["run_id"] for each in lines[:2]} == {plan.document.plan}


def test_what_was_deleted_is_not_counted_again(office: Office) -> None:
    office.apply(office.plan(RULES))
    office.clock.sleep(timedelta(hours=1).total_seconds())

    again = office.plan(RULES)

    assert not deletes(again)
    assert again.document.details["saved"]["rule"][0]["delete"]["files"] == 0
    assert not again.document.guards


def test_what_was_set_aside_comes_back(office: Office) -> None:
    plan, before = office.plan(RULES), office.stored()
    office.apply(plan, quarantine=True)
    trash = office.repository.real.folder / "_lakefs/retention/lc/trash"
    assert office.stored() == before - keys(office, deletes(plan))
    assert len([path for path in trash.rglob("*") if path.is_file()]) == 11

    keeper, held = office.keeper(plan)
    with run_session(office.runs, office.lake.name, RunKind.RESTORE, spec={}) as session:
        keeper.restore(held, session)

    assert office.stored() == before


def test_a_server_that_forgot_commits_is_not_believed(office: Office) -> None:
    plan, before = office.plan(RULES), office.stored()
    head = office.repository.branches["main"]
    (parent,) = office.repository.commits[head.commit_id].parents
    del office.repository.commits[head.commit_id]
    office.repository.branches["main"] = RepositoryBranch("main", parent)

    with pytest.raises(IncompleteError, match="1 commit of the plan"):
        office.apply(plan)
    assert office.stored() == before


def test_another_repository_of_that_name_is_not_believed(
    office: Office, lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    plan = office.plan(RULES)
    other = recorded(lakefs_repositories, "analytics", tmp_path / "other")
    openers = {"analytics": opener_of(other)}

    sources = plan_sources(office.stores, plan.record, plan.document, openers)
    (root,) = (
        root for each in sources(office.stores, office.lake, list) for root in each.collect()
    )

    assert isinstance(root, RootProblem)
    assert "another repository of that name" in root.reason


def trash(office: Office) -> set[str]:
    """The objects that lie in quarantine, by the keys that they had."""
    folder = office.repository.real.folder
    found = (path for path in (folder / "_lakefs/retention/lc/trash").rglob("*") if path.is_file())
    return {f"data/{str(path).partition('/data/')[2]}" for path in found}


def revive(office: Office, key: str) -> set[str]:
    """Revert main to a commit that holds an object: the keys of all that the new commit holds."""
    old = holding(office, key)
    head = office.repository.branches["main"].commit_id
    revived = replace(old, id="f" * 64, parents=(head,), created=AS_OF)
    office.repository.commits[revived.id] = revived
    office.repository.branches["main"] = RepositoryBranch("main", revived.id)
    return {
        entry["address"].removeprefix(f"{office.repository.real.namespace}/")
        for entry in office.repository.real.entries[old.id]
    }


def test_a_hold_ends_for_what_no_commit_revived(office: Office) -> None:
    plan = office.plan(RULES)
    doomed = keys(office, deletes(plan))
    office.apply(plan, quarantine=True)
    assert trash(office) == doomed
    office.clock.sleep(timedelta(days=60).total_seconds())
    held = revive(office, min(doomed))

    released = office.empty(plan)

    assert keys(office, set(released.referenced)) == trash(office) == doomed & held
    assert released.tally.deleted == len(doomed - held) > 0


def test_a_branch_on_an_old_commit_keeps_its_objects_in_quarantine(office: Office) -> None:
    plan = office.plan(RULES)
    key = min(keys(office, deletes(plan)))
    office.apply(plan, quarantine=True)
    office.repository.branches["again"] = RepositoryBranch("again", holding(office, key).id)
    assert str(office.repository.real.folder / key) in office.empty(plan).referenced
    assert key in trash(office)


def test_a_hold_does_not_end_while_the_server_does_not_answer(office: Office) -> None:
    plan = office.plan(RULES)
    office.apply(plan, quarantine=True)
    before = trash(office)
    office.repository.broken = IncompleteError("the server does not answer")
    with pytest.raises(IncompleteError, match="could not be read"):
        office.empty(plan)
    assert trash(office) == before


def test_a_commit_that_takes_up_old_objects_keeps_them(office: Office) -> None:
    plan = office.plan(RULES)
    doomed = keys(office, deletes(plan))
    held = revive(office, min(doomed))

    applied = office.apply(plan)

    assert applied.kept_by_remark == len(doomed & held) > 0
    assert doomed & held <= office.stored()
    assert not (doomed - held) & office.stored()
    assert history(office).last_swept() is None


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_ref_on_an_old_commit_keeps_what_it_holds(office: Office, kind: str) -> None:
    plan = office.plan(RULES)
    key = min(keys(office, deletes(plan)))
    old = holding(office, key)
    if kind == "branch":
        office.repository.branches["again"] = RepositoryBranch("again", old.id)
    else:
        office.repository.tags["again"] = RepositoryTag("again", old.id)

    assert office.apply(plan).kept_by_remark > 0
    assert key in office.stored()


def test_a_branch_that_means_nothing_new_keeps_nothing_more(office: Office) -> None:
    plan = office.plan(RULES)
    main = office.repository.branches["main"]
    office.repository.branches["job-7"] = replace(main, name="job-7")

    assert office.apply(plan).kept_by_remark == 0


def test_a_branch_with_a_longer_rule_keeps_all_that_it_reaches(office: Office) -> None:
    rules = {
        "state": {"prefix": "state", "days": 30, "branch_days": {"audit": 4_000}},
    }
    plan = office.plan(rules)
    main = office.repository.branches["main"]
    office.repository.branches["audit"] = replace(main, name="audit")

    applied = office.apply(plan)

    assert applied.kept_by_remark == len(deletes(plan)) > 0
    assert applied.report.deleted == 0


def test_what_is_staged_meanwhile_is_kept(office: Office) -> None:
    plan = office.plan(RULES)
    key = min(keys(office, deletes(plan)))
    office.repository.stage("main", "again", key)

    assert office.apply(plan).kept_by_remark == 1
    assert key in office.stored()


def test_an_upload_that_was_never_committed_is_told_as_staged(office: Office) -> None:
    upload = office.repository.real.folder / "data" / "new" / "upload"
    upload.parent.mkdir()
    upload.write_bytes(b"new")
    assert reasons(office.plan(RULES))[str(upload)] == "uncovered"  # nothing names it yet

    office.repository.stage("main", "new", "data/new/upload")
    assert reasons(office.plan(RULES))[str(upload)] == "staged"


def test_a_commit_that_cannot_be_read_stops_before_the_first_delete(office: Office) -> None:
    plan, before = office.plan(RULES), office.stored()
    head = office.repository.commits[office.repository.branches["main"].commit_id]
    new = replace(head, id="f" * 64, parents=(head.id,), metarange_id="e" * 64)
    office.repository.commits[new.id] = new

    with pytest.raises(IncompleteError, match=r"e{64}"):
        office.apply(plan)

    assert office.stored() == before
    [run] = (run for run in office.runs.list() if run.kind is RunKind.APPLY)
    assert run.status is RunStatus.FAILED


def test_a_server_that_does_not_answer_stops_before_the_first_delete(office: Office) -> None:
    plan, before = office.plan(RULES), office.stored()
    office.repository.broken = IncompleteError("the server does not answer")

    with pytest.raises(IncompleteError):
        office.apply(plan)

    assert office.stored() == before


def test_a_server_that_fails_to_tell_what_is_staged_is_never_overridden(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Iterator[pa.RecordBatch]:
        raise UnavailableError("http://127.0.0.1:8000", "it does not answer")

    monkeypatch.setattr(office.repository, "staged", fail)

    with pytest.raises(UnavailableError, match="does not answer"):
        office.plan(RULES, without_staging=True)


def test_a_range_that_is_missing_lets_no_plan_be_made(office: Office) -> None:
    commit = office.repository.real.answer("commits")[-1]
    (office.repository.real.folder / "_lakefs" / commit["ranges"][0]).unlink()

    with pytest.raises(Exception, match=commit["ranges"][0]):
        office.plan(RULES)


class CrashError(BaseException):
    """The process ended here."""


def test_a_run_that_died_is_gone_on_with(office: Office) -> None:
    plan, before = office.plan(RULES), office.stored()
    doomed = keys(office, deletes(plan))
    batches = iter(range(2))

    def die() -> None:
        if next(batches, None) is None:
            raise CrashError

    with pytest.raises(CrashError):
        office.apply(plan, removal=Around(before=die), batch_rows=3)
    assert 0 < len(before - office.stored()) < len(doomed)

    office.clock.sleep(timedelta(minutes=10).total_seconds())
    applied = office.apply(plan)

    assert office.stored() == before - doomed
    assert applied.kept_by_remark == 0
    with pytest.raises(RefusedError, match="applied once"):
        office.apply(plan)
    assert history(office).last_swept() is not None


def test_what_is_staged_while_objects_go_is_kept(office: Office) -> None:
    plan = office.plan(RULES)
    rows = [row for batch in plan.rows() for row in batch.to_pylist()]
    last = [row["path"] for row in rows if row["verdict"] == "delete"][-1]
    unstaged = keys(office, {last})
    [key] = unstaged

    def stage() -> None:
        while unstaged:
            office.repository.stage("main", "again", unstaged.pop())
            time.sleep(0.5)  # somebody looks at the repository every now and then

    applied = office.apply(plan, removal=Around(behind=stage), batch_rows=1)

    assert key in office.stored()
    assert applied.kept_by_remark == 1


def test_the_clock_of_the_store_has_a_say(office: Office) -> None:
    first = office.plan(RULES)
    path = min(deletes(first))
    lately = (AS_OF - timedelta(days=5)).timestamp()
    os.utime(path, (lately, lately))

    again = office.plan(RULES)

    assert reasons(again)[path] == "too-new"
    assert deletes(again) == deletes(first) - {path}


def test_an_object_that_changed_since_is_left_alone(office: Office) -> None:
    plan = office.plan(RULES)
    path = Path(min(deletes(plan)))
    path.write_bytes(b"another one")

    applied = office.apply(plan)

    assert path.exists()
    assert applied.report.changed == 1
    assert history(office).last_swept() is None  # the next run looks at it again


def test_the_first_plan_and_another_policy_ask_for_a_word(office: Office) -> None:
    plan = office.plan(RULES)
    with pytest.raises(RefusedError, match="first-run"):
        office.apply(plan, overridden=())
    office.apply(plan)

    other = office.plan({"state": {"prefix": "state", "days": 3}})

    assert "policy-changed" in {guard.name for guard in other.document.guards}
    with pytest.raises(RefusedError, match="policy-changed"):
        office.apply(other)
    confirmed = (*SMALL, "policy-changed", "short-retention")
    assert office.apply(other, overridden=confirmed).report.deleted > 0


def test_a_plan_by_an_older_policy_asks_for_a_word(office: Office) -> None:
    office.apply(office.plan(RULES))
    office.clock.sleep(60)
    older = office.plan(RULES)
    assert "policy-changed" not in {guard.name for guard in older.document.guards}
    longer = office.plan({"state": {"prefix": "state", "days": 3000}})
    office.apply(longer, overridden=(*SMALL, "policy-changed"))

    with pytest.raises(RefusedError, match="policy-changed"):
        office.apply(older)


def test_refs_of_a_dump_ask_for_a_word(office: Office) -> None:
    office.repository.age = DumpAge(AS_OF - timedelta(days=3), written_since=2)
    plan = office.plan(RULES)
    told = {guard.name: guard.message for guard in plan.document.guards}
    assert "analytics (dumped 2026-11-12T" in told["refs-dump"]
    assert "analytics (2 ranges or metaranges" in told["stale-refs"]

    for missing in ("refs-dump", "stale-refs"):
        others = {"refs-dump", "stale-refs"} - {missing}
        with pytest.raises(RefusedError, match=missing):
            office.apply(plan, overridden=(*SMALL, *others))

    assert office.apply(plan, overridden=(*SMALL, "refs-dump", "stale-refs")).report.deleted


@pytest.mark.parametrize("who", ["own", "neighbour"])
def test_a_commit_that_no_dump_tells_of_stops_before_the_first_delete(
    lakefs_repositories: RealRepositories, tmp_path: Path, who: str
) -> None:
    own, other = (recorded(lakefs_repositories, each, tmp_path) for each in ("analytics", "wide"))
    office = Office(own, (other,))
    changed = own if who == "own" else other
    changed.age = DumpAge(AS_OF)
    plan, before = office.plan(RULES), office.stored()
    for dumped in (AS_OF, AS_OF + timedelta(minutes=1)):  # and after another dump
        changed.age = DumpAge(dumped, written_since=1)
        with pytest.raises(IncompleteError, match="its last dump is out of date"):
            office.apply(plan, overridden=(*SMALL, "refs-dump"))
        assert office.stored() == before

    changed.age = DumpAge(AS_OF + timedelta(minutes=1), written_since=0)
    assert office.apply(plan, overridden=(*SMALL, "refs-dump")).report.deleted


def test_a_neighbour_that_imported_an_object_keeps_it(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    own = recorded(lakefs_repositories, "analytics", tmp_path)
    other = recorded(lakefs_repositories, "branches", tmp_path)
    later = Office(own)
    plan = later.plan(RULES)
    path = min(deletes(plan))
    [staged, *_] = other.staging
    staged["address"] = path

    assert reasons(Office(own, (other,)).plan(RULES))[path] == "referenced"

    later.neighbours = (other,)  # configured after the plan was made
    assert later.apply(plan).kept_by_remark == 1
    assert Path(path).exists()


def test_repositories_that_share_a_folder_are_refused(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    own = recorded(lakefs_repositories, "analytics", tmp_path)
    inner = recorded(lakefs_repositories, "branches", own.real.folder / "data")
    with pytest.raises(RefusedError, match="among the objects of analytics"):
        Office(own).plan(RULES)
    with pytest.raises(RefusedError, match="shares its folder"):
        Office(own, (inner,)).plan(RULES)


def test_a_repository_without_objects_has_nothing_to_lose(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    plan = Office(recorded(lakefs_repositories, "empty", tmp_path)).plan(RULES)

    assert not reasons(plan)
    assert plan.document.spec["listed"] == 0


def test_evidence_names_who_keeps_an_object_and_who_lets_it_go(office: Office) -> None:
    plan = office.plan(RULES)
    explainer = ObjectExplainer(plan, office.documents)
    versions = {each.address: each for each in explainer.explain("state/latest.json")}
    assert len(versions) == 15

    for each in versions.values():
        assert each.row is not None
        keeps = any(row["keeps"] for row in each.evidence)
        assert keeps is (each.row["verdict"] == "keep")
    with pytest.raises(NotFoundError, match="no/such"):
        list(explainer.explain("no/such"))


def test_refs_tell_what_they_hold(office: Office) -> None:
    sizes = {each["name"]: each for each in office.plan(RULES).document.details["refs"]}
    entries = office.repository.real.entries
    for name in ("main", "v1"):
        commit = sizes[name]["commit"]
        assert sizes[name]["objects"] == len(entries[commit])
        assert sizes[name]["bytes"] == sum(entry["size_bytes"] for entry in entries[commit])


def test_what_came_back_from_quarantine_is_found_again(office: Office) -> None:
    first = office.plan(RULES)
    office.apply(first, quarantine=True)
    office.clock.sleep(60)
    keeper, held = office.keeper(first)
    with run_session(
        office.runs, office.lake.name, RunKind.RESTORE, plan=first.record.plan, spec={}
    ) as session:
        keeper.restore(held, session)
    office.clock.sleep(60)

    again = office.plan(RULES, selection=Selection.INCREMENTAL)

    assert deletes(again) == deletes(first)
    assert "came back from quarantine" in again.document.details["full"]


def test_a_clock_that_is_ahead_of_the_store_asks_for_a_word(office: Office) -> None:
    office.clock.sleep((datetime.now(UTC) - office.clock.now() + timedelta(days=3)).total_seconds())
    plan = office.plan(RULES)
    assert "clock" in {guard.name for guard in plan.document.guards}
    with pytest.raises(RefusedError, match=r"clock: .*ahead of the store"):
        office.apply(plan)


def test_a_clock_that_only_the_place_of_plans_shares_is_seen_before_the_first_delete(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    """A plan beside the machine, on its own disk, has never met the clock of the bucket."""
    clock = ManualClock(datetime.now(UTC) + timedelta(days=3))
    office = Office(
        recorded(lakefs_repositories, "analytics", tmp_path),
        stores=Stores(replace={"s3://disk": TimedStore("s3://disk/", clock)}),
        clock=clock,
        home="s3://disk/lc",
    )
    plan, before = office.plan(RULES), office.stored()
    assert "clock" not in {guard.name for guard in plan.document.guards}
    with pytest.raises(RefusedError, match=r"clock: .*ahead of the store"):
        office.apply(plan)
    assert office.stored() == before


def test_later_runs_go_on_where_the_last_one_ended(office: Office) -> None:
    office.apply(office.plan(RULES))
    office.clock.sleep(timedelta(days=40).total_seconds())

    some = office.plan(RULES, selection=Selection.INCREMENTAL)
    every = office.plan(RULES)

    assert some.document.details["full"] is None
    assert deletes(some) == deletes(every) != set()
