"""The history of a table: its snapshots, and the branches and tags that keep them.

Decoded from the metadata document for retention alone. What contradicts itself is damaged: to
expire by half of a document would delete what the other half needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

import msgspec

from lakesweep.errors import DamagedError
from lakesweep.untrusted.documents import (
    LARGEST_LONG,
    JsonObject,
    Long,
    Millis,
    decode_json,
    inflate_gzip,
    parse_long,
)
from lakesweep.untrusted.limits import DEFAULT_LIMITS, ReadLimits, reading

MAIN = "main"
_NO_SNAPSHOT = -1
_MANY_SNAPSHOTS, _MANY_FILES = 2_000, 1_000_000
_Positive = Annotated[int, msgspec.Meta(gt=0, le=LARGEST_LONG)]


class RefType(StrEnum):
    """A branch moves with each commit; a tag stays."""

    BRANCH = "branch"
    TAG = "tag"


class HistorySnapshot(msgspec.Struct, frozen=True, rename="kebab"):
    """One snapshot, as far as retention looks at it."""

    id: Long = msgspec.field(name="snapshot-id")
    timestamp_ms: Millis
    parent: Long | None = msgspec.field(name="parent-snapshot-id", default=None)
    summary: JsonObject | None = None
    key_id: str | None = None


class HistoryRef(msgspec.Struct, frozen=True, rename="kebab"):
    """A branch or a tag, with its own retention."""

    snapshot_id: Long
    type: RefType = RefType.BRANCH
    min_snapshots_to_keep: _Positive | None = None
    max_snapshot_age_ms: _Positive | None = None
    max_ref_age_ms: _Positive | None = None


class _LoggedSnapshot(msgspec.Struct, frozen=True, rename="kebab"):
    snapshot_id: Long


class _HistoryDocument(msgspec.Struct, frozen=True, rename="kebab"):
    current_snapshot_id: Long | None = None
    refs: dict[str, HistoryRef] | None = None
    snapshots: list[HistorySnapshot] | None = None
    snapshot_log: list[_LoggedSnapshot] | None = None
    properties: JsonObject | None = None
    encryption_keys: list[Any] | None = None


@dataclass(frozen=True)
class SnapshotHistory:
    """All snapshots and refs of a table. Every ref points to one of the snapshots."""

    path: str
    snapshots: Mapping[int, HistorySnapshot]
    refs: Mapping[str, HistoryRef]
    properties: Mapping[str, str] = field(default_factory=dict)
    #: Snapshots that were current at some time, as far as the log says.
    logged: frozenset[int] = frozenset()
    is_encrypted: bool = False

    def ancestors(self, snapshot: int) -> Iterator[HistorySnapshot]:
        """A snapshot and those before it, newest first, up to a parent that is not there.

        A cycle of parents ends the walk: such a table can be read, so it must not hang.
        """
        seen: set[int] = set()
        found = self.snapshots.get(snapshot)
        while found is not None and found.id not in seen:
            seen.add(found.id)
            yield found
            found = None if found.parent is None else self.snapshots.get(found.parent)

    @property
    def is_large(self) -> bool:
        """Whether its snapshots name more files than one process should read, by summaries."""
        counts = (_added_files(each.summary or {}) for each in self.snapshots.values())
        return len(self.snapshots) >= _MANY_SNAPSHOTS or sum(counts) >= _MANY_FILES

    @cached_property
    def published(self) -> frozenset[str]:
        """The ids of staged changes that were published later."""
        found = ((each.summary or {}).get("published-wap-id") for each in self.snapshots.values())
        return frozenset(str(each) for each in found if each is not None)

    def is_staged(self, snapshot: HistorySnapshot) -> bool:
        """Whether it was staged for an audit (write-audit-publish) and never published."""
        staged = (snapshot.summary or {}).get("wap.id")
        return staged is not None and str(staged) not in self.published


def _added_files(summary: Mapping[str, Any]) -> int:
    """How many files a commit brought, as far as it says so."""
    names = ("added-data-files", "added-delete-files")
    return sum(parse_long(str(summary.get(name))) or 0 for name in names)


def parse_history(path: str, data: bytes, limits: ReadLimits = DEFAULT_LIMITS) -> SnapshotHistory:
    """The history in a metadata document; DamagedError if it contradicts itself."""
    with reading(path):
        content = inflate_gzip(path, data, limits)
        found = decode_json(path, content, _HistoryDocument, "Iceberg metadata")
    snapshots = {each.id: each for each in found.snapshots or ()}
    refs = _refs(path, found)
    _check(path, found, refs)
    properties = {key: str(value) for key, value in (found.properties or {}).items()}
    return SnapshotHistory(
        path,
        snapshots,
        refs,
        properties,
        frozenset(each.snapshot_id for each in found.snapshot_log or ()),
        is_encrypted=bool(found.encryption_keys)
        or "encryption.key-id" in properties
        or any(each.key_id is not None for each in snapshots.values()),
    )


def _refs(path: str, document: _HistoryDocument) -> dict[str, HistoryRef]:
    """All refs; older writers have a current snapshot and no `main`."""
    refs, current = dict(document.refs or {}), document.current_snapshot_id
    if current is None or current == _NO_SNAPSHOT:
        if MAIN in refs:
            raise DamagedError(path, "has a branch main and no current snapshot")
        return refs
    if refs.setdefault(MAIN, HistoryRef(current)).snapshot_id != current:
        raise DamagedError(
            path,
            f"main points to snapshot {refs[MAIN].snapshot_id}, but {current} is current",
        )
    return refs


def _check(path: str, document: _HistoryDocument, refs: Mapping[str, HistoryRef]) -> None:
    counts = Counter(each.id for each in document.snapshots or ())
    for snapshot, count in counts.items():
        if count > 1:
            raise DamagedError(path, f"has {count} snapshots {snapshot}")
    for name, ref in refs.items():
        if ref.snapshot_id not in counts:
            raise DamagedError(
                path, f"{name!r} points to snapshot {ref.snapshot_id}, which does not exist"
            )
