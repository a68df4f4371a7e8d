"""`lakesweep lifecycle refs` and `entries`, on repositories that a real server wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import Lakesweep
from tests.lakefs import RealRepositories, RealRepository
from tests.lakefs_server import recorded_server


@pytest.fixture
def lakesweep(capsys: pytest.CaptureFixture[str]) -> Lakesweep:
    return Lakesweep(capsys)


@pytest.fixture
def branches(lakefs_repositories: RealRepositories) -> RealRepository:
    return lakefs_repositories.repository("branches")


def test_refs_of_a_bucket(lakesweep: Lakesweep, branches: RealRepository) -> None:
    lines = lakesweep("lifecycle", "refs", str(branches.folder)).lines
    kinds = [line["kind"] for line in lines]
    assert [kinds.count(kind) for kind in ("branch", "tag", "commit")] == [7, 2, 30]
    assert sum(line.get("dangling", False) for line in lines) == 6


def test_refs_for_people(lakesweep: Lakesweep, branches: RealRepository) -> None:
    done = lakesweep("lifecycle", "refs", str(branches.folder), json=False)
    assert "branch  bb87af2a1a1a  main\n" in done.out
    assert "commit  bb87af2a1a1a  2026-11-14T12:00:00Z  yesterday\n" in done.out
    assert done.err == "7 branches, 2 tags, 30 commits, 6 of them on no branch\n"


def test_one_of_a_kind(lakesweep: Lakesweep, lakefs_repositories: RealRepositories) -> None:
    folder = lakefs_repositories.repository("empty").folder
    done = lakesweep("lifecycle", "refs", str(folder), json=False)
    assert done.err == "1 branch, 0 tags, 1 commit, 0 of them on no branch\n"


@pytest.mark.parametrize("ref", ["main", "bb87af2a1a1a"])
def test_entries_of_a_commit(lakesweep: Lakesweep, branches: RealRepository, ref: str) -> None:
    lines = lakesweep("lifecycle", "entries", str(branches.folder), ref).lines
    head = next(id_ for id_ in branches.entries if id_.startswith("bb87af2a1a1a"))
    expected = [
        (each["path"], each["address"], each["size_bytes"], each["checksum"])
        for each in branches.entries[head]
    ]
    found = [
        (line["path"], line["address"], line["size_bytes"], line["checksum"]) for line in lines
    ]
    assert found == expected
    assert set(lines[0]) == {
        "path",
        "address",
        "address_type",
        "size_bytes",
        "checksum",
        "modified",
    }


def test_entries_for_people(lakesweep: Lakesweep, lakefs_repositories: RealRepositories) -> None:
    folder = lakefs_repositories.repository("objects").folder
    done = lakesweep("lifecycle", "entries", str(folder), "work", json=False)
    assert "s3://landing/a/orders/part-010.csv" in done.out
    assert "tab\\tand\\nnewline.txt" in done.out.replace("\t", "\\t")
    assert " entries, " in done.err


def test_an_unknown_ref(lakesweep: Lakesweep, branches: RealRepository) -> None:
    done = lakesweep("lifecycle", "entries", str(branches.folder), "nobody")
    assert done.code == 6
    assert "is not a branch, tag or commit" in done.error["message"]


def test_a_folder_that_is_no_repository(lakesweep: Lakesweep, tmp_path: Path) -> None:
    done = lakesweep("lifecycle", "refs", str(tmp_path))
    assert done.code == 6
    assert "lifecycle refs NAME" in done.error["hint"]


def test_a_name_without_a_server(lakesweep: Lakesweep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKECTL_SERVER_ENDPOINT_URL", raising=False)
    done = lakesweep("lifecycle", "refs", "analytics")
    assert done.code == 2
    assert "LAKECTL_SERVER_ENDPOINT_URL" in done.error["hint"]


def test_a_name_on_the_configured_server(
    lakesweep: Lakesweep,
    lakefs_repositories: RealRepositories,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    config = tmp_path / "lakesweep.toml"
    with recorded_server(lakefs_repositories) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("LAKECTL_SERVER_ENDPOINT_URL", "http://127.0.0.1:9")
        config.write_text(
            f'[storage."s3://lake"]\nendpoint = "{server.endpoint}"\nretries = 0\n'
            'access_key_id = "a"\nsecret_access_key = "b"\n'
            '[lakes.prod]\nlocations = ["s3://lake"]\n[[lakes.prod.roots]]\ntype = "lakefs"\n'
            f'endpoint = "{server.endpoint}"\nrepositories = ["branches"]\n'
        )
        lakesweep.config = config
        lines = lakesweep("lifecycle", "refs", "branches").lines
    hidden = [line["name"] for line in lines if line.get("hidden")]
    told = lakefs_repositories.repository("branches").answer("branches")
    assert hidden == [each["id"] for each in told if each["hidden"]]
    assert len(lines) == 39
