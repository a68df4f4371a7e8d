"""Export a realm to a file, and import it into any store.

Each result encodes to the JSON that the commands print.
"""

from __future__ import annotations

import io as streams
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from lakesweep.app import App
from lakesweep.errors import UsageError
from lakesweep.operations.interaction import SILENT_IO, Interaction
from lakesweep.store import Store, transfer
from lakesweep.store.realms.registry import RealmStatus
from lakesweep.store.transfer import ExportKind
from lakesweep.store.transfer.format import EndLine, ExportHeader

#: Receives an export, line by line.
Sink = Callable[[bytes], object]
Count = int | msgspec.UnsetType


@dataclass(frozen=True, slots=True)
class ExportRealmRequest:
    """Write a realm to a file or a sink.

    A file appears when it is complete; an existing one is replaced only with `replace`. `history`
    limits the commits of each log. With the kind ROWS, every row is exported, with all history.
    """

    realm: str
    target: Path | Sink
    kind: ExportKind = ExportKind.LIVE
    history: int | None = None
    replace: bool = False


@dataclass(frozen=True, slots=True)
class ImportRealmRequest:
    """Create a realm from an export, under its own name or another `name`."""

    source: Path | streams.BufferedReader[Any]
    name: str | None = None
    active: bool = True


class ExportedRealm(msgspec.Struct, frozen=True, kw_only=True):
    """An export that was written; `file` and `file_bytes` are set if it went to a file.

    Depending on its kind, its items are `objects` or `rows`; the other is unset.
    """

    realm: str
    file: str | msgspec.UnsetType = msgspec.UNSET
    kind: ExportKind
    export: str
    created: datetime
    references: int
    objects: Count = msgspec.UNSET
    rows: Count = msgspec.UNSET
    bytes: int
    hash: str
    file_bytes: Count = msgspec.UNSET


class ImportedRealm(msgspec.Struct, frozen=True, kw_only=True):
    """A realm that was imported; `repeated` if the same import had been completed before."""

    realm: str
    status: RealmStatus
    kind: ExportKind
    export: str
    created: datetime
    references: int
    objects: Count = msgspec.UNSET
    rows: Count = msgspec.UNSET
    bytes: int
    hash: str
    repeated: bool


def export_realm(
    app: App, request: ExportRealmRequest, io: Interaction = SILENT_IO
) -> ExportedRealm:
    """Write a realm: its references and everything they lead to. The realm may be in use."""
    if request.kind is ExportKind.ROWS and request.history is not None:
        raise UsageError("--rows exports every row of every commit", hint="leave out --history")
    with _open_store(app) as store, _open_target(request) as write:
        done = transfer.export_realm(
            store,
            request.realm,
            write,
            kind=request.kind,
            history=request.history,
            clock=app.clock,
            progress=io.progress,
        )
    return _exported(done.header, done.end, request.target)


def import_realm(
    app: App, request: ImportRealmRequest, io: Interaction = SILENT_IO
) -> ImportedRealm:
    """Create a realm from an export. Repeating an interrupted import finishes it.

    The realm cannot be used before everything is written, read back and verified.
    """
    with _open_store(app) as store:
        done = transfer.import_realm(
            store,
            request.source,
            name=request.name,
            active=request.active,
            clock=app.clock,
            progress=io.progress,
        )
    return _imported(done)


def _open_store(app: App) -> Store:
    """The store without a cache, because hardly anything is read twice."""
    return Store.open(app.store_url, clock=app.clock, cache_bytes=0)


@contextmanager
def _open_target(request: ExportRealmRequest) -> Iterator[Sink]:
    if not isinstance(request.target, Path):
        yield request.target
        return
    with transfer.new_file(request.target, replace=request.replace) as file:
        yield file.write


def _exported(header: ExportHeader, end: EndLine, target: Path | Sink) -> ExportedRealm:
    objects, rows = _items(header, end)
    return ExportedRealm(
        realm=header.realm,
        file=str(target) if isinstance(target, Path) else msgspec.UNSET,
        kind=header.kind,
        export=header.export,
        created=header.created,
        references=end.references,
        objects=objects,
        rows=rows,
        bytes=end.bytes,
        hash=end.hash,
        file_bytes=target.stat().st_size if isinstance(target, Path) else msgspec.UNSET,
    )


def _imported(done: transfer.Imported) -> ImportedRealm:
    objects, rows = _items(done.header, done.end)
    return ImportedRealm(
        realm=done.realm.name,
        status=done.realm.status,
        kind=done.header.kind,
        export=done.header.export,
        created=done.header.created,
        references=done.end.references,
        objects=objects,
        rows=rows,
        bytes=done.end.bytes,
        hash=done.end.hash,
        repeated=done.repeated,
    )


def _items(header: ExportHeader, end: EndLine) -> tuple[Count, Count]:
    """The items of an export, as a number of objects or of rows."""
    is_live = header.kind is ExportKind.LIVE
    return (end.items, msgspec.UNSET) if is_live else (msgspec.UNSET, end.items)
