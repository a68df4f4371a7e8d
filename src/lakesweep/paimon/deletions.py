"""The entries that delete partitions: copies of what is live in them, marked as deleted.

A reader matches a DELETE with its ADD by everything that makes a file's identity, so each entry is
copied as it is, whatever its fields are, and only its kind changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import DamagedError
from lakesweep.paimon.entries import ADD, DELETE
from lakesweep.paimon.manifest_states import read_entries, read_entry_rows
from lakesweep.paimon.row_formats import widest
from lakesweep.paimon.rows import Row, RowFormat
from lakesweep.paimon.survey import WORKERS, Survey
from lakesweep.paimon.table import Branch
from lakesweep.parallel import map_ordered

_IDENTITY = (
    "partition", "bucket", "level", "name", "extra_files", "embedded_index", "external_path",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Deletions:
    """DELETE entries, and the format that has all their fields."""

    rows: list[Row]
    format: RowFormat


@dataclass(frozen=True, slots=True)
class _Mention:
    """An entry of a chosen partition: its kind, its identity, and its place."""

    kind: int
    identity: tuple[object, ...]
    manifest: int
    row: int


def find_deletions(branch: Branch, survey: Survey, targets: Iterable[bytes]) -> Deletions:
    """The entries that delete all live files of some partitions of a snapshot.

    DamagedError where the manifests contradict each other: then nothing can be said to be live.
    """
    chosen = set(targets)
    partitions = pa.array(sorted(chosen), pa.binary())
    manifests = [each for each in survey.state.manifests if survey.has_any(each, partitions)]
    live = _live(branch, manifests, partitions)
    _check_count(branch, survey, chosen, len(live))
    places: dict[int, list[int]] = {}
    for mention in live:
        places.setdefault(mention.manifest, []).append(mention.row)
    rows: list[Row] = []
    formats = []
    for number, chosen_rows in places.items():
        how, entries = read_entry_rows(branch.table, manifests[number])
        formats.append(how)
        rows += [{**entries[place], "_KIND": DELETE} for place in chosen_rows]
    return Deletions(rows, widest(branch.table.address.path, formats))


def _live(branch: Branch, manifests: Sequence[Row], targets: pa.Array) -> list[_Mention]:
    """What is added and not deleted again, in the order of the manifests."""
    live: dict[tuple[object, ...], _Mention] = {}
    read = partial(_mentions, branch, targets)
    for mentions in map_ordered(read, enumerate(manifests), workers=WORKERS):
        for mention in mentions:
            is_new = mention.identity not in live
            if is_new != (mention.kind == ADD):
                raise _contradiction(branch, mention)
            if is_new:
                live[mention.identity] = mention
            else:
                del live[mention.identity]
    return list(live.values())


def _mentions(branch: Branch, targets: pa.Array, numbered: tuple[int, Row]) -> list[_Mention]:
    number, manifest = numbered
    found: list[_Mention] = []
    first = 0
    for batch in read_entries(branch.table, manifest):
        chosen = pc.is_in(batch["partition"], value_set=targets)
        places = np.flatnonzero(chosen.to_numpy(zero_copy_only=False))
        rows = batch.take(pa.array(places))
        found += [
            _Mention(kind, identity, number, first + place)
            for kind, identity, place in zip(
                rows["kind"].to_pylist(), _identities(rows), places.tolist(), strict=True
            )
        ]
        first += batch.num_rows
    return found


def _identities(rows: pa.RecordBatch) -> Iterator[tuple[object, ...]]:
    for values in zip(*(rows[name].to_pylist() for name in _IDENTITY), strict=True):
        yield tuple(tuple(value) if isinstance(value, list) else value for value in values)


def _contradiction(branch: Branch, mention: _Mention) -> DamagedError:
    deed = "added twice" if mention.kind == ADD else "deleted without being there"
    return DamagedError(
        branch.table.address.path,
        f"the file {mention.identity[3]} is {deed} by its manifests",
        hint="nothing was changed; let the engine that writes this table check it",
    )


def _check_count(branch: Branch, survey: Survey, chosen: set[bytes], found: int) -> None:
    expected = sum(survey.partitions[data].files for data in chosen)
    if found != expected:
        raise DamagedError(
            branch.table.address.path, f"{found} of {expected} live files were found again"
        )
