"""Iceberg catalogs of every kind that PyIceberg knows: names in, metadata files out.

PyIceberg is a client here, never a model of the metadata: its model rejects tables that are fine
(inline manifests of old v1 tables, drafts of v4). So where a catalog can be asked for the place of
the metadata file alone, it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from lakesweep.errors import ConfigError, IncompleteError, LakesweepError, NotFoundError, UsageError
from lakesweep.iceberg.metadata import write_paths_of
from lakesweep.parallel import map_ordered

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog as PyIcebergCatalog
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.catalog.sql import SqlCatalog

Name = tuple[str, ...]
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Entry:
    """What a catalog says of one table or view.

    `access` holds the properties by which the catalog lets its client reach the files, such as
    vended credentials; `folders` are where it says that the files are.
    """

    catalog: str
    name: Name
    is_view: bool
    metadata_path: str
    access: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    folders: tuple[str, ...] = field(default=(), compare=False)

    @property
    def full_name(self) -> str:
        """The name as the command line takes it."""
        return _full_name(self.catalog, self.name)


@dataclass(frozen=True, slots=True)
class Unknown:
    """A name that a catalog lists, and of which it does not say where the metadata is."""

    full_name: str
    name: Name
    error: LakesweepError


class IcebergCatalog(Protocol):
    """One catalog. Errors of the client become LakesweepErrors."""

    def find(self, name: Name) -> Entry:
        """The table or view of this name, or NotFoundError."""
        ...

    def look(self, name: Name) -> Entry | None:
        """The table or view of this name; None only if the catalog does not list it."""
        ...

    def survey(self) -> Iterator[Entry | Unknown]:
        """Every table and view of every namespace; names that cannot be looked up are told."""
        ...

    def entries(self) -> Iterator[Entry]:
        """Every table and view of every namespace; the first that is unknown is an error."""
        ...

    def drop(self, entry: Entry) -> None:
        """Forget the name; the files stay."""
        ...


def open_catalog(name: str, properties: Mapping[str, str]) -> IcebergCatalog:
    """Connect to a catalog; without properties PyIceberg's own configuration is asked."""
    from pyiceberg.catalog import load_catalog

    # Looking at a lake never creates tables in somebody's database.
    quiet = {"init_catalog_tables": "false"}
    try:
        catalog = load_catalog(name, **{**quiet, **properties})
    except Exception as error:
        raise _unusable(name, error) from error
    # By name, because importing a class that is not used takes longer than most commands.
    kinds = {kind.__name__ for kind in type(catalog).__mro__}
    if "RestCatalog" in kinds:
        return _Rest(name, cast("RestCatalog", catalog))
    if "SqlCatalog" in kinds:
        return _Sql(name, cast("SqlCatalog", catalog))
    return _Any(name, catalog)


def known_catalogs() -> dict[str, Mapping[str, str]]:
    """The catalogs that PyIceberg's own configuration names, with their properties."""
    from pyiceberg.utils.config import Config

    config = Config()
    names = config.get_known_catalogs()
    return {name: cast("dict[str, str]", config.get_catalog_config(name) or {}) for name in names}


@dataclass(frozen=True)
class _Any:
    """A catalog that can only be asked for whole tables: Hive, Glue, DynamoDB, BigQuery."""

    name: str
    catalog: PyIcebergCatalog

    def find(self, name: Name) -> Entry:
        try:
            table = self.catalog.load_table(name)
        except Exception as error:
            raise _failed(self.name, name, error) from error
        folders = (table.location(), *write_paths_of(table.properties))
        access = dict(table.io.properties)
        return Entry(self.name, name, False, table.metadata_location, access, folders)

    def look(self, name: Name) -> Entry | None:
        try:
            return self.find(name)
        except NotFoundError:
            # Some catalogs say this too of a table whose metadata file is missing.
            if self._is_listed(name):
                raise
            return None

    def survey(self) -> Iterator[Entry | Unknown]:
        names = (name for namespace in self._namespaces(()) for name in self._names(namespace))
        found = map_ordered(self._survey_one, names, workers=self._requests_at_once)
        return (entry for entry in found if entry is not None)

    def entries(self) -> Iterator[Entry]:
        for found in self.survey():
            if isinstance(found, Unknown):
                raise found.error
            yield found

    @property
    def _requests_at_once(self) -> int:
        return 1  # not every client may be used by several threads

    def _survey_one(self, name: Name) -> Entry | Unknown | None:
        try:
            return self.look(name)
        except LakesweepError as error:
            return Unknown(_full_name(self.name, name), name, error)

    def _names(self, namespace: Name) -> list[Name]:
        try:
            return [tuple(name) for name in self.catalog.list_tables(namespace)]
        except Exception as error:
            raise _failed(self.name, namespace, error) from error

    def _is_listed(self, name: Name) -> bool:
        try:
            return name in self._names(name[:-1])
        except NotFoundError:
            return False  # the namespace is gone, with all that it held

    def drop(self, entry: Entry) -> None:
        try:
            drop = self.catalog.drop_view if entry.is_view else self.catalog.drop_table
            drop(entry.name)
        except Exception as error:
            raise _failed(self.name, entry.name, error) from error

    def _namespaces(self, parent: Name) -> Iterator[Name]:
        try:
            found = [tuple(namespace) for namespace in self.catalog.list_namespaces(parent)]
        except Exception as error:
            raise _failed(self.name, parent, error) from error
        for namespace in found:
            yield namespace
            if len(namespace) > len(parent):
                yield from self._namespaces(namespace)


