"""Prints what pypaimon reads of tables: the rows of each snapshot and each tag.

Runs in an environment of its own: `pypaimon_rows.py WAREHOUSE DATABASE.TABLE…`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pypaimon import CatalogFactory


def rows(table: Any, options: dict[str, str]) -> list[dict[str, str]]:
    builder = table.copy(options).new_read_builder()
    found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return [{name: str(value) for name, value in row.items()} for row in found.to_pylist()]


def owners(table: Any) -> dict[str, list[dict[str, str]]]:
    snapshots = {
        f"snapshot-{each.id}": rows(table, {"scan.snapshot-id": str(each.id)})
        for each in table.snapshot_manager().list_snapshots()
    }
    # It takes what a commit left half done for a tag.
    tags = [name for name in table.tag_manager().list_tags() if not name.endswith(".tmp")]
    return snapshots | {f"tag-{name}": rows(table, {"scan.tag-name": name}) for name in tags}


catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
found = {name: owners(catalog.get_table(name)) for name in sys.argv[2:]}
sys.stdout.write(json.dumps(found))
