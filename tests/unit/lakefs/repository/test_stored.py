from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakesweep.errors import DamagedError, IncompleteError, NotFoundError, UnreadableError
from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lakefs.ranges.blocks import commit_id
from lakesweep.lakefs.ranges.reader import Trees
from lakesweep.lakefs.ranges.sstable import SSTableType
from lakesweep.lakefs.refs.commit_graph import Refs
from lakesweep.lakefs.refs.dumps import files_of_dump, parse_manifest
from lakesweep.lakefs.repository.interface import DumpAge
from lakesweep.lakefs.repository.stored import StoredFiles, StoredRepository
from lakesweep.storage.address import Address, parse
from lakesweep.storage.object_store import ObjectInfo, ObjectStore
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.base import StoreWrapper
from tests.lakefs import AS_OF, REPOSITORIES, RealRepositories, RealRepository
from tests.lakefs_tables import (
    Entry,
    RangeOf,
    Written,
    commit_data,
    envelope,
    ref_data,
    write_table,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def stored(repository: RealRepository) -> StoredRepository:
    return StoredRepository(Stores(), str(repository.folder))


def moment(seconds: int, nanos: int) -> datetime:
    return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)


def test_the_age_of_a_dump_and_what_was_written_since(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    folder = lakefs_repositories.repository("branches").copy_to(tmp_path).folder / "_lakefs"
    files = [path for path in folder.iterdir() if path.is_file()]
    for path in files:
        os.utime(path, (AS_OF.timestamp(), AS_OF.timestamp()))
    repository = StoredRepository(Stores(), str(folder.parent))
    assert repository.dump_age() == DumpAge(AS_OF, 0)

    later = AS_OF + timedelta(seconds=1)
    own = own_files(repository)
    table = next(path for path in files if len(path.name) == 64 and path.name not in own)
    for path in (table, folder / "dummy"):
        os.utime(path, (later.timestamp(), later.timestamp()))

    age = repository.dump_age()
    assert age == DumpAge(AS_OF, 1)
    assert age.is_overtaken(DumpAge(AS_OF, 0))
    assert not age.is_overtaken(age)
    assert not DumpAge(later, 0).is_overtaken(DumpAge(AS_OF, 0))
    assert DumpAge(later, 1).is_overtaken(DumpAge(AS_OF, 5))


def own_files(repository: StoredRepository) -> frozenset[str]:
    """The files of the dump of a repository."""
    path = repository.namespace.table("refs_manifest.json")
    dump = parse_manifest(path, Path(path).read_bytes())
    return files_of_dump(Trees(repository.files, repository.namespace), dump)


class WholeSeconds(Stores):
    """Stores that tell times in whole seconds of one object, and more exactly in listings."""

    def open(self, address: Address | str) -> ObjectStore:
        return _WholeSeconds(super().open(address))


class _WholeSeconds(StoreWrapper):
    def head(self, key: str) -> ObjectInfo:
        found = super().head(key)
        assert found.modified is not None
        return replace(found, modified=found.modified.replace(microsecond=0))


def test_files_of_the_second_of_their_manifest_are_those_of_its_dump(
    lakefs_repositories: RealRepositories, tmp_path: Path
) -> None:
    folder = lakefs_repositories.repository("branches").copy_to(tmp_path).folder / "_lakefs"
    repository = StoredRepository(WholeSeconds(), str(folder.parent))
    own, start = own_files(repository), AS_OF.timestamp()
    for path in (path for path in folder.iterdir() if path.is_file()):
        time = start + (0.25 if path.name not in own else 0.75)
        os.utime(path, (time, time))
    os.utime(folder / "refs_manifest.json", (start + 0.5, start + 0.5))
    dumped = AS_OF + timedelta(seconds=0.5)
    assert repository.dump_age() == DumpAge(dumped, 0)

    table = next(p for p in folder.iterdir() if len(p.name) == 64 and p.name not in own)
    os.utime(table, (start + 0.75, start + 0.75))
    assert repository.dump_age() == DumpAge(dumped, 1)


@pytest.mark.parametrize("name", REPOSITORIES)
class TestEveryRepository:
    def test_refs_are_as_the_server_says(
        self, name: str, lakefs_repositories: RealRepositories
    ) -> None:
        real = lakefs_repositories.repository(name)
        refs = stored(real).read_refs()
        told = {each["id"]: each for each in real.answer("commits")}
        assert set(refs.commits) == set(told)
        for commit in refs.commits.values():
            assert_same_commit(told[commit.id], refs, commit.id)
        assert refs.dangling() == {id_ for id_, each in told.items() if each["dangling"]}
        branches = {each["id"]: each["commit_id"] for each in real.answer("branches")}
        assert {each.name: each.commit_id for each in refs.branches} == branches
        tags = {each["id"]: each["commit_id"] for each in real.answer("tags")}
        assert {each.name: each.commit_id for each in refs.tags} == tags
        assert real.answer("repository")["as_of_seconds"] == AS_OF.timestamp()

    def test_heads_reach_what_the_server_says(
        self, name: str, lakefs_repositories: RealRepositories
    ) -> None:
        real = lakefs_repositories.repository(name)
        refs = stored(real).read_refs()
        bits = refs.reaching([branch.commit_id for branch in refs.branches])
        for told in real.answer("commits"):
            reached_by = {
                branch.name
                for place, branch in enumerate(refs.branches)
                if bits[told["id"]] >> place & 1
            }
            assert reached_by == set(told["reachable_from_branches"])

    def test_the_listing_of_every_commit_is_the_servers(
        self, name: str, lakefs_repositories: RealRepositories
    ) -> None:
        real = lakefs_repositories.repository(name)
        repository = stored(real)
        trees = Trees(repository.files, repository.namespace)
        for commit in repository.read_refs().commits.values():
            batches = trees.entries(commit.metarange_id)
            found = [row for batch in batches for row in batch.to_pylist()]
            assert found == [as_row(each) for each in real.entries[commit.id]]


def assert_same_commit(told: Mapping[str, Any], refs: Refs, id_: str) -> None:
    commit = refs.commits[id_]
    assert commit.parents == tuple(told["parents"])
    assert commit.metarange_id == told["meta_range_id"]
    assert commit.created == moment(told["creation_date"], told["creation_nanos"])
    assert (commit.committer, commit.message) == (told["committer"], told["message"])
    assert (commit.version, commit.generation) == (told["version"], told["generation"])
    assert commit.metadata == (told["metadata"] or {})
    hashed = (commit.committer, commit.message, commit.metarange_id, told["creation_date"])
    assert commit_id(*hashed, commit.metadata, commit.parents) == id_


def as_row(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "path": entry["path"].encode(),
        "address": entry["address"],
        "address_type": entry["physical_address_type"].lower(),
        "size_bytes": entry["size_bytes"],
        "checksum": entry["checksum"],
        "modified": moment(entry["mtime"], entry["mtime_nanos"]),
        "identity": bytes.fromhex(entry["identity"]),
    }


@pytest.mark.parametrize("end", ["", "/"])
def test_a_repository_in_a_bucket(lakefs_repositories: RealRepositories, end: str) -> None:
    real, stores = lakefs_repositories.repository("actions"), Stores()
    location = f"memory://lakefs-{len(end)}/repos/actions"
    for path in (real.folder / "_lakefs").iterdir():
        if path.is_file():
            address = parse(f"{location}/_lakefs/{path.name}")
            stores.open(address).write(address.key, path.read_bytes())
    repository = StoredRepository(stores, location + end)
    commit = repository.read_refs().find("main")
    trees = Trees(repository.files, repository.namespace)
    found = [row for batch in trees.entries(commit.metarange_id) for row in batch.to_pylist()]
    assert found == [as_row(each) for each in real.entries[commit.id]]


def test_what_is_staged_is_not_known(lakefs_repositories: RealRepositories) -> None:
    with pytest.raises(IncompleteError, match="staged"):
        next(stored(lakefs_repositories.repository("objects")).staged())


def test_files_go_to_other_processes(lakefs_repositories: RealRepositories) -> None:
    real = lakefs_repositories.repository("empty")
    manifest = pickle.loads(pickle.dumps(stored(real).files)).read("refs_manifest.json", meta=True)
    assert "commits_meta_range_id" in json.loads(manifest)


class TestDamage:
    @pytest.fixture
    def real(self, lakefs_repositories: RealRepositories, tmp_path: Path) -> RealRepository:
        return lakefs_repositories.repository("branches").copy_to(tmp_path)

    def manifest(self, real: RealRepository) -> Path:
        return real.folder / "_lakefs" / "refs_manifest.json"

    def test_no_dump(self, real: RealRepository) -> None:
        self.manifest(real).unlink()
        for ask in (stored(real).read_refs, stored(real).dump_age):
            with pytest.raises(NotFoundError, match="no refs dump") as raised:
                ask()
            assert "lifecycle refs NAME" in (raised.value.hint or "")

    @pytest.mark.parametrize("text", ["", "{}", "[]", "{", '{"commits_meta_range_id": 1}'])
    def test_a_manifest_that_is_none(self, real: RealRepository, text: str) -> None:
        self.manifest(real).write_text(text)
        with pytest.raises(DamagedError, match="not the manifest"):
            stored(real).read_refs()

    @pytest.mark.parametrize("what", ["commits", "branches", "tags"])
    def test_a_metarange_of_the_dump_is_missing(self, real: RealRepository, what: str) -> None:
        id_ = json.loads(self.manifest(real).read_text())[f"{what}_meta_range_id"]
        (real.folder / "_lakefs" / id_).unlink()
        with pytest.raises(UnreadableError, match=id_) as raised:
            stored(real).read_refs()
        assert raised.value.state == "missing"

    def test_a_range_of_the_dump_is_missing(self, real: RealRepository) -> None:
        repository = stored(real)
        id_ = json.loads(self.manifest(real).read_text())["commits_meta_range_id"]
        trees = Trees(repository.files, repository.namespace)
        (real.folder / "_lakefs" / trees.ranges(id_)["range_id"][0].as_py()).unlink()
        with pytest.raises(UnreadableError, match="incomplete"):
            repository.read_refs()

    def test_a_dump_of_two_moments(self, real: RealRepository, tmp_path: Path) -> None:
        """The commits of an older dump do not have the HEADs of a newer one."""
        document = json.loads(self.manifest(real).read_text())
        empty = write_table([], SSTableType.METARANGES, named={"entity": b"commit"})
        (real.folder / "_lakefs" / empty.id).write_bytes(empty.data)
        document["commits_meta_range_id"] = empty.id
        self.manifest(real).write_text(json.dumps(document))
        with pytest.raises(IncompleteError, match="does not exist"):
            stored(real).read_refs()

    def test_kinds_that_were_mixed_up(self, real: RealRepository) -> None:
        document = json.loads(self.manifest(real).read_text())
        document["tags_meta_range_id"] = document["branches_meta_range_id"]
        self.manifest(real).write_text(json.dumps(document))
        with pytest.raises(DamagedError, match="records of type tag"):
            stored(real).read_refs()

    @pytest.mark.parametrize("what", ["commits", "branches", "tags"])
    def test_nothing_of_a_kind_is_not_a_kind_that_is_not_named(
        self, real: RealRepository, what: str
    ) -> None:
        """Without its tags or branches a dump would let go what they hold."""
        document = json.loads(self.manifest(real).read_text())
        empty = write_table([], SSTableType.METARANGES, named={"entity": b"other"})
        (real.folder / "_lakefs" / empty.id).write_bytes(empty.data)
        for id_ in ("", empty.id):
            self.manifest(real).write_text(json.dumps({**document, f"{what}_meta_range_id": id_}))
            with pytest.raises(DamagedError, match=r"metarange of|records of"):
                stored(real).read_refs()

    def test_a_missing_range_of_a_commit(self, real: RealRepository) -> None:
        repository = stored(real)
        commit = repository.read_refs().find("main")
        trees = Trees(repository.files, repository.namespace)
        id_ = trees.ranges(commit.metarange_id)["range_id"][0].as_py()
        (real.folder / "_lakefs" / id_).unlink()
        with pytest.raises(NotFoundError, match=id_):
            list(trees.entries(commit.metarange_id))

    def test_a_range_of_another_id(self, real: RealRepository) -> None:
        repository = stored(real)
        refs = repository.read_refs()
        trees = Trees(repository.files, repository.namespace)
        metaranges = [c.metarange_id for c in refs.commits.values() if c.metarange_id]
        ids = {i for m in metaranges for i in trees.ranges(m)["range_id"].to_pylist()}
        one, other = sorted(ids)[:2]
        (real.folder / "_lakefs" / one).write_bytes((real.folder / "_lakefs" / other).read_bytes())
        with pytest.raises(DamagedError, match=f"not {one}"):
            [list(trees.entries(m)) for m in metaranges]


class TestTrees:
    def trees(self, folder: Path, *files: Written) -> Trees:
        (folder / "_lakefs").mkdir()
        for file in files:
            (folder / "_lakefs" / file.id).write_bytes(file.data)
        namespace = StorageNamespace(str(folder))
        return Trees(StoredFiles(Stores(), namespace), namespace)

    def table(self, *keys: bytes) -> Written:
        return write_table([(key, Entry("data/x").value()) for key in keys], SSTableType.RANGES)

    def metarange(self, *ranges: RangeOf) -> Written:
        return write_table(
            [(each.max_key, each.value()) for each in ranges], SSTableType.METARANGES
        )

    def test_a_count_that_is_wrong(self, tmp_path: Path) -> None:
        one = self.table(b"a", b"b")
        meta = self.metarange(RangeOf(one.id, b"a", b"b", 9, 3))
        with pytest.raises(DamagedError, match="2 entries, but its metarange says 3"):
            list(self.trees(tmp_path, one, meta).entries(meta.id))

    def test_a_last_key_that_is_wrong(self, tmp_path: Path) -> None:
        one = self.table(b"a", b"b")
        meta = self.metarange(RangeOf(one.id, b"a", b"c", 9, 2))
        with pytest.raises(DamagedError, match="its metarange says"):
            list(self.trees(tmp_path, one, meta).entries(meta.id))

    def test_ranges_that_overlap_in_truth(self, tmp_path: Path) -> None:
        one, two = self.table(b"a", b"c"), self.table(b"b", b"d")
        meta = self.metarange(RangeOf(one.id, b"a", b"c", 9, 2), RangeOf(two.id, b"d", b"d", 9, 2))
        with pytest.raises(DamagedError, match="begins before"):
            list(self.trees(tmp_path, one, two, meta).entries(meta.id))

    def test_an_empty_commit_holds_nothing(self, tmp_path: Path) -> None:
        assert list(self.trees(tmp_path).entries("")) == []


class TestRecords:
    def dumped(self, folder: Path, commits: list[tuple[str, bytes]], branch: bytes) -> Refs:
        (folder / "_lakefs").mkdir()
        document = {}
        records = {
            "commit": [(id_.encode(), envelope(id_.encode(), data)) for id_, data in commits],
            "branch": [(b"main", envelope(b"main", branch))],
            "tag": [],
        }
        names = {"commit": "commits", "branch": "branches", "tag": "tags"}
        for entity, rows in records.items():
            named = {"entity": entity.encode()}
            table = write_table(rows, SSTableType.RANGES, named=named)
            told = [RangeOf(table.id, rows[0][0], rows[-1][0], 9, len(rows))] if rows else []
            meta = write_table(
                [(each.max_key, each.value()) for each in told], SSTableType.METARANGES, named=named
            )
            for file in (table, meta):
                (folder / "_lakefs" / file.id).write_bytes(file.data)
            document[f"{names[entity]}_meta_range_id"] = meta.id
        (folder / "_lakefs" / "refs_manifest.json").write_text(json.dumps(document))
        return StoredRepository(Stores(), str(folder)).read_refs()

    def test_old_commits_and_hidden_branches(self, tmp_path: Path) -> None:
        old = commit_data("aa", "", -5, [], version=0, metadata={"k": "v", "": "w"})
        new = commit_data("bb", "m", 7, ["aa", "aa"], nanos=1999, message="two\nlines")
        refs = self.dumped(
            tmp_path, [("aa", old), ("bb", new)], ref_data("main", "bb", hidden=True)
        )
        assert refs.commits["aa"].created == _EPOCH - timedelta(seconds=5)
        assert refs.commits["aa"].version == 0
        assert refs.commits["aa"].metadata == {"k": "v", "": "w"}
        assert refs.commits["bb"].created == moment(7, 1999)
        assert refs.branches[0].hidden

    @pytest.mark.parametrize("data", [b"", b"\x0a\x09a", b"\x0b", b"\x0a\x01\xff", b"\x0a"])
    def test_a_commit_that_is_none(self, tmp_path: Path, data: bytes) -> None:
        with pytest.raises(DamagedError):
            self.dumped(tmp_path, [("aa", data)], ref_data("main", "aa"))

    @pytest.mark.parametrize("numbers", [{"version": 2**63}, {"generation": 2**64 - 1}])
    def test_numbers_that_no_column_holds(self, tmp_path: Path, numbers: dict[str, int]) -> None:
        data = commit_data("aa", "", 0, [], **numbers)  # type: ignore[arg-type]
        with pytest.raises(DamagedError, match=f"{tmp_path}/_lakefs/"):
            self.dumped(tmp_path, [("aa", data)], ref_data("main", "aa"))

    @pytest.mark.parametrize("seconds", [-(2**63), 2**63 - 1])
    def test_times_that_no_calendar_has(self, tmp_path: Path, seconds: int) -> None:
        data = commit_data("aa", "", seconds, [])
        with pytest.raises(DamagedError, match="a commit in it cannot be read"):
            self.dumped(tmp_path, [("aa", data)], ref_data("main", "aa"))

    def test_a_number_without_end(self, tmp_path: Path) -> None:
        data = commit_data("aa", "", 0, []) + b"\x40" + b"\xff" * 10_000 + b"\x01"
        with pytest.raises(DamagedError, match="not valid protobuf"):
            self.dumped(tmp_path, [("aa", data)], ref_data("main", "aa"))

    def test_commits_under_another_id_are_not_taken_for_one(self, tmp_path: Path) -> None:
        one, two = commit_data("aa", "x", 0, []), commit_data("aa", "y", 0, [])
        with pytest.raises(DamagedError, match="in the place of b'bb'"):
            self.dumped(tmp_path, [("aa", one), ("bb", two)], ref_data("main", "aa"))

    @pytest.mark.parametrize("data", [b"", b"\x0a\x04main", b"\x07"])
    def test_a_branch_that_is_none(self, tmp_path: Path, data: bytes) -> None:
        with pytest.raises(DamagedError):
            self.dumped(tmp_path, [("aa", commit_data("aa", "", 0, []))], data)
