"""lakeFS repositories as roots of a lake, on what a real server wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from lakesweep.config import LakefsRoot, LakeSection
from lakesweep.errors import IncompleteError, UnavailableError
from lakesweep.lakefs.refs.commit_graph import RepositoryBranch, RepositoryTag
from lakesweep.lakefs.repository.interface import Repository
from lakesweep.lakefs.repository.served import find_namespace
from lakesweep.storage.stores import Stores
from lakesweep.sweep.roots.lakefs import LakefsRoots, configured_openers
from lakesweep.sweep.roots.root import RootProblem, RootRow
from tests.lakefs import RealRepositories
from tests.lakefs_recorded import RecordedRepository
from tests.lakefs_working_server import WorkingServer, working_server
from tests.planned import Desk, deletes, reasons


def recorded(repositories: RealRepositories, name: str, folder: Path) -> RecordedRepository:
    return RecordedRepository(repositories.repository(name).copy_to(folder))


def desk_of(*repositories: RecordedRepository, location: str | None = None) -> Desk:
    """A lake whose only roots are these repositories."""
    stores = Stores()
    desk = Desk(stores, LakeSection(locations=(location or str(repositories[0].real.folder),)))
    openers = {each.name: partial(_itself, each) for each in repositories}
    desk.roots = [LakefsRoots(stores, "test", openers, desk.plans)]
    return desk


def _itself(repository: RecordedRepository) -> Repository:
    return repository


def row_of(desk: Desk) -> RootRow:
    assert desk.roots is not None
    [row] = desk.roots[0].collect()
    assert isinstance(row, RootRow)
    return row


def unreferenced(repository: RecordedRepository) -> set[str]:
    """What the server's own answers say that nothing names, below `data/`."""
    lines = (repository.real.oracle / "files.jsonl").read_text().splitlines()
    files = [json.loads(line) for line in lines]
    return {
        f"{repository.real.folder}/{each['path']}"
        for each in files
        if each["path"].startswith("data/") and not each["committed"] and not each["staged"]
    }


@pytest.mark.parametrize("name", ["objects", "random-1"])
def test_only_objects_that_nothing_names_would_go(
    lakefs_repositories: RealRepositories, tmp_path: Path, name: str
) -> None:
    repository = recorded(lakefs_repositories, name, tmp_path)

    plan = desk_of(repository).plan()

    assert deletes(plan) == unreferenced(repository) != set()
    found = reasons(plan)
    folder = repository.real.folder
    assert found[f"{folder}/_lakefs/refs_manifest.json"] == "pinned"
    assert plan.document.roots.complete == 1
    assert "missing" not in {guard.name for guard in plan.document.guards}


