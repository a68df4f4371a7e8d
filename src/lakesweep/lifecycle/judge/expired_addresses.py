"""The addresses that expire, each with its paths and the rules that expire it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.hashing import HashSet, hash_order
from lakesweep.lifecycle.columns import EXPIRED
from lakesweep.lifecycle.judge.occurrences import OccurrenceStep, distinct
from lakesweep.lifecycle.policy.ref_retention import places_of, unpack_bits
from lakesweep.sweep.columns import HASHES, hashes_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Numbers = npt.NDArray[np.int64]

#: The columns of verdicts (JUDGED) that results need.
MATCHED = [*HASHES.names, "address", "size_bytes", "modified", "due_before", "reason"]
_ASCENDING = [(name, "ascending") for name in ("group", "path_text", "matched")]


@dataclass(frozen=True)
class ExpiredAddressStep:
    """Lists expired addresses with their paths and rules (EXPIRED). Can be pickled."""

    occur: OccurrenceStep

    def __call__(self, going: pa.Table, occurrences: pa.Table) -> pa.Table:
        """The results for verdicts (MATCHED), from OCCURRENCES of their addresses and of others."""
        ordered = going.take(pa.array(hash_order(hashes_of(going))))
        rows, groups = _in_order(self._match(_of(going, occurrences)))
        paths = _lists(rows["path_text"], groups, going.num_rows)
        matched = _lists(rows["matched"], groups, going.num_rows)
        return _results(ordered, paths, matched)

    def alone(self, going: pa.Table, occurrences: pa.Table) -> pa.Table:
        """The same if each address has one occurrence, in the row of its verdict."""
        rows = self._match(occurrences)
        edges = pa.array(np.arange(going.num_rows + 1, dtype=np.int32))
        paths, matched = (
            pa.ListArray.from_arrays(edges, rows[name].combine_chunks())
            for name in ("path_text", "matched")
        )
        return _results(going, paths, matched)

    def _match(self, found: pa.Table) -> pa.Table:
        paths = spell_paths(found["path"])
        matched = pc.binary_join_element_wise(paths, self._rules(found), ": ")
        columns = [found["h1"], found["h2"], paths, matched]
        return pa.table(columns, names=[*HASHES.names, "path_text", "matched"])

    def _rules(self, found: pa.Table) -> pa.Array:
        """The rules that expire occurrences, in words; few of them differ."""
        covering, codes = self.occur.cover(found["path"])
        held = found["keepers"].combine_chunks().dictionary_encode()
        bits = [unpack_bits(each) for each in held.dictionary.to_pylist()]
        holders = held.indices.to_numpy().astype(np.int64)
        pairs, places = distinct(holders * len(covering) + codes)
        split = [divmod(int(pair), len(covering)) for pair in pairs]
        texts = [self._words(bits[holder], covering[code]) for holder, code in split]
        return pa.array(texts, pa.string()).take(pa.array(places))

    def _words(self, bits: int, rules: tuple[int, ...]) -> str:
        ranker = self.occur.ranker
        found = []
        for place in places_of(bits & (ranker.is_potential - 1)):
            keeper = ranker.keepers[place]
            for rule in rules:
                days = keeper.terms[rule]
                if days is not None:
                    before = _EPOCH + timedelta(days=max(0, ranker.today - days))
                    named = ranker.policy.rules[rule]
                    found.append(
                        f"{named.id} (prefix {named.prefix.text!r}) on {keeper.words}"
                        f" before {before:%Y-%m-%d}"
                    )
        return "; ".join(found)


def _results(going: pa.Table, paths: pa.ListArray, matched: pa.ListArray) -> pa.Table:
    columns = {"age": going["modified"], "paths": paths, "matched_rules": matched}
    arrays = [columns[name] if name in columns else going[name] for name in EXPIRED.names]
    return pa.table(arrays, names=EXPIRED.names).cast(EXPIRED)


def _of(going: pa.Table, occurrences: pa.Table) -> pa.Table:
    """The occurrences of the addresses that expire: each of them is due, so it has a path."""
    chosen = HashSet()
    chosen.add(hashes_of(going))
    due = occurrences.select([*HASHES.names, "path", "keepers"]).filter(pc.field("path").is_valid())
    return due.filter(pa.array(chosen.contains(hashes_of(due)))).combine_chunks()


def _in_order(matched: pa.Table) -> tuple[pa.Table, Numbers]:
    """Rows by their hashes, then by their texts, and the number of the address of each."""
    order = hash_order(hashes_of(matched))
    groups = _groups([words[order] for words in hashes_of(matched)])
    several = np.flatnonzero(np.bincount(groups)[groups] > 1)
    rest = matched.take(pa.array(order[several])).append_column("group", pa.array(groups[several]))
    order[several] = order[several][pc.sort_indices(rest, _ASCENDING).to_numpy()]
    return matched.take(pa.array(order)), groups


def _groups(words: Sequence[npt.NDArray[np.uint64]]) -> Numbers:
    """A number for each row, equal for all rows of one address, which are adjacent."""
    changes = np.any([np.diff(word) != 0 for word in words], axis=0)
    return np.cumsum(np.concatenate([np.zeros(min(1, len(words[0])), np.bool_), changes]))


def _lists(values: pa.ChunkedArray, groups: Numbers, count: int) -> pa.ListArray:
    """The distinct values of each group, in order."""
    texts = values.combine_chunks()
    same = pc.equal(texts[1:], texts[:-1]).to_numpy(zero_copy_only=False)
    kept = np.ones(len(groups), np.bool_)
    kept[1:] = ~(same & (np.diff(groups) == 0))
    ends = np.cumsum(np.bincount(groups[kept], minlength=count))
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    return pa.ListArray.from_arrays(offsets, texts.filter(pa.array(kept)))


def spell_paths(paths: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Paths as text; bytes that are not valid text are escaped."""
    try:
        return paths.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [path.decode(errors="backslashreplace") for path in paths.to_pylist()]
        return pa.array(texts, pa.string())
