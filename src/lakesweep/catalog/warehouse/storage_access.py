"""How clients reach the files of a table: by configuration, signed requests, or vended keys.

The properties of a catalog say which: `storage-access` is `none`, `sign` or `sts`, with
`storage-role` for the latter. Properties that begin with `config.` are handed out to everybody,
without that beginning. Whatever is handed out is for the places of one table, and these are checked
again to be the catalog's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from lakesweep.catalog.catalog import Catalog
from lakesweep.catalog.warehouse.metadata_files import StoredMetadata, addresses_in
from lakesweep.catalog.warehouse.places import is_allowed
from lakesweep.catalog.warehouse.problems import bad_request
from lakesweep.storage.address import StoreKind, parse
from lakesweep.storage.s3.delegation import S3Scope, VendedKeys, assume_role, scope_of
from lakesweep.storage.stores import Stores

ACCESS, ROLE, CONFIG = "storage-access", "storage-role", "config."
_REGION = "us-east-1"
_KEPT_MS = 1800 * 1000


class StorageAccess(StrEnum):
    """What a catalog gives to its clients."""

    NONE = "none"
    SIGN = "sign"
    STS = "sts"


@dataclass(frozen=True, slots=True)
class TableAccess:
    """What one client gets for one table. `credentials` have a place of their own in answers."""

    config: Mapping[str, str] = field(default_factory=dict)
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    prefix: str = ""


def access_of(catalog: Catalog) -> StorageAccess:
    """What a catalog gives. WarehouseError if its property says something unknown."""
    given = catalog.definition.properties.get(ACCESS, StorageAccess.NONE)
    try:
        return StorageAccess(given)
    except ValueError:
        ways = ", ".join(StorageAccess)
        raise bad_request(f"catalog {catalog.name}: {ACCESS} is one of {ways}") from None


def handed_out(catalog: Catalog) -> dict[str, str]:
    """The configuration that every client of a catalog gets."""
    properties = catalog.definition.properties
    return {
        name.removeprefix(CONFIG): value
        for name, value in properties.items()
        if name.startswith(CONFIG)
    }


def s3_scope(
    catalog: Catalog, stores: Stores, file: StoredMetadata, *, may_write: bool
) -> S3Scope | None:
    """Where a table has its files, if that is one bucket of S3, and all of it is the catalog's."""
    places = [*addresses_in(file.document).values(), file.location.rpartition("/")[0]]
    if not all(is_allowed(catalog, place) for place in places):
        return None
    addresses = [parse(f"{place.rstrip('/')}/") for place in places]
    if any(address.kind is not StoreKind.S3 for address in addresses):
        return None
    return scope_of(addresses, stores.options(addresses[0]), may_write=may_write)


def table_access(
    catalog: Catalog,
    stores: Stores,
    file: StoredMetadata,
    signer: str,
    *,
    may_write: bool,
    now_ms: int,
) -> TableAccess:
    """What a client gets that may read a table, or write it; `signer` is where it is signed for."""
    config = handed_out(catalog)
    way = access_of(catalog)
    scope = None
    if way is not StorageAccess.NONE:
        scope = s3_scope(catalog, stores, file, may_write=may_write)
    if scope is None:
        return TableAccess(config)
    config = {**_reach(scope), **config}
    if way is StorageAccess.SIGN:
        return TableAccess({**config, **_signing(signer)})
    role = catalog.definition.properties.get(ROLE, "")
    keys = _vended(role, scope, f"lakesweep-{catalog.id}", now_ms // _KEPT_MS)
    credentials = {
        "s3.access-key-id": keys.access_key_id,
        "s3.secret-access-key": keys.secret_access_key,
        "s3.session-token": keys.session_token,
        "s3.session-token-expires-at-ms": str(keys.expires_at_ms),
        **_reach(scope),
    }
    # Clients that know no list of credentials look for them in the configuration.
    return TableAccess({**config, **credentials}, credentials, f"s3://{scope.bucket}/")


@lru_cache(maxsize=1_000)
def _vended(role: str, scope: S3Scope, name: str, _moment: int) -> VendedKeys:
    """Keys for a table, which all who may do the same share for half of their life."""
    return assume_role(role, scope, name)


def _reach(scope: S3Scope) -> dict[str, str]:
    """Where the bucket is; clients want a region even where there are none."""
    region = scope.options.region or _REGION
    found = {"client.region": region, "s3.region": region}
    if scope.options.endpoint:
        found["s3.endpoint"] = scope.options.endpoint
        found["s3.path-style-access"] = "true"
    return found


def _signing(signer: str) -> dict[str, str]:
    return {
        "s3.remote-signing-enabled": "true",
        "s3.signer": "S3V4RestSigner",
        "s3.signer.endpoint": signer,
        "signer.endpoint": signer,
    }
