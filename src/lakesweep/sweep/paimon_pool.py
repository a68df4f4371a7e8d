"""Read the manifests of a Paimon table on an engine.

The work of reading and filtering manifests is spread over the executors; what is left of them
comes back, in the order of the manifests. Lists, snapshots and commits stay in this process, and
so do deletes: their order is what makes an expiry safe.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa

from lakesweep import errors
from lakesweep.errors import FormatError, IncompleteError, LakesweepError, MissingError
from lakesweep.sweep.engine.protocol import SweepEngine

Item = TypeVar("Item")
Result = TypeVar("Result")

_RESULTS = pa.schema([("number", pa.int64()), ("result", pa.binary())])
#: The results of this many items for each part of the engine are in memory at once.
_ITEMS_IN_A_PART = 64


@dataclass(frozen=True, slots=True)
class _Failure:
    """An error of one item: errors themselves do not travel between processes."""

    kind: str
    path: str | None
    reason: str
    hint: str

    @classmethod
    def of(cls, error: LakesweepError) -> _Failure:
        path = getattr(error, "path", None)
        reason = error.message if path is None else getattr(error, "reason", error.message)
        return cls(type(error).__name__, path, reason, error.hint)

    def error(self) -> LakesweepError:
        kind = getattr(errors, self.kind)
        if self.path is not None and issubclass(kind, (FormatError, MissingError)):
            made: LakesweepError = kind(self.path, self.reason, hint=self.hint)
            return made
        where = "" if self.path is None else f"{self.path}: "
        return IncompleteError(f"{where}{self.reason}", hint=self.hint)


@dataclass(frozen=True)
class _Kernel:
    """Does the work for some numbered items."""

    work: Callable[[Any], Any]

    def __call__(self, items: Sequence[tuple[int, Any]]) -> Iterator[pa.RecordBatch]:
        for number, item in items:
            yield pa.RecordBatch.from_pylist(
                [{"number": number, "result": pickle.dumps(self._result(item))}], _RESULTS
            )

    def _result(self, item: Any) -> Any:
        try:
            return self.work(item)
        except LakesweepError as error:
            return _Failure.of(error)


@dataclass(frozen=True)
class EnginePool:
    """Does work on the executors of an engine."""

    engine: SweepEngine

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """The results of picklable work in the order of the items; the first error is raised."""
        parts = max(1, self.engine.parts)
        numbered = enumerate(items)
        while window := list(islice(numbered, parts * _ITEMS_IN_A_PART)):
            # Dealt out in turn: neighbours are of one size, and the last part is not the largest.
            shares = [window[start::parts] for start in range(min(parts, len(window)))]
            rows = self.engine.run(_Kernel(work), shares, _RESULTS).sort_by("number")
            for data in rows["result"].to_pylist():
                result = pickle.loads(data)  # noqa: S301 - written by our own kernel
                if isinstance(result, _Failure):
                    raise result.error()
                yield result
