"""Opening tables, and what their branches hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakesweep.clock import ManualClock, SystemClock
from lakesweep.errors import DamagedError, MissingError, NotFoundError, TruncatedError
from lakesweep.paimon.model.table import PaimonBranch, PaimonTable
from lakesweep.paimon.model.warehouse import find_tables
from lakesweep.storage.address import parse
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.base import StoreWrapper
from tests.iceberg_tables import BUCKET, Bucket
from tests.paimon_history import StoreBucket
from tests.paimon_tables import Table


def opened(table: Table) -> PaimonTable:
    return PaimonTable.open(table.bucket.stores, table.address)


def with_snapshots(*numbers: int) -> tuple[Table, PaimonBranch]:
    table = Table()
    for number in numbers:
        table.snapshot(number)
    return table, opened(table).main


def test_a_folder_without_a_schema_is_no_table() -> None:
    with pytest.raises(NotFoundError, match="is no Paimon table") as caught:
        PaimonTable.open(Bucket().stores, f"{BUCKET}/nothing")
    assert caught.value.exit_code == 6


@pytest.mark.parametrize(
    "left", ["snapshot/snapshot-1", "snapshot/LATEST", "tag/tag-a", "branch/branch-b/schema/x"]
)
def test_a_table_that_lost_its_schemas_is_damaged(left: str) -> None:
    table = Table()
    table.write(left, b"1")
    table.delete("schema/schema-0")
    with pytest.raises(DamagedError, match="holds no schema, although"):
        opened(table)


def test_a_table_is_known_by_its_folder_with_or_without_a_slash() -> None:
    table = Table()
    again = PaimonTable.open(table.bucket.stores, f"{table.address}/")
    assert again.address == opened(table).address


def test_the_newest_schema_counts() -> None:
    table = Table()
    table.schema(2, options={"bucket": "7"})
    table.schema(10, options={"bucket": "8"})
    assert opened(table).options.integer("bucket", 1) == 8


def test_a_schema_of_another_number_is_damaged() -> None:
    table = Table()
    table.schema(1, id=3)
    with pytest.raises(DamagedError, match="says that it is number 3"):
        opened(table).schema(1)


def test_branches_come_after_main_by_name() -> None:
    table = Table()
    for name in ("dev", "b", "2024.01"):
        table.schema(branch=name)
    assert [branch.name for branch in opened(table).branches()] == ["main", "2024.01", "b", "dev"]


def test_a_folder_in_the_place_of_a_branch_called_main_is_damaged() -> None:
    table = Table()
    table.write("branch/branch-main/schema/schema-0", b"{}")
    with pytest.raises(DamagedError, match="main is the table itself"):
        opened(table).branches()


def _linked(tmp_path: Path, name: str) -> Path:
    """A link in the place of something of a table, and what it leads to, which is not there."""
    link, goal = tmp_path / "t" / name, tmp_path / "elsewhere"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(goal)
    return goal


def test_branches_and_folders_of_tags_that_are_links_are_there(tmp_path: Path) -> None:
    _linked(tmp_path, "branch/branch-b").mkdir()
    _linked(tmp_path, "tag/tag-old")
    (tmp_path / "elsewhere" / "1").write_text("{}")
    table = PaimonTable(Stores(), parse(str(tmp_path / "t")))
    assert [branch.name for branch in table.branches()] == ["main", "b"]
    assert list(table.main.tag_files()) == ["old/1"]


@pytest.mark.parametrize("name", ["tag", "tag/tag-1", "branch", "branch/branch-b"])
def test_links_that_lead_nowhere_are_no_empty_folders(tmp_path: Path, name: str) -> None:
    _linked(tmp_path, name)
    table = PaimonTable(Stores(), parse(str(tmp_path / "t")))
    with pytest.raises(DamagedError, match="is a broken link"):
        [branch.tag_files() for branch in table.branches()]


def test_a_database_or_table_that_is_a_link_to_nowhere_is_told(tmp_path: Path) -> None:
    for name in ("w/gone.db", "w/shop.db/gone"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).symlink_to(tmp_path / "nowhere")
    found = find_tables(Stores(), str(tmp_path / "w"), SystemClock())
    lost = {failure.table.removeprefix(f"{tmp_path}/") for failure in found.failures}
    assert lost == {"w/gone.db/", "w/shop.db/gone/"}


def test_names_of_tags_and_consumers_may_have_slashes() -> None:
    table = Table()
    main = opened(table).main
    table.tag("release/1/0", table.snapshot(1))
    table.write("tag/tag-success-file/x_SUCCESS", b"{}")
    table.write("consumer/consumer-job/a", b'{"nextSnapshot": 1}')
    assert [tag.name for tag in main.tags()] == ["release/1/0"]
    assert [consumer.name for consumer in main.consumers()] == ["job/a"]


def test_the_mark_of_a_folder_of_tags_is_no_tag() -> None:
    bucket = StoreBucket()
    table = Table(bucket)  # type: ignore[arg-type]
    table.tag("release/1", table.snapshot(1))
    bucket.write(f"{table.address}/tag/tag-release/", b"")
    base = table.address.removesuffix("t")
    main = PaimonTable.open(Stores(replace={base: bucket.store}), table.address).main
    assert [tag.name for tag in main.tags()] == ["release/1"]


def test_a_branch_that_is_not_there_is_not_found() -> None:
    table = Table()
    table.schema(branch="dev")
    with pytest.raises(NotFoundError, match="has no branch prod") as caught:
        opened(table).find_branch("prod")
    assert caught.value.hint == "its branches are main, dev"


def test_snapshots_come_in_the_order_of_their_numbers() -> None:
    _, branch = with_snapshots(10, 9, 2)
    assert branch.snapshot_ids() == [2, 9, 10]


@pytest.mark.parametrize(
    "name",
    ["snapshot-99a", "snapshot-", "snapshot-007", "snapshot--1", ".snapshot-3.x.tmp", "LATEST"],
)
def test_names_without_a_number_are_no_snapshots(name: str) -> None:
    table, branch = with_snapshots(1)
    table.write(f"snapshot/{name}", b"{}")
    assert branch.snapshot_ids() == [1]
    assert list(branch.snapshot_files().others) == [name]


def test_a_snapshot_that_says_another_number_is_damaged() -> None:
    table, branch = with_snapshots(1)
    table.snapshot(2, id=3)
    with pytest.raises(DamagedError, match="says that it is number 3"):
        branch.snapshot(2)


@pytest.mark.parametrize(
    ("hint", "latest"),
    [(b"3", 3), (b"2", 3), (b"9", 3), (b"", 3), (b"x", 3), (b" 3\n", 3), (None, 3)],
)
def test_a_hint_of_the_newest_snapshot_is_checked(hint: bytes | None, latest: int) -> None:
    table, branch = with_snapshots(1, 2, 3)
    if hint is not None:
        table.write("snapshot/LATEST", hint)
    assert branch.latest_id() == latest


@pytest.mark.parametrize(("hint", "earliest"), [(b"3", 3), (b"2", 2), (b"1", 2), (None, 2)])
def test_a_hint_of_the_oldest_snapshot_is_checked(hint: bytes | None, earliest: int) -> None:
    table, branch = with_snapshots(2, 3)
    if hint is not None:
        table.write("snapshot/EARLIEST", hint)
    assert branch.earliest_id() == earliest


def test_a_table_without_snapshots_has_no_newest_one() -> None:
    _, branch = with_snapshots()
    assert (branch.latest_id(), branch.earliest_id()) == (None, None)


def test_tags_tell_when_they_were_made_and_how_long_they_stay() -> None:
    table, branch = with_snapshots()
    document = table.snapshot(1)
    made = {"tagCreateTime": [2024, 2, 3, 4, 5, 6, 789_000_000], "tagTimeRetained": 86400.5}
    table.tag("v1", document | made)
    (tag,) = branch.tags()
    assert tag.created == datetime(2024, 2, 3, 4, 5, 6, 789_000)  # noqa: DTZ001
    assert tag.retained == timedelta(days=1, seconds=0.5)


def test_a_time_without_seconds_is_short() -> None:
    table, branch = with_snapshots()
    table.tag("v1", table.snapshot(1) | {"tagCreateTime": [2024, 2, 3, 4, 5]})
    assert branch.tag("v1").created == datetime(2024, 2, 3, 4, 5)  # noqa: DTZ001


def test_tags_come_in_the_order_of_their_snapshots() -> None:
    table, branch = with_snapshots()
    for name, number in (("a", 10), ("b", 9), ("c", 10)):
        table.tag(name, table.snapshot(number))
    assert [tag.name for tag in branch.tags()] == ["b", "a", "c"]


def test_a_tag_that_says_no_time_has_that_of_its_file() -> None:
    table, branch = with_snapshots()
    table.tag("v1", table.snapshot(1))
    (tag,) = branch.tags()
    assert (tag.created, tag.retained) == (None, None)
    assert tag.modified is not None


def test_consumers_tell_where_they_go_on() -> None:
    table, branch = with_snapshots()
    table.write("consumer/consumer-job", {"nextSnapshot": 5})
    assert [(each.name, each.next_snapshot) for each in branch.consumers()] == [("job", 5)]


class Rewriting(StoreWrapper):
    """A store whose file is half written at the first readings, and then whole, or gone."""

    def __init__(self, store: ObjectStore, readings: list[bytes | None]) -> None:
        super().__init__(store)
        self._readings = readings

    def read(self, key: str) -> bytes:
        if not key.endswith("consumer-job"):
            return self.store.read(key)
        content = self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]
        if content is None:
            raise MissingError(key)
        return content


def consumers_of(readings: list[bytes | None]) -> tuple[list[int], float]:
    """The snapshots that consumers wait for, and how long it took to know."""
    table = Table()
    table.write("consumer/consumer-job", b"")
    clock = ManualClock(datetime(2024, 1, 1, tzinfo=UTC))
    stores = Stores(replace={BUCKET: Rewriting(table.bucket.store, readings)})
    branch = PaimonTable.open(stores, table.address, clock).main
    start = clock.monotonic()
    return [each.next_snapshot for each in branch.consumers()], clock.monotonic() - start


def test_a_consumer_that_is_being_rewritten_is_read_again() -> None:
    found, seconds = consumers_of([b"", b'{"next', b'{"nextSnapshot": 7}'])
    assert found == [7]
    assert seconds == pytest.approx(0.4)


def test_a_consumer_that_goes_away_is_none() -> None:
    assert consumers_of([b"", None])[0] == []


def test_a_consumer_that_stays_unreadable_is_an_error() -> None:
    with pytest.raises(TruncatedError, match="is empty"):
        consumers_of([b""])
