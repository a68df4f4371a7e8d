"""Services that expire snapshots by themselves. Two of them on one table delete each other's work.

Known by what a catalog says of itself, and by the table's own properties. Nothing here is proof
that a service is absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from lakesweep.iceberg.document.fields import RawDocument


def expiring_service(catalog: Mapping[str, str], document: RawDocument) -> str | None:
    """Who expires the snapshots of a table, judged by the properties of its catalog."""
    location: str = document.get("location", str | None) or ""
    properties = document.properties()
    if any(name.startswith("nessie.") for name in (*catalog, *properties)):
        return "Nessie keeps the snapshots of its tables itself; expire them with nessie-gc"
    if _is_lakefs(catalog, location):
        return "lakeFS keeps the snapshots of its tables as commits; expire them with its own GC"
    if _is_s3_tables(catalog, location):
        return "Amazon S3 Tables expires snapshots itself; see its icebergSnapshotManagement"
    if properties.get("lakekeeper.history.expire.enabled", "").lower() == "true":
        return "Lakekeeper expires snapshots itself (lakekeeper.history.expire.enabled)"
    return None


def _is_lakefs(catalog: Mapping[str, str], location: str) -> bool:
    path = urlsplit(str(catalog.get("uri", ""))).path.rstrip("/")
    return path.endswith("/iceberg/api") or location.startswith("lakefs://")


def _is_s3_tables(catalog: Mapping[str, str], location: str) -> bool:
    host = urlsplit(str(catalog.get("uri", ""))).hostname or ""
    bucket = urlsplit(location).netloc
    return (
        host.startswith("s3tables.")
        or catalog.get("rest.signing-name") == "s3tables"
        or any("s3tablescatalog" in str(catalog.get(key, "")) for key in ("warehouse", "glue.id"))
        or bucket.endswith("--table-s3")
    )
