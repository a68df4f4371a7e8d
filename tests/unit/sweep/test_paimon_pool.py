"""Work on an engine: results in order, errors as they were raised, and tables that travel."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.errors import (
    DamagedError,
    DeniedError,
    IncompleteError,
    LakesweepError,
    MissingError,
)
from lakesweep.paimon.model.table import PaimonTable
from lakesweep.storage.stores import Stores
from lakesweep.sweep.engine.local_engine import LocalSweepEngine
from lakesweep.sweep.paimon_pool import EnginePool
from tests.paimon_tables import Table


@dataclass(frozen=True)
class FarEngine(LocalSweepEngine):
    """An engine of three parts, to which everything travels, and which answers in any order."""

    parts: int = 3
    calls: list[int] = field(default_factory=list)

    def run(
        self,
        kernel: Callable[[Any], Iterator[pa.RecordBatch]],
        items: Sequence[Any],
        schema: pa.Schema,
    ) -> pa.Table:
        self.calls.append(len(items))
        shipped = pickle.loads(pickle.dumps(kernel))
        return super().run(shipped, pickle.loads(pickle.dumps(items[::-1])), schema)


def double(number: int) -> int:
    return 2 * number


@dataclass(frozen=True)
class Raise:
    kind: type[LakesweepError]

    def __call__(self, number: int) -> int:
        if number == 5:
            raise self.kind("s3://b/k", "said so")  # type: ignore[call-arg]
        return number


def test_results_come_in_order_however_the_engine_answers() -> None:
    engine = FarEngine(Stores())
    assert list(EnginePool(engine).map(double, range(1000))) == list(range(0, 2000, 2))
    assert set(engine.calls) == {3}
    assert len(engine.calls) == 6


def test_nothing_to_do_starts_nothing() -> None:
    engine = FarEngine(Stores())
    assert list(EnginePool(engine).map(double, [])) == []
    assert engine.calls == []


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (MissingError, MissingError),
        (DamagedError, DamagedError),
        (DeniedError, IncompleteError),
    ],
)
def test_an_error_is_raised_in_its_place(
    raised: type[LakesweepError], seen: type[LakesweepError]
) -> None:
    results = EnginePool(FarEngine(Stores())).map(Raise(raised), range(9))
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(seen, match=r"s3://b/k.*said so"):
        next(results)


def test_a_table_travels_without_its_pool() -> None:
    made = Table()
    table = PaimonTable.open(made.bucket.stores, made.address, pool=EnginePool(FarEngine(Stores())))
    there = pickle.loads(pickle.dumps(PaimonTable(Stores(), table.address, threads=3)))
    assert there.address == table.address
    assert there.threads == 3
    assert table.__getstate__()["_pool"] is None
