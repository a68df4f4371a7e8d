"""What an unattended sweep may delete: the limits of a lake, compared with a plan.

A plan within the limits is applied without asking. Every reason that is given here makes it wait
for a person. A later recheck only takes files out of a plan, so a plan that was within the limits
stays within them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from lakesweep.config import UnattendedSection
from lakesweep.sweep.apply.withholding import Withholding
from lakesweep.sweep.guards import Guard
from lakesweep.sweep.lake import Lake
from lakesweep.sweep.plan.document import PlanDocument, accepted_guards
from lakesweep.sweep.verdicts import Verdict
from lakesweep.units import format_count, format_size, format_some


def reasons_to_wait(
    document: PlanDocument, lake: Lake, now: datetime, overridden: Sequence[str] = ()
) -> tuple[str, ...]:
    """Why a plan needs the approval of a person, in words; empty if it is within the limits."""
    limits = lake.section.limits
    guards = standing_guards(document, lake, now, overridden)
    return (
        *(() if limits.apply == "within-limits" else ("every plan of this lake needs approval",)),
        *(f"guard {guard.name}: {guard.message}" for guard in guards),
        *_exceeded(document, limits),
    )


def standing_guards(
    document: PlanDocument, lake: Lake, now: datetime, overridden: Sequence[str] = ()
) -> Iterator[Guard]:
    """The guards of a plan that neither an override nor a standing decision has settled.

    Guards about a table or a root are among them, unless the lake's limits let them withhold.
    """
    withholding = Withholding({*document.overridden, *overridden}, accepted_guards(lake, now))
    waits = lake.section.limits.guards == "wait"
    for guard in document.guards:
        is_whole = not guard.subjects and guard.name not in withholding.overridden
        if is_whole or (waits and withholding.standing(guard)):
            yield guard


def _exceeded(document: PlanDocument, limits: UnattendedSection) -> Iterator[str]:
    """The limits that a plan exceeds."""
    deletes, kept = (document.amount(each.value) for each in (Verdict.DELETE, Verdict.KEEP))
    if deletes.files > limits.max_files:
        yield f"{format_count(deletes.files, 'file')}, more than max_files = {limits.max_files:,}"
    if deletes.bytes > limits.max_bytes:
        most = format_size(limits.max_bytes)
        yield f"{format_size(deletes.bytes)}, more than max_bytes = {most}"
    files = deletes.files + kept.files
    if deletes.files > files * limits.max_share:
        share = _percent(deletes.files, files)
        yield f"{share} of the files of the lake, more than max_share = {limits.max_share:g}"
    if large := [*_large_shares(document, limits.max_table_share)]:
        most = f"max_table_share = {limits.max_table_share:g}"
        yield f"more than {most} of the files of {format_some(large)}"


def _large_shares(document: PlanDocument, most: float) -> Iterator[str]:
    for each in document.tables:
        deletes = each.delete.files
        if each.name is not None and deletes > each.files * most:
            yield f"{each.name} ({_percent(deletes, each.files)})"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"
