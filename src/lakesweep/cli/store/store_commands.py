"""`lakesweep store`: the group, `init` and `info`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.render.output import TextTable
from lakesweep.cli.render.run_lines import MaintenanceLine
from lakesweep.cli.render.store_lines import realm_table
from lakesweep.cli.store.bench import bench
from lakesweep.cli.store.log import log
from lakesweep.cli.store.maintain import maintain
from lakesweep.cli.store.recover import recover
from lakesweep.cli.store.store_options import StoreChoice
from lakesweep.cli.store.transfer import export, import_
from lakesweep.units import format_size

if TYPE_CHECKING:
    from lakesweep.operations.store.store import StoreInfo
    from lakesweep.store.backends.backend import BackendCapabilities

app = group(
    "store",
    "The store: the database that holds Lakesweep's own records.",
    examples=[
        "lakesweep store init                               create what is missing",
        "lakesweep store info                               what is in it",
        "lakesweep store log                                all references of the realm",
        "lakesweep store maintain                           delete what nothing references",
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
    """Create what is missing: the tables of the store, and the configured realm.

    Nothing that exists is changed, so it can be run again at any time. Tables of a newer version
    are refused.
    """
    from lakesweep.operations.store.store import init_store

    result = init_store(choice.app(context))
    created = f"created {', '.join(result.created)}" if result.created else "nothing was missing"
    context.output.result(result)
    context.output.say(f"store: {result.database}")
    context.output.say(created)
    realm = result.realm
    context.output.say(f"realm {realm.name} is {realm.status}; lakesweep store info shows more")


@command(
    app,
    "info",
    examples=["lakesweep store info", "lakesweep store info --url sqlite:///store.db --json"],
)
def info(context: Context, choice: StoreChoice) -> None:
    """Show what the store is, and what is in it.

    The database and its capabilities, all realms with their number of references, and how many of
    the 1,024 nodes that generate ids are leased to running processes.
    """
    from lakesweep.operations.store.store import store_info

    found = store_info(choice.app(context))
    context.output.result(found, _facts(found), realm_table(found.realms))


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


def _facts(found: StoreInfo) -> TextTable:
    last = "never" if found.maintenance is None else MaintenanceLine(found.maintenance).words()
    rows = [
        ("database", found.database),
        ("schema version", str(found.schema_version)),
        ("nodes leased", str(found.nodes_leased)),
        *_capabilities(found.capabilities),
        ("last maintenance", last),
    ]
    return TextTable(("store", ""), rows)


def _capabilities(capabilities: BackendCapabilities) -> Iterator[tuple[str, str]]:
    yield "durable", _yes(capabilities.durable)
    yield "deletes a realm in one call", _yes(capabilities.deletes_realms)
    yield "scans in parallel", _yes(capabilities.splits_scans)
    yield "rows per request", f"{capabilities.batch_rows:,}"
    yield "largest value", format_size(capabilities.max_value_bytes)


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"
