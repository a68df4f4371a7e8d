"""How often the cache of the store has what is asked for, and what it saves.

The load is Zipf's: the key of rank r is asked for 1 / r**skew as often as the first one. Compared
are a cache that lets go what was not used for longest, and the best that any cache of that size can
do if it knows the load beforehand: the most frequent keys. All have room for the same bytes.
"""

from __future__ import annotations

import tempfile
from bisect import bisect
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from random import Random

import msgspec

from benchmarks.contest import per_cpu_second
from lakesweep.clock import SystemClock
from lakesweep.store import Commit, Realm, Store
from lakesweep.store.backends.memory import MemoryBackend
from lakesweep.store.backends.rows import ObjectRow, RowKey
from lakesweep.store.cache.cache import StoreCache, size_of
from lakesweep.store.cache.caching_backend import CachingBackend
from lakesweep.store.cache.eviction import ENTRY_BYTES

_KEYS = 50_000
_REQUESTS = 300_000
_WARM_UP = 100_000
_VALUE_BYTES = 1_000
_READS = 2_000


class Note(msgspec.Struct, frozen=True):
    """An object of about a kilobyte."""

    text: str


def _zipf(skew: float) -> list[int]:
    random = Random(7)
    weights = list(accumulate(1 / rank**skew for rank in range(1, _KEYS + 1)))
    return [bisect(weights, random.random() * weights[-1]) for _ in range(_REQUESTS)]


def _with_scans(keys: Sequence[int]) -> Iterator[int]:
    """The same, and now and then somebody reads a fifth of everything once."""
    for place, key in enumerate(keys):
        if place % 60_000 == 0:
            yield from range(_KEYS * 4 // 5, _KEYS)
        yield key


def _row(key: int) -> ObjectRow:
    return ObjectRow(key, 0, "note", 0, None, bytes(_VALUE_BYTES))


def _own(keys: Sequence[int], max_bytes: int) -> float:
    memory = MemoryBackend()
    memory.write("acme", [_row(key) for key in range(_KEYS)])
    cache = StoreCache(max_bytes, SystemClock())
    backend = CachingBackend(memory, cache)
    for key in keys[:_WARM_UP]:
        backend.fetch("acme", [RowKey(key)])
    before = cache.stats().hits
    for key in keys[_WARM_UP:]:
        backend.fetch("acme", [RowKey(key)])
    return (cache.stats().hits - before) / (len(keys) - _WARM_UP)


def _by_age(keys: Sequence[int], room: int) -> float:
    kept: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for place, key in enumerate(keys):
        hits += key in kept and place >= _WARM_UP
        kept[key] = None
        kept.move_to_end(key)
        if len(kept) > room:
            kept.popitem(last=False)
    return hits / (len(keys) - _WARM_UP)


def _best(keys: Sequence[int], room: int) -> float:
    counted = Counter(keys[_WARM_UP:])
    return sum(count for _, count in counted.most_common(room)) / counted.total()


def _ratios() -> None:
    cost = size_of(_row(0)) + ENTRY_BYTES
    print(f"hit ratio, {_KEYS:,} objects of {_VALUE_BYTES:,} bytes, {_REQUESTS:,} requests")
    print(f"{'':26}{'own':>8}{'by age':>8}{'best':>8}{'own/best':>10}")
    loads = {f"skew {skew}": _zipf(skew) for skew in (0.7, 0.9, 1.1)}
    loads["skew 0.9, scans"] = [*_with_scans(loads["skew 0.9"])]
    for name, keys in loads.items():
        for share in (0.01, 0.05, 0.2):
            room = int(_KEYS * share)
            own, best = _own(keys, room * cost), _best(keys, room)
            print(
                f"{name:17} room {share:3.0%}{own:>8.1%}{_by_age(keys, room):>8.1%}{best:>8.1%}"
                f"{own / best:>10.2f}"
            )


def _add_head(_: object) -> Commit:
    return Commit()


def _read_one_by_one(realm: Realm, ids: Sequence[int]) -> int:
    for number in ids:
        assert realm.objects.fetch(number, Note) is not None
    return len(ids)


def _read_at_once(realm: Realm, ids: Sequence[int]) -> int:
    return len([each for each in realm.objects.fetch_many(ids, Note) if each is not None])


def _look(realm: Realm, count: int) -> int:
    for _ in range(count):
        assert realm.head("root", Commit) is not None
    return count


def _rates(url: str, cache_bytes: int) -> list[float]:
    types: dict[str, type[msgspec.Struct]] = {"note": Note, "commit": Commit}
    with Store.open(url, types=types, cache_bytes=cache_bytes) as store:
        realm = store.realm("acme")
        ids = range(1, _READS + 1)
        actions = (
            lambda: _read_one_by_one(realm, ids),
            lambda: _read_at_once(realm, ids),
            lambda: _look(realm, _READS),
        )
        return [per_cpu_second(action) for action in actions]


def _savings(folder: Path) -> None:
    url = f"sqlite:///{folder / 'store.db'}"
    Store.create_tables(url)
    with Store.open(url, types={"note": Note, "commit": Commit}) as store:
        realm = store.create_realm("acme")
        realm.objects.write_many(
            {number: Note("x" * _VALUE_BYTES) for number in range(1, _READS + 1)}
        )
        realm.commit("root", _add_head, Commit)
    names = ("objects, one by one", f"objects, {_READS:,} at once", "head of a reference")
    print(f"\non SQLite, a core-second{'cached':>12}{'not':>12}{'ratio':>8}")
    for name, cached, plain in zip(names, _rates(url, 2**26), _rates(url, 0), strict=True):
        print(f"{name:24}{cached:>12,.0f}{plain:>12,.0f}{cached / plain:>7.1f}x")


def main() -> None:
    _ratios()
    with tempfile.TemporaryDirectory() as folder:
        _savings(Path(folder))


if __name__ == "__main__":
    main()
