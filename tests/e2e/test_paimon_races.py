"""Processes that drop partitions of one table at once, while others expire its snapshots."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

from lakesweep.errors import ChangedError, ExistsError, LakesweepError
from lakesweep.paimon.expire.expiry import apply_expiry, plan_expiry
from lakesweep.paimon.expire.retention import RetentionOverrides, snapshot_retention
from lakesweep.paimon.expire.snapshot_expiry import choose_snapshots
from lakesweep.paimon.model.binary_row import encode_row
from lakesweep.paimon.model.data_types import parse_type
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.partitions.partition_drop import drop_partitions
from lakesweep.paimon.partitions.snapshot_partitions import SnapshotPartitions
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.stores import Stores
from tests.iceberg_tables import BUCKET
from tests.paimon_expiry import MemoryJournals
from tests.paimon_states import live_files, newest
from tests.paimon_tables import File, Table
from tests.servers import S3Server

PROCESSES = 8
ROUNDS = 40
KEPT = "kept"
#: As patient as a test must be in which everybody wants the same thing at the same time.
OPTIONS = {
    "commit.max-retries": "500",
    "commit.min-retry-wait": "1 ms",
    "commit.max-retry-wait": "100 ms",
    "manifest.merge-min-count": "5",
}


@dataclass(frozen=True)
class Place:
    """Where the table is, how each process reaches it, and how many partitions it drops."""

    address: str
    drops_each: int
    options: dict[str, StorageOptions] = field(default_factory=dict)

    @property
    def drops(self) -> int:
        return PROCESSES * self.drops_each

    def table(self) -> PaimonTable:
        return PaimonTable.open(Stores(self.options), self.address)


def _row(value: str) -> bytes:
    return encode_row([value], [parse_type("STRING")])


def _fill(place: Place) -> None:
    """A table of many partitions with a file each, and one that nobody drops."""
    made = Table(partition_keys=["k"], options=OPTIONS)
    values = [KEPT, *(str(n) for n in range(place.drops))]
    files = [File(f"data-{value}.orc", partition=_row(value)) for value in values]
    made.snapshot(1, made.manifest(*files), totalRecordCount=len(files))
    stores = Stores(place.options)
    page = made.bucket.store.list("")
    for key in page.entries["key"].to_pylist():
        path = f"{place.address}/{key.partition('/')[2]}"
        stores.open(path).write(_key(path, stores), made.bucket.read(f"{BUCKET}/{key}"))


def _key(path: str, stores: Stores) -> str:
    return path.removeprefix(stores.open(path).base)


def _only(wanted: bytes, _: SnapshotPartitions) -> list[bytes]:
    return [wanted]


@contextmanager
def _told() -> Iterator[None]:
    """Our errors do not travel between processes; their text does."""
    try:
        yield
    except LakesweepError as error:
        raise AssertionError(f"{type(error).__name__}: {error}") from None


@_told()
def _drop_some(place: Place, first: int) -> list[int]:
    """Drop a few partitions, one after the other; the snapshots that did it."""
    table = place.table()
    commits = []
    for number in range(first, first + place.drops_each):
        done = drop_partitions(table.main, partial(_only, _row(str(number))))
        assert done.snapshot is not None
        commits.append(done.snapshot.id)
    return commits


@_told()
def _expire_often(place: Place, times: int) -> int:
    """Expire all snapshots but the newest two, again and again; how many went."""
    gone = 0
    for _ in range(times):
        table = place.table()
        retention = snapshot_retention(table.options, table.clock.now())
        wanted = RetentionOverrides(retain_min=2, retain_max=2, limit=100).over(retention)
        log = MemoryJournals()
        # One who finds that another has expired the same meanwhile leaves it at that.
        with (
            suppress(ChangedError),
            plan_expiry(table, choose_snapshots(table.main, wanted), log.known) as plan,
        ):
            apply_expiry(plan, table.stores, log, settle=timedelta())
            gone += plan.total_files
    return gone


def _run_drops(place: Place, pool: ProcessPoolExecutor) -> list[int]:
    firsts = range(0, place.drops, place.drops_each)
    return [number for each in pool.map(partial(_drop_some, place), firsts) for number in each]


def _pool() -> ProcessPoolExecutor:
    """Processes that need not import everything again, and so begin nearly at once."""
    return ProcessPoolExecutor(PROCESSES, mp_context=multiprocessing.get_context("forkserver"))


@pytest.fixture
def local(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "t"), 2)


@pytest.fixture
def s3(moto: S3Server, request: pytest.FixtureRequest) -> Place:
    bucket = moto.make_bucket(f"races-{abs(hash(request.node.name))}")
    return Place(f"s3://{bucket}/t", 1, {f"s3://{bucket}": moto.options()})


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest) -> Place:
    """An empty place on local disk, and one in a bucket."""
    found: Place = request.getfixturevalue(request.param)
    return found


def _partitions(table: PaimonTable, number: int) -> set[str]:
    files = live_files(table, table.main.snapshot(number))
    return {path.partition("/")[0].removeprefix("k=") for path in files}


def test_no_commit_of_processes_that_drop_at_once_is_lost(place: Place) -> None:
    _fill(place)
    with _pool() as pool:
        commits = _run_drops(place, pool)
    table = place.table()
    assert sorted(commits) == list(range(2, 2 + place.drops))
    assert table.main.snapshot_ids() == [1, *sorted(commits)]
    assert _partitions(table, newest(table).id) == {KEPT}
    sizes = [len(_partitions(table, number)) for number in table.main.snapshot_ids()]
    assert sizes == list(range(1 + place.drops, 0, -1))
    assert newest(table).total_record_count == 1


def test_drops_and_expiries_at_once_lose_nothing(place: Place) -> None:
    _fill(place)
    with _pool() as pool:
        expiries = [pool.submit(_expire_often, place, 3) for _ in range(2)]
        commits = _run_drops(place, pool)
        assert all(each.result() >= 0 for each in expiries)
    table = place.table()
    assert len(set(commits)) == place.drops
    assert newest(table).id == max(commits) == 1 + place.drops
    assert _partitions(table, newest(table).id) == {KEPT}
    for number in table.main.snapshot_ids():
        assert KEPT in _partitions(table, number)


def test_this_server_lets_exactly_one_conditional_write_win(moto: S3Server) -> None:
    """A server that lets two of them win would prove nothing above."""
    bucket = moto.make_bucket("conditional-races")
    stores = Stores({f"s3://{bucket}": moto.options()})
    barrier = Barrier(PROCESSES)

    def write(turn: int, who: int) -> bool:
        barrier.wait()
        with suppress(ExistsError):
            stores.open(f"s3://{bucket}").write_new(f"round-{turn}", str(who).encode())
            return True
        return False

    def rounds() -> Iterator[int]:
        with ThreadPoolExecutor(PROCESSES) as pool:
            for turn in range(ROUNDS):
                yield sum(pool.map(partial(write, turn), range(PROCESSES)))

    assert set(rounds()) == {1}
