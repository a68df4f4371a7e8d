"""What a lifecycle plan is asked for, and what it records: figures, guards, details, refs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from lakesweep.decoding import convert
from lakesweep.guard_names import GuardName
from lakesweep.lakefs.refs.commit_graph import (
    TEMPORARY_MARK,
    Refs,
    RepositoryBranch,
    RepositoryCommit,
    RepositoryTag,
    make_refs,
)
from lakesweep.lakefs.repository.interface import Ages, DumpAge, describe_ages, describe_stale
from lakesweep.lifecycle.plan.head_entries import HeldByHeads
from lakesweep.lifecycle.plan.recheck import NeighbourSources, RecheckSources, RefChanges
from lakesweep.lifecycle.plan.savings import RefSize, Savings
from lakesweep.lifecycle.policy.parser import parse_policy
from lakesweep.lifecycle.run_history import LifecycleRunRecord, table_address
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.sweep.guards import Guard, PlanFigures, failed_guards
from lakesweep.sweep.judge.totals import Dimension, FileTotals, classes_of, reasons_of, shares_of
from lakesweep.sweep.mark.marks import Marks, RootState
from lakesweep.sweep.plan.document import (
    PLAN_LIFETIME,
    PlanDocument,
    PlanKind,
    RootCounts,
)
from lakesweep.sweep.roots.root_kinds import RootSourceFactory, root_sources
from lakesweep.sweep.verdicts import Verdict
from lakesweep.units import format_count, format_some

if TYPE_CHECKING:
    from lakesweep.lakefs.addresses import StorageNamespace
    from lakesweep.lakefs.repository.interface import RepositoryOpener
    from lakesweep.lifecycle.judge.pipeline import JudgedAddresses, LifecycleSpec
    from lakesweep.lifecycle.plan.object_verdicts import ObjectVerdicts
    from lakesweep.lifecycle.policy.rules import LifecyclePolicy
    from lakesweep.runs.records import LakeRecord
    from lakesweep.storage.object_store import StoreOpener
    from lakesweep.sweep.lake import Lake


#: A policy that retains anything for fewer days must be confirmed.
FLOOR_DAYS = 7


@dataclass(frozen=True)
class LifecyclePlanRequest:
    """What to plan. `spec` has no folder yet; `neighbours` may have imported objects.

    `of_lakes` gives the roots of other lakes, which the lake of the repository names. `siblings`
    are all other repositories of the server. Retentions below `floor_days` must be confirmed.
    """

    lake: Lake
    spec: LifecycleSpec
    opener: RepositoryOpener
    neighbours: Mapping[str, RepositoryOpener] = field(default_factory=dict)
    overridden: tuple[str, ...] = ()
    policy_text: str = ""
    policy_name: str = "policy.json"
    of_lakes: RootSourceFactory = root_sources
    siblings: Mapping[str, StorageNamespace] = field(default_factory=dict)
    floor_days: int = FLOOR_DAYS

    @property
    def openers(self) -> Mapping[str, RepositoryOpener]:
        """The repository and its neighbours."""
        return {self.spec.repository.name: self.opener, **self.neighbours}

    def warnings(self) -> Iterator[str]:
        """The repositories that may have imported from this one, and that nothing checks."""
        if unknown := sorted(self.siblings.keys() - self.neighbours.keys()):
            yield (
                "other repositories of the server may have imported from this one, but no"
                f" configured root names them: {format_some(unknown)}"
            )

    @property
    def shortest(self) -> timedelta:
        """The shortest retention of any rule."""
        days = [days for rule in self.spec.policy.rules for _, days in rule.all_days()]
        return timedelta(days=min(days, default=0))

    def cutoff(self, started: datetime) -> datetime:
        """Anything newer is too new for every rule: rules count whole days."""
        return started - self.shortest

    def sources(self, refs: Refs, ages: Ages) -> RecheckSources:
        """What to recheck for changes since the repository had these refs."""
        spec = self.spec
        changes = RefChanges(spec.policy, refs, spec.tags_protect_history)
        others = NeighbourSources(self.neighbours, spec.without_staging, ages, self.of_lakes)
        return RecheckSources(spec.repository.name, self.opener, changes.metaranges, others)


class LifecycleDetails(msgspec.Struct, frozen=True, kw_only=True):
    """`PlanDocument.details` of a lifecycle plan. The names are those of the stored document.

    `home` is the folder of the run history; `words` is the policy in words; `full` is why all
    commits were read, or None; `dumps` are the ages of refs dumps by repository; `heads` is what
    has to be taken off HEADs first, where that is done.
    """

    repository: str
    namespace: str
    aliases: tuple[str, ...]
    neighbours: tuple[str, ...]
    home: str
    policy: str
    policy_name: str
    words: tuple[str, ...]
    warnings: tuple[str, ...]
    full: str | None
    saved: Savings
    record: LifecycleRunRecord
    results: str
    tags_protect_history: bool
    as_proposed: bool = False
    without_staging: bool
    dumps: Mapping[str, DumpAge]
    refs: tuple[RefSize, ...]
    heads: HeldByHeads | None = None


def lifecycle_details(document: PlanDocument) -> LifecycleDetails:
    """What a lifecycle plan says beyond what every plan does."""
    return convert(document.details, LifecycleDetails)


@dataclass(frozen=True)
class PlanDraft:
    """The parts of a plan before it is written. `engine` is what judged it."""

    order: LifecyclePlanRequest
    name: str
    started: datetime
    engine: str
    ages: Ages
    listing: Dataset
    found: JudgedAddresses
    marks: Marks
    judged: ObjectVerdicts

    def document(self, record: LakeRecord, now: datetime, clock_ahead: timedelta) -> PlanDocument:
        """The plan. `record` is what is known about the lake; its store's clock is behind ours."""
        order, totals = self.order, self.judged.totals
        figures = self._figures(record, clock_ahead)
        return PlanDocument(
            plan=self.name,
            lake=order.lake.name,
            kind=PlanKind.LIFECYCLE,
            created=now,
            expires=self.started + PLAN_LIFETIME,
            cut_off=order.cutoff(self.started),
            grace_seconds=figures.grace.total_seconds(),
            configured_grace_seconds=order.lake.grace.total_seconds(),
            mode=order.spec.selection.value,
            roots=RootCounts(
                complete=len(list(self.marks.in_state(RootState.COMPLETE))), incomplete=0
            ),
            totals=reasons_of(totals),
            ages=tuple(classes_of(totals, Dimension.AGE)),
            sizes=tuple(classes_of(totals, Dimension.SIZE)),
            guards=(*failed_guards(figures), *self._policy_guards(figures.deletes)),
            overridden=order.overridden,
            locations=order.lake.locations,
            spec={"engine": self.engine, "listed": figures.listed, **self.found.figures},
            policy=order.spec.policy.sha256,
        )

    def _figures(self, record: LakeRecord, clock_ahead: timedelta) -> PlanFigures:
        totals = reasons_of(self.judged.totals)
        return PlanFigures(
            was_applied=record.applied is not None,
            live=_files(totals, Verdict.KEEP),
            live_before=record.live,
            listed=self.listing.rows,
            deletes=_files(totals, Verdict.DELETE),
            grace=self.order.shortest,
            shares=shares_of(self.judged.totals),
            is_policy_new=record.policy != self.order.spec.policy.sha256,
            dumps=describe_ages(self.ages),
            stale_dumps=[*describe_stale(self.ages), *self._forgotten()],
            clock_ahead=clock_ahead,
        )

    def _policy_guards(self, deletes: int) -> Iterator[Guard]:
        """What a policy asks for that must be confirmed, where it would delete something."""
        spec, floor = self.order.spec, self.order.floor_days
        if deletes and (short := spec.policy.shorter_than(floor)):
            yield Guard(
                GuardName.SHORT_RETENTION,
                f"retains objects for fewer than {floor} days, where one missing digit can cost a"
                f" repository: {format_some(short)}",
            )
        if deletes and spec.as_proposed:
            yield Guard(
                GuardName.AS_PROPOSED,
                "objects on HEADs are deleted too, and their paths stay: readers get errors",
            )

    def _forgotten(self) -> Iterator[str]:
        """No server forgets commits: these refs are older than those of the last run."""
        if count := self.found.forgotten:
            name, gone = self.order.spec.repository.name, format_count(count, "commit")
            yield f"{name} ({gone} of branches and tags that the last run saw, and that are gone)"

    def details(self, refs: tuple[RefSize, ...], heads: HeldByHeads | None) -> LifecycleDetails:
        """What only lifecycle plans say, with the sizes of refs and what HEADs hold."""
        spec = self.order.spec
        return LifecycleDetails(
            repository=spec.repository.name,
            namespace=spec.repository.namespace.location,
            aliases=spec.repository.namespace.aliases,
            neighbours=tuple(self.order.neighbours),
            home=spec.place,
            policy=self.order.policy_text,
            policy_name=self.order.policy_name,
            words=tuple(self.found.words),
            warnings=(*self.found.warnings, *self.order.warnings()),
            full=self.found.full,
            saved=self.judged.saved,
            record=self.found.record,
            results=table_address(spec.place, "addresses", self.name, self.started),
            tags_protect_history=spec.tags_protect_history,
            as_proposed=spec.as_proposed,
            without_staging=spec.without_staging,
            dumps=self.ages,
            refs=refs,
            heads=heads,
        )


