"""Lifecycle runs over models, in one process or on Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lakesweep.clock import ManualClock
from lakesweep.lakefs.columns import STAGED
from lakesweep.lakefs.repository.interface import Repository
from lakesweep.lifecycle.judge.engine import LifecycleEngine, LocalLifecycleEngine
from lakesweep.lifecycle.judge.pipeline import JudgedAddresses, LifecycleSpec, judge_addresses
from lakesweep.lifecycle.policy.parser import parse_policy
from lakesweep.lifecycle.policy.rules import LifecyclePolicy
from lakesweep.lifecycle.run_history import (
    LifecycleHistory,
    LifecycleRunState,
    VouchedDocuments,
)
from lakesweep.runs.records import TYPES
from lakesweep.runs.run_log import RunLog
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.datasets.writer import write_dataset
from lakesweep.storage.stores import Stores
from lakesweep.store import Store
from lakesweep.store.backends.memory import MemoryBackend
from tests.lakefs_repositories import LOCATION, NOW, Model, write_repository

_numbers = count()
_stores: dict[tuple[Path, str], VouchedDocuments] = {}


def documents_of(folder: Path, location: str = LOCATION) -> VouchedDocuments:
    """What a store knows of the runs of a repository; one store per folder."""
    if (folder, location) not in _stores:
        clock = ManualClock(NOW)
        store = Store(MemoryBackend(), types=TYPES, clock=clock)
        runs = RunLog(store.create_realm("acme"), clock)
        _stores[folder, location] = VouchedDocuments(runs, location)
    return _stores[folder, location]


def forget_documents(folder: Path) -> None:
    """Go on with a store that knows nothing of earlier runs."""
    for key in [key for key in _stores if key[0] == folder]:
        del _stores[key]


def policy_of(rules: dict[str, dict[str, Any]]) -> LifecyclePolicy:
    whole = {id_: {"enabled": True, **rule} for id_, rule in rules.items()}
    return parse_policy(json.dumps(whole).encode(), "policy.json")


def run(
    model: Model,
    policy: LifecyclePolicy,
    folder: Path,
    *,
    now: datetime = NOW,
    engine: LifecycleEngine | None = None,
    **options: Any,
) -> JudgedAddresses:
    """Judge a model whose files are below the folder."""
    repository = write_repository(model, folder / "repo")
    return judge(repository, policy, folder, now=now, engine=engine, **options)


def judge(
    repository: Repository,
    policy: LifecyclePolicy,
    folder: Path,
    *,
    now: datetime = NOW,
    engine: LifecycleEngine | None = None,
    **options: Any,
) -> JudgedAddresses:
    stores = Stores()
    run_id = f"run-{next(_numbers)}"
    place = f"{folder}/runs/{run_id}"
    staged = write_dataset(stores, f"{place}/staged", STAGED, repository.staged())
    documents = documents_of(folder)
    spec = LifecycleSpec(repository, policy, run_id, now, place, documents, home_of(folder))
    return judge_addresses(
        replace(spec, **options),
        engine or LocalLifecycleEngine(stores),
        repository.read_refs(),
        staged,
    )


def home_of(folder: Path) -> str:
    return f"{folder}/lc/"


def history_of(folder: Path, location: str = LOCATION) -> LifecycleHistory:
    """The runs of a repository whose tables are below the folder."""
    documents = documents_of(folder, location)
    return LifecycleHistory(Stores(), home_of(folder), location, documents)


def sweep(found: JudgedAddresses, folder: Path, now: datetime = NOW) -> None:
    """Write down that all that was found is gone."""
    history_of(folder).finish(found.record, LifecycleRunState.SWEPT, now, found.figures)


def rows_of(found: JudgedAddresses) -> dict[str, dict[str, Any]]:
    """The verdicts by address."""
    batches = read_dataset(Stores(), found.verdicts)
    return {row["address"]: row for batch in batches for row in batch.to_pylist()}


def going(found: JudgedAddresses) -> set[str]:
    return {address for address, row in rows_of(found).items() if row["verdict"] == "delete"}


def results_of(found: JudgedAddresses) -> dict[str, dict[str, Any]]:
    """The results by address."""
    batches = read_dataset(Stores(), found.results)
    return {row["address"]: row for batch in batches for row in batch.to_pylist()}


def read_rows(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a table of all runs, in no order of runs."""
    rows: list[dict[str, Any]] = pq.read_table(f"{home_of(folder)}{name}").to_pylist()
    return rows
