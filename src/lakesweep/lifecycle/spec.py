"""What a lifecycle run is told, and what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesweep.lifecycle.history import HOME, RunRecord
from lakesweep.lifecycle.policy import Policy
from lakesweep.lifecycle.range_cache import Segment
from lakesweep.lifecycle.selecting import Selection
from lakesweep.storage.datasets import Dataset

if TYPE_CHECKING:
    from lakesweep.lakefs.repository import Repository

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Spec:
    """What a run is told.

    `folder` is where its own datasets go, `home` where the tables of all runs are, by default below
    the namespace. `grace` is how long a deleted branch holds what it held. `restored` is when
    objects last came back from quarantine: what swept before then has not swept them.
    """

    repository: Repository
    policy: Policy
    run_id: str
    now: datetime
    folder: str
    home: str | None = None
    selection: Selection = Selection.FULL
    grace: timedelta = timedelta(days=7)
    tags_protect_history: bool = False
    without_staging: bool = False
    restored: datetime | None = None

    @property
    def place(self) -> str:
        """Where the tables of all runs are."""
        return self.home or self.repository.namespace.address(HOME)

    @property
    def options(self) -> str:
        """What else decides which addresses go."""
        return f"tags_protect_history={self.tags_protect_history}"

    @property
    def today(self) -> int:
        """The day of the run, counted from 1970."""
        return (self.now - _EPOCH).days

    def dataset(self, name: str) -> str:
        """The address of one of the run's own datasets."""
        return f"{self.folder.rstrip('/')}/{name}/"


@dataclass(frozen=True)
class Tables:
    """The tables of the requirement that are as small as the policy and the refs.

    They have POLICY_TABLE, CURRENT_RULE and BRANCH_LAST, and stored COMMITS.
    """

    policy: pa.Table
    current_rule: pa.Table
    branch_last: pa.Table
    commits: Dataset


@dataclass(frozen=True)
class Found:
    """What a run found. `verdicts` has a row (JUDGED) for each address that a rule covers.

    `results` has those that go (RESULTS), `totals` counts them all (TOTALS). `segments` is what was
    read, from which evidence comes. `full` says why all commits were looked at where less was
    asked for, and is empty where all were.
    """

    verdicts: Dataset
    results: Dataset
    totals: pa.Table
    tables: Tables
    segments: tuple[Segment, ...]
    record: RunRecord
    figures: Mapping[str, int]
    words: tuple[str, ...]
    warnings: tuple[str, ...]
    full: str | None
