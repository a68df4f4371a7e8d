"""Which folder a file is in, who owns it, and which folders overlap.

A folder is an identity that ends in `/`, so `t1/` never contains files of `t10/`. Names are not
normalised in any other way: `a//`, other Unicode normal forms and other spellings of an escape are
different folders.
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
from lakesweep.storage.file_identity import resolve_alias

#: For each path the number of a folder, -1 for none.
FolderNumbers = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class FolderOverlap:
    """Folders of different owners that overlap: one contains the other, or several own the same.

    `outer` is None, and `outer_names` empty, if `names` all claim `folder` itself.
    """

    folder: str
    names: tuple[str, ...]
    outer: str | None = None
    outer_names: tuple[str, ...] = ()


class FolderMap:
    """Folders with the names of their owners. Immutable and picklable."""

    def __init__(self, claims: Iterable[tuple[str, str]] = ()) -> None:
        names: dict[bytes, set[str]] = {}
        for folder, name in claims:
            if not folder.endswith("/"):
                raise ValueError(f"{folder!r} does not end in a slash")
            # Bytes sort a folder directly before everything inside it, which `_parents` relies on.
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
        """The length of each folder in bytes, including its slash."""
        return np.diff(self._table[1])

    @property
    def names(self) -> list[str]:
        """The first owner of each folder, in the order of the folders' numbers."""
        return [each[0] for each in self._names]

    @property
    def claims(self) -> Iterator[tuple[int, str]]:
        """The number of each folder with the name of every owner."""
        return ((number, name) for number, names in enumerate(self._names) for name in names)

    def find(self, identities: pa.Array) -> FolderNumbers:
        """The innermost folder that contains each path."""
        from lakesweep.sweep.paths.path_kernels import find_longest  # imports numba

        found = np.full(len(identities), -1, dtype=np.int32)
        if len(self) and len(identities):
            data, offsets = string_buffers(identities.cast(pa.large_string()))
            find_longest(self._table, data, offsets, found)
        return found

    def find_with_self(self, identities: pa.Array) -> FolderNumbers:
        """The same, but a file named like a folder counts as inside it."""
        if not len(self):
            return self.find(identities)
        slashed = pc.binary_join_element_wise(identities, pa.scalar("", identities.type), "/")
        return self.find(slashed)

    def labels(self, found: FolderNumbers) -> pa.Array:
        """The name for each folder that was found, null for none."""
        return self._labels.take(pa.array(found, mask=found < 0))

    def folder(self, number: int) -> str:
        """The folder with this number."""
        data, ends, *_ = self._table
        return data[ends[number] : ends[number + 1]].tobytes().decode()

    def around(self, number: int) -> Iterator[int]:
        """The folder with this number, and all enclosing ones, from the inside out."""
        while number >= 0:
            yield number
            number = self._parents[number]

    def overlaps(self) -> Iterator[FolderOverlap]:
        """Where owners overlap: at most two for each folder, whatever the number of owners.

        A folder is compared with the innermost enclosing one; what is further out follows.
        """
        for number, names in enumerate(self._names):
            if len(names) > 1:
                yield FolderOverlap(self.folder(number), names)
            parent = self._parents[number]
            if parent >= 0 and self._names[parent] != names:
                yield FolderOverlap(
                    self.folder(number), names, self.folder(parent), self._names[parent]
                )


def claimed_folder(path: str) -> str:
    """The folder that an address means, in its widest sense.

    Trailing slashes are ignored: with `t//`, files may be in `t/` and in `t//`. A local folder is
    the one that its links lead to.
    """
    return resolve_alias(folder_identity(path.rstrip("/")))


def _parents(folders: list[bytes]) -> Iterator[int]:
    """The longest enclosing folder of each, among the sorted folders."""
    around: list[int] = []
    for number, folder in enumerate(folders):
        while around and not folder.startswith(folders[around[-1]]):
            around.pop()
        yield around[-1] if around else -1
        around.append(number)


def _table(folders: list[bytes]) -> tuple[npt.NDArray[Any], ...]:
    """The folders in the form that the kernels need."""
    # A copy is writable, like unpickled arrays: kernels are compiled separately for read-only ones.
    data = np.frombuffer(b"".join(folders), dtype=np.uint8).copy()
    ends = np.cumsum([0, *map(len, folders)], dtype=np.int64)
    slots = np.zeros((2 << len(folders).bit_length(), 2), dtype=np.uint64)
    depths = np.zeros(max((each.count(b"/") for each in folders), default=0) + 1, dtype=np.uint8)
    if folders:
        from lakesweep.sweep.paths.path_kernels import fill_table  # imports numba

        fill_table((data, ends, slots, depths))
    return data, ends, slots, depths
