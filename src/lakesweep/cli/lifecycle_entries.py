"""`lakesweep lifecycle entries`: what one commit of a repository holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.lifecycle_repositories import RepositoryName, find_repository

if TYPE_CHECKING:
    import pyarrow as pa

RefName = Annotated[
    str,
    typer.Argument(
        metavar="REF",
        help="Branch, tag, commit id, or the beginning of one.",
        show_default=False,
    ),
]


def entries(context: Context, repo: RepositoryName, ref: RefName) -> None:
    """Every object of one commit: its path, and where its bytes lie.

    Of a branch its HEAD counts: what is staged on it is not committed. Addresses are as they are
    stored: relative to the namespace, or full. Ids prove each range that is read.
    """
    from lakesweep.cli.entry_rows import EntryRows
    from lakesweep.lakefs.reading import Trees

    repository = find_repository(context, repo)
    commit = repository.read_refs().find(ref)
    trees = Trees(repository.files, repository.namespace)
    context.output.rows(_readable(trees.entries(commit.metarange_id)), EntryRows())


def _readable(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from lakesweep.cli.entry_rows import path_texts

    for batch in batches:
        yield batch.set_column(0, "path", path_texts(batch.column("path")))
