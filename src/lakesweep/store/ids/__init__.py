"""Unique 64-bit ids: Snowflake ids under leased node numbers."""

from __future__ import annotations

from lakesweep.store.ids.node_leases import LeaseRow, LeaseRows, MemoryLeaseRows, NodeLease
from lakesweep.store.ids.snowflake import (
    EPOCH,
    IdParts,
    LeasedNode,
    LeaseHolder,
    SnowflakeIds,
    decompose,
    describe,
)

__all__ = [
    "EPOCH",
    "IdParts",
    "LeaseHolder",
    "LeaseRow",
    "LeaseRows",
    "LeasedNode",
    "MemoryLeaseRows",
    "NodeLease",
    "SnowflakeIds",
    "decompose",
    "describe",
]
