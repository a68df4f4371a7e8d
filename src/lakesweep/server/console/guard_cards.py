"""What each guard means and what overriding it does, for people who decide about a plan."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lakesweep.guard_names import GuardName
from lakesweep.sweep.guards import CONFIRMED, Guard
from lakesweep.sweep.plan.document import PlanDocument

_UNKNOWN = ("A check of the plan failed.", "The plan is applied although the check failed.")
_TEXTS: Mapping[str, tuple[str, str]] = {
    GuardName.FIRST_RUN: (
        "No plan of this lake was ever applied, so nobody has seen yet that its roots are right.",
        "Approving says that somebody looked at the totals and at some files.",
    ),
    GuardName.ZERO_LIVE: (
        "Not one file is referenced. The roots are probably wrong.",
        "Everything in the lake that is old enough is deleted.",
    ),
    GuardName.LIVE_FELL: (
        "Far fewer files are referenced than at the last run. A catalog may be missing.",
        "Approving says that the tables were really dropped or rewritten.",
    ),
    GuardName.SHARE: (
        "An unusually large share of a location or a table would be deleted.",
        "Approving says that this much is expected.",
    ),
    GuardName.INCOMPLETE: (
        "Some roots could not be read. Everything they might reference is kept.",
        "Other files are deleted; those that the roots might reference stay.",
    ),
    GuardName.ROOTS_GONE: (
        "Tables that were known before are not listed any more.",
        "Their files are deleted as those of dropped tables.",
    ),
    GuardName.UNLISTED_TABLE: (
        "The lake holds tables that no catalog lists. Their files are kept.",
        "Nothing changes: a table that was dropped has to be named when the plan is made.",
    ),
    GuardName.EMPTY_CATALOG: (
        "A catalog lists no table at all. Its name or its rights may be wrong.",
        "Files that its tables reference may be deleted.",
    ),
    GuardName.REPOSITORIES: (
        "lakeFS repositories that no root reads may have imported files of this lake.",
        "Files that they imported may be deleted.",
    ),
    GuardName.MISSING: (
        "Tables reference files that are not stored. Something else deletes files here.",
        "The files of these tables are deleted as planned; what is missing stays missing.",
    ),
    GuardName.FOREIGN: (
        "Another lake claims the same location, with roots that this plan does not know.",
        "Files that the other lake references may be deleted.",
    ),
    GuardName.STALE_PLAN: (
        "The plan has expired: files may be referenced now that were not then.",
        "Make a new plan instead.",
    ),
    GuardName.GRACE: (
        "Files are deleted sooner than writers may need to commit them.",
        "Writers that take longer lose their files.",
    ),
    GuardName.GC_ENABLED: (
        "Tables say gc.enabled=false: their owners want no file to be deleted.",
        "Files of these tables are deleted against that setting.",
    ),
    GuardName.POLICY_CHANGED: (
        "The last plan that was applied was made by another policy.",
        "Approving says that the new policy is meant.",
    ),
    GuardName.REFS_DUMP: (
        "No lakeFS server was asked, so newer commits, branches and tags are not known.",
        "What they reference may be deleted.",
    ),
    GuardName.STALE_REFS: (
        "The dump of the refs is old.",
        "What was committed since may be deleted.",
    ),
    GuardName.CLOCK: (
        "The clock was ahead of that of the store, so files look older than they are.",
        "Files may be deleted before their grace is over.",
    ),
}


class GuardCard(msgspec.Struct, frozen=True, kw_only=True):
    """A guard that stands, with what it means and what an override does.

    One that only asks for a look is settled by an approval; one that withholds the files of some
    tables or roots does not stop the rest.
    """

    guard: Guard
    meaning: str
    effect: str
    is_overridden: bool

    @property
    def needs_override(self) -> bool:
        """Whether an approval has to name it."""
        is_look = self.guard.name in CONFIRMED
        return not (is_look or self.guard.subjects or self.is_overridden)


def guard_cards(document: PlanDocument) -> list[GuardCard]:
    """A card for each guard of a plan."""
    return [
        GuardCard(
            guard=guard,
            meaning=_TEXTS.get(guard.name, _UNKNOWN)[0],
            effect=_TEXTS.get(guard.name, _UNKNOWN)[1],
            is_overridden=guard.name in document.overridden,
        )
        for guard in document.guards
    ]
