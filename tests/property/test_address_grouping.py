"""Parsing a column of addresses gives what parsing each of them gives."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import UsageError
from lakesweep.storage.address import parse
from lakesweep.storage.deleting.store_groups import group_by_store

BASES = [
    *("s3://b/", "S3A://b/", "s3n://b", "s3://c/", "s3:///", "gs://b/", "gcs://b/", "memory://m/"),
    *("file:///", "file:/", "file://localhost/", "FILE:/", "file://host/", "file://", "file:", "/"),
    *("abfss://c@acc.dfs.core.windows.net/", "wasb://c@acc.blob.core.windows.net/", "abfss://c@x"),
    *("https://acc.blob.core.windows.net/c/", "https://acc.dfs.core.windows.net/", "http://x/"),
    *("ftp://x/", "", "x", "://", "a:b://c/"),
]
paths = st.builds("{}{}".format, st.sampled_from(BASES), st.text("/ab:@.%\n é", max_size=6))


def expected(path: str) -> tuple[str, str] | None:
    """The store and the key, or None where no object is named."""
    try:
        address = parse(path)
    except UsageError:
        return None
    return (address.store_id, address.key) if address.key else None


@given(st.lists(paths, max_size=30))
def test_a_column_is_parsed_as_its_values_are(column: list[str]) -> None:
    groups, rejected = group_by_store(pa.array(column, pa.string()))
    found: list[tuple[int, tuple[str, str] | None]] = []
    for group in groups:
        assert list(group.rows) == sorted(group.rows)
        keys = group.keys.to_pylist()
        found += [(int(row), (group.root.store_id, keys[at])) for at, row in enumerate(group.rows)]
    for rows in rejected:
        found += [(int(row), None) for row in rows.rows]
    assert sorted(found, key=lambda pair: pair[0]) == list(enumerate(map(expected, column)))
