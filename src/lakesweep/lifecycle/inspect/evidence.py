"""Everything that keeps one address, or lets it expire.

There is a row for each commit, path, ref and rule. For all addresses this would be many times the
size of the repository, so it is computed for one address, from what the run has read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.lakefs.refs.commit_graph import adopt_temporary_commits
from lakesweep.lifecycle.columns import EVIDENCE, Standing
from lakesweep.lifecycle.judge.commit_selection import midnight
from lakesweep.lifecycle.judge.expired_addresses import spell_paths
from lakesweep.lifecycle.judge.occurrences import member_places
from lakesweep.lifecycle.judge.reasons import REF_REASONS
from lakesweep.lifecycle.policy.ref_retention import FOREVER, RefKind, places_of, ref_terms
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.sweep.verdicts import Reason

if TYPE_CHECKING:
    from lakesweep.lakefs.addresses import StorageNamespace
    from lakesweep.lakefs.refs.commit_graph import Refs, RepositoryCommit
    from lakesweep.lifecycle.entries.cache import Segment
    from lakesweep.lifecycle.policy.rules import LifecyclePolicy
    from lakesweep.lifecycle.run_history import LostBranch
    from lakesweep.storage.object_store import StoreOpener

_ROWS_IN_A_BATCH = 4096

Row = dict[str, Any]


@dataclass(frozen=True)
class Evidence:
    """The evidence of a run. `segments`, `refs`, `staged` and `lost` are those of the run.

    `examined` are commits that keep all that they hold, where the proposal is followed.
    """

    stores: StoreOpener
    namespace: StorageNamespace
    segments: tuple[Segment, ...]
    refs: Refs
    policy: LifecyclePolicy
    now: datetime
    staged: Dataset | None = None
    lost: tuple[LostBranch, ...] = ()
    tags_protect_history: bool = False
    examined: frozenset[str] = frozenset()

    def of(self, address: str) -> Iterator[pa.RecordBatch]:
        """Everything known about an address, a key in the namespace, as rows of EVIDENCE."""
        entries = list(self._entries(address))
        ages = [entry["age"] for entry in entries]
        age = None if None in ages else max(ages, default=None)
        rows = (
            {"address": address, "age": age, **row}
            for part in (self._staged_rows(address), self._rows(entries, age))
            for row in part
        )
        while batch := list(islice(rows, _ROWS_IN_A_BATCH)):
            yield pa.RecordBatch.from_pylist(batch, schema=EVIDENCE)

    def _entries(self, address: str) -> Iterator[Row]:
        """The entries of an address, each with the metaranges that contain it."""
        for segment in self.segments:
            found = self._read(segment.entries, pc.field("address") == address).to_pylist()
            if not found:
                continue
            chunks = pc.field("chunk").isin({row["chunk"] for row in found})
            places = {
                (row["chunk"], row["place"]): row["range_id"]
                for row in self._read(segment.ranges, chunks).to_pylist()
            }
            for row in found:
                ids = {places[row["chunk"], place] for place in member_places(row["members"])}
                yield {**row, "metaranges": self._metaranges(ids)}

    def _metaranges(self, ranges: Iterable[str]) -> set[str]:
        wanted = pc.field("range_id").isin(set(ranges))
        return {
            id_
            for segment in self.segments
            for id_ in self._read(segment.edges, wanted)["metarange_id"].to_pylist()
        }

    def _read(self, dataset: Dataset, wanted: pc.Expression) -> pa.Table:
        batches = read_dataset(self.stores, dataset, filter=wanted, verify=False)
        return pa.Table.from_batches(batches, dataset.schema)

    def _staged_rows(self, address: str) -> Iterator[Row]:
        for batch in [] if self.staged is None else read_dataset(self.stores, self.staged):
            for place in range(batch.num_rows):
                row = batch.slice(place, 1)
                keys = self.namespace.protected(row["address"], row["address_type"])
                if address in keys.to_pylist():
                    path, branch = spell_paths(row["path"])[0].as_py(), row["branch"][0].as_py()
                    yield _told(path, RefKind.BRANCH, branch, Reason.STAGED)

    def _rows(self, entries: Iterable[Row], age: datetime | None) -> Iterator[Row]:
        for entry in entries:
            path = entry["path"].decode(errors="backslashreplace")
            for commit in self._commits(entry["metaranges"]):
                about = {"commit_id": commit.id, "created": commit.created}
                for row in self._judged(entry, path, commit, age):
                    yield {**row, **about}

    def _commits(self, metaranges: set[str]) -> Iterator[RepositoryCommit]:
        return (each for each in self.refs.commits.values() if each.metarange_id in metaranges)

    def _judged(
        self, entry: Row, path: str, commit: RepositoryCommit, age: datetime | None
    ) -> Iterator[Row]:
        for kind, name in self._keepers(commit.id):
            if entry["standing"] == Standing.PROTECTS:
                yield _told(path, kind, name, Reason.IMPORTED)
            elif age is None:
                yield _told(path, kind, name, Reason.AGE_UNKNOWN)
            else:
                yield from self._by_rules(entry["path"], path, kind, name, age)

    def _by_rules(
        self, key: bytes, path: str, kind: RefKind, name: str | None, age: datetime
    ) -> Iterator[Row]:
        days = ref_terms(self.policy, kind, name or "")
        covering = [
            (rule, each)
            for rule, each in zip(self.policy.rules, days, strict=True)
            if each is not None and rule.prefix.covers(key)
        ]
        if not covering and kind is not RefKind.HEAD:  # its branch says so as well
            yield _told(path, kind, name, REF_REASONS[kind])
        for rule, each in covering:
            if each == FOREVER:
                yield _told(path, kind, name, REF_REASONS[kind], rule=rule.id)
                continue
            before = midnight(self.now, each)
            why = Reason.EXPIRED if age < before else Reason.NOT_DUE
            yield _told(path, kind, name, why, rule=rule.id, before=before)

    def _keepers(self, commit: str) -> Iterator[tuple[RefKind, str | None]]:
        """The refs that keep a commit, each by its name."""
        branches = [*self.refs.branches, *(lost.branch() for lost in self.lost)]
        alive = len(self.refs.branches)
        for place in places_of(self._reaching[commit]):
            branch = branches[place]
            if branch.commit_id == commit:
                yield RefKind.HEAD if place < alive else RefKind.DELETED, branch.name
            yield RefKind.BRANCH, branch.name
        if not self._reaching[commit]:
            yield RefKind.DANGLING, None
        for place in places_of(self._tagged[commit]):
            yield RefKind.TAG, self.refs.tags[place].name
        if commit in self.examined:
            yield RefKind.EXAMINED, None

    @cached_property
    def _reaching(self) -> Mapping[str, int]:
        branches = [*self.refs.branches, *(lost.branch() for lost in self.lost)]
        bits = dict(self.refs.reaching([branch.commit_id for branch in branches]))
        adopt_temporary_commits(self.refs, bits)
        return bits

    @cached_property
    def _tagged(self) -> Mapping[str, int]:
        heads = [tag.commit_id for tag in self.refs.tags]
        if self.tags_protect_history:
            return self.refs.reaching(heads)
        bits = dict.fromkeys(self.refs.commits, 0)
        for place, head in enumerate(heads):
            bits[head] |= 1 << place
        return bits


def _told(
    path: str,
    kind: RefKind,
    name: str | None,
    why: Reason,
    *,
    rule: str | None = None,
    before: datetime | None = None,
) -> Row:
    keeps = why is not Reason.EXPIRED
    about = {"path": path, "ref_kind": kind.value, "ref": name}
    return {**about, "rule": rule, "before": before, "keeps": keeps, "why": why.value}
