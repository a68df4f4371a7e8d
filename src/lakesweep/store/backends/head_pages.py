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

    `codes` are the places of their types among `types`, each of which is there once. `pick` gives
    whole heads by their places, which takes its time: it is for the few that are wanted.
    """

    ids: Ids
    created_at: Ids
    types: Sequence[str]
    codes: Ids
    pick: Callable[[Iterable[int]], Sequence[ObjectHead]]

    def __len__(self) -> int:
        return len(self.ids)


def page_of(rows: Sequence[HeadFields]) -> HeadPage:
    """A page of rows that came one by one."""
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
    """Pages of about so many rows, none of which ends inside an object."""
    return map(page_of, whole_objects(heads, rows))


def whole_objects(heads: Iterable[HeadFields], rows: int) -> Iterator[list[HeadFields]]:
    """Lists of about so many rows, none of which ends inside an object."""
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
    """Each name once, and for each of the names its place among these."""
    codes: dict[str, int] = _Codes()
    places = np.fromiter(map(codes.__getitem__, names), np.int64, len(names))
    return list(codes), places


def _pick(rows: Sequence[HeadFields], places: Iterable[int]) -> Sequence[ObjectHead]:
    return [ObjectHead._make(rows[place]) for place in places]


class _Codes(dict[str, int]):
    def __missing__(self, name: str) -> Any:
        self[name] = code = len(self)
        return code


Ids: TypeAlias = npt.NDArray[np.int64]
