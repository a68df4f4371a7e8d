"""The whole story of a repository on a real lakeFS server; see `conftest.py` for when it runs.

`tests/lakefs_live.py` says which variables name the server. Nothing there can be made older than it
is, so the commands are given a clock of some weeks later, and told that they may believe it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakesweep.cli import context
from tests.command import Lakesweep
from tests.lakefs_live import ENDPOINT, ROOT, LaterClock, Live, live_repository, name_of

POLICY = {"old": {"prefix": "old", "days": 30, "enabled": True}}
#: What guards say of a small new repository, and of our clock.
KNOWN = ("--override", "first-run", "--override", "clock")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> LaterClock:
    later = LaterClock()
    monkeypatch.setattr(context, "SystemClock", lambda: later)
    return later


@pytest.fixture
def live() -> Iterator[Live]:
    with live_repository() as live:
        yield live


@pytest.fixture
def other() -> Iterator[Live]:
    """A repository that imports from the first."""
    with live_repository() as other:
        yield other


@pytest.fixture
def lakesweep(
    live: Live,
    other: Live,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Lakesweep:
    """The command line, with a lake that is the first repository."""
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    local = f'local_root = "{ROOT}"' if live.is_local else ""
    (tmp_path / "lakesweep.toml").write_text(
        f"""
[lakes.live]
locations = ["{live.namespace}"]

