"""What is seen of roots while files are deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lakesweep.sweep.marking import mark
from lakesweep.sweep.roots import RootKind, RootProblem, RootRow
from lakesweep.sweep.watching import Watch
from tests.iceberg_tables import Bucket, Names, Table
from tests.marked import spec_for


class Catalog(Names):
    """Names, some of which cannot be looked up."""

    more: tuple[RootProblem | RootRow, ...] = ()

    def collect(self) -> Iterator[RootRow | RootProblem]:
        yield from super().collect()
        yield from self.more


def _watch(catalog: Catalog, bucket: Bucket) -> Watch:
    return Watch([catalog], mark(spec_for(bucket.stores), [catalog]), every_seconds=0)


def _catalog(bucket: Bucket) -> Catalog:
    return Catalog({name: Table(bucket, name).commit() for name in "tu"})


def test_roots_that_stay_where_they_are_have_not_moved() -> None:
    bucket = Bucket()
    catalog = _catalog(bucket)
    catalog.more = (RootProblem(catalog.name, "denied", "v"), RootProblem(catalog.name, "lost"))
    assert not _watch(catalog, bucket).has_moved()


@pytest.mark.parametrize(
    "change",
    [
        lambda catalog: catalog.pointers.update(t="s3://lake/t/metadata/other.metadata.json"),
        lambda catalog: catalog.pointers.update(v=catalog.pointers["t"]),
        lambda catalog: catalog.pointers.pop("u"),
        lambda catalog: setattr(catalog, "more", (RootProblem("names", "denied", "u"),)),
        lambda catalog: setattr(catalog, "more", (RootProblem("names", "lost"),)),
    ],
    ids=["moved", "came", "went", "unknown", "all unknown"],
)
def test_whatever_changes_is_seen(change: Callable[[Catalog], object]) -> None:
    bucket = Bucket()
    catalog = _catalog(bucket)
    watch = _watch(catalog, bucket)
    change(catalog)
    assert watch.has_moved()


def test_a_name_that_is_listed_twice_has_not_moved() -> None:
    bucket = Bucket()
    catalog = _catalog(bucket)
    row = RootRow("t", RootKind.ICEBERG_TABLE, catalog.pointers["t"], catalog.name)
    watch = _watch(catalog, bucket)
    catalog.more = (row,)
    assert not watch.has_moved()
