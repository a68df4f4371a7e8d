"""`lakesweep store export` and `import`: a realm, to and from a file."""

from __future__ import annotations

import io
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from lakesweep.cli.context import Context
from lakesweep.cli.render.terminal import write
from lakesweep.cli.render.text_table import TextTable
from lakesweep.cli.store.store_options import StoreChoice
from lakesweep.errors import UsageError
from lakesweep.units import format_size

if TYPE_CHECKING:
    from lakesweep.operations.store.realm_transfer import ExportedRealm, ImportedRealm

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
            help="The file to write: .gz and .zst are compressed, - is the standard output.",
            show_default=False,
        ),
    ],
    choice: StoreChoice,
    rows: Annotated[
        bool,
        typer.Option("--rows", help="Export every row of the database, also unreferenced ones."),
    ] = False,
    history: Annotated[
        str,
        typer.Option(metavar="N|all", help="How many of the newest commits of each log to export."),
    ] = "all",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a realm to a file: its references and everything they lead to.

    The realm may be in use; each reference is exported as of one moment. The file appears only when
    it is complete. Its hash is the same for the same content in every database.
    """
    from lakesweep.operations.store.realm_transfer import ExportRealmRequest, export_realm
    from lakesweep.store.transfer import ExportKind

    kind = ExportKind.ROWS if rows else ExportKind.LIVE
    lines = _Lines()
    target = lines.add if file == _PIPE else file
    request = ExportRealmRequest(realm, target, kind, _parse_history(history), replace=force)
    done = export_realm(choice.app(context), request, context.io)
    if file == _PIPE:
        lines.flush()
    _show_exported(context, done, file)


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
        typer.Option(metavar="NAME", help="Import under another name.", show_default=False),
    ] = None,
    inactive: Annotated[
        bool, typer.Option("--inactive", help="Leave the realm inactive after the import.")
    ] = False,
) -> None:
    """Create a realm from a file that `lakesweep store export` wrote.

    The realm cannot be used before everything is written, read back and verified. Repeating an
    interrupted import with the same file finishes it.
    """
    from lakesweep.operations.store.realm_transfer import ImportRealmRequest, import_realm

    if file == _PIPE and sys.stdin.isatty():
        raise UsageError("there is nothing to read", hint="name a file, or send one through a pipe")
    source = cast("io.BufferedReader[Any]", sys.stdin.buffer) if file == _PIPE else file
    request = ImportRealmRequest(source, realm, active=not inactive)
    _show_imported(context, import_realm(choice.app(context), request, context.io))


class _Lines:
    """Buffers lines for stdout."""

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


def _show_exported(context: Context, done: ExportedRealm, file: Path) -> None:
    if not isinstance(done.file_bytes, int):
        context.output.say(f"exported realm {done.realm}, hash {done.hash}")
        return
    context.output.result(done, _table(done))
    context.output.say(f"wrote {file}, {format_size(done.file_bytes)}")
    context.output.say(f"to import it: lakesweep store import {shlex.quote(str(file))}")


def _show_imported(context: Context, done: ImportedRealm) -> None:
    context.output.result(done, _table(done))
    if done.repeated:
        context.output.say("it was imported before, and its references have not changed since")
    context.output.say(f"realm {done.realm} is {done.status}")


def _table(done: ExportedRealm | ImportedRealm) -> TextTable:
    items = {"objects": done.objects, "rows": done.rows}
    rows = [
        ("references", f"{done.references:,}"),
        *((name, f"{count:,}") for name, count in items.items() if isinstance(count, int)),
        ("bytes", format_size(done.bytes)),
        ("hash", done.hash),
    ]
    return TextTable(("realm", done.realm), rows)
