"""Expiring snapshots, changelogs and tags of Java's tables in memory, with crashes and faults."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from lakesweep.clock import ManualClock
from lakesweep.paimon.expire.expiry import Expiry, ExpiryOutcome, apply_expiry, plan_expiry
from lakesweep.paimon.expire.owner_copies import recover_owners
from lakesweep.paimon.expire.retention import (
    RetentionOverrides,
    changelog_retention,
    snapshot_retention,
)
from lakesweep.paimon.expire.snapshot_expiry import choose_changelogs, choose_snapshots
from lakesweep.paimon.manifests.named_files import index_files_of, manifests_of
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.paimon.reach.owners import FileOwner, list_owner_files, read_owners
from lakesweep.storage.object_store import ENTRY_SCHEMA, ListingPage, ObjectStore
from lakesweep.storage.stores import Stores
from tests.dict_store import DictStore
from tests.moments import NOON
from tests.paimon import JavaTable

ROOT = "memory://bucket/t"
#: Two writes to a store in memory, whose clock moves by a second with each.
MOMENT = timedelta(seconds=1)

Choose = Callable[[PaimonTable], Expiry]


class ListedStore(DictStore):
    """A store in memory that can be listed, all of it on one page."""

    def list(
        self, prefix: str, *, one_level: bool = False, after: str = "", cursor: object | None = None
    ) -> ListingPage:
        assert not after
        assert cursor is None
        keys = sorted(key for key in self.current() if key.startswith(prefix))
        folders = {
            prefix + key[len(prefix) :].partition("/")[0] + "/"
            for key in keys
            if one_level and "/" in key[len(prefix) :]
        }
        files = [key for key in keys if not (one_level and "/" in key[len(prefix) :])]
        infos = [self.head(key) for key in files]
        rows = [
            {"key": i.key, "size_bytes": i.size_bytes, "modified": i.modified, "etag": i.etag}
            for i in infos
        ]
        return ListingPage(
            pa.RecordBatch.from_pylist(rows, schema=ENTRY_SCHEMA), tuple(sorted(folders))
        )

    def copy_all(self) -> ListedStore:
        """Another store with the same objects."""
        other = ListedStore()
        for key, data in self.current().items():
            other.write(key, data)
        return other


def in_memory(java: JavaTable) -> ListedStore:
    """One of Java's tables, in memory at ROOT."""
    store = ListedStore()
    for name in java.stored():
        store.write(f"t/{name}", (java.folder / name).read_bytes())
    return store


def names(store: DictStore) -> Mapping[str, bytes]:
    """What the table holds, by its names below the table, but for journals."""
    found = {key.removeprefix("t/"): data for key, data in store.current().items()}
    return {name: data for name, data in found.items() if not name.startswith("_lakesweep/")}


def journals(store: DictStore) -> list[str]:
    """The files of journals."""
    return [key for key in store.current() if key.startswith("t/_lakesweep/")]


def open_table(store: ObjectStore, now: datetime = NOON) -> PaimonTable:
    """The table in a store, which may fail."""
    return PaimonTable.open(Stores(replace={ROOT: store}), ROOT, ManualClock(now))


class Bystander(ManualClock):
    """A clock on which others write something in the first wait."""

    def __init__(self, act: Callable[[], None], start: datetime = NOON) -> None:
        super().__init__(start)
        self._act: Callable[[], None] | None = act

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        act, self._act = self._act, None
        if act is not None:
            act()


@dataclass
class MemoryJournals:
    """What a store would say about journals: their hashes by address."""

    hashes: dict[str, str] = field(default_factory=dict)

    def known(self, address: str) -> str | None:
        return self.hashes.get(address)

    def recorded(self) -> list[str]:
        return list(self.hashes)

    def register(self, address: str) -> None:
        self.hashes[address] = ""

    def vouch(self, address: str, sha256: str) -> None:
        self.hashes[address] = sha256

    def forget(self, address: str) -> None:
        self.hashes.pop(address, None)

    def check(self) -> None:
        return


