"""What names say in the folders of Paimon tables.

Only what a name proves to be written by Paimon, and to be left behind by writers, may go from there
(`paimon.names`). How a table names files is known from its schemas.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import hash128
from lakesweep.paimon.layout_texts import parse_layout
from lakesweep.paimon.names import LITTER, kinds_of_external_files, kinds_of_files
from lakesweep.storage.marks import Facts
from lakesweep.sweep.filters import Filters
from lakesweep.sweep.masks import mask_of
from lakesweep.sweep.owners import FolderMap, Found, claimed_folder

_LITTER = pa.array(sorted(LITTER))


class Named(IntEnum):
    """What a name is to the Paimon tables in whose folders it lies."""

    ELSEWHERE = 0
    LITTER = 1
    #: What only ever goes on purpose, such as a tag.
    KEPT = 2
    STRANGE = 3


NamedFiles: TypeAlias = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Naming:
    """How a table names files in one of its folders, which may lie outside of its own."""

    layout: str
    is_external: bool

    def kinds(self, names: pa.Array) -> pa.Array:
        """The kind of each file by its path below the folder; null where no name fits."""
        layout = parse_layout(self.layout)[0]
        return (kinds_of_external_files if self.is_external else kinds_of_files)(layout, names)


#: By the number of a folder of tables.
Namings: TypeAlias = Mapping[int, tuple[Naming, ...]]


def namings_of(tables: FolderMap, facts: Mapping[str, Facts]) -> Namings:
    """How Paimon tables, by what they say of themselves, name files in the folders of tables."""
    found: defaultdict[int, dict[Naming, None]] = defaultdict(dict)
    for number, name in tables.claims:
        known = facts.get(name)
        if known is None or not known.layouts:
            continue
        folder = tables.folder(number)
        is_own = folder == claimed_folder(known.location)
        if is_own or folder in map(claimed_folder, known.write_paths):
            found[number] |= dict.fromkeys(Naming(text, not is_own) for text in known.layouts)
    return {number: tuple(namings) for number, namings in found.items()}


def look_at_names(
    identities: pa.Array, found: Found, tables: FolderMap, namings: Namings
) -> NamedFiles:
    """What each path is to Paimon; `found` are the innermost folders that they lie in."""
    named = np.full(len(identities), Named.ELSEWHERE, np.int8)
    for here, kinds in _kinds(identities, found, tables, namings):
        is_litter = mask_of(pc.is_in(kinds, value_set=_LITTER))
        kept = np.where(mask_of(kinds.is_valid()), Named.KEPT, Named.STRANGE)
        named[here] = np.where(is_litter, Named.LITTER, kept)
    return named


def kinds_of_paths(
    identities: pa.Array, found: Found, tables: FolderMap, namings: Namings
) -> pa.Array:
    """The kind of each path in a folder of Paimon tables; null where no name fits."""
    every = pa.nulls(len(identities), pa.string())
    for here, kinds in _kinds(identities, found, tables, namings):
        chosen = np.zeros(len(identities), np.bool_)
        chosen[here] = True
        every = pc.replace_with_mask(every, pa.array(chosen), kinds)
    return every


def _kinds(
    identities: pa.Array, found: Found, tables: FolderMap, namings: Namings
) -> Iterator[tuple[npt.NDArray[np.int64], pa.Array]]:
    """Rows in the folders of Paimon tables, with their kinds.

    Where a folder lies in another one, files of both tables may lie in both: what is litter by any
    name is litter.
    """
    for number in np.unique(found) if namings else ():
        around = [each for each in tables.around(int(number)) if each in namings]
        if around:
            here = np.flatnonzero(found == number)
            paths = identities.take(pa.array(here))
            yield here, _best_kinds(paths, around, tables, namings)


def _best_kinds(
    paths: pa.Array, folders: Iterable[int], tables: FolderMap, namings: Namings
) -> pa.Array:
    best = pa.nulls(len(paths), pa.string())
    for number in folders:
        below = pc.utf8_slice_codeunits(paths, start=len(tables.folder(number)))
        for naming in namings[number]:
            kinds = naming.kinds(below)
            is_better = pc.or_(pc.is_in(kinds, value_set=_LITTER), best.is_null())
            best = pc.if_else(is_better, kinds, best)
    return best


@dataclass(frozen=True)
class Namesakes:
    """Tells of stored files whether a Paimon table uses a file of the same name.

    Wherever an entry says that it lies: the options that say so may have been others before.
    """

    filters: Filters

    def find(self, paths: pa.Array) -> npt.NDArray[np.bool_]:
        return self.filters.contains(hash128(file_names(paths)))


def file_names(paths: pa.Array) -> pa.Array:
    """The last part of each path."""
    return pc.replace_substring_regex(paths, "^.*/", "")
