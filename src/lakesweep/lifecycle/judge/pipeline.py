"""Judge a repository: from the policy, the refs and the staged entries to expired addresses.

    staged, refs → keepers of commits → ranges, parsed once → occurrences → verdicts → addresses

Nothing is deleted here. An address expires only if every entry that names it, in any commit, is
covered and due on every ref that keeps that commit, and nothing staged names it. Anything that
cannot be read ends the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import (
    DamagedError,
    FormatError,
    MissingError,
    RefusedError,
    SparkJobError,
)
from lakesweep.guard_names import GuardName
from lakesweep.lifecycle.columns import (
    BRANCH_LAST,
    COMMITS,
    CURRENT_RULE,
    EDGES,
    METARANGES,
    POLICY_TABLE,
    RUN_ID,
)
from lakesweep.lifecycle.entries.cache import (
    KNOWN,
    RangeCache,
    Segment,
    known_metaranges,
    metarange_rows,
)
from lakesweep.lifecycle.entries.reader import EdgeStep, ParseStep, RangeSource
from lakesweep.lifecycle.judge.address_verdicts import AddressJudge, AddressVerdictStep
from lakesweep.lifecycle.judge.commit_selection import (
    LastSweep,
    Selection,
    branch_last,
    commit_rows,
    current_rule,
    full_scan_reason,
    policy_table,
    potential_commits,
    required_commits,
)
from lakesweep.lifecycle.judge.engine import JudgeInput, LifecycleEngine
from lakesweep.lifecycle.judge.expired_addresses import ExpiredAddressStep
from lakesweep.lifecycle.judge.occurrences import OccurrenceStep, Window
from lakesweep.lifecycle.judge.reasons import Ranker
from lakesweep.lifecycle.policy.ref_retention import find_keepers, keep_examined, metarange_bits
from lakesweep.lifecycle.policy.rules import LifecyclePolicy
from lakesweep.lifecycle.run_history import (
    HOME,
    LifecycleHistory,
    LifecycleRunRecord,
    VouchedDocuments,
    lost_branches,
    ref_heads,
    table_address,
)
from lakesweep.storage.datasets.manifest import Dataset, Part
from lakesweep.storage.datasets.reader import load_dataset, read_dataset
from lakesweep.storage.datasets.writer import commit_dataset, write_dataset
from lakesweep.sweep.engine.protocol import results_of

if TYPE_CHECKING:
    from lakesweep.lakefs.refs.commit_graph import Refs
    from lakesweep.lakefs.repository.interface import Repository


def judge_addresses(
    spec: LifecycleSpec, engine: LifecycleEngine, refs: Refs, staged: Dataset | None
) -> JudgedAddresses:
    """Judge the addresses of a repository; `staged` was read before `refs`.

    `staged` has rows of STAGED. RefusedError if it is None, unless the spec allows that.
    """
    if staged is None:
        require_staging(spec)
    run = _Run(spec, engine, refs, staged)
    try:
        return run.judge(run.read_ranges())
    except (DamagedError, SparkJobError):
        # The cache may be damaged: then everything is read again, once.
        if not run.cache.drop_damaged():
            raise
    return run.judge(run.read_ranges())


def require_staging(spec: LifecycleSpec) -> None:
    """RefusedError unless the spec allows unknown staged entries."""
    if not spec.without_staging:
        raise RefusedError(
            GuardName.STAGED,
            f"the staged changes of {spec.repository.name} are unknown: objects that were"
            " uploaded and not yet committed could be deleted",
            hint="configure the server, or add --override staged",
        )


class _Run:
    """The steps, with what they share."""

    def __init__(
        self, spec: LifecycleSpec, engine: LifecycleEngine, refs: Refs, staged: Dataset | None
    ) -> None:
        self._spec = spec
        self._engine = engine
        self._stores = engine.stores
        self._refs = refs
        self._staged = staged
        self._namespace = spec.repository.namespace
        self._history = LifecycleHistory(
            self._stores, spec.place, self._namespace.location, spec.documents
        )
        last = self._history.last()
        self._forgotten = 0 if last is None else len(last.heads - refs.commits.keys())
        self._lost = lost_branches(refs, self._history.last_seen(), spec.now, spec.grace)
        self._kept = self._keepers = find_keepers(
            refs,
            spec.policy,
            [lost.branch() for lost in self._lost],
            tags_protect_history=spec.tags_protect_history,
        )
        self._parsed = 0
        self._tries = 0
        self._unread: str | None = None
        self.cache = RangeCache(
            self._stores, f"{self._history.home}cache/", self._namespace, spec.documents
        )

    def read_ranges(self) -> list[Segment]:
        """All segments of the cache, with a new one for what no run has read yet."""
        segments = self.cache.segments()
        needed = {commit.metarange_id for commit in self._refs.commits.values()} - {""}
        new = sorted(needed - known_metaranges(self._stores, segments))
        if new:
            segments.append(self._read_new(new, segments))
            self._parsed = segments[-1].ranges.rows
        return segments

    def _read_new(self, metaranges: Sequence[str], known: Sequence[Segment]) -> Segment:
        folder = self.cache.new_folder()
        source = RangeSource(self._spec.repository.files, self._namespace)
        rows = pa.RecordBatch.from_arrays([pa.array(metaranges, pa.string())], schema=KNOWN)
        wanted = write_dataset(self._stores, f"{folder}metaranges", KNOWN, [rows])
        step = EdgeStep(source, self._stores, f"{folder}edges")
        parts = _parts(self._engine.read_edges(step, wanted), "edges")
        edges = commit_dataset(self._stores, f"{folder}edges", parts, EDGES)
        parse = ParseStep(source, self._stores, f"{folder}entries", f"{folder}ranges")
        answers = self._engine.parse(parse, edges, [each.ranges for each in known])
        return self.cache.commit(
            folder, wanted, edges, _parts(answers, "ranges"), _parts(answers, "entries")
        )

    def judge(self, segments: Sequence[Segment]) -> JudgedAddresses:
        """The verdicts, and the tables that lead to them."""
        self._tries += 1
        before = self._before()
        tables = self._tables(before)
        full, potential = self._select(before, tables.branch_last)
        if self._spec.as_proposed:
            self._kept = keep_examined(self._keepers, self._spec.policy, potential)
        question = self._question(segments, before if full is None else None, potential)
        weighed = self._engine.weigh(question, self._weigh_step(question))
        commits = self._keep("commits", COMMITS, self._commits(potential))
        self._keep("current_rule", CURRENT_RULE, tables.current_rule.to_batches())
        self._keep("branch_last", BRANCH_LAST, tables.branch_last.to_batches())
        policy = self._keep("policy", POLICY_TABLE, tables.policy.to_batches())
        built_on = {"commits": commits, "policy": policy, "waiting": weighed.waiting}
        record = self._record(weighed.verdicts, built_on)
        self._history.record(record)
        return JudgedAddresses(
            weighed.verdicts,
            weighed.results,
            weighed.totals,
            replace(tables, commits=commits),
            tuple(segments),
            record,
            self._figures(segments, potential, weighed.totals),
            self._spec.policy.words(),
            self._warnings(),
            full,
            self._forgotten,
        )

    def _before(self) -> LastSweep | None:
        """The last run that swept; None if its tables are not those that it recorded."""
        swept = self._history.last_swept()
        if swept is None:
            return None
        try:
            commits = self._table_of(swept, "commits")
            policy = self._table_of(swept, "policy")
            ids = read_dataset(self._stores, commits, ["commit_id"])
            return LastSweep(
                swept,
                frozenset(id_ for batch in ids for id_ in batch["commit_id"].to_pylist()),
                pa.Table.from_batches(read_dataset(self._stores, policy), POLICY_TABLE),
                self._table_of(swept, "waiting"),
            )
        except (MissingError, FormatError):
            self._unread = "the tables of the last run that deleted are missing or were changed"
            return None

    def _table_of(self, run: LifecycleRunRecord, name: str) -> Dataset:
        found = load_dataset(
            self._stores, table_address(self._history.home, name, run.run_id, run.started)
        )
        if found.sha256 != run.tables.get(name):
            raise DamagedError(found.address, "is not what it was when the run ended")
        return found

    def _tables(self, before: LastSweep | None) -> PolicyTables:
        now = policy_table(self._spec.policy, self._spec.run_id, self._spec.now)
        current = current_rule(now, None if before is None else before.policy)
        empty = Dataset("", COMMITS, (), 0, "")
        return PolicyTables(now, current, branch_last(current), empty)

    def _select(
        self, before: LastSweep | None, last: pa.Table
    ) -> tuple[str | None, frozenset[str]]:
        """Why all commits are examined (empty if asked to, None if not), and the potential ones."""
        spec = self._spec
        if spec.selection is Selection.REQUIREMENT:
            return None, required_commits(self._refs, last)
        if spec.selection is Selection.FULL:
            return "", frozenset(self._refs.commits)
        full = full_scan_reason(
            spec.now, self._refs, spec.policy, spec.options, before, spec.restored
        )
        if full is not None or before is None:
            return self._unread or full, frozenset(self._refs.commits)
        return None, potential_commits(
            self._refs,
            spec.policy,
            self._kept,
            before,
            tags_protect_history=spec.tags_protect_history,
        )

    def _question(
        self, segments: Sequence[Segment], before: LastSweep | None, potential: frozenset[str]
    ) -> JudgeInput:
        ranker = Ranker(self._spec.policy, self._kept.keepers, self._spec.today)
        by_commit = self._spec.selection is Selection.REQUIREMENT
        days = 0 if before is None else (self._spec.now.date() - before.run.started.date()).days
        window = Window(days, by_commit) if by_commit or before is not None else None
        return JudgeInput(
            segments,
            self._place(segments, potential),
            self._staged,
            None if before is None or by_commit else before.waiting,
            OccurrenceStep(ranker, self._namespace, window),
        )

    def _place(self, segments: Sequence[Segment], potential: frozenset[str]) -> Dataset:
        count = len(self._kept.keepers)
        bits = {
            commit: held | (commit in potential) << count
            for commit, held in self._kept.commits.items()
        }
        rows = metarange_rows(metarange_bits(self._refs, bits), count + 1)
        metaranges = write_dataset(self._stores, self._own("metaranges"), METARANGES, rows)
        return self._engine.place(segments, metaranges, self._own("placed"))

    def _weigh_step(self, question: JudgeInput) -> AddressVerdictStep:
        return AddressVerdictStep(
            AddressJudge(question.occur.ranker),
            ExpiredAddressStep(question.occur),
            self._stores,
            self._own("verdicts"),
            self._own("expired"),
            self._table("waiting"),
        )

    def _commits(self, potential: frozenset[str]) -> Iterator[pa.RecordBatch]:
        return commit_rows(self._refs, {id_: id_ in potential for id_ in self._refs.commits})

    def _record(self, verdicts: Dataset, tables: Mapping[str, Dataset]) -> LifecycleRunRecord:
        branches, tags = ref_heads(self._refs)
        return LifecycleRunRecord(
            self._spec.run_id,
            self._spec.now,
            self._spec.policy.sha256,
            self._spec.options,
            branches,
            tags,
            self._lost,
            verdicts.address,
            tables={name: table.sha256 for name, table in tables.items()},
        )

    def _warnings(self) -> tuple[str, ...]:
        branches, tags = ref_heads(self._refs)
        return self._spec.policy.warnings(branches, tags)

    def _figures(
        self, segments: Sequence[Segment], potential: frozenset[str], totals: pa.Table
    ) -> Mapping[str, int]:
        gone = totals.filter(pc.equal(totals["verdict"], "delete"))
        return {
            "commits": len(self._refs.commits),
            "potential_commits": len(potential),
            "ranges": sum(each.ranges.rows for each in segments),
            "ranges_parsed": self._parsed,
            "entries": sum(each.entries.rows for each in segments),
            "addresses_judged": pc.sum(totals["objects"], min_count=0).as_py(),
            "addresses_expired": pc.sum(gone["objects"], min_count=0).as_py(),
            "bytes_expired": pc.sum(gone["bytes"], min_count=0).as_py(),
        }

    def _keep(self, name: str, schema: pa.Schema, rows: Iterable[pa.RecordBatch]) -> Dataset:
        """Store a table of this run next to those of other runs, each row with the run's id."""
        if "run_id" not in schema.names:
            schema, rows = pa.schema([RUN_ID, *schema]), map(self._with_run_id, rows)
        return write_dataset(self._stores, self._table(name), schema, rows)

    def _with_run_id(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        ids = pa.repeat(self._spec.run_id, rows.num_rows)
        return pa.RecordBatch.from_arrays(
            [ids, *rows.columns], schema=pa.schema([RUN_ID, *rows.schema])
        )

    def _table(self, name: str) -> str:
        return table_address(self._history.home, name, self._spec.run_id, self._spec.now)

    def _own(self, name: str) -> str:
        """The address of a dataset of this run; a new one for each attempt."""
        return self._spec.dataset(name + self._again_name)

    @property
    def _again_name(self) -> str:
        return "" if self._tries == 1 else f"-{self._tries}"


def _parts(answers: pa.Table, name: str) -> list[Part]:
    return list(results_of(answers, name, Part))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class LifecycleSpec:
    """The parameters of a run. `documents` are what the store knows of earlier runs.

    `folder` is for its own datasets, `home` for the tables of all runs, by default below the
    namespace. `grace` is how long a deleted branch keeps what it held. `restored` is when objects
    last came back from quarantine: earlier sweeps do not count for them. `as_proposed` is for a
    policy `as_proposed`, with selection REQUIREMENT: commits that are not potential keep what they
    hold.
    """

    repository: Repository
    policy: LifecyclePolicy
    run_id: str
    now: datetime
    folder: str
    documents: VouchedDocuments
    home: str | None = None
    selection: Selection = Selection.FULL
    grace: timedelta = timedelta(days=7)
    tags_protect_history: bool = False
    without_staging: bool = False
    restored: datetime | None = None
    as_proposed: bool = False

    @property
    def place(self) -> str:
        """Where the tables of all runs are."""
        return self.home or self.repository.namespace.address(HOME)

    @property
    def options(self) -> str:
        """What else decides which addresses expire, and which of them are left."""
        told = f"tags_protect_history={self.tags_protect_history}"
        # These leave objects that no incremental run would look at again.
        leaves_some = self.selection is Selection.REQUIREMENT
        return f"{told} selection={self.selection}" if leaves_some else told

    @property
    def today(self) -> int:
        """The day of the run, counted from 1970."""
        return (self.now - _EPOCH).days

    def dataset(self, name: str) -> str:
        """The address of one of the run's own datasets."""
        return f"{self.folder.rstrip('/')}/{name}/"


@dataclass(frozen=True)
class PolicyTables:
    """The tables of the requirement that are as small as the policy and the refs.

    These are POLICY_TABLE, CURRENT_RULE and BRANCH_LAST, and COMMITS as a dataset.
    """

    policy: pa.Table
    current_rule: pa.Table
    branch_last: pa.Table
    commits: Dataset


@dataclass(frozen=True)
class JudgedAddresses:
    """The result of a run. `verdicts` has a row (JUDGED) for each address that a rule covers.

    `results` has the expired ones (EXPIRED), `totals` counts all (TOTALS). `segments` is what was
    read, as evidence. `full` says why all commits were examined although less was asked for; it is
    empty if all were asked for. `forgotten` is how many HEADs and tags of the last run are no
    longer among the commits, which no server ever removes.
    """

    verdicts: Dataset
    results: Dataset
    totals: pa.Table
    tables: PolicyTables
    segments: tuple[Segment, ...]
    record: LifecycleRunRecord
    figures: Mapping[str, int]
    words: tuple[str, ...]
    warnings: tuple[str, ...]
    full: str | None
    forgotten: int
