"""Delete objects that are as they were listed, also where a store cannot tell by itself.

Some S3 servers ignore the conditions of deletes, and an ETag of S3 tells the content only: an
object that was written again with the same bytes, by a repeated copy for example, has the same one.
It is as new as any other, and may be about to be committed. So objects of such stores are looked at
right before: as many as possible by one page of a listing, the others one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import LakesweepError, MissingError, ThrottledError, UnavailableError
from lakesweep.parallel import map_ordered
from lakesweep.storage.object_store import (
    CHANGED,
    Deletion,
    Expected,
    ObjectInfo,
    ObjectStore,
    Outcome,
    is_expected,
)

#: Parallel requests for single keys.
_WORKERS = 16


def delete_unchanged(
    store: ObjectStore, keys: Sequence[str], expected: Sequence[Expected | None] | None
) -> Sequence[Deletion]:
    """As `ObjectStore.delete`; objects that were written since they were listed are CHANGED."""
    if expected is None or store.capabilities.detects_rewrites:
        return store.delete(keys, expected)
    wanted = dict(zip(keys, expected, strict=True))
    timed = {k: one for k, one in wanted.items() if one is not None and one.modified_micros}
    outcomes = dict(_kept(store, timed))
    left = [key for key in keys if key not in outcomes]
    if left:
        deletions = store.delete(left, [wanted[key] for key in left])
        if [deletion.key for deletion in deletions] != left:
            return deletions
        outcomes |= {deletion.key: deletion for deletion in deletions}
    return [outcomes[key] for key in keys]


def _kept(store: ObjectStore, timed: Mapping[str, Expected]) -> Iterator[tuple[str, Deletion]]:
    """The outcomes of objects that must not be deleted, or need not."""
    listed = _listed(store, sorted(timed, key=str.encode))
    others = [key for key in timed if key not in listed]
    looks = map_ordered(lambda key: (key, _look(store, key)), others, workers=_WORKERS)
    for key, found in [*listed.items(), *looks]:
        if isinstance(found, Deletion):
            yield key, found
        elif not is_expected(found, timed[key]):
            yield key, Deletion(key, Outcome.CHANGED, CHANGED)


def _listed(store: ObjectStore, keys: Sequence[str]) -> Mapping[str, ObjectInfo]:
    """What one page of a listing tells of keys in ascending order; nothing if that is not much."""
    if len(keys) <= 2 or not store.capabilities.ordered:
        return {}
    folder = _common_folder(keys[0], keys[-1])
    try:
        entries = store.list(folder, after=keys[0]).entries
    except LakesweepError:
        return {}  # each is asked for by itself
    found = entries.filter(pc.is_in(entries["key"], pa.array(keys)))
    return {row["key"]: ObjectInfo(**row) for row in found.to_pylist() if row["modified"]}


def _common_folder(first: str, last: str) -> str:
    size = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
    return first[: first.rfind("/", 0, size) + 1]


def _look(store: ObjectStore, key: str) -> ObjectInfo | Deletion:
    try:
        return store.head(key)
    except MissingError:
        return Deletion(key, Outcome.ABSENT)
    except LakesweepError as error:
        may_retry = isinstance(error, ThrottledError | UnavailableError)
        return Deletion(key, Outcome.FAILED, str(error), may_retry)
