"""One hostile file makes its own root incomplete, by name. All other roots are read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesweep.storage.stores import Stores
from lakesweep.sweep.mark.mark_phase import mark
from lakesweep.sweep.roots.root import RootProblem, RootRow
from lakesweep.untrusted.limits import ReadLimits
from tests.iceberg_tables import BUCKET, Bucket, File, Names, Table
from tests.marked import incomplete, live, paths, root, spec_for

_LIMITS = ReadLimits(file_bytes=1 << 16, inflated_bytes=1 << 18, block_bytes=1 << 17)


@dataclass
class _Lake:
    """A good table and a bad one."""

    bucket: Bucket
    good: Table
    bad: Table
    expected: set[str]

    def spoil(self, path: str, data: bytes) -> str:
        return self.bucket.write(path, data)


@pytest.fixture
def lake() -> _Lake:
    bucket = Bucket()
    good, bad = Table(bucket, "good"), Table(bucket, "bad")
    for table in (good, bad):
        table.snapshot(table.manifest("m0.avro", table.data("a")))
    return _Lake(bucket, good, bad, {good.path("data/a")})


def _gzip_bomb(lake: _Lake) -> str:
    data = gzip.compress(b'{"a":"' + b"x" * (1 << 20))
    return lake.spoil(lake.bad.path("metadata/1.metadata.json"), data)


def _huge_metadata(lake: _Lake) -> str:
    return lake.spoil(lake.bad.path("metadata/1.metadata.json"), b" " * (1 << 17))


def _many_digits(lake: _Lake) -> str:
    lake.bad.document["current-snapshot-id"] = 7
    text = json.dumps(lake.bad.document).replace(": 7", ": " + "7" * 5000)
    return lake.spoil(lake.bad.path("metadata/1.metadata.json"), text.encode())


def _changed(**changes: Any) -> Callable[[_Lake], str]:
    def spoil(lake: _Lake) -> str:
        lake.bad.document |= {name.replace("_", "-"): value for name, value in changes.items()}
        return lake.bad.commit()

    return spoil


def _forged_file(**how: Any) -> Callable[[_Lake], str]:
    def spoil(lake: _Lake) -> str:
        lake.bad.manifest("m0.avro", File(**{"path": lake.bad.path("data/a"), **how}))
        lake.bad.commit()
        return lake.bad.path("metadata/m0.avro")

    return spoil


def _parquet_manifest(table: pa.Table, *replaced: bytes) -> Callable[[_Lake], str]:
    out = pa.BufferOutputStream()
    pq.write_table(table, out, store_schema=False, compression="zstd")
    data = out.getvalue().to_pybytes()

    def spoil(lake: _Lake) -> str:
        lake.bad.commit()
        path = lake.bad.path("metadata/m0.avro")
        return lake.spoil(path, data.replace(*replaced) if replaced else data)

    return spoil


def _entries(path: str, rows: int) -> pa.Table:
    paths = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([path]))
    formats = pa.array(["PARQUET"] * rows)
    files = pa.StructArray.from_arrays([paths, formats], ["file_path", "file_format"])
    return pa.table({"status": pa.array([1] * rows, pa.int32()), "data_file": files})


_SPOILS = {
    "a gzip bomb": _gzip_bomb,
    "a metadata file beyond all measure": _huge_metadata,
    "a number of 5000 digits": _many_digits,
    "a NUL in the location": _changed(location=f"{BUCKET}/bad\0"),
    "a size of 64 bits": _changed(
        statistics=[{"statistics-path": f"{BUCKET}/s", "file-size-in-bytes": 2**63}]
    ),
    "a NUL in a path": _forged_file(path=f"{BUCKET}/bad/data/\0"),
    "an impossible size": _forged_file(size_bytes=2**62),
    "a dictionary bomb": _parquet_manifest(_entries("x" * 80_000, 100_000)),
    "a column name that is not text": _parquet_manifest(_entries("x", 9), b"status", b"st\xfftus"),
}


@pytest.mark.parametrize("spoil", _SPOILS.values(), ids=_SPOILS)
def test_the_root_is_incomplete_and_names_the_file(
    lake: _Lake, spoil: Callable[[_Lake], str]
) -> None:
    named = spoil(lake)
    pointer = named if named.endswith(".json") else lake.bad.path("metadata/00001-x.metadata.json")
    stores = Stores({}, replace=_replaced(lake), limits=_LIMITS)
    marks = mark(spec_for(stores), [Names({"good": lake.good.commit(), "bad": pointer})])
    assert incomplete(marks) == {"bad"}
    assert named in root(marks, "bad").reasons[0]
    assert lake.expected <= paths(live(stores, marks))


@pytest.mark.parametrize("moment", [-(2**63), 2**63 - 1, 10**30])
def test_an_impossible_moment_harms_nothing(lake: _Lake, moment: int) -> None:
    lake.bad.document["snapshots"][0]["timestamp-ms"] = moment
    pointers = {"good": lake.good.commit(), "bad": lake.bad.commit()}
    marks = mark(spec_for(lake.bucket.stores), [Names(pointers)])
    assert not incomplete(marks)


def test_a_source_that_raises_anything_is_unreadable_and_the_others_are_asked(lake: _Lake) -> None:
    class Broken(Names):
        def collect(self) -> Iterator[RootRow | RootProblem]:
            raise OverflowError("of a client")

    sources = [Broken(name="broken"), Names({"good": lake.good.commit()})]
    marks = mark(spec_for(lake.bucket.stores), sources)
    assert [(each.origin, "OverflowError" in each.reason) for each in marks.unknown] == [
        ("broken", True)
    ]
    assert lake.expected <= paths(live(lake.bucket.stores, marks))


def _replaced(lake: _Lake) -> dict[str, Any]:
    from lakesweep.storage.wrappers.base import BoundedReads

    return {BUCKET: BoundedReads(lake.bucket.recording, _LIMITS)}
