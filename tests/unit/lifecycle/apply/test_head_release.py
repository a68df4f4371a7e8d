"""Paths that expire on HEADs: first taken off their branches, then deleted by the next run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import UNSET

from lakesweep.lakefs.client.branch_editor import BranchEdit
from lakesweep.lakefs.refs.commit_graph import TEMPORARY_PREFIX, temporary_name
from lakesweep.lifecycle.judge.commit_selection import Selection
from lakesweep.lifecycle.run_history import LifecycleHistory
from lakesweep.runs.fencing import request_stop
from lakesweep.runs.records import run_folder
from lakesweep.sweep.apply.report import ApplyResult
from tests.lakefs import AS_OF
from tests.lakefs_recorded import RecordedRepository
from tests.lakefs_working_server import RefusalError, WorkingServer, working_server
from tests.lifecycle_plans import SMALL, Office
from tests.planned import deletes

RULES = {"logs": {"prefix": "logs", "days": 30, "expire_heads": True}}


@pytest.fixture
def server(folder: Path) -> Iterator[WorkingServer]:
    """Three old logs on main, a young one, something else, and a branch beside it."""
    with working_server(folder, now=AS_OF) as server:
        for name in ("a", "b", "c"):
            server.put("main", f"logs/{name}", days=100)
        server.put("main", "keep/d", days=100)
        server.commit("main", days=100)
        server.put("main", "logs/young", days=3)
        server.commit("main", days=3)
        server.branch("dev")
        yield server


@pytest.fixture
def office(server: WorkingServer) -> Office:
    return office_of(server)


def office_of(server: WorkingServer) -> Office:
    return Office(cast(RecordedRepository, server.opened()))


def run(office: Office, **options: Any) -> ApplyResult:
    """Plan, apply, and let an hour pass."""
    plan = office.plan(RULES, **options)
    applied = office.apply(plan, overridden=(*SMALL, "clock"))
    office.clock.sleep(timedelta(hours=1).total_seconds())
    return applied


def logs(server: WorkingServer, branch: str) -> set[str]:
    return {path for path in server.shown(branch) if path.startswith("logs/")}


def outcomes(applied: ApplyResult) -> dict[str, str]:
    return {each.branch: each.outcome for each in applied.report.branches or ()}


def history(office: Office) -> LifecycleHistory:
    namespace = office.repository.namespace
    return LifecycleHistory(
        office.stores,
        namespace.address("_lakefs/retention/lc"),
        namespace.location,
        office.documents,
    )


def temporary(server: WorkingServer) -> set[str]:
    return {name for name in server.branches if name.startswith(TEMPORARY_PREFIX)}


def refuse(status: int, message: str = "no") -> Callable[[], None]:
    def answer() -> None:
        raise RefusalError(status, message)

    return answer


def test_paths_come_off_first_and_their_objects_go_with_the_next_run(
    server: WorkingServer, office: Office
) -> None:
    before = server.stored()
    first = run(office)

    assert first.report.deleted == 0
    assert (first.report.waiting, first.report.taken_off) == (3, 6)
    assert first.kept_by_remark == 0
    assert outcomes(first) == {"main": "changed", "dev": "changed"}
    assert logs(server, "main") == logs(server, "dev") == {"logs/young"}
    assert "keep/d" in server.shown("main")
    assert server.stored() == before
    assert not temporary(server)
    assert history(office).last_swept() is None  # the next run looks at these again

    second = run(office, selection=Selection.INCREMENTAL)

    assert second.report.deleted == 3
    assert second.report.waiting == second.report.taken_off == 0
    assert len(before - server.stored()) == 3
    assert server.readable()
    assert history(office).last_swept() is not None
    assert run(office).report.found == 0


def test_commits_say_which_plan_and_rules_they_come_from(
    server: WorkingServer, office: Office
) -> None:
    head = server.branches["main"]
    plan = office.plan(RULES)
    office.apply(plan)

    merge = server.commits[server.branches["main"]]
    assert merge.parents[0] == head
    for commit in (merge, server.commits[merge.parents[1]]):
        assert commit.metadata["lakesweep-plan"] == plan.document.plan
        assert commit.metadata["lakesweep-rules"] == "logs"


def test_what_no_head_holds_goes_at_once(server: WorkingServer, office: Office) -> None:
    key = server.shown("main")["logs/a"].address
    for branch in ("main", "dev"):
        server.staged[branch] = {"logs/a": None}
        server.commit(branch)

    applied = run(office)

    assert (applied.report.deleted, applied.report.waiting) == (1, 2)
    assert key not in server.stored()
    assert server.readable()


def test_a_branch_on_which_something_is_staged_stays_as_it_is(
    server: WorkingServer, office: Office
) -> None:
    server.put("dev", "work/mine")
    head, staged = server.branches["dev"], dict(server.staged["dev"])

    applied = run(office)

    assert outcomes(applied) == {"main": "changed", "dev": "waits"}
    assert (server.branches["dev"], server.staged["dev"]) == (head, staged)
    assert run(office).report.deleted == 0  # its HEAD holds them
    server.commit("dev")
    assert outcomes(run(office)) == {"dev": "changed"}
    assert run(office).report.deleted == 3
    assert server.readable()
    assert "work/mine" in server.shown("dev")


@pytest.mark.parametrize("moment", ["GET branches", "/commits"])
def test_what_was_uploaded_again_and_not_committed_stays(
    server: WorkingServer, office: Office, moment: str
) -> None:
    """Servers take equal bytes for no change, and drop them with a merge."""
    made: list[str] = []

    def upload() -> None:
        if not made:
            made.append(server.put("main", "logs/a"))

    server.behind[moment] = upload

    applied = run(office)

    assert outcomes(applied) == {"main": "waits", "dev": "changed"}
    assert server.shown("main")["logs/a"].address == made[0]
    assert server.readable()


def test_a_branch_that_came_since_and_that_no_rule_covers_loses_nothing(
    server: WorkingServer, office: Office
) -> None:
    """It came after the repository was looked at, and before paths were taken off."""
    covered = {"main": 30, "dev": 30}
    plan = office.plan({"logs": {"prefix": "logs", "branch_days": covered, "expire_heads": True}})
    head = server.branches["main"]

    def come() -> None:
        server.branches["late"] = head

    server.behind["refs/dump"] = come

    applied = office.apply(plan)

    assert outcomes(applied) == {"main": "changed", "dev": "changed"}
    assert server.branches["late"] == head
    assert applied.report.deleted == 0


def test_branches_that_people_call_so_are_theirs(server: WorkingServer, office: Office) -> None:
    """One is on a commit of others, and to one somebody committed."""
    head = server.branches["main"]
    mine, used, left = (
        f"{TEMPORARY_PREFIX}mine",
        temporary_name("1", head),
        temporary_name("2", head),
    )
    for name in (mine, used, left):
        server.branch(name, hidden=True)
    server.staged[used] = {"logs/a": None}
    server.commit(used)
    for branch in ("main", "dev"):
        server.staged[branch] = dict.fromkeys(["logs/a", "logs/b", "logs/c"])
        server.commit(branch)
    theirs = {name: server.branches[name] for name in (mine, used)}
    rules = {"logs": {"prefix": "logs", "days": 30}, "tmp": {**RULES["logs"], "prefix": "tmp"}}

    plan = office.plan(rules)
    office.apply(plan)

    assert not deletes(plan)
    assert {name: server.branches[name] for name in temporary(server)} == theirs


def test_what_was_staged_since_is_found_before_anything_is_made(
    server: WorkingServer, office: Office
) -> None:
    for branch in ("main", "dev"):
        server.put(branch, "work/mine")
    commits = len(server.commits)
    run(office)
    assert len(server.commits) == commits


@pytest.mark.parametrize(
    ("call", "status"),
    [
        ("POST branches", 403),
        ("objects/delete", 401),
        ("/commits", 412),
        ("merge/main", 409),
        ("merge/main", 412),
        ("merge/main", 500),
    ],
)
def test_a_refusal_leaves_the_branch_and_is_told(
    server: WorkingServer, office: Office, call: str, status: int
) -> None:
    head, before = server.branches["main"], server.stored()
    server.before[call] = refuse(status)

    applied = run(office)

    assert outcomes(applied)["main"] == "refused"
    assert (applied.report.branches_refused or 0) >= 1
    assert applied.report.waiting == 3
    assert server.branches["main"] == head
    assert server.stored() == before
    assert not temporary(server)

    server.before.clear()
    assert outcomes(run(office))["main"] == "changed"
    assert run(office).report.deleted == 3
    assert server.readable()


@pytest.mark.parametrize("call", ["POST branches", "objects/delete", "/commits", "merge/main"])
def test_an_answer_that_is_lost_does_nothing_twice(
    server: WorkingServer, office: Office, call: str
) -> None:
    """The server does what it is told, and the connection breaks."""
    lost = count()

    def lose() -> None:
        if next(lost) == 0:
            raise RefusalError(500, "lost")

    server.behind[call] = lose
    commits = len(server.commits)

    applied = run(office)

    assert outcomes(applied) == {"main": "changed", "dev": "changed"}
    assert len(server.commits) == commits + 2  # equal merges have equal ids
    assert logs(server, "main") == {"logs/young"}


def test_a_path_that_cannot_be_deleted_stays_and_the_others_go(
    server: WorkingServer, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = server._delete

    def some(branch: str, paths: list[str]) -> dict[str, Any]:
        delete(branch, [path for path in paths if path != "logs/b"])
        return {"errors": [{"status_code": 403, "message": "no", "path": "logs/b"}]}

    monkeypatch.setattr(server, "_delete", some)
    assert run(office).report.taken_off == 4
    assert logs(server, "main") == {"logs/b", "logs/young"}
    assert run(office).report.deleted == 2
    assert server.readable()


def test_a_branch_that_moved_since_the_plan_is_left_to_the_next_one(
    server: WorkingServer, office: Office
) -> None:
    plan = office.plan(RULES)
    server.put("main", "logs/new")
    server.commit("main")

    applied = office.apply(plan)

    assert logs(server, "main") == {"logs/a", "logs/b", "logs/c", "logs/young", "logs/new"}
    assert applied.report.deleted == 0
    assert applied.kept_by_remark + (applied.report.waiting or 0) == 3
    assert server.readable()


@pytest.mark.parametrize("content", ["", "another one"])
def test_who_commits_a_path_at_the_same_moment_keeps_it(
    server: WorkingServer, office: Office, content: str
) -> None:
    """Servers compare contents: equal bytes at a new address are no conflict to them."""
    made: list[str] = []

    def commit() -> None:
        if not made:
            server.staged["main"] = {"logs/a": None}
            server.commit("main")
            made.append(server.put("main", "logs/a", content=content))
            server.commit("main")

    server.before["merge/main"] = commit

    applied = run(office)

    assert outcomes(applied)["main"] in {"waits", "refused"}
    assert server.shown("main")["logs/a"].address == made[0]
    assert {"logs/b", "logs/c"} <= logs(server, "main")
    server.before.clear()
    run(office)
    run(office)
    assert logs(server, "main") == {"logs/a", "logs/young"}
    assert server.readable()


def test_what_somebody_tagged_since_the_plan_is_taken_off_nowhere(
    server: WorkingServer, office: Office
) -> None:
    plan = office.plan(RULES)
    server.tags["v1"] = server.branches["main"]
    before = {branch: server.shown(branch) for branch in ("main", "dev")}

    applied = office.apply(plan)

    assert (applied.kept_by_remark, applied.report.waiting) == (3, 0)
    assert {branch: server.shown(branch) for branch in ("main", "dev")} == before


def test_bytes_go_at_once_where_somebody_wants_that(server: WorkingServer, office: Office) -> None:
    applied = office.apply(office.plan(RULES), at_once=True)

    assert applied.report.deleted == 3
    assert applied.report.waiting is UNSET
    assert "logs/a" in server.shown("main")
    assert not server.readable()


def test_rules_that_spare_heads_take_nothing_off(server: WorkingServer, office: Office) -> None:
    plan = office.plan({"logs": {"prefix": "logs", "days": 30}})
    assert not deletes(plan)
    assert plan.document.details["heads"] is None


class CrashError(BaseException):
    """The process ended here."""


@pytest.mark.parametrize("steps", range(5))
def test_whoever_died_is_no_loss(server: WorkingServer, office: Office, steps: int) -> None:
    """What is left of him is found, removed, and done again."""
    left = iter(range(steps))
    server.before["DELETE branches"] = refuse(500)  # the dead remove nothing

    def check() -> None:
        if next(left, None) is None:
            raise CrashError

    editor = server.opened().editor
    assert editor is not None
    head = server.branches["main"]
    edit = BranchEdit(head, ["dev", "main"], temporary_name("dead", head), "dead")
    with pytest.raises(CrashError):
        list(editor.take_off(edit, [["logs/a"], ["logs/b"]], check))
    assert temporary(server)
    assert server.readable()
    server.before.clear()

    for _ in range(3):
        run(office)

    assert not temporary(server)
    assert logs(server, "main") == logs(server, "dev") == {"logs/young"}
    assert len(server.stored()) == 2
    assert server.readable()


@pytest.mark.parametrize(("is_there", "is_made"), [(True, False), (False, False), (False, True)])
def test_what_was_left_over_pins_nothing(
    server: WorkingServer, office: Office, is_there: bool, is_made: bool
) -> None:
    """The rule says nothing of other branches, nor of commits that no branch has.

    A merge that a hook refuses is made as a commit, which is then nobody's.
    """
    rules = {
        "logs": {"prefix": "logs", "branch_days": {"main": 30, "dev": 30}, "expire_heads": True}
    }
    if is_made:
        server.hooked |= {"main", "dev"}
    else:
        server.before["merge"] = refuse(412)
    if is_there:
        server.before["DELETE branches"] = refuse(412)
    office.apply(office.plan(rules))
    assert bool(temporary(server)) is is_there
    assert any(len(each.parents) > 1 for each in server.commits.values()) is is_made
    server.before.clear()
    office.clock.sleep(3600)
    server.staged["main"] = {"keep/d": None}
    server.commit("main")  # so that another commit alone has it, beside what is left over
    server.staged["dev"] = {"keep/d": None}
    server.commit("dev")

    plan = office.plan(
        {**rules, "keep": {"prefix": "keep", "branch_days": {"main": 30, "dev": 30}}}
    )

    assert len(deletes(plan)) == 4
    assert not any(
        name.startswith(TEMPORARY_PREFIX) for name in plan.document.details["record"]["branches"]
    )


def test_many_paths_go_in_many_calls(server: WorkingServer, office: Office) -> None:
    for number in range(2_100):
        server.put("main", f"logs/many/{number:05}", days=100, content="x")
    server.commit("main", days=100)

    run(office)

    assert logs(server, "main") == {"logs/young"}
    assert len([call for call in server.asked if call.endswith("objects/delete")]) >= 3
    assert run(office).report.deleted == 2_103
    assert server.readable()


def test_a_run_that_is_told_to_stop_changes_no_more_branches(
    server: WorkingServer, office: Office
) -> None:
    plan, heads = office.plan(RULES), dict(server.branches)

    def stop() -> None:
        [run] = [each.run for each in office.runs.list() if each.kind == "apply"]
        request_stop(office.stores, run_folder(plan.record.address, run))

    server.before["POST branches"] = stop

    applied = office.apply(plan)

    assert applied.stopped is not None
    assert server.branches == heads
    server.before.clear()
    office.clock.sleep(600)
    assert outcomes(office.apply(plan)) == {"main": "changed", "dev": "changed"}
