"""The snapshots, branches and tags of a table on a line of time, and what retention would let go.

Only metadata is read. What each snapshot alone holds needs all manifests, and is read if asked for.
Nothing is changed, no lease is taken, and no other root is asked: files that retention lets go may
stay because another table references them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import assert_never

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.app import App
from lakesweep.clock import millis, moment
from lakesweep.errors import UsageError
from lakesweep.iceberg.commits.open_table import open_table
from lakesweep.operations.upkeep.expiry_result import SnapshotLine, ref_lines, snapshot_lines
from lakesweep.paimon.expire.retention import RetentionLimits, snapshot_retention
from lakesweep.paimon.expire.snapshot_expiry import choose_snapshots, consumer_positions
from lakesweep.paimon.model.snapshots import PaimonSnapshot
from lakesweep.paimon.model.table import PaimonBranch, PaimonTable
from lakesweep.paimon.reach.live_files import state_files
from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.units import format_moment
from lakesweep.upkeep.file_index import FileIndex, HeldFiles
from lakesweep.upkeep.proposal import ExpiryProposal, ExpiryTerms, propose
from lakesweep.upkeep.snapshot_retention import KeepReason, KeptFor, RetentionArguments

#: What each of so many snapshots alone holds is measured, and no more.
MOST_MEASURED = 500


class TableFormat(StrEnum):
    """How a table keeps its history."""

    ICEBERG = "iceberg"
    PAIMON = "paimon"


@dataclass(frozen=True, slots=True)
class TableHistoryRequest:
    """A table: of Iceberg by its name or metadata file, of Paimon by its address."""

    table: str
    format: TableFormat
    measure: bool = False


class SnapshotPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot. `why` says why it stays, or what lets it go; `held` is what it alone holds."""

    snapshot: int
    branch: str | None
    committed: datetime
    expires: bool
    why: tuple[str, ...]
    files: int | None = None
    bytes: int | None = None


class RefPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A branch, a tag or a reader, and the snapshot that it keeps."""

    name: str
    type: str
    snapshot: int
    expires: bool = False
    files: int | None = None
    bytes: int | None = None


class TableTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """The history of a table, oldest snapshot first, and its retention in words.

    `expiring_bytes` is what the snapshots that retention lets go hold alone, each by itself.
    """

    table: str
    format: TableFormat
    retention: tuple[str, ...]
    snapshots: tuple[SnapshotPoint, ...]
    refs: tuple[RefPoint, ...]
    is_measured: bool
    expiring_bytes: int = 0


def table_history(app: App, request: TableHistoryRequest) -> TableTimeline:
    """The history of a table, from its metadata as it is now."""
    if request.format is TableFormat.ICEBERG:
        found = _iceberg(app, request)
    else:
        found = _paimon(app, request)
    freed = sum(each.bytes or 0 for each in found.snapshots if each.expires)
    return msgspec.structs.replace(found, expiring_bytes=freed)


def _check_size(count: int) -> None:
    if count > MOST_MEASURED:
        raise UsageError(
            f"the table has {count:,} snapshots; at most {MOST_MEASURED:,} are measured at once",
            hint="lakesweep iceberg expire-snapshots TABLE --dry-run shows all of them",
        )


def _iceberg(app: App, request: TableHistoryRequest) -> TableTimeline:
    base = open_table(app.iceberg, request.table, clock=app.clock).load()
    proposal = propose(base, ExpiryTerms(RetentionArguments()), millis(app.clock.now()))
    with FileIndex(base.stores) as index:
        if request.measure:
            _check_size(len(proposal.before.snapshots))
            index.read_lists(proposal.before)
            index.read_manifests()
        asked = index if request.measure else None
        snapshots = [_iceberg_point(each, asked) for each in snapshot_lines(proposal, asked)]
        refs = [
            RefPoint(
                name=each.name,
                type=each.type,
                snapshot=each.snapshot_id,
                expires=each.expires,
                files=each.files if asked else None,
                bytes=each.bytes if asked else None,
            )
            for each in ref_lines(proposal, asked)
        ]
    return TableTimeline(
        table=base.name,
        format=TableFormat.ICEBERG,
        retention=tuple(_bounds(proposal)),
        snapshots=tuple(sorted(snapshots, key=lambda each: (each.committed, each.snapshot))),
        refs=tuple(refs),
        is_measured=request.measure,
    )


def _iceberg_point(line: SnapshotLine, asked: FileIndex | None) -> SnapshotPoint:
    why = tuple(map(_reason, line.reasons)) if line.reasons else (f"{line.standing}, too old",)
    return SnapshotPoint(
        snapshot=line.snapshot_id,
        branch=next((each.ref for each in line.reasons if each.ref), None),
        committed=datetime.fromisoformat(line.committed),
        expires=line.expires,
        why=why,
        files=line.files if asked else None,
        bytes=line.bytes if asked else None,
    )


def _reason(reason: KeepReason) -> str:
    of = f" of {reason.ref}" if reason.ref else ""
    bound = reason.bound
    source = f" ({bound.source})" if bound is not None else ""
    match reason.why:
        case KeptFor.HEAD:
            return f"head{of}"
        case KeptFor.COUNT:
            return f"one of the newest {bound.value if bound else ''}{of}{source}"
        case KeptFor.AGE:
            return f"young enough{of}{source}"
        case KeptFor.WRITER:
            return f"the writer {reason.writer} looks for it"
        case KeptFor.STAGED | KeptFor.NOT_NAMED | KeptFor.NOT_PLANNED | KeptFor.LIMIT:
            return reason.why.value
        case _:
            assert_never(reason.why)


def _bounds(proposal: ExpiryProposal) -> Iterator[str]:
    """The rules that keep something, each once, by where they are set."""
    found: dict[str, None] = {}
    for reasons in proposal.decision.kept.values():
        for each in reasons:
            if each.bound is None:
                continue
            if each.why is KeptFor.COUNT:
                text = f"keeps the newest {each.bound.value}"
            elif each.why is KeptFor.AGE:
                text = f"keeps what is newer than {format_moment(moment(each.bound.value * 1000))}"
            else:
                continue
            found[f"{text} of {each.ref or 'no ref'} ({each.bound.source})"] = None
    return iter(found)


def _paimon(app: App, request: TableHistoryRequest) -> TableTimeline:
    table = PaimonTable.open(app.stores, request.table, app.clock)
    branches = table.branches()
    history = [_PaimonHistory.read(app, branch) for branch in branches]
    held: Mapping[tuple[str, int], HeldFiles] = {}
    if request.measure:
        _check_size(sum(len(each.snapshots) + len(each.tagged) for each in history))
        held = _held_alone(history)
    points = [point for each in history for point in each.points(held)]
    return TableTimeline(
        table=table.address.path,
        format=TableFormat.PAIMON,
        retention=tuple(f"{each.branch.name}: {each.words}" for each in history),
        snapshots=tuple(sorted(points, key=lambda each: (each.committed, each.snapshot))),
        refs=tuple(ref for each in history for ref in each.refs()),
        is_measured=request.measure,
    )


@dataclass(frozen=True)
class _PaimonHistory:
    """One branch of a Paimon table: its snapshots, those that may go, and who needs them."""

    branch: PaimonBranch
    retention: RetentionLimits
    snapshots: dict[int, PaimonSnapshot]
    tagged: dict[str, PaimonSnapshot]
    readers: tuple[tuple[str, int], ...]
    leaving: frozenset[int]
    next_reads: tuple[int, ...]

    @classmethod
    def read(cls, app: App, branch: PaimonBranch) -> _PaimonHistory:
        retention = snapshot_retention(branch.layout.options, app.clock.now())
        chosen = choose_snapshots(branch, retention)
        return cls(
            branch=branch,
            retention=retention,
            snapshots={number: branch.snapshot(number) for number in branch.snapshot_ids()},
            tagged={tag.name: tag.snapshot for tag in branch.tags()},
            readers=tuple((each.name, each.next_snapshot) for each in branch.consumers()),
            leaving=frozenset(owner.snapshot.id for owner in chosen.leaving),
            next_reads=tuple(consumer_positions(branch)),
        )

    @property
    def words(self) -> str:
        """The retention in words."""
        most = f", at most {self.retention.retain_max:,}" if self.retention.is_bounded else ""
        since = format_moment(self.retention.cut)
        return f"keeps at least {self.retention.retain_min:,}{most}, and all since {since}"

    def points(self, held: Mapping[tuple[str, int], HeldFiles]) -> Iterator[SnapshotPoint]:
        latest = max(self.snapshots, default=None)
        for number, snapshot in self.snapshots.items():
            alone = held.get((self.branch.name, number))
            yield SnapshotPoint(
                snapshot=number,
                branch=self.branch.name,
                committed=moment(snapshot.time_millis * 1000),
                expires=number in self.leaving,
                why=tuple(self._why(number, snapshot, latest)),
                files=None if alone is None else alone.files,
                bytes=None if alone is None else alone.size_bytes,
            )

    def _why(self, number: int, snapshot: PaimonSnapshot, latest: int | None) -> Iterator[str]:
        if number in self.leaving:
            yield "past its retention"
            return
        if number == latest:
            yield "the newest"
        newer = sum(each >= number for each in self.snapshots)
        if newer <= self.retention.retain_min:
            yield f"one of the newest {self.retention.retain_min:,}"
        if moment(snapshot.time_millis * 1000) >= self.retention.cut:
            yield "young enough"
        if any(position <= number for position in self.next_reads):
            yield "a reader continues here or before"

    def refs(self) -> Iterator[RefPoint]:
        latest = max(self.snapshots, default=None)
        if latest is not None:
            yield RefPoint(name=self.branch.name, type="branch", snapshot=latest)
        for name, snapshot in self.tagged.items():
            yield RefPoint(name=name, type="tag", snapshot=snapshot.id)
        for name, position in self.readers:
            yield RefPoint(name=name, type="consumer", snapshot=position)


def _held_alone(history: list[_PaimonHistory]) -> Mapping[tuple[str, int], HeldFiles]:
    """The files that only one snapshot reaches, less those that a tag elsewhere reaches."""
    owners: list[tuple[str, int]] = []
    tables: list[pa.Table] = []
    for each in history:
        states = {**{str(number): found for number, found in each.snapshots.items()}}
        states |= {f"tag {name}": found for name, found in each.tagged.items()}
        for snapshot in {found.id: found for found in states.values()}.values():
            tables.append(_state_rows(each.branch, snapshot, len(owners)))
            owners.append((each.branch.name, snapshot.id))
    if not tables:
        return {}
    files = (
        pa.concat_tables(tables)
        .group_by(["low", "high"])
        .aggregate([("owner", "min"), ("owner", "max"), ("size", "max")])
    )
    alone = files.filter(pc.equal(files["owner_min"], files["owner_max"]))
    sums = alone.group_by("owner_min").aggregate([([], "count_all"), ("size_max", "sum")])
    found = dict.fromkeys(owners, HeldFiles())
    for row in sums.to_pylist():
        found[owners[row["owner_min"]]] = HeldFiles(row["count_all"], row["size_max_sum"] or 0)
    return found


def _state_rows(branch: PaimonBranch, snapshot: PaimonSnapshot, owner: int) -> pa.Table:
    names = ["low", "high", "size", "owner"]
    schema = pa.schema([(name, pa.int64()) for name in names])
    batches = []
    for batch in state_files(branch, snapshot):
        low, high = hash_columns(file_hashes(batch["path"]))
        sizes = batch["size_bytes"].cast(pa.int64()).fill_null(0)
        owned = pa.repeat(pa.scalar(owner, pa.int64()), batch.num_rows)
        batches.append(pa.RecordBatch.from_arrays([low, high, sizes, owned], schema=schema))
    return pa.Table.from_batches(batches, schema=schema)
