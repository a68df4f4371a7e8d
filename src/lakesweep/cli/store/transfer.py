"""`lakesweep store export` and `import`: a realm, to and from a file."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.render.output import TextTable
from lakesweep.cli.render.terminal import write
from lakesweep.cli.store.store_options import StoreChoice
from lakesweep.errors import UsageError
from lakesweep.units import format_size

if TYPE_CHECKING:
    from lakesweep.store import Store
    from lakesweep.store.transfer import Exported, Imported
    from lakesweep.store.transfer.format import EndLine, ExportHeader

_PIPE = Path("-")
_CHUNK_BYTES = 2**20


def _parse_history(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is not a number of commits; write 1, 20 or all")
    return int(text)


def export(
    context: Context,
    realm: Annotated[
        str, typer.Argument(metavar="REALM", help="The realm to export.", show_default=False)
    ],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Where to write it: .gz and .zst are compressed, - is the standard output.",
            show_default=False,
        ),
    ],
    choice: StoreChoice,
    rows: Annotated[
        bool,
        typer.Option(
            "--rows", help="Every row as it is in the database, also what nothing leads to."
        ),
    ] = False,
    history: Annotated[
        str, typer.Option(metavar="N|all", help="So many commits of each log, the newest first.")
    ] = "all",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a realm to a file: its references, and all that they lead to.

    The realm may be in use. Each reference is exported as it was at one moment. The file is there
    when it is complete, and not before. Its hash is the same for the same content in every
    database.
    """
    from lakesweep.store.transfer import ExportKind, export_realm

    commits = _parse_history(history)
    if rows and commits is not None:
        raise UsageError("--rows exports every row of every commit", hint="leave --history away")
    with _store(context, choice) as store, _sink(file, replace=force) as put:
        done = export_realm(
            store,
            realm,
            put,
            kind=ExportKind.ROWS if rows else ExportKind.LIVE,
            history=commits,
            clock=context.clock,
            progress=context.progress,
        )
    _tell_exported(context, done, file)


def import_(
    context: Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="An export; - is the standard input.", show_default=False
        ),
    ],
    choice: StoreChoice,
    realm: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Give the realm another name than it had.", show_default=False
        ),
    ] = None,
    inactive: Annotated[
        bool, typer.Option("--inactive", help="Leave the realm inactive when it is complete.")
    ] = False,
) -> None:
    """Make a new realm of a file that `lakesweep store export` wrote.

    Nobody can use the realm before all of it was written, read back and found to be what the file
    says. An import that was interrupted is finished when it is repeated with the same file.
    """
    from lakesweep.store.transfer import import_realm

    if file == _PIPE and sys.stdin.isatty():
        raise UsageError("there is nothing to read", hint="name a file, or send one through a pipe")
    with _store(context, choice) as store:
        done = import_realm(
            store,
            cast("io.BufferedReader[Any]", sys.stdin.buffer) if file == _PIPE else file,
            name=realm,
            active=not inactive,
            clock=context.clock,
            progress=context.progress,
        )
    _tell_imported(context, done)


def _store(context: Context, choice: StoreChoice) -> Store:
    """The store, without a cache: hardly anything is read twice."""
    from lakesweep.store import Store

    choice.choose(context)
    return Store.open(context.app.store_url, clock=context.clock, cache_bytes=0)


@contextmanager
def _sink(file: Path, *, replace: bool) -> Iterator[Callable[[bytes], object]]:
    """Where an export goes, line by line."""
    from lakesweep.store.transfer import new_file

    if file != _PIPE:
        with new_file(file, replace=replace) as new:
            yield new.write
        return
    lines = _Lines()
    yield lines.add
    lines.flush()


class _Lines:
    """Lines for stdout, many at a time."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._size = 0

    def add(self, line: bytes) -> None:
        self._waiting.append(line)
        self._size += len(line)
        if self._size >= _CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        write(b"".join(self._waiting))
        self._waiting, self._size = [], 0


def _tell_exported(context: Context, done: Exported, file: Path) -> None:
    totals = _totals(done.header, done.end)
    if file == _PIPE:
        context.output.say(f"exported realm {done.header.realm}, hash {done.end.hash}")
        return
    size = file.stat().st_size
    document = {"realm": done.header.realm, "file": str(file), **totals, "file_bytes": size}
    context.output.result(document, _table(done.header.realm, done.header, done.end))
    context.output.say(f"wrote {file}, {format_size(size)}")
    context.output.say(f"to make a realm of it: lakesweep store import {shlex.quote(str(file))}")


def _tell_imported(context: Context, done: Imported) -> None:
    document = {
        "realm": done.realm.name,
        "status": done.realm.status.value,
        **_totals(done.header, done.end),
        "repeated": done.repeated,
    }
    context.output.result(document, _table(done.realm.name, done.header, done.end))
    if done.repeated:
        context.output.say("it was imported before, and its references have not changed since")
    context.output.say(f"realm {done.realm.name} is {done.realm.status}")


def _totals(header: ExportHeader, end: EndLine) -> dict[str, object]:
    return {
        "kind": header.kind.value,
        "export": header.export,
        "created": header.created,
        "references": end.references,
        _noun(header): end.items,
        "bytes": end.bytes,
        "hash": end.hash,
    }


def _table(realm: str, header: ExportHeader, end: EndLine) -> TextTable:
    rows = [
        ("references", f"{end.references:,}"),
        (_noun(header), f"{end.items:,}"),
        ("bytes", format_size(end.bytes)),
        ("hash", end.hash),
    ]
    return TextTable(("realm", realm), rows)


def _noun(header: ExportHeader) -> str:
    from lakesweep.store.transfer import ExportKind

    return "objects" if header.kind is ExportKind.LIVE else "rows"
