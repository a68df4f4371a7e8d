"""Open any Iceberg catalog that PyIceberg knows: names in, metadata files out.

PyIceberg is a client here, never the metadata model: its model rejects valid tables (inline
manifests of old v1 tables, drafts of v4). Where a catalog can return only the location of the
metadata file, that is what it is asked for. The properties of a catalog become storage options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import urlsplit

from lakesweep.errors import ConfigError, IncompleteError, LakesweepError
from lakesweep.iceberg.generic_catalog import CatalogEntry, ForeignTable, Name, UnresolvedTable
from lakesweep.storage.options import StorageOptions
from lakesweep.storage.wrappers.run_load import Pace, no_pace

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog as PyIcebergCatalog

__all__ = [
    "IcebergCatalog",
    "known_catalogs",
    "open_catalog",
]


class IcebergCatalog(Protocol):
    """One catalog. Errors of the client become LakesweepErrors."""

    def find(self, name: Name) -> CatalogEntry:
        """The table or view of this name, or NotFoundError."""
        ...

    def look(self, name: Name) -> CatalogEntry | None:
        """The table or view of this name; None only if the catalog does not list it."""
        ...

    def survey(self) -> Iterator[CatalogEntry | UnresolvedTable | ForeignTable]:
        """Every table and view of every namespace; names that cannot be resolved are reported."""
        ...

    def entries(self) -> Iterator[CatalogEntry]:
        """Every table and view of every namespace; the first unresolved name is an error."""
        ...

    def drop(self, entry: CatalogEntry) -> None:
        """Drop the name; the files stay."""
        ...

    def beside(self) -> Sequence[str]:
        """The names of other catalogs in the same place, as far as this one knows."""
        ...


def open_catalog(name: str, properties: Mapping[str, str], pace: Pace = no_pace) -> IcebergCatalog:
    """Connect to a catalog; without properties, PyIceberg's own configuration is used.

    `pace` is called before each request, and may wait.
    """
    try:
        pace()
        catalog = _load(name, properties)
    except LakesweepError:
        raise
    except Exception as error:
        raise _unusable(name, error) from error
    # By name, because importing a class that is not used takes longer than most commands.
    kinds = [kind.__name__ for kind in type(catalog).__mro__]
    make = next((_KINDS[kind] for kind in kinds if kind in _KINDS), _any)
    return make(name, catalog, pace)


def known_catalogs() -> dict[str, Mapping[str, str]]:
    """The catalogs that PyIceberg's own configuration names, with their properties."""
    from pyiceberg.utils.config import Config

    config = Config()
    names = config.get_known_catalogs()
    return {name: cast("dict[str, str]", config.get_catalog_config(name) or {}) for name in names}


def _load(name: str, properties: Mapping[str, str]) -> PyIcebergCatalog:
    from pyiceberg.catalog import load_catalog

    # Reading a lake must never create tables in a database.
    quiet = {"init_catalog_tables": "false", **properties}
    if {**known_catalogs().get(name, {}), **properties}.get("type") == "dynamodb":
        from lakesweep.iceberg.dynamodb_catalog import ExistingDynamoDbCatalog

        return ExistingDynamoDbCatalog(name, **{**known_catalogs().get(name, {}), **quiet})
    return load_catalog(name, **quiet)


def _any(name: str, catalog: Any, pace: Pace) -> IcebergCatalog:
    from lakesweep.iceberg.generic_catalog import GenericCatalogAdapter

    return GenericCatalogAdapter(name, catalog, pace)


def _rest(name: str, catalog: Any, pace: Pace) -> IcebergCatalog:
    from lakesweep.iceberg.rest_catalog import RestCatalogAdapter, bound_requests

    # One call may take several pages, so each request of the session waits by itself.
    return RestCatalogAdapter(name, bound_requests(catalog, pace))


def _sql(name: str, catalog: Any, pace: Pace) -> IcebergCatalog:
    from lakesweep.iceberg.sql_catalog import SqlCatalogAdapter

    return SqlCatalogAdapter(name, catalog, pace)


def _glue(name: str, catalog: Any, pace: Pace) -> IcebergCatalog:
    from lakesweep.iceberg.metastores import GlueCatalogAdapter

    catalog.glue.meta.events.register("before-send", lambda **_: pace())
    return GlueCatalogAdapter(name, catalog)


def _hive(name: str, catalog: Any, pace: Pace) -> IcebergCatalog:
    from lakesweep.iceberg.metastores import HiveCatalogAdapter, bound_waiting

    return HiveCatalogAdapter(name, bound_waiting(catalog), pace)


def _dynamodb(name: str, catalog: Any, pace: Pace) -> IcebergCatalog:
    from lakesweep.iceberg.dynamodb_catalog import DynamoDbCatalogAdapter

    catalog.dynamodb.meta.events.register("before-send", lambda **_: pace())
    return DynamoDbCatalogAdapter(name, catalog)


#: The adapter for each type of PyIceberg's catalogs.
_KINDS: Mapping[str, Callable[[str, Any, Pace], IcebergCatalog]] = {
    "RestCatalog": _rest,
    "SqlCatalog": _sql,
    "GlueCatalog": _glue,
    "HiveCatalog": _hive,
    "DynamoDbCatalog": _dynamodb,
}


def _unusable(name: str, error: Exception) -> LakesweepError:
    request = getattr(error, "request", None)
    if isinstance(error, OSError) and request is not None:
        # The settings are complete, or nothing would have been sent.
        server = urlsplit(request.url).netloc.rpartition("@")[2]
        lost = "Failed to resolve" in str(error)
        how = "cannot be resolved" if lost else f"does not answer: {_innermost(error)}"
        return IncompleteError(
            f"catalog {name} cannot be opened: {server} {how}",
            hint="check the uri of the catalog, and that its server is running and reachable",
        )
    return ConfigError(
        f"catalog {name} cannot be opened: {error}",
        hint="name it in an iceberg-catalog root of lakesweep.toml, or in PyIceberg's own file",
    )


def _innermost(error: BaseException) -> BaseException:
    """What an error goes back to: clients wrap it several times."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def storage_options(properties: Mapping[str, str]) -> StorageOptions | None:
    """The storage options in the properties of a catalog or table; None if there are none."""

    def first(*names: str) -> str | None:
        return next((properties[name] for name in names if properties.get(name)), None)

    def is_set(name: str) -> bool:
        return properties.get(name, "").lower() == "true"

    options = StorageOptions(
        endpoint=first("s3.endpoint"),
        region=first("s3.region", "client.region"),
        profile=first("s3.profile-name", "client.profile-name"),
        access_key_id=first("s3.access-key-id", "client.access-key-id"),
        secret_access_key=first("s3.secret-access-key", "client.secret-access-key"),
        session_token=first("s3.session-token", "client.session-token"),
        anonymous=is_set("s3.anonymous"),
        addressing="virtual" if is_set("s3.force-virtual-addressing") else None,
        account_key=first("adls.account-key"),
        sas_token=first("adls.sas-token"),
    )
    return None if options == StorageOptions() else options
