"""Explain why a plan keeps or deletes an object: every commit, path, ref, rule and date."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from lakesweep.errors import MissingError, NotFoundError
from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lifecycle.entries.cache import RangeCache
from lakesweep.lifecycle.inspect.evidence import Evidence
from lakesweep.lifecycle.judge.reasons import decides_before
from lakesweep.lifecycle.plan.document import (
    LifecycleDetails,
    lifecycle_details,
    plan_policy,
    read_refs,
)
from lakesweep.lifecycle.run_history import VouchedDocuments, table_address
from lakesweep.storage.address import identity
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.datasets.reader import load_dataset, read_dataset
from lakesweep.sweep.inspect.verdict_explanation import find_row
from lakesweep.sweep.verdicts import Reason

if TYPE_CHECKING:
    from lakesweep.lifecycle.entries.cache import Segment
    from lakesweep.sweep.plan.stored_plan import StoredPlan

#: The most objects of one path that are explained.
_MOST_OBJECTS = 100
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class ObjectExplanation:
    """What is known about one object, what decides first.

    `row` is from the plan, None if nothing is stored.
    """

    address: str
    row: Mapping[str, Any] | None
    evidence: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class ObjectExplainer:
    """Explains for objects of a plan what keeps them, and what expires them."""

    plan: StoredPlan
    documents: VouchedDocuments

    def explain(self, wanted: str) -> Iterator[ObjectExplanation]:
        """An object by its address, or all objects that a path of the repository ever had."""
        found = False
        for address in self._addresses(wanted):
            explanation = self._explain(address)
            if explanation.row is not None or explanation.evidence:
                found = True
                yield explanation
        if not found:
            raise NotFoundError(
                f"{self.plan.document.plan} knows no object and no path {wanted}",
                hint="give the address of an object, its key such as data/…, or a path of the"
                " repository; all are matched exactly",
            )

    @cached_property
    def _namespace(self) -> StorageNamespace:
        return StorageNamespace(self._details.namespace, self._details.aliases)

    @cached_property
    def _details(self) -> LifecycleDetails:
        return lifecycle_details(self.plan.document)

    @cached_property
    def _segments(self) -> tuple[Segment, ...]:
        folder = f"{self._details.home.rstrip('/')}/cache/"
        cache = RangeCache(self.plan.stores, folder, self._namespace, self.documents)
        return tuple(cache.all_segments())

    @cached_property
    def _evidence(self) -> Evidence:
        record = self._details.record
        return Evidence(
            self.plan.stores,
            self._namespace,
            self._segments,
            read_refs(self.plan.stores, self.plan.dataset("refs")),
            plan_policy(self.plan.document),
            record.started,
            self._staged(),
            record.lost,
            self._details.tags_protect_history,
            self._examined(),
        )

    def _examined(self) -> frozenset[str]:
        """The commits that keep what they hold because they are no potential ones."""
        if not self._details.as_proposed:
            return frozenset()
        record = self._details.record
        address = table_address(self._details.home, "commits", record.run_id, record.started)
        commits = load_dataset(self.plan.stores, address)
        wanted = ~pc.field("potential")
        ids = read_dataset(self.plan.stores, commits, ["commit_id"], wanted)
        return frozenset(id_ for batch in ids for id_ in batch["commit_id"].to_pylist())

    def _staged(self) -> Dataset | None:
        try:
            return load_dataset(self.plan.stores, f"{self.plan.record.address}/staged")
        except MissingError:
            return None

    def _addresses(self, wanted: str) -> Iterator[str]:
        """The keys of the objects that are meant."""
        folders = (self._namespace.folder, *(f"{a.rstrip('/')}/" for a in self._namespace.aliases))
        for folder in folders:
            if identity(wanted).startswith(identity(folder)):
                yield identity(wanted).removeprefix(identity(folder))
                return
        yield wanted
        yield from self._of_path(wanted.encode())

    def _of_path(self, path: bytes) -> Iterator[str]:
        """The addresses that a path had in any commit."""
        seen: set[str] = set()
        for segment in self._segments:
            is_path = pc.field("path") == path
            for batch in read_dataset(
                self.plan.stores, segment.entries, ["address"], is_path, verify=False
            ):
                for address in batch["address"].to_pylist():
                    if address not in seen and len(seen) < _MOST_OBJECTS:
                        seen.add(address)
                        yield address

    def _explain(self, address: str) -> ObjectExplanation:
        row = find_row(self.plan, self._namespace.address(address))
        rows = (row for batch in self._evidence.of(address) for row in batch.to_pylist())
        return ObjectExplanation(address, row, tuple(sorted(rows, key=_weight)))


def _weight(row: Mapping[str, Any]) -> tuple[int, datetime]:
    """What decides comes first: what no age outweighs, then the longest retention."""
    return decides_before(Reason(row["why"])), row["before"] or _LONG_AGO
