"""`lakesweep store` from the command line, over SQLite."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lakesweep.store import Realm, Store
from lakesweep.store.realms.registry import RealmStatus
from tests.command import Lakesweep
from tests.database_servers import DatabaseServer
from tests.stores import Note, Paper, add


@pytest.fixture
def lakesweep(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Lakesweep:
    """A configuration whose store is a file in a folder that is not there yet."""
    for name in list(os.environ):
        if name.startswith("LAKESWEEP_"):
            monkeypatch.delenv(name)
    config = tmp_path / "lakesweep.toml"
    config.write_text('[store]\nurl = "sqlite:///db/store.db"\n')
    return Lakesweep(capfd, config)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "db" / "store.db"


@pytest.fixture
def ready(lakesweep: Lakesweep) -> Lakesweep:
    """The same, with a store in it."""
    assert lakesweep("store", "init").code == 0
    return lakesweep


@pytest.fixture
def heads(ready: Lakesweep, file: Path) -> list[int]:
    """Five commits of a type that only the test knows, to the reference `main`."""

    def write(realm: Realm) -> list[int]:
        realm.references.create("main")
        done = [
            realm.commit("main", add(f"deed {n}"), Note, message=f"number {n}", author="jane").head
            for n in range(1, 6)
        ]
        return [head.id for head in done if head is not None]

    return _with_realm(file, write)


def _with_realm(file: Path, use: Callable[[Realm], list[int]]) -> list[int]:
    types: dict[str, Any] = {"note": Note, "paper": Paper}
    with Store.open(f"sqlite:///{file}", types=types) as store:
        return use(store.realm("default"))


def _execute(file: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        assert connection.execute(statement, values).rowcount == 1


def _lose(file: Path, commit: int) -> None:
    _execute(file, "DELETE FROM lakesweep_objects WHERE id = ?", commit)


def _content(file: Path) -> list[tuple[Any, ...]]:
    """Everything that the database holds, but for the leases of nodes."""
    with closing(sqlite3.connect(file)) as connection:
        return [
            *connection.execute("SELECT * FROM lakesweep_references ORDER BY realm, name"),
            *connection.execute(
                "SELECT * FROM lakesweep_objects WHERE type <> 'node-lease' ORDER BY realm, id"
            ),
        ]


def test_init_creates_everything_and_says_so(lakesweep: Lakesweep, file: Path) -> None:
    done = lakesweep("store", "init")
    assert done.code == 0
    assert done.document["created"] == ["tables", "realm default"]
    assert done.document["realm"]["status"] == "active"
    assert done.document["schema_version"] == 1
    assert file.exists()


def test_init_again_changes_nothing(ready: Lakesweep, file: Path) -> None:
    before = _content(file)
    done = ready("store", "init")
    assert (done.code, done.document["created"]) == (0, [])
    assert "nothing was missing" in done.err
    assert _content(file) == before


def test_init_finishes_a_realm_whose_creation_was_interrupted(
    lakesweep: Lakesweep, file: Path
) -> None:
    file.parent.mkdir()
    Store.create_tables(f"sqlite:///{file}")
    with Store.open(f"sqlite:///{file}") as store:
        store.realms.create("default")
    done = lakesweep("store", "init")
    assert done.document["created"] == ["realm default"]
    assert done.document["realm"]["status"] == "active"


def test_init_leaves_an_inactive_realm_as_it_is(ready: Lakesweep) -> None:
    assert ready("realm", "deactivate", "default").code == 0
    done = ready("store", "init")
    assert (done.code, done.document["realm"]["status"]) == (0, "inactive")


def test_the_store_is_found_from_every_folder(
    tmp_path: Path, ready: Lakesweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    done = Lakesweep(ready.capture)("store", "info")
    assert done.document["database"] == f"sqlite:///{tmp_path}/db/store.db"


def test_another_database_can_be_named_in_the_call(
    lakesweep: Lakesweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lakesweep("store", "init", "--url", "sqlite:///other.db").code == 0
    assert (tmp_path / "other.db").exists()
    assert not (tmp_path / "db").exists()


def test_info_tells_what_is_there(ready: Lakesweep) -> None:
    document = ready("store", "info").document
    assert document["schema_version"] == 1
    assert document["nodes_leased"] == 0
    assert document["capabilities"]["durable"] is True
    [realm] = document["realms"]
    assert (realm["name"], realm["status"], realm["references"]) == ("default", "active", 7)


def test_info_counts_the_nodes_of_other_processes(ready: Lakesweep, file: Path) -> None:
    with Store.open(f"sqlite:///{file}") as store:
        store.create_realm("other")
        assert ready("store", "info").document["nodes_leased"] == 1


def test_info_for_people_is_a_table(ready: Lakesweep) -> None:
    shown = ready("store", "info", json=False).out
    assert "deletes a realm in one call" in shown
    assert "default" in shown


def test_the_log_lists_the_references(ready: Lakesweep, heads: list[int]) -> None:
    done = ready("store", "log")
    assert done.code == 0
    lines = {line["reference"]: line for line in done.lines}
    assert (lines["main"]["head"], lines["main"]["seq"]) == (str(heads[-1]), 5)
    assert lines["main"]["committed"].endswith("Z")
    assert (lines["root"]["head"], lines["root"]["seq"]) == (None, None)


def test_the_log_of_a_reference_is_newest_first(ready: Lakesweep, heads: list[int]) -> None:
    done = ready("store", "log", "main")
    assert [line["commit"] for line in done.lines] == [str(head) for head in reversed(heads)]
    newest = done.lines[0]
    assert (newest["seq"], newest["author"], newest["message"]) == (5, "jane", "number 5")
    assert newest["changes"] == [
        {"action": "add", "key": "deed 5", "key_hex": b"deed 5".hex(), "before": None}
    ]


def test_the_log_can_begin_with_the_oldest_and_end_early(
    ready: Lakesweep, heads: list[int]
) -> None:
    done = ready("store", "log", "main", "--oldest-first", "--limit", "2")
    assert [line["commit"] for line in done.lines] == [str(head) for head in heads[:2]]


def test_the_log_since_a_commit_has_those_after_it(ready: Lakesweep, heads: list[int]) -> None:
    done = ready("store", "log", "main", "--since", str(heads[2]))
    assert done.code == 0
    assert [line["seq"] for line in done.lines] == [5, 4]


def test_the_log_since_the_head_is_empty(ready: Lakesweep, heads: list[int]) -> None:
    done = ready("store", "log", "main", "--since", str(heads[-1]), "--oldest-first")
    assert (done.code, done.out) == (0, "")


@pytest.mark.usefixtures("heads")
@pytest.mark.parametrize("since", ["1d", "2026-01-01T00:00:00Z"])
def test_the_log_since_a_time_has_those_from_then_on(ready: Lakesweep, since: str) -> None:
    done = ready("store", "log", "main", "--since", since, "--oldest-first")
    assert [line["seq"] for line in done.lines] == [1, 2, 3, 4, 5]


def test_the_log_for_people_shows_the_changes(ready: Lakesweep, heads: list[int]) -> None:
    done = ready("store", "log", "main", "--limit", "1", json=False)
    title, change = done.out.splitlines()
    assert title.startswith(f"{heads[-1]}  seq 5  ")
    assert title.endswith("jane:  number 5")
    assert change.split() == ["add", "deed", "5"]


@pytest.mark.usefixtures("ready")
def test_the_log_of_the_system_realm_has_the_states_of_all_realms(lakesweep: Lakesweep) -> None:
    done = lakesweep("store", "log", "realms", "--realm", "::system::")
    assert [line["message"] for line in done.lines] == [
        "realm default is active",
        "realm default is initializing",
        "create realm default",
    ]


def test_the_log_of_an_inactive_realm_can_be_read(ready: Lakesweep, heads: list[int]) -> None:
    ready("realm", "deactivate", "default")
    assert len(ready("store", "log", "main").lines) == len(heads)


def test_a_log_that_is_cut_says_so_behind_what_is_left(
    ready: Lakesweep, heads: list[int], file: Path
) -> None:
    _lose(file, heads[1])
    done = ready("store", "log", "main", "--since", str(heads[0]))
    assert done.code == 4
    assert [line["seq"] for line in done.lines] == [5, 4, 3]
    assert (done.error["type"], done.error["exit_code"]) == ("LogCutError", 4)
    assert done.error["hint"]


def test_a_log_whose_beginning_is_gone_is_shown_as_far_as_it_goes(
    ready: Lakesweep, heads: list[int], file: Path
) -> None:
    _lose(file, heads[1])
    done = ready("store", "log", "main")
    assert (done.code, len(done.lines)) == (0, 3)
    assert "3 commits; those before seq 3 are gone" in done.err


def test_references_whose_head_is_gone_are_listed_and_counted(
    ready: Lakesweep, heads: list[int], file: Path
) -> None:
    _lose(file, heads[-1])
    done = ready("store", "log")
    lines = {line["reference"]: line for line in done.lines}
    assert lines["main"]["problem"] == "the head is missing"
    assert lines["root"]["problem"] is None
    assert done.code == 4
    assert done.error["hint"] == "lakesweep store recover main --realm default --dry-run"


def test_a_missing_head_is_an_error_that_names_the_way_out(
    ready: Lakesweep, heads: list[int], file: Path
) -> None:
    _lose(file, heads[-1])
    done = ready("store", "log", "main")
    assert (done.code, done.out) == (4, "")
    assert "lakesweep store recover main --realm default" in done.error["hint"]


def test_recover_shows_what_would_be_lost_and_changes_nothing(
    ready: Lakesweep, heads: list[int], file: Path
) -> None:
    _lose(file, heads[-1])
    _execute(file, "UPDATE lakesweep_objects SET value = ? WHERE id = ?", b"\x01", heads[-2])
    before = _content(file)
    done = ready("store", "recover", "main", "--dry-run")
    assert done.code == 0
    assert [lost["commit"] for lost in done.document["lost"]] == [str(heads[-1]), str(heads[-2])]
    assert done.document["head"]["commit"] == str(heads[-3])
    assert (done.document["recovered"], done.document["dry_run"]) == (False, True)
    assert "number 3" in done.err
    assert _content(file) == before


def test_recover_does_nothing_without_consent(
    ready: Lakesweep, heads: list[int], file: Path
) -> None:
    _lose(file, heads[-1])
    before = _content(file)
    done = ready("store", "recover", "main")
    assert done.code == 3
    assert "nothing was changed" in done.error["message"]
    assert "--yes" in done.error["hint"]
    assert _content(file) == before


def test_recover_goes_back_and_the_reference_takes_commits_again(
    ready: Lakesweep, heads: list[int], file: Path
) -> None:
    _lose(file, heads[-1])
    done = ready("store", "recover", "main", "--yes")
    assert (done.code, done.document["recovered"]) == (0, True)

    def go_on(realm: Realm) -> list[int]:
        realm.commit("main", add("deed 6"), Note)
        return [commit.value.seq for commit in realm.log("main")]

    assert _with_realm(file, go_on) == [5, 4, 3, 2, 1]


@pytest.mark.usefixtures("heads")
def test_recover_leaves_a_healthy_reference_alone(ready: Lakesweep, file: Path) -> None:
    before = _content(file)
    done = ready("store", "recover", "main", "--yes")
    assert (done.code, done.document["healthy"]) == (0, True)
    assert "is intact; nothing was changed" in done.err
    assert _content(file) == before


def test_recover_does_not_give_up_what_a_newer_program_wrote(
    ready: Lakesweep, heads: list[int], file: Path
) -> None:
    _execute(file, "UPDATE lakesweep_objects SET value = ? WHERE id = ?", b"\x09newer", heads[-1])
    before = _content(file)
    done = ready("store", "recover", "main", "--yes")
    assert (done.code, done.error["type"]) == (4, "NewerRowError")
    assert done.error["hint"] == "upgrade Lakesweep"
    assert _content(file) == before


def _papers(file: Path) -> list[int]:
    """The objects that came with the commits, oldest first."""
    with closing(sqlite3.connect(file)) as connection:
        found = connection.execute("SELECT id FROM lakesweep_objects WHERE type = 'paper'")
        return sorted(number for (number,) in found)


def test_recover_finds_what_is_missing_behind_a_head_when_it_looks_deeper(
    ready: Lakesweep, heads: list[int], file: Path
) -> None:
    _lose(file, _papers(file)[-1])
    assert ready("store", "recover", "main").document["healthy"] is True
    done = ready("store", "recover", "main", "--deep", "--yes")
    assert (done.code, done.document["recovered"]) == (0, True)
    [lost] = done.document["lost"]
    assert lost["commit"] == str(heads[-1])
    assert done.document["head"]["commit"] == str(heads[-2])
    assert ready("store", "recover", "main", "--deep").document["healthy"] is True


def test_recover_changes_nothing_where_no_commit_is_whole(
    ready: Lakesweep, heads: list[int], file: Path
) -> None:
    _lose(file, _papers(file)[0])
    before = _content(file)
    done = ready("store", "recover", "main", "--deep", "--yes")
    assert (done.code, done.error["type"]) == (4, "HeadMissingError")
    assert f"nor any of its {len(heads) - 1} recent commits" in done.error["message"]
    assert "backup" in done.error["hint"]
    assert _content(file) == before


def test_recover_mends_the_realms_themselves(ready: Lakesweep, file: Path) -> None:
    ready("realm", "create", "other")
    head = ready("store", "log", "realms", "--realm", "::system::", "--limit", "1").lines[0]
    _lose(file, int(head["commit"]))
    broken = ready("realm", "list")
    assert broken.code == 4
    assert "lakesweep store recover realms --realm ::system::" in broken.error["hint"]
    assert ready("store", "recover", "realms", "--realm", "::system::", "--yes").code == 0
    assert ready("realm", "show", "other").document["status"] == "initializing"
    assert ready("realm", "create", "other").document["status"] == "active"


@pytest.mark.usefixtures("heads")
@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["store", "log", "none"], 6, "lists its references"),
        (["store", "recover", "none"], 6, "lists its references"),
        (["store", "log", "--realm", "none"], 6, "realm list"),
        (["store", "log", "--realm", "::other::"], 2, "another name"),
        (["store", "log", "--realm", "a b"], 2, "letters"),
        (["store", "log", ""], 2, "UTF-8"),
        (["store", "log", "x" * 1001], 2, "UTF-8"),
        (["store", "log", "main", "--since", "soon"], 2, "7d"),
        (["store", "log", "main", "--since", "2026-01-01"], 2, "Z"),
        (["store", "log", "main", "--limit", "0"], 2, "--help"),
        (["store", "bench", "--writers", "0"], 2, "--help"),
        (["store", "info", "--url", "oracle://db/x"], 2, "sqlite"),
        (["store", "info", "--url", "sqlit:///x.db"], 2, "sqlite"),
        (["store", "info", "--url", "nonsense"], 2, "sqlite"),
        (["store", "init", "--url", "sqlite://db/x"], 2, "sqlite:///"),
    ],
)
def test_wrong_words_are_refused_with_what_to_try(
    words: list[str], code: int, hint: str, ready: Lakesweep, file: Path
) -> None:
    before = _content(file)
    done = ready(*words)
    assert (done.code, done.out) == (code, "")
    assert hint in done.error["hint"]
    assert _content(file) == before


@pytest.mark.parametrize("words", [["info"], ["log"], ["recover", "main"]])
def test_without_tables_nothing_is_made_by_looking(
    words: list[str], lakesweep: Lakesweep, tmp_path: Path
) -> None:
    done = lakesweep("store", *words)
    assert (done.code, done.error["type"]) == (4, "SchemaError")
    assert "lakesweep store init" in done.error["hint"]
    assert [path.name for path in tmp_path.iterdir()] == ["lakesweep.toml"]


@pytest.mark.parametrize("command", ["init", "info"])
def test_a_file_that_is_no_database_is_left_alone(
    command: str, lakesweep: Lakesweep, file: Path
) -> None:
    file.parent.mkdir()
    file.write_text("This is a letter to a friend.\n" * 100)
    before = file.read_bytes()
    done = lakesweep("store", command)
    assert done.code == 4
    assert "not a database" in done.error["message"]
    assert done.error["hint"]
    assert file.read_bytes() == before


@pytest.mark.parametrize("command", ["init", "info", "bench"])
def test_tables_of_a_newer_version_are_refused(command: str, ready: Lakesweep, file: Path) -> None:
    _execute(file, "UPDATE lakesweep_schema SET version = 2")
    before = _content(file)
    done = ready("store", command)
    assert (done.code, done.error["type"]) == (4, "NewerSchemaError")
    assert done.error["hint"] == "upgrade Lakesweep"
    assert _content(file) == before


def test_a_database_that_cannot_be_written_is_told(ready: Lakesweep, file: Path) -> None:
    before = _content(file)
    url = f"sqlite:///file:{file}?mode=ro&uri=true"
    done = ready("realm", "create", "acme", "--url", url)
    assert done.code == 4
    assert "give this user write access" in done.error["hint"]
    assert _content(file) == before


def test_a_damaged_row_is_told_with_its_object(
    ready: Lakesweep, heads: list[int], file: Path
) -> None:
    flipped = "CAST(substr(value, 1, 9) || x'ff' || substr(value, 11) AS BLOB)"
    _execute(file, f"UPDATE lakesweep_objects SET value = {flipped} WHERE id = ?", heads[-1])
    before = _content(file)
    done = ready("store", "log", "main")
    assert (done.code, done.error["type"]) == (4, "DamagedRowError")
    assert str(heads[-1]) in done.error["message"]
    assert "lakesweep store recover main --realm default" in done.error["hint"]
    assert _content(file) == before


def test_no_password_is_ever_shown(lakesweep: Lakesweep) -> None:
    url = "postgresql://me:hidden@127.0.0.1:9/x"
    for words in (["info"], ["init"], ["bench"], ["log"]):
        done = lakesweep("store", *words, "--url", url, "-v")
        assert done.code == 4
        assert "hidden" not in done.out + done.err


def test_bench_measures_and_leaves_nothing_behind(ready: Lakesweep) -> None:
    before = ready("store", "info").document["realms"]
    done = ready("store", "bench", "--writers", "2", "--commits", "10", "--references", "2")
    assert done.code == 0, done.err
    document = done.document
    assert (document["commits"], document["failures"], document["log_complete"]) == (20, 0, True)
    figures = {"seconds", "commits_per_second", "p50_ms", "p99_ms", "max_ms", "attempts_per_commit"}
    assert all(document[figure] > 0 for figure in figures)
    assert ready("store", "info").document["realms"] == before


def test_bench_creates_an_embedded_store_that_is_not_there_yet(
    lakesweep: Lakesweep, file: Path
) -> None:
    words = ["store", "bench", "--writers", "1", "--commits", "2", "--threads"]
    first, second = lakesweep(*words), lakesweep(*words)
    assert (first.code, second.code) == (0, 0)
    assert f"created a new store: {file}\n" in first.err
    assert "created" not in second.err


def test_bench_for_people_is_a_table(lakesweep: Lakesweep) -> None:
    done = lakesweep("store", "bench", "--url", "memory:", "--commits", "20", json=False)
    assert done.code == 0
    assert "complete and in order" in done.out
    assert "160 commits by 8 writers to 1 reference in memory:" in done.err


def test_commits_that_fail_end_with_code_4(ready: Lakesweep, file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE UPDATE ON lakesweep_references "
            "WHEN new.name = CAST('bench/0' AS BLOB) AND new.version > 2 "
            "BEGIN SELECT RAISE(ABORT, 'no more'); END"
        )
    done = ready("store", "bench", "--writers", "1", "--commits", "5")
    assert done.code == 4
    assert (done.document["commits"], done.document["failures"]) == (2, 3)
    assert not done.document["log_complete"]
    assert "3 commits failed" in done.error["message"]


def test_the_store_of_a_server_is_used_in_the_same_way(
    lakesweep: Lakesweep, postgresql_databases: DatabaseServer
) -> None:
    words = ("--url", postgresql_databases.new_database())
    assert lakesweep("store", "init", *words).document["created"] == ["tables", "realm default"]
    assert lakesweep("store", "init", *words).document["created"] == []
    info = lakesweep("store", "info", *words)
    assert info.document["realms"][0]["status"] == RealmStatus.ACTIVE
    assert ":***@" in info.document["database"]
    log = lakesweep("store", "log", "realms", "--realm", "::system::", *words)
    assert [line["seq"] for line in log.lines] == [3, 2, 1]
