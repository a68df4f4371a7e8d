"""Plan a scan: from a snapshot and a filter to the files that have to be read.

Manifests whose partitions cannot match are not read. The rest is divided into groups of manifests,
so that no answer is larger than a client can hold; a group is named by its numbers in the manifest
list, which never changes. So nothing has to be remembered between two requests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

from lakesweep.errors import DamagedError, InvalidUpdateError, UnsupportedError
from lakesweep.iceberg.document.fields import RawDocument
from lakesweep.iceberg.metadata import absolute_path, read_file
from lakesweep.iceberg.rewrite import manifest_list as lists
from lakesweep.iceberg.rewrite.manifest_list import ManifestRow, read_list
from lakesweep.iceberg.scan.content_files import (
    BOUNDS,
    FILTERED,
    STATISTICS,
    ContentFile,
    read_content_files,
)
from lakesweep.iceberg.scan.delete_index import DeleteIndex
from lakesweep.iceberg.scan.filters import (
    UNKNOWN_RANGE,
    BoundTerm,
    ColumnNames,
    ColumnRange,
    Residual,
    ScanFilter,
    bind_filter,
    columns_of,
    residual_of,
)
from lakesweep.iceberg.scan.partitions import PartitionColumn, PartitionLayout, layouts_of
from lakesweep.iceberg.scan.single_values import base_of, decode_bound, is_float
from lakesweep.parallel import map_ordered
from lakesweep.storage.stores import Stores
from lakesweep.untrusted.documents import JsonObject

#: An answer has about this many files at most, unless one manifest has more.
FILES_A_GROUP = 2_000
_RELATIVE_PATHS_SINCE = 4
_WORKERS = 8
_MOST_ANCESTORS = 1_000_000

#: Refuses to read a file that the table has no business with.
CheckPath = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ScanRange:
    """What a scan reads: one snapshot, or what was appended after `start` up to `snapshot`."""

    snapshot: int | None = None
    start: int | None = None


@dataclass(frozen=True, slots=True)
class ScanChoice:
    """Which rows and columns a scan wants."""

    filter: Any = True
    select: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    is_case_sensitive: bool = True
    uses_snapshot_schema: bool = False


@dataclass(frozen=True, slots=True)
class ScanTask:
    """A data file, the delete files to read it with, and what is left of the filter."""

    data: ContentFile
    deletes: tuple[ContentFile, ...]
    residual: Residual


@dataclass(frozen=True, slots=True)
class ManifestGroup:
    """Data manifests that are planned together: from one number in the list up to another."""

    first: int
    end: int


@dataclass(frozen=True)
class ScanPlanner:
    """Plans scans of one table as of one metadata file."""

    document: RawDocument
    stores: Stores
    check_path: CheckPath
    range: ScanRange
    choice: ScanChoice

    @cached_property
    def schemas(self) -> Sequence[Mapping[str, Any]]:
        """All schemas, the one of this scan first."""
        found = self.document.get("schemas", list[JsonObject] | None)
        found = found or [self.document.get("schema", JsonObject)]
        wanted = self.document.get("current-schema-id", int | None)
        if self.choice.uses_snapshot_schema and self.snapshot is not None:
            wanted = self.snapshot.get("schema-id", wanted)
        return sorted(found, key=lambda each: each.get("schema-id", 0) != (wanted or 0))

    @cached_property
    def snapshots(self) -> Mapping[int, Mapping[str, Any]]:
        """All snapshots by their ids."""
        found = self.document.get("snapshots", list[JsonObject] | None) or ()
        return {each["snapshot-id"]: each for each in found}

    @cached_property
    def snapshot(self) -> Mapping[str, Any] | None:
        """The snapshot to read; None for a table without one."""
        number = self.range.snapshot
        if number is None:
            number = self.document.current_snapshot
        if number is None:
            return None
        return self._snapshot(number)

    def _snapshot(self, number: int) -> Mapping[str, Any]:
        found = self.snapshots.get(number)
        if found is None:
            raise InvalidUpdateError(f"Cannot find snapshot with ID {number}")
        return found

    @cached_property
    def names(self) -> ColumnNames:
        """The columns by name."""
        return ColumnNames.of(self.schemas[0], case_sensitive=self.choice.is_case_sensitive)

    @cached_property
    def filter(self) -> ScanFilter:
        """The filter, bound to the schema."""
        return bind_filter(self.choice.filter, self.names)

    @cached_property
    def layouts(self) -> Mapping[int, PartitionLayout]:
        """The partition specs."""
        return layouts_of(self.document, self.schemas)

    @cached_property
    def statistics(self) -> frozenset[int]:
        """The columns whose statistics are asked for."""
        return frozenset(self.names.find(name)[0] for name in self.choice.statistics)

    @cached_property
    def rows(self) -> Sequence[ManifestRow]:
        """The data manifests, in an order that is the same for every request."""
        if self.range.start is not None:
            return self._appended_rows()
        return [] if self.snapshot is None else self._listed(self.snapshot, lists.DATA)

    @cached_property
    def _wanted(self) -> frozenset[int] | None:
        """The snapshots whose added files are wanted; None for all files."""
        if self.range.start is None:
            return None
        return frozenset(each["snapshot-id"] for each in self._appends())

    def _appends(self) -> Iterator[Mapping[str, Any]]:
        """The appends after the start, newest first."""
        assert self.snapshot is not None
        at: Mapping[str, Any] | None = self.snapshot
        for _ in range(_MOST_ANCESTORS):
            if at is None:
                break
            if at["snapshot-id"] == self.range.start:
                return
            if (at.get("summary") or {}).get("operation") == "append":
                yield at
            parent = at.get("parent-snapshot-id")
            if parent == self.range.start:
                return
            at = None if parent is None else self.snapshots.get(parent)
        raise InvalidUpdateError(
            f"Starting snapshot {self.range.start} is not an ancestor of the end snapshot"
        )

    def _appended_rows(self) -> Sequence[ManifestRow]:
        if self.snapshot is None:
            raise InvalidUpdateError("the table has no snapshot")
        found: dict[str, ManifestRow] = {}
        for snapshot in self._appends():
            for row in self._listed(snapshot, lists.DATA):
                if row.get(lists.ADDED_SNAPSHOT) == snapshot["snapshot-id"]:
                    found.setdefault(row[lists.PATH], row)
        return list(found.values())

    def _listed(self, snapshot: Mapping[str, Any], content: int) -> list[ManifestRow]:
        path = snapshot.get("manifest-list")
        if not path:
            raise UnsupportedError(self.document.path, "its snapshots embed their manifests")
        path = self._absolute(path)
        self.check_path(path)
        rows = read_list(path, read_file(self.stores, path), self.stores.limits).rows
        found = [dict(row) for row in rows if (row.get(lists.CONTENT) or 0) == content]
        for row in found:
            row[lists.PATH] = self._absolute(row[lists.PATH])
        return found

    def _absolute(self, path: str) -> str:
        is_relative = self.document.format_version >= _RELATIVE_PATHS_SINCE
        return absolute_path(path, self.document.get("location", str) if is_relative else None)

    def check(self) -> None:
        """InvalidUpdateError if the filter or a column cannot be meant."""
        for name in self.choice.select:
            self.names.find(name)
        _ = self.filter, self.statistics, self.snapshot

    def groups(self) -> Iterator[ManifestGroup]:
        """How the manifests are divided."""
        first = files = 0
        for at, row in enumerate(self.rows):
            size = sum(row.get(key) or 0 for key in lists.COUNTS[:2])
            if files and files + size > FILES_A_GROUP:
                yield ManifestGroup(first, at)
                first, files = at, 0
            files += size
        if files or first < len(self.rows):
            yield ManifestGroup(first, len(self.rows))

    def tasks(self, group: ManifestGroup) -> Iterator[ScanTask]:
        """The files of a group of manifests that may have matching rows."""
        rows = list(islice(self.rows, group.first, group.end))
        deletes: DeleteIndex | None = None
        for file in self._files(rows, self._columns()):
            residual = self._residual(file)
            if residual is False:
                continue
            deletes = deletes or self._deletes()
            yield ScanTask(file, tuple(deletes.of(file)), residual)

    def _columns(self) -> tuple[str, ...]:
        if self.statistics:
            return tuple(STATISTICS)
        return FILTERED if columns_of(self.filter) else ()

    def _files(
        self, rows: Iterable[ManifestRow], statistics: tuple[str, ...]
    ) -> Iterator[ContentFile]:
        chosen = [row for row in rows if self._may_match(row)]
        for row, data in zip(chosen, self._read(chosen), strict=True):
            layout = self._layout(row)
            for file in read_content_files(row, data, layout, self.stores.limits, statistics):
                if self._wanted is None or (file.is_added and file.snapshot in self._wanted):
                    yield file

    def _read(self, rows: Sequence[ManifestRow]) -> Iterator[bytes]:
        for row in rows:
            self.check_path(row[lists.PATH])
        paths = [row[lists.PATH] for row in rows]
        yield from map_ordered(lambda path: read_file(self.stores, path), paths, workers=_WORKERS)

    def _layout(self, row: ManifestRow) -> PartitionLayout:
        found = self.layouts.get(row[lists.SPEC])
        if found is None:
            raise DamagedError(row[lists.PATH], f"there is no partition spec {row[lists.SPEC]}")
        return found

    def _deletes(self) -> DeleteIndex:
        if self._wanted is not None or self.snapshot is None:
            return DeleteIndex(())
        rows = self._listed(self.snapshot, lists.DELETES)
        found: list[ContentFile] = []
        for row, data in zip(rows, self._read(rows), strict=True):
            layout = self._layout(row)
            found += read_content_files(row, data, layout, self.stores.limits, BOUNDS)
        return DeleteIndex(found)

    def _may_match(self, row: ManifestRow) -> bool:
        """Whether a manifest may name files with matching rows, by its partitions."""
        summaries, layout = row.get(lists.PARTITIONS), self._layout(row)
        if not summaries or len(summaries) != len(layout.columns):
            return True
        ranges = {
            column.source_id: ColumnRange(*_summary_bounds(column, summary))
            for column, summary in zip(layout.columns, summaries, strict=True)
        }

        def facts(term: BoundTerm) -> ColumnRange:
            is_column = term.transform is None
            return ranges.get(term.field_id, UNKNOWN_RANGE) if is_column else UNKNOWN_RANGE

        return residual_of(self.filter, facts, lambda _, __: True) is not False

    def _residual(self, file: ContentFile) -> Residual:
        if self.filter is True:
            return True
        judge = _FileFacts(file)
        return residual_of(self.filter, judge.facts, judge.may_have)


def _summary_bounds(column: PartitionColumn, summary: Mapping[str, Any]) -> tuple[Any, Any]:
    if summary.get("contains_nan") or (
        is_float(column.kind) and summary.get("contains_nan") is None
    ):
        return None, None
    low, high = (decode_bound(column.kind, summary.get(f"{end}_bound")) for end in _ENDS)
    return column.bounds(low, high)


_ENDS = ("lower", "upper")


@dataclass(frozen=True, slots=True)
class _FileFacts:
    """What is known of the columns of one file."""

    file: ContentFile

    def facts(self, term: BoundTerm) -> ColumnRange:
        if term.transform is not None:
            return UNKNOWN_RANGE
        known = self._metrics(term)
        for column, value in zip(self.file.layout.columns, self.file.partition, strict=True):
            if column.source_id != term.field_id or not column.keeps_null:
                continue
            if value is None:
                return ColumnRange(is_all_null=True, may_be_nan=False)
            known = replace(known, may_be_null=False)
            if not (isinstance(value, float) and math.isnan(value)):
                known = known.within(*column.bounds(value, value))
        return known

    def may_have(self, term: BoundTerm, value: Any) -> bool:
        """Whether rows may have a value, by the buckets that they lie in."""
        if term.transform is not None:
            return True
        for column, own in zip(self.file.layout.columns, self.file.partition, strict=True):
            if column.source_id == term.field_id and own is not None:
                bucket = column.bucket(value)
                if bucket is not None and bucket != own:
                    return False
        return True

    def _metrics(self, term: BoundTerm) -> ColumnRange:
        number, found = term.field_id, self.file.statistics
        values = found.get("value_counts", {}).get(number)
        nulls = found.get("null_value_counts", {}).get(number)
        nans = found.get("nan_value_counts", {}).get(number)
        low, high = (
            decode_bound(term.kind, found.get(f"{end}_bounds", {}).get(number)) for end in _ENDS
        )
        may_be_nan = is_float(term.kind) and nans != 0
        return ColumnRange(
            low,
            high,
            may_be_null=nulls != 0,
            is_all_null=values is not None and values > 0 and nulls == values,
            may_be_nan=may_be_nan or base_of(term.kind) in ("nested", "variant"),
            is_all_nan=values is not None and values > 0 and nans == values,
        )
