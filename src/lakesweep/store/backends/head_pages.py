"""Pages of row heads, column by column in NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakesweep.store.backends.rows import HeadFields, ObjectHead

_ID, _TYPE, _CREATED_AT = map(itemgetter, (0, 2, 3))


@dataclass(frozen=True, slots=True)
class HeadPage:
    """The heads of all rows of some objects, in ascending order of id and part.

    `codes` are indexes into `types`, which holds each type once. `pick` returns whole heads by
    position, which is slow: use it for the few that are needed.
    """

    ids: Ids
    created_at: Ids
    types: Sequence[str]
    codes: Ids
    pick: Callable[[Iterable[int]], Sequence[ObjectHead]]

    def __len__(self) -> int:
        return len(self.ids)


def page_of(rows: Sequence[HeadFields]) -> HeadPage:
    """A page of rows that arrived one by one."""
    count = len(rows)
    types, codes = dictionary_encode(list(map(_TYPE, rows)))
    return HeadPage(
        np.fromiter(map(_ID, rows), np.int64, count),
        np.fromiter(map(_CREATED_AT, rows), np.int64, count),
        types,
        codes,
        partial(_pick, rows),
    )


def whole_pages(heads: Iterable[HeadFields], rows: int) -> Iterator[HeadPage]:
    """Pages of about this many rows; no object spans two pages."""
    return map(page_of, whole_objects(heads, rows))


def whole_objects(heads: Iterable[HeadFields], rows: int) -> Iterator[list[HeadFields]]:
    """Lists of about this many rows; no object spans two lists."""
    heads = iter(heads)
    rest: list[HeadFields] = []
    while page := list(islice(heads, rows)):
        rest += page
        end = len(rest) - 1
        while end and rest[end - 1][0] == rest[end][0]:
            end -= 1
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def dictionary_encode(names: Sequence[str]) -> tuple[Sequence[str], Ids]:
    """Each distinct name once, and the index of every name among them."""
    codes: dict[str, int] = _Codes()
    codes_of_names = np.fromiter(map(codes.__getitem__, names), np.int64, len(names))
    return list(codes), codes_of_names


def _pick(rows: Sequence[HeadFields], positions: Iterable[int]) -> Sequence[ObjectHead]:
    return [ObjectHead._make(rows[position]) for position in positions]


class _Codes(dict[str, int]):
    def __missing__(self, name: str) -> Any:
        self[name] = code = len(self)
        return code


Ids: TypeAlias = npt.NDArray[np.int64]
