"""The kernel that finds what each entry means for its address."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lifecycle.columns import OCCURRENCES, Standing
from lakesweep.lifecycle.entries.cache import RangeKeepers
from lakesweep.lifecycle.judge.reasons import Ranker, are_due, days_of, reason_rank
from lakesweep.lifecycle.policy.ref_retention import pack_bits
from lakesweep.lifecycle.policy.rules import RulePrefix
from lakesweep.storage.file_identity import file_hashes, hash_columns
from lakesweep.sweep.verdicts import Reason

Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_DAY = 86_400_000_000
#: Above every other rank.
_NO_RANK = np.iinfo(np.int64).max
#: After this many rules their codes are renumbered, before they exceed 64 bits.
_RULES_AT_ONCE = 30


@dataclass(frozen=True)
class Window:
    """Which entries may be new to a run: all that the last run that swept did not expire.

    They are in a potential commit, or are too recent for the cut-offs of `days` days ago, whatever
    the dates of their commits say; with `by_commit` only the former.
    """

    days: int
    by_commit: bool = False


@dataclass(frozen=True)
class OccurrenceStep:
    """Finds what entries (FOLDED) mean for their addresses (OCCURRENCES). Can be pickled.

    Without `window`, everything that a rule covers may expire.
    """

    ranker: Ranker
    namespace: StorageNamespace
    window: Window | None = None

    def __call__(
        self, batches: Iterable[pa.RecordBatch], placed: RangeKeepers
    ) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield self._occur(batch, placed)

    def _occur(self, batch: pa.RecordBatch, placed: RangeKeepers) -> pa.RecordBatch:
        covering, codes = self.cover(batch["path"])
        bits, holders = held_by(batch, placed)
        ranks, potential = self._ranks(bits, holders, covering, codes)
        standing = batch["standing"].to_numpy()
        ages = micros_of(batch["age"])
        ranks[ages < 0] = reason_rank(Reason.AGE_UNKNOWN)
        own = standing == Standing.OWN
        ranks[~own] = reason_rank(Reason.IMPORTED)
        new = self._is_new(ranks, ages, potential)
        due = pa.array(are_due(ranks, ages))
        columns = [
            *addressed(self.namespace, batch["address"]),
            pa.array(ranks),
            batch["age"],
            batch["size_bytes"],
            pa.array(own & np.array([bool(rules) for rules in covering])[codes] & new),
            pc.if_else(due, batch["path"], None),
            pc.if_else(due, self._packed(bits).take(pa.array(holders)), None),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=OCCURRENCES)

    def _packed(self, bits: list[int]) -> pa.Array:
        count = len(self.ranker.keepers) + 1  # one says that a commit is potential
        return pa.array([pack_bits(each, count) for each in bits], pa.binary())

    def cover(self, paths: pa.Array | pa.ChunkedArray) -> tuple[list[tuple[int, ...]], Numbers]:
        """The sets of rules that cover paths, and for each path the index of its set."""
        matches = [_covers(rule.prefix, paths) for rule in self.ranker.policy.rules]
        codes = np.zeros(len(paths), np.int64)
        for number, match in enumerate(matches):
            codes = codes * 2 + match
            if number % _RULES_AT_ONCE == _RULES_AT_ONCE - 1:
                codes = distinct(codes)[1]
        found, codes = distinct(codes)
        examples = np.empty(len(found), np.int64)
        examples[codes] = np.arange(len(codes))  # any row of each
        covering = [
            tuple(rule for rule, match in enumerate(matches) if match[row]) for row in examples
        ]
        return covering, codes

    def _ranks(
        self, bits: list[int], holders: Numbers, covering: list[tuple[int, ...]], codes: Numbers
    ) -> tuple[Numbers, Mask]:
        pairs, places = distinct(holders * len(covering) + codes)
        split = [divmod(int(pair), len(covering)) for pair in pairs]
        ranks = [self.ranker.rank(bits[holder], covering[code]) for holder, code in split]
        potential = [bool(bits[holder] & self.ranker.is_potential) for holder, _ in split]
        return np.array(ranks, np.int64)[places], np.array(potential, np.bool_)[places]

    def _is_new(self, ranks: Numbers, ages: Numbers, potential: Mask) -> Mask:
        if self.window is None:
            return np.ones(len(ranks), np.bool_)
        if self.window.by_commit:
            return potential
        return potential | (ages >= (days_of(ranks) - self.window.days) * _DAY)


def distinct(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Each number once, and the index of each row. There are few, so no sorting is needed."""
    encoded = pa.array(numbers).dictionary_encode()
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy().astype(np.int64)


