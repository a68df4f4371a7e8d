"""How fast a large catalog is listed and changed.

`python -m benchmarks.catalog [TABLES]`: 100 namespaces, with all tables in the first of them. The
top level is listed as the catalog does it, by a jump over what lies below, and by a full pass over
the name index. A rename of the large namespace is compared with one commit that changes one table,
and with entering all its children under new keys, which is what a layout by full names would do.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable

from lakesweep.catalog import (
    TYPES,
    Catalog,
    Catalogs,
    Create,
    EntityType,
    GenericTable,
    Namespace,
    Rename,
    Table,
    Update,
)
from lakesweep.catalog.commits import NAMED
from lakesweep.store import Store

_BATCH = 5_000
_NAMESPACES = 100
_COMMITS = 50


def main() -> None:
    tables = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/store.db"
        Store.create_tables(url)
        with Store.open(url, types=TYPES) as store:
            catalog = Catalogs(store.create_realm("bench")).create("shop")
            _fill(catalog, tables)
            _listing(catalog, tables)
            _changes(catalog, tables)


def _table(number: int, version: int = 1) -> Table:
    folder = f"s3://lake/shop/table_{number:06}"
    return Table(metadata_location=f"{folder}/metadata/{version:05}.metadata.json", location=folder)


def _fill(catalog: Catalog, tables: int) -> None:
    start = time.perf_counter()
    catalog.apply([Create(f"ns{number:03}", Namespace()) for number in range(_NAMESPACES)])
    for first in range(0, tables, _BATCH):
        batch = range(first, min(first + _BATCH, tables))
        catalog.apply([Create(f"ns000.table_{number:06}", _table(number)) for number in batch])
    seconds = time.perf_counter() - start
    rate = tables / seconds
    print(f"{tables:,} tables created in batches of {_BATCH:,}: {rate:,.0f}/s, {seconds:.1f} s")


def _listing(catalog: Catalog, tables: int) -> None:
    view = catalog.snapshot()
    names = catalog.realm.index(view.head.names, NAMED)

    def scan() -> int:
        # All entries are looked at, and those at the top are counted.
        return sum(named.kind is EntityType.NAMESPACE for _, named in names.items())

    def page() -> int:
        return len(catalog.list(kinds=[EntityType.NAMESPACE], size=1_000).items)

    full, jump = _best(scan), _best(lambda: sum(1 for _ in view.children(namespaces=True)))
    print(f"top level of {tables:,} tables and {_NAMESPACES} namespaces:")
    print(f"  full pass over the names  {full * 1e3:10.2f} ms")
    print(f"  names by a jump           {jump * 1e3:10.2f} ms   {full / jump:,.0f} x")
    whole = _best(page)
    print(f"  a page with its entities  {whole * 1e3:10.2f} ms   {full / whole:,.0f} x")


def _changes(catalog: Catalog, tables: int) -> None:
    one = _each(lambda n: [Update("ns000.table_000001", _table(1, n + 2))], catalog)
    move = _each(lambda n: [Rename(f"ns{'000' if n % 2 == 0 else 'x'}", _other(n))], catalog)
    mixed = _each(_mixed, catalog)
    keys = _by_full_names(catalog, tables)
    print(f"commits to a catalog of {tables:,} tables:")
    print(f"  one table updated         {one * 1e3:10.2f} ms")
    print(f"  namespace of all renamed  {move * 1e3:10.2f} ms   {move / one:.2f} x")
    print(f"  its children put anew     {keys * 1e3:10.2f} ms   {keys / move:,.0f} x the rename")
    print(f"  20 mixed mutations        {mixed * 1e3:10.2f} ms   {20 / mixed:,.0f} mutations/s")


def _other(number: int) -> str:
    return "nsx" if number % 2 == 0 else "ns000"


def _mixed(number: int) -> list[Create | Rename | Update]:
    raw = f"s3://raw/{number}"
    made = [
        Create(f"ns001.g{number}_{each}", GenericTable(format="csv", location=f"{raw}/{each}"))
        for each in range(10)
    ]
    moved = [Rename(f"ns001.g{number}_{each}", f"ns002.h{number}_{each}") for each in range(9)]
    return [*made, *moved, Update("ns003", Namespace(properties={"n": str(number)}))]


def _by_full_names(catalog: Catalog, tables: int) -> float:
    """What it takes to give every child another key, in memory alone."""
    start = time.perf_counter()
    view = catalog.snapshot()
    index = catalog.realm.index(view.head.names, NAMED)
    from lakesweep.store.index import IndexUpdate
    from lakesweep.store.index.keys import key

    ids = iter(range(1 << 40, 1 << 41))
    update = IndexUpdate(index, lambda _: next(ids))
    for found in list(view.children("ns000")):
        update.remove(found.key)
        update.put(key("nsx", found.name), found.named)
    update.finish()
    assert tables > 0
    return time.perf_counter() - start


def _each(batch: Callable[[int], list[Create | Rename | Update]], catalog: Catalog) -> float:
    start = time.perf_counter()
    for number in range(_COMMITS):
        catalog.apply(batch(number))
    return (time.perf_counter() - start) / _COMMITS


def _best(action: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return best


if __name__ == "__main__":
    main()
