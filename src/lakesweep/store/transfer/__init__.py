"""Export realms to files and import them into any store, whatever the databases."""

from __future__ import annotations

from lakesweep.store.transfer.export_file import new_file
from lakesweep.store.transfer.format import ExportKind
from lakesweep.store.transfer.realm_export import Exported, content_hash, export_realm
from lakesweep.store.transfer.realm_import import Imported, import_realm

__all__ = [
    "ExportKind",
    "Exported",
    "Imported",
    "content_hash",
    "export_realm",
    "import_realm",
    "new_file",
]
