"""Data files of which every row is older than a cut-off, by their partition values.

Each file is judged under its own spec: by the value of a transform of the column, which must lie
wholly before the cut-off, or else by the bounds of the column. A file that is not proved to be old
stays, and so does one whose partition value is null: both are counted. Nothing is read but
metadata.
"""

from __future__ import annotations

import re
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any

from lakesweep.errors import UsageError
from lakesweep.iceberg.document.fields import plain
from lakesweep.iceberg.rewrite import manifest_list as lists
from lakesweep.iceberg.rewrite.manifest_entries import FileFacts, Manifest
from lakesweep.iceberg.rewrite.snapshot_draft import TableHead, spec_fields
from lakesweep.storage.address import identity
from lakesweep.untrusted.documents import JsonObject
from lakesweep.upkeep.head_change import HeadChange, is_any, without

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MICROS_A_DAY = 86_400_000_000
_MICROS_AN_HOUR = 3_600_000_000
_MICROS = ("timestamp", "timestamptz")
_NANOS = ("timestamp_ns", "timestamptz_ns")
_DAY_TEXT = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})")


class FileAge(StrEnum):
    """What is known of the age of a file."""

    OLD = "old"
    YOUNG = "young"
    IN_PART = "in part"
    NULL = "null"
    UNKNOWN = "unknown"
    NOT_PLANNED = "not planned"


@dataclass(frozen=True)
class PartitionExpiry:
    """Files that go, by partition, and how many stay for want of a proof."""

    change: HeadChange
    partitions: Mapping[str, tuple[int, int]]
    ages: Mapping[FileAge, int]


def plan_partition_expiry(
    head: TableHead,
    column: str,
    before: datetime,
    may_leave: Callable[[str], bool] = is_any,
) -> PartitionExpiry:
    """The change that removes all data files whose rows are certainly before a moment.

    Files that may not leave stay, whatever their age.
    Deletion vectors and position deletes of these files go with them.
    """
    judge = AgeJudge.of(head, column, before)
    ages: Counter[FileAge] = Counter()
    partitions: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    found: list[tuple[Manifest, set[int]]] = []
    gone: set[str] = set()
    rows = 0
    for manifest in map(head.read, head.manifests(lists.DATA)):
        positions = set[int]()
        for at, entry in enumerate(manifest.entries):
            if entry.is_live:
                age = judge.age(manifest.form.spec, entry.facts)
                if age is FileAge.OLD and not may_leave(entry.facts.path):
                    age = FileAge.NOT_PLANNED
                ages[age] += 1
                if age is FileAge.OLD:
                    positions.add(at)
                    gone.add(identity(entry.facts.path))
                    rows += entry.facts.records
                    label = judge.label(manifest.form.spec, entry.facts)
                    partitions[label][0] += 1
                    partitions[label][1] += entry.facts.size_bytes
        found.append((manifest, positions))
    deletes = list(_deletes_of(head, gone)) if gone else []
    figures = {
        "data_files": sum(ages.values()),
        "removed": ages[FileAge.OLD],
        "removed_rows": rows,
        "removed_bytes": sum(size for _, size in partitions.values()),
        "removed_delete_files": sum(len(positions) for _, positions in deletes),
        "kept_in_part": ages[FileAge.IN_PART],
        "kept_null": ages[FileAge.NULL],
        "kept_unknown": ages[FileAge.UNKNOWN],
    }
    if ages[FileAge.NOT_PLANNED]:
        figures["kept_not_planned"] = ages[FileAge.NOT_PLANNED]
    change = without(head, "delete", [*found, *deletes], figures)
    totals = {label: (files, size) for label, (files, size) in sorted(partitions.items())}
    return PartitionExpiry(change, totals, ages)


def _deletes_of(head: TableHead, gone: set[str]) -> Iterator[tuple[Manifest, set[int]]]:
    """Delete files that name one of some data files."""
    for manifest in map(head.read, head.manifests(lists.DELETES)):
        yield (
            manifest,
            {
                at
                for at, entry in enumerate(manifest.entries)
                if entry.is_live
                and entry.facts.referenced is not None
                and identity(entry.facts.referenced) in gone
            },
        )


