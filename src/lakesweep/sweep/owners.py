"""Which folder a file lies in, whose it is, and which folders overlap.

A folder is an identity that ends in `/`, so that `t1/` never holds what lies in `t10/`. Nothing
else is done to names: `a//`, other normal forms of a letter and other spellings of an escape are
other folders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing.strings import string_buffers
from lakesweep.storage.address import folder_identity
from lakesweep.storage.local.aliases import resolve_one

#: For each path the number of a folder, -1 for none.
Found = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Folders of different owners that meet: one lies in the other, or several own the same.

    `outer` is None, and `outer_names` empty, where `names` all claim `folder` itself.
    """

    folder: str
    names: tuple[str, ...]
    outer: str | None = None
    outer_names: tuple[str, ...] = ()


class FolderMap:
    """Folders with the names of those who claim them. Immutable; can be pickled."""

    def __init__(self, claims: Iterable[tuple[str, str]] = ()) -> None:
        names: dict[bytes, set[str]] = {}
        for folder, name in claims:
            if not folder.endswith("/"):
                raise ValueError(f"{folder!r} does not end in a slash")
            names.setdefault(folder.encode(), set()).add(name)
        folders = sorted(names)
        self._names = [tuple(sorted(names[folder])) for folder in folders]
        self._labels = pa.array(self.names, pa.string())
        self._parents = list(_parents(folders))
        self._table = _table(folders)

    def __len__(self) -> int:
        return len(self._parents)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The bytes of each folder, its slash included."""
        return np.diff(self._table[1])

    @property
    def names(self) -> list[str]:
        """The first name of those who claim each folder, in the order of the folders' numbers."""
        return [each[0] for each in self._names]

    @property
    def claims(self) -> Iterator[tuple[int, str]]:
        """The number of each folder with the name of everyone who claims it."""
        return ((number, name) for number, names in enumerate(self._names) for name in names)

    def find(self, identities: pa.Array) -> Found:
        """The innermost folder that each path lies in."""
        from lakesweep.sweep.folder_table import find_longest  # imports numba

        found = np.full(len(identities), -1, dtype=np.int32)
        if len(self) and len(identities):
            data, offsets = string_buffers(identities.cast(pa.large_string()))
            find_longest(self._table, data, offsets, found)
        return found

    def find_with_self(self, identities: pa.Array) -> Found:
        """The same, where a file that is named like a folder lies in it as well."""
        if not len(self):
            return self.find(identities)
        slashed = pc.binary_join_element_wise(identities, pa.scalar("", identities.type), "/")
        return self.find(slashed)

    def labels(self, found: Found) -> pa.Array:
        """The name for each folder that was found, null for none."""
        return self._labels.take(pa.array(found, mask=found < 0))

    def folder(self, number: int) -> str:
        """The folder of a number."""
        data, ends, *_ = self._table
        return data[ends[number] : ends[number + 1]].tobytes().decode()

    def around(self, number: int) -> Iterator[int]:
        """The folder of a number, and all that it lies in, from the inside out."""
        while number >= 0:
            yield number
            number = self._parents[number]

    def overlaps(self) -> Iterator[Overlap]:
        """Where owners meet: at most two for each folder, whatever the number of owners.

        A folder is compared with the innermost one around it; what lies further out follows.
        """
        for number, names in enumerate(self._names):
            if len(names) > 1:
                yield Overlap(self.folder(number), names)
            parent = self._parents[number]
            if parent >= 0 and self._names[parent] != names:
                yield Overlap(self.folder(number), names, self.folder(parent), self._names[parent])


def claimed_folder(path: str) -> str:
    """The folder that somebody means by an address, as wide as it can be meant.

    Slashes at the end say nothing: who writes `t//` may keep files in `t/` and in `t//`. A local
    folder is the one that its links lead to.
    """
    return resolve_one(folder_identity(path.rstrip("/")))


def _parents(folders: list[bytes]) -> Iterator[int]:
    """The longest of the sorted folders around each."""
    around: list[int] = []
    for number, folder in enumerate(folders):
        while around and not folder.startswith(folders[around[-1]]):
            around.pop()
        yield around[-1] if around else -1
        around.append(number)


def _table(folders: list[bytes]) -> tuple[npt.NDArray[Any], ...]:
    """The folders as the kernels want them."""
    # A copy can be written, as arrays that were pickled can: kernels tell the two apart.
    data = np.frombuffer(b"".join(folders), dtype=np.uint8).copy()
    ends = np.cumsum([0, *map(len, folders)], dtype=np.int64)
    slots = np.zeros((2 << len(folders).bit_length(), 2), dtype=np.uint64)
    depths = np.zeros(max((each.count(b"/") for each in folders), default=0) + 1, dtype=np.uint8)
    if folders:
        from lakesweep.sweep.folder_table import fill_table  # imports numba

        fill_table((data, ends, slots, depths))
    return data, ends, slots, depths
