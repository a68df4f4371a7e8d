"""A metadata document as raw JSON: only what is asked for is decoded, and the rest never changes.

The document is edited, not rebuilt: every field that an edit does not touch keeps its place, its
spelling and its bytes, whether this program knows it or not. The same holds for the entries of
lists: a snapshot that stays is the bytes that its writer wrote.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, Self, TypeVar

import msgspec
from msgspec import Raw

from lakesweep.decoding import typed_json
from lakesweep.errors import DamagedError, InvalidUpdateError, LakesweepError
from lakesweep.untrusted.documents import JSON_ERRORS, JsonObject, Long, decode_json, inflate_gzip
from lakesweep.untrusted.limits import DEFAULT_LIMITS, ReadLimits, reading

MAIN = "main"
BRANCH, TAG = "branch", "tag"
#: How v1 and v2 write that there is no current snapshot; v3 writes null.
NO_SNAPSHOT = -1
_FIRST_WITH_NULL_SNAPSHOT = 3
_NULL = b"null"
_LONGEST_REASON = 500

Head = TypeVar("Head")


class SnapshotHead(msgspec.Struct, frozen=True, rename="kebab"):
    """What a snapshot says of itself, without its summary."""

    snapshot_id: Long
    timestamp_ms: Long = 0
    parent_snapshot_id: Long | None = None
    sequence_number: Long | None = None
    first_row_id: Long | None = None
    added_rows: Long | None = None


class SnapshotRef(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A branch or tag, with its own retention."""

    snapshot_id: Long
    type: str = BRANCH
    min_snapshots_to_keep: Long | None = None
    max_snapshot_age_ms: Long | None = None
    max_ref_age_ms: Long | None = None


class OfSnapshot(msgspec.Struct, frozen=True, rename="kebab"):
    """An entry that belongs to a snapshot: statistics, or a line of the snapshot log."""

    snapshot_id: Long
    timestamp_ms: Long = 0


class LogLine(msgspec.Struct, frozen=True, rename="kebab"):
    """A line of the metadata log."""

    timestamp_ms: Long
    metadata_file: str


class SchemaId(msgspec.Struct, frozen=True, rename="kebab"):
    """A schema in a list of schemas."""

    schema_id: int = 0


class SpecId(msgspec.Struct, frozen=True, rename="kebab"):
    """A partition spec in a list of them."""

    spec_id: int


class OrderId(msgspec.Struct, frozen=True, rename="kebab"):
    """A sort order in a list of them."""

    order_id: int


class KeyId(msgspec.Struct, frozen=True, rename="kebab"):
    """An encryption key in a list of them."""

    key_id: str


class Entry(NamedTuple, Generic[Head]):
    """An entry of a list: what was decoded of it, and all of it."""

    head: Head
    raw: Raw


class _Fields(ABC):
    """What a document says, read from its fields."""

    path: str

    @abstractmethod
    def get(self, name: str, kind: Any) -> Any:
        """A field, decoded; None if it is absent or null."""

    @property
    def format_version(self) -> int:
        return int(self.get("format-version", int) or 1)

    @property
    def current_snapshot(self) -> int | None:
        """The id of the current snapshot, if there is one."""
        found: int | None = self.get("current-snapshot-id", Long | None)
        return None if found == NO_SNAPSHOT else found

    def refs(self) -> dict[str, SnapshotRef]:
        """All branches and tags. Old writers leave `main` out; then the current snapshot is it."""
        refs: dict[str, SnapshotRef] = self.get("refs", dict[str, SnapshotRef] | None) or {}
        current = self.current_snapshot
        if MAIN not in refs and current is not None:
            return {MAIN: SnapshotRef(current), **refs}
        return refs

    def properties(self) -> dict[str, str]:
        """The properties. A value that is no text counts as its JSON."""
        found: JsonObject = self.get("properties", JsonObject | None) or {}
        return {
            name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for name, value in found.items()
        }

    def metadata_log(self) -> Sequence[LogLine]:
        """Earlier metadata files, oldest first."""
        return self.get("metadata-log", list[LogLine] | None) or ()


class RawDocument(_Fields):
    """The top-level fields of a metadata document, in their order. Immutable.

    `path` names it in errors.
    """

    def __init__(self, path: str, fields: Mapping[str, Raw]) -> None:
        self.path = path
        self.fields = fields

    @classmethod
    def parse(cls, path: str, data: bytes, limits: ReadLimits = DEFAULT_LIMITS) -> Self:
        """A metadata file, compressed or not; FormatError if it is damaged."""
        with reading(path):
            content = inflate_gzip(path, data, limits)
            return cls(path, decode_json(path, content, dict[str, Raw], "Iceberg metadata"))

    def get(self, name: str, kind: Any) -> Any:
        return decode_field(self.path, name, self.fields.get(name), kind)

    def snapshots(self) -> Sequence[SnapshotHead]:
        """The snapshots, without their summaries."""
        return self.get("snapshots", list[SnapshotHead] | None) or ()

    def encode(self) -> bytes:
        """The whole document as JSON."""
        pieces: list[bytes | Raw] = []
        for name, raw in self.fields.items():
            pieces += (b"," if pieces else b"{", msgspec.json.encode(name), b":", raw)
        # One join: documents of 100 MB exist, and each further copy shows.
        return b"".join((*pieces, b"}")) if pieces else b"{}"


