"""Random lakes of small tables, marked, against an oracle of a few lines."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from lakesweep.iceberg.file_kinds import IcebergKind
from lakesweep.sweep.mark.mark_phase import mark
from tests.iceberg_tables import Bucket, File, Names, Table
from tests.marked import incomplete, live, live_of, root, spec_for
from tests.random_tests import examples

CONTENTS = {0: IcebergKind.DATA, 1: IcebergKind.POSITION_DELETE, 2: IcebergKind.EQUALITY_DELETE}


@dataclass(frozen=True)
class Manifest:
    """Files by number, each with its status and content."""

    files: tuple[tuple[int, int, int], ...]
    is_missing: bool


@dataclass(frozen=True)
class Snapshot:
    """The manifests of a snapshot, by number."""

    manifests: tuple[int, ...]
    is_embedded: bool
    is_missing: bool


@dataclass(frozen=True)
class Lake:
    """Manifests that all tables may share, and the snapshots of each table."""

    manifests: tuple[Manifest, ...]
    tables: tuple[tuple[Snapshot, ...], ...]


RARELY = st.sampled_from([False] * 9 + [True])
ENTRIES = st.tuples(st.integers(0, 20), st.integers(0, 2), st.integers(0, 2))
MANIFESTS = st.builds(Manifest, st.lists(ENTRIES, min_size=1, max_size=6).map(tuple), RARELY)


@st.composite
def lakes(draw: st.DrawFn) -> Lake:
    manifests = draw(st.lists(MANIFESTS, min_size=1, max_size=5))
    chosen = st.lists(st.integers(0, len(manifests) - 1), max_size=4).map(tuple)
    snapshots = st.builds(Snapshot, chosen, st.booleans(), RARELY)
    tables = draw(st.lists(st.lists(snapshots, max_size=3).map(tuple), min_size=1, max_size=3))
    return Lake(tuple(manifests), tuple(tables))


@dataclass
class Written:
    """A lake in a bucket, and what each of its tables must be found to keep."""

    bucket: Bucket
    names: Names
    expected: dict[str, set[tuple[str, str]]]
    broken: set[str]


def write(lake: Lake) -> Written:
    bucket = Bucket()
    pool = Table(bucket, "pool")
    paths = []
    for number, manifest in enumerate(lake.manifests):
        files = [
            File(pool.path(f"data/p={n % 3}/{n}"), content, status)
            for n, status, content in manifest.files
        ]
        paths.append(pool.manifest(f"m{number}.avro", *files))
    written = Written(bucket, Names(), {}, set())
    for number, snapshots in enumerate(lake.tables):
        _write_table(written, lake, paths, Table(bucket, f"t{number}"), snapshots)
    for path, manifest in zip(paths, lake.manifests, strict=True):
        if manifest.is_missing:
            bucket.delete(path)
    return written


def _write_table(
    written: Written, lake: Lake, paths: list[str], table: Table, snapshots: tuple[Snapshot, ...]
) -> None:
    expected: set[tuple[str, str]] = set()
    for number, snapshot in enumerate(snapshots):
        named = [paths[manifest] for manifest in snapshot.manifests]
        if snapshot.is_embedded:
            table.document["snapshots"].append({"snapshot-id": number, "manifests": named})
        else:
            table.snapshot(*named)
            path = table.document["snapshots"][-1]["manifest-list"]
            expected.add((IcebergKind.MANIFEST_LIST, path))
            if snapshot.is_missing:
                written.bucket.delete(path)
                written.broken.add(table.name)
                continue
        for manifest in snapshot.manifests:
            expected |= _oracle(lake.manifests[manifest], paths[manifest])
            if lake.manifests[manifest].is_missing:
                written.broken.add(table.name)
    pointer = table.commit()
    written.names.pointers[table.name] = pointer
    written.expected[table.name] = {*expected, (IcebergKind.METADATA, pointer)}


def _oracle(manifest: Manifest, path: str) -> set[tuple[str, str]]:
    """What a manifest keeps: itself, and the files that it does not call deleted."""
    folder = path.partition("/metadata/")[0]
    files = {
        (CONTENTS[content].value, f"{folder}/data/p={n % 3}/{n}")
        for n, status, content in ([] if manifest.is_missing else manifest.files)
        if status != 2
    }
    return {(IcebergKind.MANIFEST.value, path), *files}


@examples(15)
@given(lakes())
def test_marks_are_what_an_oracle_says_with_and_without_a_cache(lake: Lake) -> None:
    written = write(lake)
    stores = written.bucket.stores
    first = mark(spec_for(stores), [written.names])
    written.bucket.reads()
    second = mark(spec_for(stores, first), [written.names])
    unread = [path for path in written.bucket.reads() if "/metadata/m" in path]
    for marks in (first, second):
        assert incomplete(marks) == written.broken
        assert live(stores, marks) == set().union(*written.expected.values())
        for name, expected in written.expected.items():
            assert live_of(stores, marks, root(marks, name)) == expected
    missing = {f"m{n}.avro" for n, each in enumerate(lake.manifests) if each.is_missing}
    embedded = {
        f"m{n}.avro" for table in lake.tables for s in table if s.is_embedded for n in s.manifests
    }
    assert {path.rpartition("/")[2] for path in unread} <= missing | embedded
