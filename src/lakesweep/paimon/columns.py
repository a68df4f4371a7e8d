"""Columns of the files that tables keep their manifests in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakesweep.avro.projection import Column
from lakesweep.avro.read import read_avro


def read_columns(path: str, data: bytes, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """The columns of a file's rows, in batches; the file itself says of which format it is."""
    return read_avro(path, data, columns)
