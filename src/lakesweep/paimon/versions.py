"""What tells a table from a later version of itself, found by listing its folders alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from lakesweep.paimon.table import Branch, PaimonTable
from lakesweep.storage.store import ObjectInfo


@dataclass(frozen=True, slots=True)
class TableVersion:
    """The newest schema of the main branch, and a token over all that keeps files.

    The token changes with every snapshot, tag, changelog and schema of any branch that comes, goes
    or is written anew. Consumers and hints name no files, and move all day: they do not count.
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


def _infos(branch: Branch) -> Iterator[ObjectInfo]:
    yield from branch.schema_files().files.values()
    yield from branch.snapshot_files().files.values()
    yield from branch.changelog_files().files.values()
    yield from branch.tag_files().values()
