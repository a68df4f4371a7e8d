"""The files of a table that nothing names, because all begins with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lakesweep.paimon.kinds import Kind
from lakesweep.paimon.owners import Owner
from lakesweep.paimon.table import HINTS, Branch, PaimonTable
from lakesweep.storage.levels import info_batch
from lakesweep.storage.store import ObjectInfo

_SERVICE = "service-"
_OWNERS = (Kind.SNAPSHOT, Kind.TAG, Kind.CHANGELOG_META)


def root_files(table: PaimonTable, owners: Iterable[Owner]) -> Iterator[pa.RecordBatch]:
    """Owners, and of all branches schemas, consumers and hints; and services, as FILE_SCHEMA."""
    base = table.address.base
    infos: dict[Kind, list[ObjectInfo]] = {kind: [] for kind in _OWNERS}
    for owner in owners:
        infos[owner.kind].append(owner.file.info)
    for kind, found in infos.items():
        yield info_batch(kind, base, found)
    for branch in table.branches():
        yield info_batch(Kind.CONSUMER, base, branch.consumer_files().values())
        yield info_batch(Kind.SCHEMA, base, branch.schema_files().files.values())
        yield info_batch(Kind.HINT, base, _hints(branch))
    files = table.list("service").files.items()
    services = [info for name, info in files if name.startswith(_SERVICE)]
    yield info_batch(Kind.SERVICE, base, services)


def _hints(branch: Branch) -> list[ObjectInfo]:
    folders = (branch.snapshot_files().others, branch.changelog_files().others)
    return [others[name] for others in folders for name in HINTS if name in others]
