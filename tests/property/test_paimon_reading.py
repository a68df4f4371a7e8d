"""Reading Paimon's files: against plain oracles, and whatever was done to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError
from lakesweep.hashing import hash128
from lakesweep.paimon.manifests.entries import (
    read_index_manifest,
    read_manifest,
    read_manifest_list,
)
from lakesweep.paimon.manifests.named_files import parse_blob_references
from lakesweep.paimon.model.binary_row import encode_row
from lakesweep.paimon.model.data_types import parse_type
from lakesweep.paimon.model.layout import Layout, bucket_name
from lakesweep.paimon.model.options import Options
from lakesweep.paimon.model.partitioning import escape, make_partitioning
from lakesweep.paimon.model.schemas import PaimonField, parse_schema
from lakesweep.paimon.model.snapshots import parse_snapshot
from lakesweep.paimon.reach.live_files import live_positions
from tests.paimon_tables import INDEX_SCHEMA, LIST_SCHEMA, File, Index, Table, encode, entry_schema
from tests.random_tests import examples
from tests.unit.paimon.model.test_schemas import SCHEMA, SNAPSHOT

TEXT = [parse_type("STRING")]
texts = st.text("ab/=% :\N{GRINNING FACE}", min_size=1, max_size=12).filter(str.strip)
files = st.builds(
    File,
    name=st.sampled_from(["data-a.parquet", "data-b.parquet", "data-c.parquet"]),
    kind=st.sampled_from([0, 1]),
    partition=texts.map(lambda text: encode_row([text], TEXT)),
    bucket=st.sampled_from([-2, 0, 1, 2**31 - 1]),
    external_path=st.sampled_from([None, None, "oss://elsewhere/data-a.parquet"]),
)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30))
def test_what_is_added_more_often_than_deleted_is_live(events: list[tuple[int, bool]]) -> None:
    names = pa.array([str(name) for name, _ in events], pa.string())
    is_added = np.array([added for _, added in events], dtype=bool)
    places = live_positions(hash128(names), is_added)
    balance: Counter[int] = Counter()
    for name, added in events:
        balance[name] += 1 if added else -1
    found = [events[place][0] for place in places]
    assert sorted(found) == sorted(name for name, count in balance.items() if count > 0)
    assert all(is_added[place] for place in places)


@given(st.lists(st.tuples(texts, files), max_size=20))
def test_every_path_is_made_as_if_it_were_alone(chosen: list[tuple[str, File]]) -> None:
    layout = Layout(
        "s3://b/t/", make_partitioning([PaimonField("k", "STRING")], Options()), Options()
    )
    columns: dict[str, list[Any]] = {
        "partition": [encode_row([text], TEXT) for text, _ in chosen],
        "bucket": [file.bucket for _, file in chosen],
        "name": [file.name for _, file in chosen],
        "external_path": [file.external_path for _, file in chosen],
    }
    types = [pa.binary(), pa.int32(), pa.string(), pa.string()]
    arrays = [pa.array(*pair) for pair in zip(columns.values(), types, strict=True)]
    paths = layout.data_paths(pa.RecordBatch.from_arrays(arrays, list(columns)))
    assert paths.to_pylist() == [
        file.external_path or f"s3://b/t/k={escape(text)}/{bucket_name(file.bucket)}/{file.name}"
        for text, file in chosen
    ]


MANIFEST = encode(entry_schema(), [File("data-a.parquet", extra=("x.index",)).row()] * 3)
OLD_MANIFEST = encode(entry_schema(old=True), [File("data-a.parquet").row()] * 3, "null")
LIST = encode(LIST_SCHEMA, [Table().manifest(File("data-a.parquet"))] * 2, "deflate")
INDEXES = encode(INDEX_SCHEMA, [Index("index-1", first_row=3).row()] * 2, "snappy")
READERS: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "manifest": (lambda data: list(read_manifest("m", data, entries=3)), MANIFEST),
    "old manifest": (lambda data: list(read_manifest("m", data, entries=3)), OLD_MANIFEST),
    "list": (lambda data: read_manifest_list("l", data), LIST),
    "index manifest": (lambda data: read_index_manifest("i", data), INDEXES),
    "snapshot": (lambda data: parse_snapshot("s", data), repr(SNAPSHOT).replace("'", '"').encode()),
    "schema": (lambda data: parse_schema("s", data), repr(SCHEMA).replace("'", '"').encode()),
    "sidecar": (
        lambda data: parse_blob_references("b", data),
        bytes.fromhex("50424c5201") + bytes(8),
    ),
}


@examples(60)
@given(
    st.sampled_from(sorted(READERS)),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=3),
    st.integers(0, 2000),
)
def test_harmed_files_are_refused_or_read_and_nothing_else(
    name: str, changes: list[tuple[int, int]], size: int
) -> None:
    read, data = READERS[name]
    harmed = bytearray(data)
    for place, value in changes:
        harmed[place % len(harmed)] = value
    with suppress(FormatError):
        read(bytes(harmed[: max(size, 1)]))
