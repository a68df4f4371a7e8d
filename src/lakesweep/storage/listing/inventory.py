"""Inventories: lists of a bucket's objects made by other tools, used instead of a listing.

An S3 inventory is its `manifest.json`, which names data files (CSV, ORC or Parquet) with sizes
and MD5 sums. Anything else is one plain file, Parquet or CSV, with a column for the path (or
for bucket and key) and one for the modification time; columns are found by name.

An inventory is as old as its data. A run that uses one adds its age to the grace period.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from lakesweep.decoding import json_decoder
from lakesweep.errors import DamagedError, MissingError, UsageError
from lakesweep.storage.address import StoreKind, parse
from lakesweep.untrusted.documents import JSON_ERRORS

if TYPE_CHECKING:
    from lakesweep.storage.object_store import StoreOpener

_ARN = re.compile(r"^(?:arn:[^:]*:s3:::)?([^:/]+)$")


class InventoryFormat(StrEnum):
    """The formats of data files."""

    CSV = "csv"
    ORC = "orc"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class InventoryPart:
    """One data file, the unit of work of a task. Small and picklable.

    `size_bytes` and `md5` are its expected values. `source` is the bucket that an S3 inventory
    covers, and `columns` are the column names of a CSV without a header; both are None for a plain
    file, and so is `format`, which is then detected from the first bytes.
    """

    path: str
    size_bytes: int
    md5: str | None = None
    format: InventoryFormat | None = None
    columns: tuple[str, ...] | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """An inventory: when its creation started, and its data files."""

    path: str
    taken_at: datetime
    parts: tuple[InventoryPart, ...]

    def age(self, now: datetime) -> timedelta:
        """Its age; UsageError if it is in the future, since then no file could count as old."""
        if self.taken_at > now:
            raise UsageError(
                f"{self.path}: this inventory was made at {self.taken_at:%Y-%m-%dT%H:%M:%SZ}, "
                "which is in the future",
                hint="check the clock of this machine",
            )
        return now - self.taken_at


def open_inventory(
    stores: StoreOpener, path: str, *, taken_at: datetime | None = None
) -> Inventory:
    """Read a manifest, or open a plain file.

    `taken_at` is when the rows of a plain file were current, by default its modification time. A
    manifest contains its time.
    """
    return (
        _open_manifest(stores, path)
        if path.endswith(".json")
        else _open_plain(stores, path, taken_at)
    )


class _File(msgspec.Struct, frozen=True):
    key: str
    size: int
    md5: str | None = msgspec.field(name="MD5checksum", default=None)


class _Manifest(msgspec.Struct, frozen=True, rename="camel"):
    source_bucket: str
    destination_bucket: str
    creation_timestamp: str | int
    file_format: str
    file_schema: str
    files: tuple[_File, ...]


def _open_manifest(stores: StoreOpener, path: str) -> Inventory:
    address = parse(path)
    store = stores.open(address)
    data = store.read(address.key)
    _check_sum(stores, path, data)
    try:
        manifest = json_decoder(_Manifest, strict=False).decode(data)
        taken_at = datetime.fromtimestamp(int(manifest.creation_timestamp) / 1000, UTC)
        form = InventoryFormat(manifest.file_format.lower())
    except (*JSON_ERRORS, ValueError, OverflowError) as error:
        raise DamagedError(path, f"is not an S3 inventory manifest: {error}") from error
    parts = (_part(path, manifest, form, file) for file in manifest.files)
    return Inventory(path, taken_at, tuple(parts))


def _check_sum(stores: StoreOpener, path: str, data: bytes) -> None:
    """Compare the MD5 that S3 writes beside the manifest; a copy may lack that file."""
    address = parse(path.removesuffix(".json") + ".checksum")
    try:
        expected = stores.open(address).read(address.key)
    except MissingError:
        return
    if expected.strip().lower() != hashlib.md5(data, usedforsecurity=False).hexdigest().encode():
        raise DamagedError(path, f"does not match the checksum in {address.path}")


def _part(path: str, manifest: _Manifest, form: InventoryFormat, file: _File) -> InventoryPart:
    columns = tuple(name.strip() for name in manifest.file_schema.split(","))
    return InventoryPart(
        path=_data_path(path, manifest.destination_bucket, file.key),
        size_bytes=file.size,
        md5=file.md5,
        format=form,
        columns=columns if form is InventoryFormat.CSV else None,
        source=manifest.source_bucket,
    )


def _data_path(path: str, destination: str, key: str) -> str:
    """The path of a data file: in the destination bucket, or beside a copied manifest."""
    address = parse(path)
    if address.kind is not StoreKind.S3:
        around = path.rpartition("/")[0].rpartition("/")[0]
        return f"{around}/data/{key.rpartition('/')[2]}"
    found = _ARN.match(destination)
    if found is None:
        raise DamagedError(path, f"{destination!r} is not a bucket")
    return address.base + key if found[1] == address.bucket else f"s3://{found[1]}/{key}"


def _open_plain(stores: StoreOpener, path: str, taken_at: datetime | None) -> Inventory:
    address = parse(path)
    info = stores.open(address).head(address.key)
    moment = taken_at or info.modified
    if moment is None:
        raise UsageError(f"{path}: the time of this inventory is unknown")
    return Inventory(path, moment, (InventoryPart(path, info.size_bytes),))
