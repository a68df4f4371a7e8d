"""The metadata files of a warehouse: written under new names, and kept in memory as raw bytes.

A metadata file never changes, so what was read of one stays true for as long as something points to
it. Whoever asks for a file was allowed to see it before.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from uuid import uuid4

from msgspec import Raw

from lakesweep.catalog.entities import TableMemo
from lakesweep.catalog.warehouse.problems import ProblemType, WarehouseError, bad_request
from lakesweep.errors import (
    LakesweepError,
    MissingError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from lakesweep.iceberg.document.fields import RawDocument, SnapshotHead
from lakesweep.iceberg.document.file_names import encode_file, write_metadata_name
from lakesweep.iceberg.metadata import read_file, table_uuid, write_paths_of
from lakesweep.storage.address import StoreKind, parse
from lakesweep.storage.stores import Stores
from lakesweep.untrusted.documents import inflate_gzip

_KEPT_BYTES = 128 * 2**20
#: One table must not take the place of all others.
_LARGEST_KEPT = _KEPT_BYTES // 8
_METADATA = re.compile(r"\.metadata\.json(\.gz)?$")
#: A folder with more metadata of other tables than this is not one for a new table.
_MOST_FOREIGN = 1_000
_STATISTICS = ("statistics", "partition-statistics")


@dataclass(frozen=True, slots=True)
class StoredMetadata:
    """One metadata file: its content as JSON, and the same as a document."""

    location: str
    content: bytes = field(repr=False)
    document: RawDocument = field(repr=False)

    def with_refs_only(self) -> bytes:
        """The content without snapshots that no branch or tag points to."""
        document = self.document
        kept = {ref.snapshot_id for ref in document.refs().values()}
        fields: dict[str, Raw] = dict(document.fields)
        for name in ("snapshots", *_STATISTICS):
            fields[name] = _of_snapshots(document, name, kept)
        return RawDocument(document.path, fields).encode()


def _of_snapshots(document: RawDocument, name: str, kept: set[int]) -> Raw:
    heads = document.get(name, list[SnapshotHead] | None) or ()
    raws = document.get(name, list[Raw] | None) or ()
    some = [bytes(raw) for head, raw in zip(heads, raws, strict=True) if head.snapshot_id in kept]
    return Raw(b"[" + b",".join(some) + b"]")


@dataclass
class MetadataFiles:
    """Reads and writes metadata files. Threads may share it."""

    stores: Stores
    _kept: OrderedDict[str, StoredMetadata] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, location: str) -> StoredMetadata:
        """A metadata file. WarehouseError (NotFoundException) if it is gone."""
        with self._lock:
            found = self._kept.get(location)
            if found is not None:
                self._kept.move_to_end(location)
        if found is not None and self._is_there(location):
            return found
        try:
            data = read_file(self.stores, location)
        except MissingError as error:
            self._forget(location)
            raise WarehouseError(
                ProblemType.NOT_FOUND, f"Failed to open input stream for file: {location}"
            ) from error
        content = bytes(inflate_gzip(location, data, self.stores.limits))
        return self._keep(location, content)

    def write(
        self, document: RawDocument, replaced: str | None, *, usual_codec: str = "none"
    ) -> StoredMetadata:
        """Write a document under a name of its own; nothing points to it yet."""
        path = write_metadata_name(document, replaced, str(uuid4()), usual_codec=usual_codec)
        if _folder(path) != _folder(replaced or ""):
            self._check_folder(_folder(path), document)
        address, data = parse(path), encode_file(document, path)
        store = self.stores.open(address)
        try:
            store.write_new(address.key, data)
        except UnsupportedError:
            store.write(address.key, data)  # the name is new in any case
        if store.read(address.key) != data:
            raise StorageError(path, "does not hold what was written to it")
        return self._keep(path, bytes(inflate_gzip(path, data, self.stores.limits)))

    def _check_folder(self, folder: str, document: RawDocument) -> None:
        """WarehouseError if a folder that is new to a table holds metadata with the same id.

        A client chooses the id of a table that it stages. If that is the id of a table which this
        catalog does not know, our file would pass for its newest metadata, and whoever finds tables
        by their files would take all that it has for garbage.
        """
        names = islice(self._metadata_in(folder), _MOST_FOREIGN + 1)
        for number, path in enumerate(names):
            with suppress(NotFoundError):
                if number < _MOST_FOREIGN and table_uuid(self.stores, path) != _uuid_of(document):
                    continue
                raise bad_request(f"{folder} holds metadata of another table that has the same id")

    def _metadata_in(self, folder: str) -> Iterator[str]:
        address = parse(folder)
        store = self.stores.open(address)
        with suppress(MissingError):
            page = store.list(address.key, one_level=True)
            while True:
                for key in page.entries["key"].to_pylist():
                    if _METADATA.search(key):
                        yield store.base + key
                if page.next is None:
                    return
                page = store.list(address.key, one_level=True, cursor=page.next)

    def remove(self, file: StoredMetadata) -> None:
        """Delete a file that surely nothing points to. If that fails, a sweep finds it."""
        self._forget(file.location)
        address = parse(file.location)
        try:
            self.stores.open(address).delete([address.key])
        except LakesweepError:
            return

    def _is_there(self, location: str) -> bool:
        """Whether a file is still stored. Asking costs nothing only on local disks."""
        address = parse(location)
        if address.kind is not StoreKind.FILE:
            return True
        try:
            self.stores.open(address).head(address.key)
        except MissingError:
            return False
        return True

    def _keep(self, location: str, content: bytes) -> StoredMetadata:
        file = StoredMetadata(location, content, RawDocument.parse(location, content))
        if len(content) > _LARGEST_KEPT:
            return file
        with self._lock:
            self._drop(location)
            self._kept[location] = file
            self._bytes += len(content)
            while self._bytes > _KEPT_BYTES:
                self._drop(next(iter(self._kept)))
        return file

    def _forget(self, location: str) -> None:
        with self._lock:
            self._drop(location)

    def _drop(self, location: str) -> None:
        gone = self._kept.pop(location, None)
        if gone is not None:
            self._bytes -= len(gone.content)


def _folder(path: str) -> str:
    return f"{path.rpartition('/')[0]}/"


def _uuid_of(document: RawDocument) -> str | None:
    found: str | None = document.get("table-uuid", str | None)
    return found or document.get("view-uuid", str | None)


def memo_of_file(file: StoredMetadata) -> TableMemo:
    """What is kept of a metadata file beside its table or view."""
    document, properties = file.document, file.document.properties()
    is_view = document.get("view-uuid", str | None) is not None
    return TableMemo(
        uuid=document.get("view-uuid" if is_view else "table-uuid", str | None),
        format_version=document.format_version,
        location=location_in(document),
        size_bytes=len(file.content),
        gc_enabled=properties.get("gc.enabled", "true").lower() != "false",
        write_paths=() if is_view else write_paths_of(properties),
        current_snapshot=None if is_view else document.current_snapshot,
        snapshots=0 if is_view else len(document.snapshots()),
    )


def location_in(document: RawDocument) -> str:
    """Where a document says that its table or view lies."""
    return str(document.get("location", str | None) or "")


def addresses_in(document: RawDocument) -> Mapping[str, str]:
    """All places that a document lets its writers use, by what names them."""
    written = {
        name: value
        for name, value in document.properties().items()
        if value in write_paths_of({name: value})
    }
    return {"location": location_in(document), **written}