def test_imported_objects_are_kept_wherever_they_lie(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    repository = recorded(lakefs_repositories, "objects", tmp_path)
    imported = {
        entry["address"]
        for entries in repository.real.entries.values()
        for entry in entries
        if entry["address"].startswith("s3://landing/")
    }
    desk = desk_of(repository)

    live = {row["path"] for row in desk.rows(desk.survey().marks.content)}

    assert imported
    assert imported <= live


def test_two_repositories_with_the_same_refs_are_two(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    """As where refs were restored over a copy of a bucket."""
    first = recorded(lakefs_repositories, "objects", tmp_path / "one")
    second = recorded(lakefs_repositories, "objects", tmp_path / "two")
    desk = desk_of(first, location=str(tmp_path))
    openers = {"one": partial(_itself, first), "two": partial(_itself, second)}
    desk.roots = [LakefsRoots(desk.stores, "test", openers, desk.plans)]

    assert deletes(desk.plan()) == unreferenced(first) | unreferenced(second)


@pytest.mark.parametrize(
    "spelled", ["local://{root}/{key}", "local://{key}", "local://{root}{root}/{key}"]
)
def test_what_was_imported_from_the_disk_of_a_server_is_kept(
    lakefs_repositories: RealRepositories, tmp_path: Path, spelled: str
) -> None:
    repository = recorded(lakefs_repositories, "objects", tmp_path)
    repository.namespace = find_namespace("local://objects", str(tmp_path))
    other = tmp_path / "landing" / "imported.parquet"
    other.parent.mkdir()
    other.write_bytes(b"some")
    os.utime(other, (1, 1_700_000_000))
    repository.stage("main", "new", "")
    address = spelled.format(root=tmp_path, key="landing/imported.parquet")
    repository.staging[-1]["address"] = address
    desk = desk_of(repository, location=str(tmp_path))

    assert reasons(desk.plan())[str(other)] == "referenced"


def test_what_is_staged_is_kept(lakefs_repositories: RealRepositories, tmp_path: Path) -> None:
    repository = recorded(lakefs_repositories, "objects", tmp_path)
    path = min(unreferenced(repository))
    repository.stage("main", "new", path.removeprefix(f"{repository.real.folder}/"))

    assert deletes(desk_of(repository).plan()) == unreferenced(repository) - {path}


def test_a_repository_whose_refs_are_not_restored_keeps_all(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    repository = recorded(lakefs_repositories, "objects", tmp_path)
    for refs in (repository.commits, repository.branches, repository.tags):
        refs.clear()
    repository.staging.clear()

    plan = desk_of(repository).plan()

    assert not deletes(plan)
    [root] = plan.document.incomplete_roots
    assert "no commit" in root.reason


@pytest.fixture
def working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkingServer]:
    """A server with a repository that has one object, and one that nothing names."""
    with working_server(tmp_path / "objects") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        server.put("main", "a")
        server.commit("main")
        server.put("main", "b")
        server.staged["main"].clear()
        for path in server.namespace.glob("data/**/*"):
            os.utime(path, (1_700_000_000, 1_700_000_000))
        yield server


def desk_of_server(server: WorkingServer) -> Desk:
    root = LakefsRoot(
        type="lakefs",
        endpoint=server.endpoint,
        repositories=("repo",),
        local_root=str(server.folder),
    )
    desk = Desk(Stores(), LakeSection(locations=(str(server.namespace),)))
    openers = configured_openers(desk.stores, root)
    desk.roots = [LakefsRoots(desk.stores, "test", openers, desk.plans)]
    return desk


def test_a_repository_whose_folder_another_one_has_too_keeps_all(working: WorkingServer) -> None:
    """As where one was renamed: its refs are restored to a bare one in the same folder."""
    desk = desk_of_server(working)
    working.others = [{"id": "apart", "storage_namespace": "local://repository"}]
    first = desk.plan()
    assert len(deletes(first)) == 1

    working.others = [{"id": "new", "storage_namespace": "local://repo/"}]
    plan = desk.plan()

    assert not deletes(plan)
    [root] = plan.document.incomplete_roots
    assert "in one folder with new" in root.reason


def test_a_server_that_does_not_list_its_repositories_keeps_all(working: WorkingServer) -> None:
    working.lists_repositories = False

    plan = desk_of_server(working).plan()

    assert not deletes(plan)
    [root] = plan.document.incomplete_roots
    assert "grant fs:ListRepositories" in root.reason


def test_a_range_that_is_missing_keeps_all(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    repository = recorded(lakefs_repositories, "objects", tmp_path)
    (some, *_) = repository.real.answer("commits")[-1]["ranges"]
    (repository.real.folder / "_lakefs" / some).unlink()

    plan = desk_of(repository).plan()

    assert not deletes(plan)
    [root] = plan.document.incomplete_roots
    assert some in root.reason
    assert "missing" in root.reason


def test_a_server_that_does_not_answer_keeps_all(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    repository = recorded(lakefs_repositories, "objects", tmp_path)
    repository.broken = UnavailableError("http://127.0.0.1:8000", "it does not answer")

    plan = desk_of(repository).plan()

    assert not deletes(plan)
    assert plan.document.roots.incomplete == 1


def test_a_dump_without_a_server_says_what_to_set_if_nothing_is_staged(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    folder = lakefs_repositories.repository("bare").folder
    root = LakefsRoot(type="lakefs", namespaces=(str(folder),))
    openers = configured_openers(Stores(), root)
    [problem] = LakefsRoots(Stores(), "test", openers, str(tmp_path)).collect()
    assert isinstance(problem, RootProblem)
    assert "set without_staging = true" in problem.reason


def test_a_dump_that_lacks_later_commits_keeps_all(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    folder = lakefs_repositories.repository("branches").copy_to(tmp_path).folder
    root = LakefsRoot(type="lakefs", namespaces=(str(folder),), without_staging=True)
    stores = Stores()
    openers = configured_openers(stores, root)
    roots = LakefsRoots(stores, "test", openers, str(tmp_path / "plans"), without_staging=True)
    [row] = roots.collect()
    assert isinstance(row, RootRow)

    manifest = folder / "_lakefs" / "refs_manifest.json"
    os.utime(manifest, (0, 0))

    [problem] = roots.collect()
    assert isinstance(problem, RootProblem)
    assert "its last dump is out of date" in problem.reason
    with pytest.raises(IncompleteError, match="its last dump is out of date"):
        roots.look(row)


def test_a_repository_inside_another_is_not_taken_for_its_objects(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    outer = recorded(lakefs_repositories, "objects", tmp_path)
    inner = lakefs_repositories.repository("random-1").copy_to(outer.real.folder / "data")

    plan = desk_of(outer).plan()

    assert deletes(plan) == unreferenced(outer)
    assert "repositories" in {guard.name for guard in plan.document.guards}
    both = desk_of(outer, RecordedRepository(inner))
    assert deletes(both.plan()) == unreferenced(outer) | unreferenced(RecordedRepository(inner))


def test_a_part_of_the_objects_is_no_place_to_look_for_garbage(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    """It may be that of a repository which lies inside, whose signs are outside of it."""
    outer = recorded(lakefs_repositories, "objects", tmp_path)
    inner = lakefs_repositories.repository("random-1").copy_to(outer.real.folder / "data")
    whole = desk_of(outer, location=f"{outer.real.folder}/data")

    assert not deletes(desk_of(outer, location=f"{inner.folder}/data").plan())
    assert deletes(whole.plan()) == unreferenced(outer)


def test_states_are_not_left_behind(lakefs_repositories: RealRepositories, tmp_path: Path) -> None:
    desk = desk_of(recorded(lakefs_repositories, "objects", tmp_path))
    desk.plans = f"{tmp_path}/plans"
    desk.roots = [replace(source, place=desk.plans) for source in desk.roots or ()]  # type: ignore[type-var]

    plan = desk.plan()

    assert [path.name for path in (tmp_path / "plans").iterdir()] == [plan.document.plan]


@pytest.mark.parametrize("suffix", ["json", "parquet"])
def test_a_state_that_somebody_else_wrote_keeps_all(
    lakefs_repositories: RealRepositories, tmp_path: Path, suffix: str
) -> None:
    """It lies in the folder of plans, where its name can be foretold."""
    repository = recorded(lakefs_repositories, "objects", tmp_path)
    desk = desk_of(repository)
    desk.plans = f"{tmp_path}/plans"
    desk.roots = [replace(source, place=desk.plans) for source in desk.roots or ()]  # type: ignore[type-var]
    row_of(desk)
    for path in Path(desk.plans).rglob(f"states/*/*.{suffix}"):
        told = json.loads(path.read_text()) if suffix == "json" else None
        forged = json.dumps({**told, "metaranges": [], "staged": []}) if told else "nothing"
        path.write_text(forged)

    plan = desk.plan()

    assert not deletes(plan)
    assert "was changed since this run wrote it" in plan.document.incomplete_roots[0].reason


def test_a_second_plan_reads_only_new_ranges(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    desk = desk_of(recorded(lakefs_repositories, "objects", tmp_path))
    first, second = desk.plan(), desk.plan()

    assert first.document.spec["manifests_reused"] == 0
    assert second.document.spec["manifests_reused"] == second.document.spec["manifests"] > 0
    assert deletes(first) == deletes(second)


def test_a_pointer_changes_with_commits_branches_tags_and_staging(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    repository = recorded(lakefs_repositories, "branches", tmp_path)
    desk = desk_of(repository)
    seen = [row_of(desk)]
    assert row_of(desk) == seen[0]

    def changed() -> bool:
        seen.append(row_of(desk))
        return seen[-1] not in seen[:-1]

    head = repository.branches["main"].commit_id
    repository.stage("main", "new", "data/x/y")
    assert changed()
    repository.branches["other"] = RepositoryBranch("other", head)
    assert changed()
    repository.tags["v1"] = RepositoryTag("v1", head)
    assert changed()
    new = replace(repository.commits[head], id="0" * 64, parents=(head,))
    repository.commits[new.id] = new
    assert changed()