def _covers(prefix: RulePrefix, paths: pa.Array) -> Mask:
    if prefix.is_raw:
        return _mask(pc.starts_with(paths, prefix.start))
    below = pc.starts_with(paths, prefix.start + "/")
    return _mask(pc.or_(below, pc.equal(paths, pa.scalar(prefix.start.encode(), paths.type))))


def _mask(found: pa.Array) -> Mask:
    mask: Mask = found.to_numpy(zero_copy_only=False)
    return mask


def held_by(batch: pa.RecordBatch, placed: RangeKeepers) -> tuple[list[int], Numbers]:
    """The keeper bits of entries, each combination once, and the index of each entry."""
    chunks = batch["chunk"].to_numpy()
    holders = np.empty(len(chunks), np.int64)
    found: dict[int, int] = {}
    # The rows of a chunk come together.
    changes = (np.flatnonzero(np.diff(chunks)) + 1).tolist()
    for start, end in pairwise([0, *changes, len(chunks)]):
        members = batch["members"].slice(start, end - start).dictionary_encode()
        held = _held(members.dictionary, placed.get(int(chunks[start]), {}))
        places = [found.setdefault(bits, len(found)) for bits in held]
        holders[start:end] = np.array(places, np.int64)[members.indices.to_numpy()]
    return list(found), holders


def _held(members: pa.Array, keepers: Mapping[int, int]) -> list[int]:
    """The bits of all keepers of the places of each member."""
    places: dict[int, list[int]] = {}
    for place, bits in keepers.items():
        places.setdefault(bits, []).append(place)
    rows = _member_bits(members)
    held = [0] * len(rows)
    for bits, there in places.items():
        inside = [place for place in there if place < rows.shape[1]]
        for row in np.flatnonzero(rows[:, inside].any(axis=1)).tolist():
            held[row] |= bits
    return held


def _member_bits(members: pa.Array) -> npt.NDArray[np.uint8]:
    """Members as rows of bits, padded to the longest."""
    found = members.to_pylist()
    width = max(map(len, found), default=0)
    data = b"".join(each.ljust(width, b"\0") for each in found)
    rows = np.frombuffer(data, np.uint8).reshape(len(found), width)
    return np.unpackbits(rows, axis=1, bitorder="little")


def member_places(members: bytes) -> list[int]:
    """The places of the ranges of a chunk that hold an entry."""
    found = np.unpackbits(np.frombuffer(members, np.uint8), bitorder="little")
    return [int(place) for place in np.flatnonzero(found)]


def addressed(namespace: StorageNamespace, keys: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    """The hashes of the objects that keys of a namespace name, and the keys."""
    return *hash_columns(file_hashes(paths_of(namespace, keys))), keys


def paths_of(namespace: StorageNamespace, keys: pa.Array) -> pa.Array:
    """The full addresses of keys of a namespace."""
    return pc.binary_join_element_wise(pa.scalar(namespace.folder), keys, "")


def micros_of(moments: pa.Array) -> Numbers:
    """Times in microseconds since 1970; -1 if there is none."""
    numbers: Numbers = pc.fill_null(moments.cast(pa.int64()), -1).to_numpy()
    return numbers


def staged_occurrences(
    batches: Iterable[pa.RecordBatch], namespace: StorageNamespace
) -> Iterator[pa.RecordBatch]:
    """What staged changes (STAGED) mean for addresses (OCCURRENCES): they keep them.

    They are candidates for that reason alone, so that each gets its true reason.
    """
    for batch in batches:
        keys = namespace.protected(batch["address"], batch["address_type"])
        count = len(keys)
        columns = [
            *addressed(namespace, keys),
            pa.repeat(pa.scalar(reason_rank(Reason.STAGED), pa.int64()), count),
            pa.nulls(count, OCCURRENCES.field("age").type),
            pa.nulls(count, pa.int64()),
            pa.repeat(pa.scalar(value=True), count),
            *(pa.nulls(count, pa.binary()) for _ in range(2)),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=OCCURRENCES)


def again_occurrences(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Addresses (HASHES) that are examined even if nothing about them is new."""
    for batch in batches:
        count = batch.num_rows
        columns = [
            batch["h1"],
            batch["h2"],
            pa.nulls(count, pa.string()),
            pa.repeat(pa.scalar(_NO_RANK, pa.int64()), count),
            pa.nulls(count, OCCURRENCES.field("age").type),
            pa.nulls(count, pa.int64()),
            pa.repeat(pa.scalar(value=True), count),
            *(pa.nulls(count, pa.binary()) for _ in range(2)),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=OCCURRENCES)