@dataclass(frozen=True)
class _Rest(_Any):
    """A REST catalog: its answer names the metadata file, whatever the metadata holds."""

    catalog: RestCatalog

    def find(self, name: Name) -> Entry:
        for is_view in (False, True):
            answer = self._load(name, is_view)
            if answer is not None:
                return self._entry(name, is_view, answer)
        raise _missing(self.name, name)

    @property
    def _requests_at_once(self) -> int:
        return 8

    def _names(self, namespace: Name) -> list[Name]:
        return [*super()._names(namespace), *self._views(namespace)]

    def _views(self, namespace: Name) -> list[Name]:
        try:
            return [tuple(view) for view in self.catalog.list_views(namespace)]
        except Exception as error:
            raise _failed(self.name, namespace, error) from error

    def _load(self, name: Name, is_view: bool) -> dict[str, Any] | None:
        from pyiceberg.catalog.rest import Endpoints, IdentifierKind

        endpoint = Endpoints.load_view if is_view else Endpoints.load_table
        kind = IdentifierKind.VIEW if is_view else IdentifierKind.TABLE
        try:
            # The public calls decode the whole metadata, which fails for tables that are fine.
            place = self.catalog._split_identifier_for_path(name, kind)  # noqa: SLF001
            url = self.catalog.url(endpoint, prefixed=True, **place)
            answer = self.catalog._session.get(url)  # noqa: SLF001
            if answer.status_code == _NOT_FOUND:
                return None
            answer.raise_for_status()
            return dict(answer.json())
        except Exception as error:
            raise _failed(self.name, name, error) from error

    def _entry(self, name: Name, is_view: bool, answer: dict[str, Any]) -> Entry:
        path = answer.get("metadata-location")
        if not path:
            raise IncompleteError(f"catalog {self.name} names no metadata file for {_dotted(name)}")
        access = {**self.catalog.properties, **answer.get("config", {})}
        for credential in answer.get("storage-credentials") or ():
            if str(path).startswith(credential.get("prefix", "")):
                access.update(credential.get("config", {}))
        return Entry(self.name, name, is_view, str(path), access, _folders(answer))


@dataclass(frozen=True)
class _Sql(_Any):
    """A SQL catalog: one table of its database holds every name and metadata file."""

    catalog: SqlCatalog

    def find(self, name: Name) -> Entry:
        for row in self._rows(name):
            return self._entry(row)
        raise _missing(self.name, name)

    def _is_listed(self, name: Name) -> bool:
        return bool(self._rows(name))

    def survey(self) -> Iterator[Entry | Unknown]:
        for row in self._rows(None):
            try:
                yield self._entry(row)
            except LakesweepError as error:
                name = _row_name(row)
                yield Unknown(_full_name(self.name, name), name, error)

    def _rows(self, name: Name | None) -> list[Mapping[Any, Any]]:
        from sqlalchemy import MetaData, Table, select
        from sqlalchemy.exc import NoSuchTableError

        try:
            table = Table("iceberg_tables", MetaData(), autoload_with=self.catalog.engine)
            query = select(table).where(table.c.catalog_name == self.catalog.name)
            if name is not None:
                query = query.where(
                    table.c.table_namespace == ".".join(name[:-1]), table.c.table_name == name[-1]
                )
            with self.catalog.engine.connect() as connection:
                return [dict(row) for row in connection.execute(query).mappings()]
        except NoSuchTableError as error:
            raise ConfigError(
                f"the database of catalog {self.name} holds no Iceberg catalog",
                hint="check the uri of the catalog; its database has no table iceberg_tables",
            ) from error
        except Exception as error:
            raise _failed(self.name, name or (), error) from error

    def _entry(self, row: Mapping[Any, Any]) -> Entry:
        name = _row_name(row)
        is_view = row.get("iceberg_type") == "VIEW"
        if not row["metadata_location"]:
            raise IncompleteError(f"catalog {self.name} names no metadata file for {_dotted(name)}")
        return Entry(
            self.name, name, is_view, row["metadata_location"], dict(self.catalog.properties)
        )

    def drop(self, entry: Entry) -> None:
        if entry.is_view:
            raise UsageError(
                f"{entry.full_name} is a view, which this client cannot drop from a SQL catalog",
                hint="drop it with the engine that made it, or run without --drop",
            )
        super().drop(entry)


def _row_name(row: Mapping[Any, Any]) -> Name:
    return (*row["table_namespace"].split("."), row["table_name"])


def _folders(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Where a REST catalog says that files are, whatever else its metadata holds."""
    metadata = answer.get("metadata") or {}
    location = metadata.get("location")
    return (str(location), *write_paths_of(metadata.get("properties") or {})) if location else ()


def _full_name(catalog: str, name: Name) -> str:
    return ".".join(_quote(part) for part in (catalog, *name))


def _quote(part: str) -> str:
    return f'"{part}"' if "." in part else part


def _dotted(name: Name) -> str:
    return ".".join(name)


def _missing(catalog: str, name: Name) -> NotFoundError:
    return NotFoundError(
        f"catalog {catalog} has no table or view {_dotted(name)}",
        hint="write catalog.namespace.table; a part that holds a dot goes in double quotes",
    )


def _failed(catalog: str, name: Name, error: Exception) -> LakesweepError:
    if isinstance(error, LakesweepError):
        return error
    if type(error).__name__ in {"NoSuchTableError", "NoSuchViewError", "NoSuchNamespaceError"}:
        return _missing(catalog, name)
    return IncompleteError(
        f"catalog {catalog} did not answer for {_dotted(name) or 'its namespaces'}: {error}",
        hint="lakesweep doctor",
    )


def _unusable(name: str, error: Exception) -> LakesweepError:
    return ConfigError(
        f"catalog {name} cannot be opened: {error}",
        hint="name it in an iceberg-catalog root of lakesweep.toml, or in PyIceberg's own file",
    )