def _files(totals: Mapping[str, Mapping[str, FileTotals]], verdict: Verdict) -> int:
    return sum(amount.files for amount in totals.get(verdict.value, {}).values())


_COMMIT, _BRANCH, _TAG = "commit", "branch", "tag"
_ROWS = 1 << 14

#: A commit, a branch or a tag. `name` is that of the ref, or the id of the commit; `commit_id` is
#: what a ref points to. Ids of parents are separated by spaces. `takes_off` is what temporary
#: commits have in their metadata (see `commit_graph`).
REFS = pa.schema(
    [
        pa.field("what", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("commit_id", pa.string()),
        pa.field("hidden", pa.bool_()),
        pa.field("parents", pa.string()),
        pa.field("metarange_id", pa.string()),
        pa.field("created", pa.timestamp("us", tz="UTC")),
        pa.field("committer", pa.string()),
        pa.field("message", pa.string()),
        pa.field("version", pa.int64()),
        pa.field("generation", pa.int64()),
        pa.field("takes_off", pa.string()),
    ]
)


def write_refs(stores: StoreOpener, address: str, refs: Refs) -> Dataset:
    """Store refs; other metadata of commits is left out."""
    return write_dataset(stores, address, REFS, _batches(refs))


def read_refs(stores: StoreOpener, dataset: Dataset) -> Refs:
    """The refs that were stored."""
    found: dict[str, list[dict[str, Any]]] = {_COMMIT: [], _BRANCH: [], _TAG: []}
    for batch in read_dataset(stores, dataset):
        for row in batch.to_pylist():
            found[row["what"]].append(row)
    return make_refs(
        map(_commit, found[_COMMIT]),
        (RepositoryBranch(row["name"], row["commit_id"], row["hidden"]) for row in found[_BRANCH]),
        (RepositoryTag(row["name"], row["commit_id"]) for row in found[_TAG]),
    )


def _batches(refs: Refs) -> Iterator[pa.RecordBatch]:
    rows = list(_rows(refs))
    for start in range(0, len(rows), _ROWS):
        yield pa.RecordBatch.from_pylist(rows[start : start + _ROWS], schema=REFS)


def _rows(refs: Refs) -> Iterator[dict[str, Any]]:
    for branch in refs.branches:
        yield {
            "what": _BRANCH,
            "name": branch.name,
            "commit_id": branch.commit_id,
            "hidden": branch.hidden,
        }
    for tag in refs.tags:
        yield {"what": _TAG, "name": tag.name, "commit_id": tag.commit_id}
    for commit in refs.commits.values():
        yield {
            "what": _COMMIT,
            "name": commit.id,
            "parents": " ".join(commit.parents),
            "metarange_id": commit.metarange_id,
            "created": commit.created,
            "committer": commit.committer,
            "message": commit.message,
            "version": commit.version,
            "generation": commit.generation,
            "takes_off": commit.metadata.get(TEMPORARY_MARK),
        }


def _commit(row: dict[str, Any]) -> RepositoryCommit:
    return RepositoryCommit(
        row["name"],
        tuple(row["parents"].split()),
        row["metarange_id"],
        row["created"],
        row["committer"],
        row["message"],
        row["version"],
        row["generation"],
        {}
        if row.get("takes_off") is None
        else {TEMPORARY_MARK: row["takes_off"]},  # older plans have none
    )


def plan_policy(document: PlanDocument) -> LifecyclePolicy:
    """The policy with which a plan was made."""
    details = lifecycle_details(document)
    policy = parse_policy(details.policy.encode(), details.policy_name)
    return policy.as_proposed() if details.as_proposed else policy
