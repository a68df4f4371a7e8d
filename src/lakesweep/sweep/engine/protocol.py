"""The interface of engines. Every engine runs the same steps and writes the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from lakesweep.storage.datasets.manifest import Dataset

Step = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class MarkEngine(Protocol):
    """Runs steps over the rows of datasets."""

    def gather(
        self, step: Step, rows: Dataset, schema: pa.Schema, *, most_calls: int | None = None
    ) -> pa.Table:
        """Everything that a step yields, which is little, as rows of a schema.

        The rows are spread evenly over as many calls of the step as the engine likes, or at most
        `most_calls`, each row in one of them. A call may be repeated; the rows of only one of its
        runs count.
        """
        ...

    def distinct(self, children: Sequence[Dataset], kind: str, address: str) -> Dataset:
        """Write the pointers of one kind among CHILDREN, each file once, as a dataset of POINTERS.

        Files are identified by `h1`, `h2` and `location`, where null is a value like any other; the
        other columns are merged according to MERGED, ignoring nulls.
        """
        ...


class SweepEngine(MarkEngine, Protocol):
    """Runs the steps of a sweep. Only little data comes back to the caller."""

    @property
    def name(self) -> str:
        """The name of the engine in records."""
        ...

    @property
    def parts(self) -> int:
        """The best number of parts to split work into."""
        ...

    @property
    def slots(self) -> int:
        """How many parts run at once, as far as known."""
        ...

    def run(
        self,
        kernel: Callable[[Any], Iterator[pa.RecordBatch]],
        items: Sequence[Any],
        schema: pa.Schema,
    ) -> pa.Table:
        """Everything that a kernel yields for some items, each in a separate call."""
        ...

    def match(self, step: Step, listing: Dataset, live: Dataset, schema: pa.Schema) -> pa.Table:
        """Everything that a step yields for listed files, each marked as live or not.

        `listing` has the columns of LISTING, and may have more. The step gets them as REFERENCED: a
        file is referenced if its hash is that of a live one.
        """
        ...

    def miss(self, step: Step, listing: Dataset, live: Dataset, schema: pa.Schema) -> pa.Table:
        """Everything that a step yields for live files (LIVE) whose hash no listed file has.

        All rows of one file go to the same call of the step.
        """
        ...

    def pair(
        self,
        step: Step,
        listing: Dataset,
        said: Dataset,
        columns: Sequence[str],
        schema: pa.Schema,
    ) -> pa.Table:
        """Everything that a step yields for listed files, each with its row of another dataset.

        `listing` has `h1` and `h2`, and may contain a file more than once; `said` has one row per
        file. Its named columns, none of which `listing` has, follow those of `listing`, null for
        files without a row.
        """
        ...
