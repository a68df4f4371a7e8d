"""What the store vouches for: journals that a run wrote where others can write too.

A journal is recorded like a plan, under the name of its folder: its address, its hash, the run that
wrote it and that run's fencing token. Nothing else tells a journal of ours from a planted one.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakesweep.clock import micros
from lakesweep.errors import NotFoundError
from lakesweep.runs.fencing import RequestFence
from lakesweep.runs.records import PlanRecord, PlanStatus
from lakesweep.runs.run_log import RunLog
from lakesweep.runs.sessions import Session
from lakesweep.storage.address import folder_identity


def vouched_hash(runs: RunLog, lake: str, address: str) -> str | None:
    """The hash of the journal that a run of the lake wrote at an address.

    Empty if the run never completed it; None if no run of this store began to write it.
    """
    record = _find(runs, lake, address)
    return None if record is None else record.sha256


@dataclass(frozen=True, slots=True)
class SessionJournals:
    """The journals of a run, recorded in its session."""

    runs: RunLog
    session: Session
    fence: RequestFence

    def known(self, address: str) -> str | None:
        return vouched_hash(self.runs, self.session.record.lake, address)

    def recorded(self) -> list[str]:
        return [plan.address for plan in self.runs.plans(self.session.record.lake)]

    def register(self, address: str) -> None:
        self._put(address, "", PlanStatus.READY)

    def vouch(self, address: str, sha256: str) -> None:
        self._put(address, sha256, PlanStatus.APPLYING)

    def forget(self, address: str) -> None:
        record = _find(self.runs, self.session.record.lake, address)
        if record is not None:
            self.runs.forget_plan(record)

    def check(self) -> None:
        self.fence()

    def _put(self, address: str, sha256: str, status: PlanStatus) -> None:
        run, now = self.session.record, micros(self.runs.clock.now())
        # A run without its lease must vouch for nothing: the next one would delete by it.
        self.check()
        self.runs.add_plan(
            PlanRecord(
                plan=_name(address),
                lake=run.lake,
                address=address,
                sha256=sha256,
                created_at=now,
                # No command applies it: the next run over the same table resumes it.
                expires_at=now,
                status=status,
                run=run.run,
                token=self.session.lease.token,
            )
        )


def _find(runs: RunLog, lake: str, address: str) -> PlanRecord | None:
    try:
        found = runs.plan(_name(address))
    except NotFoundError:
        return None
    is_same = found.lake == lake and folder_identity(found.address) == folder_identity(address)
    return found if is_same else None


def _name(address: str) -> str:
    return address.rstrip("/").rpartition("/")[2]
