"""List runs, and show one in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import chain, islice, takewhile
from typing import Any, ClassVar

import msgspec

from lakesweep.app import App
from lakesweep.clock import moment
from lakesweep.errors import NotFoundError, UsageError
from lakesweep.operations.store.store import MaintenanceView
from lakesweep.runs.records import RunRecord, RunStatus
from lakesweep.runs.run_figures import Recorded, run_totals
from lakesweep.storage.object_store import Outcome

_NEWEST = 20
#: The outcomes that change something.
_DONE = (Outcome.DELETED, Outcome.QUARANTINED, Outcome.RESTORED)
_FILES = frozenset({"delete_files", "dropped_files", *(each.value for each in _DONE)})
_BYTES = frozenset({"delete_bytes", "dropped_bytes", *(f"bytes_{each.value}" for each in _DONE)})
#: Runs over tables say here what they worked on; their lakes are named by hashes.
_SUBJECTS = ("paimon", "iceberg", "files")


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run. `finished` is None while it runs, and if it died unnoticed.

    `spec` is what was asked for and `figures` what was counted, as the run recorded them. `files`
    and `bytes` are what it deleted, set aside or brought back, and for a plan what it would delete;
    None if the run counts no files. `subject` is the lake, or the addresses that the run worked on.
    `job` is the scheduled job that it is a part of.
    """

    #: The kind of maintenance runs of the store, which are no runs of lakes.
    MAINTAIN: ClassVar[str] = "maintain"

    run: str
    lake: str
    kind: str
    status: str
    started: datetime
    finished: datetime | None
    seconds: float | None
    plan: str | None
    message: str
    spec: Recorded
    figures: Recorded
    user: str = ""
    host: str = ""
    files: int | None = None
    bytes: int | None = None
    subject: str = ""
    job: str | None = None

    @classmethod
    def of(cls, record: RunRecord) -> RunView:
        """A run over a lake or a repository."""
        started = moment(record.started_at)
        finished = None if record.finished_at is None else moment(record.finished_at)
        return cls(
            run=record.run,
            lake=record.lake,
            kind=record.kind.value,
            status=record.status.value,
            started=started,
            finished=finished,
            seconds=_seconds(started, finished),
            plan=record.plan or run_totals(record.figures).plan,
            message=record.message,
            spec=record.spec,
            figures=record.figures,
            user=record.user,
            host=record.host,
            files=_sum(record.figures, _FILES),
            bytes=_sum(record.figures, _BYTES),
            subject=_subject(record),
            job=record.job,
        )

    @classmethod
    def of_maintenance(cls, view: MaintenanceView) -> RunView:
        """A maintenance run, with its totals."""
        totals = {"references": view.reference_stats, "rows": view.obj_stats}
        return cls(
            run=view.run,
            lake="-",
            subject="-",
            kind=cls.MAINTAIN,
            status=view.status.value,
            started=view.started,
            finished=view.finished,
            seconds=_seconds(view.started, view.finished),
            plan=None,
            message=view.status_message,
            spec={},
            figures={name: msgspec.structs.asdict(stats) for name, stats in totals.items()},
        )


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to list: of one lake, in one status, of one kind, or since a moment."""

    lake: str | None = None
    status: str | None = None
    since: datetime | None = None
    kind: str | None = None

    def __post_init__(self) -> None:
        known = [status.value for status in RunStatus]
        if self.status is not None and self.status not in known:
            raise UsageError(
                f"there is no status {self.status!r}", hint=f"a run is {', '.join(known)}"
            )

    def accepts(self, run: RunView) -> bool:
        """Whether a run is wanted; its lake was checked before."""
        is_right = self.status in (None, run.status) and self.kind in (None, run.kind)
        return is_right and self.is_late(run)

    def is_late(self, run: RunView) -> bool:
        """Whether a run is not too old."""
        return self.since is None or run.started >= self.since


def list_runs(app: App, wanted: RunFilter | None = None, limit: int = _NEWEST) -> list[RunView]:
    """The newest runs; maintenance belongs to no lake. NotFoundError if there is no such lake."""
    return list(islice(every_run(app, wanted or RunFilter()), limit))


def every_run(app: App, wanted: RunFilter) -> Iterator[RunView]:
    """All wanted runs, newest first, read as they are asked for."""
    every = map(RunView.of, app.known_runs.list(wanted.lake))
    first = next(every, None)
    if wanted.lake and first is None and wanted.lake not in app.config.lakes:
        raise NotFoundError(
            f"there is no lake {wanted.lake}, and no run of it",
            hint="lakesweep lakes lists the lakes, and lakesweep runs the runs of all",
        )
    runs = chain(() if first is None else (first,), every)
    maintenance = iter(()) if wanted.lake else map(RunView.of_maintenance, _maintenance(app))
    newest = merge(runs, maintenance, key=lambda run: run.started, reverse=True)
    return filter(wanted.accepts, takewhile(wanted.is_late, newest))


def show_run(app: App, run: str) -> RunView | MaintenanceView:
    """A run by its name."""
    maintenance = next((each for each in _maintenance(app) if each.run == run), None)
    return maintenance or RunView.of(app.known_runs.get(run))


def _sum(figures: Mapping[str, Any], names: frozenset[str]) -> int | None:
    """The sum of those figures that a run has."""
    found = [figures[name] for name in names & figures.keys() if isinstance(figures[name], int)]
    return sum(found) if found else None


def _subject(record: RunRecord) -> str:
    found = next((record.spec[name] for name in _SUBJECTS if name in record.spec), None)
    if found is None:
        return record.lake
    return ", ".join(map(str, found)) if isinstance(found, list) else str(found)


def _maintenance(app: App) -> Iterator[MaintenanceView]:
    found = iter(()) if app.is_new_store else app.maintenance_runs.list()
    return map(MaintenanceView.of, found)


def _seconds(started: datetime, finished: datetime | None) -> float | None:
    return None if finished is None else (finished - started).total_seconds()
