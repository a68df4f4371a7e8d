"""What the engines give a step to see; that both give the same is tested with Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.stores import Stores
from lakesweep.sweep.columns import HASHES, LISTING
from lakesweep.sweep.engine.local_engine import LocalSweepEngine
from tests.sweep_rows import OLD, listing

SAID = pa.schema([*HASHES, pa.field("rule", pa.string())])
SEEN = pa.schema([("path", pa.string()), ("rule", pa.string())])


def see(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        assert batch.schema.names == [*LISTING.names, "rule"]
        yield batch.select(SEEN.names).cast(SEEN)


def said(files: pa.RecordBatch, rule: str) -> pa.RecordBatch:
    rules = pa.repeat(pa.scalar(rule), files.num_rows)
    return pa.RecordBatch.from_arrays([files["h1"], files["h2"], rules], schema=SAID)


def test_files_are_paired_with_what_is_said_of_them() -> None:
    stores = Stores()
    files = listing(("s3://b/a", OLD), ("s3://b/b", OLD))
    told = said(listing(("s3a://b/b", OLD), ("s3://b/c", OLD)), "old")
    listed = write_dataset(stores, "memory://paired/listing", LISTING, [files])
    rules = write_dataset(stores, "memory://paired/rules", SAID, [told])

    seen = LocalSweepEngine(stores).pair(see, listed, rules, ["rule"], SEEN)

    assert sorted(zip(*(column.to_pylist() for column in seen.columns), strict=True)) == [
        ("s3://b/a", None),
        ("s3://b/b", "old"),
    ]