[[lakes.live.roots]]
type = "lakefs"
endpoint = "{ENDPOINT}"
repositories = ["{live.name}", "{other.name}"]
{local}
"""
    )
    monkeypatch.chdir(tmp_path)
    return Lakesweep(capsys, tmp_path / "lakesweep.toml")


@dataclass
class Story:
    """A repository with all that people do, and its commits."""

    live: Live
    other: Live
    first: str
    dangling: str

    @property
    def commits(self) -> set[str]:
        refs = (*self.live.heads(), *self.live.tags(), self.dangling)
        return {id_ for ref in refs for id_ in self.live.logged(ref)}

    def doomed(self) -> set[str]:
        """The objects that the policy lets go, once they are old: told by the API alone."""
        heads = {*self.live.heads().values(), *self.live.tags().values()}
        candidates, kept = set[str](), set(self.live.foreign)
        kept |= {name_of(entry.physical_address) for entry in self.other.listed("main")}
        for commit in self.commits:
            for entry in self.live.listed(commit):
                is_covered = entry.path.startswith("old/") and commit not in heads
                (candidates if is_covered else kept).add(name_of(entry.physical_address))
        for branch in self.live.heads():
            kept |= {name_of(entry.physical_address) for entry in self.live.listed(branch)}
        return candidates - kept


@pytest.fixture
def story(live: Live, other: Live) -> Story:
    live.put("main", "keep/c", "never covered")
    for name in ("replaced", "removed", "tagged", "hidden", "shared", "alias", "imported", "back"):
        live.put("main", f"old/{name}", f"{name} 1")
    live.link("main", "keep/shared", live.stat("main", "old/shared"))  # no rule covers this path
    live.link("main", "old/alias-2", live.stat("main", "old/alias"))  # one covers both
    first = live.commit("main", "first")
    live.branch("work", first, hidden=True)
    live.put("main", "old/replaced", "replaced 2")
    _clear(live, "main", but="old/replaced")
    live.commit("main", "second")

    live.branch("feature", "main")
    live.put("feature", "old/of-feature", "of feature")
    live.commit("feature")
    live.merge("feature", "main")
    live.drop_branch("feature")
    live.remove("main", "old/of-feature")
    live.commit("main", "without the feature")
    live.branch("lost", "main")
    live.put("lost", "old/of-lost", "of a branch that nobody has any more")
    dangling = live.commit("lost")
    live.drop_branch("lost")

    _clear(live, "work", but="old/hidden")
    live.put("work", "old/tagged", "tagged 2")
    live.tag("v1", live.commit("work", "to be tagged"))
    live.remove("work", "old/tagged")
    live.commit("work", "behind the tag")
    live.put("work", "old/hidden", "hidden 1")  # equal content, at an address of its own
    live.put("work", "old/staged", "not committed yet")
    live.protect("main")
    return Story(live, other, first, dangling)


def _clear(live: Live, branch: str, *, but: str) -> None:
    paths = [entry.path for entry in live.listed(branch)]
    live.remove(branch, *(path for path in paths if path.startswith("old/") and path != but))


def plan(lakesweep: Lakesweep, live: Live, *words: str) -> dict[str, Any]:
    done = lakesweep(
        *("lifecycle", "plan", live.name, "--policy", "policy.json", "--engine", "local", *words)
    )
    assert done.code == 0, done.err
    return done.document


def apply(lakesweep: Lakesweep, plan: str, *words: str) -> dict[str, Any]:
    done = lakesweep("lifecycle", "apply", plan, "--engine", "local", "--yes", *KNOWN, *words)
    assert done.code == 0, done.err
    return done.document


def deletes(lakesweep: Lakesweep, *show: str) -> set[str]:
    """The objects that a plan deletes."""
    return {name_of(line["path"]) for line in lakesweep(*show, "--verdict", "delete").lines}


def gone(live: Live, commits: set[str]) -> set[str]:
    """All objects that cannot be read any more in some commit."""
    return {
        name_of(entry.physical_address)
        for commit in commits
        for entry in live.listed(commit)
        if live.read(commit, entry.path) is None
    }


def test_refs_and_entries_are_those_that_the_server_tells(
    story: Story, lakesweep: Lakesweep
) -> None:
    live = story.live
    lines = lakesweep("lifecycle", "refs", live.name).lines
    refs = {line["name"]: line for line in lines if line["kind"] != "commit"}
    assert {name: line["commit"] for name, line in refs.items()} == {**live.heads(), **live.tags()}
    assert [name for name, line in refs.items() if line["hidden"]] == ["work"]
    commits = {line["commit"]: line for line in lines if line["kind"] == "commit"}
    assert set(commits) == story.commits
    assert [id_ for id_, line in commits.items() if line["dangling"]] == [story.dangling]

    # Whoever asks a server has it write a dump, which the bucket alone is enough for from then on.
    stored = lakesweep("lifecycle", "refs", live.namespace).lines
    assert {line["commit"]: line for line in stored if line["kind"] == "commit"} == commits

    for commit in story.commits:
        found = lakesweep("lifecycle", "entries", live.name, commit).lines
        assert [
            (line["path"], line["size_bytes"], line["checksum"], name_of(line["address"]))
            for line in found
        ] == [
            (each.path, each.size_bytes, each.checksum, name_of(each.physical_address))
            for each in live.listed(commit)
        ]


def test_a_policy_from_its_plan_to_the_last_delete(
    story: Story, lakesweep: Lakesweep, clock: LaterClock
) -> None:
    live, commits = story.live, story.commits
    story.other.take_in("main", "theirs", live.stat(story.first, "old/imported"))
    shown, doomed = live.shown(), story.doomed()
    assert not plan(lakesweep, live)["totals"]["delete"]  # all is younger than the policy says

    clock.days = 40
    document = plan(lakesweep, live)
    name = document["plan"]
    assert document["totals"]["keep"]["staged"]["files"] == 2
    assert deletes(lakesweep, "lifecycle", "show", name) == doomed
    versions = lakesweep("lifecycle", "explain", name, "old/replaced").document["objects"]
    assert {each["verdict"]: each["reason"] for each in versions} == {
        "delete": "expired",
        "keep": "head",
    }
    refused = lakesweep("lifecycle", "apply", name, "--engine", "local", "--yes")
    assert refused.code == 3
    assert refused.error["hint"].endswith("set the clock of this machine")

    assert apply(lakesweep, name, "--quarantine")["quarantined"] == len(doomed)
    assert gone(live, commits) == doomed
    assert live.shown() == shown
    assert lakesweep("quarantine", "restore", name).code == 0
    assert not gone(live, commits)

    assert apply(lakesweep, plan(lakesweep, live)["plan"])["deleted"] == len(doomed)
    assert gone(live, commits) == doomed
    assert live.shown() == shown
    assert not plan(lakesweep, live, "--mode", "incremental")["totals"]["delete"]


def test_what_is_taken_up_between_plan_and_apply_stays(
    story: Story, lakesweep: Lakesweep, clock: LaterClock
) -> None:
    live, before, clock.days = story.live, story.doomed(), 40
    name = plan(lakesweep, live)["plan"]

    live.link("work", "keep/back", live.stat(story.first, "old/back"))
    live.commit("work")
    live.link("work", "keep/removed", live.stat(story.first, "old/removed"))  # staged alone
    live.branch("found", story.dangling)
    shown, doomed = live.shown(), story.doomed()
    assert len(before - doomed) == 3

    done = apply(lakesweep, name)
    assert (done["deleted"], done["kept_by_remark"]) == (len(doomed), 3)
    assert gone(live, story.commits) == doomed
    assert live.shown() == shown


def test_later_runs_go_on_where_the_last_one_ended(
    story: Story, lakesweep: Lakesweep, clock: LaterClock
) -> None:
    live = story.live
    live.branch("found", story.dangling)
    clock.days = 40
    apply(lakesweep, plan(lakesweep, live)["plan"])
    first = gone(live, story.commits)

    live.drop_branch("found")
    live.put("work", "old/next", "next 1")
    live.commit("work")
    live.put("work", "old/next", "next 2")
    live.commit("work")
    clock.days = 80
    document = plan(lakesweep, live, "--mode", "incremental")
    assert document["spec"]["potential_commits"] < len(story.commits)
    assert document["totals"]["keep"]["branch-deleted"]["files"] == 1
    apply(lakesweep, document["plan"])
    assert gone(live, story.commits) < story.doomed()

    clock.days = 90  # nobody asked for the branch again
    apply(lakesweep, plan(lakesweep, live, "--mode", "incremental")["plan"])
    assert first < gone(live, story.commits) == story.doomed()


def test_a_sweep_finds_the_uploads_that_nothing_ever_named(
    story: Story, lakesweep: Lakesweep, clock: LaterClock
) -> None:
    live, commits = story.live, story.commits
    abandoned = {live.put("work", "old/twice", "twice 1")}
    live.put("work", "old/twice", "twice 2")
    live.branch("undone", "main")
    abandoned.add(live.put("undone", "old/undone", "undone"))
    live.reset("undone")
    shown, clock.days = live.shown(), 40

    done = lakesweep("plan", "live", "--engine", "local")
    assert done.code == 0, done.err
    assert deletes(lakesweep, "show", "live") == abandoned
    applied = lakesweep("apply", "live", "--engine", "local", "--yes", *KNOWN)
    assert applied.code == 0, applied.err
    assert applied.document["deleted"] == len(abandoned)
    assert not gone(live, commits)
    assert live.shown() == shown
