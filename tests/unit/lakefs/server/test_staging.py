from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from lakesweep.lakefs.addresses import StorageNamespace
from lakesweep.lakefs.columns import ENTRIES
from lakesweep.lakefs.repository.served import find_namespace
from lakesweep.lakefs.server.client import ObjectRecord
from lakesweep.lakefs.server.staging import staged_entries

#: A namespace, and what its server puts in front of the keys that entries have.
SPELLINGS = [
    (StorageNamespace("s3://lake/r"), "s3://lake/r/"),
    (find_namespace("local://r", "/srv/lakefs"), "local:///srv/lakefs/r/"),
    (find_namespace("local://r", "/srv/lakefs"), "local:///srv/lakefs/srv/lakefs/r/"),
    (
        StorageNamespace("https://acme.blob.core.windows.net/c/r"),
        "https://acme.blob.core.windows.net/c/r/",
    ),
]


def entry(path: str, address: str, kind: str, second: int) -> dict[str, object]:
    return {
        "path": path.encode(),
        "address": address,
        "address_type": kind,
        "size_bytes": 1,
        "checksum": "",
        "modified": datetime.fromtimestamp(second, UTC).replace(microsecond=700_000),
        "identity": b"",
    }


@pytest.mark.parametrize(("namespace", "told"), SPELLINGS)
def test_what_head_has_so_is_not_staged_however_servers_spell_it(
    namespace: StorageNamespace, told: str
) -> None:
    tree = [
        entry("a", "data/s/1", "relative", 100),
        entry("b", "data/s/2", "relative", 100),
        entry("c", "data/s/3", "relative", 100),
        entry("d", "s3://elsewhere/d", "full", 100),
    ]
    page = [
        ObjectRecord("a", f"{told}data/s/1", "", 100),
        ObjectRecord("b", f"{told}data/s/1", "", 100),  # another object
        ObjectRecord("c", f"{told}data/s/3", "", 101),  # the same one, put there anew
        ObjectRecord("d", "s3://elsewhere/d", "", 100),
    ]
    committed = [pa.RecordBatch.from_pylist(tree, schema=ENTRIES)]
    found = [
        row
        for batch in staged_entries("main", [page], committed, namespace)
        for row in batch.to_pylist()
    ]
    assert [row["path"] for row in found] == [b"b", b"c"]
    assert {row["branch"] for row in found} == {"main"}
