"""`lakesweep store`: the group, and `init`, `info` and `recover`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.commands import command, group
from lakesweep.cli.context import Context
from lakesweep.cli.options import DryRun, Yes
from lakesweep.cli.render.outcome_tables import dry_run_hint
from lakesweep.cli.render.record_lines import MaintenanceLine, commit_title, realm_table
from lakesweep.cli.render.text_table import TextTable
from lakesweep.cli.store.bench import bench
from lakesweep.cli.store.log import log
from lakesweep.cli.store.maintain import maintain
from lakesweep.cli.store.store_options import RealmChoice, StoreChoice
from lakesweep.cli.store.transfer import export, import_
from lakesweep.units import format_count, format_size

if TYPE_CHECKING:
    from lakesweep.operations.store.store import RecoveryResult, StoreInfo
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


def recover(
    context: Context,
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE",
            help="The reference whose head cannot be read.",
            show_default=False,
        ),
    ],
    choice: RealmChoice,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Accept a commit only if everything it links to is readable."),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Reset a reference to the newest of its commits that can be read.

    Later commits are lost; they are shown first. A reference whose head can be read is left alone,
    and so is a head that only a newer lakesweep can read. With --deep, everything a head links to
    is read as well: indexes and linked objects.
    """
    from lakesweep.operations.store.store import RecoverReferenceRequest, recover_reference

    def confirm(preview: RecoveryResult) -> None:
        _show_losses(context, preview)
        lost = format_count(len(preview.lost), "commit")
        question = f"Give up {lost} of reference {reference}?"
        if not dry_run:
            context.confirm(question, yes=yes, refused="nothing was changed")

    request = RecoverReferenceRequest(reference, choice.realm, deep, dry_run)
    result = choice.call(context, recover_reference, request, confirm, choice.io(context))
    context.output.result(result)
    context.output.say(_summary(result))


def _show_losses(context: Context, preview: RecoveryResult) -> None:
    for lost in preview.lost:
        context.output.say(f"lost: {lost.reason}")
    if preview.head is not None:
        context.output.say(f"newest readable commit: {commit_title(preview.head)}")


def _summary(result: RecoveryResult) -> str:
    if result.healthy:
        return f"reference {result.reference} is intact; nothing was changed"
    if result.dry_run:
        return dry_run_hint("changed")
    lost = format_count(len(result.lost), "commit")
    return f"reference {result.reference} was reset by {lost}"


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

    result = choice.call(context, init_store)
    created = f"created {', '.join(result.created)}" if result.created else "nothing was missing"
    context.output.result(result)
    context.output.say(f"store: {result.database}")
    context.output.say(created)
    realm = result.realm
    context.output.say(f"realm {realm.name} is {realm.status}; lakesweep store info shows more")


@command(
    app,
    "info",
    remote=True,
    examples=["lakesweep store info", "lakesweep store info --url sqlite:///store.db --json"],
)
def info(context: Context, choice: StoreChoice) -> None:
    """Show what the store is, and what is in it.

    The database and its capabilities, all realms with their number of references, and how many of
    the 1,024 nodes that generate ids are leased to running processes.
    """
    from lakesweep.operations.store.store import store_info

    found = choice.call(context, store_info)
    context.output.result(found, _facts(found), realm_table(found.realms))


command(
    app,
    "log",
    remote=True,
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
    remote=True,
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
