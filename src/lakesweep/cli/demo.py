"""`lakesweep demo`: the whole story on an embedded lake."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.options import command
from lakesweep.errors import LakesweepError, UsageError

if TYPE_CHECKING:
    from lakesweep.cli.demo_lake import DemoLake


def add_demo(app: typer.Typer) -> None:
    """Add the command to the root."""
    command(app, "demo", examples=["lakesweep demo", "lakesweep demo --keep ./demo-lake"])(demo)


def demo(
    context: Context,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Make the lake here, and leave it for your own tries."),
    ] = None,
) -> None:
    """The whole story on an embedded lake.

    Makes a lake of Iceberg tables in a folder, shows what is stored and what a table reaches,
    purges one table, and proves that the others can still be read. Needs nothing but disk space.
    """
    with _folder(keep) as folder:
        _tell(context, folder)
    if keep is not None:
        context.output.say(f"the lake is in {keep}; go on with: cd {shlex.quote(str(keep))}")


def _tell(context: Context, folder: Path) -> None:
    from lakesweep.cli.demo_lake import DemoLake

    say = context.output.say
    lake = DemoLake(folder)
    say(f"Making a lake of Iceberg tables in {folder}")
    lake.create()
    before = lake.count_rows()

    say("\nWhat is stored: every file below a location, filtered as you like.")
    _run(context, lake, f"files list {lake.warehouse} --kind manifest-list")
    say("\nWhat one table reaches, children before parents.")
    _run(context, lake, "iceberg files demo.shop.orders")
    say("\nPurging a table shows its totals first; here it only shows them.")
    _run(context, lake, "iceberg purge demo.shop.customers --dry-run")
    say("\nNow for good: the name goes from the catalog, then the files.")
    _run(context, lake, "iceberg purge demo.shop.customers --drop --yes")
    _prove(context, lake, before)


def _prove(context: Context, lake: DemoLake, before: dict[str, int]) -> None:
    from lakesweep.cli.output import Table

    after = lake.count_rows()
    expected = {name: rows for name, rows in before.items() if name != "shop.customers"}
    if after != expected:
        raise LakesweepError(f"the demo went wrong: expected {expected}, found {after}")
    context.output.say("\nThe other tables, read back row by row:")
    rows = [(name, f"{count:,}") for name, count in after.items()]
    context.output.result({"readable": after}, Table(("table", "rows"), rows))


def _run(context: Context, lake: DemoLake, words: str) -> None:
    from lakesweep.cli.main import run

    context.output.say(f"$ lakesweep {words}")
    options = ["--config", str(lake.config), *(["--json"] if context.settings.json else [])]
    code = run([*options, *shlex.split(words)])
    if code != 0:
        raise LakesweepError(f"the demo's command ended with code {code}: {words}")


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="lakesweep-demo-") as folder:
            yield Path(folder)
        return
    if keep.exists() and any(keep.iterdir()):
        raise UsageError(f"{keep} is not empty", hint="name a new folder after --keep")
    yield keep.resolve()
