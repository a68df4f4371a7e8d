"""What a plan would delete that the plan before would not, and the other way round."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from lakesweep.app import App
from lakesweep.errors import DamagedError, NotFoundError
from lakesweep.runs.records import PlanRecord
from lakesweep.sweep.judge.totals import FileTotals
from lakesweep.sweep.plan.document import PlanDocument
from lakesweep.sweep.plan.stored_plan import find_plan, open_plan
from lakesweep.sweep.verdicts import Verdict

_SHOWN = 10


class AmountChange(msgspec.Struct, frozen=True, kw_only=True):
    """Files and bytes to delete then and now, for one table, reason or everything."""

    name: str
    before: FileTotals
    now: FileTotals

    @property
    def files(self) -> int:
        """How many more files; fewer if negative."""
        return self.now.files - self.before.files

    @property
    def bytes(self) -> int:
        """How many more bytes; fewer if negative."""
        return self.now.bytes - self.before.bytes


class PlanChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The difference to the plan before, of the same lake.

    `tables` are those with the largest differences. Guards and incomplete roots are named if they
    are new, or stand no longer.
    """

    before: str
    total: AmountChange
    reasons: tuple[AmountChange, ...]
    tables: tuple[AmountChange, ...]
    new_guards: tuple[str, ...]
    ended_guards: tuple[str, ...]
    new_problems: tuple[str, ...]
    solved_problems: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Whether nothing differs that a person should know."""
        named = self.new_guards + self.ended_guards + self.new_problems + self.solved_problems
        return not (self.reasons or self.tables or named)


def plan_changes(app: App, name: str) -> PlanChanges | None:
    """What changed since the plan before; None if there is none whose document is still there."""
    runs = app.known_runs
    plan = find_plan(runs, name)
    earlier = [each for each in runs.plans(plan.lake) if _place(each) < _place(plan)]
    if not earlier:
        return None
    now = open_plan(app.stores, runs, plan.plan).document
    try:
        return _compare(open_plan(app.stores, runs, earlier[0].plan).document, now)
    except (NotFoundError, DamagedError):
        return None  # its folder was removed: there is nothing to compare with


def _place(plan: PlanRecord) -> tuple[int, int]:
    return plan.token, plan.created_at


def _compare(before: PlanDocument, now: PlanDocument) -> PlanChanges:
    guards = [{each.name for each in document.guards} for document in (before, now)]
    problems = [{each.name for each in document.incomplete_roots} for document in (before, now)]
    delete = Verdict.DELETE.value
    reasons = _changes(before.totals.get(delete, {}), now.totals.get(delete, {}))
    tables = _changes(_tables(before), _tables(now))
    return PlanChanges(
        before=before.plan,
        total=AmountChange(name="", before=before.amount(delete), now=now.amount(delete)),
        reasons=tuple(reasons),
        tables=tuple(tables[:_SHOWN]),
        new_guards=tuple(sorted(guards[1] - guards[0])),
        ended_guards=tuple(sorted(guards[0] - guards[1])),
        new_problems=tuple(sorted(problems[1] - problems[0])[:_SHOWN]),
        solved_problems=tuple(sorted(problems[0] - problems[1])[:_SHOWN]),
    )


def _tables(document: PlanDocument) -> Mapping[str, FileTotals]:
    named = (each for each in document.tables if not each.is_rest)
    return {each.name or "outside of all tables": each.delete for each in named}


def _changes(before: Mapping[str, FileTotals], now: Mapping[str, FileTotals]) -> list[AmountChange]:
    """What differs, the largest difference first."""
    every = (
        AmountChange(
            name=name, before=before.get(name, FileTotals()), now=now.get(name, FileTotals())
        )
        for name in dict.fromkeys((*now, *before))
    )
    found = [each for each in every if each.before != each.now]
    return sorted(found, key=lambda each: (-abs(each.bytes), -abs(each.files), each.name))