class DocumentEdit(_Fields):
    """A document that is being changed.

    A value equal to what is there changes nothing: without a change there is nothing to commit.
    Lists are joined when they are asked for, since one request may change a long one many times.
    """

    def __init__(self, document: RawDocument, now_ms: int) -> None:
        self.path = document.path
        self.now_ms = now_ms
        self.changed = False
        self._fields = dict(document.fields)
        self._entries: dict[str, list[Entry[Any]]] = {}
        self._not_joined: set[str] = set()

    def get(self, name: str, kind: Any) -> Any:
        if name in self._not_joined:
            self._join(name)
        return decode_field(self.path, name, self._fields.get(name), kind)

    def has(self, name: str) -> bool:
        """Whether a field is there."""
        return name in self._fields

    def put(self, name: str, value: object) -> None:
        """Set a field, unless it has that value."""
        raw = encode(value)
        found = self._fields.get(name)
        if found is None or plain(found) != plain(raw):
            self._fields[name] = raw
            self.changed = True

    def drop(self, name: str) -> None:
        """Remove a field."""
        if self._fields.pop(name, None) is not None:
            self.changed = True

    def entries(self, name: str, kind: type[Head]) -> list[Entry[Head]]:
        """The entries of a list; none if it is absent."""
        if name not in self._entries:
            raw = self._fields.get(name)
            heads = decode_field(self.path, name, raw, list[kind] | None)  # type: ignore[valid-type]
            raws = decode_field(self.path, name, raw, list[Raw] | None)
            self._entries[name] = list(map(Entry, heads or (), raws or ()))
        return self._entries[name]

    def put_entries(self, name: str, entries: Iterable[Entry[Head]]) -> None:
        """Replace the entries of a list."""
        self._entries[name] = list(entries)
        self._fields.setdefault(name, Raw(b"[]"))
        self._not_joined.add(name)
        self.changed = True

    def keep_entries(self, name: str, kept: Sequence[Entry[Head]], kind: type[Head]) -> None:
        """Leave only some entries of a list, if it is there at all."""
        if len(kept) != len(self.entries(name, kind)):
            self.put_entries(name, kept)

    def result(self) -> RawDocument:
        """The changed document."""
        for name in tuple(self._not_joined):
            self._join(name)
        return RawDocument(self.path, dict(self._fields))

    def _join(self, name: str) -> None:
        self._not_joined.discard(name)
        pieces: list[bytes | Raw] = []
        for entry in self._entries[name]:
            pieces += (b"," if pieces else b"[", entry.raw)
        self._fields[name] = Raw(b"".join((*pieces, b"]"))) if pieces else Raw(b"[]")


def encode(value: object) -> Raw:
    """A value as raw JSON."""
    return value if isinstance(value, Raw) else Raw(msgspec.json.encode(value))


def plain(raw: Raw) -> Any:
    """Raw JSON as a plain value."""
    return msgspec.json.decode(raw)


def decode_field(path: str, name: str, raw: Raw | None, kind: Any) -> Any:
    """A field of a document, decoded; DamagedError if it has another shape."""
    if raw is None or (memoryview(raw).nbytes == len(_NULL) and bytes(raw) == _NULL):
        return None
    try:
        return typed_json(raw, kind)
    except JSON_ERRORS as error:
        raise DamagedError(
            path, f"its field {name} is not as Iceberg writes it: {error}"
        ) from error


def decode_sent(what: str, raw: Raw, kind: Any) -> Any:
    """A value that a client sent; InvalidUpdateError if it has another shape."""
    try:
        return typed_json(raw, kind)
    except JSON_ERRORS as error:
        raise InvalidUpdateError(f"the {what} cannot be read: {error}") from error


@contextmanager
def applying() -> Iterator[None]:
    """Turn any exception inside into one that says that the updates do not fit.

    Values that clients send have any shape, and so have documents of strange writers.
    """
    try:
        yield
    except LakesweepError:
        raise
    except Exception as error:
        text = f"the updates do not fit the document: {type(error).__name__}: {error}"
        raise InvalidUpdateError(text[:_LONGEST_REASON]) from error


def no_snapshot(format_version: int) -> int | None:
    """What `current-snapshot-id` is when there is none."""
    return None if format_version >= _FIRST_WITH_NULL_SNAPSHOT else NO_SNAPSHOT
