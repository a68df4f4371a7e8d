"""What a policy says of addresses, and the objects that are stored: a verdict for each of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakesweep.lifecycle.insight import SAVED, savings
from lakesweep.lifecycle.plan_steps import SAID, SortStep, VerdictStep
from lakesweep.storage.datasets import Dataset, Part, commit_dataset
from lakesweep.sweep.answers import ANSWERS, answers_of
from lakesweep.sweep.columns import LISTING, VERDICTS
from lakesweep.sweep.tidying import remove_folder
from lakesweep.sweep.totals import TOTALS, merge
from lakesweep.sweep.verdicts import Verdict

if TYPE_CHECKING:
    from lakesweep.storage.stores import Stores
    from lakesweep.sweep.engine import SweepEngine
    from lakesweep.sweep.judging import Rules
    from lakesweep.sweep.marks import Marks


@dataclass(frozen=True)
class Judged:
    """The verdicts on all stored objects, and what was counted on the way."""

    datasets: Mapping[str, Dataset]
    totals: pa.Table
    saved: dict[str, Any]


def pair_verdicts(
    stores: Stores,
    engine: SweepEngine,
    listing: Dataset,
    said: Dataset,
    marks: Marks,
    rules: Rules,
    address: str,
) -> Judged:
    """Judge what is stored (LISTING) by verdicts on addresses (JUDGED), and write it down.

    What `marks` need stays, whatever was said.
    """
    taken, free = _sort(stores, engine, listing, marks, f"{address}/sorted")
    answers = pa.concat_tables(
        engine.pair(
            VerdictStep(stores, f"{address}/keep", f"{address}/delete", rules, is_taken),
            files,
            said,
            SAID,
            ANSWERS,
        )
        for files, is_taken in ((taken, True), (free, False))
    )
    datasets = {
        verdict.value: commit_dataset(
            stores,
            f"{address}/{verdict}",
            answers_of(answers, verdict.value, Part),
            VERDICTS,
        )
        for verdict in Verdict
    }
    remove_folder(stores, f"{address}/sorted")
    totals = pa.Table.from_pylist(list(answers_of(answers, "total", dict[str, Any])), schema=TOTALS)
    saved = savings(answers_of(answers, SAVED, dict[str, Any]))
    return Judged(datasets, merge([totals]), saved)


def _sort(
    stores: Stores, engine: SweepEngine, listing: Dataset, marks: Marks, folder: str
) -> tuple[Dataset, Dataset]:
    """What something needs that the policy did not see, and the rest."""
    step = SortStep(stores, f"{folder}/taken", f"{folder}/free")
    answers = engine.match(step, listing, marks.content, ANSWERS)
    taken, free = (
        commit_dataset(stores, f"{folder}/{name}", answers_of(answers, name, Part), LISTING)
        for name in ("taken", "free")
    )
    return taken, free