@dataclass(frozen=True)
class AgeJudge:
    """Judges files by one column. `cut` is the cut-off in the units of each transform."""

    column: int
    type: str
    cut: Mapping[str, int]
    specs: Mapping[int, list[JsonObject]] = field(repr=False)

    @classmethod
    def of(cls, head: TableHead, column: str, before: datetime) -> AgeJudge:
        """How the files of a table are judged; UsageError for a column without an age."""
        found = _column(head, column)
        kind = str(found["type"])
        if kind not in (*_MICROS, *_NANOS, "date", "string"):
            raise UsageError(
                f"column {column} of {head.table.name} is a {kind}, which has no age",
                hint="name a column of dates, timestamps, or texts such as 2026-01-31",
            )
        return cls.at(int(found["id"]), kind, before, spec_fields(head.table))

    @classmethod
    def at(
        cls, column: int, kind: str, before: datetime, specs: Mapping[int, list[JsonObject]]
    ) -> AgeJudge:
        """The same for a column by its id and type."""
        micros = (before - _EPOCH) // _MICROSECOND
        years, months = before.year - 1970, (before.year - 1970) * 12 + before.month - 1
        cut = {
            "year": years,
            "month": months,
            "day": micros // _MICROS_A_DAY,
            "hour": micros // _MICROS_AN_HOUR,
            "micros": micros,
            "nanos": micros * 1000,
        }
        return cls(column, kind, cut, specs)

    def age(self, spec: int, facts: FileFacts) -> FileAge:
        """What the partition values of a file prove, or else its bounds."""
        found = {self._value_age(*each) for each in self._values(spec, facts)}
        if FileAge.OLD in found:
            return FileAge.OLD
        if FileAge.NULL in found or FileAge.YOUNG in found:
            return FileAge.NULL if FileAge.NULL in found else FileAge.YOUNG
        if self._is_old_by_bounds(facts):
            return FileAge.OLD
        return FileAge.IN_PART if FileAge.IN_PART in found else FileAge.UNKNOWN

    def label(self, spec: int, facts: FileFacts) -> str:
        """The partition of a file, for people."""
        fields = self.specs.get(spec, [])
        values = zip(fields, facts.partition, strict=False)
        return "/".join(f"{each['name']}={value}" for each, value in values) or "-"

    def _values(self, spec: int, facts: FileFacts) -> Iterator[tuple[str, Any]]:
        for each, value in zip(self.specs.get(spec, []), facts.partition, strict=False):
            sources = each.get("source-ids") or [each.get("source-id")]
            if sources == [self.column]:
                yield str(each["transform"]), value

    def _value_age(self, transform: str, value: Any) -> FileAge:
        if transform not in ("identity", "year", "month", "day", "hour"):
            return FileAge.UNKNOWN
        if value is None:
            return FileAge.NULL
        if transform == "identity":
            return self._identity_age(value)
        cut = self.cut[transform]
        # Old writers rounded times before 1970 the wrong way.
        certain = value + 1 if value < 0 else value
        if certain < cut:
            return FileAge.OLD
        return FileAge.IN_PART if value <= cut else FileAge.YOUNG

    def _identity_age(self, value: Any) -> FileAge:
        if self.type == "string":
            day = _day(value)
            if day is None:
                return FileAge.UNKNOWN
            return FileAge.OLD if day < self.cut["day"] else FileAge.YOUNG
        return FileAge.OLD if value < self._own_cut else FileAge.YOUNG

    @property
    def _own_cut(self) -> int:
        if self.type == "date":
            return self.cut["day"]
        return self.cut["nanos" if self.type in _NANOS else "micros"]

    def _is_old_by_bounds(self, facts: FileFacts) -> bool:
        """Whether there is no null, and the greatest value is before the cut-off."""
        upper = (facts.upper_bounds or {}).get(self.column)
        if self.type == "string" or upper is None:
            return False
        if (facts.null_counts or {}).get(self.column) != 0:
            return False
        unpack: Callable[[bytes], tuple[Any, ...]] = struct.Struct(
            "<i" if self.type == "date" else "<q"
        ).unpack
        try:
            (value,) = unpack(upper)
        except struct.error:
            return False
        return bool(value < self._own_cut)


def _day(text: str) -> int | None:
    """The day that a text names, in days since 1970: 2026-01-31 or 20260131."""
    found = _DAY_TEXT.fullmatch(text)
    if found is None:
        return None
    try:
        return (date(*map(int, found.groups())) - _EPOCH.date()).days
    except ValueError:
        return None


def _column(head: TableHead, name: str) -> JsonObject:
    """A column of the current schema, by its name; parts of a struct have dots between names."""
    fields: Any = _schema(head)["fields"]
    found: JsonObject | None = None
    for part in name.split("."):
        found = next((each for each in fields if each["name"] == part), None)
        if found is None:
            raise UsageError(
                f"{head.table.name} has no column {name}",
                hint="name a column of the current schema",
            )
        fields = found["type"].get("fields", []) if isinstance(found["type"], dict) else []
    assert found is not None
    return found


def _schema(head: TableHead) -> JsonObject:
    document = head.table.document
    current = document.get("current-schema-id", int | None)
    schemas: list[JsonObject] = document.get("schemas", list[JsonObject] | None) or []
    for schema in schemas:
        if schema.get("schema-id") == current:
            return schema
    found: JsonObject = plain(document.fields["schema"])
    return found