def expire(
    store: ObjectStore,
    choose: Choose,
    now: datetime = NOON,
    log: MemoryJournals | None = None,
) -> tuple[set[str], ExpiryOutcome]:
    """Plan and carry out; the names of what was planned to go. `log` knows earlier journals."""
    table = open_table(store, now)
    log = log or MemoryJournals()
    list(recover_owners(table, log))
    with plan_expiry(table, choose(table), log.known) as plan:
        paths = [path for batch in plan.all_batches() for path in batch["path"].to_pylist()]
        outcome = apply_expiry(plan, table.stores, log, settle=MOMENT)
    assert len(paths) == len(set(paths)) == plan.total_files
    return {path.removeprefix(f"{ROOT}/") for path in paths}, outcome


def keep(least: int = 1, most: int = 1, branch: str = "main") -> Choose:
    """Expire snapshots until few are left."""
    overrides = RetentionOverrides(retain_min=least, retain_max=most, limit=1000)
    return snapshots_by(overrides, branch)


def snapshots_by(overrides: RetentionOverrides, branch: str = "main") -> Choose:
    """Expire snapshots by what a call says, at the time when the newest was committed."""

    def choose(table: PaimonTable) -> Expiry:
        at = table.branch(branch)
        return choose_snapshots(at, overrides.over(snapshot_retention(table.options, _last(table))))

    return choose


def changelogs_by(overrides: RetentionOverrides) -> Choose:
    """The same for changelogs."""

    def choose(table: PaimonTable) -> Expiry:
        return choose_changelogs(
            table.main, overrides.over(changelog_retention(table.options, _last(table)))
        )

    return choose


def overrides_of(case: Mapping[str, Any]) -> RetentionOverrides:
    """What a case of Java's was called with."""
    if case["args"] == "java api":
        most = 2 if case["case"].startswith("expire_changelog") else 1
        return RetentionOverrides(retain_min=1, retain_max=most, limit=50)
    found = dict(re.findall(r"(\w+)=>'?([^',]*)'?", case["args"]))
    cut = found.get("older_than")
    return RetentionOverrides(
        retain_min=_number(found.get("retain_min")),
        retain_max=_number(found.get("retain_max")),
        cut=None if cut is None else datetime.fromisoformat(cut).replace(tzinfo=UTC),
        limit=_number(found.get("max_deletes", "50")),  # Java's default
    )


def missing_files(store: DictStore, java: JavaTable) -> set[str]:
    """What an owner that is there needs and is not there, by Java's word for the live files.

    Lists, manifests, index files and changelog files are looked up in what the owners name.
    """
    there = names(store)
    table = open_table(store)
    needed: set[str] = set()
    for owner in read_owners(list_owner_files(table)):
        needed.update(java.live().get(_java_name(owner), ()))
        needed.update(path.removeprefix(f"{ROOT}/") for path in _needs(table, owner, there))
    return needed - there.keys()


def _needs(table: PaimonTable, owner: FileOwner, there: Mapping[str, bytes]) -> Iterator[str]:
    snapshot = owner.snapshot
    for each in owner.lists():
        path = table.layout.manifest(each.name)
        if each.needed or path.removeprefix(f"{ROOT}/") in there:
            yield path
            for manifest in manifests_of(table, each.name):
                yield table.layout.manifest(manifest.name)
    if owner.needs_state and snapshot.index_manifest is not None:
        yield table.layout.manifest(snapshot.index_manifest)
        yield from index_files_of(table, owner.branch.layout, snapshot.index_manifest)[
            0
        ].to_pylist()
    if owner.needs_state and snapshot.statistics is not None:
        yield table.layout.statistics(snapshot.statistics)


def _java_name(owner: FileOwner) -> str:
    return f"{owner.branch.name}:{owner.path.rpartition('/')[2]}"


def _last(table: PaimonTable) -> datetime:
    """A minute after the newest commit."""
    ids = table.main.snapshot_ids()
    millis = table.main.snapshot(ids[-1]).time_millis if ids else 0
    return datetime.fromtimestamp(millis / 1000, UTC) + timedelta(minutes=1)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
