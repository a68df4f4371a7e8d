"""An index over manifests that an engine read says the same as one over those read here."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.errors import IncompleteError
from lakesweep.storage.datasets.manifest import Dataset
from lakesweep.storage.stores import Keyring, Stores
from lakesweep.sweep.engine.local_engine import LocalSweepEngine
from lakesweep.sweep.engine.protocol import Step
from lakesweep.upkeep.engine_manifests import EngineManifests
from lakesweep.upkeep.file_index import FileIndex
from tests.expiry_lake import ExpiryLake
from tests.unit.upkeep.test_file_index import (
    before_and_after,
    case_named,
    fresh_buckets,
    identities_of,
    without,
)


class FarEngine(LocalSweepEngine):
    """An engine whose steps travel, as those of executors do."""

    def gather(
        self, step: Step, rows: Dataset, schema: pa.Schema, *, most_calls: int | None = None
    ) -> pa.Table:
        return super().gather(_sent(step), rows, schema, most_calls=most_calls)

    def group(
        self, step: Step, rows: Sequence[Dataset], schema: pa.Schema, *, least_calls: int = 1
    ) -> pa.Table:
        return super().group(_sent(step), rows, schema, least_calls=least_calls)


def _sent(step: Step) -> Step:
    sent: Step = pickle.loads(pickle.dumps(step))
    return sent


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> ExpiryLake:
    return ExpiryLake(tmp_path_factory.mktemp("nothing"))


def index_on(engine: LocalSweepEngine, stores: Stores, folder: Path) -> FileIndex:
    source = EngineManifests(engine, stores, Keyring(stores), str(folder / "work"))
    return FileIndex(stores, source=source)


def told(index: FileIndex, before: Any, after: Any) -> list[Any]:
    """Everything that an index says of an expiry."""
    with index:
        index.read_lists(before)
        freed = [*index.freed(before, after)]
        index.read_manifests()
        owners = {each.id: number for number, each in enumerate(before.snapshots)}
        files = sorted(identities_of(freed))
        reached = index.reached_among(freed, before)
        return [
            files,
            index.held_alone(before.snapshots, owners),
            index.count_content(before),
            [index.holders(path, before) for path in files],
            (len(reached), len(index.reached_among(freed, after))),
            index.problems(before),
        ]


@pytest.mark.parametrize("name", ["cow.head-only", "v1.head-only", "vectors.head-only"])
def test_both_say_the_same(name: str, lake: ExpiryLake, tmp_path: Path) -> None:
    stores = Stores(replace=fresh_buckets(lake))
    before, after = before_and_after(stores, case_named(f"attic.shop.{name}"))
    here = told(FileIndex(stores), before, after)
    assert here[0]
    assert here[4] == (len(here[0]), 0)
    assert told(index_on(FarEngine(stores), stores, tmp_path), before, after) == here
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("what", ["retained-list", "retained-manifest", "expired-manifest"])
def test_what_cannot_be_read_is_told_the_same(what: str, lake: ExpiryLake, tmp_path: Path) -> None:
    case = case_named(f"attic.shop.cow.missing-{what}")
    stores = without(lake, case)
    before, after = before_and_after(stores, case)
    here = told(FileIndex(stores), before, after)
    assert here[-1]
    assert told(index_on(FarEngine(stores), stores, tmp_path), before, after) == here


def test_files_that_no_task_answered_for_stop_everything(lake: ExpiryLake, tmp_path: Path) -> None:
    class Forgetful(LocalSweepEngine):
        def gather(self, step: Step, rows: Dataset, schema: pa.Schema, **others: Any) -> pa.Table:
            return super().gather(step, rows, schema, **others).slice(1)

    stores = Stores(replace=fresh_buckets(lake))
    before, _ = before_and_after(stores, case_named("attic.shop.cow.head-only"))
    with (
        index_on(Forgetful(stores), stores, tmp_path) as index,
        pytest.raises(IncompleteError, match="were read by executors"),
    ):
        index.read_lists(before)
