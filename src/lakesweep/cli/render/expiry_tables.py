"""What an expiry of Iceberg snapshots would do, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakesweep.cli.render.text_table import TextTable
from lakesweep.clock import moment
from lakesweep.units import format_count, format_moment, format_size, format_some

if TYPE_CHECKING:
    from lakesweep.operations.upkeep.expiry_result import IcebergExpiryResult, SnapshotLine
    from lakesweep.upkeep.snapshot_retention import KeepReason, RetentionDecision

_NUMBERS = frozenset({"holds alone"})
#: The end of the year 9999.
_END_MS = 253_402_300_800_000


def expiry_tables(result: IcebergExpiryResult) -> Iterator[TextTable]:
    """Each snapshot and ref: what it alone holds, and why it stays."""
    snapshots = [
        (
            str(each.snapshot_id),
            f"{each.committed[:19]}Z",
            format_size(each.bytes),
            _verdict(each),
        )
        for each in result.snapshots or ()
    ]
    yield TextTable(
        ("snapshot", "committed", "holds alone", "verdict"), snapshots, numbers=_NUMBERS
    )
    refs = [
        (each.name, each.type, format_size(each.bytes), "expires" if each.expires else "stays")
        for each in result.refs or ()
    ]
    if refs:
        yield TextTable(("ref", "type", "holds alone", "verdict"), refs, numbers=_NUMBERS)


def standing_lines(decision: RetentionDecision) -> Iterator[str]:
    """What deserves a look before it is gone for good."""
    for standing, words in (
        ("staged", "staged and never published"),
        ("rolled back", "that the table was rolled back from"),
    ):
        found = [str(each.id) for each in decision.expiring if each.standing.value == standing]
        if found:
            some = format_count(len(found), "snapshot")
            yield f"warning: this expires {some} {words}: {format_some(found)}"
    for ref in decision.removed_refs:
        yield f"warning: this removes {ref.type.value} {ref.name}: it is past its maximum age"
    if decision.unknown_ids:
        yield f"warning: there is no snapshot {format_some([*map(str, decision.unknown_ids)])}"


def _verdict(line: SnapshotLine) -> str:
    if line.expires:
        return f"expires ({line.standing})"
    # One reason for each ref is enough for people; programs get all.
    reasons = {(each.ref, each.writer): _reason(each) for each in reversed(line.reasons)}
    return "; ".join(reversed(reasons.values()))


def _reason(reason: KeepReason) -> str:
    bound = reason.bound.value if reason.bound is not None else 0
    ref = reason.ref or "unreferenced"
    match reason.why.value:
        case "head":
            return f"head of {ref}"
        case "count":
            return f"{ref} keeps {bound}"
        case "age":
            return f"{ref} keeps all since {_seconds(bound)}"
        case "writer":
            return f"{reason.writer} on {ref}"
        case other:
            return other


def _seconds(millis: int) -> str:
    """A time without its fraction; a cut-off before the year 1 keeps everything."""
    is_a_time = 0 <= millis < _END_MS
    return f"{format_moment(moment(millis * 1000))[:19]}Z" if is_a_time else "ever"
