"""Records of runs and plans that were decoded already.

A service reads the same thousands of records for each page that it shows, and decoding them costs
more than everything else on the page. Records never change: another version of one is another
object, and another set of plans another index. Threads may share a cache; at worst two of them
decode the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from lakesweep.runs.records import PlanRecord, RunRecord
from lakesweep.store import Link

#: The quarantine is read from all runs that a store keeps; one has about two kilobytes.
_MOST_RUNS = 12_000
_PAGE_RUNS = 100


@dataclass(slots=True)
class RecordCache:
    """The runs that were read last, and the plans of one state of the log."""

    _runs: dict[Link, RunRecord] = field(default_factory=dict)
    _plans: tuple[bytes, tuple[PlanRecord, ...]] = (b"", ())

    def runs(
        self,
        links: Iterable[Link],
        fetch: Callable[[Sequence[Link]], Sequence[RunRecord | None]],
    ) -> Iterator[RunRecord]:
        """The runs behind links, in their order, read in pages as they are asked for."""
        rest = iter(links)
        while page := list(islice(rest, _PAGE_RUNS)):
            known = {link: self._runs[link] for link in page if link in self._runs}
            missing = [link for link in page if link not in known]
            found = zip(missing, fetch(missing) if missing else (), strict=True)
            known |= {link: run for link, run in found if run is not None}
            self._keep(known)
            yield from (known[link] for link in page if link in known)

    def _keep(self, runs: dict[Link, RunRecord]) -> None:
        if len(self._runs) + len(runs) > _MOST_RUNS:
            self._runs = {}
        self._runs.update(runs)

    def plans(
        self, stored: bytes, read: Callable[[], Iterable[PlanRecord]]
    ) -> tuple[PlanRecord, ...]:
        """All plans of an index, newest first."""
        root, found = self._plans
        if root != stored or not stored:
            newest = sorted(read(), key=lambda plan: (plan.created_at, plan.plan), reverse=True)
            found = tuple(newest)
            self._plans = stored, found
        return found
