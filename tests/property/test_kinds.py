"""The quick look at names against the patterns that it saves."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.iceberg.file_kinds import kinds_by_name
from lakesweep.sweep.paths import file_names
from lakesweep.sweep.paths.file_names import FileNames

UUID = "5c2f9b1e-0a1b-4c2d-8e3f-0123456789ab"
WORDS = f"""
    . _ - = / a m m0 -m -m0 -m12 v3 data data- metadata snap- stage-1-task-2-manifest- snapshot
    snapshot- schema schema- bucket- bucket-0 manifest manifest- manifest-list- index index- tag
    tag- stat- statistics consumer service changelog _lakefs _temporary copy-table-staging- _SUCCESS
    partition-stats- -deletes part- .parquet .avro .orc .stats .puffin .tmp .crc .metadata.json
    version-hint.text LATEST 0 12 ž {UUID}
"""
parts = st.sampled_from(WORDS.split())
names = st.lists(parts, max_size=5).map("".join)
paths = st.lists(names, max_size=5).map(lambda each: "s3://b/" + "/".join(each))


@given(st.lists(paths, max_size=20))
def test_names_say_the_same_at_a_glance(asked: list[str]) -> None:
    column = pa.array(asked, pa.string())
    seen = FileNames(column)
    assert seen.kinds().to_pylist() == kinds_by_name(column).to_pylist()
    assert seen.families().to_pylist() == file_names._families_by_name(column).to_pylist()
    assert seen.temporary().tolist() == [
        re.search(file_names._TEMPORARY, path) is not None for path in asked
    ]
    starts = np.full(len(asked), len("s3://b/"))
    assert seen.hidden(starts).tolist() == [
        any(name.startswith((".", "_")) for name in path[len("s3://b/") :].split("/"))
        for path in asked
    ]
