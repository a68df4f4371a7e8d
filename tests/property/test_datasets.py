"""Datasets: what was committed is what is read, or an error."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import IncompleteError, MissingError
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import load_dataset
from lakesweep.storage.datasets.reader import read_dataset as read
from lakesweep.storage.datasets.writer import DatasetWriter, commit_dataset
from lakesweep.storage.stores import Stores
from tests.random_tests import examples

SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("number", pa.int64()),
        pa.field("when", pa.timestamp("us", tz="UTC")),
        pa.field("is_old", pa.bool_()),
    ]
)
STORES = Stores()

_NUMBERS = count()
_ROW = st.fixed_dictionaries(
    {
        "path": st.text(st.characters(codec="utf-8"), max_size=20),
        "number": st.none() | st.integers(-(2**63), 2**63 - 1),
        "when": st.none()
        | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(  # noqa: DTZ001
            lambda moment: moment.replace(tzinfo=UTC)
        ),
        "is_old": st.none() | st.booleans(),
    }
)
_BATCH = st.lists(_ROW, max_size=4).map(lambda rows: pa.RecordBatch.from_pylist(rows, SCHEMA))
_WRITERS = st.lists(st.lists(_BATCH, max_size=3), max_size=3)


def commit(writers: list[list[pa.RecordBatch]]) -> Dataset:
    address = f"memory://datasets-property/{next(_NUMBERS)}"
    parts: list[Part] = []
    for batches in writers:
        writer = DatasetWriter(STORES, address, SCHEMA)
        for batch in batches:
            writer.add(batch)
        parts += writer.finish()
    return commit_dataset(STORES, address, parts, SCHEMA)


def rows_of(batches: list[pa.RecordBatch]) -> list[str]:
    return sorted(repr(row) for batch in batches for row in batch.to_pylist())


@given(_WRITERS, st.booleans())
def test_the_rows_of_all_writers_come_back(
    writers: list[list[pa.RecordBatch]], verify: bool
) -> None:
    dataset = commit(writers)
    written = rows_of([batch for batches in writers for batch in batches])
    loaded = load_dataset(STORES, dataset.address)
    assert rows_of(list(read(STORES, loaded, verify=verify))) == written
    assert loaded.rows == len(written)


_EXAMPLE = commit([[pa.RecordBatch.from_pylist([{"path": "a"}, {"path": "b"}], SCHEMA)]])
_OBJECTS = {
    name: STORES.open(_EXAMPLE.address).read(_EXAMPLE.address.split("/", 3)[3] + name)
    for name in ("_dataset.json", _EXAMPLE.parts[0].name)
}


@examples(80)
@given(st.sampled_from(sorted(_OBJECTS)), st.data())
def test_any_damage_is_an_error_or_does_no_harm(name: str, data: st.DataObject) -> None:
    original = _OBJECTS[name]
    place = data.draw(st.integers(0, len(original) - 1))
    other = data.draw(st.integers(0, 255))
    damaged = bytearray(original)
    damaged[place] = other
    cut = data.draw(st.booleans())
    folder = f"damaged/{next(_NUMBERS)}/"
    for key, content in (_OBJECTS | {name: bytes(damaged[:place] if cut else damaged)}).items():
        STORES.open(_EXAMPLE.address).write(folder + key, content)
    try:
        loaded = load_dataset(STORES, f"memory://datasets-property/{folder}")
        found = rows_of(list(read(STORES, loaded)))
    except (IncompleteError, MissingError):
        return
    assert found == rows_of(list(read(STORES, _EXAMPLE)))


@given(_WRITERS)
def test_a_dataset_says_the_same_whoever_came_first(
    writers: list[list[pa.RecordBatch]],
) -> None:
    dataset = commit(writers)
    again = commit_dataset(STORES, dataset.address, reversed(dataset.parts), SCHEMA)
    assert again.sha256 == dataset.sha256
