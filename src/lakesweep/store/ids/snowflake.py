"""The bits of an id: one unused, 41 of milliseconds, 10 of the node, 12 of a sequence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

EPOCH = datetime(2025, 3, 1, tzinfo=UTC)
NODE_COUNT = 1024
SEQUENCE_COUNT = 4096
LAST_MILLISECOND = 2**41 - 1

_MILLISECOND = timedelta(milliseconds=1)
_SEQUENCE_BITS = 12
_NODE_BITS = 10


class IdParts(NamedTuple):
    """What an id is made of; milliseconds count from the epoch."""

    millisecond: int
    node: int
    sequence: int


def compose(millisecond: int, node: int, sequence: int) -> int:
    """The id of its parts."""
    if not 0 <= millisecond <= LAST_MILLISECOND:
        raise ValueError(f"millisecond {millisecond} does not fit into an id")
    if not 0 <= node < NODE_COUNT:
        raise ValueError(f"there is no node {node}, only 0 to {NODE_COUNT - 1}")
    if not 0 <= sequence < SEQUENCE_COUNT:
        raise ValueError(f"there is no sequence number {sequence}")
    return (millisecond << _NODE_BITS | node) << _SEQUENCE_BITS | sequence


def decompose(id_: int) -> IdParts:
    """The parts of an id."""
    if not 0 <= id_ < 2**63:
        raise ValueError(f"{id_} is no id: they have 63 bits and no sign")
    rest, sequence = divmod(id_, SEQUENCE_COUNT)
    return IdParts(*divmod(rest, NODE_COUNT), sequence)


def describe(id_: int) -> str:
    """An id for people."""
    parts = decompose(id_)
    moment = moment_of(parts.millisecond).isoformat(timespec="milliseconds")
    return f"{id_}: {moment}, node {parts.node}, number {parts.sequence}"


def millisecond_of(moment: datetime) -> int:
    """The whole milliseconds from the epoch to a moment."""
    return (moment - EPOCH) // _MILLISECOND


def moment_of(millisecond: int) -> datetime:
    """When a millisecond begins."""
    return EPOCH + millisecond * _MILLISECOND
