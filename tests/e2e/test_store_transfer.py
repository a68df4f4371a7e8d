"""`lakesweep store export` and `import`, from the command line and from database to database."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakesweep.bench.processes import fresh_processes
from lakesweep.store import Store
from lakesweep.store.realms.registry import RealmStatus
from lakesweep.store.transfer import content_hash, import_realm
from tests.command import Lakesweep
from tests.database_servers import DatabaseServer
from tests.libraries import TYPES, Shelf, commit, fill, shelve

_LAKESWEEP = str(Path(sys.executable).with_name("lakesweep"))


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with a realm `acme` in it."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    Store.create_tables(url)
    with Store.open(url, types=TYPES) as store:
        fill(store)
    return url


@pytest.fixture
def lakesweep(tmp_path: Path, capfd: pytest.CaptureFixture[str], url: str) -> Lakesweep:
    config = tmp_path / "lakesweep.toml"
    config.write_text(f'[store]\nurl = "{url}"\n')
    return Lakesweep(capfd, config)


@pytest.fixture
def file(lakesweep: Lakesweep, tmp_path: Path) -> Path:
    """An export of the realm."""
    path = tmp_path / "acme.ndjson.gz"
    assert lakesweep("store", "export", "acme", str(path)).code == 0
    return path


def _hash(url: str, realm: str = "acme") -> str:
    with Store.open(url) as store:
        return content_hash(store.realm(realm))


def test_an_export_tells_what_is_in_it(lakesweep: Lakesweep, tmp_path: Path, url: str) -> None:
    path = tmp_path / "x.ndjson"
    done = lakesweep("store", "export", "acme", str(path))
    assert done.code == 0
    document = done.document
    assert document["hash"] == _hash(url)
    assert document["objects"] == path.read_bytes().count(b'{"line":"object"')
    assert document["file_bytes"] == path.stat().st_size
    assert {name: document[name] for name in ("realm", "file", "kind", "references")} == {
        "realm": "acme",
        "file": str(path),
        "kind": "live",
        "references": 9,
    }


def test_an_export_of_rows_tells_how_many(lakesweep: Lakesweep, tmp_path: Path, url: str) -> None:
    done = lakesweep("store", "export", "acme", str(tmp_path / "x"), "--rows")
    with Store.open(url) as store:
        rows = sum(1 for _ in store.backend.scan_rows("acme"))
    assert (done.document["kind"], done.document["rows"]) == ("rows", rows)


def test_people_see_a_table_and_the_next_command(lakesweep: Lakesweep, tmp_path: Path) -> None:
    done = lakesweep("store", "export", "acme", str(tmp_path / "x"), json=False)
    assert [line.split()[0] for line in done.out.splitlines() if "─" not in line] == [
        "realm",
        "references",
        "objects",
        "bytes",
        "hash",
    ]
    assert f"lakesweep store import {tmp_path / 'x'}" in done.err


def test_an_import_tells_what_it_made(lakesweep: Lakesweep, file: Path, url: str) -> None:
    document = lakesweep("store", "import", str(file), "--realm", "copy").document
    assert (document["realm"], document["status"]) == ("copy", "active")
    assert document["hash"] == _hash(url) == _hash(url, "copy")
    assert not document["repeated"]


def test_an_import_leaves_the_realm_inactive_if_asked_to(lakesweep: Lakesweep, file: Path) -> None:
    done = lakesweep("store", "import", str(file), "--realm", "copy", "--inactive")
    assert done.document["status"] == "inactive"


def test_an_import_is_repeated_without_harm(lakesweep: Lakesweep, file: Path) -> None:
    for repeated in (False, True):
        done = lakesweep("store", "import", str(file), "--realm", "copy")
        assert (done.code, done.document["repeated"]) == (0, repeated)


def test_fewer_commits_are_fewer_objects(lakesweep: Lakesweep, tmp_path: Path) -> None:
    counts = [
        lakesweep("store", "export", "acme", str(tmp_path / n), "--history", n).document["objects"]
        for n in ("1", "2", "3", "all")
    ]
    assert counts[0] < counts[1] < counts[2] == counts[3]


@pytest.mark.parametrize("history", ["0", "-1", "some", "1.5", "²"])
def test_another_number_of_commits_is_refused(
    lakesweep: Lakesweep, tmp_path: Path, history: str
) -> None:
    done = lakesweep("store", "export", "acme", str(tmp_path / "x"), f"--history={history}")
    assert done.code == 2
    assert "write 1, 20 or all" in done.error["message"]


def test_rows_have_no_history_to_choose(lakesweep: Lakesweep, tmp_path: Path) -> None:
    done = lakesweep("store", "export", "acme", str(tmp_path / "x"), "--rows", "--history", "1")
    assert done.code == 2


def test_a_file_is_replaced_by_force_only(lakesweep: Lakesweep, file: Path) -> None:
    before = file.read_bytes()
    refused = lakesweep("store", "export", "acme", str(file))
    assert (refused.code, file.read_bytes()) == (2, before)
    assert "--force" in refused.error["hint"]
    assert lakesweep("store", "export", "acme", str(file), "--force").code == 0
    assert file.read_bytes() != before


def test_there_must_be_a_realm_and_a_file(lakesweep: Lakesweep, tmp_path: Path) -> None:
    assert lakesweep("store", "export", "nobody", str(tmp_path / "x")).code == 6
    assert not (tmp_path / "x").exists()
    assert lakesweep("store", "import", str(tmp_path / "x")).code == 6


def test_a_realm_that_is_there_is_not_overwritten(lakesweep: Lakesweep, file: Path) -> None:
    done = lakesweep("store", "import", str(file))
    assert done.code == 4
    assert "--realm" in done.error["hint"]


def test_a_damaged_file_is_told_with_its_line_and_changes_nothing(
    lakesweep: Lakesweep, tmp_path: Path
) -> None:
    path = tmp_path / "x"
    lakesweep("store", "export", "acme", str(path))
    path.write_bytes(path.read_bytes().replace(b'"type":"page"', b'"type":"sage"', 1))
    done = lakesweep("store", "import", str(path), "--realm", "copy")
    assert done.code == 4
    assert "x: line " in done.error["message"]
    assert [each["name"] for each in lakesweep("realm", "list").document["realms"]] == ["acme"]


def test_another_file_is_no_export(lakesweep: Lakesweep) -> None:
    done = lakesweep("store", "import", str(lakesweep.config))
    assert (done.code, done.error["type"]) == (4, "DamagedError")
    assert "is not an export of a realm" in done.error["message"]


def test_a_missing_object_ends_an_export_with_the_way_to_it(
    lakesweep: Lakesweep, tmp_path: Path, url: str
) -> None:
    with Store.open(url, types=TYPES) as store:
        realm = store.realm("acme")
        head = realm.head("grants", Shelf)
        assert head is not None
        stored = realm.objects.undecoded().fetch(head.value.first or 0, object)
        assert stored is not None
        realm.objects.delete([stored])
    done = lakesweep("store", "export", "acme", str(tmp_path / "x"))
    assert done.code == 4
    assert f"reference 'grants' → commit {head.id} → object {stored.id}" in done.error["message"]
    assert not [each for each in tmp_path.iterdir() if each.name.endswith((".part", "x"))]


def test_a_full_disk_leaves_neither_a_file_nor_a_part_of_one(tmp_path: Path, url: str) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    command = f"ulimit -f 200; {_LAKESWEEP} store export acme {folder}/x --url {url}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, check=False, timeout=120, text=True
    )
    assert done.returncode == 4
    assert "cannot be written: File too large" in done.stderr
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    "words", [["store", "export", "acme", "-"], ["store", "info"], ["store", "info", "--help"]]
)
def test_a_full_disk_behind_stdout_is_an_error_of_every_command(url: str, words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [_LAKESWEEP, *words, "--url", url]
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=120, text=True
        )
    assert done.returncode == 4
    error, hint = done.stderr.splitlines()
    assert error == "error: the standard output cannot be written: No space left on device"
    assert hint.startswith("try: free some space")


def test_a_reader_that_has_seen_enough_ends_an_export_quietly(url: str) -> None:
    command = f"{_LAKESWEEP} store export acme - --url {url} | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_realm_goes_through_a_pipe(lakesweep: Lakesweep, tmp_path: Path, url: str) -> None:
    target = f"sqlite:///{tmp_path / 'other.db'}"
    Store.create_tables(target)
    export = lakesweep("store", "export", "acme", "-", json=False).out
    command = [_LAKESWEEP, "store", "import", "-", "--url", target, "--json"]
    done = subprocess.run(
        command, input=export, capture_output=True, check=True, timeout=120, text=True
    )
    assert json.loads(done.stdout)["hash"] == _hash(url) == _hash(target)


def test_a_pipe_that_breaks_leaves_no_realm_that_could_be_used(
    lakesweep: Lakesweep, file: Path, url: str
) -> None:
    command = f"zcat {file} | head -n 50 | {_LAKESWEEP} store import - --realm copy --url {url}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, check=False, timeout=120, text=True
    )
    assert done.returncode == 4
    assert "standard input: ends in line 51" in done.stderr
    with Store.open(url) as store:
        assert store.realms.get("copy").status is RealmStatus.LOADING
    assert lakesweep("store", "import", str(file), "--realm", "copy").code == 0


def _import(url: str, file: Path) -> None:
    with Store.open(url) as store:
        import_realm(store, file)


def test_a_killed_import_is_finished_when_it_is_repeated(
    lakesweep: Lakesweep, tmp_path: Path, url: str
) -> None:
    with Store.open(url, types=TYPES) as store:
        realm = store.realm("acme")
        for start in range(0, 900, 300):
            shelve(realm, "main", [f"more {n}" for n in range(start, start + 300)], size=1)
        rows = sum(1 for _ in realm.backend.scan_rows("acme"))
    export, target = tmp_path / "acme.ndjson", f"sqlite:///{tmp_path / 'other.db'}"
    assert lakesweep("store", "export", "acme", str(export)).code == 0
    Store.create_tables(target)
    with Store.open(target) as store:
        for wanted in (1, rows - 1):
            process = fresh_processes().Process(target=_import, args=(target, export))
            process.start()
            while sum(1 for _ in store.backend.scan_rows("acme")) < wanted:
                assert process.is_alive()
                time.sleep(0.005)
            process.kill()
            process.join()
    assert lakesweep("store", "import", str(export), "--url", target).code == 0
    assert _hash(target) == _hash(url)


def test_a_realm_goes_from_database_to_database(
    lakesweep: Lakesweep,
    tmp_path: Path,
    url: str,
    postgresql_databases: DatabaseServer,
    mariadb_databases: DatabaseServer,
) -> None:
    wanted = _hash(url)
    ways = [
        (postgresql_databases.new_database(), []),
        (mariadb_databases.new_database(), ["--rows"]),
        (f"sqlite:///{tmp_path / 'back.db'}", []),
    ]
    source = url
    for place, (target, options) in enumerate(ways):
        path = str(tmp_path / f"{place}.ndjson.zst")
        Store.create_tables(target)
        assert lakesweep("store", "export", "acme", path, "--url", source, *options).code == 0
        assert lakesweep("store", "import", path, "--url", target).code == 0
        assert _hash(target) == wanted
        source = target
    with Store.open(source, types=TYPES) as store:
        commit(store.realm("acme"), "main", lambda _: Shelf())
