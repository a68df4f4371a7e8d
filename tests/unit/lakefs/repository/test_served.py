""""""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.errors import (
    ConfigError,
    DamagedError,
    DeniedError,
    IncompleteError,
    MissingError,
    NotFoundError,
    UnavailableError,
)
from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lakefs.client.access import ConfiguredServer, ServerAccess, access_from
from lakesweep.lakefs.client.api import ObjectRecord, Server
from lakesweep.lakefs.columns import ENTRIES
from lakesweep.lakefs.ranges.reader import Trees
from lakesweep.lakefs.repository.interface import Repository
from lakesweep.lakefs.repository.lookup import open_repository
from lakesweep.lakefs.repository.served import find_namespace, staged_entries, trim_namespace
from lakesweep.storage.stores import Stores
from tests.dict_store import DictStore
from tests.lakefs import REPOSITORIES, RealRepositories
from tests.lakefs_server import KEY, SECRET, RecordedServer, recorded_server

#: A namespace, and what its server puts in front of the keys that entries have.
SPELLINGS = [
    (StorageNamespace("s3://lake/r"), "s3://lake/r/"),
    (find_namespace("local://r", "/srv/lakefs"), "local:///srv/lakefs/r/"),
    (find_namespace("local://r", "/srv/lakefs"), "local:///srv/lakefs/srv/lakefs/r/"),
    (
        StorageNamespace("https://acme.blob.core.windows.net/c/r"),
        "https://acme.blob.core.windows.net/c/r/",
    ),
]


@pytest.fixture(scope="module")
def shared(lakefs_repositories: RealRepositories) -> Iterator[RecordedServer]:
    with recorded_server(lakefs_repositories) as server:
        yield server


@pytest.fixture
def server(shared: RecordedServer) -> RecordedServer:
    shared.asked.clear()
    shared.broken.clear()
    return shared


def stores_with(files: Mapping[str, bytes]) -> Stores:
    store = DictStore()
    for key, data in files.items():
        store.write(key, data)
    return Stores(replace={"s3://lake": store})


def no_store() -> Stores:
    """Stores in which the files of repositories are not to be found."""
    return stores_with({})


def opened(server: RecordedServer, name: str) -> Repository:
    return open_repository(name, no_store(), (), server.environment)


@pytest.mark.parametrize("name", REPOSITORIES)
class TestEveryRepository:
    def test_refs_are_as_recorded(self, name: str, server: RecordedServer) -> None:
        refs = opened(server, name).read_refs()
        real = server.repositories.repository(name)
        told = {each["id"]: (each["commit_id"], each["hidden"]) for each in real.answer("branches")}
        assert {each.name: (each.commit_id, each.hidden) for each in refs.branches} == told
        assert set(refs.commits) == {each["id"] for each in real.answer("commits")}
        assert {each.name for each in refs.tags} == {each["id"] for each in real.answer("tags")}

    def test_all_that_is_staged_is_found(self, name: str, server: RecordedServer) -> None:
        batches = opened(server, name).staged()
        found = [row for batch in batches for row in batch.to_pylist()]
        staged = server.repositories.repository(name).answer("staged")
        told = {
            (branch, entry["path"].encode(), entry["physical_address"], entry["mtime"])
            for branch, each in staged.items()
            for entry in each["entries"]
        }
        assert {
            (row["branch"], row["path"], row["address"], row["modified"].timestamp())
            for row in found
        } == told
        assert len(found) == len(told)


def test_a_new_upload_of_equal_content_is_staged(server: RecordedServer) -> None:
    """No diff of the server has it."""
    rows = [row for batch in opened(server, "objects").staged() for row in batch.to_pylist()]
    again = [row for row in rows if row["path"] == b"work/b.bin"]
    assert [(row["branch"], row["checksum"]) for row in again] == [
        ("work", "264adbc91466b88841687f0d4dd73ea7")
    ]


