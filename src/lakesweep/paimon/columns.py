"""Columns of the files that tables keep their manifests in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakesweep.avro.projection import Column
from lakesweep.avro.read import read_avro
from lakesweep.storage.columnar import read_orc, read_parquet


def read_columns(path: str, data: bytes, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """The columns of a file's rows, in batches; the file itself says of which format it is."""
    if data.startswith(b"PAR1"):
        return read_parquet(path, data, columns)
    if data.startswith(b"ORC"):
        return read_orc(path, data, columns)
    return read_avro(path, data, columns)
