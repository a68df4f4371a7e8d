"""What an expiry asks of a catalog: the documents that Iceberg wrote itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lakesweep.iceberg.commits.table_handle import LoadedTable
from lakesweep.iceberg.document.fields import RawDocument, plain
from lakesweep.iceberg.document.table_edit import apply_table_updates
from lakesweep.storage.stores import Stores
from lakesweep.upkeep.proposal import ExpiryTerms, propose
from tests.expiry_lake import ExpiryCase, ExpiryLake, expiry_cases, object_at
from tests.unit.upkeep.test_file_index import fresh_buckets
from tests.unit.upkeep.test_snapshot_retention import CLOCK_RAN_BACK, answered, arguments_of


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores(replace=fresh_buckets(ExpiryLake(tmp_path_factory.mktemp("nothing"))))


def committed(case: ExpiryCase) -> bool:
    return answered(case) and case.name != CLOCK_RAN_BACK


@pytest.mark.parametrize("case", [*filter(committed, expiry_cases())], ids=str)
def test_the_document_afterwards_has_what_the_rule_says(case: ExpiryCase, stores: Stores) -> None:
    path = case.metadata_before
    base = LoadedTable(case.table, path, RawDocument.parse(path, object_at(path)), stores)
    terms = ExpiryTerms(
        arguments_of(case), bool(case.answer["arguments"]["clean_expired_metadata"])
    )
    proposal = propose(base, terms, case.now_ms)
    document = apply_table_updates(
        base.document, proposal.change.updates, now_ms=case.now_ms, location=path
    )
    assert proposal.is_empty == (case.answer["outcome"] == "nothing")
    after = {name: plain(raw) for name, raw in document.fields.items()}
    answer = {**case.answer, **case.answer["rule"]}
    assert _ids(after, "snapshots", "snapshot-id") == answer["snapshots_retained"]
    assert document.refs().keys() == answer["refs_after"].keys()
    for kind in ("statistics", "partition_statistics") if "statistics_after" in answer else ():
        left = [each["statistics-path"] for each in after.get(kind.replace("_", "-"), ())]
        assert left == [each["statistics-path"] for each in answer[f"{kind}_after"]]
    if terms.clean_metadata:
        assert set(_ids(after, "schemas", "schema-id")) == set(answer["schemas_needed"])
        specs = set(_ids(after, "partition-specs", "spec-id"))
        assert specs == set(answer["partition_specs_needed"])
    elif "schemas_before" in answer:
        assert _ids(after, "schemas", "schema-id") == answer["schemas_before"]


def _ids(document: Mapping[str, Any], name: str, field: str) -> list[int]:
    return [each[field] for each in document.get(name, ())]
