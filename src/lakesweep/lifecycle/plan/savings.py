"""What a plan saves, by rule, ref and prefix, and how much each ref holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.reader import read_dataset

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


def savings(answers: Iterable[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """What is deleted and kept by rule, prefix and holder, most bytes to delete first."""
    rows = _add_up([pa.Table.from_pylist(list(answers), schema=_ROWS)])
    return {name: list(_by(rows, name)) for name in _KEYS[1:]}


def _by(rows: pa.Table, name: str) -> Iterator[dict[str, Any]]:
    sums: dict[str, dict[str, dict[str, int]]] = {}
    for row in rows.to_pylist():
        if row[name] is None:
            continue
        found = sums.setdefault(row[name], {})
        amount = found.setdefault(row["verdict"], {"files": 0, "bytes": 0})
        amount["files"] += row["files"]
        amount["bytes"] += row["bytes"]
    nothing = {"files": 0, "bytes": 0}
    lines: list[dict[str, Any]] = [
        {name: key, **{verdict: each.get(verdict, nothing) for verdict in ("delete", "keep")}}
        for key, each in sums.items()
    ]
    return iter(sorted(lines, key=lambda line: (-line["delete"]["bytes"], line[name])))


def ref_sizes(
    stores: StoreOpener, segments: Sequence[Segment], refs: Refs, now: datetime
) -> list[dict[str, Any]]:
    """What each branch and tag holds, most bytes first, and how long ago it moved.

    `own_range_bytes` are in ranges that no other branch or tag has. Without the ref at most these
    could be deleted, and fewer if objects are in several ranges.
    """
    commits = refs.commits
    heads = [("branch", each.name, commits[each.commit_id]) for each in refs.branches]
    heads += [("tag", each.name, commits[each.commit_id]) for each in refs.tags]
    sizes = _tree_sizes(stores, segments, {head.metarange_id for _, _, head in heads} - {""})
    holders = Counter(head.metarange_id for _, _, head in heads)
    lines = [
        _ref_line(kind, name, head, sizes, holders[head.metarange_id] == 1, now)
        for kind, name, head in heads
    ]
    return sorted(lines, key=lambda line: (-line["bytes"], line["kind"], line["name"]))[:_MOST_REFS]


def _ref_line(
    kind: str,
    name: str,
    head: RepositoryCommit,
    sizes: Mapping[str, _Tree],
    is_alone: bool,
    now: datetime,
) -> dict[str, Any]:
    tree = sizes.get(head.metarange_id, _Tree(0, 0, 0))
    return {
        "kind": kind,
        "name": name,
        "commit": head.id,
        "committed": head.created,
        "days": max(0, (now - head.created).days),
        "objects": tree.objects,
        "bytes": tree.size_bytes,
        "own_range_bytes": tree.alone_bytes if is_alone else 0,
    }


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
