"""Set and remove entries in a row of blocks, and leave alone the blocks that have none of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

from lakesweep.store.index.block import REMOVED, Block, Stored, weights
from lakesweep.store.index.cutting import cut_evenly

_first_key = attrgetter("first")


def merge(
    blocks: Sequence[Block], changes: Mapping[bytes, Stored], block_size: int, *, keep_marks: bool
) -> list[Block] | None:
    """The blocks with the changes made, cut to about `block_size`; None where none differs.

    Removed keys stay as marks, or go.
    """
    made: list[Block] = []
    done = 0
    is_changed = False
    for start, stop, keys in _spans(blocks, sorted(changes)):
        entries = _gather(blocks[start:stop])
        if not _apply(entries, {key: changes[key] for key in keys}, keep_marks=keep_marks):
            continue
        is_changed = True
        made += blocks[done:start]
        done = stop
        if _is_small(entries, block_size):
            entries |= _gather(blocks[stop : stop + 1] or made[-1:])
            done = min(stop + 1, len(blocks))
            made = made if done > stop else made[:-1]
        made += _cut(entries, block_size)
    return [*made, *blocks[done:]] if is_changed else None


def _spans(
    blocks: Sequence[Block], keys: Sequence[bytes]
) -> Iterator[tuple[int, int, Sequence[bytes]]]:
    """Neighbouring blocks where keys are or belong, from where to where, and their keys."""
    places = [max(0, bisect_right(blocks, key, key=_first_key) - 1) for key in keys]
    begin = 0
    for i in range(1, len(keys) + 1):
        if i == len(keys) or places[i] > places[i - 1] + 1:
            yield places[begin], places[i - 1] + 1, keys[begin:i]
            begin = i


def _gather(blocks: Sequence[Block]) -> dict[bytes, Stored]:
    entries: dict[bytes, Stored] = {}
    for block in blocks:
        entries.update(zip(*block.entries, strict=True))
    return entries


def _apply(
    entries: dict[bytes, Stored], changes: Mapping[bytes, Stored], *, keep_marks: bool
) -> bool:
    """Make the changes; answers whether there were any."""
    is_changed = False
    for key, value in changes.items():
        if value is REMOVED and not keep_marks:
            is_changed |= entries.pop(key, None) is not None
        elif entries.get(key) != value:
            entries[key] = value
            is_changed = True
    return is_changed


def _is_small(entries: Mapping[bytes, Stored], block_size: int) -> bool:
    return sum(weights(entries, entries.values())) < block_size // 4


def _cut(entries: Mapping[bytes, Stored], block_size: int) -> list[Block]:
    keys = sorted(entries)
    values = [entries[key] for key in keys]
    parts = cut_evenly(weights(keys, values), block_size)
    return [Block.of(keys[part], values[part]) for part in parts]
