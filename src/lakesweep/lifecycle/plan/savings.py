"""What a plan saves, by rule, ref and prefix, and how much each ref holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.sweep.judge.totals import FileTotals

if TYPE_CHECKING:
    from lakesweep.lakefs.refs.commit_graph import Refs, RepositoryCommit
    from lakesweep.lifecycle.entries.cache import Segment
    from lakesweep.storage.object_store import StoreOpener

#: The most branches and tags that are reported, largest first.
_MOST_REFS = 1_000

#: The name of rows of savings among task results.
SAVED = "saved"

_KEYS = ["verdict", "rule", "prefix", "holder"]
_SUMS = [("files", "sum"), ("bytes", "sum")]
_ROWS = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in _KEYS),
        pa.field("files", pa.int64()),
        pa.field("bytes", pa.int64()),
    ]
)


class SavedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What is deleted and kept of one rule, prefix or holder; the other two are unset."""

    rule: str | msgspec.UnsetType = msgspec.UNSET
    prefix: str | msgspec.UnsetType = msgspec.UNSET
    holder: str | msgspec.UnsetType = msgspec.UNSET
    delete: FileTotals
    keep: FileTotals


class Savings(msgspec.Struct, frozen=True):
    """What a plan saves, most bytes to delete first."""

    rule: tuple[SavedFiles, ...]
    prefix: tuple[SavedFiles, ...]
    holder: tuple[SavedFiles, ...]


class RefSize(msgspec.Struct, frozen=True):
    """What a branch or tag holds, and how long ago it moved.

    `own_range_bytes` are in ranges that no other branch or tag has. Without the ref at most these
    could be deleted, and fewer if objects are in several ranges.
    """

    kind: str
    name: str
    commit: str
    committed: datetime
    days: int
    objects: int
    bytes: int
    own_range_bytes: int


class SavingsSum:
    """Files and bytes by verdict, rule, prefix and holder."""

    def __init__(self) -> None:
        self._sums = _ROWS.empty_table()

    def add(self, verdicts: pa.RecordBatch, said: pa.RecordBatch) -> None:
        """Count objects by their verdicts (VERDICTS) and what was said of them."""
        count = verdicts.num_rows
        columns = [
            verdicts["verdict"],
            *(said[name] for name in _KEYS[1:]),
            pa.repeat(pa.scalar(1, pa.int64()), count),
            pc.fill_null(verdicts["size_bytes"], 0),
        ]
        rows = pa.Table.from_arrays(columns, schema=_ROWS)
        self._sums = _add_up([self._sums, rows])

    def rows(self) -> list[dict[str, Any]]:
        """All counts."""
        return self._sums.to_pylist()  # type: ignore[no-any-return]


def _add_up(tables: Iterable[pa.Table]) -> pa.Table:
    sums = pa.concat_tables(tables).group_by(_KEYS).aggregate(_SUMS)
    return sums.rename_columns(_ROWS.names).cast(_ROWS)


def savings(answers: Iterable[Mapping[str, Any]]) -> Savings:
    """What is deleted and kept by rule, prefix and holder."""
    rows = _add_up([pa.Table.from_pylist(list(answers), schema=_ROWS)])
    return Savings(**{name: _by(rows, name) for name in _KEYS[1:]})


def _by(rows: pa.Table, name: str) -> tuple[SavedFiles, ...]:
    known = rows.filter(pc.is_valid(rows[name]))
    sums = known.group_by([name, "verdict"]).aggregate(_SUMS)
    found: dict[str, dict[str, FileTotals]] = {}
    for row in sums.to_pylist():
        totals = FileTotals(row["files_sum"], row["bytes_sum"])
        found.setdefault(row[name], {})[row["verdict"]] = totals
    nothing = FileTotals()
    lines = [
        SavedFiles(**{name: key}, delete=of.get("delete", nothing), keep=of.get("keep", nothing))
        for key, of in sorted(found.items())
    ]
    return tuple(sorted(lines, key=lambda line: -line.delete.bytes))


def ref_sizes(
    stores: StoreOpener, segments: Sequence[Segment], refs: Refs, now: datetime
) -> tuple[RefSize, ...]:
    """What each branch and tag holds, most bytes first."""
    commits = refs.commits
    heads = [("branch", each.name, commits[each.commit_id]) for each in refs.branches]
    heads += [("tag", each.name, commits[each.commit_id]) for each in refs.tags]
    sizes = _tree_sizes(stores, segments, {head.metarange_id for _, _, head in heads} - {""})
    holders = Counter(head.metarange_id for _, _, head in heads)
    lines = [
        _ref_line(kind, name, head, sizes, holders[head.metarange_id] == 1, now)
        for kind, name, head in heads
    ]
    lines.sort(key=lambda line: (-line.bytes, line.kind, line.name))
    return tuple(lines[:_MOST_REFS])


def _ref_line(
    kind: str,
    name: str,
    head: RepositoryCommit,
    sizes: Mapping[str, _Tree],
    is_alone: bool,
    now: datetime,
) -> RefSize:
    tree = sizes.get(head.metarange_id, _Tree(0, 0, 0))
    days = max(0, (now - head.created).days)
    own_bytes = tree.alone_bytes if is_alone else 0
    return RefSize(
        kind, name, head.id, head.created, days, tree.objects, tree.size_bytes, own_bytes
    )


class _Tree(NamedTuple):
    objects: int
    size_bytes: int
    alone_bytes: int


def _tree_sizes(
    stores: StoreOpener, segments: Sequence[Segment], metaranges: set[str]
) -> Mapping[str, _Tree]:
    """Objects and bytes of each metarange, and the bytes of ranges that only it has."""
    if not segments or not metaranges:
        return {}
    wanted = pc.field("metarange_id").isin(metaranges)
    edges = _read(stores, [each.edges for each in segments], ["metarange_id", "range_id"], wanted)
    edges = edges.group_by(["metarange_id", "range_id"]).aggregate([])
    in_use = pc.field("range_id").isin(edges["range_id"].unique())
    columns = ["range_id", "entries", "size_bytes"]
    ranges = _read(stores, [each.ranges for each in segments], columns, in_use)
    ranges = ranges.group_by("range_id").aggregate([("entries", "max"), ("size_bytes", "max")])
    shared = edges.group_by("range_id").aggregate([("metarange_id", "count")])
    rows = edges.join(ranges, "range_id").join(shared, "range_id")
    alone = pc.if_else(pc.equal(rows["metarange_id_count"], 1), rows["size_bytes_max"], 0)
    sums = (
        rows.append_column("alone", alone)
        .group_by("metarange_id")
        .aggregate([("entries_max", "sum"), ("size_bytes_max", "sum"), ("alone", "sum")])
    )
    names = ("metarange_id", "entries_max_sum", "size_bytes_max_sum", "alone_sum")
    columns_ = (sums[name].to_pylist() for name in names)
    return {id_: _Tree(*tree) for id_, *tree in zip(*columns_, strict=True)}


def _read(
    stores: StoreOpener, datasets: Iterable[Dataset], columns: list[str], wanted: pc.Expression
) -> pa.Table:
    tables = [
        pa.Table.from_batches(
            read_dataset(stores, dataset, columns, wanted, verify=False),
            pa.schema([dataset.schema.field(name) for name in columns]),
        )
        for dataset in datasets
    ]
    return pa.concat_tables(tables)
