"""What catalogs report about tables and views, and the adapter for any PyIceberg catalog.

The adapter uses only what all catalogs offer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from lakesweep.errors import IncompleteError, LakesweepError, NotFoundError
from lakesweep.iceberg.metadata import write_paths_of
from lakesweep.parallel import map_ordered
from lakesweep.storage.wrappers.run_load import Pace, no_pace

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog as PyIcebergCatalog


Answer = TypeVar("Answer")
_MOST_NAMESPACES = 100_000
_DEEPEST = 64
Name = tuple[str, ...]


@dataclass(frozen=True)
class GenericCatalogAdapter:
    """A catalog that can only load whole tables, such as BigQuery's.

    `pace` is called before each question, unless the client itself calls it before each request.
    """

    name: str
    catalog: PyIcebergCatalog
    pace: Pace = no_pace

    def find(self, name: Name) -> CatalogEntry:
        table = self.ask(name, lambda: self.catalog.load_table(name))
        folders = (table.location(), *write_paths_of(table.properties))
        access = dict(table.io.properties)
        return CatalogEntry(self.name, name, False, table.metadata_location, access, folders)

    def look(self, name: Name) -> CatalogEntry | None:
        try:
            return self.find(name)
        except NotFoundError:
            # Some catalogs say this too of a table whose metadata file is missing.
            if self.is_listed(name):
                raise
            return None

    def survey(self) -> Iterator[CatalogEntry | UnresolvedTable | ForeignTable]:
        names = (name for namespace in self.namespaces() for name in self.names(namespace))
        found = map_ordered(self._survey_one, names, workers=self.requests_at_once)
        return (entry for entry in found if entry is not None)

    def entries(self) -> Iterator[CatalogEntry]:
        for found in self.survey():
            match found:
                case CatalogEntry():
                    yield found
                case UnresolvedTable():
                    raise found.error
                case ForeignTable():
                    pass

    def drop(self, entry: CatalogEntry) -> None:
        drop = self.catalog.drop_view if entry.is_view else self.catalog.drop_table
        self.ask(entry.name, lambda: drop(entry.name))

    def beside(self) -> Sequence[str]:
        return ()

    @property
    def requests_at_once(self) -> int:
        """Not every client is safe to use from several threads."""
        return 1

    def names(self, namespace: Name) -> list[Name]:
        """The tables and views of a namespace."""
        return self.ask(
            namespace, lambda: [tuple(name) for name in self.catalog.list_tables(namespace)]
        )

    def is_listed(self, name: Name) -> bool:
        """Whether the catalog lists a table or view."""
        try:
            return name in self.names(name[:-1])
        except NotFoundError:
            return False  # the namespace was dropped, with everything in it

    def namespaces(self, parent: Name = ()) -> Iterator[Name]:
        """All namespaces inside one. IncompleteError if there is no end to them."""
        for number, namespace in enumerate(self._namespaces(parent), 1):
            # A server may invent another level, or another namespace, for every question.
            if number > _MOST_NAMESPACES or len(namespace) > _DEEPEST:
                raise IncompleteError(
                    f"catalog {self.name} lists namespaces without end, such as"
                    f" {'.'.join(namespace[:5])}",
                    hint="check the server of the catalog",
                )
            yield namespace

    def _namespaces(self, parent: Name) -> Iterator[Name]:
        found = self.ask(
            parent, lambda: [tuple(inner) for inner in self.catalog.list_namespaces(parent)]
        )
        for namespace in found:
            yield namespace
            if len(namespace) > len(parent):
                yield from self._namespaces(namespace)

    def ask(self, name: Name, question: Callable[[], Answer]) -> Answer:
        """Call the client, and translate its errors."""
        self.pace()
        try:
            return question()
        except Exception as error:
            raise client_error(self.name, name, error) from error

    def _survey_one(self, name: Name) -> CatalogEntry | UnresolvedTable | None:
        try:
            return self.look(name)
        except LakesweepError as error:
            return UnresolvedTable(full_name(self.name, name), name, error)


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One table or view as a catalog lists it.

    `access` holds the properties with which the catalog lets its client read the files, such as
    vended credentials; `folders` are where it says the files are.
    """

    catalog: str
    name: Name
    is_view: bool
    metadata_path: str
    access: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    folders: tuple[str, ...] = field(default=(), compare=False)
    #: The source of roots that lists it, if that is not the catalog itself.
    listed_by: str | None = field(default=None, compare=False)

    @property
    def full_name(self) -> str:
        """The name as the command line takes it."""
        return full_name(self.catalog, self.name)

    @property
    def source(self) -> str:
        """The source of roots that lists it."""
        return self.listed_by or f"catalog {self.catalog}"


@dataclass(frozen=True, slots=True)
class UnresolvedTable:
    """A name that a catalog lists without saying where the metadata is."""

    full_name: str
    name: Name
    error: LakesweepError


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """A table of another format in a catalog, with its folders."""

    full_name: str
    folders: tuple[str, ...]


def full_name(catalog: str, name: Name) -> str:
    """A name as the command line takes it."""
    return ".".join(f'"{part}"' if "." in part else part for part in (catalog, *name))


def table_missing(catalog: str, name: Name) -> NotFoundError:
    """The error for a name that is not in a catalog."""
    return NotFoundError(
        f"catalog {catalog} has no table or view {'.'.join(name)}",
        hint="write catalog.namespace.table; put a part that contains a dot in double quotes",
    )


def without_metadata(catalog: str, name: Name) -> IncompleteError:
    """The error for an entry without a metadata file."""
    return IncompleteError(f"catalog {catalog} names no metadata file for {'.'.join(name)}")


def client_error(catalog: str, name: Name, error: Exception) -> LakesweepError:
    """Translate an error of a catalog client; `name` is what was requested."""
    if isinstance(error, LakesweepError):
        return error
    if type(error).__name__ in {"NoSuchTableError", "NoSuchViewError", "NoSuchNamespaceError"}:
        return table_missing(catalog, name)
    return IncompleteError(
        f"catalog {catalog} did not answer for {'.'.join(name) or 'its namespaces'}: {error}",
        hint="lakesweep doctor",
    )
