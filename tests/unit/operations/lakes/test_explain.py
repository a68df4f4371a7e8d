"""What operations say about a file, as JSON."""

from __future__ import annotations

import msgspec

from lakesweep.operations.lakes.explain import ExplainedObject, FileReference


def test_a_reference_names_the_root_and_its_kind() -> None:
    reference = FileReference("prod.orders", "iceberg-table", "data", "s3://a/b", ("s3://a/m",))
    assert reference.root_kind == "iceberg-table"
    assert msgspec.to_builtins(reference)["through"] == ("s3://a/m",)


def test_an_object_that_is_not_stored_has_no_verdict() -> None:
    missing = ExplainedObject(address="data/a", stored=False, evidence=())
    document = {"address": "data/a", "stored": False, "evidence": []}
    assert msgspec.json.decode(msgspec.json.encode(missing)) == document
