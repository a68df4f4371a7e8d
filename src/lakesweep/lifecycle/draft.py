"""What a plan by a policy says of itself: figures, guards, and what apply has to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from lakesweep.lakefs.dump_ages import Ages, describe_ages, describe_stale, store_ages
from lakesweep.sweep.guards import Figures, look
from lakesweep.sweep.marks import Marks, RootState
from lakesweep.sweep.planning import LIFE
from lakesweep.sweep.plans import Amount, PlanDocument, PlanKind, RootCounts
from lakesweep.sweep.totals import Dimension, classes_of, reasons_of, shares_of
from lakesweep.sweep.verdicts import Verdict

if TYPE_CHECKING:
    from lakesweep.lifecycle.order import LifecycleOrder
    from lakesweep.lifecycle.pairing import Judged
    from lakesweep.lifecycle.spec import Found
    from lakesweep.storage.datasets import Dataset
    from lakesweep.sweep.records import LakeRecord


@dataclass(frozen=True)
class PlanDraft:
    """All that a plan is made of, before it is written down. `engine` is what judged it."""

    order: LifecycleOrder
    name: str
    started: datetime
    engine: str
    ages: Ages
    listing: Dataset
    found: Found
    marks: Marks
    judged: Judged

    def document(self, record: LakeRecord, now: datetime, clock_ahead: timedelta) -> PlanDocument:
        """The plan. `record` is what is known of the lake, whose store is behind our clock."""
        order, totals = self.order, self.judged.totals
        figures = self._figures(record, clock_ahead)
        return PlanDocument(
            plan=self.name,
            lake=order.lake.name,
            kind=PlanKind.LIFECYCLE,
            created=now,
            expires=self.started + LIFE,
            cut_off=order.cutoff(self.started),
            grace_seconds=figures.grace.total_seconds(),
            mode=order.spec.selection.value,
            roots=RootCounts(
                complete=len(list(self.marks.in_state(RootState.COMPLETE))), incomplete=0
            ),
            totals=_amounts(totals),
            ages=tuple(classes_of(totals, Dimension.AGE)),
            sizes=tuple(classes_of(totals, Dimension.SIZE)),
            guards=tuple(look(figures)),
            overridden=order.overridden,
            locations=order.lake.locations,
            spec={"engine": self.engine, "listed": figures.listed, **self.found.figures},
            policy=order.spec.policy.sha256,
            details={**self._details(), "dumps": store_ages(self.ages)},
        )

    def _figures(self, record: LakeRecord, clock_ahead: timedelta) -> Figures:
        totals = _amounts(self.judged.totals)
        return Figures(
            was_applied=record.applied is not None,
            live=_files(totals, Verdict.KEEP),
            live_before=record.live,
            listed=self.listing.rows,
            deletes=_files(totals, Verdict.DELETE),
            grace=self.order.shortest,
            shares=shares_of(self.judged.totals),
            is_policy_new=record.policy != self.order.spec.policy.sha256,
            dumps=describe_ages(self.ages),
            stale_dumps=describe_stale(self.ages),
            clock_ahead=clock_ahead,
        )

    def _details(self) -> dict[str, Any]:
        spec = self.order.spec
        return {
            "repository": spec.repository.name,
            "namespace": spec.repository.namespace.location,
            "aliases": list(spec.repository.namespace.aliases),
            "neighbours": list(self.order.neighbours),
            "home": spec.place,
            "policy": self.order.policy_text,
            "policy_name": self.order.policy_name,
            "words": list(self.found.words),
            "warnings": [*self.found.warnings, *self.order.warnings()],
            "full": self.found.full,
            "saved": self.judged.saved,
            "record": msgspec.to_builtins(self.found.record),
            "results": self.found.results.address,
            "tags_protect_history": spec.tags_protect_history,
            "without_staging": spec.without_staging,
        }


def _amounts(totals: pa.Table) -> dict[str, dict[str, Amount]]:
    return {
        verdict: {reason: Amount(**amount) for reason, amount in reasons.items()}
        for verdict, reasons in reasons_of(totals).items()
    }


def _files(totals: Mapping[str, Mapping[str, Amount]], verdict: Verdict) -> int:
    return sum(amount.files for amount in totals.get(verdict.value, {}).values())
