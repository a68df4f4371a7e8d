"""What the store vouches for: journals that a run wrote where others can write too.

A journal is recorded like a plan, under the name of its folder: its address, its hash, the run that
wrote it and that run's fencing token. Nothing else tells a journal of ours from a planted one.

A restore leaves a mark in each location, so that older plans of any store are refused. A plan that
was made before a restore would delete what was restored: its files are the same as before. The
store of the restore knows that; another store with a plan for the same lake does not. A restore
therefore marks the location before the first file comes back, and again after the last one. A plan
records the mark that it finds before it lists. If the mark is another one when the plan is applied,
files came back meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from lakesweep.clock import micros
from lakesweep.errors import LakesweepError, MissingError, NotFoundError, RefusedError
from lakesweep.guard_names import GuardName
from lakesweep.runs.fencing import RequestFence
from lakesweep.runs.records import PlanRecord, PlanStatus, home_folder, plan_command
from lakesweep.runs.run_log import RunLog
from lakesweep.runs.sessions import Session, holder_name
from lakesweep.storage.address import Address, folder_identity, parse
from lakesweep.storage.object_store import StoreOpener

#: The name of the mark in the home folder of a location.
MARK = "restored"


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


@contextmanager
def mark_restore(
    stores: StoreOpener, lake: str, locations: Iterable[str], run: str
) -> Iterator[None]:
    """Mark the locations while files are restored, and when that has ended."""
    places = [_place(lake, location) for location in locations]
    # The first mark stands before any file is back, so a crash leaves plans refused that are older.
    _write(stores, places, f"{run} began ({holder_name()})")
    yield
    # The second one refuses plans that listed the location in between.
    _write(stores, places, f"{run} ended ({holder_name()})")


def read_restore_marks(stores: StoreOpener, lake: str, locations: Iterable[str]) -> dict[str, str]:
    """The marks of locations; those that cannot be read are left out."""
    found = {}
    for location in locations:
        with suppress(LakesweepError):
            found[location] = _read(stores, _place(lake, location))
    return {location: mark for location, mark in found.items() if mark}


def check_restore_marks(
    stores: StoreOpener, lake: str, locations: Iterable[str], known: Mapping[str, str], plan: str
) -> None:
    """RefusedError if files were restored since a plan recorded these marks."""
    for location in locations:
        mark = _read(stores, _place(lake, location))
        if mark != known.get(location, ""):
            raise RefusedError(
                GuardName.STALE_PLAN,
                f"files were restored in {location} since plan {plan} was made: {mark}",
                hint=plan_command(lake),
            )


def _write(stores: StoreOpener, places: Iterable[Address], text: str) -> None:
    for place in places:
        stores.open(place).write(place.key, text.encode())


def _read(stores: StoreOpener, place: Address) -> str:
    try:
        return stores.open(place).read(place.key).decode(errors="replace")
    except MissingError:
        return ""


def _place(lake: str, location: str) -> Address:
    return parse(home_folder(lake, location) + MARK)
