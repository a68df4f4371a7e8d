"""Taking paths off branches of a real lakeFS server; see `conftest.py` for when it runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from lakesweep.lakefs.client.access import access_from
from lakesweep.lakefs.client.api import Server
from lakesweep.lakefs.client.branch_editor import BranchEdit, BranchEditor
from lakesweep.lakefs.refs.commit_graph import temporary_name
from lakesweep.lakefs.repository.served import ServedRepository
from lakesweep.storage.stores import Stores
from tests.lakefs_live import ENDPOINT, ROOT, Live, live_repository, name_of

_HOOK = """
name: no merges
on: {pre-merge: {branches: [main]}}
hooks: [{id: refuses, type: lua, properties: {script: 'error("not today")'}}]
"""


@pytest.fixture
def live() -> Iterator[Live]:
    with live_repository() as live:
        yield live


@pytest.fixture
def server() -> Server:
    return Server(access_from(os.environ, ENDPOINT))


def edit(live: Live, *branches: str) -> BranchEdit:
    head = live.heads()[branches[0]]
    return BranchEdit(head, branches, temporary_name("test", head), "take off", {"why": "a test"})


def editor_of(live: Live, server: Server) -> BranchEditor:
    return ServedRepository(server, live.name, Stores(), local_root=ROOT).editor


def paths(live: Live, ref: str) -> list[str]:
    return [each.path for each in live.listed(ref)]


def nothing() -> None:
    """May go on."""


def test_paths_come_off_branches_and_nothing_else_does(live: Live, server: Server) -> None:
    for path in ("a", "b", "c"):
        live.put("main", path, path)
    head = live.commit("main")
    for name in ("clean", "busy"):
        live.branch(name, "main")
    live.put("busy", "unfinished", "mine")
    wanted = edit(live, "main", "clean", "busy")

    done = list(editor_of(live, server).take_off(wanted, [["a"], ["b"]], nothing))

    assert {each.branch: (each.paths, each.is_busy) for each in done} == {
        "main": (2, False),
        "clean": (2, False),
        "busy": (0, True),
    }
    assert paths(live, "main") == paths(live, "clean") == ["c"]
    assert paths(live, "busy") == ["a", "b", "c", "unfinished"]
    assert live.heads().keys() == {"main", "clean", "busy"}
    assert live.heads()["busy"] == head


@pytest.mark.parametrize("content", ["one", "two"])
def test_a_path_that_is_committed_in_the_moment_of_a_merge_stays(
    live: Live, server: Server, content: str
) -> None:
    """The server would merge over equal bytes at another address."""
    for path in ("a", "b"):
        live.put("main", path, "one")
    live.commit("main")
    made: list[str] = []

    class Late(Server):
        def merge(self, repository: str, source: str, branch: str, *said: Any) -> str:
            live.remove("main", "a")
            live.commit("main")
            made.append(live.put("main", "a", content))
            live.put("main", "new", content)
            live.commit("main")
            return super().merge(repository, source, branch, *said)

    editor = editor_of(live, Late(server.access))
    [done] = editor.take_off(edit(live, "main"), [["a", "b"]], nothing)

    assert done.reason is not None
    assert paths(live, "main") == ["a", "b", "new"]
    assert name_of(live.stat("main", "a").physical_address) == made[0]


def test_a_path_that_was_uploaded_again_stays(live: Live, server: Server) -> None:
    """The server would drop equal bytes that are staged, which are in no diff."""
    for path in ("a", "b"):
        live.put("main", path, "one")
    live.commit("main")
    live.branch("dev", "main")
    made = live.put("main", "a", "one")

    done = list(editor_of(live, server).take_off(edit(live, "main", "dev"), [["a"]], nothing))

    assert {each.branch: each.is_busy for each in done} == {"main": True, "dev": False}
    assert name_of(live.stat("main", "a").physical_address) == made
    assert paths(live, "dev") == ["b"]


def test_a_hook_that_refuses_and_a_branch_that_is_gone_are_told(live: Live, server: Server) -> None:
    live.put("main", "a", "one")
    live.put("main", "_lakefs_actions/no.yaml", _HOOK)
    live.commit("main")
    editor = editor_of(live, server)

    done = list(editor.take_off(edit(live, "main", "gone"), [["a"]], nothing))

    assert [(each.branch, each.is_busy) for each in done] == [("gone", True), ("main", False)]
    assert "not today" in str(done[1].reason)
    assert paths(live, "main") == ["_lakefs_actions/no.yaml", "a"]


def test_what_was_left_over_is_removed(live: Live, server: Server) -> None:
    live.put("main", "a", "one")
    head = live.commit("main")
    for name in ("dead", "used"):
        live.branch(temporary_name(name, head), "main", hidden=True)
    live.put(temporary_name("used", head), "b", "mine")
    live.commit(temporary_name("used", head))
    editor_of(live, server).remove_left_over()
    assert live.heads().keys() == {"main", temporary_name("used", head)}
