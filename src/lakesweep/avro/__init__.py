"""Avro files: selected columns as Arrow batches, at the speed of decompression.

The header's schema is compiled to a small program that skips everything not asked for; a
compiled loop runs it over the decompressed blocks and writes into Arrow buffers.
"""

from __future__ import annotations

from lakesweep.avro.container import AvroHeader, read_header
from lakesweep.avro.projection import ProjectedColumn
from lakesweep.avro.reader import read_avro

__all__ = [
    "AvroHeader",
    "ProjectedColumn",
    "read_avro",
    "read_header",
]
