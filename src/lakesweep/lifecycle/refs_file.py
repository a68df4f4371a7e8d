"""The refs of a repository as a dataset of a plan, for whoever looks at them later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakesweep.lakefs.refs import Branch, Commit, Refs, Tag, make_refs
from lakesweep.lakefs.temporary import MARK
from lakesweep.storage.datasets import Dataset, read_dataset, write_dataset

if TYPE_CHECKING:
    from lakesweep.storage.store import StoreOpener

_COMMIT, _BRANCH, _TAG = "commit", "branch", "tag"
_ROWS = 1 << 14

#: A commit, a branch or a tag. `name` is that of the ref, or the id of the commit; `commit_id` is
#: what a ref is on. Ids of parents stand with spaces between them. `takes_off` is what temporary
#: commits have in their metadata (see `lakefs.temporary`).
REFS = pa.schema(
    [
        pa.field("what", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("commit_id", pa.string()),
        pa.field("hidden", pa.bool_()),
        pa.field("parents", pa.string()),
        pa.field("metarange_id", pa.string()),
        pa.field("created", pa.timestamp("us", tz="UTC")),
        pa.field("committer", pa.string()),
        pa.field("message", pa.string()),
        pa.field("version", pa.int64()),
        pa.field("generation", pa.int64()),
        pa.field("takes_off", pa.string()),
    ]
)


def write_refs(stores: StoreOpener, address: str, refs: Refs) -> Dataset:
    """Store refs; other metadata of commits is left out."""
    return write_dataset(stores, address, REFS, _batches(refs))


def read_refs(stores: StoreOpener, dataset: Dataset) -> Refs:
    """The refs that were stored."""
    found: dict[str, list[dict[str, Any]]] = {_COMMIT: [], _BRANCH: [], _TAG: []}
    for batch in read_dataset(stores, dataset):
        for row in batch.to_pylist():
            found[row["what"]].append(row)
    return make_refs(
        map(_commit, found[_COMMIT]),
        (Branch(row["name"], row["commit_id"], row["hidden"]) for row in found[_BRANCH]),
        (Tag(row["name"], row["commit_id"]) for row in found[_TAG]),
    )


def _batches(refs: Refs) -> Iterator[pa.RecordBatch]:
    rows = list(_rows(refs))
    for start in range(0, len(rows), _ROWS):
        yield pa.RecordBatch.from_pylist(rows[start : start + _ROWS], schema=REFS)


def _rows(refs: Refs) -> Iterator[dict[str, Any]]:
    for branch in refs.branches:
        yield {
            "what": _BRANCH,
            "name": branch.name,
            "commit_id": branch.commit_id,
            "hidden": branch.hidden,
        }
    for tag in refs.tags:
        yield {"what": _TAG, "name": tag.name, "commit_id": tag.commit_id}
    for commit in refs.commits.values():
        yield {
            "what": _COMMIT,
            "name": commit.id,
            "parents": " ".join(commit.parents),
            "metarange_id": commit.metarange_id,
            "created": commit.created,
            "committer": commit.committer,
            "message": commit.message,
            "version": commit.version,
            "generation": commit.generation,
            "takes_off": commit.metadata.get(MARK),
        }


def _commit(row: dict[str, Any]) -> Commit:
    return Commit(
        row["name"],
        tuple(row["parents"].split()),
        row["metarange_id"],
        row["created"],
        row["committer"],
        row["message"],
        row["version"],
        row["generation"],
        {} if row.get("takes_off") is None else {MARK: row["takes_off"]},  # older plans have none
    )
