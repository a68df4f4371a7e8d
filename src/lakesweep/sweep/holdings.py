"""What lies in quarantine, by the plan that put it there, according to the run records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesweep.decoding import convert
from lakesweep.errors import NotFoundError
from lakesweep.runs.records import RunKind, RunRecord, RunStatus
from lakesweep.storage.deleting.quarantine_store import QuarantineFolders
from lakesweep.units import format_some

if TYPE_CHECKING:
    from lakesweep.runs.run_log import RunLog
    from lakesweep.sweep.lake import Lake


#: The key of a run's spec for the moment at which its quarantine may be emptied.
HOLD_UNTIL = "hold_until"


@dataclass(frozen=True)
class Holding:
    """What one plan set aside. `ended` is the run that emptied it, if any.

    `seen` are files and bytes that lie in quarantine, where runs that died did not count them.
    """

    plan: str
    lake: str
    runs: tuple[RunRecord, ...]
    restores: tuple[RunRecord, ...] = ()
    ended: str | None = None
    empties: tuple[RunRecord, ...] = ()
    seen: tuple[int, int] | None = None

    @property
    def is_counted(self) -> bool:
        """Whether all runs lived to tell what they did."""
        return all("quarantined" in run.figures for run in self.runs)

    @property
    def files(self) -> int:
        """How many files it set aside, less those that were brought back or are gone."""
        if self.seen is not None:
            return self.seen[0]
        return _sum(self.runs, "quarantined") - self.restored - _sum(self.empties, "deleted")

    @property
    def size_bytes(self) -> int:
        """The bytes of these files."""
        if self.seen is not None:
            return self.seen[1]
        gone = _sum(self.restores, "bytes_restored") + _sum(self.empties, "bytes_deleted")
        return _sum(self.runs, "bytes_quarantined") - gone

    @property
    def restored(self) -> int:
        """How many files were brought back."""
        return _sum(self.restores, "restored")

    @property
    def locations(self) -> tuple[str, ...]:
        """Where its files lay, as far as its runs wrote that down."""
        told = (places.places for run in self.runs if (places := recorded_places(run)) is not None)
        return tuple(dict.fromkeys(place.location for some in told for place in some))

    @property
    def hold_until(self) -> int | None:
        """When it may be emptied, in microseconds since 1970; None if only a person may do that."""
        ends = [run.spec.get(HOLD_UNTIL) for run in self.runs]
        return None if None in ends else max(int(end) for end in ends if end is not None)

    @property
    def since(self) -> int:
        """When its first run began, in microseconds since 1970."""
        return min(run.started_at for run in self.runs)


def _sum(runs: Iterable[RunRecord], figure: str) -> int:
    return sum(int(run.figures.get(figure, 0)) for run in runs)


def quarantine_places(lake: Lake, plan: str) -> QuarantineFolders:
    """Where the files of a plan lie in quarantine: the same for all runs that apply it."""
    return QuarantineFolders.of(
        (location, f"{lake.quarantine(location)}/{plan}") for location in lake.locations
    )


def holdings(runs: RunLog, lake: str | None = None) -> Iterator[Holding]:
    """Everything that was set aside, newest first."""
    applied: dict[str, list[RunRecord]] = {}
    restored: dict[str, list[RunRecord]] = {}
    emptied: dict[str, list[RunRecord]] = {}
    for run in runs.list(lake):
        if run.plan is None:
            continue
        if run.kind is RunKind.APPLY and run.spec.get("quarantine"):
            applied.setdefault(run.plan, []).append(run)
        elif run.kind is RunKind.RESTORE:
            restored.setdefault(run.plan, []).append(run)
        elif run.kind is RunKind.EMPTY:
            emptied.setdefault(run.plan, []).append(run)
    for plan, found in applied.items():
        back, empties = tuple(restored.get(plan, ())), tuple(emptied.get(plan, ()))
        ended = next((run.run for run in empties if run.status is RunStatus.DONE), None)
        yield Holding(plan, found[0].lake, tuple(found), back, ended, empties)


def held_folders(runs: RunLog) -> Iterator[str]:
    """The folders in which files were set aside, whatever the configuration says now."""
    for run in runs.list():
        if run.kind is RunKind.APPLY and (places := recorded_places(run)) is not None:
            yield from (place.folder for place in places.places)


def find_holding(runs: RunLog, name: str) -> Holding:
    """What a plan, or a run of it, set aside; what a lake set aside last, by the lake's name.

    A beginning that no other plan has is enough. NotFoundError if nothing was set aside.
    """
    every = list(holdings(runs))
    for holding in every:
        if name == holding.plan or name in {run.run for run in holding.runs}:
            return holding
    found = [holding for holding in every if holding.lake == name]
    if found:
        return next((holding for holding in found if _is_held(holding)), found[0])
    begun = [holding for holding in every if name and holding.plan.startswith(name)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        names = format_some([holding.plan for holding in begun])
        raise NotFoundError(f"several plans begin with {name}: {names}", hint="type more of it")
    raise NotFoundError(
        f"{name} set nothing aside", hint="lakesweep quarantine list shows what is held"
    )


def _is_held(holding: Holding) -> bool:
    """Whether files may still lie in quarantine."""
    return holding.ended is None and (holding.files > 0 or not holding.is_counted)


def recorded_places(run: RunRecord) -> QuarantineFolders | None:
    """Where a run set files aside, as it wrote down before it began."""
    told = run.spec.get("places")
    return None if told is None else convert(told, QuarantineFolders)
