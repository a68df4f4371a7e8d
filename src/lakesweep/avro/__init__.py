"""Avro files: chosen columns as Arrow batches, at the speed of inflating them.

The header's schema is compiled to a small programme that knows how to step over all that was not
asked for; a compiled loop runs it over the inflated blocks and writes into Arrow buffers.
"""

from __future__ import annotations

from lakesweep.avro.container import Header, read_header
from lakesweep.avro.projection import Column
from lakesweep.avro.read import read_avro

__all__ = ["Column", "Header", "read_avro", "read_header"]
