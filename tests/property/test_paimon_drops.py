"""Random histories of files and drops: what is live is what a simple model says, crash or not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakesweep.paimon.model.binary_row import encode_row
from lakesweep.paimon.model.data_types import parse_type
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.partitions.partition_drop import drop_partitions
from lakesweep.storage.stores import Stores
from lakesweep.storage.wrappers.faults import Faulty, InterceptedCall, StorageFault
from tests.dict_store import Death
from tests.iceberg_tables import BUCKET
from tests.paimon_states import live_files, manifests, newest
from tests.paimon_tables import File, Row, Table
from tests.random_tests import examples

PARTITIONS = ("a", "b", "long-enough-to-need-room", "")
WRITES = frozenset({"write", "write_new", "delete"})

_partition = st.sampled_from(PARTITIONS)
_append = st.tuples(st.just("append"), st.lists(_partition, min_size=1, max_size=4))
_upgrade = st.tuples(st.just("upgrade"), st.integers(0, 9))
_drop = st.tuples(
    st.just("drop"), st.tuples(st.sets(_partition, min_size=1), st.none() | st.integers(0, 6))
)
_options = st.fixed_dictionaries(
    {"manifest.merge-min-count": st.sampled_from(["2", "3", "30"])},
    optional={
        "manifest.full-compaction-threshold-size": st.sampled_from(["1 b", "5 kb"]),
        "manifest.target-file-size": st.sampled_from(["1 b", "3 kb"]),
    },
)


def _row(value: str) -> bytes:
    return encode_row([value], [parse_type("STRING")])


def _die(_: InterceptedCall) -> Any:
    raise Death


@dataclass
class History:
    """A table, and which files are live in it, by name: their partition and level."""

    made: Table
    live: dict[str, tuple[str, int]] = field(default_factory=dict)
    snapshots: dict[int, set[str]] = field(default_factory=dict)
    names: int = 0

    def open(self, stores: Stores | None = None) -> PaimonTable:
        return PaimonTable.open(stores or self.made.bucket.stores, self.made.address)

    def append(self, partitions: list[str]) -> None:
        files = []
        for partition in partitions:
            self.names += 1
            self.live[f"f{self.names}"] = (partition, 0)
            files.append(File(f"f{self.names}", partition=_row(partition)))
        self._commit(*files)

    def upgrade(self, which: int) -> None:
        """Give a file another level, as compaction does: one DELETE and one ADD of its name."""
        if not self.live:
            return
        name = sorted(self.live)[which % len(self.live)]
        partition, level = self.live[name]
        self.live[name] = (partition, level + 1)
        gone = File(name, kind=1, partition=_row(partition), level=level)
        self._commit(gone, File(name, partition=_row(partition), level=level + 1))

    def drop(self, choice: tuple[set[str], int | None]) -> None:
        partitions, crash = choice
        wanted = [_row(partition) for partition in partitions]
        before = len(self.open().main.snapshot_ids())
        with suppress(Death):
            drop_partitions(self.open(self._stores(crash)).main, lambda _: wanted)
        if len(self.open().main.snapshot_ids()) > before:
            self.live = {n: it for n, it in self.live.items() if it[0] not in partitions}
        self._remember()

    def check(self) -> None:
        """Every snapshot shows what it showed when it was new."""
        table = self.open()
        for number, expected in self.snapshots.items():
            found = live_files(table, table.main.snapshot(number))
            assert {path.rpartition("/")[2] for path in found} == expected
        levels = {
            path.rpartition("/")[2]: entry["_FILE"]["_LEVEL"]
            for path, entry in live_files(table, newest(table)).items()
        }
        assert levels == {name: level for name, (_, level) in self.live.items()}

    def _commit(self, *files: File) -> None:
        number = 1 + max(self.snapshots, default=0)
        self.made.snapshot(number, self.made.manifest(*files), base=self._base())
        self._remember()

    def _base(self) -> list[Row]:
        table = self.open()
        return manifests(table, newest(table)) if self.snapshots else []

    def _stores(self, crash: int | None) -> Stores:
        faults = [] if crash is None else [StorageFault(_die, WRITES, skip=crash)]
        return Stores(replace={BUCKET: Faulty(self.made.bucket.store, faults)})

    def _remember(self) -> None:
        numbers = self.open().main.snapshot_ids()
        self.snapshots.setdefault(max(numbers, default=0), set(self.live))


@examples(15)
@given(_options, st.lists(_append | _upgrade | _drop, max_size=12))
def test_what_is_live_is_what_was_added_and_not_dropped(
    options: dict[str, str], deeds: list[tuple[str, Any]]
) -> None:
    history = History(Table(partition_keys=["k"], options=options))
    history.append(["a", "b"])
    do: dict[str, Callable[[Any], None]] = {
        "append": history.append,
        "upgrade": history.upgrade,
        "drop": history.drop,
    }
    for name, argument in deeds:
        do[name](argument)
    history.check()
