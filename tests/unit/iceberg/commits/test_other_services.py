from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lakesweep.iceberg.commits.other_services import expiring_service
from lakesweep.iceberg.document.fields import RawDocument


def _document(location: str = "s3://lake/t", **properties: str) -> RawDocument:
    content: dict[str, Any] = {"location": location, "properties": properties}
    return RawDocument.parse("t", msgspec.json.encode(content))


@pytest.mark.parametrize(
    ("catalog", "document", "who"),
    [
        ({"nessie.is-nessie-catalog": "true"}, _document(), "Nessie"),
        ({}, _document(**{"nessie.commit.id": "abc"}), "Nessie"),
        ({"uri": "https://lakefs.example.com/iceberg/api"}, _document(), "lakeFS"),
        ({}, _document("lakefs://repo/main/t"), "lakeFS"),
        ({"uri": "https://s3tables.eu-west-1.amazonaws.com/iceberg"}, _document(), "S3 Tables"),
        ({"rest.signing-name": "s3tables"}, _document(), "S3 Tables"),
        ({"warehouse": "123456789012:s3tablescatalog/bucket"}, _document(), "S3 Tables"),
        ({}, _document("s3://63a8e430-6e0b--table-s3"), "S3 Tables"),
        ({}, _document(**{"lakekeeper.history.expire.enabled": "TRUE"}), "Lakekeeper"),
    ],
)
def test_who_else_expires(catalog: dict[str, str], document: RawDocument, who: str) -> None:
    assert who in (expiring_service(catalog, document) or "")


@pytest.mark.parametrize(
    ("catalog", "document"),
    [
        ({"uri": "https://polaris.example.com/api/catalog", "warehouse": "w"}, _document()),
        ({"uri": "https://example.com/s3tables/x"}, _document("s3://table-s3/t")),
        ({}, _document(**{"lakekeeper.history.expire.enabled": "false"})),
    ],
)
def test_nobody_else_expires(catalog: dict[str, str], document: RawDocument) -> None:
    assert expiring_service(catalog, document) is None
