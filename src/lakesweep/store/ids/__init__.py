"""Ids of 64 bits that no two processes give out, under leases of node numbers."""

from __future__ import annotations

from lakesweep.store.ids.leases import LeaseRow, LeaseRows, MemoryRows, NodeLease
from lakesweep.store.ids.snowflake import EPOCH, IdParts, decompose, describe
from lakesweep.store.ids.source import Lease, Leasing, SnowflakeIds

__all__ = [
    "EPOCH",
    "IdParts",
    "Lease",
    "LeaseRow",
    "LeaseRows",
    "Leasing",
    "MemoryRows",
    "NodeLease",
    "SnowflakeIds",
    "decompose",
    "describe",
]
