"""Open Paimon tables by address, and list the files that they reach."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lakesweep.app import App
from lakesweep.errors import RefusedError, UsageError
from lakesweep.guard_names import GuardName
from lakesweep.marks.unreadable import Strict, Tolerant
from lakesweep.operations.interaction import EngineName, Interaction
from lakesweep.operations.tables.files import ReachedFiles
from lakesweep.paimon.expire.settle_time import store_time
from lakesweep.paimon.model.table import PaimonBranch, PaimonTable
from lakesweep.paimon.reach.live_files import state_files
from lakesweep.paimon.reach.walk import reached_files

MAIN = "main"


@dataclass(frozen=True, slots=True)
class PaimonFilesRequest:
    """All files of the table at an absolute address; or only the live files of one state.

    The state is a snapshot or a tag of `branch`, or the newest snapshot of it. `tolerant`
    continues past files that cannot be read, and is for all files only.
    """

    table: str
    branch: str | None = None
    snapshot: int | None = None
    tag: str | None = None
    tolerant: bool = False
    threads: int | None = None

    @property
    def is_one_state(self) -> bool:
        return not (self.branch is None and self.snapshot is None and self.tag is None)


class BranchRequest(Protocol):
    """What names a branch, and how its metadata is read."""

    @property
    def table(self) -> str:
        """The absolute address of the table."""
        ...

    @property
    def branch(self) -> str: ...

    @property
    def engine(self) -> EngineName:
        """Where manifests are read."""
        ...

    @property
    def threads(self) -> int | None:
        """How many threads read and delete; None is as many as suit the store."""
        ...


@contextmanager
def open_branch(app: App, request: BranchRequest, io: Interaction) -> Iterator[PaimonBranch]:
    """The branch that a request names. An engine ends with the block."""
    with ExitStack() as stack:
        pool = None
        if request.engine is EngineName.SPARK:
            from lakesweep.sweep.paimon_pool import EnginePool

            engine = app.engine(request.engine.value, verbose=io.verbose)
            pool = EnginePool(stack.enter_context(engine))
        table = PaimonTable.open(
            app.stores, request.table, app.clock, threads=request.threads, pool=pool
        )
        yield table.find_branch(request.branch)


def guard_clock(app: App, table: PaimonTable, overridden: Collection[str]) -> None:
    """Refuse if our clock is ahead of that of the table's store: all would look older than it is.

    The store counts, because it wrote the times that ages are taken from.
    """
    from lakesweep.sweep.guards import check_clock, clock_skew

    if GuardName.CLOCK in overridden:
        return
    since = app.clock.now()
    for guard in check_clock(clock_skew(since, store_time(table))):
        raise RefusedError(
            guard.name,
            f"{table.address.path}: {guard.message}; nothing was deleted",
            hint="set the clock of this machine",
        )


def paimon_files(app: App, request: PaimonFilesRequest) -> ReachedFiles:
    """The files that a table reaches, each once."""
    table = PaimonTable.open(app.stores, request.table, app.clock, threads=request.threads)
    if request.is_one_state:
        return ReachedFiles(_state_files(table, request))
    tolerance = Tolerant() if request.tolerant else Strict()
    problems = tolerance.problems if isinstance(tolerance, Tolerant) else ()
    return ReachedFiles(reached_files(table, tolerance), problems)


def _state_files(table: PaimonTable, request: PaimonFilesRequest) -> Iterator[pa.RecordBatch]:
    if request.tolerant:
        raise UsageError("--tolerant is for all files of a table, not for those of one state")
    if request.snapshot is not None and request.tag is not None:
        raise UsageError("give --snapshot or --tag, not both")
    branch = table.find_branch(request.branch or MAIN)
    if request.tag is not None:
        return state_files(branch, branch.tag(request.tag).snapshot)
    number = branch.latest_id() if request.snapshot is None else request.snapshot
    return iter(()) if number is None else state_files(branch, branch.snapshot(number))
