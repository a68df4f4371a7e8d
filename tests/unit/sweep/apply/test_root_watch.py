"""What is seen of roots while files are deleted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from lakesweep.sweep.apply.root_watch import RootWatch, watch_roots
from lakesweep.sweep.mark.mark_phase import mark
from lakesweep.sweep.roots.root import RootKind, RootProblem, RootRow
from tests.iceberg_tables import Bucket, Names, Table
from tests.marked import spec_for


class Catalog(Names):
    """Names, some of which cannot be looked up."""

    more: tuple[RootProblem | RootRow, ...] = ()
    fails_with: Exception | None = None

    def collect(self) -> Iterator[RootRow | RootProblem]:
        if self.fails_with is not None:
            raise self.fails_with
        yield from super().collect()
        yield from self.more


def _watch(catalog: Catalog, bucket: Bucket) -> RootWatch:
    return RootWatch([catalog], mark(spec_for(bucket.stores), [catalog]), every_seconds=0)


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


def test_whoever_cannot_look_any_more_pauses_the_run() -> None:
    """A thread that died in silence would let files go that nobody watches."""
    bucket = Bucket()
    catalog = _catalog(bucket)
    watch = _watch(catalog, bucket)
    catalog.fails_with = OSError("no space left on device")
    paused = threading.Event()
    tries = iter([OSError("none here either")])

    def pause() -> None:
        for error in tries:
            raise error
        paused.set()

    with watch_roots(watch, pause):
        assert paused.wait(30)
