"""Who lists roots, and what each says that it cannot list."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema

from lakesweep.config import (
    IcebergCatalogRoot,
    IcebergMetadataRoot,
    IcebergScanRoot,
    LakefsRoot,
    LakeSection,
    PaimonWarehouseRoot,
    PinnedRoot,
    Root,
)
from lakesweep.errors import ConfigError, LakesweepError
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.mark.mark_phase import mark
from lakesweep.sweep.roots.iceberg import CatalogRoots, MetadataRoots
from lakesweep.sweep.roots.root import (
    EmptyRootSource,
    RootKind,
    RootProblem,
    RootRow,
    RootSource,
    collect_roots,
)
from lakesweep.sweep.roots.root_kinds import PinnedRoots, root_sources
from tests.iceberg_tables import BUCKET, Bucket, Names, Table
from tests.marked import root, spec_for
from tests.rest_catalog import RestCatalogServer, rest_catalog

PATH = f"{BUCKET}/t/metadata/v1.metadata.json"


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


def rows(source: RootSource) -> list[RootRow]:
    return [found for found in source.collect() if isinstance(found, RootRow)]


def problems(found: Iterable[object]) -> list[RootProblem]:
    return [each for each in found if isinstance(each, RootProblem)]


def sources_of(bucket: Bucket, section: LakeSection, *others: Root) -> list[RootSource]:
    lake = Lake("prod", section, f"{BUCKET}/plans", roots_of_others=others)
    return root_sources(bucket.stores, lake, lambda: ())


def catalog(server: RestCatalogServer) -> CatalogRoots:
    return CatalogRoots("rest", {"type": "rest", "uri": server.uri})


def test_a_catalog_lists_tables_and_views_of_nested_namespaces() -> None:
    tables = {("a", "t"): PATH, ("a", "b", "c", "t"): PATH}
    with rest_catalog(RestCatalogServer(tables, {("a", "v"): PATH})) as server:
        found = {(row.name, row.kind, row.pointer) for row in rows(catalog(server))}
    assert found == {
        ("rest.a.t", RootKind.ICEBERG_TABLE, PATH),
        ("rest.a.b.c.t", RootKind.ICEBERG_TABLE, PATH),
        ("rest.a.v", RootKind.ICEBERG_VIEW, PATH),
    }


def test_a_sql_catalog_that_lists_nothing_tells_which_names_its_database_holds(
    tmp_path: Path,
) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    with SqlCatalog("prod", uri=uri, warehouse=str(tmp_path)) as made:
        made.create_namespace("shop")
        made.create_table("shop.t", Schema())
    (nothing,) = CatalogRoots("prd", {"type": "sql", "uri": uri}).collect()
    assert nothing == EmptyRootSource("catalog prd", "its database holds tables of prod")


def test_a_catalog_that_lists_nothing_says_so() -> None:
    with rest_catalog(RestCatalogServer({})) as server:
        assert list(catalog(server).collect()) == [
            EmptyRootSource("catalog rest", "it lists no table")
        ]


def test_a_catalog_that_is_gone_is_a_problem_of_the_whole_source() -> None:
    with rest_catalog(RestCatalogServer({("a", "t"): PATH})) as server:
        source = catalog(server)
    (problem,) = problems(collect_roots([source]))
    assert (problem.name, problem.source) == (None, "catalog rest")


def test_a_table_of_which_a_catalog_tells_nothing_is_a_problem_of_its_own(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    SqlCatalog("prod", uri=uri, warehouse=str(tmp_path)).close()
    entries = [
        ("prod", "shop", "good", PATH, None, "TABLE"),
        ("prod", "shop", "bad", None, None, "TABLE"),
    ]
    with sqlite3.connect(tmp_path / "catalog.db") as database:
        database.executemany("INSERT INTO iceberg_tables VALUES (?, ?, ?, ?, ?, ?)", entries)
    source = CatalogRoots("prod", {"type": "sql", "uri": uri})
    assert [row.name for row in rows(source)] == ["prod.shop.good"]
    (problem,) = problems(source.collect())
    assert problem.name == "prod.shop.bad"
    assert "names no metadata file" in problem.reason


def test_a_catalog_tells_where_a_root_is_now_or_that_it_is_gone() -> None:
    with rest_catalog(RestCatalogServer({("a", "t"): PATH})) as server:
        source = catalog(server)
        (row,) = rows(source)
        assert source.look(row) == row
        server.tables["a", "t"] = f"{PATH}.new"
        moved = source.look(row)
        assert moved is not None
        assert moved.pointer == f"{PATH}.new"
        server.tables.clear()
        assert source.look(row) is None
    with pytest.raises(LakesweepError):
        source.look(row)


def test_a_table_that_is_listed_and_not_found_is_not_gone() -> None:
    class Forgetful(RestCatalogServer):
        def _load(self, kind: str, name: tuple[str, ...]) -> object:  # type: ignore[override]
            return super()._load(kind, (*name, "nowhere"))

    with rest_catalog(Forgetful({("a", "t"): PATH})) as server:
        source = catalog(server)
        (problem,) = problems(source.collect())
        assert problem.name == "rest.a.t"
        with pytest.raises(LakesweepError):
            source.look(RootRow("rest.a.t", RootKind.ICEBERG_TABLE, PATH, source.name))


def test_a_catalog_tells_where_files_are_even_if_the_metadata_cannot_be_read() -> None:
    class Telling(RestCatalogServer):
        def answer(self, method: str, target: str) -> tuple[object, object]:  # type: ignore[override]
            status, body = super().answer(method, target)
            if body is not None and "metadata" in body:
                properties = {"write.data.path": "s3://other/data"}
                body["metadata"] = {"location": f"{BUCKET}/t", "properties": properties}
            return status, body

    bucket = Bucket()
    with rest_catalog(Telling({("a", "t"): PATH})) as server:
        marks = mark(spec_for(bucket.stores), [catalog(server)])
    found = root(marks, "rest.a.t")
    assert found.folders[:2] == (f"{BUCKET}/t", "s3://other/data")
    assert not found.is_guess


def test_credentials_that_a_catalog_hands_out_are_in_no_text() -> None:
    secret = {"s3.access-key-id": "AKVENDED", "s3.secret-access-key": "S3CRET"}
    with rest_catalog(RestCatalogServer({("a", "t"): PATH}, config=secret)) as server:
        (row,) = rows(catalog(server))
    assert row.access is not None
    assert (row.access.access_key_id, row.access.secret_access_key) == ("AKVENDED", "S3CRET")
    assert "S3CRET" not in f"{row!r} {row.access!r}"


def test_metadata_files_are_roots_under_their_own_names(bucket: Bucket) -> None:
    pointer = Table(bucket, "t").commit()
    (row,) = rows(MetadataRoots(bucket.stores, [pointer]))
    assert (row.name, row.pointer) == (pointer, pointer)


def test_a_table_that_left_a_named_metadata_file_behind_is_a_root_as_it_is_now(
    bucket: Bucket,
) -> None:
    table, other = Table(bucket, "t"), Table(bucket, "t", {"table-uuid": "other"}, version=7)
    named = table.commit()
    table.document["metadata-log"] = [{"metadata-file": named}]
    table.commit()
    newest = table.commit()
    other.commit()
    found = rows(MetadataRoots(bucket.stores, [named]))
    assert [row.pointer for row in found] == [named, newest]
    source = MetadataRoots(bucket.stores, [named])
    assert root(mark(spec_for(bucket.stores), [source]), newest).origin == source.name


def test_newer_metadata_that_cannot_be_read_is_a_problem(bucket: Bucket) -> None:
    named = Table(bucket, "t").commit()
    newest = bucket.write(f"{BUCKET}/t/metadata/00009-x.metadata.json", b"{")
    found = list(MetadataRoots(bucket.stores, [named]).collect())
    assert [each.name for each in problems(found)] == [newest]


def test_the_folder_of_a_table_without_a_catalog_stands_for_its_newest_metadata(
    bucket: Bucket,
) -> None:
    for version in (1, 2, 3):
        bucket.write(f"{BUCKET}/t/metadata/v{version}.metadata.json", b"{}")
    bucket.write(f"{BUCKET}/t/metadata/version-hint.text", b"2")
    (row,) = rows(MetadataRoots(bucket.stores, [f"{BUCKET}/t"]))
    assert row.pointer == f"{BUCKET}/t/metadata/v3.metadata.json"


def test_a_folder_without_a_table_is_a_problem_that_keeps_the_folder(bucket: Bucket) -> None:
    (problem,) = problems(MetadataRoots(bucket.stores, [f"{BUCKET}/nothing"]).collect())
    assert (problem.name, problem.locations) == (f"{BUCKET}/nothing", (f"{BUCKET}/nothing",))


def test_a_pinned_list_is_one_root_that_moves_when_the_list_changes(bucket: Bucket) -> None:
    source = PinnedRoots(bucket.stores, f"{BUCKET}/keep.txt")
    bucket.write(source.file, f"# mine\n{BUCKET}/a\n\n{BUCKET}/b/\n".encode())
    (row,) = rows(source)
    assert (row.kind, row.locations) == (RootKind.PINNED, (f"{BUCKET}/a", f"{BUCKET}/b/"))
    assert source.look(row) == row
    bucket.write(source.file, f"{BUCKET}/a\n".encode())
    assert source.look(row) != row


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"not an address\n", b"PAR1 no"])
def test_a_pinned_list_that_cannot_be_read_leaves_everything_unknown(
    content: bytes | None, bucket: Bucket
) -> None:
    if content is not None:
        bucket.write(f"{BUCKET}/keep.txt", content)
    (problem,) = problems(collect_roots([PinnedRoots(bucket.stores, f"{BUCKET}/keep.txt")]))
    assert problem.name is None


def test_pinned_roots_are_marks_without_rows(bucket: Bucket) -> None:
    bucket.write(f"{BUCKET}/keep.txt", f"{BUCKET}/a\n".encode())
    marks = mark(spec_for(bucket.stores), [PinnedRoots(bucket.stores, f"{BUCKET}/keep.txt")])
    assert [(each.kind, each.folders) for each in marks.roots] == [
        (RootKind.PINNED, (f"{BUCKET}/a",))
    ]
    assert marks.content.rows == 0


def test_every_type_of_root_in_a_configuration_has_a_source(bucket: Bucket) -> None:
    lake = LakeSection(
        locations=(BUCKET,),
        roots=(
            IcebergCatalogRoot(type="iceberg-catalog", name="prod"),
            IcebergMetadataRoot(type="iceberg-metadata", files=(PATH,)),
            IcebergScanRoot(type="iceberg-scan", path=BUCKET),
            PaimonWarehouseRoot(type="paimon-warehouse", path=f"{BUCKET}/paimon"),
            LakefsRoot(type="lakefs", endpoint="http://l", repositories=("r",)),
            PinnedRoot(type="pinned", file=f"{BUCKET}/keep.txt"),
        ),
    )
    names = [source.name for source in sources_of(bucket, lake)]
    assert names == [
        "catalog prod",
        "metadata files",
        f"scan of {BUCKET}",
        f"paimon-warehouse {BUCKET}/paimon",
        "lakefs http://l",
        f"pinned {BUCKET}/keep.txt",
    ]


def test_every_metadata_file_of_several_roots_is_listed_once(bucket: Bucket) -> None:
    files = [(PATH,), (f"{BUCKET}/u/metadata/v1.metadata.json", PATH)]
    lake = LakeSection(
        locations=(BUCKET,),
        roots=tuple(IcebergMetadataRoot(type="iceberg-metadata", files=each) for each in files),
    )
    (source,) = sources_of(bucket, lake)
    assert [row.name for row in rows(source)] == [PATH, files[1][0]]


def test_a_catalog_that_is_named_twice_is_asked_once(bucket: Bucket) -> None:
    catalog = IcebergCatalogRoot(type="iceberg-catalog", name="prod")
    lake = LakeSection(locations=(BUCKET,), roots=(catalog, catalog))
    assert len(sources_of(bucket, lake)) == 1


def test_two_sources_of_one_name_are_refused(bucket: Bucket) -> None:
    with pytest.raises(ConfigError, match="called names"):
        mark(spec_for(bucket.stores), [Names({}), Names({})])


def test_roots_of_other_lakes_are_asked_as_well(bucket: Bucket) -> None:
    shared = IcebergCatalogRoot(type="iceberg-catalog", name="shared")
    mine = IcebergMetadataRoot(type="iceberg-metadata", files=(PATH,))
    others: tuple[Root, ...] = (
        shared,
        IcebergCatalogRoot(type="iceberg-catalog", name="theirs"),
        IcebergMetadataRoot(
            type="iceberg-metadata", files=(f"{BUCKET}/u/metadata/v1.metadata.json",)
        ),
        IcebergScanRoot(type="iceberg-scan", path="s3://other"),
        LakefsRoot(type="lakefs", endpoint="http://l", repositories=("r",)),
    )
    found = sources_of(bucket, LakeSection(locations=(BUCKET,), roots=(shared, mine)), *others)
    names = [each.name for each in found]
    assert names == ["catalog shared", "metadata files", "catalog theirs", "lakefs http://l"]
    assert len(rows(found[1])) == 2


def test_repositories_that_cannot_be_opened_are_not_known(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", raising=False)
    lakefs = LakefsRoot(
        type="lakefs", endpoint="http://l", repositories=("r",), namespaces=(f"{BUCKET}/none",)
    )
    lake = LakeSection(locations=(BUCKET,), roots=(lakefs,))
    found = problems(collect_roots(sources_of(bucket, lake)))
    assert [problem.name for problem in found] == ["lakefs r", f"lakefs {BUCKET}/none"]
