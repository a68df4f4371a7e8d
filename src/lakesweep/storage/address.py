"""Addresses, parsed once into store, bucket and exact key.

Three things are kept apart. The *path* is the address as the user wrote it. The *key* is sent
to the store byte for byte. The *identity* is used to compare addresses: it unifies the
spellings of one store (`s3`, `s3a`, `s3n`) and leaves the key alone, so `a//b`, `a/b` and
`a%2Fb` stay three objects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import UsageError

# The spellings of one store, as (pattern, replacement). The same text runs in Python's engine for
# single addresses and in Arrow's (RE2) for columns, so it uses only what both know.
_SPELLINGS: tuple[tuple[str, str], ...] = (
    (r"^(?i:s3a|s3n|s3)://", r"s3://"),
    (r"^(?i:gcs|gs)://", r"gs://"),
    (r"^(?i:file):(?://(?i:localhost)?)?/", r"/"),
    (
        r"^(?i:abfss|abfs|wasbs|wasb)://([^@/]+)@([^/@]+?)\.(?:dfs|blob)\.([^/]+)/",
        r"abfss://\1@\2.dfs.\3/",
    ),
    # All clouds of Azure, accounts in DNS zones (`account.z1.blob.storage.azure.net`), and OneLake.
    (
        r"^(?i:https?)://([^/@]+?)\.(?:dfs|blob)\.((?:core|storage|fabric)\.[^/]+)/([^/]+)/",
        r"abfss://\3@\1.dfs.\2/",
    ),
)
_COMPILED = tuple((re.compile(pattern), replacement) for pattern, replacement in _SPELLINGS)

#: Paths that start like this already are their own identity. Most paths in table metadata do.
_CANONICAL = ("s3://", "/", "gs://")

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):")
# Only characters allowed in bucket names: any other could change the meaning of a request's path.
_BUCKET = re.compile(r"^(?i:s3a|s3n|s3|gcs|gs|memory)://([A-Za-z0-9][A-Za-z0-9._-]*)(/|$)")
_AZURE = re.compile(r"^abfss://([^@/]+)@([^/]+)/")


class StoreKind(StrEnum):
    """The families of stores."""

    S3 = "s3"
    GCS = "gcs"
    AZURE = "azure"
    FILE = "file"
    MEMORY = "memory"


_KINDS = {
    "s3": StoreKind.S3,
    "s3a": StoreKind.S3,
    "s3n": StoreKind.S3,
    "gs": StoreKind.GCS,
    "gcs": StoreKind.GCS,
    "memory": StoreKind.MEMORY,
}


@dataclass(frozen=True, slots=True)
class Address:
    """An object or folder in a store: `base` (as written, through the last `/`) and exact `key`.

    `bucket` is the bucket, `container@host` on Azure, and empty for the local file system.
    """

    kind: StoreKind
    bucket: str
    key: str
    base: str

    @property
    def path(self) -> str:
        """The address as it was written."""
        return self.base + self.key

    @property
    def identity(self) -> str:
        """The form in which addresses are compared."""
        return identity(self.path)

    @property
    def store_id(self) -> str:
        """The lookup key of the store, equal for all spellings of it."""
        match self.kind:
            case StoreKind.FILE:
                return "/"
            case StoreKind.AZURE:
                return f"abfss://{self.bucket}/"
            case StoreKind.GCS:
                return f"gs://{self.bucket}/"
            case _:
                return f"{self.kind}://{self.bucket}/"

    @property
    def folder(self) -> str:
        """The key prefix of everything below this address; empty for a whole bucket."""
        return self.key if self.key == "" or self.key.endswith("/") else self.key + "/"

    def child(self, key: str) -> Address:
        """Another key in the same store, in the same spelling."""
        return Address(self.kind, self.bucket, key, self.base)


def parse(path: str) -> Address:
    """Split an address; UsageError if it names no known kind of store."""
    if path.startswith("/"):
        return Address(StoreKind.FILE, "", path[1:], "/")
    scheme = _SCHEME.match(path)
    if scheme is None:
        raise UsageError(f"{path!r} is not an address", hint="write s3://bucket/folder or /folder")
    name = scheme[1].lower()
    if name == "file":
        return _parse_file(path)
    if name in _KINDS:
        return _parse_bucket(path, _KINDS[name])
    return _parse_azure(path)


def identity(path: str) -> str:
    """The canonical spelling of the store, followed by the untouched key."""
    for pattern, replacement in _COMPILED:
        result, count = pattern.subn(replacement, path, count=1)
        if count:
            return result
    return path


def identities(paths: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """`identity` over a column."""
    if _are_canonical(paths):
        return paths
    for pattern, replacement in _SPELLINGS:
        paths = pc.replace_substring_regex(
            paths, pattern=pattern, replacement=replacement, max_replacements=1
        )
    return paths


def _are_canonical(paths: pa.Array | pa.ChunkedArray) -> bool:
    """Whether every path is its own identity; quick if all share one prefix."""
    # Usually all paths of a column start alike, so stop at the first prefix that fits all of them.
    canonical = pc.starts_with(paths, _CANONICAL[0])
    for start in _CANONICAL[1:]:
        if pc.all(canonical, min_count=0).as_py():
            return True
        canonical = pc.or_(canonical, pc.starts_with(paths, start))
    return bool(pc.all(canonical, min_count=0).as_py())


def folder_identity(path: str) -> str:
    """The identity of everything below an address: always ends in `/`."""
    return identity(path if path.endswith("/") else path + "/")


def _parse_bucket(path: str, kind: StoreKind) -> Address:
    found = _BUCKET.match(path)
    if found is None:
        raise UsageError(f"{path!r} does not name a bucket", hint="write scheme://bucket/key")
    base = path[: found.end()] if found[2] else path + "/"
    return Address(kind, found[1], path[found.end() :], base)


def _parse_file(path: str) -> Address:
    key = identity(path)
    if not key.startswith("/") or re.match(r"(?i)^file://(?!localhost/|/)", path):
        raise UsageError(f"{path!r} names a host", hint="write file:///folder or /folder")
    return Address(StoreKind.FILE, "", key[1:], path[: len(path) - len(key) + 1])


def _parse_azure(path: str) -> Address:
    for written in (path, path + "/"):
        known = identity(written)
        found = _AZURE.match(known)
        if found is not None:
            key = known[found.end() :]
            base = written[: len(written) - len(key)]
            return Address(StoreKind.AZURE, f"{found[1]}@{found[2]}", key, base)
    raise UsageError(
        f"{path!r} is not a kind of store that Lakesweep supports",
        hint="use s3://, gs://, abfss://container@account.dfs.core.windows.net/, file:// or /",
    )
