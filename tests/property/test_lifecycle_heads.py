"""People work on branches while runs expire what HEADs hold: nobody ever misses an object."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import cast

from hypothesis import Phase, given
from hypothesis import strategies as st

from lakesweep.lakefs.refs.commit_graph import TEMPORARY_PREFIX
from tests.lakefs import AS_OF
from tests.lakefs_recorded import RecordedRepository
from tests.lakefs_working_server import RefusalError, WorkingServer, working_server
from tests.lifecycle_plans import SMALL, Office
from tests.processes import scratch_folder
from tests.random_tests import examples

RULES = {"logs": {"prefix": "logs", "days": 30, "branch_days": {"dev": 60}, "expire_heads": True}}
PATHS = ("logs/a", "logs/b", "logs/c", "other/d")
BRANCHES = ("main", "dev", "feature")
#: Calls of a run at which somebody does something, or the server fails.
CALLS = ("POST branches", "objects/delete", "commits", "merge", "DELETE branches", "GET branches/")


def work(chance: Random, server: WorkingServer) -> None:
    """One thing that people do."""
    branch = chance.choice(sorted(set(server.branches) & set(BRANCHES)))
    match chance.choice(("put", "put", "remove", "commit", "branch", "tag")):
        case "put":
            content = chance.choice(("x", "y"))  # often equal to what was there
            days = chance.choice((0, 45, 100))
            server.put(branch, chance.choice(PATHS), days=days, content=content)
        case "remove":
            path = chance.choice(PATHS)
            if path in server.shown(branch):
                server.staged.setdefault(branch, {})[path] = None
        case "commit":
            if server.staged.get(branch):
                try:
                    server.commit(branch, days=chance.choice((0, 45, 100)))
                except RefusalError:
                    server.staged.pop(branch, None)
        case "branch":
            name = chance.choice(BRANCHES)
            if name not in server.branches:
                server.branch(name, branch)
        case "tag":
            server.tags["v1"] = server.branches[branch]


def disturb(chance: Random, server: WorkingServer) -> bool:
    """Let something happen at some call of the next run, once; whether somebody works then."""
    call, what = chance.choice(CALLS), chance.choice(("work", "refuse", "lose", "nothing"))
    pending = [what]

    def happen() -> None:
        if not pending:
            return
        pending.clear()
        if what != "work":
            raise RefusalError(500, what)
        for _ in range(3):
            work(chance, server)

    if what in {"work", "refuse"}:
        server.before[call] = happen
    elif what == "lose":
        server.behind[call] = happen
    return what == "work"


@examples(4, phases=[Phase.explicit, Phase.generate])
@given(st.integers(0, 2**32).map(Random))
def test_no_object_is_missed(chance: Random) -> None:
    with scratch_folder("heads") as folder, working_server(folder, now=AS_OF) as server:
        for path in PATHS:
            server.put("main", path, days=100, content="x")
        server.commit("main", days=100)
        office = Office(cast(RecordedRepository, server.opened()))
        for _ in range(3):
            for _ in range(chance.randrange(6)):
                work(chance, server)
            is_busy = disturb(chance, server)
            staged = deepcopy(server.staged)
            office.apply(office.plan(RULES), overridden=SMALL)
            assert server.readable()
            assert is_busy or {name: server.staged.get(name) for name in staged} == staged
            server.before.clear()
            server.behind.clear()
            office.clock.sleep(3600)
        office.apply(office.plan(RULES), overridden=SMALL)
        assert not [name for name in server.branches if name.startswith(TEMPORARY_PREFIX)]
        assert server.readable()
