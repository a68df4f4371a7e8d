"""Iceberg catalogs of every kind that PyIceberg knows: names in, metadata files out.

PyIceberg is a client here, never a model of the metadata: its model rejects tables that are fine
(inline manifests of old v1 tables, drafts of v4). So where a catalog can be asked for the place of
the metadata file alone, it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from lakesweep.errors import ConfigError, LakesweepError
from lakesweep.iceberg.entries import Entry, Name, OtherTable, Unknown

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog as PyIcebergCatalog

__all__ = [
    "Entry",
    "IcebergCatalog",
    "Name",
    "OtherTable",
    "Unknown",
    "known_catalogs",
    "open_catalog",
]


class IcebergCatalog(Protocol):
    """One catalog. Errors of the client become LakesweepErrors."""

    def find(self, name: Name) -> Entry:
        """The table or view of this name, or NotFoundError."""
        ...

    def look(self, name: Name) -> Entry | None:
        """The table or view of this name; None only if the catalog does not list it."""
        ...

    def survey(self) -> Iterator[Entry | Unknown | OtherTable]:
        """Every table and view of every namespace; names that cannot be looked up are told."""
        ...

    def entries(self) -> Iterator[Entry]:
        """Every table and view of every namespace; the first that is unknown is an error."""
        ...

    def drop(self, entry: Entry) -> None:
        """Forget the name; the files stay."""
        ...

    def beside(self) -> Sequence[str]:
        """The names of other catalogs at the same place, as far as this one would know."""
        ...


def open_catalog(name: str, properties: Mapping[str, str]) -> IcebergCatalog:
    """Connect to a catalog; without properties PyIceberg's own configuration is asked."""
    try:
        catalog = _load(name, properties)
    except LakesweepError:
        raise
    except Exception as error:
        raise _unusable(name, error) from error
    # By name, because importing a class that is not used takes longer than most commands.
    kinds = [kind.__name__ for kind in type(catalog).__mro__]
    make = next((_KINDS[kind] for kind in kinds if kind in _KINDS), _any)
    return make(name, catalog)


def known_catalogs() -> dict[str, Mapping[str, str]]:
    """The catalogs that PyIceberg's own configuration names, with their properties."""
    from pyiceberg.utils.config import Config

    config = Config()
    names = config.get_known_catalogs()
    return {name: cast("dict[str, str]", config.get_catalog_config(name) or {}) for name in names}


def _load(name: str, properties: Mapping[str, str]) -> PyIcebergCatalog:
    from pyiceberg.catalog import load_catalog

    # Looking at a lake never creates tables in somebody's database.
    quiet = {"init_catalog_tables": "false", **properties}
    if {**known_catalogs().get(name, {}), **properties}.get("type") == "dynamodb":
        from lakesweep.iceberg.existing_dynamodb import ExistingDynamoDbCatalog

        return ExistingDynamoDbCatalog(name, **{**known_catalogs().get(name, {}), **quiet})
    return load_catalog(name, **quiet)


def _any(name: str, catalog: Any) -> IcebergCatalog:
    from lakesweep.iceberg.any_catalog import AnyCatalog

    return AnyCatalog(name, catalog)


def _rest(name: str, catalog: Any) -> IcebergCatalog:
    from lakesweep.iceberg.rest_catalog import AnyRestCatalog, persevere

    return AnyRestCatalog(name, persevere(catalog))


def _sql(name: str, catalog: Any) -> IcebergCatalog:
    from lakesweep.iceberg.sql_catalog import AnySqlCatalog

    return AnySqlCatalog(name, catalog)


def _glue(name: str, catalog: Any) -> IcebergCatalog:
    from lakesweep.iceberg.metastores import GlueTables

    return GlueTables(name, catalog)


def _hive(name: str, catalog: Any) -> IcebergCatalog:
    from lakesweep.iceberg.metastores import HiveTables

    return HiveTables(name, catalog)


def _dynamodb(name: str, catalog: Any) -> IcebergCatalog:
    from lakesweep.iceberg.metastores import DynamoTables

    return DynamoTables(name, catalog)


#: How each of PyIceberg's catalogs is asked.
_KINDS: Mapping[str, Callable[[str, Any], IcebergCatalog]] = {
    "RestCatalog": _rest,
    "SqlCatalog": _sql,
    "GlueCatalog": _glue,
    "HiveCatalog": _hive,
    "DynamoDbCatalog": _dynamodb,
}


def _unusable(name: str, error: Exception) -> LakesweepError:
    return ConfigError(
        f"catalog {name} cannot be opened: {error}",
        hint="name it in an iceberg-catalog root of lakesweep.toml, or in PyIceberg's own file",
    )