@pytest.fixture
def called_like_a_commit(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> Iterator[tuple[RecordedServer, str]]:
    """A server with a branch whose name is the beginning of one commit's id."""
    real = lakefs_repositories.repository("objects")
    oracle = tmp_path / "oracle"
    shutil.copytree(real.oracle, oracle)
    name = real.answer("commits")[0]["id"][:6]
    for file in (oracle / "branches.json", oracle / "staged.json"):
        file.write_text(file.read_text().replace('"work"', f'"{name}"'))
    with recorded_server(lakefs_repositories) as server:
        server.known["objects"] = replace(real, oracle=oracle)
        yield server, name


def test_a_branch_that_its_server_takes_for_a_commit_is_not_taken_for_empty(
    called_like_a_commit: tuple[RecordedServer, str],
) -> None:
    """An old server lists the commit, without what is staged."""
    server, name = called_like_a_commit
    with pytest.raises(IncompleteError, match=f"branch {name} .* takes it for that commit"):
        list(opened(server, "objects").staged())


def test_a_branch_that_is_called_like_its_head_is_listed_by_servers_of_today(
    called_like_a_commit: tuple[RecordedServer, str],
) -> None:
    server, name = called_like_a_commit
    server.is_old = False
    branches = server.known["objects"].oracle / "branches.json"
    [head] = [each["id"] for each in server.known["objects"].answer("commits")][:1]
    told = json.loads(branches.read_text())
    [own] = [each for each in told if each["id"] == name]
    own["commit_id"] = head
    branches.write_text(json.dumps(told))
    found = {
        row["branch"] for batch in opened(server, "objects").staged() for row in batch.to_pylist()
    }
    assert name in found


def test_a_page_that_ends_with_a_path_that_is_no_text_is_not_gone_on_from(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    """Servers tell such bytes as another letter, behind which they would leave paths out."""
    real = lakefs_repositories.repository("wide")
    oracle = tmp_path / "oracle"
    shutil.copytree(real.oracle, oracle)
    lines = (oracle / "entries.jsonl").read_text().replace("/", "/\\ufffd")
    (oracle / "entries.jsonl").write_text(lines)
    with recorded_server(lakefs_repositories) as server:
        server.known["wide"] = replace(real, oracle=oracle)
        with pytest.raises(DamagedError, match="not valid text"):
            list(opened(server, "wide").staged())


def test_entries_come_through_the_server_where_the_store_does_not_give_them(
    server: RecordedServer,
) -> None:
    repository = opened(server, "wide")
    trees = Trees(repository.files, repository.namespace)
    commit = repository.read_refs().find("main")
    paths = [path for batch in trees.entries(commit.metarange_id) for path in batch["path"]]
    told = server.repositories.repository("wide").entries[commit.id]
    assert [path.as_py() for path in paths] == [each["path"].encode() for each in told]
    assert any("metadata/object/range" in call for call in server.asked)


def test_entries_come_from_the_store_where_it_can_be_read(server: RecordedServer) -> None:
    folder = server.repositories.repository("actions").folder
    files = {
        f"repos/actions/_lakefs/{path.name}": path.read_bytes()
        for path in (folder / "_lakefs").iterdir()
        if path.is_file()
    }
    repository = open_repository("actions", stores_with(files), (), server.environment)
    assert len(repository.read_refs().commits) == 6
    assert not any("metadata/object" in call for call in server.asked)


def test_a_server_goes_to_other_processes(server: RecordedServer) -> None:
    asked = Server(ServerAccess(server.endpoint, KEY, SECRET))
    told = asked.dump_refs("actions")
    again = pickle.loads(pickle.dumps(asked))
    assert again.dump_refs("actions") == told
    found = again.metadata("actions", told.tags_meta_range_id, "meta_range")
    folder = server.repositories.repository("actions").folder
    assert found == (folder / "_lakefs" / told.tags_meta_range_id).read_bytes()


class TestFailures:
    def test_no_such_repository(self, server: RecordedServer) -> None:
        with pytest.raises(NotFoundError, match="no repository 'nobody'"):
            opened(server, "nobody")

    def test_wrong_credentials(self, server: RecordedServer) -> None:
        asked = Server(ServerAccess(server.endpoint, KEY, "wrong"))
        with pytest.raises(DeniedError, match=r"401 .*error authenticating") as error:
            asked.repository("actions")
        assert "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY" in error.value.hint

    def test_a_user_without_rights_is_told_which(self, server: RecordedServer) -> None:
        server.broken["/repositories/"] = 403
        with pytest.raises(DeniedError, match="403") as error:
            Server(ServerAccess(server.endpoint, KEY, SECRET)).repository("actions")
        assert "fs:ListCommits" in error.value.hint

    @pytest.mark.parametrize(
        ("status", "error"), [(500, UnavailableError), (403, DeniedError), (404, MissingError)]
    )
    def test_a_listing_that_fails_is_no_empty_one(
        self, server: RecordedServer, status: int, error: type[Exception]
    ) -> None:
        repository = opened(server, "objects")
        server.broken["/objects/ls"] = status
        with pytest.raises(error):
            list(repository.staged())
        listings = [call for call in server.asked if call.endswith("/objects/ls")]
        assert len(listings) == (5 if status == 500 else 1)

    def test_a_server_that_is_not_there(self) -> None:
        nobody = Server(ServerAccess("http://127.0.0.1:9", KEY, SECRET))
        with pytest.raises(UnavailableError, match="refused") as error:
            nobody.repository("actions")
        assert "LAKECTL_SERVER_ENDPOINT_URL" in error.value.hint

    def test_a_server_that_is_something_else(self, server: RecordedServer) -> None:
        server.broken["/commits/"] = 200
        with pytest.raises(DamagedError, match="no such answer"):
            list(opened(server, "actions").staged())


class TestSettings:
    def test_the_variables_of_lakefs_own_tools(self) -> None:
        found = access_from(
            {
                "LAKECTL_SERVER_ENDPOINT_URL": "http://lakefs:8000/",
                "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "AKIA",
                "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "hush",
            }
        )
        assert found.url == "http://lakefs:8000/api/v1"
        assert "hush" not in repr(found)
        assert ServerAccess("http://l/api/v1", "a", "b").url == "http://l/api/v1"

    @pytest.mark.parametrize(
        ("environment", "match"),
        [
            ({}, "no lakeFS server"),
            ({"LAKECTL_SERVER_ENDPOINT_URL": "http://l"}, "credentials"),
            ({"LAKECTL_SERVER_ENDPOINT_URL": "l:8000"}, "not an http"),
        ],
    )
    def test_what_is_missing_is_told(self, environment: dict[str, str], match: str) -> None:
        with pytest.raises(ConfigError, match=match):
            access_from(environment)

    @pytest.mark.parametrize("endpoint", ["lakefs.example.com", "lakefs://lakefs.example.com"])
    def test_an_endpoint_without_its_scheme_is_told_with_it(self, endpoint: str) -> None:
        with pytest.raises(ConfigError, match="not an http or https address") as caught:
            access_from({}, endpoint)
        assert "https://lakefs.example.com" in caught.value.hint

    def test_the_configured_server_comes_first(self, server: RecordedServer) -> None:
        environment = {**server.environment, "LAKECTL_SERVER_ENDPOINT_URL": "http://127.0.0.1:9"}
        places: tuple[Any, ...] = (
            ConfiguredServer("http://127.0.0.1:9", ("other",)),
            ConfiguredServer(server.endpoint, ("actions",)),
        )
        found = open_repository("actions", no_store(), places, environment)
        assert found.namespace.location == "s3://lake/repos/actions"

    def test_namespaces_of_disks(self) -> None:
        found = find_namespace("local://r1/", "/srv/lakefs/")
        assert found.location == "/srv/lakefs/r1"
        told = ("local:///srv/lakefs/r1/data/x", "local:///srv/lakefs/srv/lakefs/r1/data/x")
        for address in (*told, "local://r1/data/x", "/srv/lakefs/r1/data/x"):
            keys = found.keys(pa.array([address]), pa.array(["full"]))
            assert keys.to_pylist() == ["data/x"]
        with pytest.raises(ConfigError, match="unknown folder"):
            find_namespace("local://r1", None)
        with pytest.raises(ConfigError, match="memory"):
            find_namespace("mem://r1", None)


@pytest.mark.parametrize("end", ["", "/", "//"])
def test_a_namespace_is_read_as_its_server_reads_it(end: str) -> None:
    """Objects would be taken for unreferenced ones beside `repo//data/`."""
    assert trim_namespace(f"s3://lake/repo{end}") == "s3://lake/repo"
    assert trim_namespace(f"s3://lake//re//po{end}") == "s3://lake/re//po"
    assert trim_namespace(f"s3://lake{end}") == "s3://lake"


def test_without_its_client_a_server_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("client", "configuration", "exceptions"):
        monkeypatch.setitem(sys.modules, f"lakefs_sdk.{module}", None)
    with pytest.raises(ConfigError, match="not installed") as error:
        list(
            Server(ServerAccess("http://127.0.0.1:1", KEY, SECRET)).branches(
                "analytics", hidden=True
            )
        )
    assert error.value.hint == "pip install 'lakesweep[lakefs]'"


def entry(path: str, address: str, kind: str, second: int) -> dict[str, object]:
    return {
        "path": path.encode(),
        "address": address,
        "address_type": kind,
        "size_bytes": 1,
        "checksum": "",
        "modified": datetime.fromtimestamp(second, UTC).replace(microsecond=700_000),
        "identity": b"",
    }


@pytest.mark.parametrize(("namespace", "told"), SPELLINGS)
def test_what_head_has_so_is_not_staged_however_servers_spell_it(
    namespace: StorageNamespace, told: str
) -> None:
    tree = [
        entry("a", "data/s/1", "relative", 100),
        entry("b", "data/s/2", "relative", 100),
        entry("c", "data/s/3", "relative", 100),
        entry("d", "s3://elsewhere/d", "full", 100),
    ]
    page = [
        ObjectRecord("a", f"{told}data/s/1", "", 100),
        ObjectRecord("b", f"{told}data/s/1", "", 100),  # another object
        ObjectRecord("c", f"{told}data/s/3", "", 101),  # the same one, put there anew
        ObjectRecord("d", "s3://elsewhere/d", "", 100),
    ]
    committed = [pa.RecordBatch.from_pylist(tree, schema=ENTRIES)]
    found = [
        row
        for batch in staged_entries("main", [page], committed, namespace)
        for row in batch.to_pylist()
    ]
    assert [row["path"] for row in found] == [b"b", b"c"]
    assert {row["branch"] for row in found} == {"main"}
