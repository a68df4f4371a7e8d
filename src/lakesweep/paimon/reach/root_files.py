"""Files that nothing references because everything starts from them, and the table's version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.paimon.model.table import HINTS, PaimonBranch, PaimonTable
from lakesweep.paimon.reach.owners import FileOwner
from lakesweep.storage.listing.folder_level import info_batch
from lakesweep.storage.object_store import ObjectInfo

_SERVICE = "service-"
_OWNERS = (PaimonKind.SNAPSHOT, PaimonKind.TAG, PaimonKind.CHANGELOG_META)


def root_files(table: PaimonTable, owners: Iterable[FileOwner]) -> Iterator[pa.RecordBatch]:
    """Owners, and of all branches schemas, consumers and hints; and services, as FILE_SCHEMA."""
    base = table.address.base
    infos: dict[PaimonKind, list[ObjectInfo]] = {kind: [] for kind in _OWNERS}
    for owner in owners:
        infos[owner.kind].append(owner.file.info)
    for kind, found in infos.items():
        yield info_batch(kind, base, found)
    for branch in table.branches():
        yield info_batch(PaimonKind.CONSUMER, base, branch.consumer_files().values())
        yield info_batch(PaimonKind.SCHEMA, base, branch.schema_files().files.values())
        yield info_batch(PaimonKind.HINT, base, _hints(branch))
    files = table.list("service").files.items()
    services = [info for name, info in files if name.startswith(_SERVICE)]
    yield info_batch(PaimonKind.SERVICE, base, services)


def _hints(branch: PaimonBranch) -> list[ObjectInfo]:
    folders = (branch.snapshot_files().others, branch.changelog_files().others)
    return [others[name] for others in folders for name in HINTS if name in others]


@dataclass(frozen=True, slots=True)
class TableVersion:
    """The newest schema of the main branch, and a token over all that keeps files.

    The token changes with every snapshot, tag, changelog and schema of any branch that is added,
    removed or rewritten. Consumers and hints name no files, and change all
    the time, so they do not count.
    """

    schema_path: str
    token: str


def version_of(table: PaimonTable) -> TableVersion:
    """The version of a table that was opened. Any error of a listing is raised."""
    newest = max(table.main.schema_files().files.items())[1]
    infos = sorted((info for branch in table.branches() for info in _infos(branch)), key=_text)
    digest = hashlib.sha256("\n".join(map(_text, infos)).encode())
    return TableVersion(table.address.base + newest.key, digest.hexdigest()[:32])


def file_version(info: ObjectInfo) -> str:
    """What tells a file from another one that is written under the same name."""
    return f"{info.size_bytes} {info.modified} {info.etag}"


def _text(info: ObjectInfo) -> str:
    return f"{info.key} {file_version(info)}"


def _infos(branch: PaimonBranch) -> Iterator[ObjectInfo]:
    yield from branch.schema_files().files.values()
    yield from branch.snapshot_files().files.values()
    yield from branch.changelog_files().files.values()
    yield from branch.tag_files().values()
