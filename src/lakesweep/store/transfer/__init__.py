"""Realms in files: exported from one store, imported into another, whatever their databases."""

from __future__ import annotations

from lakesweep.store.transfer.content import content_hash
from lakesweep.store.transfer.exports import Exported, export_realm
from lakesweep.store.transfer.files import new_file
from lakesweep.store.transfer.imports import Imported, import_realm
from lakesweep.store.transfer.lines import Kind

__all__ = [
    "Exported",
    "Imported",
    "Kind",
    "content_hash",
    "export_realm",
    "import_realm",
    "new_file",
]
