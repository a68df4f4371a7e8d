"""Which roots keep a file, and through which files.

This needs the hashes of all referenced files, but otherwise only the rows that lead to one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.paimon.model.file_kinds import PaimonKind
from lakesweep.storage.address import identity
from lakesweep.storage.datasets.reader import read_dataset
from lakesweep.storage.file_identity import file_hashes, hash_columns, resolve_alias
from lakesweep.sweep.columns import mask_of
from lakesweep.sweep.judge.dangling_references import loose_keys
from lakesweep.sweep.mark.marks import Marks, RootMark

if TYPE_CHECKING:
    from lakesweep.storage.object_store import StoreOpener


@dataclass(frozen=True, slots=True)
class RootReference:
    """A path from a root to a file that it keeps.

    The first file in `through` is the root's own, and the last one names the file as `path`. A
    metadata file is the last in its own path.
    """

    root: RootMark
    path: str
    kind: str
    through: tuple[str, ...]


def find_references(stores: StoreOpener, marks: Marks, path: str) -> list[RootReference]:
    """One path for each root that keeps a file, ordered by root.

    That a table once deleted the file is the weakest evidence, used only if there is no other.
    """
    rows = list(_naming(stores, marks, path))
    former = [row for row in rows if row["kind"] == PaimonKind.FORMER]
    kept = [row for row in rows if row["kind"] != PaimonKind.FORMER]
    found = {
        (each.root.name, each.root.source): each
        for some in (former, kept)
        for each in _ways(stores, marks, some)
    }
    keys = ((root.name, root.source) for root in marks.roots)
    return [found[key] for key in keys if key in found]


def find_spellings(stores: StoreOpener, marks: Marks, path: str) -> list[RootReference]:
    """References by another spelling of a file's key, one for each root.

    Such spellings hash to nothing in common, so every reference is read.
    """
    wanted = loose_keys(pa.array([path])).keys
    columns = ["path", "kind", "source"]
    found: dict[int, dict[str, Any]] = {}
    for batch in read_dataset(stores, marks.content, columns, verify=False):
        loose = loose_keys(batch["path"])
        matches = mask_of(pc.is_in(loose.keys, value_set=wanted))
        is_same = pa.array(loose.rows_where(matches, batch.num_rows))
        found |= {row["source"]: row for row in batch.filter(is_same).to_pylist()}
    return list(_ways(stores, marks, list(found.values())))


def _ways(
    stores: StoreOpener, marks: Marks, rows: Sequence[Mapping[str, Any]]
) -> Iterator[RootReference]:
    named = {row["source"]: row for row in rows}
    towards = _climb(stores, marks, named)
    roots = [root for root in marks.roots if root.source in towards]
    ways = [tuple(_way(towards, root.source)) for root in roots]
    paths = _paths(stores, marks, {source for way in ways for source in way})
    for root, way in zip(roots, ways, strict=True):
        row = named[way[-1]]
        yield RootReference(root, row["path"], row["kind"], tuple(paths[source] for source in way))


def _naming(stores: StoreOpener, marks: Marks, path: str) -> Iterator[dict[str, Any]]:
    """The rows that name a file, one per source."""
    h1, h2 = (column[0].as_py() for column in hash_columns(file_hashes(pa.array([path]))))
    is_same = (pc.field("h1") == h1) & (pc.field("h2") == h2)
    columns = ["path", "kind", "source"]
    for batch in read_dataset(stores, marks.content, columns, is_same, verify=False):
        yield from (row for row in batch.to_pylist() if _is_one_file(row["path"], path))


def _is_one_file(one: str, other: str) -> bool:
    return resolve_alias(identity(one)) == resolve_alias(identity(other))


def _climb(stores: StoreOpener, marks: Marks, sources: Iterable[int]) -> Mapping[int, int | None]:
    """All sources that lead to these, each with the next one on a shortest path down."""
    towards: dict[int, int | None] = dict.fromkeys(sources)
    level = list(towards)
    while level:
        leads_here = pc.field("child").isin(level)
        found: dict[int, int] = {}
        for batch in read_dataset(stores, marks.datasets["edges"], None, leads_here, verify=False):
            found |= dict(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        level = [parent for parent in found if parent not in towards]
        towards |= {parent: found[parent] for parent in level}
    return towards


def _way(towards: Mapping[int, int | None], source: int | None) -> Iterator[int]:
    while source is not None:
        yield source
        source = towards[source]


def _paths(stores: StoreOpener, marks: Marks, numbers: set[int]) -> Mapping[int, str]:
    wanted = pc.field("source").isin(sorted(numbers))
    columns = ["source", "path"]
    batches = read_dataset(stores, marks.datasets["sources"], columns, wanted, verify=False)
    return {row["source"]: row["path"] for batch in batches for row in batch.to_pylist()}
