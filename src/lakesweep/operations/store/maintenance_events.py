"""Tell webhooks how maintenance of the store ended.

Runs of lakes write their events with the commit that records them. Maintenance is recorded in the
system's own realm, and webhooks are told by the realm of the configuration, so that is a second
commit: a process that dies between the two tells nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lakesweep.app import App
from lakesweep.errors import LakesweepError
from lakesweep.maintenance.run_records import MaintenanceRunInformation
from lakesweep.runs.outbox import EventType, LakeEvent
from lakesweep.runs.records import RunStatus

#: What events call the store, which is no lake.
_SUBJECT = "store"
_DONE = frozenset({RunStatus.DONE, RunStatus.INCOMPLETE})


@contextmanager
def told_to_webhooks(app: App) -> Iterator[None]:
    """Have webhooks told of the run that the block makes, whether it succeeds or not."""
    if not app.config.webhooks:
        yield
        return
    before = _newest(app)
    try:
        yield
    finally:
        # Telling never fails a run.
        with suppress(LakesweepError):
            run = _newest(app)
            if run is not None and (before is None or run.run != before.run):
                app.runs.tell(list(maintenance_events(run)))


def maintenance_events(run: MaintenanceRunInformation) -> Iterator[LakeEvent]:
    """What the end of a maintenance run has to tell."""
    if run.finished_at is None or run.status is RunStatus.RUNNING:
        return
    kind = EventType.RUN_DONE if run.status in _DONE else EventType.RUN_FAILED
    data = {
        "run": run.run,
        "kind": "maintain",
        "status": run.status.value,
        "message": run.status_message,
        "job": run.job,
        "rows_purged": run.obj_stats.purged,
        "references_purged": run.reference_stats.purged,
        "realms_purged": list(run.realms_purged),
    }
    yield LakeEvent(
        id=f"{run.run}/{kind}", type=kind, subject=_SUBJECT, at=run.finished_at, data=data
    )


def _newest(app: App) -> MaintenanceRunInformation | None:
    return next(iter(app.maintenance_runs.list()), None)
