"""`lakesweep store`: the group, `init` and `info`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.render.output import TextTable
from lakesweep.cli.render.store_lines import RealmLine, realm_table
from lakesweep.cli.store.bench import bench
from lakesweep.cli.store.log import log
from lakesweep.cli.store.maintain import last_run, maintain
from lakesweep.cli.store.recover import recover
from lakesweep.cli.store.store_options import StoreChoice
from lakesweep.cli.store.transfer import export, import_
from lakesweep.errors import ContendedError, RealmExistsError, SchemaError
from lakesweep.units import format_size

if TYPE_CHECKING:
    from lakesweep.store import Store
    from lakesweep.store.backends.backend import BackendCapabilities

app = group(
    "store",
    "The store: the database in which Lakesweep keeps its own records.",
    examples=[
        "lakesweep store init                               create what is missing",
        "lakesweep store info                               what is in it",
        "lakesweep store log                                all references of the realm",
        "lakesweep store maintain                           delete what nothing leads to",
        "lakesweep store bench --url postgresql://db/lake   how fast it is",
    ],
)


@command(
    app,
    "init",
    examples=[
        "lakesweep store init",
        "lakesweep store init --url sqlite:///store.db",
        "lakesweep store init --url postgresql://lake@db/lakesweep",
    ],
)
def init(context: Context, choice: StoreChoice) -> None:
    """Create what the store lacks: its tables, and the realm that the configuration names.

    What is there stays as it is, so it can be run again at any time. Tables of a newer version are
    refused.
    """
    from lakesweep.store.backends.backend import SCHEMA_VERSION

    choice.choose(context)
    name = context.config.store.realm
    created = ["tables"] if _create_tables(context.app.store_url) else []
    created += [f"realm {name}"] if _create_realm(context.app.store, name) else []
    realm = RealmLine.of(context.app.store.realms.get(name))
    document = {
        "database": _database(context),
        "schema_version": SCHEMA_VERSION,
        "created": created,
        "realm": realm.document(),
    }
    context.output.result(document)
    context.output.say(f"store: {_database(context)}")
    context.output.say(f"created {', '.join(created)}" if created else "nothing was missing")
    context.output.say(f"realm {name} is {realm.status}; lakesweep store info shows more")


@command(
    app,
    "info",
    examples=["lakesweep store info", "lakesweep store info --url sqlite:///store.db --json"],
)
def info(context: Context, choice: StoreChoice) -> None:
    """What the store is, and what is in it.

    The database and what it can do, all realms with the number of their references, and how many of
    the 1,024 nodes that give out ids are leased to running processes.
    """
    from lakesweep.store.backends.backend import SCHEMA_VERSION
    from lakesweep.store.ids.node_leases import leased_nodes

    store = choice.open(context)
    capabilities = store.backend.capabilities
    realms = list(_realms(store))
    newest = last_run(context)
    document = {
        "database": _database(context),
        "schema_version": SCHEMA_VERSION,
        "nodes_leased": len(leased_nodes(store.backend, context.clock)),
        "capabilities": asdict(capabilities),
        "realms": [realm.document() for realm in realms],
        "maintenance": None if newest is None else newest.document(),
    }
    rows = [(name.replace("_", " "), str(document[name])) for name in tuple(document)[:3]]
    maintained = ("last maintenance", "never" if newest is None else newest.words())
    facts = TextTable(("store", ""), [*rows, *_in_words(capabilities), maintained])
    context.output.result(document, facts, realm_table(realms))


command(
    app,
    "log",
    examples=[
        "lakesweep store log",
        "lakesweep store log catalogs --limit 10",
        "lakesweep store log catalogs --since 1d --oldest-first --json",
        "lakesweep store log realms --realm ::system::",
    ],
)(log)
command(
    app,
    "recover",
    examples=[
        "lakesweep store recover catalogs --dry-run",
        "lakesweep store recover catalogs --realm acme --yes",
        "lakesweep store recover catalogs --deep --dry-run",
        "lakesweep store recover realms --realm ::system::",
    ],
)(recover)
command(
    app,
    "bench",
    examples=[
        "lakesweep store bench",
        "lakesweep store bench --url postgresql://lake@db/lakesweep --writers 32 --commits 200",
        "lakesweep store bench --url memory: --references 8 --json",
    ],
)(bench)
command(
    app,
    "maintain",
    examples=[
        "lakesweep store maintain --dry-run",
        "lakesweep store maintain --yes",
        "lakesweep store maintain --yes --json",
        "lakesweep store maintain --supersede maintain-20260601T120000-1a2b3c4d",
    ],
)(maintain)
command(
    app,
    "export",
    examples=[
        "lakesweep store export acme acme.ndjson.gz",
        "lakesweep store export acme acme.ndjson.gz --history 1",
        "lakesweep store export acme - | ssh elsewhere lakesweep store import -",
    ],
)(export)
command(
    app,
    "import",
    examples=[
        "lakesweep store import acme.ndjson.gz",
        "lakesweep store import acme.ndjson.gz --realm copy --inactive",
        "lakesweep store import acme.ndjson.gz --url postgresql://lake@db/lakesweep",
    ],
)(import_)


def _create_tables(url: str) -> bool:
    """Whether there was something to create."""
    from lakesweep.store import Store

    try:
        Store.open(url).close()
    except SchemaError:
        Store.create_tables(url)
        return True
    return False


def _create_realm(store: Store, name: str) -> bool:
    """Whether there was something to create."""
    try:
        store.create_realm(name)
    except (RealmExistsError, ContendedError):
        return False  # it is there, or somebody else is creating it right now
    return True


def _realms(store: Store) -> Iterator[RealmLine]:
    for realm in store.realms.list():
        references = sum(1 for _ in store.backend.scan_references(realm.name))
        yield RealmLine.of(realm, references)


def _database(context: Context) -> str:
    from lakesweep.store.backends.urls import without_password

    return without_password(context.app.store_url)


def _in_words(capabilities: BackendCapabilities) -> Iterator[tuple[str, str]]:
    yield "outlives the process", _yes(capabilities.durable)
    yield "deletes a realm by itself", _yes(capabilities.deletes_realms)
    yield "scans in parallel", _yes(capabilities.splits_scans)
    yield "rows in a request", f"{capabilities.batch_rows:,}"
    yield "largest value", format_size(capabilities.max_value_bytes)


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"
