"""Stored records of runs and plans, and what earlier runs learned about each lake.

A lake has the name it has in the configuration. A lakeFS repository is a lake named after its
storage namespace, and a table that is cleaned by itself is one named after its address.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from secrets import token_hex

import msgspec

from lakesweep.clock import Clock
from lakesweep.runs import live_records
from lakesweep.runs.live_records import LiveLinks
from lakesweep.runs.run_figures import Recorded
from lakesweep.storage.address import Address, folder_identity
from lakesweep.store import NO_INDEX, Commit, IndexRoot, Link

#: The reference behind which all of it lies.
SWEEPS = "sweeps"
#: With what the name of a lake begins that is a lakeFS repository.
REPOSITORY_PREFIX = "lakefs:"
#: Plans of one Iceberg table are recorded under its name, with this before it.
TABLE_PREFIX = "iceberg:"
#: Where Lakesweep keeps its own files, below a location of a lake or the namespace of a repository.
LAKE_HOME = "_lakesweep/"
REPOSITORY_HOME = "_lakefs/retention/lc/"


class RunKind(StrEnum):
    """What a run does."""

    PLAN = "plan"
    APPLY = "apply"
    CHECK = "check"
    RESTORE = "restore"
    EMPTY = "empty"
    EXPIRE = "expire"
    PURGE = "purge"
    DROP = "drop"
    REWRITE = "rewrite"


class RunStatus(StrEnum):
    """How a run ended, if it did. A run that died stays `running` until its lease is taken."""

    RUNNING = "running"
    DONE = "done"
    INCOMPLETE = "incomplete"
    REFUSED = "refused"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    FAILED = "failed"
    DEAD = "dead"


class PlanStatus(StrEnum):
    """Whether a plan can still be carried out."""

    READY = "ready"
    APPLYING = "applying"
    APPLIED = "applied"
    REJECTED = "rejected"


class ApprovalState(StrEnum):
    """What people have decided about a plan."""

    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """Why a plan waits for a person, and what that person decided.

    `by`, `at` and `why` are of the last change. `overridden` are the guards that were accepted with
    it.
    """

    state: ApprovalState
    at: int
    by: str
    why: str = ""
    reasons: tuple[str, ...] = ()
    overridden: tuple[str, ...] = ()


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One execution. Moments are microseconds since 1970; `figures` are what the kind counts.

    `token` is that of its lease. It grows with each run of a lake, whatever clocks say. `datasets`
    are the hashes of datasets that it wrote where others can write too, by their folder below its
    own; None for runs of versions that did not record them. `user` and `host` say who ran it where,
    `job` of which scheduled job it is a part. `live` is where it tells how far it is.
    """

    run: str
    lake: str
    kind: RunKind
    started_at: int
    finished_at: int | None = None
    status: RunStatus = RunStatus.RUNNING
    plan: str | None = None
    message: str = ""
    spec: Recorded = {}
    figures: Recorded = {}
    token: int = 0
    datasets: dict[str, str] | None = None
    user: str = ""
    host: str = ""
    job: str | None = None
    live: LiveLinks | None = None


class PlanRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Where a plan lies, and what became of it. `sha256` is that of its document.

    `token` is that of the lease under which it was made. `approval` is set once a plan had to wait
    for a person, or a person decided about it.
    """

    plan: str
    lake: str
    address: str
    sha256: str
    created_at: int
    expires_at: int
    status: PlanStatus = PlanStatus.READY
    run: str | None = None
    token: int = 0
    approval: Approval | None = None


class RootMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The folders that a root was seen to use, for the day on which it cannot be read or is gone.

    `pointer` and `uuid` are those of its newest version that was read completely, `origin` is the
    source that listed it. `dropped` means that a person confirmed that it is gone for good.
    """

    folders: tuple[str, ...]
    seen_at: int
    pointer: str = ""
    uuid: str | None = None
    origin: str = ""
    dropped: bool = False


class LakeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier runs learned of a lake.

    `most_live` is the high-water mark that the next filter is sized by. `listed` is how many files
    the last plan saw, which tells how far the next one is. `live` and `applied` are
    those of the last complete plan and the last run that deleted. `marks` is the address of the
    last marks, which serve as a cache, and `mark_hashes` are those of their datasets. `roots` leads
    from names of roots to RootMemory. `policy` is the hash of the policy by which a plan was last
    carried out, where policies decide what expires. `documents` leads from names to LakeDocument.
    """

    lease: Link
    most_live: int = 0
    listed: int = 0
    live: int | None = None
    applied: str | None = None
    marks: str | None = None
    mark_hashes: dict[str, str] = {}
    roots: IndexRoot = NO_INDEX
    policy: str | None = None
    documents: dict[str, Link] = {}


class LakeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the runs of a lake remember and that only the store can vouch for."""

    data: bytes


class SweepsCommit(Commit, frozen=True, kw_only=True):
    """The head of `sweeps`.

    `runs` leads from lake, start and run to RunRecord, `plans` from plan to PlanRecord, `lakes`
    from lake to LakeRecord, `outbox` from event and webhook to OutboxEntry.
    """

    runs: IndexRoot = NO_INDEX
    plans: IndexRoot = NO_INDEX
    lakes: IndexRoot = NO_INDEX
    outbox: IndexRoot = NO_INDEX


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Who may sweep a lake, and until when. The token grows with each holder."""

    token: int
    run: str
    holder: str
    expires_at: int


#: The types that a store must know to hold all this.
TYPES: Mapping[str, type[msgspec.Struct]] = {
    "sweeps": SweepsCommit,
    "sweep-run": RunRecord,
    "sweep-lake": LakeRecord,
    "sweep-document": LakeDocument,
    "sweep-lease": LeaseRecord,
    **live_records.TYPES,
}


def is_repository(lake: str) -> bool:
    """Whether a lake of that name is a repository."""
    return lake.startswith(REPOSITORY_PREFIX)


def is_table(lake: str) -> bool:
    """Whether plans of a lake of that name are expiries of one table."""
    return lake.startswith(TABLE_PREFIX)


def table_lake(job: str, address: str) -> str:
    """The name under which a job over a table, a database or a warehouse is recorded."""
    return f"{job}-{hashlib.sha256(folder_identity(address).encode()).hexdigest()[:12]}"


def command_prefix(lake: str) -> str:
    """How the commands for plans of a lake begin."""
    return "lakesweep lifecycle" if is_repository(lake) else "lakesweep"


def home_folder(lake: str, location: str) -> str:
    """The folder for Lakesweep's own files in a location of a lake.

    In a repository it lies beside the objects, which are its location.
    """
    if is_repository(lake):
        return f"{lake.removeprefix(REPOSITORY_PREFIX)}/{REPOSITORY_HOME}"
    return f"{location.rstrip('/')}/{LAKE_HOME}"


def homes_above(location: Address) -> Iterator[Address]:
    """The homes that lakes further out would have, up to that of the whole store."""
    parts = location.folder.rstrip("/").split("/") if location.folder else []
    for depth in range(len(parts) - 1, -1, -1):
        yield location.child("".join(f"{part}/" for part in parts[:depth]) + LAKE_HOME)


def plan_command(lake: str) -> str:
    """The command that makes a new plan; of tables, several tasks make them."""
    if is_repository(lake):
        return f"{command_prefix(lake)} plan REPO --policy FILE"
    if is_table(lake):
        table = lake.removeprefix(TABLE_PREFIX)
        return f"run the lakesweep iceberg command for {table} again, with --plan"
    return f"lakesweep plan {lake}"


def run_folder(plan: str, run: str) -> str:
    """The folder of a run that carries out the plan of an address."""
    return f"{plan.rstrip('/')}/apply-{run}"


def new_name(kind: str, clock: Clock) -> str:
    """A unique name that sorts by time."""
    return f"{kind}-{clock.now():%Y%m%dT%H%M%S}-{token_hex(4)}"
