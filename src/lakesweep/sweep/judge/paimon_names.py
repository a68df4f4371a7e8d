"""Classify file names in the folders of Paimon tables.

A file in such a folder is deleted only if its name proves that Paimon wrote it and that
writers leave such files behind (`paimon.model.file_kinds`). The schemas of a table tell how
it names files.
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
from lakesweep.marks.columns import RootFacts
from lakesweep.paimon.model.file_kinds import ORPHAN_KINDS, kinds_of_external_files, kinds_of_files
from lakesweep.paimon.model.layout_codec import parse_layout
from lakesweep.sweep.columns import mask_of
from lakesweep.sweep.judge.bloom_shards import BloomShards
from lakesweep.sweep.paths.folder_map import FolderMap, FolderNumbers, claimed_folder

_LITTER = pa.array(sorted(ORPHAN_KINDS))


class PaimonNameStatus(IntEnum):
    """What a name means to the Paimon tables in whose folders it is."""

    ELSEWHERE = 0
    LITTER = 1
    #: Files that are only deleted on purpose, such as a tag.
    KEPT = 2
    STRANGE = 3


PaimonNameStatuses: TypeAlias = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class PaimonNaming:
    """How a table names files in one of its folders, which may be outside of its own."""

    layout: str
    is_external: bool

    def kinds(self, names: pa.Array) -> pa.Array:
        """The kind of each file by its path below the folder; null if no pattern matches."""
        layout = parse_layout(self.layout)[0]
        return (kinds_of_external_files if self.is_external else kinds_of_files)(layout, names)


#: By the number of a table folder.
PaimonNamings: TypeAlias = Mapping[int, tuple[PaimonNaming, ...]]


def paimon_namings(tables: FolderMap, facts: Mapping[str, RootFacts]) -> PaimonNamings:
    """How Paimon tables, by what they declare, name files in table folders."""
    found: defaultdict[int, dict[PaimonNaming, None]] = defaultdict(dict)
    for number, name in tables.claims:
        known = facts.get(name)
        if known is None or not known.layouts:
            continue
        folder = tables.folder(number)
        is_own = folder == claimed_folder(known.location)
        if is_own or folder in map(claimed_folder, known.write_paths):
            found[number] |= dict.fromkeys(PaimonNaming(text, not is_own) for text in known.layouts)
    return {number: tuple(namings) for number, namings in found.items()}


def classify_names(
    identities: pa.Array, found: FolderNumbers, tables: FolderMap, namings: PaimonNamings
) -> PaimonNameStatuses:
    """The status of each path for Paimon; `found` are the innermost folders of the paths."""
    named = np.full(len(identities), PaimonNameStatus.ELSEWHERE, np.int8)
    for here, kinds in _kinds(identities, found, tables, namings):
        is_litter = mask_of(pc.is_in(kinds, value_set=_LITTER))
        kept = np.where(mask_of(kinds.is_valid()), PaimonNameStatus.KEPT, PaimonNameStatus.STRANGE)
        named[here] = np.where(is_litter, PaimonNameStatus.LITTER, kept)
    return named


def kinds_of_paths(
    identities: pa.Array, found: FolderNumbers, tables: FolderMap, namings: PaimonNamings
) -> pa.Array:
    """The kind of each path in a folder of Paimon tables; null if no pattern matches."""
    every = pa.nulls(len(identities), pa.string())
    for here, kinds in _kinds(identities, found, tables, namings):
        chosen = np.zeros(len(identities), np.bool_)
        chosen[here] = True
        every = pc.replace_with_mask(every, pa.array(chosen), kinds)
    return every


def _kinds(
    identities: pa.Array, found: FolderNumbers, tables: FolderMap, namings: PaimonNamings
) -> Iterator[tuple[npt.NDArray[np.int64], pa.Array]]:
    """Rows in the folders of Paimon tables, with their kinds.

    If a folder is inside another one, either may contain files of both tables: a name that is
    litter to either is litter.
    """
    for number in np.unique(found) if namings else ():
        around = [each for each in tables.around(int(number)) if each in namings]
        if around:
            here = np.flatnonzero(found == number)
            paths = identities.take(pa.array(here))
            yield here, _best_kinds(paths, around, tables, namings)


def _best_kinds(
    paths: pa.Array, folders: Iterable[int], tables: FolderMap, namings: PaimonNamings
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
class PaimonUsedNames:
    """Decides whether a Paimon table uses a file with the same name as a stored file.

    Wherever an entry says that it is: the options that decide this may have changed since.
    """

    filters: BloomShards

    def find(self, paths: pa.Array) -> npt.NDArray[np.bool_]:
        return self.filters.contains(hash128(base_names(paths)))


def base_names(paths: pa.Array) -> pa.Array:
    """The last segment of each path."""
    return pc.replace_substring_regex(paths, "^.*/", "")
