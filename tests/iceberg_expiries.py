"""Expiries of the engine's tables: an app over them, with a clock and copies of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from lakesweep.app import App
from lakesweep.clock import ManualClock
from lakesweep.config import Config
from lakesweep.operations.upkeep.expiry_result import (
    ExpireTablesRequest,
    IcebergExpiryPreview,
    IcebergExpiryResult,
)
from lakesweep.operations.upkeep.iceberg_expiry import expire_table
from lakesweep.storage.address import parse
from lakesweep.storage.listing.locations import list_files
from lakesweep.storage.object_store import ObjectStore
from lakesweep.storage.stores import Stores
from lakesweep.upkeep.proposal import ExpiryTerms
from lakesweep.upkeep.snapshot_retention import RetentionArguments
from tests.expiry_lake import ExpiryCase, archived

BUCKETS = ("attic", "attic-cold")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_names = count()


def filled_buckets() -> dict[str, ObjectStore]:
    """Both buckets in memory."""
    return {
        f"s3://{bucket}": fill(bucket, Stores().open(f"memory://expiries-{next(_names)}/"))
        for bucket in BUCKETS
    }


def fill(bucket: str, store: ObjectStore) -> ObjectStore:
    """Make a store hold exactly what the engine left in a bucket."""
    prefix = f"buckets/{bucket}/"
    wanted = {
        name.removeprefix(prefix): data
        for name, data in archived().items()
        if name.startswith(prefix)
    }
    stores = Stores(replace={f"s3://{bucket}": store})
    batches = list_files(stores, f"s3://{bucket}/")
    found = {parse(path).key for batch in batches for path in batch["path"].to_pylist()}
    extra = sorted(found - wanted.keys())
    for first in range(0, len(extra), 1000):
        list(store.delete(extra[first : first + 1000]))
    for key in wanted.keys() - found:
        store.write(key, wanted[key])
    return store


def agree(preview: IcebergExpiryPreview) -> None:
    """Agree to everything."""


@dataclass
class AtticApp:
    """An app over the engine's tables."""

    folder: Path
    now_ms: int
    buckets: dict[str, ObjectStore] = field(default_factory=filled_buckets)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "catalog.db").write_bytes(archived()["catalog.db"])
        self.clock = ManualClock(_EPOCH + timedelta(milliseconds=self.now_ms))
        self.app = self.open()

    def open(self) -> App:
        """Another process over the same tables."""
        uri = f"sqlite:///{self.folder / 'catalog.db'}"
        catalog = {"type": "sql", "uri": uri}
        roots: list[Any] = [{"type": "iceberg-catalog", "name": "attic", "properties": catalog}]
        roots.append({"type": "iceberg-metadata", "files": self.files_of("hdp.")})
        locations = [f"s3://{bucket}" for bucket in BUCKETS]
        config = Config.model_validate({"lakes": {"l": {"locations": locations, "roots": roots}}})
        app = App(config, folder=self.folder, clock=self.clock)
        app.__dict__["stores"] = Stores(replace=self.buckets, clock=self.clock)
        return app

    def files_of(self, prefix: str) -> list[str]:
        """The current metadata files of tables."""
        pointers = json.loads(archived()["expected/catalog.json"])
        return [path for name, path in pointers.items() if name.startswith(prefix)]

    def stored(self) -> set[str]:
        """Every stored file."""
        stores = Stores(replace=self.buckets)
        batches = [b for bucket in BUCKETS for b in list_files(stores, f"s3://{bucket}/")]
        return {path for batch in batches for path in batch["path"].to_pylist()}

    def expire(
        self,
        ref: str,
        arguments: RetentionArguments,
        *,
        confirm: Callable[[IcebergExpiryPreview], None] = agree,
        clean: bool = False,
        **others: Any,
    ) -> IcebergExpiryResult:
        request = ExpireTablesRequest(refs=(ref,), terms=ExpiryTerms(arguments, clean), **others)
        return expire_table(self.app, ref, request, confirm)


def ref_of(case: ExpiryCase) -> str:
    """How the command line names the table of a case."""
    return case.table if case.table.startswith("attic.") else case.metadata_before
