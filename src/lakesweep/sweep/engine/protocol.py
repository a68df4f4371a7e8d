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
        """All that a step yields, which is little, as rows of a schema.

        The rows are spread evenly over as many calls of the step as the engine likes, or at most as
        many as are told, each row in one of them. A call may be repeated; the rows of one of its
        runs count.
        """
        ...

    def distinct(self, children: Sequence[Dataset], kind: str, address: str) -> Dataset:
        """Write the pointers of one kind among CHILDREN, each file once, as a dataset of POINTERS.

        Files are told apart by `h1`, `h2` and `location`, where null is a value as any other; the
        other columns are merged as MERGED says, without nulls.
        """
        ...


class SweepEngine(MarkEngine, Protocol):
    """Runs the steps of a sweep. What comes back to the caller is little."""

    @property
    def name(self) -> str:
        """What the engine is called in records."""
        ...

    @property
    def parts(self) -> int:
        """Into how many parts work is best cut."""
        ...

    @property
    def slots(self) -> int:
        """How many parts are worked on at once, as far as is known by now."""
        ...

    def run(
        self,
        kernel: Callable[[Any], Iterator[pa.RecordBatch]],
        items: Sequence[Any],
        schema: pa.Schema,
    ) -> pa.Table:
        """All that a kernel yields for some items, each in a call of its own."""
        ...

    def match(self, step: Step, listing: Dataset, live: Dataset, schema: pa.Schema) -> pa.Table:
        """All that a step yields for listed files, told of each whether it is live.

        `listing` has the columns of LISTING, and may have more. They come to the step as
        REFERENCED: a file is referenced if its hash is that of a live one.
        """
        ...

    def miss(self, step: Step, listing: Dataset, live: Dataset, schema: pa.Schema) -> pa.Table:
        """All that a step yields for live files (LIVE) whose hash no listed file has.

        All rows of one file come to the same call of the step.
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
        """All that a step yields for listed files, each with what another dataset says of it.

        `listing` has `h1` and `h2`, and a file may be in it more than once; `said` has one row a
        file. Those of its columns that are named, none of which `listing` has, come to the step
        behind those of `listing`, null for files it says nothing of.
        """
        ...
